// The parts of choosing a token that look at every logit. Included by scans.cpp once for each size
// of vectors, with DW_SCAN (a namespace), DW_TARGET (an attribute of functions) and DW_BYTES.
//
// Written on the compilers' own vectors. Nothing depends on how long they are: a maximum and a race
// have no order, and sums run on eight lanes whatever the vectors are.

namespace draftwalk::DW_SCAN {

constexpr int64_t WIDE = DW_BYTES / 8;    // doubles and 64 bit integers of a vector
constexpr int64_t NARROW = DW_BYTES / 4;  // floats of a vector
constexpr int64_t LANES = 8;              // of a sum

typedef uint64_t Words __attribute__((vector_size(DW_BYTES)));
typedef double Doubles __attribute__((vector_size(DW_BYTES)));
typedef float Floats __attribute__((vector_size(DW_BYTES)));
typedef int32_t Ints __attribute__((vector_size(DW_BYTES)));
typedef float Half __attribute__((vector_size(DW_BYTES / 2)));

DW_TARGET static inline Floats load(const float* place) {
    Floats x;
    std::memcpy(&x, place, sizeof x);
    return x;
}

DW_TARGET static inline bool any(Ints mask) {
    Words words;
    std::memcpy(&words, &mask, sizeof words);
    uint64_t some = 0;
    for (int64_t n = 0; n < WIDE; ++n) some |= words[n];
    return some != 0;
}

// The greatest logit of each block of a row. NaN if there is one anywhere.
DW_TARGET static float peaks(const float* row, int64_t size, float* of_blocks) {
    const Floats lowest = Floats{} - INFINITY;
    Ints bad{};
    float greatest = -INFINITY;
    for (int64_t first = 0, block = 0; first < size; first += BLOCK, ++block) {
        float rest[BLOCK];
        const float* from = row + first;
        if (first + BLOCK > size) {
            for (int64_t n = 0; n < BLOCK; ++n) rest[n] = first + n < size ? from[n] : -INFINITY;
            from = rest;
        }
        Floats most = lowest;
        for (int64_t n = 0; n < BLOCK; n += NARROW) {
            const Floats x = load(from + n);
            bad |= x != x;
            most = x > most ? x : most;
        }
        float peak = most[0];
        for (int64_t n = 1; n < NARROW; ++n) peak = most[n] > peak ? most[n] : peak;
        of_blocks[block] = peak;
        greatest = peak > greatest ? peak : greatest;
    }
    return any(bad) ? NAN : greatest;
}

// exp of numbers that are not positive, -infinity included, to about one unit of the last place.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, and the Taylor polynomial of degree 13 for exp(r), whose
// parts do not wait for each other. 2^n is two factors, so that a subnormal result is rounded once.
DW_TARGET static inline Doubles exp_of(Doubles x) {
    const Doubles least = Doubles{} + EXP_LEAST;
    x = x < least ? least : x;
    constexpr double TO_INTEGER = 0x1.8p52;  // adding it leaves n in the lowest bits
    const Doubles shifted = x * 0x1.71547652b82fep+0 + TO_INTEGER;
    const Doubles n = shifted - TO_INTEGER;
    const Doubles r = (x - n * LN2_HIGH) - n * LN2_LOW;
    const Doubles r2 = r * r, r4 = r2 * r2;
    const Doubles low = (0.5 + r * (1.0 / 6.0)) + r2 * (1.0 / 24.0 + r * (1.0 / 120.0));
    const Doubles middle = (1.0 / 720.0 + r * (1.0 / 5040.0)) +
                           r2 * (1.0 / 40320.0 + r * (1.0 / 362880.0));
    const Doubles high = (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) +
                         r2 * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0));
    const Doubles y = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)));
    Words bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    const Words exponent = bits - (0x4338000000000000 - 2048);  // n + 2048
    const Words half = exponent >> 1;
    const Words first = (half - 1) << 52;
    const Words second = (exponent - half - 1) << 52;
    Doubles by, and_by;
    std::memcpy(&by, &first, sizeof by);
    std::memcpy(&and_by, &second, sizeof and_by);
    return y * by * and_by;
}

DW_TARGET static double exp_of_one(double x) { return exp_of(Doubles{} + x)[0]; }

// Eight of them; `out` may be null.
DW_TARGET static inline void weigh_eight(const float* logits, double temperature, double top,
                                         Doubles* sums, double* out) {
    for (int64_t n = 0; n < LANES; n += WIDE) {
        Half narrow;
        std::memcpy(&narrow, logits + n, sizeof narrow);
        const Doubles w = exp_of(__builtin_convertvector(narrow, Doubles) / temperature - top);
        sums[n / WIDE] += w;
        if (out) std::memcpy(out + n, &w, sizeof w);
    }
}

// exp(x / temperature - top) of every logit, to `out` if there is one; returns their sum.
DW_TARGET static double weights(const float* row, int64_t size, double temperature, double top,
                                double* out) {
    Doubles sums[LANES / WIDE] = {};
    int64_t id = 0;
    for (; id + LANES <= size; id += LANES) {
        weigh_eight(row + id, temperature, top, sums, out ? out + id : nullptr);
    }
    if (id < size) {
        float rest[LANES];
        double found[LANES];
        std::fill_n(rest, LANES, -INFINITY);
        std::copy_n(row + id, size - id, rest);
        weigh_eight(rest, temperature, top, sums, found);
        if (out) std::copy_n(found, size - id, out + id);
    }
    double lanes[LANES];
    std::memcpy(lanes, sums, sizeof lanes);
    for (int64_t half = LANES / 2; half > 0; half /= 2) {
        for (int64_t n = 0; n < half; ++n) lanes[n] += lanes[n + half];
    }
    return lanes[0];
}

DW_TARGET static inline Words mixed(Words z) {  // the upper 31 bits of verify/noise.py's _stream
    z = (z ^ (z >> 30)) * FIRST;
    z = (z ^ (z >> 27)) * SECOND;
    return z >> 33;  // the last step of the mixing leaves these bits as they are
}

// Whether any logit of a whole block may win a race that stands at `least`.
//
// A number's logarithm in base 2 is at least its exponent plus the fraction of its mantissa, which
// is what its bits say as an integer. So a uniform's bits bound -log(u) from above, and with it the
// score, without any logarithm. `least` leaves room for the rounding here.
DW_TARGET static bool may_win(const float* logits, int64_t id, const Bound& bound, float least) {
    constexpr float LN2 = 0x1.62e43p-1f;
    Words even;  // ids 0, 2, 4 ... of those in a vector of floats; the odd ones follow them
    for (uint64_t n = 0; n < WIDE; ++n) even[n] = (2 * n + 1) * GOLDEN;
    even += bound.start + static_cast<uint64_t>(id) * GOLDEN;
    Words odd = even + GOLDEN;
    Ints found{};
    for (int64_t n = 0; n < BLOCK; n += NARROW) {
        const Words both = mixed(even) | mixed(odd) << 32;
        Ints uniform;
        std::memcpy(&uniform, &both, sizeof uniform);
        const Floats u = __builtin_convertvector(uniform, Floats);
        Ints bits;
        std::memcpy(&bits, &u, sizeof bits);
        const Floats log_u = __builtin_convertvector(bits, Floats) * (LN2 * 0x1p-23f);
        const Floats surprise = (127 + 31) * LN2 - log_u;  // u is of 31 bits
        found |= (load(logits + n) - bound.peak) * bound.inverse + surprise >= least;
        even += NARROW * GOLDEN;
        odd += NARROW * GOLDEN;
    }
    return any(found);
}

}  // namespace draftwalk::DW_SCAN
