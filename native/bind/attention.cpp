// Rotation, K/V writes, attention.
#include <algorithm>

#include "bind.h"
#include "grain.h"
#include "kernels/panels.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace draftwalk {

namespace {

// A norm per head (no weight: none) and the rope table.
HeadRotation rotation(Address weight, float eps, Address cos, Address sin, int64_t head_dim) {
    return {at<const float>(weight), eps, at<const float>(cos), at<const float>(sin), head_dim};
}

int64_t rotate(Program& p, Address x, Address out, int64_t heads, int64_t head_dim, Address weight,
               float eps, Address cos, Address sin, Address rows) {
    const RotateArgs args{at<const float>(x), rotation(weight, eps, cos, sin, head_dim), heads,
                          at<const RowTable>(rows), at<float>(out)};
    const int64_t grain = row_grain(args.rows->size, p.threads(), 4 * heads * head_dim);
    return p.add(&Kernels::rotate, args, args.rows->size, grain, "rotate");
}

int64_t remember(Program& p, Address k, Address v, Address weight, float eps, Address cos,
                 Address sin, Address pool, int64_t layer, Address table, Address rows) {
    const auto* pages = at<const PagePool>(pool);
    const RememberArgs args{at<const float>(k),       at<const float>(v),
                            rotation(weight, eps, cos, sin, pages->head_dim),
                            pages,                    layer,
                            at<const PageTable>(table), at<const RowTable>(rows)};
    const int64_t units = args.rows->size * pages->heads;
    // Neighbouring rows of a head share cache lines, so they stay together: a page's line of keys
    // has a number of each. To write them takes longer than numbers that follow each other.
    const int64_t grain = row_grain(units, p.threads(), 4 * pages->head_dim);
    return p.add(&Kernels::remember, args, units, grain, "remember");
}

// Tiles two by two at least, since a thread fetches the one that comes next; panels a few chunks
// for each thread.
int64_t attend_grain(const AttendArgs& args) {
    if (!by_tiles(args))
        return std::max<int64_t>(attend_units(&args) / (16 * args.threads), 1);
    const int64_t queries = std::min(panel_rows(args), args.rows->size) * queries_per_head(args);
    return std::max<int64_t>(4096 / (queries * args.pool->head_dim * 8), 2);
}

int64_t attend(Program& p, Address q, Address out, int64_t heads, Address pool, int64_t layer,
               Address table, Address rows, float scale, bool causal, int64_t window, float softcap,
               Address sinks) {
    const AttendArgs args{at<const float>(q),
                          heads,
                          at<const PagePool>(pool),
                          layer,
                          at<const PageTable>(table),
                          at<const RowTable>(rows),
                          scale,
                          causal,
                          window,
                          softcap,
                          at<const float>(sinks),
                          p.threads(),
                          p.workspace(),
                          at<float>(out),
                          {}};
    const int64_t call = p.add(&Kernels::attend, args, attend_units, attend_grain(args), "attend",
                               attend_workspace);
    p.add(&Kernels::fold, FoldArgs{p.args<AttendArgs>(call)}, fold_units, 1, "fold");
    return call;
}

}  // namespace

void bind_attention(nb::module_& m) {
    m.def("rotate", &rotate, "program"_a, "x"_a, "out"_a, "heads"_a, "head_dim"_a, "weight"_a,
          "eps"_a, "cos"_a, "sin"_a, "rows"_a);
    m.def("remember", &remember, "program"_a, "k"_a, "v"_a, "weight"_a, "eps"_a, "cos"_a, "sin"_a,
          "pool"_a, "layer"_a, "table"_a, "rows"_a);
    m.def("attend", &attend, "program"_a, "q"_a, "out"_a, "heads"_a, "pool"_a, "layer"_a, "table"_a,
          "rows"_a, "scale"_a, "causal"_a, "window"_a, "softcap"_a, "sinks"_a);
}

}  // namespace draftwalk
