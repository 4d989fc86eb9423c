#include "pages.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <stdexcept>

namespace draftwalk {

namespace {

constexpr size_t SYSTEM_PAGE = size_t{1} << 16;  // a multiple of every system's

int64_t head_bytes(KvType type, int64_t head_dim) {
    if (type == KvType::half) return 2 * PAGE * head_dim * 2;
    if (head_dim % GROUP) throw std::invalid_argument("8 bit K/V come in groups of 32 values");
    return 2 * PAGE * (head_dim + head_dim / GROUP * static_cast<int64_t>(sizeof(float)));
}

unsigned char* map(size_t size) {
    void* place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    return static_cast<unsigned char*>(place);
}

// Enlarges a mapping; what is new is zero.
unsigned char* enlarge(unsigned char* old, size_t before, size_t after) {
    if (old == nullptr) return map(after);
#if defined(__linux__)
    void* place = mremap(old, before, after, MREMAP_MAYMOVE);
    if (place == MAP_FAILED) throw std::bad_alloc();
    return static_cast<unsigned char*>(place);
#else
    unsigned char* place = map(after);
    std::memcpy(place, old, before);
    munmap(old, before);
    return place;
#endif
}

}  // namespace

Pages::Pages(KvType type, int64_t layers, int64_t heads, int64_t head_dim)
    : view_{type, layers, heads, head_dim, heads * head_bytes(type, head_dim), nullptr},
      layers_(static_cast<size_t>(layers), nullptr),
      mapped_(static_cast<size_t>(layers), 0) {
    view_.layer = layers_.data();
}

Pages::~Pages() {
    for (size_t n = 0; n < layers_.size(); ++n) {
        if (layers_[n] != nullptr) munmap(layers_[n], mapped_[n]);
    }
}

void Pages::grow(int64_t count) {
    if (count <= count_) return;
    const size_t wanted = static_cast<size_t>(count * view_.page_bytes);
    const size_t size = (wanted + SYSTEM_PAGE - 1) / SYSTEM_PAGE * SYSTEM_PAGE;
    for (size_t n = 0; n < layers_.size(); ++n) {
        if (size <= mapped_[n]) continue;
        layers_[n] = enlarge(layers_[n], mapped_[n], size);
        mapped_[n] = size;
    }
    count_ = count;
}

void Pages::check(int64_t page) const {
    if (page < 0 || page >= count_) throw std::out_of_range("no such page");
}

void Pages::copy(int64_t source, int64_t into) {
    check(source);
    check(into);
    for (int64_t layer = 0; layer < view_.layers; ++layer) {
        std::memcpy(page(layer, into), page(layer, source),
                    static_cast<size_t>(view_.page_bytes));
    }
}

void Pages::read(const std::vector<int64_t>& pages, unsigned char* into) const {
    for (const int64_t number : pages) check(number);
    const size_t size = static_cast<size_t>(view_.page_bytes);
    for (int64_t layer = 0; layer < view_.layers; ++layer) {
        for (const int64_t number : pages) {
            std::memcpy(into, page(layer, number), size);
            into += size;
        }
    }
}

void Pages::write(const std::vector<int64_t>& pages, const unsigned char* saved) {
    for (const int64_t number : pages) check(number);
    const size_t size = static_cast<size_t>(view_.page_bytes);
    for (int64_t layer = 0; layer < view_.layers; ++layer) {
        for (const int64_t number : pages) {
            std::memcpy(page(layer, number), saved, size);
            saved += size;
        }
    }
}

}  // namespace draftwalk
