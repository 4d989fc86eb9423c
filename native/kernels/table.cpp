// The kernels of one instruction set; compiled once for each, with DW_ISA naming it.
#include "kernels.h"

#define DW_JOIN_(a, b) a##b
#define DW_JOIN(a, b) DW_JOIN_(a, b)
#define DW_TEXT_(a) #a
#define DW_TEXT(a) DW_TEXT_(a)
#include DW_TEXT(../simd/DW_ISA.h)

#include "attention.h"
#include "choose.h"
#include "convolve.h"
#include "evaluate.h"
#include "linear.h"
#include "norm.h"
#include "quantise.h"
#include "rotate.h"
#include "rows.h"
#include "selector.h"
#include "unpack.h"

namespace draftwalk {

extern const Kernels DW_JOIN(DW_ISA, _kernels);
const Kernels DW_JOIN(DW_ISA, _kernels) = {
    DW_TEXT(DW_ISA),
    DW_ISA::pack, DW_ISA::unpack, DW_ISA::embed,
    DW_ISA::quantise, DW_ISA::linears, DW_ISA::gated,
    DW_ISA::norm, DW_ISA::gather, DW_ISA::join,
    DW_ISA::rotate, DW_ISA::remember, DW_ISA::attend, DW_ISA::fold,
    DW_ISA::convolve, DW_ISA::selector, DW_ISA::top_k, DW_ISA::argmax,
    DW_ISA::evaluate,
};

}  // namespace draftwalk
