// Norm per head and half-split rotation by position; keys and values to their pages.
#pragma once

#include "norm.h"
#include "places.h"

namespace draftwalk::DW_ISA {

static inline void rotate_head(const float* x, const HeadRotation& rotation, int64_t position,
                               float* out) {
    const int64_t half = rotation.head_dim / 2;
    const float* cos = rotation.cos + position * half;
    const float* sin = rotation.sin + position * half;
    const float* weight = rotation.weight;
    const Lanes factor = fill(weight ? norm_factor(x, 2 * half, rotation.eps) : 1.0f);
    along(half, [&](int64_t start, int64_t count) {
        Lanes low = load_part(x + start, count), high = load_part(x + half + start, count);
        if (weight) {
            low = low * factor * load_part(weight + start, count);
            high = high * factor * load_part(weight + half + start, count);
        }
        const Lanes c = load_part(cos + start, count), s = load_part(sin + start, count);
        store_part(out + start, fma(high * fill(-1.0f), s, low * c), count);
        store_part(out + half + start, fma(low, s, high * c), count);
    });
}

static void rotate(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const RotateArgs*>(pointer);
    const int64_t size = args.rotation.head_dim;
    for (int64_t row = first; row < last; ++row)
        for (int64_t head = 0; head < args.heads; ++head) {
            const int64_t start = (row * args.heads + head) * size;
            rotate_head(args.x + start, args.rotation, args.rows->positions[row], args.out + start);
        }
}

static inline void halve(const float* x, int64_t width, uint16_t* out) {
    along(width, [&](int64_t start, int64_t count) {
        if (count == 16) return store_half(out + start, load(x + start));
        uint16_t part[16];
        store_half(part, load(x + start, count));
        memcpy(out + start, part, static_cast<size_t>(count) * 2);
    });
}

// 32 numbers as bytes, the way activations are quantised; returns their scale.
static inline float to_bytes(const float* x, int8_t* out) {
    float scale, unused;
    int16_t parts[4];
    quantise_group(x, Quantised{out, &scale, &unused, parts}, 0, 0, 1);
    return scale;
}

static inline void write_halves(const float* k, const float* v, HeadPage page, int64_t size,
                                int64_t place, uint16_t* room) {
    halve(k, size, room);
    auto* keys = reinterpret_cast<uint16_t*>(page.keys);
    for (int64_t channel = 0; channel < size; ++channel)
        keys[channel * PAGE + place] = room[channel];
    halve(v, size, reinterpret_cast<uint16_t*>(page.values) + place * size);
}

static inline void write_bytes(const float* k, const float* v, HeadPage page, int64_t size,
                               int64_t place) {
    auto* keys = reinterpret_cast<int8_t*>(page.keys);
    auto* values = reinterpret_cast<int8_t*>(page.values) + place * size;
    for (int64_t group = 0; group < size / GROUP; ++group) {
        int8_t column[GROUP];
        page.key_scales[group * PAGE + place] = to_bytes(k + group * GROUP, column);
        for (int64_t i = 0; i < GROUP; ++i) keys[(group * GROUP + i) * PAGE + place] = column[i];
        page.value_scales[place * (size / GROUP) + group] =
            to_bytes(v + group * GROUP, values + group * GROUP);
    }
}

static void remember(const void* pointer, int64_t first, int64_t last, Scratch& scratch) {
    const auto& args = *static_cast<const RememberArgs*>(pointer);
    const PagePool& pool = *args.pool;
    const RowTable& rows = *args.rows;
    const int64_t size = pool.head_dim;
    float* key = scratch.take<float>(size);
    auto* room = scratch.take<uint16_t>(size);
    for (int64_t unit = first; unit < last; ++unit) {
        const int64_t head = unit / rows.size, row = unit % rows.size;
        const int64_t place = rows.places[row];
        const int64_t number = page_of(*args.table, rows.sequences[row], place / PAGE);
        const HeadPage page = head_page(pool, args.layer, number, head);
        const int64_t start = (row * pool.heads + head) * size;
        const float* value = args.v + start;
        rotate_head(args.k + start, args.rotation, rows.positions[row], key);
        if (pool.type == KvType::half) write_halves(key, value, page, size, place % PAGE, room);
        else write_bytes(key, value, page, size, place % PAGE);
    }
}

}  // namespace draftwalk::DW_ISA
