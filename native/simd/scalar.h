// The vocabulary of the kernels in plain C++: the oracle that other instruction sets equal.
//
// `Lanes` are 16 floats, `Ints` 16 int32, `Mask` 16 truths, `Codes` 64 bytes (4 inputs of each of
// 16 outputs). `Narrow` and `Wide` are integer dot products in the making.
#pragma once

#include <cstdint>
#include <cstring>

#include "../numeric/half.h"
#include "inline.h"

namespace draftwalk::DW_ISA {

struct Lanes {
    float at[16];
};
struct Ints {
    int32_t at[16];
};
struct Mask {
    bool at[16];
};
struct Codes {
    uint8_t at[64];
};

#define DW_EACH for (int i = 0; i < 16; ++i)

// ---- floats -------------------------------------------------------------------------------------

DW_INLINE Lanes fill(float value) {
    Lanes r;
    DW_EACH r.at[i] = value;
    return r;
}
DW_INLINE Lanes zero() { return fill(0.0f); }
DW_INLINE Lanes load(const float* from) {
    Lanes r;
    memcpy(r.at, from, 64);
    return r;
}
// The first `count` values (0 to 16), the rest +0.
DW_INLINE Lanes load(const float* from, int64_t count) {
    Lanes r;
    DW_EACH r.at[i] = i < count ? from[i] : 0.0f;
    return r;
}
DW_INLINE void store(float* to, Lanes x) { memcpy(to, x.at, 64); }
DW_INLINE void store(float* to, Lanes x, int64_t count) {
    DW_EACH if (i < count) to[i] = x.at[i];
}
DW_INLINE Lanes load_half(const uint16_t* from) {
    Lanes r;
    DW_EACH r.at[i] = float_from_half(from[i]);
    return r;
}
DW_INLINE Lanes load_bfloat(const uint16_t* from) {
    Lanes r;
    DW_EACH r.at[i] = float_from_bfloat(from[i]);
    return r;
}
DW_INLINE void store_half(uint16_t* to, Lanes x) {
    DW_EACH to[i] = half_from_float(x.at[i]);
}

DW_INLINE Lanes operator+(Lanes a, Lanes b) {
    DW_EACH a.at[i] = a.at[i] + b.at[i];
    return a;
}
DW_INLINE Lanes operator-(Lanes a, Lanes b) {
    DW_EACH a.at[i] = a.at[i] - b.at[i];
    return a;
}
DW_INLINE Lanes operator*(Lanes a, Lanes b) {
    DW_EACH a.at[i] = a.at[i] * b.at[i];
    return a;
}
DW_INLINE Lanes operator/(Lanes a, Lanes b) {
    DW_EACH a.at[i] = a.at[i] / b.at[i];
    return a;
}
// a * b + c, rounded once.
DW_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
    DW_EACH c.at[i] = __builtin_fmaf(a.at[i], b.at[i], c.at[i]);
    return c;
}
DW_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DW_INLINE float root(float x) { return __builtin_sqrtf(x); }
// b where a is not greater, so also where either is NaN.
DW_INLINE float max(float a, float b) { return a > b ? a : b; }
DW_INLINE Lanes max(Lanes a, Lanes b) {
    DW_EACH a.at[i] = a.at[i] > b.at[i] ? a.at[i] : b.at[i];
    return a;
}
// b where a is not less.
DW_INLINE Lanes min(Lanes a, Lanes b) {
    DW_EACH a.at[i] = a.at[i] < b.at[i] ? a.at[i] : b.at[i];
    return a;
}
DW_INLINE Mask less(Lanes a, Lanes b) {
    Mask r;
    DW_EACH r.at[i] = a.at[i] < b.at[i];
    return r;
}
DW_INLINE Lanes select(Mask m, Lanes yes, Lanes no) {
    DW_EACH no.at[i] = m.at[i] ? yes.at[i] : no.at[i];
    return no;
}

// Reductions: 16 to 8 (i with i + 8), 8 to 4, 4 to 2, 2 to 1.
DW_INLINE float sum(Lanes x) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; ++i) x.at[i] = x.at[i] + x.at[i + half];
    return x.at[0];
}
DW_INLINE float greatest(Lanes x) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; ++i) x.at[i] = max(x.at[i], x.at[i + half]);
    return x.at[0];
}

