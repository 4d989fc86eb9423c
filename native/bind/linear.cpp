// Matrices in their packed layouts, and products with them.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bind.h"
#include "runtime/matrix.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace draftwalk {

namespace {

using Part = std::tuple<std::shared_ptr<PackedMatrix>, Address, Address, Address, float, float>;

// Units of products are handed out so that every thread takes several turns, and no turn is tiny.
int64_t product_grain(int64_t units, int64_t threads) {
    return std::clamp<int64_t>(units / (threads * 16), 1, 16);
}

constexpr int64_t FETCHED = 4096;  // bytes of a tile that are asked for ahead

void fetch_tile(const Matrix& m, int64_t tile) {
    const unsigned char* from = m.data + tile * m.tile_bytes;
    for (int64_t at = 0; at < FETCHED; at += 64) __builtin_prefetch(from + at, 0, 2);
}

void fetch_linears(const void* pointer, int64_t unit) {
    const auto& args = *static_cast<const LinearsArgs*>(pointer);
    for (int64_t i = 0; i < args.count; ++i) {
        const int64_t tiles = (args.parts[i].matrix.outputs + TILE - 1) / TILE;
        if (unit < tiles) return fetch_tile(args.parts[i].matrix, unit);
        unit -= tiles;
    }
}

void fetch_gated(const void* pointer, int64_t unit) {
    fetch_tile(static_cast<const GatedArgs*>(pointer)->gate.matrix, unit * (GROUP / TILE));
}

int64_t tiles_of(const Matrix& m) { return (m.outputs + TILE - 1) / TILE; }

LinearArgs linear_args(const PackedMatrix& matrix, Address x, Address companion, Address bias,
                       int64_t rows) {
    LinearArgs args{};
    args.matrix = matrix.view();
    if (args.matrix.as_stored) throw nb::value_error("rows of this matrix can only be looked up");
    args.x = at<const float>(x);
    args.quantised = quantised_at(companion, rows, args.matrix.inputs);
    args.bias = at<const float>(bias);
    args.rows = rows;
    args.multiplier = 1.0f;
    return args;
}

int64_t linears(Program& p, const std::vector<Part>& parts, Address x, Address companion,
                int64_t rows) {
    if (parts.empty() || parts.size() > static_cast<size_t>(LinearsArgs::MOST))
        throw nb::value_error("too many products for one call");
    LinearsArgs args{};
    int64_t tiles = 0;
    for (const auto& [matrix, bias, residual, out, multiplier, softcap] : parts) {
        LinearArgs& part = args.parts[args.count++];
        part = linear_args(*matrix, x, companion, bias, rows);
        part.residual = at<const float>(residual);
        part.out = at<float>(out);
        part.multiplier = multiplier;
        part.softcap = softcap;
        tiles += tiles_of(part.matrix);
    }
    const int64_t grain = product_grain(tiles, p.threads());
    const int64_t call = p.add(&Kernels::linears, args, tiles, grain, "linear");
    p.fetch_ahead(call, fetch_linears);
    return call;
}

int64_t gated(Program& p, const std::shared_ptr<PackedMatrix>& gate, Address gate_bias,
              const std::shared_ptr<PackedMatrix>& up, Address up_bias, Address x,
              Address companion, int64_t rows, const std::string& activation, Address out) {
    GatedArgs args{};
    args.gate = linear_args(*gate, x, companion, gate_bias, rows);
    args.up = linear_args(*up, x, companion, up_bias, rows);
    if (activation != "silu" && activation != "gelu_tanh") throw nb::value_error("no such activation");
    args.activation = activation == "silu" ? Activation::silu : Activation::gelu_tanh;
    args.out = at<float>(out);
    const int64_t units = (args.gate.matrix.outputs + GROUP - 1) / GROUP;
    const int64_t grain = product_grain(units, p.threads());
    const int64_t call = p.add(&Kernels::gated, args, units, grain, "gated");
    p.fetch_ahead(call, fetch_gated);
    return call;
}

int64_t quantise(Program& p, Address x, int64_t rows, int64_t width, Address companion) {
    const QuantiseArgs args{at<const float>(x), rows, width, quantised_at(companion, rows, width)};
    return p.add(&Kernels::quantise, args, rows, 1, "quantise");
}

int64_t embed(Program& p, const std::shared_ptr<PackedMatrix>& table, Address rows, float scale,
              Address out) {
    const EmbedArgs args{table->view(), at<const RowTable>(rows), scale, at<float>(out)};
    return p.add(&Kernels::embed, args, units_are_rows<EmbedArgs>, 1, "embed");
}

int64_t unpack(Program& p, const std::shared_ptr<PackedMatrix>& matrix, Address index,
               int64_t rows, Address out) {
    const UnpackArgs args{matrix->view(), at<const int64_t>(index), rows, at<float>(out)};
    return p.add(&Kernels::unpack, args, rows, 16, "unpack");
}

}  // namespace

void bind_linear(nb::module_& m) {
    nb::class_<PackedMatrix>(m, "Matrix")
        .def_prop_ro("outputs", [](const PackedMatrix& x) { return x.view().outputs; })
        .def_prop_ro("inputs", [](const PackedMatrix& x) { return x.view().inputs; })
        .def_prop_ro("layout", [](const PackedMatrix& x) { return layout_name(x.view().layout); })
        .def_prop_ro("as_stored", [](const PackedMatrix& x) { return x.view().as_stored; })
        .def_prop_ro("bytes", &PackedMatrix::bytes);
    m.def("pack", &PackedMatrix::pack, "runtime"_a, "layout"_a, "source"_a, "outputs"_a, "inputs"_a,
          nb::call_guard<nb::gil_scoped_release>());
    m.def("as_stored", &PackedMatrix::stored, "layout"_a, "source"_a, "outputs"_a, "inputs"_a);
    m.def("layouts", [] {
        std::vector<std::string> names;
        for (int32_t n = 0; n < static_cast<int32_t>(Layout::count); ++n)
            names.emplace_back(layout_name(static_cast<Layout>(n)));
        return names;
    });
    m.def("packed_bytes", &packed_bytes, "layout"_a, "outputs"_a, "inputs"_a);
    m.def("quantised_bytes", &quantised_bytes, "rows"_a, "width"_a);
    m.def("linears", &linears, "program"_a, "parts"_a, "x"_a, "companion"_a, "rows"_a);
    m.def("gated", &gated, "program"_a, "gate"_a, "gate_bias"_a, "up"_a, "up_bias"_a, "x"_a,
          "companion"_a, "rows"_a, "activation"_a, "out"_a);
    m.def("quantise", &quantise, "program"_a, "x"_a, "rows"_a, "width"_a, "companion"_a);
    m.def("embed", &embed, "program"_a, "matrix"_a, "rows"_a, "scale"_a, "out"_a);
    m.def("unpack", &unpack, "program"_a, "matrix"_a, "index"_a, "rows"_a, "out"_a);
}

}  // namespace draftwalk
