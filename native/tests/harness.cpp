#include "harness.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace draftwalk::test {

namespace {

constexpr unsigned char UNTOUCHED = 0xa5;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool SANITIZED = true;
#else
constexpr bool SANITIZED = false;
#endif

float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

// Which of two NaN an operation passes on is the compiler's choice.
bool both_nan(float a, float b) { return a != a && b != b; }

}  // namespace

uint64_t Random::bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float Random::number() { return (unit() + unit() + unit() + unit() - 2.0f) * 2.0f; }

// ---- memory
// -----------------------------------------------------------------------------------------

bool Memory::guarded = true;

Memory::Memory(int64_t bytes) : size_(bytes), mapped_(0) {
    if (SANITIZED || !guarded) {
        void* place = nullptr;
        if (posix_memalign(&place, 64, static_cast<size_t>(bytes))) abort();
        data_ = static_cast<unsigned char*>(place);
    } else {
        const int64_t page = sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page * page;
        mapped_ = pages + page;
        void* place = mmap(nullptr, static_cast<size_t>(mapped_), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (place == MAP_FAILED) abort();
        unsigned char* end = static_cast<unsigned char*>(place) + pages;
        mprotect(end, static_cast<size_t>(page), PROT_NONE);
        data_ = end - bytes;
    }
    memset(data_, UNTOUCHED, static_cast<size_t>(size_));
}

Memory::Memory(Memory&& other) noexcept
    : data_(other.data_), size_(other.size_), mapped_(other.mapped_) {
    other.data_ = nullptr;
}

Memory::~Memory() {
    if (!data_) return;
    if (mapped_)
        munmap(data_ + size_ + sysconf(_SC_PAGESIZE) - mapped_, static_cast<size_t>(mapped_));
    else
        free(data_);
}

// ---- trials
// -----------------------------------------------------------------------------------------

unsigned char* Trial::take(int64_t bytes, Kind kind, const char* name) {
    outputs_.push_back({Memory(bytes), kind, name});
    return outputs_.back().memory.data();
}

Quantised Trial::quantised(int64_t rows, int64_t width) {
    const int64_t groups = width / GROUP;
    return {out<int8_t>(groups * rows * GROUP, "int8"), out<float>(groups * rows, "scales"),
            out<float>(groups * rows, "sums"), out<int16_t>(groups * rows * 4, "parts")};
}

void Trial::run(Kernel kernel, const void* args, int64_t units) {
    if (!kernel) {
        missing_ = true;
        return;
    }
    if (units == 0) return;
    if (!split_) {
        kernel(args, 0, units, scratch_);
        scratch_.reset();
        return;
    }
    std::vector<int64_t> cuts{0};
    const int64_t most = random.once_in(2) ? 1 : std::max<int64_t>(1, units / 3);
    while (cuts.back() < units)
        cuts.push_back(std::min(units, cuts.back() + random.between(1, most)));
    std::vector<size_t> order;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) order.push_back(i);
    for (size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
    for (size_t i : order) {
        kernel(args, cuts[i], cuts[i + 1], scratch_);
        scratch_.reset();
    }
}

std::unique_ptr<Trial> Suite::check(const std::string& name,
                                    const std::function<void(Trial&)>& body) {
    auto first = std::make_unique<Trial>(reference_, false, 1);
    body(*first);
    if (first->missing_) {
        if (missing_.empty() || missing_.back() != name) missing_.push_back(name);
        return first;
    }
    Trial pieces(reference_, true, random.bits()), other(other_, false, random.bits()),
        other_pieces(other_, true, random.bits());
    body(pieces);
    compare(name, " in pieces", *first, pieces);
    body(other);
    compare(name, "", *first, other);
    body(other_pieces);
    compare(name, " of the other in pieces", *first, other_pieces);
    return first;
}

bool Suite::same(const Trial::Output& a, const Trial::Output& b, int64_t at) const {
    const unsigned char *x = a.memory.data() + at, *y = b.memory.data() + at;
    if (a.kind == Kind::floats) {
        float first, other;
        memcpy(&first, x, 4);
        memcpy(&other, y, 4);
        return !memcmp(x, y, 4) || both_nan(first, other);
    }
    if (a.kind == Kind::halves) {
        uint16_t first, other;
        memcpy(&first, x, 2);
        memcpy(&other, y, 2);
        if (both_nan(half_value(first), half_value(other))) return true;
        return first == other || (ties_up && other == first + 1 && other % 2 == 1);
    }
    return *x == *y;
}

void Suite::compare(const std::string& name, const char* how, const Trial& first,
                    const Trial& other) {
    for (size_t i = 0; i < first.outputs_.size(); ++i) {
        const Trial::Output &a = first.outputs_[i], &b = other.outputs_[i];
        ++compared_;
        if (!memcmp(a.memory.data(), b.memory.data(), static_cast<size_t>(a.memory.size())))
            continue;
        const int64_t size = a.kind == Kind::floats ? 4 : a.kind == Kind::halves ? 2 : 1;
        for (int64_t at = 0; at < a.memory.size(); at += size)
            if (!same(a, b, at)) {
                uint32_t x = 0, y = 0;
                memcpy(&x, a.memory.data() + at, static_cast<size_t>(size));
                memcpy(&y, b.memory.data() + at, static_cast<size_t>(size));
                char text[120];
                snprintf(text, sizeof text, ": %s[%ld] is %0*x, not %0*x", a.name,
                         static_cast<long>(at / size), static_cast<int>(2 * size), y,
                         static_cast<int>(2 * size), x);
                differs(name + how + text);
                break;
            }
    }
}

void Suite::differs(const std::string& what) {
    if (++different_ <= 20) printf("%s\n", what.c_str());
}

void Suite::expect(const std::string& name, const float* wanted, const float* got, int64_t count) {
    ++compared_;
    for (int64_t i = 0; i < count; ++i) {
        if (!memcmp(wanted + i, got + i, 4) || both_nan(wanted[i], got[i])) continue;
        char text[120];
        snprintf(text, sizeof text, ": number %ld is %a, not %a", static_cast<long>(i),
                 static_cast<double>(got[i]), static_cast<double>(wanted[i]));
        return differs(name + text);
    }
}

void Suite::expect(const std::string& name, const int8_t* wanted, const int8_t* got,
                   int64_t count) {
    ++compared_;
    for (int64_t i = 0; i < count; ++i) {
        if (wanted[i] == got[i]) continue;
        char text[120];
        snprintf(text, sizeof text, ": number %ld is %d, not %d", static_cast<long>(i), got[i],
                 wanted[i]);
        return differs(name + text);
    }
}

void Suite::expect_near(const std::string& name, const std::vector<double>& wanted,
                        const float* got, double tolerance) {
    ++compared_;
    for (size_t i = 0; i < wanted.size(); ++i) {
        const double value = static_cast<double>(got[i]);
        if (std::isnan(wanted[i])
                ? std::isnan(value)
                : std::fabs(value - wanted[i]) <= tolerance * (1.0 + std::fabs(wanted[i])))
            continue;
        char text[120];
        snprintf(text, sizeof text, ": number %zu is %g, not %g", i, value, wanted[i]);
        return differs(name + text);
    }
}

void Suite::expect(const std::string& name, bool truth) {
    ++compared_;
    if (!truth) differs(name);
}

bool Suite::report() const {
    for (const std::string& name : missing_) printf("not there: %s\n", name.c_str());
    printf("%s and %s: %ld comparisons, %ld different\n", reference_.name, other_.name,
           static_cast<long>(compared_), static_cast<long>(different_));
    return different_ == 0;
}

// ---- inputs
// -----------------------------------------------------------------------------------------

Values<float> numbers(Random& random, int64_t count) {
    Values<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = random.number();
    return values;
}

void spoil(Random& random, Values<float>& values) {
    static const uint32_t kinds[] = {0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000, 0x7f7fffff,
                                     0x00000001, 0x807fffff, 0x80000000, 0x00000000, 0x7149f2ca};
    for (int64_t n = random.between(1, 4); n > 0 && values.size() > 0; --n)
        values[random.below(values.size())] = as_float(random.one_of(kinds));
}

Values<float> activations(Random& random, int64_t rows, int64_t width) {
    Values<float> x = numbers(random, rows * width);
    for (int64_t start = 0; start + GROUP <= x.size(); start += GROUP) {
        float* group = x.data() + start;
        const float scale = std::ldexp(1.0f, static_cast<int>(random.between(-40, 40)));
        switch (random.below(8)) {
            case 0:  // the ends of int8
                for (int i = 0; i < GROUP; ++i) group[i] = random.once_in(2) ? scale : -scale;
                break;
            case 1:  // one sign: the greatest sums
                for (int i = 0; i < GROUP; ++i) group[i] = scale;
                break;
            case 2:  // ties between two int8
                for (int i = 0; i < GROUP; ++i)
                    group[i] = static_cast<float>(random.between(-254, 254)) * 0.5f;
                group[random.below(GROUP)] = 127.0f;
                break;
            case 3:
                for (int i = 0; i < GROUP; ++i)
                    group[i] = random.once_in(3) ? 0.0f : group[i] * scale;
                break;
            case 4:
                if (random.once_in(2))
                    for (int i = 0; i < GROUP; ++i) group[i] = 0.0f;
                break;
            case 5: {  // around the least that counts
                const float tiny = std::ldexp(1.0f, static_cast<int>(random.between(-104, -99)));
                for (int i = 0; i < GROUP; ++i) group[i] *= tiny;
                if (random.once_in(3)) group[0] = 0x1p-100f;
                break;
            }
            default: break;
        }
    }
    if (random.once_in(4)) spoil(random, x);
    return x;
}

float half_value(uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    float value = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                  : exponent == 31 ? (fraction ? as_float(0x7fc00000) : as_float(0x7f800000))
                                   : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    return half & 0x8000 ? -value : value;
}

uint16_t random_half(Random& random, float greatest) {
    for (;;) {
        const uint16_t half = static_cast<uint16_t>(random.bits());
        if (std::fabs(half_value(half)) <= greatest) return half;
    }
}

}  // namespace draftwalk::test
