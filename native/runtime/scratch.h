// A thread's memory for one kernel call.
#pragma once

#include "../kernels/kernels.h"

namespace draftwalk {

class ThreadScratch final : public Scratch {
public:
    ThreadScratch() = default;
    ~ThreadScratch();
    ThreadScratch(const ThreadScratch&) = delete;
    ThreadScratch& operator=(const ThreadScratch&) = delete;

    // On a 64 byte boundary, not initialised; stays where it is until `reset`.
    void* bytes(int64_t size) override;

    // Gives everything back, and keeps one block for the next call.
    void reset();

private:
    static constexpr int MOST = 48;  // each block is larger than all before it together

    unsigned char* blocks_[MOST] = {};
    size_t sizes_[MOST] = {};
    int count_ = 0;
    size_t used_ = 0;  // of the last block
};

}  // namespace draftwalk
