// Norm, gather, join, and the functions of numeric/functions.h for tests.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <numeric>
#include <string>
#include <vector>

#include "bind.h"
#include "grain.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace draftwalk {

namespace {

int64_t norm(Program& p, Address x, Address weight, Address residual, Address out, int64_t rows,
             int64_t width, float eps) {
    const NormArgs args{at<const float>(x), at<const float>(weight), at<const float>(residual),
                        at<float>(out),     {},                      rows,
                        width,              eps};
    return p.add(&Kernels::norm, args, rows, row_grain(rows, p.threads(), width), "norm");
}

int64_t gather(Program& p, Address x, Address index, Address out, int64_t rows, int64_t width) {
    const GatherArgs args{at<const float>(x), at<const int64_t>(index), at<float>(out), rows,
                          width};
    return p.add(&Kernels::gather, args, rows, row_grain(rows, p.threads(), width), "gather");
}

int64_t join(Program& p, const std::vector<Address>& parts, const std::vector<int64_t>& widths,
             int64_t rows, Address out) {
    if (parts.size() != widths.size() || parts.size() > static_cast<size_t>(JoinArgs::MOST))
        throw nb::value_error("too many parts, or as many widths were not given");
    JoinArgs args{};
    for (size_t i = 0; i < parts.size(); ++i) {
        args.parts[i] = at<const float>(parts[i]);
        args.widths[i] = widths[i];
    }
    const int64_t width = std::accumulate(widths.begin(), widths.end(), int64_t{0});
    args.count = static_cast<int64_t>(parts.size());
    args.rows = rows;
    args.out = at<float>(out);
    return p.add(&Kernels::join, args, rows, row_grain(rows, p.threads(), width), "join");
}

int64_t evaluate(Program& p, const std::string& function, Address x, Address out, int64_t count) {
    const char* const names[] = {"exp", "exp_below", "tanh", "silu", "gelu_tanh"};
    for (int32_t n = 0; n < static_cast<int32_t>(Function::count); ++n) {
        if (function != names[n]) continue;
        const EvaluateArgs args{static_cast<Function>(n), at<const float>(x), at<float>(out),
                                count};
        return p.add(&Kernels::evaluate, args, (count + 15) / 16, 4096, "evaluate");
    }
    throw nb::value_error("no such function");
}

}  // namespace

void bind_rows(nb::module_& m) {
    m.def("norm", &norm, "program"_a, "x"_a, "weight"_a, "residual"_a, "out"_a, "rows"_a, "width"_a,
          "eps"_a);
    m.def("gather", &gather, "program"_a, "x"_a, "index"_a, "out"_a, "rows"_a, "width"_a);
    m.def("join", &join, "program"_a, "parts"_a, "widths"_a, "rows"_a, "out"_a);
    m.def("evaluate", &evaluate, "program"_a, "function"_a, "x"_a, "out"_a, "count"_a);
}

}  // namespace draftwalk
