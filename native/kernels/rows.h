// Moving rows, and walking along one.
#pragma once

#include "kernels.h"

namespace draftwalk::DW_ISA {

// Does `body(start, count)` for every 16 values of a row, and for the rest if there is one: `count`
// is a constant in all but the last.
template <class Body>
DW_INLINE void along(int64_t width, Body body) {
    int64_t start = 0;
    for (; start + 16 <= width; start += 16) body(start, int64_t{16});
    if (start < width) body(start, width - start);
}

DW_INLINE Lanes load_part(const float* from, int64_t count) {
    return count == 16 ? load(from) : load(from, count);
}
DW_INLINE void store_part(float* to, Lanes x, int64_t count) {
    if (count == 16) store(to, x);
    else store(to, x, count);
}

// Whether all numbers that went into `check` by `check = fma(x, zero(), check)` are finite.
DW_INLINE bool all_finite(Lanes check) { return bits_of(less(check, fill(1.0f))) == 0xffff; }

static void gather(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const GatherArgs*>(pointer);
    const size_t bytes = static_cast<size_t>(args.width) * sizeof(float);
    for (int64_t row = first; row < last; ++row)
        memcpy(args.out + row * args.width, args.x + args.index[row] * args.width, bytes);
}

static void join(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const JoinArgs*>(pointer);
    int64_t width = 0;
    for (int64_t i = 0; i < args.count; ++i) width += args.widths[i];
    for (int64_t row = first; row < last; ++row) {
        float* out = args.out + row * width;
        for (int64_t i = 0; i < args.count; ++i) {
            const size_t bytes = static_cast<size_t>(args.widths[i]) * sizeof(float);
            memcpy(out, args.parts[i] + row * args.widths[i], bytes);
            out += args.widths[i];
        }
    }
}

}  // namespace draftwalk::DW_ISA
