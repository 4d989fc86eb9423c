// One tile of a matrix times rows: sums[row][16]. The heart of the engine.
//
// A tile's weights come from memory once for all rows of a panel: a group's codes meet four rows at
// a time, whose sums stay in registers. Where there are many rows, they are unpacked once for all.
#pragma once

#include "formats.h"
#include "kernels.h"

namespace draftwalk::DW_ISA {

constexpr int64_t PANEL = 32;  // rows that share one pass over a tile

struct Panel {  // rows [first, first + count) of all rows
    int64_t first, count;
};

// R values that must live in registers: an array would be put into memory.
template <int N>
struct Index {
    constexpr operator int() const { return N; }
};
template <class T, int R>
struct Several : Several<T, R - 1> {
    using Several<T, R - 1>::operator[];
    T value;
    DW_INLINE_MEMBER T& operator[](Index<R - 1>) { return value; }
};
template <class T>
struct Several<T, 1> {
    T value;
    DW_INLINE_MEMBER T& operator[](Index<0>) { return value; }
};
template <int R, class Body>
DW_INLINE void each(const Body& body) {
    if constexpr (R > 1) each<R - 1>(body);
    body(Index<R - 1>{});
}
#define DW_EACH_ROW each<R>([&](auto r) DW_INLINE_LAMBDA

// ---- quantised --------------------------------------------------------------------------------------

// Codes at hand: `at<Quad>()`, or `wide_at<Quad>()` where sums are wide.
template <class F>
struct Spread {  // unpacked to memory, for several rows
    static constexpr int64_t BYTES = F::SUM == Sum::wide ? WIDE_CODES_BYTES : 64;
    alignas(64) uint8_t bytes[8 * BYTES];

    Spread(const uint8_t* block, int group) { fill<0>(block, group); }
    template <int Quad>
    DW_INLINE_MEMBER Codes at() const {
        return load_codes(bytes + Quad * BYTES);
    }
    template <int Quad>
    DW_INLINE_MEMBER WideCodes wide_at() const {
        return load_wide_codes(bytes + Quad * BYTES);
    }

private:
    template <int Quad>
    DW_INLINE_MEMBER void fill(const uint8_t* block, int group) {
        const Codes codes = F::template codes<Quad>(block, group);
        if constexpr (F::SUM == Sum::wide) store_wide_codes(bytes + Quad * BYTES, widen(codes));
        else store_codes(bytes + Quad * BYTES, codes);
        if constexpr (Quad < 7) fill<Quad + 1>(block, group);
    }
};
template <class F>
struct Packed {  // read where they are used
    const uint8_t* block;
    int group;
    template <int Quad>
    DW_INLINE_MEMBER Codes at() const {
        return F::template codes<Quad>(block, group);
    }
    template <int Quad>
    DW_INLINE_MEMBER WideCodes wide_at() const {
        return widen(F::template codes<Quad>(block, group));
    }
};

// The same for 8-bit codes, whose inputs are made ready once for a group.
template <int First, int Last, int R, class Source>
DW_INLINE void add_wide_quads(const Source& source, const WideInputs* inputs,
                              Several<Wide, R>& sums) {
    WideCodes codes = source.template wide_at<First>();
    keep(codes);
    DW_EACH_ROW { accumulate(sums[r], codes, inputs[r], First); });
    if constexpr (First + 1 < Last) add_wide_quads<First + 1, Last>(source, inputs, sums);
}

// Adds the products of quads First to Last - 1 to the rows' integer sums.
template <int First, int Last, int R, class Source, class Kind>
DW_INLINE void add_quads(const Source& source, const int8_t* values, Several<Kind, R>& sums) {
    Codes codes = source.template at<First>();
    keep(codes);
    DW_EACH_ROW { accumulate(sums[r], codes, values + r * GROUP + 4 * First); });
    if constexpr (First + 1 < Last) add_quads<First + 1, Last>(source, values, sums);
}

