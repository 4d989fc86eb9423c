// Choosing tokens: filters, the coupled race, and DFlash2's walk.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bind.h"
#include "numeric/precise.h"
#include "runtime/choice.h"

namespace nb = nanobind;

namespace draftwalk {

namespace {

using FilterNumbers = std::tuple<double, int64_t, double, double>;
using PenaltyNumbers = std::tuple<double, double, double>;
using ChangeLists = std::tuple<std::vector<int64_t>, std::vector<double>, std::vector<double>,
                               PenaltyNumbers>;  // ids, biases, times
using TextParts = std::tuple<std::vector<int64_t>, int64_t, std::unordered_map<int64_t, double>,
                             PenaltyNumbers>;  // recent tokens, how many count, biases

Filters filters_of(const FilterNumbers& numbers) {
    const auto& [temperature, top_k, top_p, min_p] = numbers;
    return {temperature, top_k, top_p, min_p};
}

Penalties penalties_of(const PenaltyNumbers& numbers) {
    const auto& [repeat, frequency, presence] = numbers;
    return {repeat, frequency, presence};
}

Changes changes_of(ChangeLists& lists, int64_t size) {
    auto& [ids, biases, times, penalties] = lists;
    if (biases.size() != ids.size() || times.size() != ids.size()) {
        throw nb::value_error("a bias and a number of times for each id");
    }
    for (const int64_t id : ids) {
        if (id < 0 || id >= size) throw nb::value_error("no such token");
    }
    return {std::move(ids), std::move(biases), std::move(times), penalties_of(penalties)};
}

// The numbers as an array of numpy that owns them.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array_of(std::vector<T>&& numbers) {
    auto* kept = new std::vector<T>(std::move(numbers));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
}

auto arrays_of(Distribution&& found) {
    return std::make_pair(array_of(std::move(found.ids)), array_of(std::move(found.p)));
}

auto choose(const Chooser& self, Address logits, int64_t size, ChangeLists lists,
            const FilterNumbers& filters, uint64_t start) {
    const Changes changes = changes_of(lists, size);
    Chosen found;
    {
        nb::gil_scoped_release others_run;
        found = self.choose({at<const float>(logits), size, changes}, filters_of(filters), start);
    }
    return std::make_tuple(found.token, found.peaks.raw, found.peaks.changed);
}

auto distribution(const Chooser& self, Address logits, int64_t size, ChangeLists lists,
                  const FilterNumbers& filters) {
    const Changes changes = changes_of(lists, size);
    Distribution found;
    {
        nb::gil_scoped_release others_run;
        found = self.distribution({at<const float>(logits), size, changes}, filters_of(filters));
    }
    const Peaks peaks = found.peaks;
    return std::make_tuple(arrays_of(std::move(found)), peaks.raw, peaks.changed);
}

auto walk(const Chooser& self, Address candidates, Address scores, int64_t rows, int64_t k,
          const FilterNumbers& filters, TextParts parts, uint64_t first,
          std::vector<double> uniforms) {
    auto& [recent, last_n, biases, penalties] = parts;
    if (!uniforms.empty() && static_cast<int64_t>(uniforms.size()) < rows) {
        throw nb::value_error("a uniform for each row");
    }
    Walk path = self.walk({at<const int64_t>(candidates), at<const float>(scores), rows, k},
                          filters_of(filters),
                          {std::move(recent), last_n, std::move(biases), penalties_of(penalties)},
                          {first, std::move(uniforms)});
    std::vector<decltype(arrays_of(Distribution()))> q;
    for (Distribution& one : path.q) q.push_back(arrays_of(std::move(one)));
    return std::make_tuple(std::move(path.tokens), std::move(path.confidence), std::move(q));
}

}  // namespace

void bind_choice(nb::module_& m) {
    using namespace nanobind::literals;
    nb::class_<Chooser>(m, "Chooser")
        .def(nb::init<const std::string&>(), "vectors"_a)
        .def_static("kinds", &Chooser::kinds)
        .def("choose", &choose, "logits"_a, "size"_a, "changes"_a, "filters"_a, "start"_a)
        .def("distribution", &distribution, "logits"_a, "size"_a, "changes"_a, "filters"_a)
        .def("walk", &walk, "candidates"_a, "scores"_a, "rows"_a, "k"_a, "filters"_a, "text"_a,
             "first"_a, "uniforms"_a)
        .def("exp", &Chooser::exp, "x"_a);
    m.def("log", &log_of, "x"_a);
}

}  // namespace draftwalk
