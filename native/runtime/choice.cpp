#include "choice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "../numeric/precise.h"

namespace draftwalk {

namespace {

constexpr int64_t BLOCK = 32;  // ids that are looked at together

// The mixing function of verify/noise.py.
constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15;
constexpr uint64_t FIRST = 0xbf58476d1ce4e5b9;
constexpr uint64_t SECOND = 0x94d049bb133111eb;

struct Bound {
    uint64_t start;
    float peak;     // the greatest logit of the row
    float inverse;  // of the temperature
};

}  // namespace

}  // namespace draftwalk

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

// In the order of the ranking: the greatest logit first, of equals the lowest id.
struct Candidate {
    double logit;
    int64_t id;
    double weight;  // exp(log_p), p not normalised

    bool operator<(const Candidate& other) const {
        return logit > other.logit || (logit == other.logit && id < other.id);
    }
};

struct Scan {
    const char* name;
    bool present;
    float (*peaks)(const float* row, int64_t size, float* of_blocks);
    double (*weights)(const float* row, int64_t size, double temperature, double top, double* out);
    bool (*may_win)(const float* logits, int64_t id, const Bound& bound, float least);
    double (*exp)(double x);
};

namespace {

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

constexpr double LARGEST = 1e300;  // verify/distribution.py
constexpr double INFINITE = std::numeric_limits<double>::infinity();

// ---- the race ----------------------------------------------------------------------------------

uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * FIRST;
    z = (z ^ (z >> 27)) * SECOND;
    return z ^ (z >> 31);
}

uint64_t stream(uint64_t start, int64_t id) {  // 53 bits
    return mix(start + (static_cast<uint64_t>(id) + 1) * GOLDEN) >> 11;
}

// -log(1 - u) of the uniform u that 53 bits stand for.
double exponential(uint64_t bits) {
    if (bits == 0) return 0x1p-54;
    return -log_of(1.0 - static_cast<double>(bits) * 0x1p-53);  // the difference is exact
}

// No less than -log of that uniform: see may_win.
double most_surprise(uint64_t bits) {
    const double u = std::max(static_cast<double>(bits), 0.5) * 0x1p-53;
    uint64_t as_integer;
    std::memcpy(&as_integer, &u, sizeof as_integer);
    const double logarithm = static_cast<double>(as_integer) * 0x1p-52 - 1023.0;
    return -logarithm * LN2_HIGH + 1e-6;
}

// Who has the least E / p so far, told by log p - log E; ties go to the lowest id.
struct Race {
    uint64_t start;
    double score = -INFINITE;
    int64_t winner = -1;

    void meet(int64_t id, double log_p) {
        const uint64_t bits = stream(start, id);
        if (log_p + most_surprise(bits) < score) return;  // E is more than u
        const double other = log_p - log_of(exponential(bits));
        if (other > score || (other == score && id < winner)) {
            score = other;
            winner = id;
        }
    }
};

// ---- rows --------------------------------------------------------------------------------------

// Memory that a thread keeps from row to row.
struct Memory {
    std::vector<float> logits, peaks, ordered;
    std::vector<Candidate> head;
    std::vector<double> weights, changed;
};

Memory& memory() {
    static thread_local Memory one;
    return one;
}

int64_t blocks_of(int64_t size) { return (size + BLOCK - 1) / BLOCK; }

// A row with what is known of it. Changed logits stand beside it, and are -infinity in it.
struct Ready {
    const Scan& scan;
    const LogitRow& row;
    const float* logits;
    float peak;  // of the unchanged logits
    Peaks peaks;

    Ready(const Scan& scan, const LogitRow& row) : scan(scan), row(row), logits(row.logits) {
        Memory& own = memory();
        own.peaks.resize(static_cast<size_t>(blocks_of(row.size)));
        peak = scan.peaks(logits, row.size, own.peaks.data());
        peaks = {peak, peak};
        if (!row.changes.ids.empty() && std::abs(peaks.raw) < LARGEST) change(own);
    }

    double log_p(double logit, double temperature) const {  // not normalised; of the peak it is 0
        return logit / temperature - peaks.changed / temperature;
    }

