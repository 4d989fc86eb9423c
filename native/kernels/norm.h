// RMS norm of rows.
#pragma once

#include "quantise.h"
#include "rows.h"

namespace draftwalk::DW_ISA {

// What a norm multiplies x by: 1 / sqrt(mean of squares + eps).
static inline float norm_factor(const float* x, int64_t width, float eps) {
    Lanes squares = zero();
    along(width, [&](int64_t start, int64_t count) {
        const Lanes part = load_part(x + start, count);
        squares = fma(part, part, squares);
    });
    return 1.0f / root(sum(squares) / static_cast<float>(width) + eps);
}

static void norm(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const auto& args = *static_cast<const NormArgs*>(pointer);
    float* unwanted = args.out ? nullptr : scratch.take<float>(args.width);
    for (int64_t row = first; row < last; ++row) {
        const float* x = args.x + row * args.width;
        const float* residual = args.residual ? args.residual + row * args.width : nullptr;
        float* out = args.out ? args.out + row * args.width : unwanted;
        const Lanes factor = fill(norm_factor(x, args.width, args.eps));
        along(args.width, [&](int64_t start, int64_t count) {
            const Lanes weight = load_part(args.weight + start, count);
            Lanes y = load_part(x + start, count) * factor * weight;
            if (residual) y = load_part(residual + start, count) + y;
            store_part(out + start, y, count);
        });
        if (args.quantised.values) quantise_row(out, args.width, args.quantised, row, args.rows);
    }
}

}  // namespace draftwalk::DW_ISA