// R rows of one group: sums[r] = fma(...) as the numerics of the design say, in this order: the
// product, then the minimum.
template <class F, int R, class Source>
DW_INLINE void add_group(const Source& source, const Factors& factors, const Quantised& q,
                         int64_t entry, float* sums) {
    const int8_t* values = q.values + entry * GROUP;
    const int16_t* parts = q.parts + entry * 4;
    Several<Ints, R> dots, minima;
    if constexpr (F::SUM == Sum::halves) {
        Several<Narrow, R> half;
        DW_EACH_ROW { half[r] = narrow_half(parts + 4 * r, F::OFFSET); });
        add_quads<0, 4>(source, values, half);
        DW_EACH_ROW { dots[r] = finish(half[r], factors.halves[0]); });
        DW_EACH_ROW { half[r] = narrow_half(parts + 4 * r + 2, F::OFFSET); });
        add_quads<4, 8>(source, values, half);
        DW_EACH_ROW { dots[r] = dots[r] + finish(half[r], factors.halves[1]); });
        if constexpr (F::MINIMA) {
            DW_EACH_ROW {
                const int16_t* p = parts + 4 * r;
                minima[r] = fill_ints(p[0] + p[1]) * factors.minima[0] +
                            fill_ints(p[2] + p[3]) * factors.minima[1];
            });
        }
    } else {
        if constexpr (F::SUM == Sum::wide) {
            Several<Wide, R> sum;
            DW_EACH_ROW { sum[r] = wide(parts + 4 * r); });
            WideInputs inputs[R];
            DW_EACH_ROW { inputs[r] = widen(values + r * GROUP); });
            add_wide_quads<0, 8>(source, inputs, sum);
            DW_EACH_ROW { dots[r] = finish(sum[r]); });
        } else {
            // Unsigned codes of 5 bits are summed minus 16, which is added back in 32 bits.
            constexpr int back = F::OFFSET == 0 && F::Group::BYTES > 256 ? 16 : 0;
            Several<Narrow, R> sum;
            DW_EACH_ROW { sum[r] = narrow(parts + 4 * r, F::OFFSET + back); });
            add_quads<0, 8>(source, values, sum);
            DW_EACH_ROW {
                dots[r] = finish(sum[r]);
                if constexpr (back > 0) {
                    const int16_t* p = parts + 4 * r;
                    dots[r] = dots[r] + fill_ints(back * (p[0] + p[1] + p[2] + p[3]));
                }
            });
        }
    }
    DW_EACH_ROW {
        float* to = sums + r * TILE;
        const Lanes a_scale = fill(q.scales[entry + r]);
        Lanes sum = fma(to_floats(dots[r]), factors.scale * a_scale, load(to));
        if constexpr (F::MINIMA && F::SUM == Sum::halves)
            sum = fma(to_floats(minima[r]), factors.minimum * a_scale, sum);
        else if constexpr (F::MINIMA)
            sum = fma(factors.minimum, fill(q.sums[entry + r]), sum);
        store(to, sum);
    });
}

// The last `count` rows of a panel, at most Most.
template <class F, int Most, class Source>
DW_INLINE void add_rest(const Source& codes, const Factors& factors, const Quantised& q,
                        int64_t entry, float* sums, int64_t count) {
    if constexpr (Most > 0) {
        if (count == Most) add_group<F, Most>(codes, factors, q, entry, sums);
        else add_rest<F, Most - 1>(codes, factors, q, entry, sums, count);
    }
}

// Rows whose sums fit the registers.
template <class F>
constexpr int TOGETHER = F::SUM == Sum::wide ? WIDE_ROWS : NARROW_ROWS;

// A group of all rows of a panel.
template <class F, class Source>
DW_INLINE void add_rows(const Source& codes, const Factors& factors, const Quantised& q,
                        int64_t entry, float* sums, int64_t count) {
    constexpr int together = TOGETHER<F>;
    int64_t r = 0;
    for (; r + together <= count; r += together)
        add_group<F, together>(codes, factors, q, entry + r, sums + r * TILE);
    add_rest<F, together - 1>(codes, factors, q, entry + r, sums + r * TILE, count - r);
}

// Asks for what comes AHEAD bytes after a group: the hardware's own guess ends with every page.
constexpr int64_t AHEAD = 2048;

template <class F>
DW_INLINE void fetch_ahead(const uint8_t* block, int group) {
    constexpr int64_t share = (F::BYTES + F::GROUPS - 1) / F::GROUPS;
    const uint8_t* from = block + group * share + AHEAD;
    for (int64_t at = 0; at < share; at += 64) __builtin_prefetch(from + at);
}

// Does `body(codes, factors, entry)` for each group of a tile.
template <class F, class Source, class Body>
DW_INLINE void each_group(const uint8_t* tile, int64_t groups, int64_t rows, Panel panel,
                          const Body& body) {
    for (int64_t g = 0; g < groups; ++g) {
        const uint8_t* block = tile + g / F::GROUPS * F::BYTES;
        const int within = static_cast<int>(g % F::GROUPS);
        if (panel.first == 0) fetch_ahead<F>(block, within);
        body(Source{block, within}, F::factors(block, within), g * rows + panel.first);
    }
}

