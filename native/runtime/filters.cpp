#include "filters.h"

#include <algorithm>

namespace draftwalk {

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

namespace {

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

}  // namespace

bool cuts(const Filters& filters, int64_t size) {
    const bool counts = filters.top_k > 0 && filters.top_k < size;
    return counts || filters.top_p < 1.0 || filters.min_p > 0.0;
}

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

}  // namespace draftwalk
