#include "scans.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "race.h"

#define DW_SCAN portable
#define DW_TARGET
#define DW_BYTES 16
#include "scan.h"
#undef DW_SCAN
#undef DW_TARGET
#undef DW_BYTES

#if defined(__x86_64__)
#define DW_SCAN avx2
#define DW_TARGET __attribute__((target("avx2")))
#define DW_BYTES 32
#include "scan.h"
#undef DW_SCAN
#undef DW_TARGET
#undef DW_BYTES
#endif

namespace draftwalk {

#define DW_SCAN_OF(name, present) \
    {#name, present, &name::peaks, &name::weights, &name::may_win, &name::exp_of_one}

const std::vector<Scan>& scans() {
    static const std::vector<Scan> every{
#if defined(__x86_64__)
        DW_SCAN_OF(avx2, __builtin_cpu_supports("avx2") != 0),
#endif
        DW_SCAN_OF(portable, true),
    };
    return every;
}

#undef DW_SCAN_OF

const Scan& scan_named(const std::string& name) {
    for (const Scan& scan : scans()) {
        if (scan.present && name == scan.name) return scan;
    }
    throw std::invalid_argument("there are no vectors called " + name + " here");
}

}  // namespace draftwalk