    // Calls see(id, logit) for all logits that changed.
    template <class See>
    void changed(const See& see) const {
        const Changes& changes = row.changes;
        for (size_t n = 0; n < changes.ids.size(); ++n) see(changes.ids[n], memory().changed[n]);
    }

private:
    void change(Memory& own) {
        const Changes& changes = row.changes;
        own.logits.assign(row.logits, row.logits + row.size);
        own.changed.clear();
        for (size_t n = 0; n < changes.ids.size(); ++n) {
            const int64_t id = changes.ids[n];
            const double biased = row.logits[id] + changes.biases[n];
            own.changed.push_back(changes.penalties.of(biased, changes.times[n]));
            own.logits[static_cast<size_t>(id)] = -INFINITY;
        }
        logits = own.logits.data();
        peak = scan.peaks(logits, row.size, own.peaks.data());
        peaks.changed = peak;
        for (const double logit : own.changed) {
            if (!(logit <= peaks.changed)) peaks.changed = logit;
        }
    }
};

// The greatest logit; of equals the lowest id.
int64_t greatest(const Ready& ready) {
    int64_t best = ready.row.size;
    if (ready.peak == ready.peaks.changed) {
        const std::vector<float>& peaks = memory().peaks;
        int64_t id = (std::find(peaks.begin(), peaks.end(), ready.peak) - peaks.begin()) * BLOCK;
        while (ready.logits[id] != ready.peak) ++id;
        best = id;
    }
    ready.changed([&](int64_t id, double logit) {
        if (logit == ready.peaks.changed) best = std::min(best, id);
    });
    return best;
}

// The first `width` of the ranking that are not -infinity, to memory().head.
//
// The peaks of as many blocks bound the last of them from below, so few logits are looked at.
void rank(const Ready& ready, int64_t width) {
    Memory& own = memory();
    std::vector<Candidate>& head = own.head;
    head.clear();
    float least = -INFINITY;
    if (width <= static_cast<int64_t>(own.peaks.size())) {
        own.ordered = own.peaks;
        const auto last = own.ordered.begin() + (width - 1);
        std::nth_element(own.ordered.begin(), last, own.ordered.end(), std::greater<float>());
        least = *last;
    }
    const auto offer = [&](int64_t id, double logit) {
        if (logit >= least && logit > -INFINITE) head.push_back({logit, id, 0.0});
    };
    for (size_t block = 0; block < own.peaks.size(); ++block) {
        if (!(own.peaks[block] >= least)) continue;
        const int64_t first = static_cast<int64_t>(block) * BLOCK;
        const int64_t last = std::min(first + BLOCK, ready.row.size);
        for (int64_t id = first; id < last; ++id) offer(id, ready.logits[id]);
    }
    ready.changed(offer);
    if (static_cast<int64_t>(head.size()) > width) {
        std::nth_element(head.begin(), head.begin() + width, head.end());
        head.resize(static_cast<size_t>(width));
    }
    std::sort(head.begin(), head.end());
}

// ---- filters -----------------------------------------------------------------------------------

// Where a ranking is cut: the last of those that stay.
struct Cut {
    double logit;
    int64_t id;

    bool keeps(int64_t other, double its_logit) const {
        return its_logit > logit || (its_logit == logit && other <= id);
    }
};

constexpr Cut NOTHING_CUT{-INFINITE, std::numeric_limits<int64_t>::max()};

// Sets the weights of a ranking; returns their sum.
template <class LogP>
double weigh(const Scan& scan, std::vector<Candidate>& ranking, const LogP& log_p) {
    double sum = 0.0;
    for (Candidate& one : ranking) {
        one.weight = scan.exp(log_p(one.logit));
        sum += one.weight;
    }
    return sum;
}

// How many of a ranking top-p and min-p leave, at least one, if the mass `before` it stays: `kept`
// of verify/filters.py. `best` is the weight of the first of all.
size_t kept(const std::vector<Candidate>& ranking, double before, double best, double sum,
            const Filters& filters) {
    size_t count = 0;
    for (const Candidate& one : ranking) {
        const double p = one.weight / sum;
        if (!(p > 0.0)) break;
        if (filters.top_p < 1.0 && !(before < filters.top_p)) break;
        if (filters.min_p > 0.0 && !(p >= filters.min_p * (best / sum))) break;
        before += p;
        ++count;
    }
    return std::max<size_t>(count, 1);
}

// The sum of the weights of all logits, which go to `out` if there is one.
double mass(const Ready& ready, double temperature, double* out) {
    const double top = ready.peaks.changed / temperature;
    double sum = ready.scan.weights(ready.logits, ready.row.size, temperature, top, out);
    ready.changed([&](int64_t id, double logit) {
        const double weight = ready.scan.exp(ready.log_p(logit, temperature));
        if (out) out[id] = weight;
        sum += weight;
    });
    return sum;
}

