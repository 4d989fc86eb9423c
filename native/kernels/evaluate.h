// numeric/functions.h on arrays, for tests.
#pragma once

#include "../numeric/functions.h"
#include "rows.h"

namespace draftwalk::DW_ISA {

static inline Lanes evaluate(Function function, Lanes x) {
    switch (function) {
        case Function::exp: return exp(x);
        case Function::exp_below: return exp_below(x);
        case Function::tanh: return tanh(x);
        case Function::silu: return silu(x);
        default: return gelu_tanh(x);
    }
}

static void evaluate(const void* pointer, int64_t first, int64_t last, Scratch&) {
    const auto& args = *static_cast<const EvaluateArgs*>(pointer);
    for (int64_t unit = first; unit < last; ++unit) {
        const int64_t start = 16 * unit, count = args.count - start < 16 ? args.count - start : 16;
        const Lanes x = load_part(args.x + start, count);
        store_part(args.out + start, evaluate(args.function, x), count);
    }
}

}  // namespace draftwalk::DW_ISA
