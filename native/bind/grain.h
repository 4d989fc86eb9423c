// How many units are handed out together.
#pragma once

#include <algorithm>
#include <cstdint>

namespace draftwalk {

// For many small units, such as rows: a few chunks for each thread, and no chunk of less than four
// unless a thread would get nothing.
inline int64_t row_grain(int64_t units, int64_t threads) {
    const int64_t share = (units + threads - 1) / threads;
    return std::max({(units + 4 * threads - 1) / (4 * threads), std::min<int64_t>(4, share),
                     int64_t{1}});
}

}  // namespace draftwalk