// Min-p alone: by bisection, the least logit whose weight is enough. Of the greatest it is 1.
Cut cut_by_weight(const Ready& ready, double temperature, double least) {
    double above = ready.peaks.changed, below = above - 800.0 * temperature;
    if (least <= 0.0) return NOTHING_CUT;
    while (true) {
        const double middle = below + (above - below) / 2;
        if (middle <= below || middle >= above) return {above, NOTHING_CUT.id};
        const double weight = ready.scan.exp(ready.log_p(middle, temperature));
        (weight >= least ? above : below) = middle;
    }
}

// Top-p of a flat distribution. Logits are put into bins by their distance from the greatest; only
// the bin in which the mass is reached has to be ranked.
Cut cut_by_bins(const Ready& ready, const Filters& filters) {
    constexpr size_t BINS = 4096;
    constexpr double OF_A_NAT = 64.0;
    Memory& own = memory();
    own.weights.resize(static_cast<size_t>(ready.row.size));
    const double sum = mass(ready, filters.temperature, own.weights.data());
    const double scale = OF_A_NAT / filters.temperature;
    const auto bin_of = [&](double logit) {
        return static_cast<size_t>(std::min((ready.peaks.changed - logit) * scale, BINS - 1.0));
    };
    std::vector<double> bins(BINS);
    const auto each = [&](const auto& see) {
        for (int64_t id = 0; id < ready.row.size; ++id) see(id, ready.logits[id]);
        ready.changed(see);
    };
    each([&](int64_t id, double logit) {
        if (logit > -INFINITE) bins[bin_of(logit)] += own.weights[static_cast<size_t>(id)];
    });
    double before = 0.0;
    size_t bin = 0;
    while (bin + 1 < BINS && before + bins[bin] / sum < filters.top_p) before += bins[bin++] / sum;
    own.head.clear();
    each([&](int64_t id, double logit) {
        if (logit > -INFINITE && bin_of(logit) == bin) {
            own.head.push_back({logit, id, own.weights[static_cast<size_t>(id)]});
        }
    });
    if (own.head.empty()) return NOTHING_CUT;  // by rounding, all is less than top-p
    std::sort(own.head.begin(), own.head.end());
    const Candidate& last = own.head[kept(own.head, before, 1.0, sum, filters) - 1];
    return {last.logit, last.id};
}

bool cuts(const Filters& filters, int64_t size) {
    const bool counts = filters.top_k > 0 && filters.top_k < size;
    return counts || filters.top_p < 1.0 || filters.min_p > 0.0;
}

// Where the filters cut a row's ranking.
Cut cut(const Ready& ready, const Filters& filters) {
    constexpr int64_t FIRST_RANKS = 128;  // most distributions end within them
    std::vector<Candidate>& head = memory().head;
    const auto log_p = [&](double logit) { return ready.log_p(logit, filters.temperature); };
    const auto after = [&](size_t count) { return Cut{head[count - 1].logit, head[count - 1].id}; };
    if (filters.top_k > 0 && filters.top_k < ready.row.size) {
        rank(ready, filters.top_k);
        const double sum = weigh(ready.scan, head, log_p);
        return after(kept(head, 0.0, 1.0, sum, filters));
    }
    if (filters.top_p >= 1.0) return cut_by_weight(ready, filters.temperature, filters.min_p);
    const double sum = mass(ready, filters.temperature, nullptr);
    rank(ready, FIRST_RANKS);
    weigh(ready.scan, head, log_p);
    const size_t count = kept(head, 0.0, 1.0, sum, filters);
    // A cut that keeps all it was shown has not seen its end.
    if (count < head.size() || head.size() < FIRST_RANKS) return after(count);
    const Cut by_mass = cut_by_bins(ready, filters);
    const Cut by_weight = cut_by_weight(ready, filters.temperature, filters.min_p);
    return by_weight.logit > by_mass.logit ? by_weight : by_mass;
}

// The race of those that a cut keeps. A block is looked at closely only if someone in it may win.
int64_t race(const Ready& ready, double temperature, uint64_t start, const Cut& cut) {
    constexpr double MOST_SURPRISE = 37.5;  // -log of the least uniform, 2^-54
    constexpr double ROUNDING = 1e-3;       // of may_win, far less
    Race race{start};
    const auto meet = [&](int64_t id, double logit) {
        if (cut.keeps(id, logit)) race.meet(id, ready.log_p(logit, temperature));
    };
    ready.changed(meet);
    const Bound bound{start, ready.peak, static_cast<float>(1.0 / temperature)};
    const double lead = ready.log_p(ready.peak, temperature);
    const std::vector<float>& peaks = memory().peaks;
    for (size_t block = 0; block < peaks.size(); ++block) {
        const double least = race.score - ROUNDING;
        const double peak = peaks[block];
        if (peak < cut.logit || ready.log_p(peak, temperature) + MOST_SURPRISE < least) continue;
        const int64_t first = static_cast<int64_t>(block) * BLOCK;
        const int64_t last = std::min(first + BLOCK, ready.row.size);
        const float* logits = ready.logits + first;
        if (last - first < BLOCK ||
            ready.scan.may_win(logits, first, bound, static_cast<float>(least - lead))) {
            for (int64_t id = first; id < last; ++id) meet(id, ready.logits[id]);
        }
    }
    return race.winner;
}

