// Linears: products of rows with a matrix, and what is done to the sums before they are written.
#pragma once

#include "../numeric/functions.h"
#include "products.h"
#include "quantise.h"

namespace draftwalk::DW_ISA {

DW_INLINE int64_t tiles_of(const Matrix& m) { return (m.outputs + TILE - 1) / TILE; }

// Bias, multiplier, cap, residual: in this order.
DW_INLINE Lanes finished(const LinearArgs& args, Lanes sum, int64_t row, int64_t output,
                         int64_t count) {
    if (args.bias) sum = sum + load(args.bias + output, count);
    if (args.multiplier != 1.0f) sum = sum * fill(args.multiplier);
    if (args.softcap != 0.0f) sum = fill(args.softcap) * tanh(sum / fill(args.softcap));
    if (args.residual)
        sum = load(args.residual + row * args.matrix.outputs + output, count) + sum;
    return sum;
}

static void write_tile(const LinearArgs& args, int64_t tile, Panel panel, const float* sums) {
    const int64_t outputs = args.matrix.outputs, output = tile * TILE;
    const int64_t count = outputs - output < TILE ? outputs - output : TILE;
    for (int64_t r = 0; r < panel.count; ++r) {
        const int64_t row = panel.first + r;
        const Lanes value = finished(args, load(sums + r * TILE), row, output, count);
        float* out = args.out + row * outputs + output;
        if (count == TILE) store(out, value);
        else store(out, value, count);
    }
}

// The next panel of `rows`, from `first` on.
DW_INLINE Panel panel_at(int64_t first, int64_t rows) {
    return {first, rows - first < PANEL ? rows - first : PANEL};
}

static void linears(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const auto& args = *static_cast<const LinearsArgs*>(pointer);
    float* sums = scratch.take<float>(PANEL * TILE);
    int64_t before = 0;  // tiles of the parts before this one
    for (int64_t i = 0; i < args.count; ++i) {
        const LinearArgs& part = args.parts[i];
        const int64_t tiles = tiles_of(part.matrix);
        int64_t tile = first > before ? first - before : 0;
        const int64_t end = last - before < tiles ? last - before : tiles;
        if (part.rows == 1 && is_float(part.matrix.layout)) {
            for (; tile + 4 <= end; tile += 4) {
                product_of_four(part, tile, sums);
                for (int64_t t = 0; t < 4; ++t) write_tile(part, tile + t, {0, 1}, sums + t * TILE);
            }
        }
        for (; tile < end; ++tile) {
            for (int64_t row = 0; row < part.rows; row += PANEL) {
                const Panel panel = panel_at(row, part.rows);
                product(part, tile, panel, sums);
                write_tile(part, tile, panel, sums);
            }
        }
        before += tiles;
    }
}

// activation(gate) * up for 32 outputs of a panel's rows.
static void gate_unit(const GatedArgs& args, int64_t unit, Panel panel, float* gate, float* up,
                      float* values) {
    const int64_t outputs = args.gate.matrix.outputs, tiles = tiles_of(args.gate.matrix);
    for (int64_t half = 0; half < GROUP / TILE; ++half) {
        const int64_t tile = unit * (GROUP / TILE) + half, output = tile * TILE;
        if (tile >= tiles) break;
        const int64_t count = outputs - output < TILE ? outputs - output : TILE;
        product(args.gate, tile, panel, gate);
        product(args.up, tile, panel, up);
        for (int64_t r = 0; r < panel.count; ++r) {
            const int64_t row = panel.first + r;
            const Lanes g = finished(args.gate, load(gate + r * TILE), row, output, count);
            const Lanes u = finished(args.up, load(up + r * TILE), row, output, count);
            const Lanes a = args.activation == Activation::silu ? silu(g) : gelu_tanh(g);
            const Lanes value = a * u;
            store(values + r * GROUP + half * TILE, value);
            if (args.out) store(args.out + row * outputs + output, value, count);
        }
    }
    if (!args.quantised.values) return;
    for (int64_t r = 0; r < panel.count; ++r)
        quantise_group(values + r * GROUP, args.quantised, unit, panel.first + r, args.gate.rows);
}

static void gated(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const auto& args = *static_cast<const GatedArgs*>(pointer);
    float* gate = scratch.take<float>(PANEL * TILE);
    float* up = scratch.take<float>(PANEL * TILE);
    float* values = scratch.take<float>(PANEL * GROUP);
    for (int64_t unit = first; unit < last; ++unit) {
        for (int64_t row = 0; row < args.gate.rows; row += PANEL)
            gate_unit(args, unit, panel_at(row, args.gate.rows), gate, up, values);
    }
}

}  // namespace draftwalk::DW_ISA
