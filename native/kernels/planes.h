// Codes of one group of a tile: 32 inputs of 16 outputs, as planes of bits.
//
// A plane of 8, 4, 2 or 1 bits holds 8, 4, 2 or 1 vectors of 64 bytes; byte 4 * output + i of a
// vector belongs to inputs i, i + 4, i + 8, ... of that output, one field of bits each. Quad q is
// inputs 4q to 4q + 3. Four bits hold quads v and v + 4 in vector v; two bits hold quads 4v to
// 4v + 3; one bit holds all eight.
#pragma once

#include <cstdint>

namespace draftwalk::DW_ISA {

template <int Bits>
struct Plane {
    static_assert(Bits == 0 || Bits == 1 || Bits == 2 || Bits == 4 || Bits == 8);
    static constexpr int64_t BYTES = 64 * Bits;

    static constexpr int vector_of(int quad) {
        return Bits == 8 ? quad : Bits == 4 ? quad % 4 : Bits == 2 ? quad / 4 : 0;
    }
    static constexpr int shift_of(int quad) {
        return Bits == 8 ? 0 : Bits == 4 ? quad / 4 * 4 : Bits == 2 ? quad % 4 * 2 : quad;
    }

    // The field of a quad at bit To of every byte.
    template <int Quad, int To>
    DW_INLINE Codes read(const uint8_t* plane) {
        const Codes vector = load_codes(plane + 64 * vector_of(Quad));
        if constexpr (Bits == 8) return vector;
        else return field<shift_of(Quad), Bits, To>(vector);
    }
    DW_INLINE void write(uint8_t* plane, int input, int output, int bits) {
        const int quad = input / 4;
        uint8_t& byte = plane[64 * vector_of(quad) + 4 * output + input % 4];
        byte = static_cast<uint8_t>(byte | bits << shift_of(quad));
    }
    DW_INLINE int read_one(const uint8_t* plane, int input, int output) {
        const int quad = input / 4;
        const int byte = plane[64 * vector_of(quad) + 4 * output + input % 4];
        return byte >> shift_of(quad) & ((1 << Bits) - 1);
    }
};

// Low bits in one plane, high bits (none, 1 or 2) in another behind it.
template <int Low, int High>
struct Planes {
    static constexpr int64_t BYTES = Plane<Low>::BYTES + Plane<High>::BYTES;
    // How often codes are read from here rather than unpacked to memory first: twice where that is
    // two instructions, and always where there is nothing to unpack.
    static constexpr int64_t READINGS = High ? 1 : 2;
    static constexpr bool WHOLE = Low == 8;

    template <int Quad>
    DW_INLINE Codes read(const uint8_t* planes) {
        const Codes low = Plane<Low>::template read<Quad, 0>(planes);
        if constexpr (High == 0) return low;
        else return low | Plane<High>::template read<Quad, Low>(planes + Plane<Low>::BYTES);
    }
    // Into planes that were zero.
    DW_INLINE void write(uint8_t* planes, int input, int output, int code) {
        Plane<Low>::write(planes, input, output, code & ((1 << Low) - 1));
        if constexpr (High > 0)
            Plane<High>::write(planes + Plane<Low>::BYTES, input, output, code >> Low);
    }
    DW_INLINE int read_one(const uint8_t* planes, int input, int output) {
        int code = Plane<Low>::read_one(planes, input, output);
        if constexpr (High > 0)
            code |= Plane<High>::read_one(planes + Plane<Low>::BYTES, input, output) << Low;
        return code;
    }
};

}  // namespace draftwalk::DW_ISA