// Those that a cut keeps, to memory().head with their weights.
void collect(const Ready& ready, double temperature, const Cut& cut) {
    Memory& own = memory();
    own.head.clear();
    const auto offer = [&](int64_t id, double logit) {
        if (cut.keeps(id, logit)) own.head.push_back({logit, id, 0.0});
    };
    for (size_t block = 0; block < own.peaks.size(); ++block) {
        if (own.peaks[block] < cut.logit) continue;
        const int64_t first = static_cast<int64_t>(block) * BLOCK;
        const int64_t last = std::min(first + BLOCK, ready.row.size);
        for (int64_t id = first; id < last; ++id) offer(id, ready.logits[id]);
    }
    ready.changed(offer);
    weigh(ready.scan, own.head, [&](double logit) { return ready.log_p(logit, temperature); });
}

// ---- walks -------------------------------------------------------------------------------------

// What the filters leave of a row of candidates, to memory().head with weights, in the order of the
// ranking; returns the peak. If that is not finite they cannot be used, and the rest is not done.
double rank_row(const Scan& scan, const int64_t* ids, const std::vector<double>& scores,
                const Filters& filters) {
    std::vector<Candidate>& ranking = memory().head;
    ranking.clear();
    double peak = -INFINITE;
    for (size_t n = 0; n < scores.size(); ++n) {
        if (std::isnan(scores[n])) return scores[n];
        peak = std::max(peak, scores[n]);
        ranking.push_back({scores[n], ids[n], 1.0});
    }
    if (!(std::abs(peak) < LARGEST)) return peak;
    std::sort(ranking.begin(), ranking.end());
    size_t count = 1;
    if (filters.temperature > 0.0) {
        if (filters.top_k > 0) {
            ranking.resize(std::min(ranking.size(), static_cast<size_t>(filters.top_k)));
        }
        const double top = peak / filters.temperature;
        const double sum = weigh(scan, ranking, [&](double score) {
            return score / filters.temperature - top;
        });
        count = kept(ranking, 0.0, 1.0, sum, filters);
    }
    ranking.resize(count);
    return peak;
}

// The winner of the race of those in memory().head.
int64_t race_row(double peak, double temperature, uint64_t start) {
    const std::vector<Candidate>& ranking = memory().head;
    if (ranking.size() == 1) return ranking[0].id;
    Race race{start};
    for (const Candidate& one : ranking) {
        race.meet(one.id, one.logit / temperature - peak / temperature);
    }
    return race.winner;
}

// The token of a uniform, by the distribution function over ascending ids: verify/verdict.py's _draw.
int64_t draw(const Distribution& q, double uniform) {
    std::vector<double> mass(q.p.size());
    std::partial_sum(q.p.begin(), q.p.end(), mass.begin());
    const auto found = std::upper_bound(mass.begin(), mass.end(), uniform * mass.back());
    return q.ids[static_cast<size_t>(std::min(found, mass.end() - 1) - mass.begin())];
}

// The recent text of a walk, which grows by what it finds.
class Recent {
public:
    explicit Recent(Text& text) : text_(text) {
        for (const int64_t token : text.recent) ++times_[token];
    }

    void push(int64_t token) {
        std::vector<int64_t>& recent = text_.recent;
        ++times_[token];
        recent.push_back(token);
        const int64_t leaving = static_cast<int64_t>(recent.size()) - 1 - text_.last_n;
        if (text_.last_n >= 0 && leaving >= 0) --times_[recent[static_cast<size_t>(leaving)]];
    }

    // Scores as biases and penalties change them. Bans do not hold if all are banned: the drafter has
    // to name one.
    void change(const int64_t* ids, const float* scores, std::vector<double>& changed) const {
        change(ids, scores, changed, true);
        const auto possible = [](double score) { return score != -INFINITE; };
        if (text_.biases.empty() || std::any_of(changed.begin(), changed.end(), possible)) return;
        change(ids, scores, changed, false);
    }

private:
    void change(const int64_t* ids, const float* scores, std::vector<double>& changed,
                bool biased) const {
        for (size_t n = 0; n < changed.size(); ++n) {
            const auto bias = text_.biases.find(ids[n]);
            const auto times = times_.find(ids[n]);
            const double added = biased && bias != text_.biases.end() ? bias->second : 0.0;
            const int64_t count = times == times_.end() ? 0 : times->second;
            changed[n] = text_.penalties.of(scores[n] + added, static_cast<double>(count));
        }
    }

