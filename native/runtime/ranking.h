// A row of logits, its peaks, and the head of its ranking.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "choice.h"
#include "race.h"
#include "scans.h"

namespace draftwalk {

constexpr double LARGEST = 1e300;  // verify/distribution.py

// In the order of the ranking: the greatest logit first, of equals the lowest id.
struct Candidate {
    double logit;
    int64_t id;
    double weight;  // exp(log_p), p not normalised

    bool operator<(const Candidate& other) const {
        return logit > other.logit || (logit == other.logit && id < other.id);
    }
};

// Memory that a thread keeps from row to row.
struct Memory {
    std::vector<float> logits, peaks, ordered;
    std::vector<Candidate> head;
    std::vector<double> weights, changed;
};

Memory& memory();

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
int64_t greatest(const Ready& ready);

// The first `width` of the ranking that are not -infinity, to memory().head.
void rank(const Ready& ready, int64_t width);

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

}  // namespace draftwalk
