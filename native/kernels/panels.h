// How a pass's attention is cut into units; no result depends on it.
//
// A panel is some rows of one span. A unit takes a panel and one key/value head through the tiles
// of 64 places that its rows see, so that all rows and all query heads of that head share each
// tile's loads. Where that makes too few units for the threads, a unit is one tile: its results go
// to the workspace, and `fold` puts them together afterwards.
#pragma once

#include "kernels.h"

namespace draftwalk {

constexpr int64_t PANEL_QUERIES = 32;  // rows times query heads of one key/value head, at most
constexpr int64_t FEW_QUERIES = 24;    // panels of so few, a draft at most, are not cut for threads

// Places [first, last) of a sequence.
struct Places {
    int64_t first, last;
};

struct Panel {
    const Span* span;
    int64_t first_row, last_row;    // rows of the pass
    int64_t first_tile, last_tile;  // what any of them sees
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// What a row sees: never nothing, since it sees itself.
static inline Places sight(const AttendArgs& args, const Span& span, int64_t row) {
    const int64_t place = span.context + row - span.start;
    const int64_t end = span.context + span.stop - span.start;
    const int64_t ahead = args.causal ? 1 : args.window ? args.window : end;
    return {args.window ? most(0, place - args.window + 1) : 0, least(end, place + ahead)};
}

static inline int64_t queries_per_head(const AttendArgs& args) {
    return args.heads / args.pool->heads;
}

// So many that each thread has two units, if the pass has the rows.
static inline int64_t panel_rows(const AttendArgs& args) {
    const int64_t queries = queries_per_head(args), heads = args.pool->heads;
    const int64_t panels = (2 * args.threads + heads - 1) / heads;
    const int64_t equal = (args.rows->size + panels - 1) / panels;
    const int64_t few = (FEW_QUERIES + queries - 1) / queries;
    return most(1, least(most(equal, few), PANEL_QUERIES / queries));
}

static inline Panel panel_at(const AttendArgs& args, const Span& span, int64_t row) {
    const int64_t last_row = least(span.stop, row + panel_rows(args));
    // Later rows see from a later place on and no less far.
    const int64_t first = sight(args, span, row).first, last = sight(args, span, last_row - 1).last;
    return {&span, row, last_row, first / PAGE, (last + PAGE - 1) / PAGE};
}

static inline int64_t panels_of(const AttendArgs& args, const Span& span) {
    return (span.stop - span.start + panel_rows(args) - 1) / panel_rows(args);
}

static inline int64_t panel_count(const AttendArgs& args) {
    int64_t count = 0;
    for (int64_t n = 0; n < args.rows->span_count; ++n)
        count += panels_of(args, args.rows->spans[n]);
    return count;
}

// Does `body(panel, head)` for numbers [first, last) of panels times key/value heads.
template <class Body>
static inline void each_panel_head(const AttendArgs& args, int64_t first, int64_t last, Body body) {
    const int64_t heads = args.pool->heads;
    int64_t number = 0;
    for (int64_t n = 0; n < args.rows->span_count && number < last; ++n) {
        const Span& span = args.rows->spans[n];
        const int64_t end = number + panels_of(args, span) * heads;
        for (int64_t at = most(number, first); at < least(end, last); ++at) {
            const int64_t row = span.start + (at - number) / heads * panel_rows(args);
            body(panel_at(args, span, row), (at - number) % heads);
        }
        number = end;
    }
}

// Whether units are single tiles.
static inline bool by_tiles(const AttendArgs& args) {
    return args.threads > 1 && panel_count(args) * args.pool->heads < 2 * args.threads;
}

static inline int64_t attend_units(const void* pointer) {
    const auto& args = *static_cast<const AttendArgs*>(pointer);
    if (!by_tiles(args)) return panel_count(args) * args.pool->heads;
    int64_t tiles = 0;
    each_panel_head(args, 0, INT64_MAX, [&](const Panel& panel, int64_t) {
        tiles += panel.last_tile - panel.first_tile;
    });
    return tiles;
}

// Queries that a panel may have, and outputs of one in memory: both in whole vectors.
static inline int64_t panel_room(const AttendArgs& args) {
    const int64_t rows = least(panel_rows(args), args.rows->size);
    return (rows * queries_per_head(args) + 15) / 16 * 16;
}
static inline int64_t output_room(const AttendArgs& args) {
    return (args.pool->head_dim + 15) / 16 * 16;
}

// A panel's queries are folded 16 at a time, each a unit; none if `attend` was done at once.
static inline int64_t fold_slices(const AttendArgs& args) { return panel_room(args) / 16; }

static inline int64_t fold_units(const void* pointer) {
    const AttendArgs& args = *static_cast<const FoldArgs*>(pointer)->attend;
    if (!by_tiles(args)) return 0;
    return panel_count(args) * args.pool->heads * fold_slices(args);
}

// Floats of one unit in the workspace: greatest scores, sums and outputs of the queries.
static inline int64_t unit_room(const AttendArgs& args) {
    return panel_room(args) * (2 + output_room(args));
}

static inline int64_t attend_workspace(const void* pointer) {
    const auto& args = *static_cast<const AttendArgs*>(pointer);
    return by_tiles(args) ? attend_units(pointer) * unit_room(args) * 4 : 0;
}

}  // namespace draftwalk