    Text& text_;
    std::unordered_map<int64_t, int64_t> times_;
};

const Scan& scan_named(const std::string& name) {
    for (const Scan& scan : scans()) {
        if (scan.present && name == scan.name) return scan;
    }
    throw std::invalid_argument("there are no vectors called " + name + " here");
}

}  // namespace

// ---- the interface -----------------------------------------------------------------------------

void Distribution::take(std::vector<Candidate>& kept) {
    const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
    if (!std::is_sorted(kept.begin(), kept.end(), by_id)) {
        std::sort(kept.begin(), kept.end(), by_id);
    }
    double sum = 0.0;
    for (const Candidate& one : kept) sum += one.weight;
    for (const Candidate& one : kept) {
        ids.push_back(one.id);
        p.push_back(one.weight / sum);
    }
}

bool Peaks::usable() const { return std::abs(raw) < LARGEST && std::abs(changed) < LARGEST; }

std::vector<std::string> Chooser::kinds() {
    std::vector<std::string> names;
    for (const Scan& scan : scans()) {
        if (scan.present) names.emplace_back(scan.name);
    }
    return names;
}

Chooser::Chooser(const std::string& vectors) : scan_(scan_named(vectors)) {}

Chosen Chooser::choose(const LogitRow& row, const Filters& filters, uint64_t start) const {
    const Ready ready(scan_, row);
    if (!ready.peaks.usable()) return {-1, ready.peaks};
    if (filters.temperature == 0.0) return {greatest(ready), ready.peaks};
    const Cut kept = cuts(filters, row.size) ? cut(ready, filters) : NOTHING_CUT;
    return {race(ready, filters.temperature, start, kept), ready.peaks};
}

Distribution Chooser::distribution(const LogitRow& row, const Filters& filters) const {
    const Ready ready(scan_, row);
    Distribution found{{}, {}, ready.peaks};
    if (!ready.peaks.usable()) return found;
    if (cuts(filters, row.size)) {
        collect(ready, filters.temperature, cut(ready, filters));
        found.take(memory().head);
        return found;
    }
    const size_t size = static_cast<size_t>(row.size);
    found.ids.resize(size);
    found.p.resize(size);
    const double sum = mass(ready, filters.temperature, found.p.data());
    size_t count = 0;
    for (size_t id = 0; id < size; ++id) {
        const double p = found.p[id] / sum;
        found.ids[count] = static_cast<int64_t>(id);
        found.p[count] = p;
        count += p > 0.0;
    }
    found.ids.resize(count);
    found.p.resize(count);
    return found;
}

Walk Chooser::walk(const Lattice& lattice, const Filters& filters, Text text,
                   const Draws& draws) const {
    Walk path;
    Recent recent(text);
    const size_t k = static_cast<size_t>(lattice.k);
    std::vector<double> changed(k), weights(k);
    int64_t before = 0;
    for (int64_t n = 0; n < lattice.rows; ++n) {
        const int64_t* ids = lattice.candidates + n * lattice.k;
        const float* scores = lattice.scores + (n * lattice.k + before) * lattice.k;
        recent.change(ids, scores, changed);
        const double peak = rank_row(scan_, ids, changed, filters);
        if (!(std::abs(peak) < LARGEST)) break;
        int64_t token;
        if (draws.uniforms.empty()) {
            const uint64_t start = mix(draws.first + static_cast<uint64_t>(n) * GOLDEN);
            token = race_row(peak, filters.temperature, start);
        } else {
            path.q.push_back({{}, {}, {peak, peak}});
            path.q.back().take(memory().head);
            token = draw(path.q.back(), draws.uniforms[static_cast<size_t>(n)]);
        }
        before = std::find(ids, ids + k, token) - ids;
        const double top = *std::max_element(scores, scores + k);
        const double sum = scan_.weights(scores, lattice.k, 1.0, top, weights.data());
        path.tokens.push_back(token);
        path.confidence.push_back(weights[static_cast<size_t>(before)] / sum);
        recent.push(token);
    }
    return path;
}

double Chooser::exp(double x) const { return scan_.exp(x); }

}  // namespace draftwalk
