// What top-k, top-p and min-p leave of a row: a cut through its ranking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "ranking.h"

namespace draftwalk {

// Where a ranking is cut: the last of those that stay.
struct Cut {
    double logit;
    int64_t id;

    bool keeps(int64_t other, double its_logit) const {
        return its_logit > logit || (its_logit == logit && other <= id);
    }
};

constexpr Cut NOTHING_CUT{-INFINITE, std::numeric_limits<int64_t>::max()};

// How many of a ranking top-p and min-p leave, at least one, if the mass `before` it stays: `kept`
// of verify/filters.py. `best` is the weight of the first of all.
size_t kept(const std::vector<Candidate>& ranking, double before, double best, double sum,
            const Filters& filters);

// The sum of the weights of all logits, which go to `out` if there is one.
double mass(const Ready& ready, double temperature, double* out);

// Whether the filters cut anything of a row of so many.
bool cuts(const Filters& filters, int64_t size);

// Where the filters cut a row's ranking.
Cut cut(const Ready& ready, const Filters& filters);

}  // namespace draftwalk
