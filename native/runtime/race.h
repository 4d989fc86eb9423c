// The race that draws a token: of all, the one with the least E / p, where E is exponential noise that
// depends on the position and the token alone (verify/noise.py).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "../numeric/precise.h"

namespace draftwalk {

constexpr double INFINITE = std::numeric_limits<double>::infinity();

// The mixing function of verify/noise.py.
constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15;
constexpr uint64_t FIRST = 0xbf58476d1ce4e5b9;
constexpr uint64_t SECOND = 0x94d049bb133111eb;

inline uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * FIRST;
    z = (z ^ (z >> 27)) * SECOND;
    return z ^ (z >> 31);
}

inline uint64_t stream(uint64_t start, int64_t id) {  // 53 bits
    return mix(start + (static_cast<uint64_t>(id) + 1) * GOLDEN) >> 11;
}

// -log(1 - u) of the uniform u that 53 bits stand for.
inline double exponential(uint64_t bits) {
    if (bits == 0) return 0x1p-54;
    return -log_of(1.0 - static_cast<double>(bits) * 0x1p-53);  // the difference is exact
}

// No less than -log of that uniform: see may_win.
inline double most_surprise(uint64_t bits) {
    const double u = std::max(static_cast<double>(bits), 0.5) * 0x1p-53;
    uint64_t as_integer;
    std::memcpy(&as_integer, &u, sizeof as_integer);
    const double logarithm = static_cast<double>(as_integer) * 0x1p-52 - 1023.0;
    return -logarithm * LN2_HIGH + 1e-6;
}

// Who has the least E / p so far, told by log p - log E; ties go to the lowest id.
struct Race {
    uint64_t start;
    double score = -INFINITE;
    int64_t winner = -1;

    void meet(int64_t id, double log_p) {
        const uint64_t bits = stream(start, id);
        if (log_p + most_surprise(bits) < score) return;  // E is more than u
        const double other = log_p - log_of(exponential(bits));
        if (other > score || (other == score && id < winner)) {
            score = other;
            winner = id;
        }
    }
};

}  // namespace draftwalk
