// Activations to int8: a scale per row and group of 32 inputs.
#pragma once

#include "kernels.h"

namespace draftwalk::DW_ISA {

// Of eight bytes in memory, the sums of neighbours in four fields of 16 bits, each 256 too great.
DW_INLINE uint64_t pair_sums(const int8_t* eight) {
    uint64_t bytes;
    memcpy(&bytes, eight, 8);
    bytes ^= 0x8080808080808080u;
    return (bytes & 0x00ff00ff00ff00ffu) + (bytes >> 8 & 0x00ff00ff00ff00ffu);
}

// Quantises one group of a row. A NaN or an infinity makes the scale NaN, and with it every output
// of the row, so that its sequence ends with an error and no other row notices.
DW_INLINE void quantise_group(const float* x, Quantised out, int64_t group, int64_t row,
                                  int64_t rows) {
    const Lanes first = load(x), second = load(x + 16);
    const Ints magnitude = fill_ints(0x7fffffff);
    const int32_t peak = greatest(max(bits(first) & magnitude, bits(second) & magnitude));
    const int64_t entry = group * rows + row;
    int8_t* values = out.values + entry * GROUP;
    int16_t* parts = out.parts + entry * 4;
    const int32_t smallest = 0x0d800000, infinite = 0x7f800000;  // 2^-100
    if (peak < smallest || peak >= infinite) {
        memset(values, 0, GROUP);
        memset(parts, 0, 4 * sizeof(int16_t));
        const int32_t not_a_number = 0x7fc00000;
        float scale = 0.0f;
        if (peak >= infinite) memcpy(&scale, &not_a_number, 4);
        out.scales[entry] = scale;
        out.sums[entry] = scale;
        return;
    }
    float largest;
    memcpy(&largest, &peak, 4);
    const float scale = largest / 127.0f;
    const Lanes inverse = fill(127.0f / largest);
    store_signed(values, to_ints(first * inverse));
    store_signed(values + 16, to_ints(second * inverse));
    int32_t total = 0;
    for (int half = 0; half < 2; ++half) {
        const uint64_t pairs = pair_sums(values + 16 * half) + pair_sums(values + 16 * half + 8);
        const uint64_t both = pairs + (pairs >> 32);  // two sums of eight bytes
        const int32_t low = static_cast<int32_t>(both & 0xffff) - 8 * 128;
        const int32_t high = static_cast<int32_t>(both >> 16 & 0xffff) - 8 * 128;
        parts[2 * half] = static_cast<int16_t>(low);
        parts[2 * half + 1] = static_cast<int16_t>(high);
        total += low + high;
    }
    out.scales[entry] = scale;
    out.sums[entry] = scale * static_cast<float>(total);
}

DW_INLINE void quantise_row(const float* x, int64_t width, Quantised out, int64_t row,
                                int64_t rows) {
    for (int64_t group = 0; group < width / GROUP; ++group)
        quantise_group(x + group * GROUP, out, group, row, rows);
}

static void quantise(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const QuantiseArgs*>(pointer);
    for (int64_t row = first; row < last; ++row)
        quantise_row(args.x + row * args.width, args.width, args.out, row, args.rows);
}

}  // namespace draftwalk::DW_ISA
