// Quantised layouts: how a file's blocks become tiles, and what a group of a tile means.
//
// A format F says
//   SOURCE_BYTES   bytes of a block in the file, GROUPS groups of 32 inputs
//   BYTES          bytes of the same block of 16 outputs in a tile
//   SUM            how products are summed: whole groups of codes below 64 (`narrow`), halves of a
//                  group with an integer scale each (`halves`), or 8-bit codes (`wide`)
//   OFFSET         what is subtracted from every code (128 where the sum is wide)
//   pack_one       puts one output's block into its place in a zeroed tile
//   codes<Quad>    codes of one quad of a group
//   code           the code of one weight
//   factors        what the sums of a group are multiplied with; `half_scale` and `half_minimum` are
//                  the integer ones of one output
// Formats and their arithmetic are ggml's (ggml-common.h, ggml-quants.c); a matrix is used exactly
// as its file says.
#pragma once

#include "kernels.h"
#include "planes.h"

namespace draftwalk::DW_ISA {

enum class Sum { narrow, halves, wide };

// What a group's integer sums are multiplied with, for 16 outputs.
struct Factors {
    Lanes scale;          // of the sum (narrow, wide), or of the sum of both halves' products
    Lanes minimum;        // added times the activations' sum; negative where the format subtracts
    Scales halves[2];     // halves: integer scales
    Ints minima[2];       // halves with minima: integer scales of the halves' activation sums
};

DW_INLINE uint16_t half_at(const uint8_t* bytes) {
    uint16_t value;
    memcpy(&value, bytes, 2);
    return value;
}
DW_INLINE void put_half(uint8_t* halves, int output, uint16_t value) {
    memcpy(halves + 2 * output, &value, 2);
}
DW_INLINE Lanes halves_at(const uint8_t* bytes) {
    return load_half(reinterpret_cast<const uint16_t*>(bytes));
}
DW_INLINE Lanes negative(Lanes x) { return zero() - x; }

// ---- blocks of 32: planes, then fp16 scales, then fp16 minima -----------------------------------

template <int Low, int High, Sum How, int Offset, bool Minima, int Header>
struct Plain {
    using Group = Planes<Low, High>;
    static constexpr int64_t GROUPS = 1;
    static constexpr Sum SUM = How;
    static constexpr int OFFSET = Offset;
    static constexpr bool MINIMA = Minima;
    static constexpr int64_t BYTES = Group::BYTES + 32 + (Minima ? 32 : 0);
    static constexpr int64_t SOURCE_BYTES = Header + 4 * (Low + High);

    template <int Quad>
    DW_INLINE Codes codes(const uint8_t* block, int) {
        return Group::template read<Quad>(block);
    }
    DW_INLINE int code(const uint8_t* block, int, int input, int output) {
        return Group::read_one(block, input, output);
    }
    DW_INLINE Factors factors(const uint8_t* block, int) {
        Factors f;
        f.scale = halves_at(block + Group::BYTES);
        if constexpr (Minima) f.minimum = halves_at(block + Group::BYTES + 32);
        return f;
    }

protected:
    DW_INLINE void put_factors(const uint8_t* source, uint8_t* block, int output) {
        put_half(block + Group::BYTES, output, half_at(source));
        if constexpr (Minima) put_half(block + Group::BYTES + 32, output, half_at(source + 2));
    }
};

DW_INLINE int nibble_of_32(const uint8_t* nibbles, int input) {
    return input < 16 ? nibbles[input] & 15 : nibbles[input - 16] >> 4;
}

template <bool Minima>
struct FourBits : Plain<4, 0, Sum::narrow, Minima ? 0 : 8, Minima, Minima ? 4 : 2> {
    using Base = Plain<4, 0, Sum::narrow, Minima ? 0 : 8, Minima, Minima ? 4 : 2>;
    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        Base::put_factors(source, block, output);
        const uint8_t* nibbles = source + (Minima ? 4 : 2);
        for (int k = 0; k < 32; ++k)
            Base::Group::write(block, k, output, nibble_of_32(nibbles, k));
    }
};
using Q4_0 = FourBits<false>;
using Q4_1 = FourBits<true>;

// Unsigned 5-bit codes of a whole group could overflow 16 bits: with minima they are summed minus
// 16 all the same, and the activations' sum is added back in integers.
template <bool Minima>
struct FiveBits : Plain<4, 1, Sum::narrow, Minima ? 0 : 16, Minima, Minima ? 4 : 2> {
    using Base = Plain<4, 1, Sum::narrow, Minima ? 0 : 16, Minima, Minima ? 4 : 2>;
    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        Base::put_factors(source, block, output);
        const uint8_t* bits = source + (Minima ? 4 : 2);
        for (int k = 0; k < 32; ++k) {
            const int high = bits[k / 8] >> k % 8 & 1;
            Base::Group::write(block, k, output, nibble_of_32(bits + 4, k) | high << 4);
        }
    }
};
using Q5_0 = FiveBits<false>;
using Q5_1 = FiveBits<true>;

