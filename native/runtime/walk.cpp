// DFlash2's path through the candidates of a block.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "choice.h"
#include "filters.h"

namespace draftwalk {

namespace {

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

}  // namespace

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

}  // namespace draftwalk
