// rotate, remember, attend and fold, over K/V pages of both types. Attention is also worked out
// here in doubles, place by place.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "../kernels/panels.h"
#include "harness.h"

namespace draftwalk::test {

namespace {

struct Shape {
    int64_t kv_heads, per_head, size;
    KvType type;

    int64_t heads() const { return kv_heads * per_head; }
    int64_t numbers() const { return size * PAGE; }
    int64_t scales() const { return type == KvType::half ? 0 : (size + GROUP - 1) / GROUP * PAGE; }
    int64_t side_bytes() const { return numbers() * (type == KvType::half ? 2 : 1) + scales() * 4; }
    int64_t page_bytes() const { return kv_heads * 2 * side_bytes(); }
};

// A pass: spans of several sequences, and the table that its rows are in.
struct Pass {
    std::vector<Span> spans;
    std::vector<int64_t> tokens, sequences, places, positions, parents;
    RowTable table{};
};

Pass random_pass(Random& random) {
    Pass pass;
    const int64_t count = random.between(1, 3);
    int64_t row = 0;
    for (int64_t n = 0; n < count; ++n) {
        const int64_t context = random.once_in(3) ? 0 : random.below(random.once_in(3) ? 300 : 80);
        const int64_t length =
            random.once_in(3) ? 1 : random.between(1, random.once_in(4) ? 70 : 9);
        pass.spans.push_back({n, row, row + length, context});
        for (int64_t i = 0; i < length; ++i, ++row) {
            pass.tokens.push_back(random.below(50));
            pass.sequences.push_back(n);
            pass.places.push_back(context + i);
            pass.positions.push_back(context + i);
            pass.parents.push_back(i ? row - 1 : -1);
        }
    }
    pass.table.size = row;
    pass.table.span_count = count;
    pass.table.spans = pass.spans.data();
    pass.table.tokens = pass.tokens.data();
    pass.table.sequences = pass.sequences.data();
    pass.table.places = pass.places.data();
    pass.table.positions = pass.positions.data();
    pass.table.parents = pass.parents.data();
    return pass;
}

constexpr int64_t PAGES = 6, SLOTS = 3;

struct Cache {
    std::vector<int32_t> numbers;  // [SLOTS][PAGES], all different
    PageTable table{};
    Values<unsigned char> memory;

