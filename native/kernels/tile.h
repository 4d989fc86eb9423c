// Attention over one tile of 64 places: scores, weights, and the weighted sums of values.
#pragma once

#include "../numeric/functions.h"
#include "../numeric/half.h"
#include "panels.h"
#include "places.h"
#include "rows.h"

namespace draftwalk::DW_ISA {

constexpr float LOWEST = -__builtin_inff();
constexpr int32_t COUNTING[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static inline float not_a_number() { return float_from_bits(0x7fc00000); }

// ---- sums of products ---------------------------------------------------------------------------

// Queries that go through a tile together at most, and vectors of 16 sums abreast for all of them
// together: as many as registers hold.
#if defined(DW_ISA_AVX512)
constexpr int BLOCK = 12, SUMS = 24;
#elif defined(DW_ISA_NEON)
constexpr int BLOCK = 6, SUMS = 6;
#else
constexpr int BLOCK = 6, SUMS = 4;
#endif
template <int Queries>
constexpr int ABREAST = SUMS / Queries >= 4 ? 4 : SUMS / Queries >= 2 ? 2 : 1;

// A matrix of keys [channels][places] or values [places][channels]: rows are `stride` apart,
// vectors of 16 in a row `step`.
template <class Number>
struct Columns {
    const Number* data;
    int64_t stride, step;
};

DW_INLINE Lanes read(const float* from) { return load(from); }
DW_INLINE Lanes read(const uint16_t* from) { return load_half(from); }

// Memory to be fetched into the cache while a product is computed, line after line: 32 bytes, what
// 16 halves take, with each vector that is read.
using Ahead = const unsigned char*;

// out[q][v] = scale times the sum over k ascending of left[q][k] * right[k][v], a chain of fused
// multiply-adds from 0 for each. Adding 0 at the end makes -0 to 0, so that terms of nought times
// something finite never show.
template <int Queries, int Vectors, bool Fetch, class Number>
DW_INLINE void multiply(const float* const* left, Columns<Number> right, int64_t count,
                        float scale, float* out, int64_t stride, Ahead ahead) {
    Lanes sums[Queries][Vectors];
    for (int q = 0; q < Queries; ++q)
        for (int v = 0; v < Vectors; ++v) sums[q][v] = zero();
    for (int64_t k = 0; k < count; ++k, right.data += right.stride) {
        for (int v = 0; v < Vectors; ++v) {
            const Lanes column = read(right.data + v * right.step);
            if (Fetch && v % 2 == 0) __builtin_prefetch(ahead + (k * Vectors + v) * 32);
            for (int q = 0; q < Queries; ++q)
                sums[q][v] = fma(fill(left[q][k]), column, sums[q][v]);
        }
    }
    for (int q = 0; q < Queries; ++q)
        for (int v = 0; v < Vectors; ++v)
            store(out + q * stride + 16 * v, fma(sums[q][v], fill(scale), zero()));
}

template <int Queries, bool Fetch, class Number>
static inline void multiply_block(const float* const* left, Columns<Number> right, int64_t count,
                                  int64_t vectors, float scale, float* out, int64_t stride,
                                  Ahead ahead) {
    constexpr int abreast = ABREAST<Queries>;
    int64_t v = 0;
    for (; v + abreast <= vectors; v += abreast, right.data += abreast * right.step) {
        multiply<Queries, abreast, Fetch>(left, right, count, scale, out + 16 * v, stride, ahead);
        if (Fetch) ahead += abreast * count * 32;
    }
    for (; v < vectors; ++v, right.data += right.step) {
        multiply<Queries, 1, Fetch>(left, right, count, scale, out + 16 * v, stride, ahead);
        if (Fetch) ahead += count * 32;
    }
}

template <int Queries, bool Fetch, class Number>
static inline void multiply_some(int64_t queries, const float* const* left, Columns<Number> right,
                                 int64_t count, int64_t vectors, float scale, float* out,
                                 int64_t stride, Ahead ahead) {
    if constexpr (Queries > 1)
        if (queries < Queries)
            return multiply_some<Queries - 1, Fetch>(queries, left, right, count, vectors, scale,
                                                     out, stride, ahead);
    multiply_block<Queries, Fetch>(left, right, count, vectors, scale, out, stride, ahead);
}

// The same for any number of queries, in blocks as equal as can be; the first one fetches, if there
// is anything to be fetched.
template <class Number>
static inline void multiply_all(int64_t queries, const float* const* left, Columns<Number> right,
                                int64_t count, int64_t vectors, float scale, float* out,
                                int64_t stride, Ahead ahead) {
    for (int64_t blocks = (queries + BLOCK - 1) / BLOCK; blocks > 0; --blocks) {
        const int64_t some = (queries + blocks - 1) / blocks;
        if (ahead)
            multiply_some<BLOCK, true>(some, left, right, count, vectors, scale, out, stride,
                                       ahead);
        else
            multiply_some<BLOCK, false>(some, left, right, count, vectors, scale, out, stride,
                                        nullptr);
        ahead = nullptr;
        queries -= some;
        left += some;
        out += some * stride;
    }
}

// ---- keys and values ----------------------------------------------------------------------------

// Widened: keys [vectors of 16 places][D][16], values [vectors of 16 channels][64][16], channels
// behind the last 0.
struct Widened {
    float* keys;
    float* values;
};

static inline void widen_halves(const HeadPage& page, int64_t size, Places range, Widened into) {
    const auto* keys = reinterpret_cast<const uint16_t*>(page.keys);
    const auto* values = reinterpret_cast<const uint16_t*>(page.values);
    for (int64_t channel = 0; channel < size; ++channel)
        for (int64_t v = range.first / 16; 16 * v < range.last; ++v)
            store(into.keys + (v * size + channel) * 16,
                  load_half(keys + channel * PAGE + 16 * v));
    for (int64_t place = range.first; place < range.last; ++place)
        along(size, [&](int64_t start, int64_t count) {
            const uint16_t* from = values + place * size + start;
            float* to = into.values + (start / 16 * PAGE + place) * 16;
            if (count == 16) return store(to, load_half(from));
            uint16_t rest[16] = {};
            memcpy(rest, from, static_cast<size_t>(count) * 2);
            store(to, load_half(rest));
        });
}

static inline void widen_bytes(const HeadPage& page, int64_t size, Places range, Widened into) {
    const auto* keys = reinterpret_cast<const int8_t*>(page.keys);
    const auto* values = reinterpret_cast<const int8_t*>(page.values);
    const int64_t first = range.first / 16, last = (range.last + 15) / 16, groups = size / GROUP;
    for (int64_t channel = 0; channel < size; ++channel)
        for (int64_t v = first; v < last; ++v) {
            const Lanes numbers = to_floats(load_signed(keys + channel * PAGE + 16 * v));
            const Lanes scales = load(page.key_scales + channel / GROUP * PAGE + 16 * v);
            store(into.keys + (v * size + channel) * 16, numbers * scales);
        }
    for (int64_t group = 0; group < groups; ++group)
        for (int64_t place = range.first; place < range.last; ++place) {
            const int8_t* from = values + place * size + group * GROUP;
            const Lanes scale = fill(page.value_scales[place * groups + group]);
            float* to = into.values + (2 * group * PAGE + place) * 16;
            store(to, to_floats(load_signed(from)) * scale);
            store(to + PAGE * 16, to_floats(load_signed(from + 16)) * scale);
        }
}

// Which places' values are not all finite.
template <class Number>
static inline uint64_t spoiled_places(Columns<Number> values, int64_t vectors, Places range) {
    uint64_t spoiled = 0;
    for (int64_t place = range.first; place < range.last; ++place) {
        Lanes check = zero();
        for (int64_t v = 0; v < vectors; ++v)
            check = fma(read(values.data + place * values.stride + v * values.step), zero(), check);
        if (!all_finite(check)) spoiled |= uint64_t{1} << place;
    }
    return spoiled;
}

static inline uint64_t bits_in(Places range) {
    const uint64_t below = range.last == 64 ? ~uint64_t{0} : (uint64_t{1} << range.last) - 1;
    return below & ~((uint64_t{1} << range.first) - 1);
}

// ---- from scores to weights ---------------------------------------------------------------------

DW_INLINE Mask visible(Places seen, int64_t vector) {
    const Ints place = load_ints(COUNTING) + fill_ints(static_cast<int32_t>(16 * vector));
    const Ints before = fill_ints(static_cast<int32_t>(seen.first)) - place;
    const Ints behind = place - fill_ints(static_cast<int32_t>(seen.last - 1));
    return greater(fill_ints(1), max(before, behind));
}

// Caps a query's scores and hides what it does not see, over the vectors [first, last) of places;
// returns the greatest, or NaN if one that it sees is not finite.
DW_INLINE float survey(float* scores, int64_t first, int64_t last, Places seen, float softcap) {
    const bool all = seen.first <= 16 * first && seen.last >= 16 * last;
    Lanes peaks = fill(LOWEST), check = zero();
    for (int64_t v = first; v < last; ++v) {
        Lanes score = load(scores + 16 * v);
        if (!all) score = select(visible(seen, v), score, zero());
        check = fma(score, zero(), check);
        if (softcap > 0.0f) score = fill(softcap) * tanh(score / fill(softcap));
        if (!all) score = select(visible(seen, v), score, fill(LOWEST));
        if (!all || softcap > 0.0f) store(scores + 16 * v, score);
        peaks = max(peaks, score);
    }
    return all_finite(check) ? greatest(peaks) : not_a_number();
}

// Makes weights of them, with sum 1 for the greatest alone; returns their sum.
DW_INLINE float weigh(float* scores, int64_t first, int64_t last, float peak) {
    Lanes sums = zero();
    for (int64_t v = first; v < last; ++v) {
        const Lanes weight = exp_below(load(scores + 16 * v) - fill(peak));
        sums = sums + weight;
        store(scores + 16 * v, weight);
    }
    return sum(sums);
}

}  // namespace draftwalk::DW_ISA
