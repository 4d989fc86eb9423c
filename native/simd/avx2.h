// The vocabulary of simd/scalar.h for AVX2 with FMA and F16C.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "../numeric/half.h"
#include "inline.h"

namespace draftwalk::DW_ISA {

struct Lanes {
    __m256 low, high;
};
struct Ints {
    __m256i low, high;
};
struct Mask {
    __m256i low, high;
};
struct Codes {  // outputs 0-7 and 8-15
    __m256i low, high;
};

// ---- floats -------------------------------------------------------------------------------------

DW_INLINE Lanes fill(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
DW_INLINE Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
DW_INLINE Lanes load(const float* from) {
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
DW_INLINE __m256i first_lanes(int64_t count) {  // all ones in the first `count` of 8 lanes
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int limit = count < 0 ? 0 : count > 8 ? 8 : static_cast<int>(count);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), index);
}
DW_INLINE Lanes load(const float* from, int64_t count) {
    return {_mm256_maskload_ps(from, first_lanes(count)),
            _mm256_maskload_ps(from + 8, first_lanes(count - 8))};
}
DW_INLINE void store(float* to, Lanes x) {
    _mm256_storeu_ps(to, x.low);
    _mm256_storeu_ps(to + 8, x.high);
}
DW_INLINE void store(float* to, Lanes x, int64_t count) {
    _mm256_maskstore_ps(to, first_lanes(count), x.low);
    _mm256_maskstore_ps(to + 8, first_lanes(count - 8), x.high);
}
DW_INLINE __m128i load_128(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
DW_INLINE Lanes load_half(const uint16_t* from) {
    return {_mm256_cvtph_ps(load_128(from)), _mm256_cvtph_ps(load_128(from + 8))};
}
DW_INLINE Lanes load_bfloat(const uint16_t* from) {
    const __m256i low = _mm256_cvtepu16_epi32(load_128(from));
    const __m256i high = _mm256_cvtepu16_epi32(load_128(from + 8));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
}
DW_INLINE void store_half(uint16_t* to, Lanes x) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(x.low, nearest));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm256_cvtps_ph(x.high, nearest));
}

