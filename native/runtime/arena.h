// Memory for values of recorded passes: addresses that are handed out never move.
//
// Address space is reserved once; the system gives memory to the parts that are written to.
#pragma once

#include <cstdint>
#include <map>

namespace draftwalk {

class Arena {
public:
    // Throws std::bad_alloc if there is not that much address space.
    explicit Arena(int64_t reserve);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // On a 64 byte boundary, in the smallest gap that is large enough.
    unsigned char* allocate(int64_t size);
    void release(unsigned char* place);

    // Forgets all that was handed out.
    void reset();

    unsigned char* start() const { return base_; }
    int64_t size() const { return reserved_; }
    int64_t in_use() const { return in_use_; }
    int64_t most() const { return most_; }  // bytes from the start that were ever in use

private:
    unsigned char* base_ = nullptr;
    int64_t reserved_;
    int64_t in_use_ = 0;
    int64_t most_ = 0;
    std::map<int64_t, int64_t> taken_;              // offset and size
    std::map<int64_t, int64_t> gaps_;               // offset and size
    std::multimap<int64_t, int64_t> gaps_by_size_;  // size and offset

    void add_gap(int64_t offset, int64_t size);
    void drop_gap(std::map<int64_t, int64_t>::iterator gap);
};

}  // namespace draftwalk
