// What chooses and drafts tokens: convolve, selector, top_k, argmax.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "blocks.h"
#include "harness.h"

namespace draftwalk::test {

namespace {

void test_convolve(Suite& suite) {
    Random& random = suite.random;
    const int64_t taps = random.between(1, 4), groups = random.between(1, 4);
    const bool quantised = random.once_in(2);
    const int64_t width =
        groups * (quantised ? GROUP * random.between(1, 2) : random.between(1, 40));
    std::vector<int64_t> parents;
    const int64_t rows = random.between(1, 9);
    for (int64_t row = 0; row < rows; ++row)
        parents.push_back(row == 0 || random.once_in(4) ? -1 : row - 1);
    RowTable table{};
    table.size = rows;
    table.parents = parents.data();
    const Values<float> x = activations(random, rows, width),
                        dynamic = numbers(random, rows * 2 * taps * groups),
                        base = numbers(random, 2 * taps * width),
                        residual = numbers(random, rows * width);
    ConvolveArgs all{};
    all.x = x.data();
    all.dynamic = dynamic.data();
    all.base = base.data();
    all.side = random.below(2);
    all.taps = taps;
    all.groups = groups;
    all.width = width;
    all.rows = &table;
    all.residual = random.once_in(2) ? residual.data() : nullptr;
    const bool with_out = !quantised || random.once_in(2);
    suite.check("convolve", [&](Trial& trial) {
        ConvolveArgs args = all;
        args.out = with_out ? trial.out<float>(rows * width, "out") : nullptr;
        if (quantised) args.quantised = trial.quantised(rows, width);
        trial.run(trial.kernels.convolve, &args, rows);
    });
}

void test_selector(Suite& suite) {
    Random& random = suite.random;
    const int64_t k = random.between(1, 9), rank = random.between(1, 40), vocabulary = 50;
    std::vector<Span> spans;
    std::vector<int64_t> tokens;
    int64_t row = 0, drafted = 0;
    for (int64_t n = random.between(1, 3); n > 0; --n) {
        const int64_t length = random.between(2, 5);
        spans.push_back({static_cast<int64_t>(spans.size()), row, row + length, 0});
        row += length;
        drafted += length - 1;
        for (int64_t i = 0; i < length; ++i) tokens.push_back(random.below(vocabulary));
    }
    RowTable table{};
    table.size = row;
    table.span_count = static_cast<int64_t>(spans.size());
    table.spans = spans.data();
    table.tokens = tokens.data();
    const Values<float> unary = numbers(random, drafted * k),
                        gate = numbers(random, drafted * rank);
    Values<int64_t> candidates(drafted * k);
    for (int64_t i = 0; i < candidates.size(); ++i) candidates[i] = random.below(vocabulary);
    const Layout layout = random.once_in(2) ? Layout::f16 : Layout::f32;
    const int64_t bytes = tile_bytes(layout, rank) * ((vocabulary + 15) / 16);
    Values<unsigned char> packed[2] = {Values<unsigned char>(bytes), Values<unsigned char>(bytes)};
    for (const auto& side : packed)
        for (int64_t i = 0; i < bytes / (layout == Layout::f16 ? 2 : 4); ++i) {
            const uint16_t half = random_half(random, 2.0f);
            const float value = half_value(half);
            if (layout == Layout::f16)
                memcpy(side.data() + 2 * i, &half, 2);
            else
                memcpy(side.data() + 4 * i, &value, 4);
        }
    suite.check("selector", [&](Trial& trial) {
        SelectorArgs args{};
        args.unary = unary.data();
        args.candidates = candidates.data();
        args.gate = gate.data();
        args.before = {layout, false, vocabulary, rank, tile_bytes(layout, rank), packed[0].data()};
        args.after = {layout, false, vocabulary, rank, tile_bytes(layout, rank), packed[1].data()};
        args.k = k;
        args.rank = rank;
        args.rows = &table;
        args.out = trial.out<float>(drafted * k * k, "out");
        trial.run(trial.kernels.selector, &args, drafted);
    });
}

void test_choices(Suite& suite) {
    Random& random = suite.random;
    const int64_t rows = random.between(1, 4), vocabulary = random.between(1, 700);
    Values<float> logits = numbers(random, rows * vocabulary);
    if (random.once_in(2))  // ties
        for (int64_t i = 0; i < logits.size(); ++i) logits[i] = std::nearbyint(logits[i] * 2.0f);
    if (random.once_in(3)) spoil(random, logits);
    const int64_t k = random.between(1, std::min<int64_t>(vocabulary, 70));
    std::vector<int64_t> ids;
    const auto first = suite.check("top_k", [&](Trial& trial) {
        TopKArgs args{logits.data(),
                      rows,
                      vocabulary,
                      k,
                      trial.out<float>(rows * k, "values"),
                      trial.out<int64_t>(rows * k, "ids")};
        trial.run(trial.kernels.top_k, &args, rows);
        if (ids.empty()) ids.assign(args.ids, args.ids + rows * k);
    });
    if (first->kernels.top_k) {
        bool right = true;
        for (int64_t row = 0; row < rows; ++row) {
            const float* from = logits.data() + row * vocabulary;
            std::vector<int64_t> order;
            for (int64_t i = 0; i < vocabulary; ++i) order.push_back(i);
            const auto value = [&](int64_t i) { return std::isnan(from[i]) ? -INFINITY : from[i]; };
            std::stable_sort(order.begin(), order.end(),
                             [&](int64_t a, int64_t b) { return value(a) > value(b); });
            for (int64_t i = 0; i < k; ++i)
                right =
                    right && order[static_cast<size_t>(i)] == ids[static_cast<size_t>(row * k + i)];
        }
        suite.expect("top_k against sorting", right);
    }
    suite.check("argmax", [&](Trial& trial) {
        ArgmaxArgs args{logits.data(), rows, vocabulary, trial.out<float>(rows, "values"),
                        trial.out<int64_t>(rows, "ids")};
        trial.run(trial.kernels.argmax, &args, rows);
        if (!trial.kernels.argmax) return;
        for (int64_t row = 0; row < rows; ++row) {
            const float* from = logits.data() + row * vocabulary;
            int64_t best = -1;
            bool poisoned = false;
            for (int64_t i = 0; i < vocabulary; ++i) {
                poisoned = poisoned || std::isnan(from[i]);
                if (!std::isnan(from[i]) && (best < 0 || from[i] > from[best])) best = i;
            }
            if (poisoned)
                suite.expect("argmax meets NaN", std::isnan(args.values[row]));
            else
                suite.expect("argmax against a loop", args.ids[row] == best);
        }
    });
}

}  // namespace

void test_drafts(Suite& suite) {
    test_convolve(suite);
    test_selector(suite);
    test_choices(suite);
}

}  // namespace draftwalk::test
