// The Python module draftwalk._native.
#include <nanobind/nanobind.h>

namespace draftwalk {

void bind_attention(nanobind::module_& m);
void bind_choice(nanobind::module_& m);
void bind_drafting(nanobind::module_& m);
void bind_linear(nanobind::module_& m);
void bind_rows(nanobind::module_& m);
void bind_runtime(nanobind::module_& m);

}  // namespace draftwalk

NB_MODULE(_native, m) {
    nanobind::set_leak_warnings(false);  // tensors may outlive the interpreter's modules
    m.doc() = "Kernels on the CPU, recorded passes, and the memory they work in.";
    draftwalk::bind_runtime(m);
    draftwalk::bind_linear(m);
    draftwalk::bind_rows(m);
    draftwalk::bind_attention(m);
    draftwalk::bind_drafting(m);
    draftwalk::bind_choice(m);
}
