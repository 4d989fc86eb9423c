// The greatest logits of rows. Ties go to the lowest id.
#pragma once

#include "../numeric/half.h"
#include "rows.h"

namespace draftwalk::DW_ISA {

struct Choice {
    float value;
    int64_t id;
};

static inline bool worse(Choice a, Choice b) {
    return a.value < b.value || (a.value == b.value && a.id > b.id);
}

// Puts `choice` at the root of a heap whose every parent is worse than its children, and lets it
// sink.
static inline void sink(Choice* heap, int64_t size, int64_t at, Choice choice) {
    for (int64_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
        if (child + 1 < size && worse(heap[child + 1], heap[child])) ++child;
        if (!worse(heap[child], choice)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = choice;
}

static inline float sortable(float logit) {  // NaN counts as the least
    return logit == logit ? logit : -float_from_bits(0x7f800000);
}

// A logit enters only if it is greater than the least of those kept; whole runs of the row are
// passed over by comparing vectors with that one.
static inline void scan(const float* logits, int64_t vocabulary, Choice* heap, int64_t k) {
    const auto offer = [&](int64_t id) {
        if (logits[id] > heap[0].value) sink(heap, k, 0, {logits[id], id});
    };
    int64_t id = k;
    for (; id + 64 <= vocabulary; id += 64) {
        const Lanes least = fill(heap[0].value);
        uint64_t above = 0;
        for (int v = 0; v < 4; ++v) {
            const uint32_t some = bits_of(less(least, load(logits + id + 16 * v)));
            above |= static_cast<uint64_t>(some) << (16 * v);
        }
        for (; above; above &= above - 1) offer(id + __builtin_ctzll(above));
    }
    for (; id < vocabulary; ++id) offer(id);
}

static void top_k(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const auto& args = *static_cast<const TopKArgs*>(pointer);
    const int64_t k = args.k;
    Choice* heap = scratch.take<Choice>(k);
    for (int64_t row = first; row < last && k > 0; ++row) {
        const float* logits = args.logits + row * args.vocabulary;
        for (int64_t i = 0; i < k; ++i) heap[i] = {sortable(logits[i]), i};
        for (int64_t i = k / 2 - 1; i >= 0; --i) sink(heap, k, i, heap[i]);
        scan(logits, args.vocabulary, heap, k);
        for (int64_t size = k; size > 0; --size) {  // the worst of what is left goes last
            args.values[row * k + size - 1] = heap[0].value;
            args.ids[row * k + size - 1] = heap[0].id;
            sink(heap, size - 1, 0, heap[size - 1]);
        }
    }
}

// The greatest of vectors, and in which vector each lane met it first.
struct Greatest {
    Lanes values;
    Ints vectors;
    Ints magnitude;  // greatest bits without the sign: above those of infinity if a NaN was met
};

static inline void meet(Greatest& best, Lanes x, int64_t vector) {
    const Mask better = less(best.values, x);
    best.values = select(better, x, best.values);
    best.vectors = select(better, fill_ints(static_cast<int32_t>(vector)), best.vectors);
    best.magnitude = max(best.magnitude, bits(x) & fill_ints(INT32_MAX));
}

static inline Choice choose(const float* logits, int64_t vocabulary) {
    const float lowest = -float_from_bits(0x7f800000);
    Greatest best{fill(lowest), fill_ints(0), fill_ints(0)};
    int64_t id = 0;
    for (; id + 16 <= vocabulary; id += 16) meet(best, load(logits + id), id / 16);
    if (id < vocabulary) {
        float rest[16];
        for (int64_t i = 0; i < 16; ++i) rest[i] = id + i < vocabulary ? logits[id + i] : lowest;
        meet(best, load(rest), id / 16);
    }
    float values[16];
    int32_t vectors[16];
    store(values, best.values);
    store_ints(vectors, best.vectors);
    Choice choice{values[0], 16 * static_cast<int64_t>(vectors[0])};
    for (int64_t i = 1; i < 16; ++i) {
        const Choice other{values[i], 16 * static_cast<int64_t>(vectors[i]) + i};
        if (worse(choice, other)) choice = other;
    }
    if (greatest(best.magnitude) > 0x7f800000) choice.value = float_from_bits(0x7fc00000);
    return choice;
}

static void argmax(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const ArgmaxArgs*>(pointer);
    for (int64_t row = first; row < last; ++row) {
        const Choice best = choose(args.logits + row * args.vocabulary, args.vocabulary);
        if (args.values) args.values[row] = best.value;
        args.ids[row] = best.id;
    }
}

}  // namespace draftwalk::DW_ISA
