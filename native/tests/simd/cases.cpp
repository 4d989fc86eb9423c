// Compiled once for each instruction set, as kernels/table.cpp is: DW_ISA names it, the flags turn
// it on.
#include "cases.h"

#define DW_TEXT(x) #x
#define DW_NAME(isa) DW_TEXT(isa)
#define DW_HEADER(isa) DW_TEXT(../../simd/isa.h)
#include DW_HEADER(DW_ISA)

#include "../../numeric/functions.h"

namespace draftwalk::DW_ISA {

static void put(unsigned char*& out, const void* from, int64_t bytes) {
    memcpy(out, from, static_cast<size_t>(bytes));
    out += bytes;
}
static void put(unsigned char*& out, Lanes x) {
    store(reinterpret_cast<float*>(out), x);
    out += 64;
}
static void put(unsigned char*& out, Ints x) {
    store_ints(reinterpret_cast<int32_t*>(out), x);
    out += 64;
}
static void put(unsigned char*& out, float x) { put(out, &x, 4); }
static void put(unsigned char*& out, uint32_t x) { put(out, &x, 4); }
static void put(unsigned char*& out, int32_t x) { put(out, &x, 4); }
static void put(unsigned char*& out, Codes x) {
    store_codes(out, x);
    out += 64;
}

template <int From, int Width, int To>
static void put_fields(unsigned char*& out, Codes x) {
    put(out, field<From, Width, To>(x));
    if constexpr (To + Width < 8) put_fields<From, Width, To + 1>(out, x);
}
template <int Width>
static unsigned char* fields(const Input& in, unsigned char* out) {
    const Codes x = load_codes(in.codes[0]);
    put_fields<0, Width, 0>(out, x);
    if constexpr (1 + Width <= 8) put_fields<1, Width, 0>(out, x);
    if constexpr (2 + Width <= 8) put_fields<2, Width, 0>(out, x);
    if constexpr (3 + Width <= 8) put_fields<3, Width, 0>(out, x);
    if constexpr (4 + Width <= 8) put_fields<4, Width, 0>(out, x);
    if constexpr (5 + Width <= 8) put_fields<5, Width, 0>(out, x);
    if constexpr (6 + Width <= 8) put_fields<6, Width, 0>(out, x);
    if constexpr (7 + Width <= 8) put_fields<7, Width, 0>(out, x);
    return out;
}

template <int N>
static void put_shifts(unsigned char*& out, Ints x) {
    put(out, shift_left<N>(x));
    put(out, shift_right<N>(x));
    if constexpr (N > 0) put_shifts<N - 1>(out, x);
}

// The products of codes of `Bits` bits with `Offset` subtracted, of 16 or 32 inputs; then with
// integer scales.
template <int Bits, int Offset, int Inputs>
static unsigned char* dot(const Input& in, unsigned char* out) {
    for (int first = 0; first < 32; first += Inputs) {
        Narrow total =
            Inputs == 32 ? narrow(in.parts, Offset) : narrow_half(in.parts + first / 8, Offset);
        for (int i = first; i < first + Inputs; i += 4)
            accumulate(total, field<0, Bits, 0>(load_codes(in.codes[i / 4])), in.activations + i);
        put(out, finish(total));
        put(out, finish(total, load_scales(in.scales)));
    }
    return out;
}

// 8-bit codes, at hand and by way of memory.
static unsigned char* dot_wide(const Input& in, unsigned char* out) {
    Wide total = wide(in.parts), stored = wide(in.parts);
    const WideInputs inputs = widen(in.activations);
    for (int quad = 0; quad < 8; ++quad) {
        const WideCodes codes = widen(load_codes(in.codes[quad]));
        alignas(64) uint8_t room[WIDE_CODES_BYTES];
        store_wide_codes(room, codes);
        accumulate(total, codes, inputs, quad);
        accumulate(stored, load_wide_codes(room), inputs, quad);
    }
    put(out, finish(total));
    put(out, finish(stored));
    return out;
}

#define DW_CASE(equal, name, ...)                                                     \
    {name, Equal::equal, [](const Input& in, unsigned char* out) -> unsigned char* {  \
         [[maybe_unused]] const Lanes a = load(in.a), b = load(in.b), c = load(in.c); \
         [[maybe_unused]] const Ints x = load_ints(in.x), y = load_ints(in.y);        \
         __VA_ARGS__;                                                                 \
         return out;                                                                  \
     }}

static const Case cases[] = {
    DW_CASE(bits, "load, store", put(out, a)),
    DW_CASE(bits, "fill", put(out, fill(in.a[0])); put(out, zero())),
    DW_CASE(bits, "load of some", put(out, load(in.a, in.count))),
    DW_CASE(bits, "store of some", store(reinterpret_cast<float*>(out), a, in.count); out += 64),
    DW_CASE(bits, "load_half", put(out, load_half(in.words))),
    DW_CASE(bits, "load_bfloat", put(out, load_bfloat(in.words))),
    DW_CASE(bits, "store_half", store_half(reinterpret_cast<uint16_t*>(out), a); out += 32),
    DW_CASE(floats, "+", put(out, a + b)),
    DW_CASE(floats, "-", put(out, a - b)),
    DW_CASE(floats, "*", put(out, a * b)),
    DW_CASE(floats, "/", put(out, a / b)),
    DW_CASE(floats, "fma", put(out, fma(a, b, c))),
    DW_CASE(floats, "* then +", put(out, a * b + c); put(out, c - a * b)),
    DW_CASE(floats, "fma of floats",
            for (int i = 0; i < 16; ++i) put(out, fma(in.a[i], in.b[i], in.c[i]))),
    DW_CASE(floats, "root", for (int i = 0; i < 16; ++i) put(out, root(in.a[i]))),
    DW_CASE(bits, "max", put(out, max(a, b))),
    DW_CASE(bits, "max of floats", for (int i = 0; i < 16; ++i) put(out, max(in.a[i], in.b[i]))),
    DW_CASE(bits, "min", put(out, min(a, b))),
    DW_CASE(bits, "less", put(out, bits_of(less(a, b)))),
    DW_CASE(bits, "select", put(out, select(less(a, b), b, c));
            put(out, select(greater(x, y), a, b))),
    DW_CASE(floats, "sum", put(out, sum(a)); put(out, sum(load(in.small)))),
    DW_CASE(bits, "greatest", put(out, greatest(a)); put(out, greatest(load(in.small)))),
    DW_CASE(bits, "bits", put(out, bits(a)); put(out, from_bits(x))),
    DW_CASE(bits, "fill_ints", put(out, fill_ints(in.x[0]))),
    DW_CASE(bits, "load_ints", put(out, x)),
    DW_CASE(bits, "load_signed",
            put(out, load_signed(reinterpret_cast<const int8_t*>(in.codes[0])))),
    DW_CASE(bits, "load_unsigned", put(out, load_unsigned(in.codes[0]))),
    DW_CASE(bits, "store_signed", store_signed(reinterpret_cast<int8_t*>(out), load_ints(in.tiny));
            out += 16),
    DW_CASE(bits, "+ of ints", put(out, x + y)),
    DW_CASE(bits, "- of ints", put(out, x - y)),
    DW_CASE(bits, "* of ints", put(out, x * y)),
    DW_CASE(bits, "& |", put(out, x & y); put(out, x | y)),
    DW_CASE(bits, "shifts", put_shifts<31>(out, x)),
    DW_CASE(bits, "max of ints", put(out, max(x, y))),
    DW_CASE(bits, "greater", put(out, bits_of(greater(x, y)))),
    DW_CASE(bits, "select of ints", put(out, select(greater(x, y), x, y));
            put(out, select(less(a, b), x, y))),
    DW_CASE(bits, "greatest of ints", put(out, greatest(x));
            put(out, greatest(load_ints(in.tiny)))),
    DW_CASE(bits, "to_ints", put(out, to_ints(load(in.small)))),
    DW_CASE(bits, "to_floats", put(out, to_floats(x)); put(out, to_floats(load_ints(in.tiny)))),
    DW_CASE(floats, "exp", put(out, exp(a)); put(out, exp(load(in.wide)))),
    DW_CASE(floats, "exp_below", put(out, exp_below(min(load(in.wide), fill(EXP_HIGH))))),
    DW_CASE(floats, "tanh", put(out, tanh(a)); put(out, tanh(load(in.wide)))),
    DW_CASE(floats, "silu", put(out, silu(a)); put(out, silu(load(in.wide)))),
    DW_CASE(floats, "gelu_tanh", put(out, gelu_tanh(a)); put(out, gelu_tanh(load(in.wide)))),
    {"field of 1", Equal::bits, fields<1>},
    {"field of 2", Equal::bits, fields<2>},
    {"field of 3", Equal::bits, fields<3>},
    {"field of 4", Equal::bits, fields<4>},
    {"field of 5", Equal::bits, fields<5>},
    {"field of 6", Equal::bits, fields<6>},
    {"field of 7", Equal::bits, fields<7>},
    {"field of 8", Equal::bits, fields<8>},
    DW_CASE(bits, "| of codes", put(out, load_codes(in.codes[0]) | load_codes(in.codes[1]))),
    DW_CASE(bits, "look_up", put(out, look_up(load_codes(in.nibbles), in.table))),
    // What a lane of 16 bits can hold: 8 products (of 16 inputs) up to 32 * 127, 16 (of 32) up to
    // 16 * 127.
    {"dot 2 0 16", Equal::bits, dot<2, 0, 16>},
    {"dot 3 4 16", Equal::bits, dot<3, 4, 16>},
    {"dot 4 0 32", Equal::bits, dot<4, 0, 32>},
    {"dot 4 8 32", Equal::bits, dot<4, 8, 32>},
    {"dot 5 0 16", Equal::bits, dot<5, 0, 16>},
    {"dot 5 16 32", Equal::bits, dot<5, 16, 32>},
    {"dot 6 32 16", Equal::bits, dot<6, 32, 16>},
    {"dot 8 128 32", Equal::bits, dot_wide},
};

extern const Cases test_cases;
const Cases test_cases = {DW_NAME(DW_ISA), cases, static_cast<int>(sizeof cases / sizeof *cases)};

}  // namespace draftwalk::DW_ISA
