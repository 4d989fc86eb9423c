// What test.cpp runs for each instruction set: every primitive of simd/*.h and every function of
// numeric/functions.h, on one block of input.
#pragma once

#include <cstdint>

namespace draftwalk {

constexpr int OUTPUT = 16384;  // bytes that a case may write

struct Input {
    float a[16], b[16], c[16];  // any bits
    float small[16];            // within the range of int32
    float wide[16];             // where exp and tanh have something to do
    int32_t x[16], y[16];       // any
    int32_t tiny[16];           // int8 values
    uint16_t words[16];         // any
    uint8_t codes[8][64];       // any; of 32 inputs
    uint8_t nibbles[64], table[16];
    int8_t scales[16];
    int8_t activations[32];  // within +-127
    int16_t parts[4];        // as in kernels.h
    int64_t count;           // 0 to 16
};

enum class Equal {
    bits,    // the output is the same, bit for bit
    floats,  // the output is floats; those that are not a number are so on both sides, whatever
             // their payload
};

struct Case {
    const char* name;
    Equal equal;
    unsigned char* (*run)(const Input& in, unsigned char* out);  // returns the end of what it wrote
};

struct Cases {
    const char* name;
    const Case* cases;
    int count;
};

}  // namespace draftwalk
