// Runs one kernel call with two instruction sets, whole and split at random, and compares all that
// it wrote, bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../kernels/kernels.h"
#include "../runtime/scratch.h"

namespace draftwalk::test {

class Random {  // splitmix64
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t bits();
    int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
    bool once_in(int64_t n) { return below(n) == 0; }
    template <class T, size_t N>
    T one_of(const T (&choices)[N]) {
        return choices[below(N)];
    }
    float unit() { return static_cast<float>(below(1 << 24)) * 0x1p-24f; }  // [0, 1)
    float number();  // around 0, mostly within 2

private:
    uint64_t state_;
};

// So many bytes and not one more: the next page cannot be touched. Under the address sanitizer it
// is ordinary memory, where that sees more.
class Memory {
public:
    explicit Memory(int64_t bytes);
    ~Memory();
    Memory(Memory&& other) noexcept;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    unsigned char* data() const { return data_; }
    int64_t size() const { return size_; }

    static bool guarded;  // false where memory cannot be protected

private:
    unsigned char* data_;
    int64_t size_, mapped_;
};

// Values in such memory.
template <class T>
class Values {
public:
    explicit Values(int64_t count)
        : memory_(count * static_cast<int64_t>(sizeof(T))), count_(count) {}
    T* data() const { return reinterpret_cast<T*>(memory_.data()); }
    T& operator[](int64_t i) const { return data()[i]; }
    int64_t size() const { return count_; }

private:
    Memory memory_;
    int64_t count_;
};

enum class Kind { bits, floats, halves };

// One run of a test's body. What it takes with `out` is compared with the first run's.
class Trial {
public:
    Trial(const Kernels& kernels, bool split, uint64_t seed)
        : kernels(kernels), random(seed), split_(split) {}

    // Memory for results, not initialised in a way that a kernel could rely on.
    template <class T>
    T* out(int64_t count, const char* name) {
        return reinterpret_cast<T*>(take(count * static_cast<int64_t>(sizeof(T)), kind<T>(), name));
    }
    Quantised quantised(int64_t rows, int64_t width);

    // fp16 numbers that the kernels have rounded to.
    uint16_t* halves(int64_t count, const char* name) {
        return reinterpret_cast<uint16_t*>(take(2 * count, Kind::halves, name));
    }

    // The call's units, at once or in pieces of random sizes in random order.
    void run(Kernel kernel, const void* args, int64_t units);

    const Kernels& kernels;
    Random random;  // for what must not matter

private:
    friend class Suite;

    struct Output {
        Memory memory;
        Kind kind;
        const char* name;
    };

    template <class T>
    static constexpr Kind kind() {
        return std::is_same_v<T, float> ? Kind::floats : Kind::bits;
    }
    unsigned char* take(int64_t bytes, Kind kind, const char* name);

    bool split_;
    bool missing_ = false;
    ThreadScratch scratch_;
    std::vector<Output> outputs_;
};

class Suite {
public:
    Suite(const Kernels& reference, const Kernels& other, uint64_t seed)
        : random(seed), reference_(reference), other_(other) {}

    // Runs the body with both instruction sets, whole and split; returns the first run.
    std::unique_ptr<Trial> check(const std::string& name, const std::function<void(Trial&)>& body);

    // Compares with what the test itself worked out; numbers that are none are equal.
    void expect(const std::string& name, const float* wanted, const float* got, int64_t count);
    void expect(const std::string& name, const int8_t* wanted, const int8_t* got, int64_t count);
    // As near as `tolerance` times (1 + the number wanted).
    void expect_near(const std::string& name, const std::vector<double>& wanted, const float* got,
                     double tolerance);
    void expect(const std::string& name, bool truth);

    bool report() const;
    const Kernels& reference() const { return reference_; }

    Random random;
    bool ties_up = false;  // Bochs 2.7 rounds up what lies in the middle of two fp16 numbers

private:
    void compare(const std::string& name, const char* how, const Trial& first, const Trial& other);
    bool same(const Trial::Output& a, const Trial::Output& b, int64_t at) const;
    void differs(const std::string& what);

    const Kernels& reference_;
    const Kernels& other_;
    int64_t compared_ = 0, different_ = 0;
    std::vector<std::string> missing_;
};

// ---- inputs
// -----------------------------------------------------------------------------------------

Values<float> numbers(Random& random, int64_t count);
void spoil(Random& random,
           Values<float>& values);  // NaN, infinities, subnormal numbers here and there

// Activations: groups of 32 that become all kinds of int8, or none.
Values<float> activations(Random& random, int64_t rows, int64_t width);

float half_value(uint16_t half);
uint16_t random_half(Random& random, float greatest);  // a finite one

// ---- tests
// ------------------------------------------------------------------------------------------

void test_rows(Suite& suite);
void test_matrices(Suite& suite);
void test_attention(Suite& suite);
void test_drafts(Suite& suite);

}  // namespace draftwalk::test
