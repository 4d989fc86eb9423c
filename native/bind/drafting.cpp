// What drafters need besides: convolution, selector, and the greatest logits.
#include <nanobind/stl/shared_ptr.h>

#include <memory>

#include "bind.h"
#include "grain.h"
#include "runtime/matrix.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace draftwalk {

namespace {

int64_t convolve(Program& p, Address x, Address dynamic, Address base, int64_t side, int64_t taps,
                 int64_t groups, int64_t width, Address residual, Address out, Address rows) {
    const ConvolveArgs args{at<const float>(x),
                            at<const float>(dynamic),
                            at<const float>(base),
                            side,
                            taps,
                            groups,
                            width,
                            at<const RowTable>(rows),
                            at<const float>(residual),
                            at<float>(out),
                            {}};
    const int64_t grain = row_grain(args.rows->size, p.threads(), width);
    return p.add(&Kernels::convolve, args, args.rows->size, grain, "convolve");
}

int64_t selector(Program& p, Address unary, Address candidates, Address gate,
                 const std::shared_ptr<PackedMatrix>& before,
                 const std::shared_ptr<PackedMatrix>& after, int64_t drafted, int64_t k,
                 Address rows, Address out) {
    const SelectorArgs args{at<const float>(unary),
                            at<const int64_t>(candidates),
                            at<const float>(gate),
                            before->view(),
                            after->view(),
                            k,
                            before->view().inputs,
                            at<const RowTable>(rows),
                            at<float>(out)};
    return p.add(&Kernels::selector, args, drafted, 1, "selector");
}

int64_t top_k(Program& p, Address logits, int64_t rows, int64_t vocabulary, int64_t k,
              Address values, Address ids) {
    if (k > vocabulary) throw nb::value_error("more than there are");
    const TopKArgs args{at<const float>(logits), rows, vocabulary, k, at<float>(values),
                        at<int64_t>(ids)};
    return p.add(&Kernels::top_k, args, rows, 1, "top_k");
}

int64_t argmax(Program& p, Address logits, int64_t rows, int64_t vocabulary, Address values,
               Address ids) {
    const ArgmaxArgs args{at<const float>(logits), rows, vocabulary, at<float>(values),
                          at<int64_t>(ids)};
    return p.add(&Kernels::argmax, args, rows, 1, "argmax");
}

}  // namespace

void bind_drafting(nb::module_& m) {
    m.def("convolve", &convolve, "program"_a, "x"_a, "dynamic"_a, "base"_a, "side"_a, "taps"_a,
          "groups"_a, "width"_a, "residual"_a, "out"_a, "rows"_a);
    m.def("selector", &selector, "program"_a, "unary"_a, "candidates"_a, "gate"_a, "before"_a,
          "after"_a, "drafted"_a, "k"_a, "rows"_a, "out"_a);
    m.def("top_k", &top_k, "program"_a, "logits"_a, "rows"_a, "vocabulary"_a, "k"_a, "values"_a,
          "ids"_a);
    m.def("argmax", &argmax, "program"_a, "logits"_a, "rows"_a, "vocabulary"_a, "values"_a,
          "ids"_a);
}

}  // namespace draftwalk
