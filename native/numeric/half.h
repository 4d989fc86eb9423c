// fp16 and bf16 to fp32 and back, in plain C++: exact one way, to nearest even the other.
#pragma once

#include <cstdint>
#include <cstring>

#include "../simd/inline.h"

namespace draftwalk::DW_ISA {

DW_INLINE float float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

DW_INLINE uint32_t bits_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

DW_INLINE float float_from_bfloat(uint16_t bfloat) {
    return float_from_bits(static_cast<uint32_t>(bfloat) << 16);
}

DW_INLINE float float_from_half(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t exponent = (half >> 10) & 31, fraction = half & 1023;
    if (exponent == 31) {  // NaNs turn quiet, as the hardware makes them
        const uint32_t quiet = fraction ? 0x400000u : 0u;
        return float_from_bits(sign | 0x7f800000u | quiet | fraction << 13);
    }
    if (exponent != 0) return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return float_from_bits(sign | bits_from_float(magnitude));
}

DW_INLINE uint16_t half_from_float(float value) {
    const uint32_t bits = bits_from_float(value);
    const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00);
    if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 lets the FPU round at its last bit
        const float shifted = float_from_bits(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (bits_from_float(shifted) - 0x3f000000u));
    }
    const uint32_t even = magnitude >> 13 & 1;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + even) >> 13));
}

}  // namespace draftwalk::DW_ISA