// ---- integers -------------------------------------------------------------------------------------

DW_INLINE Ints fill_ints(int32_t value) {
    Ints r;
    DW_EACH r.at[i] = value;
    return r;
}
DW_INLINE Ints load_ints(const int32_t* from) {
    Ints r;
    memcpy(r.at, from, 64);
    return r;
}
DW_INLINE void store_ints(int32_t* to, Ints x) { memcpy(to, x.at, 64); }
DW_INLINE Ints load_signed(const int8_t* from) {
    Ints r;
    DW_EACH r.at[i] = from[i];
    return r;
}
DW_INLINE Ints load_unsigned(const uint8_t* from) {
    Ints r;
    DW_EACH r.at[i] = from[i];
    return r;
}
// Values must fit.
DW_INLINE void store_signed(int8_t* to, Ints x) {
    DW_EACH to[i] = static_cast<int8_t>(x.at[i]);
}
DW_INLINE Ints operator+(Ints a, Ints b) {
    DW_EACH a.at[i] = static_cast<int32_t>(static_cast<uint32_t>(a.at[i]) + static_cast<uint32_t>(b.at[i]));
    return a;
}
DW_INLINE Ints operator-(Ints a, Ints b) {
    DW_EACH a.at[i] = static_cast<int32_t>(static_cast<uint32_t>(a.at[i]) - static_cast<uint32_t>(b.at[i]));
    return a;
}
DW_INLINE Ints operator*(Ints a, Ints b) {
    DW_EACH a.at[i] = static_cast<int32_t>(static_cast<uint32_t>(a.at[i]) * static_cast<uint32_t>(b.at[i]));
    return a;
}
DW_INLINE Ints operator&(Ints a, Ints b) {
    DW_EACH a.at[i] &= b.at[i];
    return a;
}
DW_INLINE Ints operator|(Ints a, Ints b) {
    DW_EACH a.at[i] |= b.at[i];
    return a;
}
template <int N>
DW_INLINE Ints shift_left(Ints a) {
    DW_EACH a.at[i] = static_cast<int32_t>(static_cast<uint32_t>(a.at[i]) << N);
    return a;
}
template <int N>
DW_INLINE Ints shift_right(Ints a) {  // of the sign, too
    DW_EACH a.at[i] >>= N;
    return a;
}
DW_INLINE Ints max(Ints a, Ints b) {
    DW_EACH a.at[i] = a.at[i] > b.at[i] ? a.at[i] : b.at[i];
    return a;
}
DW_INLINE Mask greater(Ints a, Ints b) {
    Mask r;
    DW_EACH r.at[i] = a.at[i] > b.at[i];
    return r;
}
DW_INLINE Ints select(Mask m, Ints yes, Ints no) {
    DW_EACH no.at[i] = m.at[i] ? yes.at[i] : no.at[i];
    return no;
}
DW_INLINE int32_t greatest(Ints x) {
    int32_t r = x.at[0];
    DW_EACH r = x.at[i] > r ? x.at[i] : r;
    return r;
}
// Bit i is lane i.
DW_INLINE uint32_t bits_of(Mask m) {
    uint32_t r = 0;
    DW_EACH r |= static_cast<uint32_t>(m.at[i]) << i;
    return r;
}

// To the nearest integer, ties to even; values must fit.
DW_INLINE Ints to_ints(Lanes x) {
    Ints r;
    DW_EACH r.at[i] = static_cast<int32_t>(__builtin_rintf(x.at[i]));
    return r;
}
DW_INLINE Lanes to_floats(Ints x) {
    Lanes r;
    DW_EACH r.at[i] = static_cast<float>(x.at[i]);
    return r;
}
DW_INLINE Ints bits(Lanes x) {
    Ints r;
    memcpy(r.at, x.at, 64);
    return r;
}
DW_INLINE Lanes from_bits(Ints x) {
    Lanes r;
    memcpy(r.at, x.at, 64);
    return r;
}

// ---- codes of weights -----------------------------------------------------------------------------

