// The vocabulary of simd/scalar.h for AVX-512 (F, BW, VL, DQ) with VNNI, FMA and F16C.
#pragma once

// GCC 12 warns of its own intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>
#include <cstring>

#include "../numeric/half.h"
#include "inline.h"

namespace draftwalk::DW_ISA {

struct Lanes {
    __m512 all;
};
struct Ints {
    __m512i all;
};
struct Mask {
    __mmask16 all;
};
struct Codes {
    __m512i all;
};

// ---- floats -------------------------------------------------------------------------------------

DW_INLINE Lanes fill(float value) { return {_mm512_set1_ps(value)}; }
DW_INLINE Lanes zero() { return {_mm512_setzero_ps()}; }
DW_INLINE Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
DW_INLINE __mmask16 first_lanes(int64_t count) {  // the first `count` of 16 lanes
    const unsigned limit = count < 0 ? 0 : count > 16 ? 16 : static_cast<unsigned>(count);
    return static_cast<__mmask16>((1u << limit) - 1);
}
DW_INLINE Lanes load(const float* from, int64_t count) {
    return {_mm512_maskz_loadu_ps(first_lanes(count), from)};
}
DW_INLINE void store(float* to, Lanes x) { _mm512_storeu_ps(to, x.all); }
DW_INLINE void store(float* to, Lanes x, int64_t count) {
    _mm512_mask_storeu_ps(to, first_lanes(count), x.all);
}
DW_INLINE __m256i load_256(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
DW_INLINE Lanes load_half(const uint16_t* from) { return {_mm512_cvtph_ps(load_256(from))}; }
DW_INLINE Lanes load_bfloat(const uint16_t* from) {
    const __m512i words = _mm512_cvtepu16_epi32(load_256(from));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))};
}
DW_INLINE void store_half(uint16_t* to, Lanes x) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(x.all, nearest));
}

DW_INLINE Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.all, b.all)}; }
DW_INLINE Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.all, b.all)}; }
DW_INLINE Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.all, b.all)}; }
DW_INLINE Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.all, b.all)}; }
DW_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
    return {_mm512_fmadd_ps(a.all, b.all, c.all)};
}
DW_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DW_INLINE float root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
DW_INLINE float max(float a, float b) { return a > b ? a : b; }
DW_INLINE Lanes max(Lanes a, Lanes b) { return {_mm512_max_ps(a.all, b.all)}; }
DW_INLINE Lanes min(Lanes a, Lanes b) { return {_mm512_min_ps(a.all, b.all)}; }
DW_INLINE Mask less(Lanes a, Lanes b) {
    return {_mm512_cmp_ps_mask(a.all, b.all, _CMP_LT_OQ)};
}
DW_INLINE Lanes select(Mask m, Lanes yes, Lanes no) {
    return {_mm512_mask_blend_ps(m.all, no.all, yes.all)};
}

