// DFlash2's transition scores: what each candidate of a row gains after each of the row before.
#pragma once

#include "rows.h"
#include "unpack.h"

namespace draftwalk::DW_ISA {

// Products of four rows with one, on lanes.
static inline void products(const float* four, const float* one, int64_t rank, float* out) {
    Lanes sums[4] = {zero(), zero(), zero(), zero()};
    along(rank, [&](int64_t start, int64_t count) {
        const Lanes part = load_part(one + start, count);
        for (int i = 0; i < 4; ++i)
            sums[i] = fma(load_part(four + i * rank + start, count), part, sums[i]);
    });
    for (int i = 0; i < 4; ++i) out[i] = sum(sums[i]);
}

// The row's table entries times its gate; nothing for what is no token.
static inline void gated_row(const SelectorArgs& args, int64_t token, const float* gate,
                             float* out) {
    if (token >= 0 && token < args.before.outputs) unpack_row(args.before, token, out);
    else memset(out, 0, static_cast<size_t>(args.rank) * sizeof(float));
    along(args.rank, [&](int64_t start, int64_t count) {
        store_part(out + start, load_part(out + start, count) * load_part(gate + start, count),
                   count);
    });
}

// The drafted row's number among its span's, and the token that the span begins with.
struct Drafted {
    int64_t index, anchor;
};

static inline Drafted drafted_at(const RowTable& rows, int64_t drafted) {
    for (int64_t n = 0; n < rows.span_count; ++n) {
        const Span& span = rows.spans[n];
        const int64_t count = span.stop - span.start - 1;
        if (drafted < count) return {drafted, rows.tokens[span.start]};
        drafted -= count;
    }
    return {0, -1};
}

static void selector(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const auto& args = *static_cast<const SelectorArgs*>(pointer);
    const int64_t k = args.k, rank = args.rank, fours = (k + 3) / 4 * 4;
    float* before = scratch.take<float>(fours * rank);
    float* after = scratch.take<float>(rank);
    float* column = scratch.take<float>(fours);
    memset(before, 0, static_cast<size_t>(fours * rank) * sizeof(float));
    for (int64_t row = first; row < last; ++row) {
        const Drafted drafted = drafted_at(*args.rows, row);
        const bool one = drafted.index == 0;  // only the anchor comes before it
        const float* gate = args.gate + row * rank;
        const int64_t* candidates = args.candidates + row * k;
        for (int64_t p = 0; p < (one ? 1 : k); ++p)
            gated_row(args, one ? drafted.anchor : candidates[p - k], gate, before + p * rank);
        float* out = args.out + row * k * k;
        for (int64_t c = 0; c < k; ++c) {
            unpack_row(args.after, candidates[c], after);
            for (int64_t p = 0; p < (one ? 1 : k); p += 4)
                products(before + p * rank, after, rank, column + p);
            for (int64_t p = 0; p < k; ++p)
                out[p * k + c] = args.unary[row * k + c] + column[one ? 0 : p];
        }
    }
}

}  // namespace draftwalk::DW_ISA
