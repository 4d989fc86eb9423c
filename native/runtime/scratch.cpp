#include "scratch.h"

#include <algorithm>
#include <new>

namespace draftwalk {

namespace {

constexpr std::align_val_t ALIGNMENT{64};
constexpr size_t SMALLEST = size_t{1} << 16;

void release(unsigned char* block) { ::operator delete(block, ALIGNMENT); }

}  // namespace

ThreadScratch::~ThreadScratch() {
    for (int n = 0; n < count_; ++n) release(blocks_[n]);
}

void* ThreadScratch::bytes(int64_t size) {
    const size_t wanted = (static_cast<size_t>(size) + 63) / 64 * 64;
    if (count_ == 0 || sizes_[count_ - 1] - used_ < wanted) {
        if (count_ == MOST) throw std::bad_alloc();
        size_t room = SMALLEST;
        for (int n = 0; n < count_; ++n) room += sizes_[n];
        room = std::max(room, wanted);
        blocks_[count_] = static_cast<unsigned char*>(::operator new(room, ALIGNMENT));
        sizes_[count_++] = room;
        used_ = 0;
    }
    void* place = blocks_[count_ - 1] + used_;
    used_ += wanted;
    return place;
}

void ThreadScratch::reset() {
    if (count_ > 1) {
        for (int n = 0; n < count_ - 1; ++n) release(blocks_[n]);
        blocks_[0] = blocks_[count_ - 1];
        sizes_[0] = sizes_[count_ - 1];
        count_ = 1;
    }
    used_ = 0;
}

}  // namespace draftwalk
