// Packed matrices: pack, unpack, embed, linears, gated.
//
// The products of quantised matrices are also worked out here from the file's blocks, in integers
// and in the order of floats that the design gives: the kernels must meet every bit.
#include <cmath>
#include <cstring>

#include "blocks.h"
#include "harness.h"

namespace draftwalk::test {

namespace {

struct Rows {  // activations, and their int8 companions
    Values<float> x;
    int64_t rows, width;
    Values<int8_t> values;
    Values<float> scales, sums;
    Values<int16_t> parts;

    Rows(int64_t rows, int64_t width, Values<float> x)
        : x(std::move(x)),
          rows(rows),
          width(width),
          values(groups() * rows * GROUP),
          scales(groups() * rows),
          sums(groups() * rows),
          parts(groups() * rows * 4) {}

    int64_t groups() const { return (width + GROUP - 1) / GROUP; }
    Quantised quantised() const {
        return {values.data(), scales.data(), sums.data(), parts.data()};
    }

    Rows only(int64_t row) const {
        Rows one(1, width, Values<float>(width));
        memcpy(one.x.data(), x.data() + row * width, static_cast<size_t>(width) * 4);
        for (int64_t g = 0; g < groups(); ++g) {
            const int64_t entry = g * rows + row;
            memcpy(one.values.data() + g * GROUP, values.data() + entry * GROUP, GROUP);
            one.scales[g] = scales[entry];
            one.sums[g] = sums[entry];
            memcpy(one.parts.data() + 4 * g, parts.data() + 4 * entry, 8);
        }
        return one;
    }
};

class Scratchpad final : public Scratch {
public:
    void* bytes(int64_t) override { return nullptr; }
};

Rows random_rows(Random& random, int64_t rows, int64_t width, const Kernels& kernels) {
    Rows r(rows, width, activations(random, rows, width));
    if (width % GROUP == 0 && kernels.quantise) {
        QuantiseArgs args{r.x.data(), rows, width, r.quantised()};
        Scratchpad none;
        kernels.quantise(&args, 0, rows, none);
    }
    return r;
}

// A matrix as a file has it, and packed.
struct Weights {
    const Format* format;  // null for floats
    Layout layout;
    int64_t outputs, inputs, row_bytes;
    Values<uint8_t> source;
    Values<unsigned char> packed;

