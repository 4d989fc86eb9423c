#include "ranking.h"

#include <algorithm>
#include <functional>

namespace draftwalk {

Memory& memory() {
    static thread_local Memory one;
    return one;
}

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

}  // namespace draftwalk
