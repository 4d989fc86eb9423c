// What kernels are called with, the same for every instruction set.
//
// A call does units [first, last) of `args`; how many there are is asked when the call is replayed,
// since it may depend on the row table's data. Results never depend on how units are split.
//
// Letters: T rows of the pass, W rows with logits, H width, N query heads, G key/value heads,
// D values per head, V vocabulary, K candidates, R selector rank.
#pragma once

#include <cstddef>
#include <cstdint>

namespace draftwalk {

constexpr int64_t PAGE = 64;   // places per page: the tile of attention
constexpr int64_t GROUP = 32;  // inputs that share an activation scale
constexpr int64_t TILE = 16;   // outputs that stand side by side in a packed matrix

// Memory of one thread, for one call; what it hands out is aligned to 64 bytes.
class Scratch {
public:
    template <class T>
    T* take(int64_t count) {
        return static_cast<T*>(bytes(count * static_cast<int64_t>(sizeof(T))));
    }
    virtual void* bytes(int64_t size) = 0;

protected:
    ~Scratch() = default;
};

using Kernel = void (*)(const void* args, int64_t first, int64_t last, Scratch& scratch);

// ---- the row table -----------------------------------------------------------------------------

struct Span {
    int64_t sequence, start, stop, context;
};

struct RowTable {  // draftwalk/rows.py; all numbers are data that is filled in at replay
    int64_t size;            // T
    int64_t wanted_count;    // W
    int64_t span_count;
    const Span* spans;
    const int64_t* tokens;     // [T]
    const int64_t* sequences;  // [T]
    const int64_t* places;     // [T]
    const int64_t* positions;  // [planes, T]
    const int64_t* parents;    // [T]
    const int64_t* wanted;     // [W]
    const float* embeddings;   // [E, H] or null
};

struct PageTable {  // page numbers [slots, pages], -1 where a window has freed one
    const int32_t* values;
    int64_t slots, pages;
};

enum class KvType : int32_t { half, bytes };

// Pages of several layers. A page of a layer holds, head after head, keys [D][64] and then values
// [64][D]; in 8 bit each is followed by its scales: keys [D / 32][64], values [64][D / 32] (fp32).
struct PagePool {
    KvType type;
    int64_t layers, heads, head_dim;
    int64_t page_bytes;       // of one layer
    unsigned char* const* layer;  // first page of each layer; changes when the pool grows
};

// ---- activations ------------------------------------------------------------------------------

// Rows as int8 with a scale per group of 32 inputs, group-major: entry (g, r) is at g * rows + r.
struct Quantised {
    int8_t* values;   // [groups][rows][32]
    float* scales;    // [groups][rows]
    float* sums;      // [groups][rows]: scale times the sum of the values
    int16_t* parts;   // [groups][rows][4]: sums of the values of inputs 0-15 and 16-31, each split
                      // into those with (input mod 4) in {0, 1} and in {2, 3}
};

struct QuantiseArgs {
    const float* x;  // [rows, width], width a multiple of 32
    int64_t rows, width;
    Quantised out;
};

struct NormArgs {
    const float* x;
    const float* weight;
    const float* residual;  // or null
    float* out;             // [rows, width], or null if only `quantised` is wanted
    Quantised quantised;    // values null if not wanted
    int64_t rows, width;
    float eps;
};

struct GatherArgs {
    const float* x;
    const int64_t* index;  // [rows]
    float* out;
    int64_t rows, width;
};

struct JoinArgs {
    static constexpr int64_t MOST = 16;
    const float* parts[MOST];  // each [rows, widths[i]]
    int64_t widths[MOST];
    int64_t count, rows;
    float* out;
};

// ---- matrices -----------------------------------------------------------------------------------

enum class Layout : int32_t {
    f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4,
    count
};

struct Matrix {
    // Packed: tile after tile of 16 outputs, missing outputs of the last one zero. As stored: rows of
    // blocks as the file has them, to look rows up.
    Layout layout;
    bool as_stored;
    int64_t outputs, inputs;
    int64_t tile_bytes;  // of 16 outputs where packed, of one where as stored
    const unsigned char* data;
};

struct PackArgs {  // units are tiles
    const unsigned char* source;  // rows of blocks as the file has them
    Matrix matrix;
    unsigned char* out;
};

enum class Activation : int32_t { silu, gelu_tanh };

struct LinearArgs {  // units are tiles
    Matrix matrix;
    const float* x;         // [rows, inputs]: for float matrices
    Quantised quantised;    // for quantised ones
    const float* bias;      // [outputs] or null
    const float* residual;  // [rows, outputs] or null: added last
    float* out;             // [rows, outputs]
    int64_t rows;
    float multiplier;  // of the product (with bias), 1 for none
    float softcap;     // 0 for none: softcap * tanh(value / softcap)
};

struct LinearsArgs {  // several linears of the same rows in one call; units are their tiles in order
    static constexpr int64_t MOST = 4;
    LinearArgs parts[MOST];
    int64_t count;
};

struct GatedArgs {  // units are 32 outputs
    LinearArgs gate, up;  // their `out` is not written
    Activation activation;
    float* out;           // [rows, outputs], or null if only `quantised` is wanted
    Quantised quantised;  // or values null; outputs must be a multiple of 32 then
};

struct EmbedArgs {  // units are rows
    Matrix table;
    const RowTable* rows;
    float scale;
    float* out;  // [T, H]
};

struct UnpackArgs {  // units are rows: rows `index` of a packed matrix in fp32
    Matrix matrix;
    const int64_t* index;  // or null for all
    int64_t rows;
    float* out;
};

// ---- attention ------------------------------------------------------------------------------------

struct HeadRotation {
    const float* weight;  // [D] of a norm per head, or null
    float eps;
    const float* cos;  // [positions, D / 2]
    const float* sin;
    int64_t head_dim;
};

struct RotateArgs {  // units are rows
    const float* x;  // [T, heads * D]
    HeadRotation rotation;
    int64_t heads;
    const RowTable* rows;
    float* out;  // [T, heads, D]
};

struct RememberArgs {  // units are (head, row), rows of a head together: head * T + row
    const float* k;  // [T, G * D]
    const float* v;
    HeadRotation rotation;
    const PagePool* pool;
    int64_t layer;
    const PageTable* table;
    const RowTable* rows;
};

struct AttendArgs {
    const float* q;  // [T, N, D]
    int64_t heads;   // N
    const PagePool* pool;
    int64_t layer;
    const PageTable* table;
    const RowTable* rows;
    float scale;
    bool causal;
    int64_t window;      // 0 for none
    float softcap;       // 0 for none
    const float* sinks;  // [N] or null
    int64_t threads;           // as many should find something to do
    void* const* workspace;    // for tiles' results, see panels.h
    float* out;                // [T, N * D], or null
    Quantised quantised;       // or values null; 32 must divide D then
};

struct FoldArgs {  // second half of `attend`, with the same arguments
    const AttendArgs* attend;
};

// ---- DFlash2 ------------------------------------------------------------------------------------

struct ConvolveArgs {
    const float* x;        // [T, H]
    const float* dynamic;  // [T, 2 * taps * groups]
    const float* base;     // [2, taps, H]
    int64_t side, taps, groups, width;
    const RowTable* rows;
    const float* residual;  // or null
    float* out;             // or null
    Quantised quantised;    // or values null
};

struct SelectorArgs {
    const float* unary;         // [M, K]
    const int64_t* candidates;  // [M, K]
    const float* gate;          // [M, R]
    Matrix before, after;       // [V, R]
    int64_t k, rank;
    const RowTable* rows;
    float* out;  // [M, K, K]
};

struct TopKArgs {
    const float* logits;  // [rows, vocabulary]
    int64_t rows, vocabulary, k;
    float* values;  // [rows, k]
    int64_t* ids;   // [rows, k]
};

struct ArgmaxArgs {
    const float* logits;
    int64_t rows, vocabulary;
    float* values;  // [rows] or null: NaN if there is one in the row
    int64_t* ids;   // [rows]
};

// ---- tests ------------------------------------------------------------------------------------------

enum class Function : int32_t { exp, exp_below, tanh, silu, gelu_tanh, count };

struct EvaluateArgs {  // numeric/functions.h; units are 16 numbers
    Function function;
    const float* x;
    float* out;
    int64_t count;
};

// ---- the table ------------------------------------------------------------------------------------

struct Kernels {
    const char* name;
    Kernel pack, unpack, embed;
    Kernel quantise, linears, gated;
    Kernel norm, gather, join;
    Kernel rotate, remember, attend, fold;  // fold: second half of attend, see attention.h
    Kernel convolve, selector, top_k, argmax;
    Kernel evaluate;
};

}  // namespace draftwalk
