// The floating-point environment that kernels count on: round to nearest even, subnormals kept.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace draftwalk {

// Sets a thread's environment, and puts back what was there: another library of the process may
// have switched subnormals off in some threads, and bits would depend on who computes what.
class PlainRounding {
public:
    PlainRounding() : before_(read()) { write(PLAIN); }
    ~PlainRounding() { write(before_); }
    PlainRounding(const PlainRounding&) = delete;
    PlainRounding& operator=(const PlainRounding&) = delete;

private:
#if defined(__x86_64__)
    using Word = uint32_t;
    static constexpr Word PLAIN = 0x1f80;  // MXCSR: all exceptions masked, nothing else
    static Word read() { return _mm_getcsr(); }
    static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
    using Word = uint64_t;
    static constexpr Word PLAIN = 0;
    static Word read() {
        Word word;
        asm volatile("mrs %0, fpcr" : "=r"(word));
        return word;
    }
    static void write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
    using Word = int;
    static constexpr Word PLAIN = 0;
    static Word read() { return 0; }
    static void write(Word) {}
#endif

    Word before_;
};

}  // namespace draftwalk
