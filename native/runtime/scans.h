// Looking through rows of logits with vectors: one kind of them for each instruction set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace draftwalk {

constexpr int64_t BLOCK = 32;  // ids that are looked at together

inline int64_t blocks_of(int64_t size) { return (size + BLOCK - 1) / BLOCK; }

// What is known of a race before a block is looked at: see scan.h.
struct Bound {
    uint64_t start;
    float peak;     // the greatest logit of the row
    float inverse;  // of the temperature
};

struct Scan {
    const char* name;
    bool present;
    float (*peaks)(const float* row, int64_t size, float* of_blocks);
    double (*weights)(const float* row, int64_t size, double temperature, double top, double* out);
    bool (*may_win)(const float* logits, int64_t id, const Bound& bound, float least);
    double (*exp)(double x);
};

const std::vector<Scan>& scans();

// Throws std::invalid_argument if this machine has none of that name.
const Scan& scan_named(const std::string& name);

}  // namespace draftwalk
