// What bindings share. A binding appends a call to a program; Python hands over addresses, as
// `tensor.data_ptr()` gives them, and 0 where there is nothing.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "kernels/kernels.h"
#include "runtime/program.h"

namespace draftwalk {

using Address = uint64_t;

template <class T>
T* at(Address address) {
    return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

inline Address address_of(const void* place) {
    return static_cast<Address>(reinterpret_cast<uintptr_t>(place));
}

// Bytes of the int8 companion of [rows, width] values, and its parts in memory at `address`.
inline int64_t quantised_bytes(int64_t rows, int64_t width) {
    const int64_t groups = (width + GROUP - 1) / GROUP;
    const int64_t floats = (groups * rows * 4 + 63) / 64 * 64;
    return (groups * rows * GROUP + 63) / 64 * 64 + 2 * floats + groups * rows * 8;
}

inline Quantised quantised_at(Address address, int64_t rows, int64_t width) {
    if (address == 0) return {nullptr, nullptr, nullptr, nullptr};
    const int64_t groups = (width + GROUP - 1) / GROUP;
    const int64_t floats = (groups * rows * 4 + 63) / 64 * 64;
    unsigned char* base = at<unsigned char>(address);
    unsigned char* scales = base + (groups * rows * GROUP + 63) / 64 * 64;
    return {reinterpret_cast<int8_t*>(base), reinterpret_cast<float*>(scales),
            reinterpret_cast<float*>(scales + floats),
            reinterpret_cast<int16_t*>(scales + 2 * floats)};
}

}  // namespace draftwalk
