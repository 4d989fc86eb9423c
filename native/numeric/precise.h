// exp and log in double for what is drawn: no libm, so a seed gives the same text on every machine.
// Every step is rounded as written; none is fused.
#pragma once

#include <cstdint>
#include <cstring>

namespace draftwalk {

constexpr double LN2_HIGH = 0x1.62e42feep-1;         // 33 bits: exact times an exponent
constexpr double LN2_LOW = 0x1.a39ef35793c76p-33;
constexpr double EXP_LEAST = -746.0;                 // exp of it is 0 already

// log of a positive normal number, to about one unit of the last place.
//
// x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2). With s = f / (2 + f), log(1 + f) is
// 2 atanh(s) = 2 s + s r, where r is the series of s^2 after its first term; 2 s = f - s f.
static inline double log_of(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    constexpr uint64_t ROOT_HALF = 0x3fe6a09e667f3bcd;  // bits of sqrt(1/2)
    const int64_t k = static_cast<int64_t>(bits - ROOT_HALF) >> 52;
    bits -= static_cast<uint64_t>(k) << 52;
    double f;
    std::memcpy(&f, &bits, sizeof f);
    f -= 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    double r = 2.0 / 23.0;
    r = r * z + 2.0 / 21.0;
    r = r * z + 2.0 / 19.0;
    r = r * z + 2.0 / 17.0;
    r = r * z + 2.0 / 15.0;
    r = r * z + 2.0 / 13.0;
    r = r * z + 2.0 / 11.0;
    r = r * z + 2.0 / 9.0;
    r = r * z + 2.0 / 7.0;
    r = r * z + 2.0 / 5.0;
    r = r * z + 2.0 / 3.0;
    r *= z;
    const double exponent = static_cast<double>(k);
    return exponent * LN2_HIGH + (f - (s * (f - r) - exponent * LN2_LOW));
}

}  // namespace draftwalk
