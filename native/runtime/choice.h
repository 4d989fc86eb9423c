// Choosing a token from a row of logits: the filters and the coupled race of draftwalk/verify. The
// results are the same; what cannot matter is looked at once, or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace draftwalk {

// As in draftwalk/settings.py; temperature 0 is greedy.
struct Filters {
    double temperature;
    int64_t top_k;  // 0 is off
    double top_p, min_p;
};

// Of tokens that the recent text has.
struct Penalties {
    double repeat, frequency, presence;

    double of(double logit, double times) const {
        if (times == 0.0) return logit;
        const double scaled = logit > 0.0 ? logit / repeat : logit * repeat;
        return scaled - times * frequency - presence;
    }
};

// What changes some logits of a row: first a bias is added, then a token is penalised for each time
// that it occurs in the recent text.
struct Changes {
    std::vector<int64_t> ids;  // each once
    std::vector<double> biases, times;
    Penalties penalties;
};

struct LogitRow {
    const float* logits;
    int64_t size;
    const Changes& changes;
};

// The greatest logit as the row came, and after the changes; NaN if there is a NaN. A row whose
// peaks are not finite cannot be used.
struct Peaks {
    double raw, changed;
    bool usable() const;
};

struct Chosen {
    int64_t token;  // -1 if the row cannot be used
    Peaks peaks;
};

struct Candidate;

struct Distribution {
    std::vector<int64_t> ids;  // ascending
    std::vector<double> p;
    Peaks peaks;

    void take(std::vector<Candidate>& kept);  // puts them in order, and their weights' sum to 1
};

// Of a DFlash2 block: its rows' candidates [rows, k], and their scores [rows, k, k] after each candidate
// of the row before.
struct Lattice {
    const int64_t* candidates;
    const float* scores;
    int64_t rows, k;
};

// What the scores of a walk are changed by.
struct Text {
    std::vector<int64_t> recent;  // tokens that count, the last of the text at the end
    int64_t last_n;               // how many count, -1 for all
    std::unordered_map<int64_t, double> biases;
    Penalties penalties;
};

// What a walk draws from. Under the coupled rule that is the race's noise: `first` is what the first
// position's key is mixed from. Under the rejection rule it is one uniform for each row.
struct Draws {
    uint64_t first;
    std::vector<double> uniforms;
};

struct Walk {
    std::vector<int64_t> tokens;
    std::vector<double> confidence;
    std::vector<Distribution> q;  // under the rejection rule
};

struct Scan;

// The functions here on one kind of vectors.
class Chooser {
public:
    // "avx2" or "portable", which give the same bits.
    explicit Chooser(const std::string& vectors);
    static std::vector<std::string> kinds();

    // The winner of the race, or the greatest logit if the filters are greedy. `start` is where the
    // stream of the position's noise starts.
    Chosen choose(const LogitRow& row, const Filters& filters, uint64_t start) const;

    // What the filters leave of a row; the filters are not greedy.
    Distribution distribution(const LogitRow& row, const Filters& filters) const;

    // DFlash2's path. It ends before a row whose scores cannot be used.
    Walk walk(const Lattice& lattice, const Filters& filters, Text text, const Draws& draws) const;

    // exp of numbers that are not positive.
    double exp(double x) const;

private:
    const Scan& scan_;
};

}  // namespace draftwalk