// Tells the compiler to keep codes in registers, where it needs to be told.
DW_INLINE void keep(const Codes&) {}
DW_INLINE Codes load_codes(const uint8_t* from) {
    Codes r;
    memcpy(r.at, from, 64);
    return r;
}
DW_INLINE void store_codes(uint8_t* to, Codes x) { memcpy(to, x.at, 64); }
// Bits From to From + Width - 1 of every byte, moved to bit To.
template <int From, int Width, int To>
DW_INLINE Codes field(Codes x) {
    for (uint8_t& byte : x.at) byte = static_cast<uint8_t>((byte >> From & ((1 << Width) - 1)) << To);
    return x;
}
DW_INLINE Codes operator|(Codes a, Codes b) {
    for (int i = 0; i < 64; ++i) a.at[i] |= b.at[i];
    return a;
}
// table[byte] for bytes 0 to 15.
DW_INLINE Codes look_up(Codes x, const uint8_t* table) {
    for (uint8_t& byte : x.at) byte = table[byte];
    return x;
}

// ---- integer dot products -------------------------------------------------------------------------
//
// `parts` are a group's sums of activations: inputs 0-15 and then 16-31, each split into those with
// (input mod 4) in {0, 1} and in {2, 3}.
//
// `Narrow`: unsigned codes of up to 6 bits, less `offset`, of half a group or a whole one. What one
// of the two kinds of inputs adds to a sum, offset subtracted, must fit 16 bits.

struct Narrow {
    int32_t at[16];
};
DW_INLINE Narrow narrow_half(const int16_t parts[2], int32_t offset) {
    Narrow r;
    DW_EACH r.at[i] = -offset * (parts[0] + parts[1]);
    return r;
}
DW_INLINE Narrow narrow(const int16_t parts[4], int32_t offset) {
    Narrow r;
    DW_EACH r.at[i] = -offset * (parts[0] + parts[1] + parts[2] + parts[3]);
    return r;
}
// Adds the products of four activations, the same for all outputs.
DW_INLINE void accumulate(Narrow& sum, const Codes& codes, const int8_t* four) {
    DW_EACH for (int j = 0; j < 4; ++j) sum.at[i] += codes.at[4 * i + j] * four[j];
}
DW_INLINE Ints finish(const Narrow& sum) {
    Ints r;
    memcpy(r.at, sum.at, 64);
    return r;
}

// Integer scales of the outputs, ready for `finish`.
struct Scales {
    int8_t at[16];
};
DW_INLINE Scales load_scales(const int8_t* from) {
    Scales r;
    memcpy(r.at, from, 16);
    return r;
}
DW_INLINE Ints finish(const Narrow& sum, Scales scales) {
    Ints r;
    DW_EACH r.at[i] = sum.at[i] * scales.at[i];
    return r;
}

// `Wide`: a whole group of 8-bit weights, stored as codes = weight + 128.
// `WideCodes` and `WideInputs` (a group's 32 activations) are codes and activations made ready.
using WideCodes = Codes;
DW_INLINE WideCodes widen(Codes codes) { return codes; }
constexpr int64_t WIDE_CODES_BYTES = 64;
DW_INLINE void store_wide_codes(uint8_t* to, const WideCodes& x) { store_codes(to, x); }
DW_INLINE WideCodes load_wide_codes(const uint8_t* from) { return load_codes(from); }
struct WideInputs {
    const int8_t* values;
};
DW_INLINE WideInputs widen(const int8_t* values) { return {values}; }
struct Wide {
    int32_t at[16];
};
DW_INLINE Wide wide(const int16_t parts[4]) {
    Wide r;
    DW_EACH r.at[i] = -128 * (parts[0] + parts[1] + parts[2] + parts[3]);
    return r;
}
DW_INLINE void accumulate(Wide& sum, const WideCodes& codes, const WideInputs& inputs,
                              int quad) {
    DW_EACH for (int j = 0; j < 4; ++j)
        sum.at[i] += codes.at[4 * i + j] * inputs.values[4 * quad + j];
}
DW_INLINE Ints finish(const Wide& sum) {
    Ints r;
    memcpy(r.at, sum.at, 64);
    return r;
}

#undef DW_EACH

// Rows whose sums are kept in registers together.
constexpr int NARROW_ROWS = 1;
constexpr int WIDE_ROWS = 1;

}  // namespace draftwalk::DW_ISA
