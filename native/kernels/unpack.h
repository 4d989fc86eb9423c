// From a file's blocks to tiles, and from tiles (or blocks as stored) to fp32 rows.
#pragma once

#include "formats.h"

namespace draftwalk::DW_ISA {

// ---- packing ----------------------------------------------------------------------------------------

struct PackTile {
    const PackArgs& args;
    int64_t tile;

    template <class F>
    DW_INLINE_MEMBER void quantised() const {
        const int64_t blocks = args.matrix.inputs / (GROUP * F::GROUPS);
        each_output([&](int output, const uint8_t* source, uint8_t* to) {
            for (int64_t b = 0; b < blocks; ++b)
                F::pack_one(source + b * F::SOURCE_BYTES, to + b * F::BYTES, output);
        }, blocks * F::SOURCE_BYTES);
    }
    template <class F>
    DW_INLINE_MEMBER void floats() const {
        each_output([&](int output, const uint8_t* source, uint8_t* to) {
            for (int64_t k = 0; k < args.matrix.inputs; ++k)
                memcpy(to + k * F::BYTES + output * F::SOURCE_BYTES, source + k * F::SOURCE_BYTES,
                       F::SOURCE_BYTES);
        }, args.matrix.inputs * F::SOURCE_BYTES);
    }

private:
    template <class Body>
    DW_INLINE_MEMBER void each_output(const Body& body, int64_t row_bytes) const {
        uint8_t* to = args.out + tile * args.matrix.tile_bytes;
        memset(to, 0, static_cast<size_t>(args.matrix.tile_bytes));
        for (int64_t o = 0; o < TILE; ++o) {
            const int64_t row = tile * TILE + o;
            if (row < args.matrix.outputs)
                body(static_cast<int>(o), args.source + row * row_bytes, to);
        }
    }
};

static void pack(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const PackArgs*>(pointer);
    for (int64_t tile = first; tile < last; ++tile)
        with_format(args.matrix.layout, PackTile{args, tile});
}

// ---- unpacking --------------------------------------------------------------------------------------

// The 32 weights of one output of a group. Products of factors and codes are exact in fp32, so that
// these are the values that the format defines.
template <class F>
static void unpack_group(const uint8_t* block, int group, int output, float* out) {
    const Factors factors = F::factors(block, group);
    float scales[TILE], minima[TILE];
    store(scales, factors.scale);
    if constexpr (F::MINIMA) store(minima, factors.minimum);
    for (int k = 0; k < GROUP; ++k) {
        const int code = F::code(block, group, k, output) - F::OFFSET;
        float scale = scales[output];
        if constexpr (F::SUM == Sum::halves)
            scale = scale * static_cast<float>(F::half_scale(block, group, k / 16, output));
        if constexpr (F::MINIMA) {
            float minimum = minima[output];
            if constexpr (F::SUM == Sum::halves)
                minimum = minimum * static_cast<float>(F::half_minimum(block, group, k / 16, output));
            out[k] = fma(scale, static_cast<float>(code), minimum);
        } else {
            out[k] = scale * static_cast<float>(code);
        }
    }
}

struct UnpackRow {
    const Matrix& matrix;
    int64_t row;
    float* out;

    template <class F>
    DW_INLINE_MEMBER void quantised() const {
        const int64_t groups = matrix.inputs / GROUP;
        if (!matrix.as_stored) {
            const uint8_t* tile = matrix.data + row / TILE * matrix.tile_bytes;
            for (int64_t g = 0; g < groups; ++g)
                unpack_group<F>(tile + g / F::GROUPS * F::BYTES, static_cast<int>(g % F::GROUPS),
                                static_cast<int>(row % TILE), out + g * GROUP);
            return;
        }
        const uint8_t* source = matrix.data + row * matrix.tile_bytes;
        alignas(64) uint8_t block[F::BYTES];
        for (int64_t b = 0; b < groups / F::GROUPS; ++b) {
            memset(block, 0, F::BYTES);
            F::pack_one(source + b * F::SOURCE_BYTES, block, 0);
            for (int g = 0; g < F::GROUPS; ++g)
                unpack_group<F>(block, g, 0, out + (b * F::GROUPS + g) * GROUP);
        }
    }
    template <class F>
    DW_INLINE_MEMBER void floats() const {
        const uint8_t* from = matrix.data + row * matrix.tile_bytes;
        int64_t step = F::SOURCE_BYTES;
        if (!matrix.as_stored) {
            from = matrix.data + row / TILE * matrix.tile_bytes + row % TILE * F::SOURCE_BYTES;
            step = F::BYTES;
        }
        for (int64_t k = 0; k < matrix.inputs; ++k) out[k] = F::weight(from + k * step);
    }
};

// Row `row` (an output) of a matrix in fp32: out[inputs].
static inline void unpack_row(const Matrix& matrix, int64_t row, float* out) {
    with_format(matrix.layout, UnpackRow{matrix, row, out});
}

static void unpack(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const UnpackArgs*>(pointer);
    for (int64_t row = first; row < last; ++row)
        unpack_row(args.matrix, args.index ? args.index[row] : row, args.out + row * args.matrix.inputs);
}

static void embed(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const EmbedArgs*>(pointer);
    const int64_t width = args.table.inputs;
    for (int64_t row = first; row < last; ++row) {
        float* out = args.out + row * width;
        const int64_t token = args.rows->tokens[row];
        if (token < 0) {
            memcpy(out, args.rows->embeddings + (-1 - token) * width,
                   static_cast<size_t>(width) * sizeof(float));
            continue;
        }
        unpack_row(args.table, token, out);
        for (int64_t i = 0; i < width; ++i) out[i] = out[i] * args.scale;
    }
}

}  // namespace draftwalk::DW_ISA
