// Weight matrices: packed from a file's bytes, or left as they are stored for looking rows up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "program.h"

namespace draftwalk {

// Names are those of `Layout`. Unknown ones, and sizes that a layout cannot have, throw.
Layout layout_of(const std::string& name);
const char* layout_name(Layout layout);
int64_t packed_bytes(const std::string& layout, int64_t outputs, int64_t inputs);

class PackedMatrix {
public:
    // Copies rows of blocks at address `source` into tiles, on all threads.
    static std::shared_ptr<PackedMatrix> pack(const std::shared_ptr<Runtime>& runtime,
                                              const std::string& layout, uint64_t source,
                                              int64_t outputs, int64_t inputs);
    // Looks at the rows where they are; whoever owns the memory must outlive the matrix.
    static std::shared_ptr<PackedMatrix> stored(const std::string& layout, uint64_t source,
                                                int64_t outputs, int64_t inputs);
    PackedMatrix(const PackedMatrix&) = delete;
    PackedMatrix& operator=(const PackedMatrix&) = delete;

    const Matrix& view() const { return view_; }
    int64_t bytes() const { return bytes_; }

private:
    PackedMatrix(const Matrix& view, std::shared_ptr<unsigned char> owned, int64_t bytes)
        : view_(view), owned_(std::move(owned)), bytes_(bytes) {}

    Matrix view_;
    std::shared_ptr<unsigned char> owned_;  // null if not ours
    int64_t bytes_;
};

}  // namespace draftwalk
