// How long tiles are: asked of the kernels' own formats.
#define DW_ISA scalar
#include "../simd/scalar.h"

#include "../kernels/formats.h"
#include "blocks.h"

namespace draftwalk::test {

namespace {

template <class F>
int64_t bytes_of(int64_t inputs) {
    return inputs / (GROUP * F::GROUPS) * F::BYTES;
}

}  // namespace

int64_t tile_bytes(Layout layout, int64_t inputs) {
    using namespace scalar;
    switch (layout) {
        case Layout::f32: return inputs * TILE * 4;
        case Layout::f16:
        case Layout::bf16: return inputs * TILE * 2;
        case Layout::q8_0: return bytes_of<Q8_0>(inputs);
        case Layout::q4_0: return bytes_of<Q4_0>(inputs);
        case Layout::q4_1: return bytes_of<Q4_1>(inputs);
        case Layout::q5_0: return bytes_of<Q5_0>(inputs);
        case Layout::q5_1: return bytes_of<Q5_1>(inputs);
        case Layout::q2_k: return bytes_of<Q2_K>(inputs);
        case Layout::q3_k: return bytes_of<Q3_K>(inputs);
        case Layout::q4_k: return bytes_of<Q4_K>(inputs);
        case Layout::q5_k: return bytes_of<Q5_K>(inputs);
        case Layout::q6_k: return bytes_of<Q6_K>(inputs);
        case Layout::iq4_nl: return bytes_of<IQ4_NL>(inputs);
        case Layout::iq4_xs: return bytes_of<IQ4_XS>(inputs);
        case Layout::mxfp4: return bytes_of<MXFP4>(inputs);
        default: return 0;
    }
}

}  // namespace draftwalk::test
