// The row table of a recording: its numbers stay where they are, and are a replay's data.
#pragma once

#include <cstdint>
#include <vector>

#include "../kernels/kernels.h"

namespace draftwalk {

class Rows {
public:
    Rows(int64_t rows, int64_t wanted, int64_t planes, int64_t spans);
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    // What kernels see; it stays at its address.
    const RowTable* table() const { return &table_; }

    // All numbers, column after column: tokens, sequences, places, parents, positions, wanted rows;
    // then sequence, start, stop and context of every span.
    std::vector<int64_t>& numbers() { return numbers_; }

    void set_embeddings(const float* embeddings) { table_.embeddings = embeddings; }

private:
    std::vector<int64_t> numbers_;
    RowTable table_;
};

}  // namespace draftwalk