    Cache(Random& random, const Shape& shape) : memory(SLOTS * PAGES * shape.page_bytes()) {
        numbers.resize(SLOTS * PAGES);
        std::iota(numbers.begin(), numbers.end(), 0);
        for (size_t i = numbers.size(); i > 1; --i)
            std::swap(numbers[i - 1],
                      numbers[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
        table = {numbers.data(), SLOTS, PAGES};
    }

    unsigned char* side(const Shape& shape, int64_t sequence, int64_t place, int64_t head,
                        bool values) const {
        const int64_t page = numbers[static_cast<size_t>(sequence * PAGES + place / PAGE)];
        return memory.data() + page * shape.page_bytes() + (2 * head + values) * shape.side_bytes();
    }
};

// One number of a cached key or value, and putting one there.
struct Cell {
    unsigned char* number;
    unsigned char* scale;
};

Cell cell(const Cache& cache, const Shape& shape, int64_t sequence, int64_t place, int64_t head,
          int64_t channel, bool values) {
    unsigned char* side = cache.side(shape, sequence, place, head, values);
    const int64_t within = place % PAGE, groups = (shape.size + GROUP - 1) / GROUP;
    const int64_t at = values ? within * shape.size + channel : channel * PAGE + within;
    const int64_t scale =
        values ? within * groups + channel / GROUP : channel / GROUP * PAGE + within;
    const int64_t bytes = shape.type == KvType::half ? 2 : 1;
    return {side + bytes * at, side + bytes * shape.numbers() + 4 * scale};
}

double read(const Cache& cache, const Shape& shape, int64_t sequence, int64_t place, int64_t head,
            int64_t channel, bool values) {
    const Cell at = cell(cache, shape, sequence, place, head, channel, values);
    if (shape.type == KvType::half) {
        uint16_t half;
        memcpy(&half, at.number, 2);
        return static_cast<double>(half_value(half));
    }
    float scale;
    memcpy(&scale, at.scale, 4);
    return static_cast<double>(static_cast<int8_t>(*at.number)) * static_cast<double>(scale);
}

void write(Random& random, const Cache& cache, const Shape& shape, int64_t sequence, int64_t place,
           int64_t head, int64_t channel, bool values, bool finite) {
    const Cell at = cell(cache, shape, sequence, place, head, channel, values);
    if (shape.type == KvType::half) {
        static const uint16_t ends[] = {0x7c00, 0xfc00, 0x7e00};
        const uint16_t half = finite ? random_half(random, 2.0f) : random.one_of(ends);
        memcpy(at.number, &half, 2);
    } else {
        *at.number = static_cast<unsigned char>(random.between(-127, 127));
        const float scale = finite ? random.unit() * 0.01f : NAN;
        memcpy(at.scale, &scale, 4);
    }
}

// Fills what a sequence has in its pages; the places behind it are spoiled, and now and then one
// within.
void fill(Random& random, const Cache& cache, const Shape& shape, const Span& span, bool spoiled) {
    const int64_t end = span.context + span.stop - span.start;
    for (int64_t place = 0; place < (end + PAGE - 1) / PAGE * PAGE; ++place)
        for (int64_t head = 0; head < shape.kv_heads; ++head)
            for (int64_t channel = 0; channel < shape.size; ++channel)
                for (bool values : {false, true})
                    write(random, cache, shape, span.sequence, place, head, channel, values,
                          place < end);
    if (!spoiled) return;
    const int64_t channel = random.below(shape.size), head = random.below(shape.kv_heads);
    write(random, cache, shape, span.sequence, random.below(end), head, channel, random.once_in(2),
          false);
}

Shape random_shape(Random& random) {
    static const int64_t halves[] = {16, 32, 64, 80, 24, 128, 8}, bytes[] = {32, 64, 96};
    static const int64_t per_head[] = {1, 2, 3, 4, 5, 8};
    const KvType type = random.once_in(2) ? KvType::half : KvType::bytes;
    return {random.between(1, 3), random.one_of(per_head),
            type == KvType::half ? random.one_of(halves) : random.one_of(bytes), type};
}

HeadRotation random_rotation(Random& random, int64_t size, const Values<float>& weight,
                             const Values<float>& cos, const Values<float>& sin) {
    return {random.once_in(2) ? weight.data() : nullptr, 1e-6f, cos.data(), sin.data(), size};
}

void test_rotation(Suite& suite) {
    Random& random = suite.random;
    const Shape shape = random_shape(random);
    const Pass pass = random_pass(random);
    const int64_t rows = pass.table.size, positions = 400;
    Values<float> weight = numbers(random, shape.size), cos(positions * shape.size / 2),
                  sin(positions * shape.size / 2);
    for (int64_t i = 0; i < cos.size(); ++i) {
        const float angle = random.number();
        cos[i] = std::cos(angle);
        sin[i] = std::sin(angle);
    }
    const HeadRotation rotation = random_rotation(random, shape.size, weight, cos, sin);
    const Values<float> q = numbers(random, rows * shape.heads() * shape.size);
    suite.check("rotate", [&](Trial& trial) {
        RotateArgs args{q.data(), rotation, shape.heads(), &pass.table,
                        trial.out<float>(q.size(), "out")};
        trial.run(trial.kernels.rotate, &args, rows);
    });

    Values<float> k = activations(random, rows * shape.kv_heads, shape.size),
                  v = activations(random, rows * shape.kv_heads, shape.size);
    const Cache cache(random, shape);
    suite.check("remember", [&](Trial& trial) {
        unsigned char* memory =
            shape.type == KvType::half
                ? reinterpret_cast<unsigned char*>(trial.halves(cache.memory.size() / 2, "pages"))
                : trial.out<unsigned char>(cache.memory.size(), "pages");
        const PagePool pool{shape.type, 1, shape.kv_heads, shape.size, shape.page_bytes(), &memory};
        RememberArgs args{k.data(), v.data(), rotation, &pool, 0, &cache.table, &pass.table};
        trial.run(trial.kernels.remember, &args, rows * shape.kv_heads);
    });
}

std::vector<double> reference(const AttendArgs& args, const Cache& cache, const Shape& shape,
                              const Pass& pass) {
    std::vector<double> out;
    for (const Span& span : pass.spans)
        for (int64_t row = span.start; row < span.stop; ++row)
            for (int64_t head = 0; head < shape.heads(); ++head) {
                const int64_t kv = head / shape.per_head, place = span.context + row - span.start;
                const int64_t end = span.context + span.stop - span.start;
                const float* q = args.q + (row * shape.heads() + head) * shape.size;
                std::vector<double> scores, sums(static_cast<size_t>(shape.size));
                std::vector<int64_t> seen;
                for (int64_t p = 0; p < end; ++p) {
                    if (args.causal && p > place) continue;
                    if (args.window && std::abs(p - place) >= args.window) continue;
                    double score = 0.0;
                    for (int64_t c = 0; c < shape.size; ++c)
                        score += static_cast<double>(q[c]) *
                                 read(cache, shape, span.sequence, p, kv, c, false);
                    score *= static_cast<double>(args.scale);
                    const double cap = static_cast<double>(args.softcap);
                    // Capping would hide an infinite score; the design wants the row to fail.
                    if (!std::isfinite(score)) score = NAN;
                    if (cap > 0.0) score = cap * std::tanh(score / cap);
                    scores.push_back(score);
                    seen.push_back(p);
                }
                double peak = args.sinks ? static_cast<double>(args.sinks[head]) : -INFINITY,
                       total = 0.0;
                bool finite = true;
                for (double s : scores) {
                    finite = finite && std::isfinite(s);
                    peak = std::max(peak, s);
                }
                if (args.sinks) total = std::exp(static_cast<double>(args.sinks[head]) - peak);
                for (size_t i = 0; i < seen.size(); ++i) {
                    const double weight = std::exp(scores[i] - peak);
                    total += weight;
                    for (int64_t c = 0; c < shape.size; ++c) {
                        const double v = read(cache, shape, span.sequence, seen[i], kv, c, true);
                        finite = finite && std::isfinite(v);
                        sums[static_cast<size_t>(c)] += weight * v;
                    }
                }
                for (double s : sums) out.push_back(finite ? s / total : NAN);
            }
    return out;
}

// Both halves, cut as for some number of threads.
void attend(Trial& trial, AttendArgs& args) {
    static const int64_t threads[] = {1, 2, 4, 16};
    args.threads = trial.random.one_of(threads);
    const Memory room(std::max<int64_t>(attend_workspace(&args), 1));
    void* const workspace = room.data();
    args.workspace = &workspace;
    trial.run(trial.kernels.attend, &args, attend_units(&args));
    const FoldArgs rest{&args};
    trial.run(trial.kernels.fold, &rest, fold_units(&rest));
}

void test_attend(Suite& suite) {
    Random& random = suite.random;
    const Shape shape = random_shape(random);
    const Pass pass = random_pass(random);
    const Cache cache(random, shape);
    const bool spoiled = random.once_in(4);
    for (const Span& span : pass.spans)
        fill(random, cache, shape, span, spoiled && random.once_in(2));
    const int64_t rows = pass.table.size, width = shape.heads() * shape.size;
    const Values<float> q = numbers(random, rows * width), sinks = numbers(random, shape.heads());
    unsigned char* const memory = cache.memory.data();
    const PagePool pool{shape.type, 1, shape.kv_heads, shape.size, shape.page_bytes(), &memory};
    AttendArgs all{};
    all.q = q.data();
    all.heads = shape.heads();
    all.pool = &pool;
    all.table = &cache.table;
    all.rows = &pass.table;
    all.scale = 1.0f / std::sqrt(static_cast<float>(shape.size));
    all.causal = !random.once_in(4);
    all.window = random.once_in(3) ? random.between(1, 100) : 0;
    all.softcap = random.once_in(3) ? 20.0f : 0.0f;
    all.sinks = random.once_in(3) ? sinks.data() : nullptr;
    const bool quantised = shape.size % GROUP == 0 && random.once_in(2);
    const bool with_out = !quantised || random.once_in(2);
    std::vector<float> got;
    suite.check("attend", [&](Trial& trial) {
        AttendArgs args = all;
        args.out = with_out ? trial.out<float>(rows * width, "out") : nullptr;
        if (quantised) args.quantised = trial.quantised(rows, width);
        attend(trial, args);
        if (with_out && got.empty()) got.assign(args.out, args.out + rows * width);
    });
    if (!with_out || !suite.reference().attend) return;
    suite.expect_near("attend against doubles", reference(all, cache, shape, pass), got.data(),
                      2e-4);
    if (!all.causal) return;

    // The same span as another pass would have it: its last rows alone, the others in its context.
    const Span& whole = pass.spans[static_cast<size_t>(random.below(pass.table.span_count))];
    const int64_t start = random.between(whole.start, whole.stop - 1), count = whole.stop - start;
    const Span part{whole.sequence, 0, count, whole.context + start - whole.start};
    RowTable table{};
    table.size = count;
    table.span_count = 1;
    table.spans = &part;
    suite.check("attend of a part", [&](Trial& trial) {
        AttendArgs args = all;
        args.q = q.data() + start * width;
        args.rows = &table;
        args.out = trial.out<float>(count * width, "out");
        attend(trial, args);
        suite.expect("attend: other rows in the pass", got.data() + start * width, args.out,
                     count * width);
    });
}

}  // namespace

void test_attention(Suite& suite) {
    test_rotation(suite);
    test_attend(suite);
}

}  // namespace draftwalk::test
