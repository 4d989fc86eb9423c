// Pools of K/V pages, layer by layer in one run of memory each (see PagePool in kernels.h).
#pragma once

#include <cstdint>
#include <vector>

#include "../kernels/kernels.h"

namespace draftwalk {

class Pages {
public:
    Pages(KvType type, int64_t layers, int64_t heads, int64_t head_dim);
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    // What kernels see; it stays at its address.
    const PagePool* view() const { return &view_; }

    int64_t count() const { return count_; }
    int64_t bytes() const { return view_.layers * count_ * view_.page_bytes; }
    unsigned char* page(int64_t layer, int64_t number) const {
        return layers_[static_cast<size_t>(layer)] + number * view_.page_bytes;
    }

    // New pages are zero. Layers grow in place or are moved one by one.
    void grow(int64_t count);
    void copy(int64_t source, int64_t into);

    // Bytes of pages, layer by layer and page by page.
    void read(const std::vector<int64_t>& pages, unsigned char* into) const;
    void write(const std::vector<int64_t>& pages, const unsigned char* saved);

private:
    PagePool view_;
    int64_t count_ = 0;
    std::vector<unsigned char*> layers_;
    std::vector<size_t> mapped_;  // bytes of each layer

    void check(int64_t page) const;
};

}  // namespace draftwalk
