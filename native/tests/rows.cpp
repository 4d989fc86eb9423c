// Kernels on rows of numbers: quantise, norm, gather, join, functions.
#include <cmath>

#include "harness.h"

namespace draftwalk::test {

namespace {

// The numerics of the design once more, in plain floats.
void expect_quantised(Suite& suite, const Values<float>& x, const Quantised& got, int64_t rows,
                      int64_t width) {
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t group = 0; group < width / GROUP; ++group) {
            const float* from = x.data() + row * width + group * GROUP;
            float peak = 0.0f;
            bool finite = true;
            for (int i = 0; i < GROUP; ++i) {
                finite = finite && std::isfinite(from[i]);
                peak = std::fmax(peak, std::fabs(from[i]));
            }
            int8_t values[GROUP] = {};
            float scale = finite ? 0.0f : NAN;
            int sum = 0;
            if (finite && peak >= 0x1p-100f) {
                scale = peak / 127.0f;
                const float inverse = 127.0f / peak;
                for (int i = 0; i < GROUP; ++i) {
                    values[i] = static_cast<int8_t>(std::nearbyint(from[i] * inverse));
                    sum += values[i];
                }
            }
            const int64_t entry = group * rows + row;
            const float sums = finite ? scale * static_cast<float>(sum) : scale;
            suite.expect("quantise: int8", values, got.values + entry * GROUP, GROUP);
            suite.expect("quantise: scale", &scale, got.scales + entry, 1);
            suite.expect("quantise: sum", &sums, got.sums + entry, 1);
            int parts[4] = {};
            for (int i = 0; i < GROUP; ++i) parts[i / 16 * 2 + i % 4 / 2] += values[i];
            bool right = true;
            for (int i = 0; i < 4; ++i) right = right && parts[i] == got.parts[entry * 4 + i];
            suite.expect("quantise: parts", right);
        }
}

void test_quantise(Suite& suite) {
    const int64_t rows = suite.random.between(1, 5), width = GROUP * suite.random.between(1, 8);
    const Values<float> x = activations(suite.random, rows, width);
    Quantised got{};
    const auto first = suite.check("quantise", [&](Trial& trial) {
        QuantiseArgs args{x.data(), rows, width, trial.quantised(rows, width)};
        trial.run(trial.kernels.quantise, &args, rows);
        if (!got.values) got = args.out;
    });
    if (first->kernels.quantise) expect_quantised(suite, x, got, rows, width);
}

void test_norm(Suite& suite) {
    Random& random = suite.random;
    const bool quantised = random.once_in(2);
    const int64_t rows = random.between(1, 4);
    const int64_t width = quantised ? GROUP * random.between(1, 6) : random.between(1, 150);
    const Values<float> x = activations(random, rows, width), weight = numbers(random, width),
                        residual = numbers(random, rows * width);
    const bool with_residual = random.once_in(2), with_out = !quantised || random.once_in(2);
    suite.check("norm", [&](Trial& trial) {
        NormArgs args{};
        args.x = x.data();
        args.weight = weight.data();
        args.residual = with_residual ? residual.data() : nullptr;
        args.out = with_out ? trial.out<float>(rows * width, "out") : nullptr;
        if (quantised) args.quantised = trial.quantised(rows, width);
        args.rows = rows;
        args.width = width;
        args.eps = 1e-6f;
        trial.run(trial.kernels.norm, &args, rows);
    });
}

void test_moves(Suite& suite) {
    Random& random = suite.random;
    const int64_t rows = random.between(1, 6), width = random.between(1, 70), many = 10;
    const Values<float> x = numbers(random, many * width);
    Values<int64_t> index(rows);
    for (int64_t i = 0; i < rows; ++i) index[i] = random.below(many);
    suite.check("gather", [&](Trial& trial) {
        GatherArgs args{x.data(), index.data(), trial.out<float>(rows * width, "out"), rows, width};
        trial.run(trial.kernels.gather, &args, rows);
    });

    const int64_t count = random.between(1, 4);
    JoinArgs parts{};
    parts.count = count;
    parts.rows = rows;
    std::vector<Values<float>> from;
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
        parts.widths[i] = random.between(1, 40);
        total += parts.widths[i];
        from.push_back(numbers(random, rows * parts.widths[i]));
        parts.parts[i] = from.back().data();
    }
    suite.check("join", [&](Trial& trial) {
        JoinArgs args = parts;
        args.out = trial.out<float>(rows * total, "out");
        trial.run(trial.kernels.join, &args, rows);
    });
}

void test_functions(Suite& suite) {
    Random& random = suite.random;
    const int64_t count = random.between(1, 200);
    for (int number = 0; number < static_cast<int>(Function::count); ++number) {
        const Function function = static_cast<Function>(number);
        Values<float> x(count);
        for (int64_t i = 0; i < count; ++i)
            x[i] =
                std::ldexp(random.unit() * 2.0f - 1.0f, static_cast<int>(random.between(-30, 8)));
        if (random.once_in(3)) spoil(random, x);
        if (function == Function::exp_below)  // nothing that it does not take
            for (int64_t i = 0; i < count; ++i) x[i] = x[i] < 0.0f ? x[i] : 0.0f;
        suite.check("evaluate", [&](Trial& trial) {
            EvaluateArgs args{function, x.data(), trial.out<float>(count, "out"), count};
            trial.run(trial.kernels.evaluate, &args, (count + 15) / 16);
        });
    }
}

}  // namespace

void test_rows(Suite& suite) {
    test_quantise(suite);
    test_norm(suite);
    test_moves(suite);
    test_functions(suite);
}

}  // namespace draftwalk::test
