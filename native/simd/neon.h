// The vocabulary of simd/scalar.h for AArch64 with the dot product instructions.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "../numeric/half.h"
#include "inline.h"

namespace draftwalk::DW_ISA {

struct Lanes {
    float32x4_t at[4];
};
struct Ints {
    int32x4_t at[4];
};
struct Mask {
    uint32x4_t at[4];
};
struct Codes {  // four outputs each
    uint8x16_t at[4];
};

#define DW_EACH for (int i = 0; i < 4; ++i)

// ---- floats -------------------------------------------------------------------------------------

DW_INLINE Lanes fill(float value) {
    const float32x4_t four = vdupq_n_f32(value);
    return {{four, four, four, four}};
}
DW_INLINE Lanes zero() { return fill(0.0f); }
DW_INLINE Lanes load(const float* from) {
    return {{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
}
DW_INLINE Lanes load(const float* from, int64_t count) {
    float all[16] = {};
    for (int i = 0; i < 16 && i < count; ++i) all[i] = from[i];
    return load(all);
}
DW_INLINE void store(float* to, Lanes x) { DW_EACH vst1q_f32(to + 4 * i, x.at[i]); }
DW_INLINE void store(float* to, Lanes x, int64_t count) {
    float all[16];
    store(all, x);
    for (int i = 0; i < 16 && i < count; ++i) to[i] = all[i];
}
DW_INLINE Lanes load_half(const uint16_t* from) {
    Lanes r;
    DW_EACH r.at[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + 4 * i)));
    return r;
}
DW_INLINE Lanes load_bfloat(const uint16_t* from) {
    Lanes r;
    DW_EACH r.at[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from + 4 * i), 16));
    return r;
}
DW_INLINE void store_half(uint16_t* to, Lanes x) {
    DW_EACH vst1_u16(to + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.at[i])));
}

