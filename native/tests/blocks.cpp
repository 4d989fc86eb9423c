#include "blocks.h"

#include <cmath>
#include <cstring>

#include "harness.h"

namespace draftwalk::test {

const Format FORMATS[13] = {
    {Layout::q8_0, "q8_0", 32, 34, {0, -1}},     {Layout::q4_0, "q4_0", 32, 18, {0, -1}},
    {Layout::q4_1, "q4_1", 32, 20, {0, 2}},      {Layout::q5_0, "q5_0", 32, 22, {0, -1}},
    {Layout::q5_1, "q5_1", 32, 24, {0, 2}},      {Layout::q2_k, "q2_k", 256, 84, {80, 82}},
    {Layout::q3_k, "q3_k", 256, 110, {108, -1}}, {Layout::q4_k, "q4_k", 256, 144, {0, 2}},
    {Layout::q5_k, "q5_k", 256, 176, {0, 2}},    {Layout::q6_k, "q6_k", 256, 210, {208, -1}},
    {Layout::iq4_nl, "iq4_nl", 32, 18, {0, -1}}, {Layout::iq4_xs, "iq4_xs", 256, 136, {0, -1}},
    {Layout::mxfp4, "mxfp4", 32, 17, {-1, -1}},
};

namespace {

const int IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int FP4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float half_at(const uint8_t* bytes) {
    return half_value(static_cast<uint16_t>(bytes[0] | bytes[1] << 8));
}

// ---- blocks of 32 ----

void read_nibbles(const uint8_t* nibbles, int* codes) {
    for (int i = 0; i < 16; ++i) {
        codes[i] = nibbles[i] & 15;
        codes[16 + i] = nibbles[i] >> 4;
    }
}

void read_small(const Format& format, const uint8_t* block, Group& group) {
    int* w = group.weights;
    group.scale =
        format.layout == Layout::mxfp4 ? std::ldexp(1.0f, block[0] - 128) : half_at(block);
    switch (format.layout) {
        case Layout::q8_0:
            for (int i = 0; i < 32; ++i) w[i] = static_cast<int8_t>(block[2 + i]);
            break;
        case Layout::q4_0:
            read_nibbles(block + 2, w);
            for (int i = 0; i < 32; ++i) w[i] -= 8;
            break;
        case Layout::q4_1: read_nibbles(block + 4, w); break;
        case Layout::q5_0:
        case Layout::q5_1: {
            const uint8_t* high = block + (format.layout == Layout::q5_0 ? 2 : 4);
            read_nibbles(high + 4, w);
            uint32_t bits;
            memcpy(&bits, high, 4);
            for (int i = 0; i < 32; ++i) {
                w[i] += bits >> i & 1 ? 16 : 0;
                if (format.layout == Layout::q5_0) w[i] -= 16;
            }
            break;
        }
        case Layout::iq4_nl:
            read_nibbles(block + 2, w);
            for (int i = 0; i < 32; ++i) w[i] = IQ4[w[i]];
            break;
        default:
            read_nibbles(block + 1, w);
            for (int i = 0; i < 32; ++i) w[i] = FP4[w[i]];
    }
    if (format.layout == Layout::q4_1 || format.layout == Layout::q5_1) {
        group.has_minimum = true;
        group.minimum = half_at(block + 2);
    }
}

// ---- blocks of 256 ----

void read_q2_k(const uint8_t* block, int g, Group& group) {
    const uint8_t* scales = block + 2 * g;
    const uint8_t* codes = block + 16 + g / 4 * 32;
    group.scale = half_at(block + 80);
    group.has_minimum = group.by_halves = true;
    group.minimum = -half_at(block + 82);
    for (int half = 0; half < 2; ++half) group.minima[half] = scales[half] >> 4;
    for (int i = 0; i < 32; ++i)
        group.weights[i] = (codes[i] >> g % 4 * 2 & 3) * (scales[i / 16] & 15);
}

void read_q3_k(const uint8_t* block, int g, Group& group) {
    uint32_t a[4];
    memcpy(a, block + 96, 12);
    const uint32_t fours = 0x0f0f0f0f, twos = 0x03030303, high = a[2];
    a[2] = (a[0] >> 4 & fours) | (high >> 4 & twos) << 4;
    a[3] = (a[1] >> 4 & fours) | (high >> 6 & twos) << 4;
    a[0] = (a[0] & fours) | (high & twos) << 4;
    a[1] = (a[1] & fours) | (high >> 2 & twos) << 4;
    uint8_t scales[16];
    memcpy(scales, a, 16);
    const uint8_t* codes = block + 32 + g / 4 * 32;
    group.scale = half_at(block + 108);
    for (int i = 0; i < 32; ++i) {
        const int code = (codes[i] >> g % 4 * 2 & 3) - (block[i] >> g & 1 ? 0 : 4);
        group.weights[i] = code * (scales[2 * g + i / 16] - 32);
    }
}

void read_q4_k(const uint8_t* block, int g, bool five, Group& group) {
    const uint8_t* s = block + 4;
    int scale, minimum;
    if (g < 4) {
        scale = s[g] & 63;
        minimum = s[g + 4] & 63;
    } else {
        scale = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        minimum = s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
    group.scale = half_at(block) * static_cast<float>(scale);
    group.has_minimum = true;
    group.minimum = -(half_at(block + 2) * static_cast<float>(minimum));
    const uint8_t* codes = block + (five ? 48 : 16) + g / 2 * 32;
    for (int i = 0; i < 32; ++i) {
        group.weights[i] = g % 2 ? codes[i] >> 4 : codes[i] & 15;
        if (five && (block[16 + i] & 1 << g)) group.weights[i] += 16;
    }
}

void read_q6_k(const uint8_t* block, int g, Group& group) {
    const uint8_t *low = block + g / 4 * 64, *high = block + 128 + g / 4 * 32;
    const int run = g % 4;
    group.scale = half_at(block + 208);
    for (int i = 0; i < 32; ++i) {
        const int nibble = run < 2 ? low[32 * run + i] & 15 : low[32 * (run - 2) + i] >> 4;
        const int code = (nibble | (high[i] >> 2 * run & 3) << 4) - 32;
        group.weights[i] = code * static_cast<int8_t>(block[192 + 2 * g + i / 16]);
    }
}

void read_iq4_xs(const uint8_t* block, int g, Group& group) {
    const int high = block[2] | block[3] << 8;
    const int scale = (block[4 + g / 2] >> 4 * (g % 2) & 15) | (high >> 2 * g & 3) << 4;
    group.scale = half_at(block) * static_cast<float>(scale - 32);
    read_nibbles(block + 8 + 16 * g, group.weights);
    for (int& weight : group.weights) weight = IQ4[weight];
}

}  // namespace

Group read_group(const Format& format, const uint8_t* row, int64_t number) {
    Group group{};
    group.minima[0] = group.minima[1] = 1;
    const int64_t groups = format.inputs / GROUP;
    const uint8_t* block = row + number / groups * format.bytes;
    const int g = static_cast<int>(number % groups);
    switch (format.layout) {
        case Layout::q2_k: read_q2_k(block, g, group); break;
        case Layout::q3_k: read_q3_k(block, g, group); break;
        case Layout::q4_k: read_q4_k(block, g, false, group); break;
        case Layout::q5_k: read_q4_k(block, g, true, group); break;
        case Layout::q6_k: read_q6_k(block, g, group); break;
        case Layout::iq4_xs: read_iq4_xs(block, g, group); break;
        default: read_small(format, block, group);
    }
    return group;
}

}  // namespace draftwalk::test