DW_INLINE float sum(Lanes x) {
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(x.all), _mm512_extractf32x8_ps(x.all, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
DW_INLINE float greatest(Lanes x) {
    const __m256 eight =
        _mm256_max_ps(_mm512_castps512_ps256(x.all), _mm512_extractf32x8_ps(x.all, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// ---- integers -------------------------------------------------------------------------------------

DW_INLINE Ints fill_ints(int32_t value) { return {_mm512_set1_epi32(value)}; }
DW_INLINE Ints load_ints(const int32_t* from) { return {_mm512_loadu_si512(from)}; }
DW_INLINE void store_ints(int32_t* to, Ints x) { _mm512_storeu_si512(to, x.all); }
DW_INLINE __m128i load_128(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
DW_INLINE Ints load_signed(const int8_t* from) {
    return {_mm512_cvtepi8_epi32(load_128(from))};
}
DW_INLINE Ints load_unsigned(const uint8_t* from) {
    return {_mm512_cvtepu8_epi32(load_128(from))};
}
DW_INLINE void store_signed(int8_t* to, Ints x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(x.all));
}
DW_INLINE Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.all, b.all)}; }
DW_INLINE Ints operator-(Ints a, Ints b) { return {_mm512_sub_epi32(a.all, b.all)}; }
DW_INLINE Ints operator*(Ints a, Ints b) { return {_mm512_mullo_epi32(a.all, b.all)}; }
DW_INLINE Ints operator&(Ints a, Ints b) { return {_mm512_and_si512(a.all, b.all)}; }
DW_INLINE Ints operator|(Ints a, Ints b) { return {_mm512_or_si512(a.all, b.all)}; }
template <int N>
DW_INLINE Ints shift_left(Ints a) {
    return {_mm512_slli_epi32(a.all, N)};
}
template <int N>
DW_INLINE Ints shift_right(Ints a) {
    return {_mm512_srai_epi32(a.all, N)};
}
DW_INLINE Ints max(Ints a, Ints b) { return {_mm512_max_epi32(a.all, b.all)}; }
DW_INLINE Mask greater(Ints a, Ints b) { return {_mm512_cmpgt_epi32_mask(a.all, b.all)}; }
DW_INLINE Ints select(Mask m, Ints yes, Ints no) {
    return {_mm512_mask_blend_epi32(m.all, no.all, yes.all)};
}
DW_INLINE int32_t greatest(Ints x) {
    const __m256i eight =
        _mm256_max_epi32(_mm512_castsi512_si256(x.all), _mm512_extracti32x8_epi32(x.all, 1));
    const __m128i four =
        _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
DW_INLINE uint32_t bits_of(Mask m) { return m.all; }

DW_INLINE Ints to_ints(Lanes x) { return {_mm512_cvtps_epi32(x.all)}; }
DW_INLINE Lanes to_floats(Ints x) { return {_mm512_cvtepi32_ps(x.all)}; }
DW_INLINE Ints bits(Lanes x) { return {_mm512_castps_si512(x.all)}; }
DW_INLINE Lanes from_bits(Ints x) { return {_mm512_castsi512_ps(x.all)}; }

// ---- codes of weights -----------------------------------------------------------------------------

// Tells the compiler to keep codes in registers, where it needs to be told.
DW_INLINE void keep(const Codes&) {}
DW_INLINE Codes load_codes(const uint8_t* from) { return {_mm512_loadu_si512(from)}; }
DW_INLINE void store_codes(uint8_t* to, Codes x) { _mm512_storeu_si512(to, x.all); }
template <int From, int Width, int To>
DW_INLINE Codes field(Codes x) {
    // Shifts move 16 bits at a time; the mask drops what crossed into a byte.
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(((1 << Width) - 1) << To));
    if constexpr (From > To) x.all = _mm512_srli_epi16(x.all, From - To);
    if constexpr (From < To) x.all = _mm512_slli_epi16(x.all, To - From);
    return {_mm512_and_si512(x.all, mask)};
}
DW_INLINE Codes operator|(Codes a, Codes b) { return {_mm512_or_si512(a.all, b.all)}; }
DW_INLINE Codes look_up(Codes x, const uint8_t* table) {
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_128(table)), x.all)};
}

// ---- integer dot products -------------------------------------------------------------------------
//
// vpdpbusd adds the four products of an output to its 32-bit sum, exactly for any codes.

DW_INLINE __m512i add_products(__m512i sum, __m512i codes, const int8_t* four) {
    int32_t activations;
    memcpy(&activations, four, 4);
    return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(activations));
}

struct Narrow {
    __m512i all;
};
DW_INLINE Narrow narrow_half(const int16_t parts[2], int32_t offset) {
    return {_mm512_set1_epi32(-offset * (parts[0] + parts[1]))};
}
DW_INLINE Narrow narrow(const int16_t parts[4], int32_t offset) {
    return {_mm512_set1_epi32(-offset * (parts[0] + parts[1] + parts[2] + parts[3]))};
}
DW_INLINE void accumulate(Narrow& sum, const Codes& codes, const int8_t* four) {
    sum.all = add_products(sum.all, codes.all, four);
}
DW_INLINE Ints finish(const Narrow& sum) { return {sum.all}; }

struct Scales {
    __m512i all;
};
DW_INLINE Scales load_scales(const int8_t* from) {
    return {_mm512_cvtepi8_epi32(load_128(from))};
}
DW_INLINE Ints finish(const Narrow& sum, Scales scales) {
    return {_mm512_mullo_epi32(sum.all, scales.all)};
}

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
    __m512i all;
};
DW_INLINE Wide wide(const int16_t parts[4]) {
    return {_mm512_set1_epi32(-128 * (parts[0] + parts[1] + parts[2] + parts[3]))};
}
DW_INLINE void accumulate(Wide& sum, const WideCodes& codes, const WideInputs& inputs, int quad) {
    sum.all = add_products(sum.all, codes.all, inputs.values + 4 * quad);
}
DW_INLINE Ints finish(const Wide& sum) { return {sum.all}; }

// Rows whose sums are kept in registers together.
constexpr int NARROW_ROWS = 8;
constexpr int WIDE_ROWS = 8;

}  // namespace draftwalk::DW_ISA