struct Q8_0 : Plain<8, 0, Sum::wide, 128, false, 2> {
    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        put_factors(source, block, output);
        for (int k = 0; k < 32; ++k) Group::write(block, k, output, source[2 + k] ^ 128);
    }
};

// ---- 4-bit codes that stand for the entries of a table ----------------------------------------------

// The tables hold ggml's values plus an offset that makes them unsigned.
alignas(16) static const uint8_t IQ4_TABLE[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                  129, 141, 153, 166, 181, 197, 217, 241};
alignas(16) static const uint8_t MXFP4_TABLE[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                    12, 11, 10, 9,  8,  6,  4,  0};

struct IQ4_NL : Plain<4, 0, Sum::wide, 128, false, 2> {
    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        put_factors(source, block, output);
        for (int k = 0; k < 32; ++k)
            Group::write(block, k, output, nibble_of_32(source + 2, k));
    }
    template <int Quad>
    DW_INLINE Codes codes(const uint8_t* block, int) {
        return look_up(Group::read<Quad>(block), IQ4_TABLE);
    }
    DW_INLINE int code(const uint8_t* block, int, int input, int output) {
        return IQ4_TABLE[Group::read_one(block, input, output)];
    }
};

struct MXFP4 {  // one power of two a group; the table's values are twice the format's
    using Group = Planes<4, 0>;
    static constexpr int64_t GROUPS = 1;
    static constexpr Sum SUM = Sum::narrow;
    static constexpr int OFFSET = 12;
    static constexpr bool MINIMA = false;
    static constexpr int64_t BYTES = Group::BYTES + 16;
    static constexpr int64_t SOURCE_BYTES = 17;

    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        block[Group::BYTES + output] = source[0];
        for (int k = 0; k < 32; ++k)
            Group::write(block, k, output, nibble_of_32(source + 1, k));
    }
    template <int Quad>
    DW_INLINE Codes codes(const uint8_t* block, int) {
        return look_up(Group::read<Quad>(block), MXFP4_TABLE);
    }
    DW_INLINE int code(const uint8_t* block, int, int input, int output) {
        return MXFP4_TABLE[Group::read_one(block, input, output)];
    }
    DW_INLINE Factors factors(const uint8_t* block, int) {
        // Half of 2^(e - 127), as bits of an fp32; e of 0 and 1 are subnormal.
        const Ints e = load_unsigned(block + Group::BYTES);
        const Ints normal = shift_left<23>(e - fill_ints(1));
        const Mask zero_e = greater(fill_ints(1), e);
        const Ints small = select(zero_e, fill_ints(0x00200000), fill_ints(0x00400000));
        Factors f;
        f.scale = from_bits(select(greater(fill_ints(2), e), small, normal));
        return f;
    }
};

// ---- blocks of 256: fp16 factors and integer scales first, then eight groups ------------------------

template <int Low, int High, Sum How, int Offset, bool Minima, int64_t Header>
struct Super {
    using Group = Planes<Low, High>;
    static constexpr int64_t GROUPS = 8;
    static constexpr Sum SUM = How;
    static constexpr int OFFSET = Offset;
    static constexpr bool MINIMA = Minima;
    static constexpr int64_t HEADER = Header;
    static constexpr int64_t BYTES = Header + 8 * Group::BYTES;

    template <int Quad>
    DW_INLINE Codes codes(const uint8_t* block, int group) {
        return Group::template read<Quad>(block + Header + group * Group::BYTES);
    }
    DW_INLINE int code(const uint8_t* block, int group, int input, int output) {
        return Group::read_one(block + Header + group * Group::BYTES, input, output);
    }

protected:
    DW_INLINE void put_code(uint8_t* block, int input, int output, int code) {
        Group::write(block + Header + input / 32 * Group::BYTES, input % 32, output, code);
    }
};

