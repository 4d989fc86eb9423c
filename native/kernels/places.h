// Where K/V lie in a page of a layer: head after head, keys and values with their scales.
#pragma once

#include "kernels.h"

namespace draftwalk {

// One head of one page. Places stand side by side in keys, channels in values.
struct HeadPage {
    unsigned char* keys;    // [D][64]
    float* key_scales;      // [D / 32][64], of 8-bit K/V
    unsigned char* values;  // [64][D]
    float* value_scales;    // [64][D / 32]
};

static inline HeadPage head_page(const PagePool& pool, int64_t layer, int64_t page, int64_t head) {
    const int64_t numbers = pool.head_dim * PAGE;
    const int64_t bytes = pool.type == KvType::half ? 2 * numbers : numbers;
    const int64_t groups = (pool.head_dim + GROUP - 1) / GROUP;
    const int64_t scales = pool.type == KvType::half ? 0 : groups * PAGE * 4;
    unsigned char* keys = pool.layer[layer] + page * pool.page_bytes + head * 2 * (bytes + scales);
    unsigned char* values = keys + bytes + scales;
    return {keys, reinterpret_cast<float*>(keys + bytes), values,
            reinterpret_cast<float*>(values + bytes)};
}

// Number of the page that holds a sequence's tile.
static inline int64_t page_of(const PageTable& table, int64_t sequence, int64_t tile) {
    return table.values[sequence * table.pages + tile];
}

}  // namespace draftwalk
