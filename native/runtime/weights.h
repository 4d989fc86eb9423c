// Memory of packed weights: large pieces on huge pages, because a pass reads all of it and would
// otherwise walk the page tables for every few groups.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

namespace draftwalk {

class WeightMemory {
public:
    // On a 64 byte boundary and zero. A piece is given back when everything in it is gone. Throws
    // std::bad_alloc.
    std::shared_ptr<unsigned char> take(int64_t bytes);

private:
    std::mutex taking_;
    std::shared_ptr<unsigned char> piece_;  // the one that is being filled
    int64_t size_ = 0, used_ = 0;
};

}  // namespace draftwalk
