// Runtime, programs, arenas, row tables and pages as Python sees them.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "runtime/arena.h"
#include "runtime/dispatch.h"
#include "runtime/pages.h"
#include "runtime/rows.h"

namespace nb = nanobind;

namespace draftwalk {

namespace {

using Numbers = nb::ndarray<nb::pytorch, int64_t, nb::device::cpu>;

std::vector<std::pair<std::string, double>> replay_timed(Program& program) {
    std::vector<std::pair<std::string, double>> times;
    for (const auto& [label, seconds] : program.replay_timed()) times.emplace_back(label, seconds);
    return times;
}

void bind_programs(nb::module_& m) {
    nb::class_<Runtime>(m, "Runtime")
        .def("__init__", [](Runtime* self, int threads, const std::string& instruction_set) {
            new (self) Runtime(threads, kernels_of(instruction_set));
        })
        .def_prop_ro("threads", &Runtime::threads)
        .def_prop_ro("instruction_set", [](const Runtime& self) { return self.kernels.name; });
    nb::class_<Program>(m, "Program")
        .def(nb::init<std::shared_ptr<Runtime>>())
        .def("__len__", &Program::size)
        .def("clear", &Program::clear)
        .def("replay", &Program::replay, nb::call_guard<nb::gil_scoped_release>())
        .def("replay_timed", &replay_timed)
        .def("only_quantise", &Program::only_quantise)
        .def("quantise", [](Program& self, int64_t call, Address into, int64_t rows,
                            int64_t width) {
            self.quantise(call, quantised_at(into, rows, width));
        });
}

void bind_memory(nb::module_& m) {
    nb::class_<Arena>(m, "Arena")
        .def(nb::init<int64_t>())
        .def("allocate", [](Arena& self, int64_t size) { return address_of(self.allocate(size)); })
        .def("release", [](Arena& self, Address place) { self.release(at<unsigned char>(place)); })
        .def("reset", &Arena::reset)
        .def_prop_ro("start", [](const Arena& self) { return address_of(self.start()); })
        .def_prop_ro("size", &Arena::size)
        .def_prop_ro("in_use", &Arena::in_use)
        .def_prop_ro("most", &Arena::most);
    m.def("tensor", [](Address address, size_t size, nb::object owner) {
        return nb::ndarray<nb::pytorch, float, nb::device::cpu>(at<float>(address), {size}, owner);
    });
    m.def("copy", [](Address to, Address from, size_t size) {
        std::memcpy(at<void>(to), at<const void>(from), size);
    });
    nb::class_<Pages>(m, "Pages")
        .def("__init__", [](Pages* self, const std::string& type, int64_t layers, int64_t heads,
                            int64_t head_dim) {
            if (type != "f16" && type != "q8") throw nb::value_error("K/V are f16 or q8");
            new (self) Pages(type == "f16" ? KvType::half : KvType::bytes, layers, heads,
                             head_dim);
        })
        .def_prop_ro("address", [](const Pages& self) { return address_of(self.view()); })
        .def_prop_ro("count", &Pages::count)
        .def_prop_ro("bytes", &Pages::bytes)
        .def("grow", &Pages::grow)
        .def("copy", &Pages::copy)
        .def_prop_ro("page_bytes", [](const Pages& self) { return self.view()->page_bytes; })
        .def("read", [](const Pages& self, const std::vector<int64_t>& pages, Address into) {
            self.read(pages, at<unsigned char>(into));
        })
        .def("write", [](Pages& self, const std::vector<int64_t>& pages, Address saved) {
            self.write(pages, at<const unsigned char>(saved));
        });
}

void bind_rows(nb::module_& m) {
    nb::class_<Rows>(m, "Rows")
        .def(nb::init<int64_t, int64_t, int64_t, int64_t>())
        .def_prop_ro("address", [](const Rows& self) { return address_of(self.table()); })
        .def("fill", [](Rows& self, Address numbers) {
            std::memcpy(self.numbers().data(), at<const void>(numbers),
                        self.numbers().size() * sizeof(int64_t));
        })
        .def("fill", [](Rows& self, const std::vector<int64_t>& numbers) {
            if (numbers.size() != self.numbers().size()) throw nb::value_error("other rows");
            std::copy(numbers.begin(), numbers.end(), self.numbers().begin());
        })
        .def("set_embeddings", [](Rows& self, Address place) {
            self.set_embeddings(at<const float>(place));
        })
        .def("numbers", [](Rows& self, nb::object owner) {
            return Numbers(self.numbers().data(), {self.numbers().size()}, owner);
        });
    nb::class_<PageTable>(m, "PageTable")
        .def("__init__", [](PageTable* self) { new (self) PageTable{nullptr, 0, 0}; })
        .def_prop_ro("address", [](const PageTable& self) { return address_of(&self); })
        .def("set", [](PageTable& self, Address values, int64_t slots, int64_t pages) {
            self = {at<const int32_t>(values), slots, pages};
        });
}

}  // namespace

void bind_runtime(nb::module_& m) {
    m.def("instruction_sets", &instruction_sets);
    bind_programs(m);
    bind_memory(m);
    bind_rows(m);
}

}  // namespace draftwalk
