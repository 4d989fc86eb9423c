// The quantised formats once more, read straight from a file's blocks, as ggml defines them: what
// the packed matrices are tested against.
#pragma once

#include <cstdint>

#include "../kernels/kernels.h"

namespace draftwalk::test {

struct Format {
    Layout layout;
    const char* name;
    int64_t inputs, bytes;  // of a block
    int64_t halves[2];      // where fp16 factors stand in it, -1 for none
};
extern const Format FORMATS[13];

// 32 weights of one output: scale * weight + minimum * (what the minimum is multiplied with).
struct Group {
    int weights[32];  // offset subtracted, the integer scale of a half multiplied in
    float scale;
    bool has_minimum, by_halves;
    float minimum;
    int minima[2];  // integers that it is multiplied with, by halves; else 1
};

Group read_group(const Format& format, const uint8_t* row, int64_t group);

// Bytes of 16 outputs of a packed matrix.
int64_t tile_bytes(Layout layout, int64_t inputs);

}  // namespace draftwalk::test
