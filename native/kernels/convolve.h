// DFlash2's grouped dynamic convolution along each span.
#pragma once

#include "quantise.h"
#include "rows.h"

namespace draftwalk::DW_ISA {

// Inputs of a row: itself, the row before it, and so on; returns how many of the taps there are.
static inline int64_t inputs_of(const ConvolveArgs& args, int64_t row, const float** inputs) {
    int64_t count = 0;
    for (int64_t at = row; at >= 0 && count < args.taps; at = args.rows->parents[at])
        inputs[count++] = args.x + at * args.width;
    return count;
}

static inline void convolve_row(const ConvolveArgs& args, int64_t row, const float** inputs,
                                float* out) {
    const int64_t taps = inputs_of(args, row, inputs);
    const float* dynamic = args.dynamic + (2 * row + args.side) * args.taps * args.groups;
    const float* base = args.base + args.side * args.taps * args.width;
    const float* residual = args.residual ? args.residual + row * args.width : nullptr;
    const int64_t size = args.width / args.groups;
    for (int64_t group = 0; group < args.groups; ++group)
        along(size, [&](int64_t start, int64_t count) {
            const int64_t at = group * size + start;
            Lanes y = zero();
            for (int64_t tap = 0; tap < taps; ++tap) {
                const Lanes kernel = load_part(base + tap * args.width + at, count) +
                                     fill(dynamic[tap * args.groups + group]);
                y = fma(kernel, load_part(inputs[tap] + at, count), y);
            }
            if (residual) y = load_part(residual + at, count) + y;
            store_part(out + at, y, count);
        });
}

static void convolve(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const auto& args = *static_cast<const ConvolveArgs*>(pointer);
    auto* inputs = scratch.take<const float*>(args.taps);
    float* unwanted = args.out ? nullptr : scratch.take<float>(args.width);
    for (int64_t row = first; row < last; ++row) {
        float* out = args.out ? args.out + row * args.width : unwanted;
        convolve_row(args, row, inputs, out);
        if (args.quantised.values)
            quantise_row(out, args.width, args.quantised, row, args.rows->size);
    }
}

}  // namespace draftwalk::DW_ISA
