#include "dispatch.h"

#include <stdexcept>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace draftwalk {

// Each defined by kernels/table.cpp, compiled for that instruction set.
extern const Kernels scalar_kernels;
#ifdef DW_WITH_AVX2
extern const Kernels avx2_kernels;
#endif
#ifdef DW_WITH_AVX512
extern const Kernels avx512_kernels;
#endif
#ifdef DW_WITH_NEON
extern const Kernels neon_kernels;
#endif

namespace {

struct Choice {
    const char* name;
    const Kernels* kernels;
    bool present;
};

#if defined(__x86_64__)
[[maybe_unused]] bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

[[maybe_unused]] bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

#if defined(__aarch64__)
[[maybe_unused]] bool has_neon() {
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
    return true;  // every 64 bit Mac has dot products
#endif
}
#endif

std::vector<Choice> choices() {
    return {
#ifdef DW_WITH_AVX512
        {"avx512", &avx512_kernels, has_avx512()},
#endif
#ifdef DW_WITH_AVX2
        {"avx2", &avx2_kernels, has_avx2()},
#endif
#ifdef DW_WITH_NEON
        {"neon", &neon_kernels, has_neon()},
#endif
        {"scalar", &scalar_kernels, true},
    };
}

}  // namespace

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Choice& choice : choices()) {
        if (choice.present) names.emplace_back(choice.name);
    }
    return names;
}

const Kernels& kernels_of(const std::string& name) {
    for (const Choice& choice : choices()) {
        if (choice.present && name == choice.name) return *choice.kernels;
    }
    throw std::invalid_argument("instruction set " + name + " cannot run here");
}

}  // namespace draftwalk
