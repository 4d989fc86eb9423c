#include "matrix.h"

#include <stdexcept>

namespace draftwalk {

namespace {

struct LayoutFacts {
    const char* name;
    int64_t block;         // inputs
    int64_t source_bytes;  // of a block in a file
    int64_t tile_bytes;    // of the same block of 16 outputs in a tile: see kernels/formats.h
};

constexpr LayoutFacts FACTS[] = {
    {"f32", 1, 4, 64},
    {"f16", 1, 2, 32},
    {"bf16", 1, 2, 32},
    {"q8_0", 32, 34, 512 + 32},
    {"q4_0", 32, 18, 256 + 32},
    {"q4_1", 32, 20, 256 + 64},
    {"q5_0", 32, 22, 320 + 32},
    {"q5_1", 32, 24, 320 + 64},
    {"q2_k", 256, 84, 8 * 128 + 64 + 256},
    {"q3_k", 256, 110, 8 * 192 + 32 + 256},
    {"q4_k", 256, 144, 8 * 256 + 64 + 256},
    {"q5_k", 256, 176, 8 * 320 + 64 + 256},
    {"q6_k", 256, 210, 8 * 384 + 32 + 256},
    {"iq4_nl", 32, 18, 256 + 32},
    {"iq4_xs", 256, 136, 8 * 256 + 32 + 128},
    {"mxfp4", 32, 17, 256 + 16},
};
static_assert(sizeof(FACTS) / sizeof(FACTS[0]) == static_cast<size_t>(Layout::count));

const LayoutFacts& facts_of(Layout layout) { return FACTS[static_cast<size_t>(layout)]; }

void check_size(const LayoutFacts& facts, int64_t outputs, int64_t inputs) {
    constexpr int64_t most = int64_t{1} << 31;
    if (outputs <= 0 || inputs <= 0 || outputs > most || inputs > most || inputs % facts.block)
        throw std::invalid_argument(std::string("no matrix of layout ") + facts.name + " has this size");
}

int64_t tiles_of(int64_t outputs) { return (outputs + TILE - 1) / TILE; }

}  // namespace

Layout layout_of(const std::string& name) {
    for (size_t n = 0; n < static_cast<size_t>(Layout::count); ++n) {
        if (name == FACTS[n].name) return static_cast<Layout>(n);
    }
    throw std::invalid_argument("no layout " + name);
}

const char* layout_name(Layout layout) { return facts_of(layout).name; }

int64_t packed_bytes(const std::string& layout, int64_t outputs, int64_t inputs) {
    const LayoutFacts& facts = facts_of(layout_of(layout));
    check_size(facts, outputs, inputs);
    return tiles_of(outputs) * (inputs / facts.block) * facts.tile_bytes;
}

std::shared_ptr<PackedMatrix> PackedMatrix::pack(const std::shared_ptr<Runtime>& runtime,
                                                 const std::string& layout, uint64_t source,
                                                 int64_t outputs, int64_t inputs) {
    const int64_t bytes = packed_bytes(layout, outputs, inputs);
    const std::shared_ptr<unsigned char> memory = runtime->weights.take(bytes);
    const Matrix view{layout_of(layout), false, outputs, inputs, bytes / tiles_of(outputs),
                      memory.get()};
    std::shared_ptr<PackedMatrix> matrix(new PackedMatrix(view, memory, bytes));
    const PackArgs args{reinterpret_cast<const unsigned char*>(static_cast<uintptr_t>(source)),
                        view, memory.get()};
    Program program(runtime);
    program.add(&Kernels::pack, args, tiles_of(outputs), 4, "pack");
    program.replay();
    return matrix;
}

std::shared_ptr<PackedMatrix> PackedMatrix::stored(const std::string& layout, uint64_t source,
                                                   int64_t outputs, int64_t inputs) {
    const LayoutFacts& facts = facts_of(layout_of(layout));
    check_size(facts, outputs, inputs);
    const int64_t row = inputs / facts.block * facts.source_bytes;
    const auto* data = reinterpret_cast<const unsigned char*>(static_cast<uintptr_t>(source));
    const Matrix view{layout_of(layout), true, outputs, inputs, row, data};
    return std::shared_ptr<PackedMatrix>(new PackedMatrix(view, nullptr, row * outputs));
}

}  // namespace draftwalk
