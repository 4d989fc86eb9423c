// Attention of a pass over K/V pages, cut as panels.h says.
//
// Each tile gives a query its greatest score m, the sum s of exp(score - m), and the output o of
// those weights; tiles are folded in ascending order. A tile in which a query sees nothing is left
// out for it.
#pragma once

#include "quantise.h"
#include "tile.h"

namespace draftwalk::DW_ISA {

// Results of a panel's queries and one key/value head, of a tile or folded.
struct Results {
    float* peaks;    // -inf: nothing seen
    float* totals;
    float* outputs;  // [queries][width]
};

// A panel's queries of one key/value head, row after row, and memory to work in.
struct Work {
    const AttendArgs& args;
    Panel panel;
    int64_t head;
    int64_t per_head;      // query heads
    int64_t count, width;  // queries; of an output in memory
    const float** queries;
    Places* sights;        // of the sequence
    Places* seen;          // of the tile at hand
    const float** left;    // queries' weights
    float* scores;         // [queries][64]
    Widened widened;
};

static inline Results results_at(const AttendArgs& args, float* room) {
    const int64_t queries = panel_room(args);
    return {room, room + queries, room + 2 * queries};
}

static inline Work take_work(const AttendArgs& args, Scratch& scratch) {
    const int64_t queries = panel_room(args), width = output_room(args);
    Work work{args, {}, 0, queries_per_head(args), 0, width, nullptr, nullptr, nullptr, nullptr,
              nullptr, {}};
    work.queries = scratch.take<const float*>(queries);
    work.sights = scratch.take<Places>(queries);
    work.seen = scratch.take<Places>(queries);
    work.left = scratch.take<const float*>(queries);
    work.scores = scratch.take<float>(queries * PAGE);
    work.widened.keys = scratch.take<float>(args.pool->head_dim * PAGE);
    work.widened.values = scratch.take<float>(width * PAGE);
    return work;
}

static inline void turn_to(Work& work, const Panel& panel, int64_t head) {
    work.panel = panel;
    work.head = head;
    work.count = 0;
    for (int64_t row = panel.first_row; row < panel.last_row; ++row) {
        const int64_t first = row * work.args.heads + head * work.per_head;
        for (int64_t n = 0; n < work.per_head; ++n) {
            work.queries[work.count] = work.args.q + (first + n) * work.args.pool->head_dim;
            work.sights[work.count++] = sight(work.args, *panel.span, row);
        }
    }
}

// ---- one tile -----------------------------------------------------------------------------------

// Finds what each query sees of a tile; returns the places that any of them sees.
static inline Places look_at(const Work& work, int64_t tile) {
    Places any{PAGE, 0};
    for (int64_t q = 0; q < work.count; ++q) {
        const int64_t first = most(0, work.sights[q].first - tile * PAGE);
        const int64_t last = least(PAGE, work.sights[q].last - tile * PAGE);
        work.seen[q] = first < last ? Places{first, last} : Places{0, 0};
        if (first < last) any = {least(any.first, first), most(any.last, last)};
    }
    return any;
}

template <class Number>
static inline void attend_columns(const Work& work, Columns<Number> keys, Columns<Number> values,
                                  Places any, uint64_t spoiled, Results into,
                                  HeadPage next) {
    const int64_t first = any.first / 16, last = (any.last + 15) / 16;
    keys.data += first * keys.step;
    values.data += any.first * values.stride;
    multiply_all(work.count, work.queries, keys, work.args.pool->head_dim, last - first,
                 work.args.scale, work.scores + 16 * first, PAGE, next.keys);
    for (int64_t q = 0; q < work.count; ++q)
        into.peaks[q] =
            survey(work.scores + q * PAGE, first, last, work.seen[q], work.args.softcap);
    for (int64_t q = 0; q < work.count; ++q) {
        float* scores = work.scores + q * PAGE;
        work.left[q] = scores + any.first;
        if (into.peaks[q] > LOWEST) {
            into.totals[q] = weigh(scores, first, last, into.peaks[q]);
            if (!(spoiled & bits_in(work.seen[q]))) continue;
        }
        // Nothing to see, or what is seen is not finite: that makes the whole output NaN.
        const bool nothing = work.seen[q].first == work.seen[q].last;
        into.peaks[q] = nothing ? LOWEST : 0.0f;
        into.totals[q] = nothing ? 0.0f : not_a_number();
        for (int64_t v = first; v < last; ++v) store(scores + 16 * v, zero());
    }
    multiply_all(work.count, work.left, values, any.last - any.first, work.width / 16, 1.0f,
                 into.outputs, work.width, next.values);
}

// The page that is likely to come next.
static inline HeadPage following(const Work& work, int64_t tile) {
    const bool same = tile + 1 < work.panel.last_tile;
    const int64_t head = same ? work.head : work.head + 1;
    const int64_t next = same ? tile + 1 : work.panel.first_tile;
    const PagePool& pool = *work.args.pool;
    if (head == pool.heads) return {};
    const int64_t number = page_of(*work.args.table, work.panel.span->sequence, next);
    return head_page(pool, work.args.layer, number, head);
}

static inline void attend_tile(const Work& work, int64_t tile, Results into) {
    const PagePool& pool = *work.args.pool;
    const int64_t size = pool.head_dim, vectors = work.width / 16;
    const int64_t number = page_of(*work.args.table, work.panel.span->sequence, tile);
    const HeadPage page = head_page(pool, work.args.layer, number, work.head);
    const Places any = look_at(work, tile);
    // A query must not notice values that only others see, and nought times infinity is no nought.
    const Places one = work.seen[0], other = work.seen[work.count - 1];
    const bool apart = one.first != other.first || one.last != other.last;
    if (pool.type == KvType::half && size % 16 == 0) {
        const Columns<uint16_t> keys{reinterpret_cast<const uint16_t*>(page.keys), PAGE, 16};
        const Columns<uint16_t> values{reinterpret_cast<const uint16_t*>(page.values), size, 16};
        if (!apart || spoiled_places(values, vectors, any) == 0)
            return attend_columns(work, keys, values, any, 0, into, following(work, tile));
    }
    if (pool.type == KvType::half) widen_halves(page, size, any, work.widened);
    else widen_bytes(page, size, any, work.widened);
    const Columns<float> keys{work.widened.keys, 16, size * 16};
    const Columns<float> values{work.widened.values, 16, PAGE * 16};
    const uint64_t spoiled = apart ? spoiled_places(values, vectors, any) : 0;
    for (uint64_t rest = spoiled; rest; rest &= rest - 1)
        for (int64_t v = 0; v < vectors; ++v)
            store(work.widened.values + (v * PAGE + __builtin_ctzll(rest)) * 16, zero());
    attend_columns(work, keys, values, any, spoiled, into, following(work, tile));
}

// ---- folding ------------------------------------------------------------------------------------

// Queries [first, last) of a panel.
struct Slice {
    int64_t first, last;
};

static inline void begin(const Work& work, Slice slice, Results folded) {
    for (int64_t q = slice.first; q < slice.last; ++q) {
        folded.peaks[q] = LOWEST;
        folded.totals[q] = 0.0f;
        memset(folded.outputs + q * work.width, 0, static_cast<size_t>(work.width) * sizeof(float));
    }
}

// Folds 16 queries of a tile into what is there: both sides shrink to the greater of their peaks.
static inline void fold_sixteen(const Work& work, int64_t first, Results tile, Results folded) {
    const Lanes peak = load(folded.peaks + first), more = load(tile.peaks + first);
    const Lanes total = load(folded.totals + first), greater = max(peak, more);
    const Lanes keep = exp_below(peak - greater), add = exp_below(more - greater);
    const Mask seen = less(fill(LOWEST), more);
    const Lanes sum = fma(load(tile.totals + first), add, total * keep);
    store(folded.peaks + first, select(seen, greater, peak));
    store(folded.totals + first, select(seen, sum, total));
    float kept[16], added[16];
    store(kept, keep);
    store(added, add);
    const uint32_t which = bits_of(seen);
    const int64_t count = least(16, work.count - first);
    for (int64_t i = 0; i < count; ++i) {
        if (!(which >> i & 1)) continue;
        float* to = folded.outputs + (first + i) * work.width;
        const float* from = tile.outputs + (first + i) * work.width;
        const Lanes k = fill(kept[i]), a = fill(added[i]);
        for (int64_t start = 0; start < work.width; start += 16)
            store(to + start, fma(load(from + start), a, load(to + start) * k));
    }
}

static inline void fold_tile(const Work& work, Slice slice, Results tile, Results folded) {
    for (int64_t first = slice.first; first < slice.last; first += 16)
        fold_sixteen(work, first, tile, folded);
}

// A sink joins as a last tile with sum 1 and output 0.
static inline void fold_sink(float sink, int64_t width, float peak, float& total, float* output) {
    const float greater = max(peak, sink);
    float terms[16] = {peak - greater, sink - greater};
    store(terms, exp(load(terms)));
    total = fma(1.0f, terms[1], total * terms[0]);
    for (int64_t start = 0; start < width; start += 16)
        store(output + start, load(output + start) * fill(terms[0]));
}

// Divides an output by its sum; what is not finite makes all of it NaN.
static inline void divide(float* output, int64_t width, float total) {
    Lanes check = zero();
    for (int64_t start = 0; start < width; start += 16) {
        const Lanes part = load(output + start) / fill(total);
        check = fma(part, zero(), check);
        store(output + start, part);
    }
    if (all_finite(check)) return;
    for (int64_t start = 0; start < width; start += 16) store(output + start, fill(not_a_number()));
}

// Writes the queries' outputs.
static inline void finish(const Work& work, Slice slice, Results folded) {
    const AttendArgs& args = work.args;
    const int64_t size = args.pool->head_dim;
    for (int64_t q = slice.first; q < slice.last; ++q) {
        const int64_t row = work.panel.first_row + q / work.per_head;
        const int64_t head = work.head * work.per_head + q % work.per_head;
        float* output = folded.outputs + q * work.width;
        float& total = folded.totals[q];
        if (args.sinks) fold_sink(args.sinks[head], work.width, folded.peaks[q], total, output);
        divide(output, work.width, total);
        if (args.out)
            memcpy(args.out + (row * args.heads + head) * size, output,
                   static_cast<size_t>(size) * sizeof(float));
        if (args.quantised.values)
            for (int64_t group = 0; group < size / GROUP; ++group)
                quantise_group(output + group * GROUP, args.quantised, head * size / GROUP + group,
                               row, args.rows->size);
    }
}

// ---- calls --------------------------------------------------------------------------------------

static void attend(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const auto& args = *static_cast<const AttendArgs*>(pointer);
    Work work = take_work(args, scratch);
    if (output_room(args) != args.pool->head_dim)  // channels that fill the last vector up
        memset(work.widened.values, 0, static_cast<size_t>(work.width * PAGE) * sizeof(float));
    if (by_tiles(args)) {
        auto* room = static_cast<float*>(*args.workspace);
        each_panel_head(args, 0, INT64_MAX, [&](const Panel& panel, int64_t head) {
            const int64_t tiles = panel.last_tile - panel.first_tile;
            if (first < tiles && last > 0) turn_to(work, panel, head);
            for (int64_t n = most(0, first); n < least(tiles, last); ++n) {
                const Results into = results_at(args, room + n * unit_room(args));
                attend_tile(work, panel.first_tile + n, into);
            }
            room += tiles * unit_room(args);
            first -= tiles;
            last -= tiles;
        });
        return;
    }
    const Results tile = results_at(args, scratch.take<float>(unit_room(args)));
    const Results folded = results_at(args, scratch.take<float>(unit_room(args)));
    each_panel_head(args, first, last, [&](const Panel& panel, int64_t head) {
        turn_to(work, panel, head);
        const Slice all{0, work.count};
        begin(work, all, folded);
        for (int64_t n = panel.first_tile; n < panel.last_tile; ++n) {
            attend_tile(work, n, tile);
            fold_tile(work, all, tile, folded);
        }
        finish(work, all, folded);
    });
}

static void fold(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const AttendArgs& args = *static_cast<const FoldArgs*>(pointer)->attend;
    Work work = take_work(args, scratch);
    const Results folded = results_at(args, scratch.take<float>(unit_room(args)));
    auto* room = static_cast<float*>(*args.workspace);
    int64_t unit = 0;
    each_panel_head(args, 0, INT64_MAX, [&](const Panel& panel, int64_t head) {
        const int64_t tiles = panel.last_tile - panel.first_tile;
        for (int64_t n = 0; n < fold_slices(args); ++n, ++unit) {
            if (unit < first || unit >= last) continue;
            turn_to(work, panel, head);
            const Slice slice{least(16 * n, work.count), least(16 * n + 16, work.count)};
            begin(work, slice, folded);
            for (int64_t tile = 0; tile < tiles; ++tile) {
                const Results one = results_at(args, room + tile * unit_room(args));
                fold_tile(work, slice, one, folded);
            }
            finish(work, slice, folded);
        }
        room += tiles * unit_room(args);
    });
}

}  // namespace draftwalk::DW_ISA