    Matrix matrix() const {
        return {layout, false, outputs, inputs, tile_bytes(layout, inputs), packed.data()};
    }
    Matrix as_stored() const { return {layout, true, outputs, inputs, row_bytes, source.data()}; }
};

void fill_block(Random& random, const Format& format, uint8_t* block) {
    const int64_t how = random.below(6);
    for (int64_t i = 0; i < format.bytes; ++i)
        block[i] = static_cast<uint8_t>(how == 0   ? 0xff
                                        : how == 1 ? 0
                                        : how == 2 ? 0x80
                                                   : random.bits());
    for (int64_t at : format.halves) {
        if (at < 0) continue;
        const uint16_t half = random_half(random, random.once_in(20) ? 65504.0f : 4.0f);
        memcpy(block + at, &half, 2);
    }
    if (format.layout == Layout::mxfp4)  // no power that leaves nothing finite
        block[0] =
            static_cast<uint8_t>(random.once_in(10) ? random.below(4) : random.between(90, 160));
}

Weights random_weights(Random& random, int64_t kind, int64_t outputs, int64_t inputs) {
    const Format* format = kind < 13 ? FORMATS + kind : nullptr;
    const Layout layout = format ? format->layout : static_cast<Layout>(kind - 13);
    const int64_t bytes =
        format ? inputs / format->inputs * format->bytes : inputs * (layout == Layout::f32 ? 4 : 2);
    Weights w{format,
              layout,
              outputs,
              inputs,
              bytes,
              Values<uint8_t>(outputs * bytes),
              Values<unsigned char>((outputs + 15) / 16 * tile_bytes(layout, inputs))};
    if (format) {
        for (int64_t at = 0; at < outputs * bytes; at += format->bytes)
            fill_block(random, *format, w.source.data() + at);
        return w;
    }
    for (int64_t i = 0; i < outputs * inputs; ++i) {
        if (layout == Layout::f32) {
            const float value = random.number();
            memcpy(w.source.data() + 4 * i, &value, 4);
        } else {
            const uint16_t value =
                layout == Layout::f16
                    ? random_half(random, 8.0f)
                    : static_cast<uint16_t>(0x3c00 + random.below(0x480) + (random.bits() << 15));
            memcpy(w.source.data() + 2 * i, &value, 2);
        }
    }
    return w;
}

bool pack(Suite& suite, const Weights& w) {
    const auto first = suite.check("pack", [&](Trial& trial) {
        PackArgs args{};
        args.source = w.source.data();
        args.matrix = w.matrix();
        args.out = trial.out<unsigned char>(w.packed.size(), "tiles");
        trial.run(trial.kernels.pack, &args, (w.outputs + 15) / 16);
        if (trial.kernels.pack)
            memcpy(w.packed.data(), args.out, static_cast<size_t>(w.packed.size()));
    });
    return first->kernels.pack != nullptr;
}

float float_weight(const Weights& w, int64_t output, int64_t input) {
    const uint8_t* at = w.source.data() + output * w.row_bytes;
    if (w.layout == Layout::f32) {
        float value;
        memcpy(&value, at + 4 * input, 4);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, at + 2 * input, 2);
    if (w.layout == Layout::f16) return half_value(bits);
    const uint32_t widened = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &widened, 4);
    return value;
}

float product(const Weights& w, const Rows& rows, int64_t row, int64_t output) {
    float sum = 0.0f;
    if (!w.format) {
        for (int64_t k = 0; k < w.inputs; ++k)
            sum = std::fma(float_weight(w, output, k), rows.x[row * w.inputs + k], sum);
        return sum;
    }
    for (int64_t g = 0; g < w.inputs / GROUP; ++g) {
        const Group group = read_group(*w.format, w.source.data() + output * w.row_bytes, g);
        const int64_t entry = g * rows.rows + row;
        const int8_t* a = rows.values.data() + entry * GROUP;
        const float a_scale = rows.scales[entry];
        int32_t dot = 0, sums[2] = {};
        for (int i = 0; i < GROUP; ++i) {
            dot += group.weights[i] * a[i];
            sums[i / 16] += a[i];
        }
        sum = std::fma(static_cast<float>(dot), group.scale * a_scale, sum);
        if (!group.has_minimum) continue;
        if (group.by_halves) {
            const int32_t both = sums[0] * group.minima[0] + sums[1] * group.minima[1];
            sum = std::fma(static_cast<float>(both), group.minimum * a_scale, sum);
        } else {
            sum = std::fma(group.minimum, a_scale * static_cast<float>(sums[0] + sums[1]), sum);
        }
    }
    return sum;
}

std::string name_of(const char* what, const Weights& w) {
    static const char* const floats[] = {"f32", "f16", "bf16"};
    return std::string(what) + " " +
           (w.format ? w.format->name : floats[static_cast<int>(w.layout)]);
}

LinearArgs linear_args(const Weights& w, const Rows& rows) {
    LinearArgs args{};
    args.matrix = w.matrix();
    if (w.format)
        args.quantised = rows.quantised();
    else
        args.x = rows.x.data();
    args.rows = rows.rows;
    args.multiplier = 1.0f;
    return args;
}

int64_t tiles(const Weights& w) { return (w.outputs + 15) / 16; }

// The plain product against this file's own, and one row alone against all together.
void test_plain(Suite& suite, const Weights& w, const Rows& rows) {
    std::vector<float> got;
    suite.check(name_of("linears", w), [&](Trial& trial) {
        LinearsArgs args{};
        args.count = 1;
        args.parts[0] = linear_args(w, rows);
        args.parts[0].out = trial.out<float>(rows.rows * w.outputs, "out");
        trial.run(trial.kernels.linears, &args, tiles(w));
        if (got.empty()) got.assign(args.parts[0].out, args.parts[0].out + rows.rows * w.outputs);
    });
    std::vector<float> wanted;
    for (int64_t row = 0; row < rows.rows; ++row)
        for (int64_t output = 0; output < w.outputs; ++output)
            wanted.push_back(product(w, rows, row, output));
    suite.expect(name_of("linears against integers", w), wanted.data(), got.data(),
                 static_cast<int64_t>(wanted.size()));

    const int64_t row = suite.random.below(rows.rows);
    const Rows alone = rows.only(row);
    suite.check(name_of("linears of one row", w), [&](Trial& trial) {
        LinearsArgs args{};
        args.count = 1;
        args.parts[0] = linear_args(w, alone);
        args.parts[0].out = trial.out<float>(w.outputs, "out");
        trial.run(trial.kernels.linears, &args, tiles(w));
        suite.expect(name_of("a row alone", w), got.data() + row * w.outputs, args.parts[0].out,
                     w.outputs);
    });
}

// Several matrices in one call, with all that may follow a product.
void test_several(Suite& suite, const std::vector<Weights>& matrices, const Rows& rows) {
    Random& random = suite.random;
    LinearsArgs all{};
    std::vector<Values<float>> kept;
    for (const Weights& w : matrices) {
        LinearArgs& part = all.parts[all.count++];
        part = linear_args(w, rows);
        if (random.once_in(2)) {
            kept.push_back(numbers(random, w.outputs));
            part.bias = kept.back().data();
        }
        if (random.once_in(2)) {
            kept.push_back(numbers(random, rows.rows * w.outputs));
            part.residual = kept.back().data();
        }
        if (random.once_in(2)) part.multiplier = random.unit() + 0.5f;
        if (random.once_in(2)) part.softcap = 30.0f;
    }
    int64_t units = 0;
    for (const Weights& w : matrices) units += tiles(w);
    suite.check("linears together", [&](Trial& trial) {
        LinearsArgs args = all;
        for (int64_t i = 0; i < args.count; ++i)
            args.parts[i].out = trial.out<float>(rows.rows * args.parts[i].matrix.outputs, "out");
        trial.run(trial.kernels.linears, &args, units);
    });
}

void test_gated(Suite& suite, int64_t kind, const Rows& rows) {
    Random& random = suite.random;
    const bool quantised = random.once_in(2);
    const int64_t outputs = quantised ? GROUP * random.between(1, 3) : random.between(1, 70);
    const Weights gate = random_weights(random, kind, outputs, rows.width),
                  up = random_weights(random, kind, outputs, rows.width);
    if (!pack(suite, gate) || !pack(suite, up)) return;
    const bool with_out = !quantised || random.once_in(2);
    const Activation activation = random.once_in(2) ? Activation::silu : Activation::gelu_tanh;
    suite.check(name_of("gated", gate), [&](Trial& trial) {
        GatedArgs args{};
        args.gate = linear_args(gate, rows);
        args.up = linear_args(up, rows);
        args.activation = activation;
        args.out = with_out ? trial.out<float>(rows.rows * outputs, "out") : nullptr;
        if (quantised) args.quantised = trial.quantised(rows.rows, outputs);
        trial.run(trial.kernels.gated, &args, (outputs + 31) / 32);
    });
}

// A weight as the format defines it, and how large the terms are that it is the sum of.
struct Weight {
    double value, terms;
};

Weight weight_of(const Weights& w, int64_t output, int64_t input) {
    if (!w.format) return {static_cast<double>(float_weight(w, output, input)), 0.0};
    const Group group =
        read_group(*w.format, w.source.data() + output * w.row_bytes, input / GROUP);
    const double scaled = static_cast<double>(group.scale) * group.weights[input % GROUP];
    if (!group.has_minimum) return {scaled, std::fabs(scaled)};
    const double minimum = static_cast<double>(group.minimum) * group.minima[input % GROUP / 16];
    return {scaled + minimum, std::fabs(scaled) + std::fabs(minimum)};
}

// Rows of a matrix in floats, packed and as stored.
void test_unpack(Suite& suite, const Weights& w) {
    Random& random = suite.random;
    const int64_t count = random.between(1, 5);
    Values<int64_t> index(count);
    for (int64_t i = 0; i < count; ++i) index[i] = random.below(w.outputs);
    for (const Matrix& matrix : {w.matrix(), w.as_stored()})
        suite.check(name_of("unpack", w), [&](Trial& trial) {
            UnpackArgs args{matrix, index.data(), count, trial.out<float>(count * w.inputs, "out")};
            trial.run(trial.kernels.unpack, &args, count);
            bool near = true;
            for (int64_t i = 0; i < count * w.inputs && trial.kernels.unpack; ++i) {
                const Weight wanted = weight_of(w, index[i / w.inputs], i % w.inputs);
                const double error = std::fabs(static_cast<double>(args.out[i]) - wanted.value);
                near = near && error <= wanted.terms * 0x1p-22;
            }
            suite.expect(name_of("unpacked values of", w), near);
        });

    Values<int64_t> tokens(count);
    const int64_t given = 3;
    const Values<float> embeddings = numbers(random, given * w.inputs);
    for (int64_t i = 0; i < count; ++i)
        tokens[i] = random.once_in(4) ? -1 - random.below(given) : index[i];
    RowTable table{};
    table.size = count;
    table.tokens = tokens.data();
    table.embeddings = embeddings.data();
    suite.check(name_of("embed", w), [&](Trial& trial) {
        EmbedArgs args{trial.random.once_in(2) ? w.matrix() : w.as_stored(), &table, 1.5f,
                       trial.out<float>(count * w.inputs, "out")};
        trial.run(trial.kernels.embed, &args, count);
    });
}

}  // namespace

void test_matrices(Suite& suite) {
    Random& random = suite.random;
    const int64_t kind = random.below(16);
    const int64_t block = kind < 13 ? FORMATS[kind].inputs : 1;
    const int64_t inputs =
        kind < 13 ? block * random.between(1, block == 32 ? 7 : 2) : GROUP * random.between(1, 4);
    const int64_t most_rows = random.once_in(8) ? 70 : 9;
    const Rows rows = random_rows(random, random.between(1, most_rows), inputs, suite.reference());
    std::vector<Weights> matrices;
    for (int64_t n = random.between(1, 3); n > 0; --n)
        matrices.push_back(random_weights(random, kind, random.between(1, 40), inputs));
    for (const Weights& w : matrices)
        if (!pack(suite, w)) return;
    if (!suite.reference().linears) return;
    test_plain(suite, matrices.front(), rows);
    test_several(suite, matrices, rows);
    test_gated(suite, kind, rows);
    test_unpack(suite, matrices.back());
}

}  // namespace draftwalk::test
