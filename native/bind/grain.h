// How many units are handed out together.
#pragma once

#include <algorithm>
#include <cstdint>

namespace draftwalk {

// To hand a chunk to another thread, and what it reads with it, takes as long as this many numbers.
constexpr int64_t HANDED_OVER = 2048;

// For small units, such as rows, of so many numbers: a few chunks for each thread, none of which is
// sooner done than handed over.
inline int64_t row_grain(int64_t units, int64_t threads, int64_t numbers) {
    return std::max((units + 4 * threads - 1) / (4 * threads),
                    (HANDED_OVER + numbers - 1) / numbers);
}

}  // namespace draftwalk
