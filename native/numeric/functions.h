// The only exp and tanh of the kernels, and the activations made of them. Every step is rounded as
// written, so that all instruction sets give the same bits.
#pragma once

namespace draftwalk::DW_ISA {

// exp without its ends: for numbers within EXP_LOW and EXP_HIGH.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) is 1 + r + r^2 times a polynomial of degree 4, fitted
// to an error of 3e-9; n goes straight into the exponent.
DW_INLINE Lanes exp_within(Lanes x) {
    const Lanes to_integer = fill(0x1.8p23f);  // adding it leaves n in the lowest bits
    const Lanes shifted = fma(x, fill(0x1.715476p+0f), to_integer);
    const Lanes n = shifted - to_integer;
    const Lanes high = fma(n, fill(-0x1.62e4p-1f), x);  // n times this part of ln 2 is exact
    const Lanes r = fma(n, fill(-0x1.7f7d1cp-20f), high);
    Lanes y = fill(0x1.6a23dp-10f);
    y = fma(y, r, fill(0x1.123a2p-7f));
    y = fma(y, r, fill(0x1.5558f2p-5f));
    y = fma(y, r, fill(0x1.555492p-3f));
    y = fma(y, r, fill(0x1.fffffcp-2f));
    y = fma(y, r, fill(1.0f));
    y = fma(y, r, fill(1.0f));
    return from_bits(bits(y) + shift_left<23>(bits(shifted)));
}

// From the first on, exp is at least 2^-126, the least normal number; up to the second, finite.
constexpr float EXP_LOW = -0x1.5d589ep+6f;
constexpr float EXP_HIGH = 0x1.62e42ep+6f;

// exp of numbers that are not above EXP_HIGH, -inf included: 0 where it would be subnormal.
DW_INLINE Lanes exp_below(Lanes x) {
    return select(less(x, fill(EXP_LOW)), zero(), exp_within(x));
}

// exp of anything.
DW_INLINE Lanes exp(Lanes x) {
    const Lanes infinity = from_bits(fill_ints(0x7f800000));
    const Lanes y = select(less(fill(EXP_HIGH), x), infinity, exp_below(x));
    // What is neither above nor not above is no number.
    return select(less(x, infinity), y, x + infinity);
}

// tanh: an odd polynomial up to 0.625, beyond it 1 - 2 / (exp(2 |x|) + 1).
DW_INLINE Lanes tanh(Lanes x) {
    const Ints sign = bits(x) & fill_ints(INT32_MIN);
    const Lanes magnitude = from_bits(bits(x) & fill_ints(INT32_MAX));
    const Lanes square = x * x;
    Lanes p = fill(0x1.12f3ecp-9f);
    p = fma(p, square, fill(-0x1.0a5f06p-7f));
    p = fma(p, square, fill(0x1.633b68p-6f));
    p = fma(p, square, fill(-0x1.b9e782p-5f));
    p = fma(p, square, fill(0x1.111044p-3f));
    p = fma(p, square, fill(-0x1.555554p-2f));
    const Lanes near = fma(x * square, p, x);
    const Lanes far = fill(1.0f) - fill(2.0f) / (exp(magnitude + magnitude) + fill(1.0f));
    const Lanes y = select(less(magnitude, fill(0.625f)), near, far);
    return from_bits(bits(y) | sign);
}

// x times the logistic function of x.
DW_INLINE Lanes silu(Lanes x) { return x / (exp(zero() - x) + fill(1.0f)); }

// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), written with the logistic function, which
// keeps the digits that 1 + tanh loses.
DW_INLINE Lanes gelu_tanh(Lanes x) {
    const Lanes inner = fma(x * x, fill(0x1.2444f2p-4f), fill(0x1.988454p+0f));
    return x / (exp(zero() - x * inner) + fill(1.0f));
}

}  // namespace draftwalk::DW_ISA
