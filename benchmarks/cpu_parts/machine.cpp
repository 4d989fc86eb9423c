// What this machine can do at most: bytes read from memory per second, and products of 8-bit
// integers per second in the instruction sequences that kernels are made of. Built with
// -march=native by machine.py, prints one JSON object.
//
//     machine THREADS BUFFER_MIB REPETITIONS
//
// Narrow: weights of up to 6 bits, whose sums within a group fit 16 bits. Wide: weights of 8 bits.
// Operands stay in registers and chains are independent, so nothing but the arithmetic is timed.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

double seconds() {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// Runs work(thread) on so many threads, all starting together; the time until the last is done.
double together(int threads, const std::function<void(int)>& work) {
    std::atomic<int> waiting{threads};
    std::vector<double> begun(threads), done(threads);
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            for (--waiting; waiting > 0;) {
                std::this_thread::yield();
            }
            begun[t] = seconds();
            work(t);
            done[t] = seconds();
        });
    }
    for (auto& thread : pool) {
        thread.join();
    }
    return *std::max_element(done.begin(), done.end()) -
           *std::min_element(begun.begin(), begun.end());
}

struct Rates {
    double median, best;
};

Rates rates(int repetitions, double amount, const std::function<double()>& run) {
    run();
    std::vector<double> found;
    for (int n = 0; n < repetitions; ++n) {
        found.push_back(amount / run());
    }
    std::sort(found.begin(), found.end());
    return {found[found.size() / 2], found.back()};
}

typedef std::uint64_t Wide __attribute__((vector_size(64)));

std::uint64_t read_all(const Wide* at, std::size_t count) {
    Wide sums[4] = {};
    for (std::size_t n = 0; n + 4 <= count; n += 4) {
        for (int k = 0; k < 4; ++k) {
            sums[k] ^= at[n + k];
        }
    }
    const Wide all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
    return all[0] ^ all[1] ^ all[2] ^ all[3] ^ all[4] ^ all[5] ^ all[6] ^ all[7];
}

volatile std::uint64_t seen;

Rates read_rate(int threads, const Wide* buffer, std::size_t bytes, int repetitions) {
    const std::size_t share = bytes / sizeof(Wide) / threads;
    return rates(repetitions, double(share * threads * sizeof(Wide)), [&] {
        return together(threads, [&](int t) { seen = read_all(buffer + share * t, share); });
    });
}

struct Sequence {
    const char* name;
    bool narrow, wide;              // for which weights it is right
    double products;                // per call
    void (*run)(std::int64_t loops);
    std::int64_t per_loop;
};

// Steps are written in assembly, for compilers move products of constants out of the loop, or sums
// to memory.
#define UNROLLED _Pragma("GCC unroll 16")

#if defined(__AVX512VNNI__)

void dpbusd_512(std::int64_t loops) {
    __m512i sums[16], weight = _mm512_set1_epi8(3), value = _mm512_set1_epi8(-5);
    UNROLLED for (auto& sum : sums) sum = _mm512_setzero_si512();
    for (std::int64_t n = 0; n < loops; ++n) {
        UNROLLED for (auto& sum : sums) {
            asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weight), "v"(value));
        }
    }
    UNROLLED for (auto& sum : sums) seen = _mm512_cvtsi512_si32(sum);
}

const Sequence sequences[] = {{"vpdpbusd zmm", true, true, 64, dpbusd_512, 16}};

#elif defined(__AVX2__)

constexpr int CHAINS = 10;

template <typename Step>
__attribute__((always_inline)) inline void chains(std::int64_t loops, Step step) {
    __m256i sums[CHAINS], weight = _mm256_set1_epi8(3), value = _mm256_set1_epi8(-5);
    UNROLLED for (auto& sum : sums) sum = _mm256_setzero_si256();
    for (std::int64_t n = 0; n < loops; ++n) {
        UNROLLED for (auto& sum : sums) step(sum, weight, value);
    }
    UNROLLED for (auto& sum : sums) seen = _mm256_extract_epi32(sum, 0);
}

#if defined(__AVXVNNI__)