DW_INLINE Lanes operator+(Lanes a, Lanes b) {
    DW_EACH a.at[i] = vaddq_f32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Lanes operator-(Lanes a, Lanes b) {
    DW_EACH a.at[i] = vsubq_f32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Lanes operator*(Lanes a, Lanes b) {
    DW_EACH a.at[i] = vmulq_f32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Lanes operator/(Lanes a, Lanes b) {
    DW_EACH a.at[i] = vdivq_f32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
    DW_EACH c.at[i] = vfmaq_f32(c.at[i], a.at[i], b.at[i]);
    return c;
}
DW_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DW_INLINE float root(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }
// Not vmaxq_f32 and vminq_f32: these turn NaN where either is, and order the zeros.
DW_INLINE float max(float a, float b) { return a > b ? a : b; }
DW_INLINE Lanes max(Lanes a, Lanes b) {
    DW_EACH a.at[i] = vbslq_f32(vcgtq_f32(a.at[i], b.at[i]), a.at[i], b.at[i]);
    return a;
}
DW_INLINE Lanes min(Lanes a, Lanes b) {
    DW_EACH a.at[i] = vbslq_f32(vcltq_f32(a.at[i], b.at[i]), a.at[i], b.at[i]);
    return a;
}
DW_INLINE Mask less(Lanes a, Lanes b) {
    Mask r;
    DW_EACH r.at[i] = vcltq_f32(a.at[i], b.at[i]);
    return r;
}
DW_INLINE Lanes select(Mask m, Lanes yes, Lanes no) {
    DW_EACH no.at[i] = vbslq_f32(m.at[i], yes.at[i], no.at[i]);
    return no;
}

DW_INLINE float sum(Lanes x) {
    const float32x4_t four =
        vaddq_f32(vaddq_f32(x.at[0], x.at[2]), vaddq_f32(x.at[1], x.at[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
DW_INLINE float greatest(Lanes x) {
    const Lanes eight = max(Lanes{{x.at[0], x.at[1], x.at[0], x.at[1]}},
                            Lanes{{x.at[2], x.at[3], x.at[2], x.at[3]}});
    const float32x4_t four = vbslq_f32(vcgtq_f32(eight.at[0], eight.at[1]), eight.at[0], eight.at[1]);
    const float32x2_t low = vget_low_f32(four), high = vget_high_f32(four);
    const float32x2_t two = vbsl_f32(vcgt_f32(low, high), low, high);
    return max(vget_lane_f32(two, 0), vget_lane_f32(two, 1));
}

// ---- integers -------------------------------------------------------------------------------------

DW_INLINE Ints fill_ints(int32_t value) {
    const int32x4_t four = vdupq_n_s32(value);
    return {{four, four, four, four}};
}
DW_INLINE Ints load_ints(const int32_t* from) {
    return {{vld1q_s32(from), vld1q_s32(from + 4), vld1q_s32(from + 8), vld1q_s32(from + 12)}};
}
DW_INLINE void store_ints(int32_t* to, Ints x) { DW_EACH vst1q_s32(to + 4 * i, x.at[i]); }
DW_INLINE Ints widen(int16x8_t low, int16x8_t high) {
    return {{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
             vmovl_high_s16(high)}};
}
DW_INLINE Ints load_signed(const int8_t* from) {
    const int8x16_t bytes = vld1q_s8(from);
    return widen(vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
}
DW_INLINE Ints load_unsigned(const uint8_t* from) {
    const uint8x16_t bytes = vld1q_u8(from);
    return widen(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))),
                 vreinterpretq_s16_u16(vmovl_high_u8(bytes)));
}
DW_INLINE void store_signed(int8_t* to, Ints x) {
    const int16x8_t low = vmovn_high_s32(vmovn_s32(x.at[0]), x.at[1]);
    const int16x8_t high = vmovn_high_s32(vmovn_s32(x.at[2]), x.at[3]);
    vst1q_s8(to, vmovn_high_s16(vmovn_s16(low), high));
}
DW_INLINE Ints operator+(Ints a, Ints b) {
    DW_EACH a.at[i] = vaddq_s32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Ints operator-(Ints a, Ints b) {
    DW_EACH a.at[i] = vsubq_s32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Ints operator*(Ints a, Ints b) {
    DW_EACH a.at[i] = vmulq_s32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Ints operator&(Ints a, Ints b) {
    DW_EACH a.at[i] = vandq_s32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Ints operator|(Ints a, Ints b) {
    DW_EACH a.at[i] = vorrq_s32(a.at[i], b.at[i]);
    return a;
}
template <int N>
DW_INLINE Ints shift_left(Ints a) {
    DW_EACH a.at[i] = vshlq_n_s32(a.at[i], N);
    return a;
}
template <int N>
DW_INLINE Ints shift_right(Ints a) {
    if constexpr (N > 0) DW_EACH a.at[i] = vshrq_n_s32(a.at[i], N);
    return a;
}
DW_INLINE Ints max(Ints a, Ints b) {
    DW_EACH a.at[i] = vmaxq_s32(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Mask greater(Ints a, Ints b) {
    Mask r;
    DW_EACH r.at[i] = vcgtq_s32(a.at[i], b.at[i]);
    return r;
}
DW_INLINE Ints select(Mask m, Ints yes, Ints no) {
    DW_EACH no.at[i] = vbslq_s32(m.at[i], yes.at[i], no.at[i]);
    return no;
}
DW_INLINE int32_t greatest(Ints x) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.at[0], x.at[1]), vmaxq_s32(x.at[2], x.at[3])));
}
DW_INLINE uint32_t bits_of(Mask m) {
    const uint32_t weights[4] = {1, 2, 4, 8};
    const uint32x4_t each = vld1q_u32(weights);
    uint32_t r = 0;
    DW_EACH r |= vaddvq_u32(vandq_u32(m.at[i], each)) << 4 * i;
    return r;
}

DW_INLINE Ints to_ints(Lanes x) {
    Ints r;
    DW_EACH r.at[i] = vcvtnq_s32_f32(x.at[i]);
    return r;
}
DW_INLINE Lanes to_floats(Ints x) {
    Lanes r;
    DW_EACH r.at[i] = vcvtq_f32_s32(x.at[i]);
    return r;
}
DW_INLINE Ints bits(Lanes x) {
    Ints r;
    DW_EACH r.at[i] = vreinterpretq_s32_f32(x.at[i]);
    return r;
}
DW_INLINE Lanes from_bits(Ints x) {
    Lanes r;
    DW_EACH r.at[i] = vreinterpretq_f32_s32(x.at[i]);
    return r;
}

// ---- codes of weights -----------------------------------------------------------------------------

// Tells the compiler to keep codes in registers, where it needs to be told.
DW_INLINE void keep(const Codes&) {}
DW_INLINE Codes load_codes(const uint8_t* from) {
    return {{vld1q_u8(from), vld1q_u8(from + 16), vld1q_u8(from + 32), vld1q_u8(from + 48)}};
}
template <int From, int Width, int To>
DW_INLINE Codes field(Codes x) {
    const uint8x16_t mask = vdupq_n_u8(static_cast<uint8_t>(((1 << Width) - 1) << To));
    if constexpr (From > To) DW_EACH x.at[i] = vshrq_n_u8(x.at[i], From - To);
    if constexpr (From < To) DW_EACH x.at[i] = vshlq_n_u8(x.at[i], To - From);
    DW_EACH x.at[i] = vandq_u8(x.at[i], mask);
    return x;
}
DW_INLINE void store_codes(uint8_t* to, Codes x) { DW_EACH vst1q_u8(to + 16 * i, x.at[i]); }
DW_INLINE Codes operator|(Codes a, Codes b) {
    DW_EACH a.at[i] = vorrq_u8(a.at[i], b.at[i]);
    return a;
}
DW_INLINE Codes look_up(Codes x, const uint8_t* table) {
    const uint8x16_t entries = vld1q_u8(table);
    DW_EACH x.at[i] = vqtbl1q_u8(entries, x.at[i]);
    return x;
}

// ---- integer dot products -------------------------------------------------------------------------
//
// sdot adds the four products of an output to its 32-bit sum, exactly. It takes signed bytes: codes
// of 6 bits are such, and 8-bit weights are again without the 128 that was added to them.

DW_INLINE int8x16_t four_activations(const int8_t* four) {
    int32_t bytes;
    memcpy(&bytes, four, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(bytes));
}

struct Narrow {
    int32x4_t at[4];
};
DW_INLINE Narrow narrow_start(int32_t value) {
    const int32x4_t start = vdupq_n_s32(value);
    return {{start, start, start, start}};
}
DW_INLINE Narrow narrow_half(const int16_t parts[2], int32_t offset) {
    return narrow_start(-offset * (parts[0] + parts[1]));
}
DW_INLINE Narrow narrow(const int16_t parts[4], int32_t offset) {
    return narrow_start(-offset * (parts[0] + parts[1] + parts[2] + parts[3]));
}
DW_INLINE void accumulate(Narrow& sum, const Codes& codes, const int8_t* four) {
    const int8x16_t a = four_activations(four);
    DW_EACH sum.at[i] = vdotq_s32(sum.at[i], vreinterpretq_s8_u8(codes.at[i]), a);
}
DW_INLINE Ints finish(const Narrow& sum) {
    return {{sum.at[0], sum.at[1], sum.at[2], sum.at[3]}};
}

struct Scales {
    int32x4_t at[4];
};
DW_INLINE Scales load_scales(const int8_t* from) {
    const Ints x = load_signed(from);
    return {{x.at[0], x.at[1], x.at[2], x.at[3]}};
}
DW_INLINE Ints finish(const Narrow& sum, Scales scales) {
    Ints r;
    DW_EACH r.at[i] = vmulq_s32(sum.at[i], scales.at[i]);
    return r;
}

struct WideCodes {
    int8x16_t at[4];
};
DW_INLINE void keep(const WideCodes&) {}
DW_INLINE WideCodes widen(Codes codes) {
    const uint8x16_t flip = vdupq_n_u8(128);  // code to weight
    WideCodes r;
    DW_EACH r.at[i] = vreinterpretq_s8_u8(veorq_u8(codes.at[i], flip));
    return r;
}
constexpr int64_t WIDE_CODES_BYTES = 64;
DW_INLINE void store_wide_codes(uint8_t* to, const WideCodes& x) {
    DW_EACH vst1q_u8(to + 16 * i, vreinterpretq_u8_s8(x.at[i]));
}
DW_INLINE WideCodes load_wide_codes(const uint8_t* from) {
    WideCodes r;
    DW_EACH r.at[i] = vreinterpretq_s8_u8(vld1q_u8(from + 16 * i));
    return r;
}
struct WideInputs {
    const int8_t* values;
};
DW_INLINE WideInputs widen(const int8_t* values) { return {values}; }
struct Wide {
    int32x4_t at[4];
};
DW_INLINE Wide wide(const int16_t*) {
    const int32x4_t start = vdupq_n_s32(0);
    return {{start, start, start, start}};
}
DW_INLINE void accumulate(Wide& sum, const WideCodes& codes, const WideInputs& inputs, int quad) {
    const int8x16_t a = four_activations(inputs.values + 4 * quad);
    DW_EACH sum.at[i] = vdotq_s32(sum.at[i], codes.at[i], a);
}
DW_INLINE Ints finish(const Wide& sum) {
    return {{sum.at[0], sum.at[1], sum.at[2], sum.at[3]}};
}

#undef DW_EACH

// Rows whose sums are kept in registers together.
constexpr int NARROW_ROWS = 4;
constexpr int WIDE_ROWS = 4;

}  // namespace draftwalk::DW_ISA
