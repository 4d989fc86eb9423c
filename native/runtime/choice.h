// Choosing a token from a row of logits: the filters and the coupled race of draftwalk/verify, whose
// results these are, without looking twice at what cannot matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace draftwalk {

// As in draftwalk/settings.py; temperature 0 is greedy.
struct Filters {
    double temperature;
    int64_t top_k;  // 0 is off
    double top_p, min_p;
};

// Logits of a row, some of which biases and penalties have changed.
struct LogitRow {
    const float* logits;
    int64_t size;
    const int64_t* changed;  // ids, each once
    const double* changes;   // their logits now
    int64_t count;
};

// The greatest logit as the row came, and after the changes. A row whose peaks are not finite cannot
// be used; NaN if there is a NaN.
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

struct Walk {
    std::vector<int64_t> tokens;
    std::vector<double> confidence;
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

    // The same for a few candidates.
    Chosen choose_few(const std::vector<int64_t>& ids, const std::vector<double>& logits,
                      const Filters& filters, uint64_t start) const;
    Distribution distribution_of_few(const std::vector<int64_t>& ids,
                                     const std::vector<double>& logits,
                                     const Filters& filters) const;

    // DFlash2's path through the candidates [rows, k] by the scores [rows, k, k]. It ends before a row
    // whose scores cannot be used. `noise` is what the first position's key is mixed from.
    Walk walk(const int64_t* candidates, const float* scores, int64_t rows, int64_t k,
              const Filters& filters, uint64_t noise) const;

    // exp of numbers that are not positive.
    double exp(double x) const;

private:
    const Scan& scan_;
};

}  // namespace draftwalk