void dpbusd_256(std::int64_t loops) {
    chains(loops, [](__m256i& sum, __m256i weight, __m256i value) {
        asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(weight), "x"(value));
    });
}

const Sequence sequences[] = {{"vpdpbusd ymm", true, true, 32, dpbusd_256, CHAINS}};

#else

void maddubs_16(std::int64_t loops) {
    chains(loops, [](__m256i& sum, __m256i weight, __m256i value) {
        __m256i pairs;
        asm volatile("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
                     : "+x"(sum), "=&x"(pairs) : "x"(weight), "x"(value));
    });
}

void maddubs_32(std::int64_t loops) {
    const __m256i ones = _mm256_set1_epi16(1);
    chains(loops, [ones](__m256i& sum, __m256i weight, __m256i value) {
        __m256i pairs;
        asm volatile("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
                     : "+x"(sum), "=&x"(pairs) : "x"(weight), "x"(value), "x"(ones));
    });
}

void widened_32(std::int64_t loops) {
    chains(loops, [](__m256i& sum, __m256i weight, __m256i value) {
        __m256i pairs;
        asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
                     : "+x"(sum), "=&x"(pairs) : "x"(weight), "x"(value));
    });
}

const Sequence sequences[] = {
    {"vpmaddubsw, vpaddw", true, false, 32, maddubs_16, CHAINS},
    {"vpmaddubsw, vpmaddwd, vpaddd", true, true, 32, maddubs_32, CHAINS},
    {"vpmaddwd, vpaddd on 16 bits", true, true, 16, widened_32, CHAINS},
};

#endif

#else

const std::vector<Sequence> sequences;  // no sequence is known for this machine

#endif

void print_best(const char* kind, bool Sequence::*fits, int threads, int repetitions) {
    const Sequence* best = nullptr;
    Rates found{0, 0};
    for (const auto& sequence : sequences) {
        if (!(sequence.*fits)) {
            continue;
        }
        const std::int64_t loops = (std::int64_t(1) << 27) / sequence.per_loop;
        const double amount = sequence.products * sequence.per_loop * loops * threads;
        const Rates one = rates(repetitions, amount, [&] {
            return together(threads, [&](int) { sequence.run(loops); });
        });
        if (one.median > found.median) {
            found = one;
            best = &sequence;
        }
    }
    if (best != nullptr) {
        std::printf(", \"%s\": {\"gmac_s\": %.2f, \"best\": %.2f, \"sequence\": \"%s\"}", kind,
                    found.median / 1e9, found.best / 1e9, best->name);
    }
}

}  // namespace

int main(int count, char** words) {
    const int threads = count > 1 ? std::max(1, std::atoi(words[1])) : 1;
    const std::size_t bytes = std::size_t(count > 2 ? std::atoi(words[2]) : 512) << 20;
    const int repetitions = count > 3 ? std::max(1, std::atoi(words[3])) : 7;
    Wide* buffer = static_cast<Wide*>(std::aligned_alloc(std::size_t(1) << 21, bytes));
    if (buffer == nullptr) {
        std::fprintf(stderr, "no memory for a buffer of %zu bytes\n", bytes);
        return 1;
    }
#if defined(__linux__)
    madvise(buffer, bytes, MADV_HUGEPAGE);
#endif
    for (std::size_t n = 0; n < bytes / sizeof(Wide); ++n) {
        buffer[n] = Wide{n, 1, 2, 3, 4, 5, 6, 7};
    }
    const Rates one = read_rate(1, buffer, bytes, repetitions);
    const Rates all = read_rate(threads, buffer, bytes, repetitions);
    std::free(buffer);
    std::printf("{\"threads\": %d, \"read_1_gb_s\": %.2f, \"read_gb_s\": %.2f, \"read_best\": %.2f",
                threads, one.median / 1e9, all.median / 1e9, all.best / 1e9);
    print_best("narrow", &Sequence::narrow, threads, repetitions);
    print_best("wide", &Sequence::wide, threads, repetitions);
    std::printf("}\n");
    return 0;
}