DW_INLINE Lanes operator+(Lanes a, Lanes b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
DW_INLINE Lanes operator-(Lanes a, Lanes b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
DW_INLINE Lanes operator*(Lanes a, Lanes b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
DW_INLINE Lanes operator/(Lanes a, Lanes b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
DW_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
DW_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DW_INLINE float root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
DW_INLINE float max(float a, float b) { return a > b ? a : b; }
DW_INLINE Lanes max(Lanes a, Lanes b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
DW_INLINE Lanes min(Lanes a, Lanes b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
DW_INLINE Mask less(Lanes a, Lanes b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
            _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
DW_INLINE Lanes select(Mask m, Lanes yes, Lanes no) {
    return {_mm256_blendv_ps(no.low, yes.low, _mm256_castsi256_ps(m.low)),
            _mm256_blendv_ps(no.high, yes.high, _mm256_castsi256_ps(m.high))};
}

DW_INLINE float sum(Lanes x) {
    const __m256 eight = _mm256_add_ps(x.low, x.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
DW_INLINE float greatest(Lanes x) {
    const __m256 eight = _mm256_max_ps(x.low, x.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// ---- integers -------------------------------------------------------------------------------------

DW_INLINE Ints fill_ints(int32_t value) {
    return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
}
DW_INLINE __m256i load_256(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
DW_INLINE Ints load_ints(const int32_t* from) { return {load_256(from), load_256(from + 8)}; }
DW_INLINE void store_ints(int32_t* to, Ints x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x.low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), x.high);
}
DW_INLINE Ints load_signed(const int8_t* from) {
    const __m128i bytes = load_128(from);
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
DW_INLINE Ints load_unsigned(const uint8_t* from) {
    const __m128i bytes = load_128(from);
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
DW_INLINE void store_signed(int8_t* to, Ints x) {
    const __m256i words = _mm256_packs_epi32(x.low, x.high);  // 0-3, 8-11, 4-7, 12-15
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}
DW_INLINE Ints operator+(Ints a, Ints b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
DW_INLINE Ints operator-(Ints a, Ints b) {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
DW_INLINE Ints operator*(Ints a, Ints b) {
    return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
}
DW_INLINE Ints operator&(Ints a, Ints b) {
    return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
DW_INLINE Ints operator|(Ints a, Ints b) {
    return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
template <int N>
DW_INLINE Ints shift_left(Ints a) {
    return {_mm256_slli_epi32(a.low, N), _mm256_slli_epi32(a.high, N)};
}
template <int N>
DW_INLINE Ints shift_right(Ints a) {
    return {_mm256_srai_epi32(a.low, N), _mm256_srai_epi32(a.high, N)};
}
DW_INLINE Ints max(Ints a, Ints b) {
    return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
DW_INLINE Mask greater(Ints a, Ints b) {
    return {_mm256_cmpgt_epi32(a.low, b.low), _mm256_cmpgt_epi32(a.high, b.high)};
}
DW_INLINE Ints select(Mask m, Ints yes, Ints no) {
    return {_mm256_blendv_epi8(no.low, yes.low, m.low),
            _mm256_blendv_epi8(no.high, yes.high, m.high)};
}
DW_INLINE int32_t greatest(Ints x) {
    const __m256i eight = _mm256_max_epi32(x.low, x.high);
    const __m128i four =
        _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
DW_INLINE uint32_t bits_of(Mask m) {
    const int low = _mm256_movemask_ps(_mm256_castsi256_ps(m.low));
    const int high = _mm256_movemask_ps(_mm256_castsi256_ps(m.high));
    return static_cast<uint32_t>(low | high << 8);
}

DW_INLINE Ints to_ints(Lanes x) {
    return {_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)};
}
DW_INLINE Lanes to_floats(Ints x) {
    return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)};
}
DW_INLINE Ints bits(Lanes x) {
    return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)};
}
DW_INLINE Lanes from_bits(Ints x) {
    return {_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)};
}

// ---- codes of weights -----------------------------------------------------------------------------

DW_INLINE Codes load_codes(const uint8_t* from) {
    return {load_256(from), load_256(from + 32)};
}
DW_INLINE void store_256(void* to, __m256i x) {
    _mm256_store_si256(static_cast<__m256i*>(to), x);
}
DW_INLINE void store_codes(uint8_t* to, Codes x) {  // aligned to 64 bytes
    store_256(to, x.low);
    store_256(to + 32, x.high);
}
template <int From, int Width, int To>
DW_INLINE __m256i field(__m256i x) {
    // Shifts move 16 bits at a time; the mask drops what crossed into a byte.
    const __m256i mask = _mm256_set1_epi8(static_cast<char>(((1 << Width) - 1) << To));
    if constexpr (From > To) x = _mm256_srli_epi16(x, From - To);
    if constexpr (From < To) x = _mm256_slli_epi16(x, To - From);
    return _mm256_and_si256(x, mask);
}
template <int From, int Width, int To>
DW_INLINE Codes field(Codes x) {
    return {field<From, Width, To>(x.low), field<From, Width, To>(x.high)};
}
DW_INLINE Codes operator|(Codes a, Codes b) {
    return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
DW_INLINE Codes look_up(Codes x, const uint8_t* table) {
    const __m256i entries = _mm256_broadcastsi128_si256(load_128(table));
    return {_mm256_shuffle_epi8(entries, x.low), _mm256_shuffle_epi8(entries, x.high)};
}

// ---- integer dot products -------------------------------------------------------------------------
//
// A product of two bytes is summed with its neighbour to 16 bits by vpmaddubsw; codes below 64 keep
// that sum exact. Sums of a group stay in 16 bits: they may wrap on the way, the result cannot.

struct Narrow {
    __m256i low, high;  // 16-bit sums, two for each output
};
// Two sums at a time are read, negated and multiplied as the pairs they are.
DW_INLINE __m256i pair_of(const int16_t* parts) {
    int32_t both;
    memcpy(&both, parts, 4);
    return _mm256_set1_epi32(both);
}
DW_INLINE Narrow narrow_start(__m256i pair, int32_t offset) {
    const __m256i start =
        _mm256_mullo_epi16(pair, _mm256_set1_epi16(static_cast<short>(-offset)));
    return {start, start};
}
DW_INLINE Narrow narrow_half(const int16_t parts[2], int32_t offset) {
    return narrow_start(pair_of(parts), offset);
}
DW_INLINE Narrow narrow(const int16_t parts[4], int32_t offset) {
    return narrow_start(_mm256_add_epi16(pair_of(parts), pair_of(parts + 2)), offset);
}
// Left alone, compilers gather products before they add them, and read codes from memory for each
// row: they run out of registers, or of loads. This makes them keep values where they are.
DW_INLINE void keep(__m256i& a, __m256i& b) { __asm__("" : "+x"(a), "+x"(b)); }
DW_INLINE void keep(Codes& codes) { keep(codes.low, codes.high); }
DW_INLINE __m256i four_activations(const int8_t* four) {
    int32_t bytes;
    memcpy(&bytes, four, 4);
    return _mm256_set1_epi32(bytes);
}
DW_INLINE void accumulate(Narrow& sum, const Codes& codes, const int8_t* four) {
    const __m256i a = four_activations(four);
    sum.low = _mm256_add_epi16(sum.low, _mm256_maddubs_epi16(codes.low, a));
    sum.high = _mm256_add_epi16(sum.high, _mm256_maddubs_epi16(codes.high, a));
    keep(sum.low, sum.high);
}
DW_INLINE Ints finish(const Narrow& sum) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(sum.low, ones), _mm256_madd_epi16(sum.high, ones)};
}

struct Scales {
    __m256i low, high;  // each scale twice, as 16 bits
};
DW_INLINE Scales load_scales(const int8_t* from) {
    const __m256i words = _mm256_cvtepi8_epi16(load_128(from));
    const __m256i low = _mm256_unpacklo_epi16(words, words);   // 0-3, 8-11
    const __m256i high = _mm256_unpackhi_epi16(words, words);  // 4-7, 12-15
    return {_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)};
}
DW_INLINE Ints finish(const Narrow& sum, Scales scales) {
    return {_mm256_madd_epi16(sum.low, scales.low), _mm256_madd_epi16(sum.high, scales.high)};
}

// A weight of 8 bits goes into vpmaddubsw as its size, and its sign into the activation: a sum of
// two products then just fits 16 bits, for activations from -127 on.
struct WideCodes {
    Codes weights, sizes;
};
DW_INLINE WideCodes widen_weights(Codes weights) {
    return {weights, {_mm256_abs_epi8(weights.low), _mm256_abs_epi8(weights.high)}};
}
DW_INLINE WideCodes widen(Codes codes) {
    const __m256i offset = _mm256_set1_epi8(-128);
    return widen_weights(
        {_mm256_xor_si256(codes.low, offset), _mm256_xor_si256(codes.high, offset)});
}
DW_INLINE void keep(WideCodes& codes) {
    keep(codes.weights);
    keep(codes.sizes);
}
constexpr int64_t WIDE_CODES_BYTES = 64;
DW_INLINE void store_wide_codes(uint8_t* to, const WideCodes& x) {  // aligned to 64 bytes
    store_codes(to, x.weights);
}
DW_INLINE WideCodes load_wide_codes(const uint8_t* from) {
    return widen_weights(load_codes(from));
}
struct WideInputs {
    const int8_t* values;
};
DW_INLINE WideInputs widen(const int8_t* values) { return {values}; }
struct Wide {
    Ints sums;
};
DW_INLINE Wide wide(const int16_t*) { return {fill_ints(0)}; }
DW_INLINE __m256i sum_of_four(__m256i weights, __m256i sizes, __m256i activations) {
    const __m256i pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(activations, weights));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
DW_INLINE void accumulate(Wide& sum, const WideCodes& codes, const WideInputs& inputs, int quad) {
    const __m256i a = four_activations(inputs.values + 4 * quad);
    Ints& sums = sum.sums;
    sums.low = _mm256_add_epi32(sums.low, sum_of_four(codes.weights.low, codes.sizes.low, a));
    sums.high = _mm256_add_epi32(sums.high, sum_of_four(codes.weights.high, codes.sizes.high, a));
    keep(sums.low, sums.high);
}
DW_INLINE Ints finish(const Wide& sum) { return sum.sums; }

// Rows whose sums are kept in registers together.
constexpr int NARROW_ROWS = 4;
constexpr int WIDE_ROWS = 4;

}  // namespace draftwalk::DW_ISA
