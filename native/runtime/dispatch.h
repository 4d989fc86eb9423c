// Instruction sets that are compiled in, and those of them this processor has.
#pragma once

#include <string>
#include <vector>

#include "../kernels/kernels.h"

namespace draftwalk {

// Names of those that can run here, the best first. The last one is always "scalar".
std::vector<std::string> instruction_sets();

// Throws std::invalid_argument for a name that cannot run here.
const Kernels& kernels_of(const std::string& name);

}  // namespace draftwalk