template <class F>
DW_NO_INLINE void quantised_tile(const uint8_t* tile, int64_t groups, const Quantised& q,
                                 int64_t rows, Panel panel, float* sums) {
    const int64_t count = panel.count;
    memset(sums, 0, static_cast<size_t>(count * TILE) * sizeof(float));
    const auto all = [&](const auto& codes, const Factors& factors, int64_t entry)
        DW_INLINE_LAMBDA { add_rows<F>(codes, factors, q, entry, sums, count); };
    if (count == 1)
        each_group<F, Packed<F>>(
            tile, groups, rows, panel,
            [&](const auto& codes, const Factors& factors, int64_t entry)
                DW_INLINE_LAMBDA { add_group<F, 1>(codes, factors, q, entry, sums); });
    else if (F::Group::WHOLE || count <= F::Group::READINGS * TOGETHER<F>)
        each_group<F, Packed<F>>(tile, groups, rows, panel, all);
    else if constexpr (!F::Group::WHOLE)
        each_group<F, Spread<F>>(tile, groups, rows, panel, all);
}

// ---- floats ---------------------------------------------------------------------------------------

// R rows times C tiles that follow each other; sums [C][rows][16]. Each sum is one chain, input after
// input; several of them hide its latency.
template <class F, int R, int C>
DW_INLINE void float_block(const uint8_t* tile, int64_t tile_bytes, int64_t inputs, const float* x,
                           float* sums, int64_t rows) {
    constexpr int N = R * C;
    Several<Lanes, N> sum;
    each<N>([&](auto n) DW_INLINE_LAMBDA { sum[n] = zero(); });
    for (int64_t k = 0; k < inputs; ++k) {
        each<N>([&](auto n) DW_INLINE_LAMBDA {
            const Lanes weights = F::weights(tile + n / R * tile_bytes + k * F::BYTES);
            sum[n] = fma(weights, fill(x[n % R * inputs + k]), sum[n]);
        });
    }
    each<N>([&](auto n) DW_INLINE_LAMBDA {
        store(sums + (n / R * rows + n % R) * TILE, sum[n]);
    });
}

template <class F>
DW_NO_INLINE void float_tile(const uint8_t* tile, int64_t inputs, const float* x, Panel panel,
                             float* sums) {
    x += panel.first * inputs;
    int64_t r = 0;
    for (; r + 4 <= panel.count; r += 4)
        float_block<F, 4, 1>(tile, 0, inputs, x + r * inputs, sums + r * TILE, 4);
    x += r * inputs;
    sums += r * TILE;
    switch (panel.count - r) {
        case 3: float_block<F, 3, 1>(tile, 0, inputs, x, sums, 3); break;
        case 2: float_block<F, 2, 1>(tile, 0, inputs, x, sums, 2); break;
        case 1: float_block<F, 1, 1>(tile, 0, inputs, x, sums, 1); break;
        default: break;
    }
}

template <class F>
DW_NO_INLINE void four_float_tiles(const uint8_t* tile, int64_t tile_bytes, int64_t inputs,
                                   const float* x, float* sums) {
    float_block<F, 1, 4>(tile, tile_bytes, inputs, x, sums, 1);
}

// ---- any --------------------------------------------------------------------------------------------

struct ProductOfTile {
    const LinearArgs& args;
    const uint8_t* tile;
    Panel panel;
    float* sums;

    template <class F>
    DW_INLINE_MEMBER void quantised() const {
        quantised_tile<F>(tile, args.matrix.inputs / GROUP, args.quantised, args.rows, panel, sums);
    }
    template <class F>
    DW_INLINE_MEMBER void floats() const {
        float_tile<F>(tile, args.matrix.inputs, args.x, panel, sums);
    }
};

// sums[row][16] of the panel's rows and one tile of the matrix.
static inline void product(const LinearArgs& args, int64_t tile, Panel panel, float* sums) {
    const Matrix& m = args.matrix;
    with_format(m.layout, ProductOfTile{args, m.data + tile * m.tile_bytes, panel, sums});
}

struct ProductOfFourTiles {
    const LinearArgs& args;
    const uint8_t* tile;
    float* sums;

    template <class F>
    DW_INLINE_MEMBER void quantised() const {}
    template <class F>
    DW_INLINE_MEMBER void floats() const {
        const Matrix& m = args.matrix;
        four_float_tiles<F>(tile, m.tile_bytes, m.inputs, args.x, sums);
    }
};

// sums[tile][16] of the only row and four tiles of a float matrix.
static inline void product_of_four(const LinearArgs& args, int64_t tile, float* sums) {
    const Matrix& m = args.matrix;
    with_format(m.layout, ProductOfFourTiles{args, m.data + tile * m.tile_bytes, sums});
}

DW_INLINE bool is_float(Layout layout) {
    return layout == Layout::f32 || layout == Layout::f16 || layout == Layout::bf16;
}

}  // namespace draftwalk::DW_ISA
