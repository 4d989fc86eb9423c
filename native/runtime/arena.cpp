#include "arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <stdexcept>

namespace draftwalk {

namespace {

constexpr int64_t ALIGNMENT = 64;
constexpr int64_t LEAST = int64_t{1} << 24;

#ifndef MAP_NORESERVE
constexpr int MAP_NORESERVE = 0;
#endif

int64_t aligned(int64_t size) {
    return (std::max<int64_t>(size, 1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

}  // namespace

Arena::Arena(int64_t reserve) : reserved_(aligned(reserve)) {
    // Where address space is limited, take what there is.
    for (; reserved_ >= LEAST || reserved_ == aligned(reserve); reserved_ /= 2) {
        void* base = mmap(nullptr, static_cast<size_t>(reserved_), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base != MAP_FAILED) {
            base_ = static_cast<unsigned char*>(base);
            break;
        }
    }
    if (base_ == nullptr) throw std::bad_alloc();
    add_gap(0, reserved_);
}

Arena::~Arena() { munmap(base_, static_cast<size_t>(reserved_)); }

unsigned char* Arena::allocate(int64_t size) {
    size = aligned(size);
    const auto found = gaps_by_size_.lower_bound(size);
    if (found == gaps_by_size_.end()) throw std::bad_alloc();
    const int64_t room = found->first;
    const int64_t offset = found->second;
    drop_gap(gaps_.find(offset));
    if (room > size) add_gap(offset + size, room - size);
    taken_[offset] = size;
    in_use_ += size;
    most_ = std::max(most_, offset + size);
    return base_ + offset;
}

void Arena::release(unsigned char* place) {
    const auto found = taken_.find(place - base_);
    if (found == taken_.end()) throw std::logic_error("not handed out by this arena");
    int64_t offset = found->first;
    int64_t size = found->second;
    taken_.erase(found);
    in_use_ -= size;
    auto after = gaps_.lower_bound(offset);
    if (after != gaps_.end() && after->first == offset + size) {
        size += after->second;
        drop_gap(after);
        after = gaps_.lower_bound(offset);
    }
    if (after != gaps_.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second == offset) {
            offset = before->first;
            size += before->second;
            drop_gap(before);
        }
    }
    add_gap(offset, size);
}

void Arena::reset() {
    taken_.clear();
    gaps_.clear();
    gaps_by_size_.clear();
    in_use_ = 0;
    add_gap(0, reserved_);
}

void Arena::add_gap(int64_t offset, int64_t size) {
    gaps_[offset] = size;
    gaps_by_size_.emplace(size, offset);
}

void Arena::drop_gap(std::map<int64_t, int64_t>::iterator gap) {
    auto [first, last] = gaps_by_size_.equal_range(gap->second);
    while (first->second != gap->first) ++first;
    gaps_by_size_.erase(first);
    gaps_.erase(gap);
}

}  // namespace draftwalk
