// Compares the kernels of instruction sets with the scalar ones, bit for bit, on random shapes:
//     dw_tests [ROUNDS [INSTRUCTION SET [EMULATOR]]]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../runtime/dispatch.h"
#include "harness.h"

int main(int count, char** arguments) {
    using namespace draftwalk;
    const long rounds = count > 1 ? atol(arguments[1]) : 100;
    const char* wanted = count > 2 ? arguments[2] : nullptr;
    const bool bochs = count > 3 && !strcmp(arguments[3], "bochs");
    test::Memory::guarded = !bochs;  // it knows no protected memory
    bool good = true, any = false;
    for (const std::string& name : instruction_sets()) {
        if (wanted ? name != wanted : name == "scalar") continue;
        any = true;
        test::Suite suite(kernels_of("scalar"), kernels_of(name), 1);
        suite.ties_up = bochs;
        for (long round = 0; round < rounds; ++round) {
            test::test_rows(suite);
            test::test_matrices(suite);
            test::test_attention(suite);
            test::test_drafts(suite);
        }
        good = suite.report() && good;
    }
    if (!any) printf("no instruction set to compare\n");
    return good && any ? 0 : 1;
}