// d, dmin, then [8][16] scales and [8][16] minima of 6 bits.
template <int High>
struct ManyBits : Super<4, High, Sum::narrow, 0, true, 64 + 256> {
    using Base = Super<4, High, Sum::narrow, 0, true, 64 + 256>;
    static constexpr int64_t SOURCE_BYTES = 4 + 12 + (High ? 32 : 0) + 128;

    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        put_half(block, output, half_at(source));
        put_half(block + 32, output, half_at(source + 2));
        const uint8_t* packed = source + 4;
        for (int g = 0; g < 8; ++g) {
            int scale = packed[g] & 63, minimum = packed[g + 4] & 63;
            if (g >= 4) {
                scale = (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4;
                minimum = packed[g + 4] >> 4 | packed[g] >> 6 << 4;
            }
            block[64 + 16 * g + output] = static_cast<uint8_t>(scale);
            block[192 + 16 * g + output] = static_cast<uint8_t>(minimum);
        }
        const uint8_t* nibbles = source + 16 + (High ? 32 : 0);
        for (int k = 0; k < 256; ++k) {
            const int pair = k / 64, within = k % 32;
            int code = nibbles[32 * pair + within] >> (k % 64 / 32 * 4) & 15;
            if constexpr (High > 0) code |= (source[16 + within] >> k / 32 & 1) << 4;
            Base::put_code(block, k, output, code);
        }
    }
    DW_INLINE Factors factors(const uint8_t* block, int group) {
        Factors f;
        f.scale = halves_at(block) * to_floats(load_unsigned(block + 64 + 16 * group));
        f.minimum = negative(halves_at(block + 32)) *
                    to_floats(load_unsigned(block + 192 + 16 * group));
        return f;
    }
};
using Q4_K = ManyBits<0>;
using Q5_K = ManyBits<1>;

// d, then [16][16] signed scales of groups of 16.
template <int Low, int High, int Offset>
struct SignedHalves : Super<Low, High, Sum::halves, Offset, false, 32 + 256> {
    DW_INLINE Factors factors(const uint8_t* block, int group) {
        Factors f;
        f.scale = halves_at(block);
        const auto* scales = reinterpret_cast<const int8_t*>(block + 32 + 32 * group);
        f.halves[0] = load_scales(scales);
        f.halves[1] = load_scales(scales + 16);
        return f;
    }
    DW_INLINE int half_scale(const uint8_t* block, int group, int half, int output) {
        return static_cast<int8_t>(block[32 + 32 * group + 16 * half + output]);
    }
};

struct Q6_K : SignedHalves<4, 2, 32> {
    static constexpr int64_t SOURCE_BYTES = 210;

    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        put_half(block, output, half_at(source + 208));
        for (int h = 0; h < 16; ++h) block[32 + 16 * h + output] = source[192 + h];
        for (int k = 0; k < 256; ++k) {
            const int part = k / 128, run = k % 128 / 32, within = k % 32;
            const int nibble = source[64 * part + run % 2 * 32 + within] >> run / 2 * 4 & 15;
            const int high = source[128 + 32 * part + within] >> 2 * run & 3;
            put_code(block, k, output, nibble | high << 4);
        }
    }
};

struct Q3_K : SignedHalves<2, 1, 4> {
    static constexpr int64_t SOURCE_BYTES = 110;

    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        put_half(block, output, half_at(source + 108));
        const uint8_t* packed = source + 96;
        for (int h = 0; h < 16; ++h) {
            const int low = packed[h % 8] >> h / 8 * 4 & 15;
            const int high = packed[8 + h % 4] >> h / 4 * 2 & 3;
            block[32 + 16 * h + output] = static_cast<uint8_t>((low | high << 4) - 32);
        }
        for (int k = 0; k < 256; ++k) {
            const int part = k / 128, run = k % 128 / 32, within = k % 32;
            const int low = source[32 + 32 * part + within] >> 2 * run & 3;
            const int high = source[within] >> k / 32 & 1;
            put_code(block, k, output, low | high << 2);
        }
    }
};

// d, dmin, then [16][16] bytes, scale in the lower and minimum in the upper four bits.
struct Q2_K : Super<2, 0, Sum::halves, 0, true, 64 + 256> {
    static constexpr int64_t SOURCE_BYTES = 84;

    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        put_half(block, output, half_at(source + 80));
        put_half(block + 32, output, half_at(source + 82));
        for (int h = 0; h < 16; ++h) block[64 + 16 * h + output] = source[h];
        for (int k = 0; k < 256; ++k) {
            const int part = k / 128, run = k % 128 / 32, within = k % 32;
            put_code(block, k, output, source[16 + 32 * part + within] >> 2 * run & 3);
        }
    }
    DW_INLINE Factors factors(const uint8_t* block, int group) {
        Factors f;
        f.scale = halves_at(block);
        f.minimum = negative(halves_at(block + 32));
        for (int h = 0; h < 2; ++h) {
            const uint8_t* bytes = block + 64 + 32 * group + 16 * h;
            int8_t scales[16];
            for (int o = 0; o < 16; ++o) scales[o] = static_cast<int8_t>(bytes[o] & 15);
            f.halves[h] = load_scales(scales);
            f.minima[h] = shift_right<4>(load_unsigned(bytes));
        }
        return f;
    }
    DW_INLINE int half_scale(const uint8_t* block, int group, int half, int output) {
        return block[64 + 32 * group + 16 * half + output] & 15;
    }
    DW_INLINE int half_minimum(const uint8_t* block, int group, int half, int output) {
        return block[64 + 32 * group + 16 * half + output] >> 4;
    }
};

