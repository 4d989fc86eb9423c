// Compares every primitive of an instruction set (DW_ISA) with simd/scalar.h, bit for bit, on
// random and extreme inputs; the integer dot products also with plain arithmetic. The first
// argument is how many random blocks to try, the second is "bochs" where that emulator runs it. How
// to build it for each instruction set: tests/run.sh.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cases.h"

namespace draftwalk {

namespace scalar {
extern const Cases test_cases;
}
namespace DW_ISA {
extern const Cases test_cases;
}

namespace {

uint64_t state = 1;
uint32_t random_bits() {  // splitmix64
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>(z >> 32);
}
int below(int n) { return static_cast<int>(random_bits() % static_cast<uint32_t>(n)); }

float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

const uint32_t special_floats[] = {
    0x00000000, 0x00000001, 0x00000002, 0x007fffff, 0x00800000, 0x00800001,
    0x0d7fffff, 0x0d800000,  // subnormal, 2^-100
    0x33000000, 0x33000001, 0x33800000, 0x387fc000, 0x387fe000, 0x387fffff,
    0x38800000, 0x38800fff,  // edges of fp16
    0x38801000, 0x38801001, 0x38803000, 0x477fe000, 0x477fefff, 0x477ff000,
    0x477ff001, 0x47800000, 0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001,
    0x3fc00000, 0x40200000, 0x42fe0000, 0x4b000001,                          // around 1, ties
    0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fa00000, 0x7fc00000, 0x7fffffff,  // the end, NaNs
};
const int32_t special_ints[] = {0,        1,          2,         127,          128,      255,
                                256,      32767,      32768,     65535,        16777216, 16777217,
                                16777219, 0x0d800000, INT32_MAX, INT32_MAX - 1};

float any_float() {
    const uint32_t sign = random_bits() << 31;
    switch (below(4)) {
        case 0:
            return as_float(sign ^
                            special_floats[below(sizeof special_floats / sizeof *special_floats)]);
        case 1: return as_float(random_bits());
        case 2:
            return as_float(sign | (112u + static_cast<uint32_t>(below(32))) << 23 |
                            random_bits() >> 9);
        default:
            return as_float(sign |
                            (0x3f000000u + (random_bits() >> 7)));  // 0.5 to 8: cancellation, ties
    }
}
int32_t any_int() {
    const int32_t special = special_ints[below(sizeof special_ints / sizeof *special_ints)];
    switch (below(4)) {
        case 0: return special;
        case 1: return -special - below(2);
        case 2: return below(4001) - 2000;
        default: return static_cast<int32_t>(random_bits());
    }
}
float small_float() {
    switch (below(4)) {
        case 0: return static_cast<float>(below(511) - 255) * 0.5f;  // ties
        case 1: return static_cast<float>(static_cast<int32_t>(random_bits()) >> below(24)) * 0.25f;
        case 2: return as_float(random_bits() % 0x42fe0001u | random_bits() << 31);  // within +-127
        default: return static_cast<float>(below(8388608)) + 0.5f;
    }
}

// Bochs 2.7 rounds up what lies in the middle of two fp16 numbers; processors round to even.
bool avoid = false;
float avoid_tie(float x) {
    const uint32_t magnitude = as_bits(x) & 0x7fffffffu;
    const float units =
        as_float(magnitude) * 0x1p25f;  // halves of the last bit of a subnormal number
    const bool tie = magnitude >= 0x38800000u
                         ? (magnitude & 0x1fff) == 0x1000
                         : static_cast<float>(static_cast<int>(units) | 1) == units;
    return avoid && tie ? as_float(as_bits(x) + 1) : x;
}

void fill(Input& in) {
    for (int i = 0; i < 16; ++i) {
        in.a[i] = avoid_tie(any_float());
        in.b[i] = below(8) ? any_float() : in.a[i];
        in.c[i] = below(4) ? any_float() : -(in.a[i] * in.b[i]);
        in.small[i] = small_float();
        in.wide[i] = (static_cast<float>(static_cast<int32_t>(random_bits())) * 0x1p-31f) *
                     as_float((110u + static_cast<uint32_t>(below(25))) << 23);
        in.x[i] = any_int();
        in.y[i] = below(8) ? any_int() : in.x[i];
        in.tiny[i] = below(256) - 128;
        in.words[i] = static_cast<uint16_t>(random_bits());
        in.table[i] = static_cast<uint8_t>(random_bits());
        in.scales[i] = static_cast<int8_t>(below(3) ? below(256) - 128 : below(2) ? -128 : 127);
    }
    for (uint8_t& nibble : in.nibbles) nibble = static_cast<uint8_t>(below(16));
    in.count = below(17);
    // Weights and activations: any, or the ends of their ranges with signs that add up.
    const int how = below(4), weights = below(3);
    for (int8_t& a : in.activations)
        a = static_cast<int8_t>(how == 0   ? below(255) - 127
                                : how == 1 ? 127
                                : how == 2 ? -127
                                : below(2) ? 127
                                           : -127);
    for (int i = 0; i < 32; ++i)
        for (int o = 0; o < 16; ++o) {
            uint8_t& code = in.codes[i / 4][4 * o + i % 4];
            const bool high = o < 8 ? in.activations[i] > 0 : (o & 1) != 0;
            code = static_cast<uint8_t>(weights == 0 ? random_bits() : high ? 255 : 0);
        }
    memset(in.parts, 0, sizeof in.parts);
    for (int i = 0; i < 32; ++i)
        in.parts[i / 16 * 2 + i % 4 / 2] =
            static_cast<int16_t>(in.parts[i / 16 * 2 + i % 4 / 2] + in.activations[i]);
}

long compared = 0, different = 0;
constexpr unsigned char UNTOUCHED = 0xa5;
constexpr int64_t MARGIN = 64;  // untouched bytes behind what a case writes
unsigned char expected[OUTPUT + MARGIN], got[OUTPUT + MARGIN];

bool same(Equal equal, int64_t at) {
    if (!memcmp(expected + at, got + at, 4)) return true;
    if (equal == Equal::bits) return false;
    float a, b;
    memcpy(&a, expected + at, 4);
    memcpy(&b, got + at, 4);
    return a != a && b != b;
}

void compare(const Case& one, const Case& other, const Input& in) {
    const int64_t size = one.run(in, expected) - expected + MARGIN;
    other.run(in, got);
    ++compared;
    for (int64_t at = 0; at < size; at += 4)
        if (!same(one.equal, at)) {
            if (++different <= 20) {
                uint32_t a, b;
                memcpy(&a, expected + at, 4);
                memcpy(&b, got + at, 4);
                printf("%s, output %ld: %08x, not %08x\n", one.name, static_cast<long>(at / 4), b,
                       a);
            }
            break;
        }
    memset(expected, UNTOUCHED, static_cast<size_t>(size));
    memset(got, UNTOUCHED, static_cast<size_t>(size));
}

// The dot products in plain arithmetic, from the case's name.
void check_dot(const Case& one, const Input& in) {
    int bits, offset, inputs;
    if (sscanf(one.name, "dot %d %d %d", &bits, &offset, &inputs) != 3) return;
    const int64_t size = one.run(in, got) - got;
    const int32_t* out = reinterpret_cast<const int32_t*>(got);
    for (int first = 0; first < 32; first += inputs) {
        int32_t total[16] = {};
        for (int o = 0; o < 16; ++o)
            for (int i = first; i < first + inputs; ++i)
                total[o] += ((in.codes[i / 4][4 * o + i % 4] & ((1 << bits) - 1)) - offset) *
                            in.activations[i];
        for (int o = 0; o < 16; ++o) {
            bool right = out[o] == total[o];
            right = right && out[16 + o] == (bits == 8 ? total[o] : total[o] * in.scales[o]);
            ++compared;
            if (!right && ++different <= 20)
                printf("%s, output %d: %d, not %d\n", one.name, o, out[o], total[o]);
        }
        out += 32;
    }
    memset(got, UNTOUCHED, static_cast<size_t>(size));
}

}  // namespace

int run(long rounds, bool emulated) {
    const Cases &mine = DW_ISA::test_cases, &reference = scalar::test_cases;
    memset(expected, UNTOUCHED, sizeof expected);
    memset(got, UNTOUCHED, sizeof got);
    avoid = emulated;
    static Input in;
    for (long round = 0; round < rounds; ++round) {
        fill(in);
        for (int i = 0; i < mine.count; ++i) {
            compare(reference.cases[i], mine.cases[i], in);
            check_dot(mine.cases[i], in);
        }
    }
    for (int i = 0; i < mine.count; ++i) {
        const Case &one = reference.cases[i], &other = mine.cases[i];
        if (!strcmp(one.name, "load_half") || !strcmp(one.name, "load_bfloat"))
            for (int first = 0; first < 65536; first += 16) {
                for (int j = 0; j < 16; ++j) in.words[j] = static_cast<uint16_t>(first + j);
                compare(one, other, in);
            }
        // Each fp16 number, the middle between it and the next one, and that middle's neighbours.
        if (!strcmp(one.name, "store_half")) {
            for (int sign = 0; sign < 2; ++sign)
                for (uint32_t first = 0; first < 0x7c00; first += 16)
                    for (int shift = -1; shift < 3; ++shift) {
                        for (uint32_t j = 0; j < 16; ++j) {
                            const uint32_t half = first + j;
                            const float step =
                                half < 0x0400 ? 0x1p-25f : as_float(((half >> 10) + 101u) << 23);
                            const float value = half < 0x0400 ? static_cast<float>(half) * 0x1p-24f
                                                              : as_float((half + 0x1c000u) << 13);
                            in.a[j] = shift == 2 ? value
                                                 : as_float(as_bits(value + step) +
                                                            static_cast<uint32_t>(shift));
                            in.a[j] = avoid_tie(sign ? -in.a[j] : in.a[j]);
                        }
                        compare(one, other, in);
                    }
        }
    }
    printf("%s: %d primitives, %ld comparisons, %ld different\n", mine.name, mine.count, compared,
           different);
    return different ? 1 : 0;
}

}  // namespace draftwalk

int main(int count, char** arguments) {
    return draftwalk::run(count > 1 ? atol(arguments[1]) : 1000,
                          count > 2 && !strcmp(arguments[2], "bochs"));
}
