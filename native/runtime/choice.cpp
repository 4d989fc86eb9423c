#include "choice.h"

#include <algorithm>
#include <cmath>

#include "filters.h"

namespace draftwalk {

namespace {

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

}  // namespace

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

double Chooser::exp(double x) const { return scan_.exp(x); }

}  // namespace draftwalk
