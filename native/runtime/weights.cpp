#include "weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace draftwalk {

namespace {

constexpr int64_t LINE = 64;
constexpr int64_t HUGE_PAGE = int64_t{2} << 20;
constexpr int64_t PIECE = int64_t{32} << 20;

int64_t whole(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

// A piece that begins with a huge page.
std::shared_ptr<unsigned char> new_piece(int64_t size) {
    const auto mapped = static_cast<size_t>(size + HUGE_PAGE);
    void* place = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(place));
    auto* first = static_cast<unsigned char*>(place) + (whole(address, HUGE_PAGE) - address);
#ifdef MADV_HUGEPAGE
    madvise(first, static_cast<size_t>(size), MADV_HUGEPAGE);  // a wish: without it all is the same
#endif
    return {first, [place, mapped](unsigned char*) { munmap(place, mapped); }};
}

}  // namespace

std::shared_ptr<unsigned char> WeightMemory::take(int64_t bytes) {
    const std::lock_guard lock(taking_);
    const int64_t taken = whole(bytes, LINE);
    if (used_ + taken > size_) {
        size_ = std::max(PIECE, whole(taken, HUGE_PAGE));
        piece_ = new_piece(size_);
        used_ = 0;
    }
    std::shared_ptr<unsigned char> part(piece_, piece_.get() + used_);
    used_ += taken;
    return part;
}

}  // namespace draftwalk