// d, then [8][16] signed scales.
struct IQ4_XS : Super<4, 0, Sum::wide, 128, false, 32 + 128> {
    static constexpr int64_t SOURCE_BYTES = 136;

    DW_INLINE void pack_one(const uint8_t* source, uint8_t* block, int output) {
        put_half(block, output, half_at(source));
        const int highs = source[2] | source[3] << 8;
        for (int g = 0; g < 8; ++g) {
            const int low = source[4 + g / 2] >> g % 2 * 4 & 15;
            const int scale = (low | (highs >> 2 * g & 3) << 4) - 32;
            block[32 + 16 * g + output] = static_cast<uint8_t>(scale);
        }
        for (int k = 0; k < 256; ++k)
            put_code(block, k, output, nibble_of_32(source + 8 + k / 32 * 16, k % 32));
    }
    template <int Quad>
    DW_INLINE Codes codes(const uint8_t* block, int group) {
        return look_up(Group::read<Quad>(block + HEADER + group * Group::BYTES), IQ4_TABLE);
    }
    DW_INLINE int code(const uint8_t* block, int group, int input, int output) {
        return IQ4_TABLE[Super::code(block, group, input, output)];
    }
    DW_INLINE Factors factors(const uint8_t* block, int group) {
        const auto* scales = reinterpret_cast<const int8_t*>(block + 32 + 16 * group);
        Factors f;
        f.scale = halves_at(block) * to_floats(load_signed(scales));
        return f;
    }
};

// ---- floats: weights [input][16] --------------------------------------------------------------------

struct F32 {
    static constexpr int64_t BYTES = 64;  // of one input of a tile
    static constexpr int64_t SOURCE_BYTES = 4;
    DW_INLINE Lanes weights(const uint8_t* from) {
        return load(reinterpret_cast<const float*>(from));
    }
    DW_INLINE float weight(const uint8_t* from) {
        float value;
        memcpy(&value, from, 4);
        return value;
    }
};
struct F16 {
    static constexpr int64_t BYTES = 32;
    static constexpr int64_t SOURCE_BYTES = 2;
    DW_INLINE Lanes weights(const uint8_t* from) {
        return load_half(reinterpret_cast<const uint16_t*>(from));
    }
    DW_INLINE float weight(const uint8_t* from) { return float_from_half(half_at(from)); }
};
struct BF16 {
    static constexpr int64_t BYTES = 32;
    static constexpr int64_t SOURCE_BYTES = 2;
    DW_INLINE Lanes weights(const uint8_t* from) {
        return load_bfloat(reinterpret_cast<const uint16_t*>(from));
    }
    DW_INLINE float weight(const uint8_t* from) { return float_from_bfloat(half_at(from)); }
};

// ---- all of them ------------------------------------------------------------------------------------

// body.quantised<F>() or body.floats<F>() of a layout's format F.
template <class Body>
DW_INLINE void with_format(Layout layout, const Body& body) {
    switch (layout) {
        case Layout::f32: return body.template floats<F32>();
        case Layout::f16: return body.template floats<F16>();
        case Layout::bf16: return body.template floats<BF16>();
        case Layout::q8_0: return body.template quantised<Q8_0>();
        case Layout::q4_0: return body.template quantised<Q4_0>();
        case Layout::q4_1: return body.template quantised<Q4_1>();
        case Layout::q5_0: return body.template quantised<Q5_0>();
        case Layout::q5_1: return body.template quantised<Q5_1>();
        case Layout::q2_k: return body.template quantised<Q2_K>();
        case Layout::q3_k: return body.template quantised<Q3_K>();
        case Layout::q4_k: return body.template quantised<Q4_K>();
        case Layout::q5_k: return body.template quantised<Q5_K>();
        case Layout::q6_k: return body.template quantised<Q6_K>();
        case Layout::iq4_nl: return body.template quantised<IQ4_NL>();
        case Layout::iq4_xs: return body.template quantised<IQ4_XS>();
        case Layout::mxfp4: return body.template quantised<MXFP4>();
        case Layout::count: break;
    }
}

}  // namespace draftwalk::DW_ISA
