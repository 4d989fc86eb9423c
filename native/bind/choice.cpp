// Choosing tokens: filters, the coupled race, and DFlash2's walk.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "numeric/precise.h"
#include "runtime/choice.h"

namespace nb = nanobind;

namespace draftwalk {

namespace {

using FilterNumbers = std::tuple<double, int64_t, double, double>;
using Changes = std::tuple<Address, Address, int64_t>;  // ids, their logits, how many

Filters filters_of(const FilterNumbers& numbers) {
    const auto& [temperature, top_k, top_p, min_p] = numbers;
    return {temperature, top_k, top_p, min_p};
}

LogitRow row_of(Address logits, int64_t size, const Changes& changes) {
    const auto& [ids, values, count] = changes;
    return {at<const float>(logits), size, at<const int64_t>(ids), at<const double>(values), count};
}

// The numbers as an array of numpy that owns them.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array_of(std::vector<T>&& numbers) {
    auto* kept = new std::vector<T>(std::move(numbers));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
}

auto as_tuple(const Chosen& found) {
    return std::make_tuple(found.token, found.peaks.raw, found.peaks.changed);
}

auto as_tuple(Distribution&& found) {
    return std::make_tuple(array_of(std::move(found.ids)), array_of(std::move(found.p)),
                           found.peaks.raw, found.peaks.changed);
}

auto choose(const Chooser& self, Address logits, int64_t size, const Changes& changes,
            const FilterNumbers& filters, uint64_t start) {
    Chosen found;
    {
        nb::gil_scoped_release others_run;
        found = self.choose(row_of(logits, size, changes), filters_of(filters), start);
    }
    return as_tuple(found);
}

auto distribution(const Chooser& self, Address logits, int64_t size, const Changes& changes,
                  const FilterNumbers& filters) {
    Distribution found;
    {
        nb::gil_scoped_release others_run;
        found = self.distribution(row_of(logits, size, changes), filters_of(filters));
    }
    return as_tuple(std::move(found));
}

auto choose_few(const Chooser& self, const std::vector<int64_t>& ids,
                const std::vector<double>& logits, const FilterNumbers& filters, uint64_t start) {
    if (ids.size() != logits.size() || ids.empty()) throw nb::value_error("a logit for each id");
    return as_tuple(self.choose_few(ids, logits, filters_of(filters), start));
}

auto distribution_of_few(const Chooser& self, const std::vector<int64_t>& ids,
                         const std::vector<double>& logits, const FilterNumbers& filters) {
    if (ids.size() != logits.size() || ids.empty()) throw nb::value_error("a logit for each id");
    return as_tuple(self.distribution_of_few(ids, logits, filters_of(filters)));
}

auto walk(const Chooser& self, Address candidates, Address scores, int64_t rows, int64_t k,
          const FilterNumbers& filters, uint64_t noise) {
    Walk path = self.walk(at<const int64_t>(candidates), at<const float>(scores), rows, k,
                          filters_of(filters), noise);
    return std::make_pair(std::move(path.tokens), std::move(path.confidence));
}

}  // namespace

void bind_choice(nb::module_& m) {
    using namespace nanobind::literals;
    nb::class_<Chooser>(m, "Chooser")
        .def(nb::init<const std::string&>(), "vectors"_a)
        .def_static("kinds", &Chooser::kinds)
        .def("choose", &choose, "logits"_a, "size"_a, "changes"_a, "filters"_a, "start"_a)
        .def("distribution", &distribution, "logits"_a, "size"_a, "changes"_a, "filters"_a)
        .def("choose_few", &choose_few, "ids"_a, "logits"_a, "filters"_a, "start"_a)
        .def("distribution_of_few", &distribution_of_few, "ids"_a, "logits"_a, "filters"_a)
        .def("walk", &walk, "candidates"_a, "scores"_a, "rows"_a, "k"_a, "filters"_a,
             "noise"_a)
        .def("exp", &Chooser::exp, "x"_a);
    m.def("log", &log_of, "x"_a);
}

}  // namespace draftwalk
