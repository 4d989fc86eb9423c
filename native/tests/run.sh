#!/bin/sh
# Builds and runs the kernels' own tests for one instruction set, against the scalar one:
#     native/tests/run.sh avx2|avx512|neon [ROUNDS]
# First the primitives of native/simd, then the kernels. ROUNDS is how many random shapes and inputs to try. avx512 and
# neon run emulated where this machine has not got them: emulate/bochs.sh (Debian's packages bochs and bochs-term);
# qemu-aarch64 (qemu-user, g++-aarch64-linux-gnu and libc6-dev-arm64-cross). CXXFLAGS adds flags, for example
# -fsanitize=address,undefined (not emulated).
set -eu
isa=$1
rounds=${2:-100}
native=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=g++ emulator=''
case $isa in
    avx2) own='-mavx2 -mfma -mf16c' ;;
    avx512)
        own='-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c'
        grep -q avx512_vnni /proc/cpuinfo || emulator=$native/tests/emulate/bochs.sh ;;
    neon)
        own='-march=armv8.2-a+dotprod'
        [ "$(uname -m)" = aarch64 ] || { compiler=aarch64-linux-gnu-g++; emulator=qemu-aarch64; } ;;
    *) echo "no such instruction set: $isa" >&2; exit 2 ;;
esac
link=''
[ -z "$emulator" ] || link='-static -no-pie'
upper=$(echo "$isa" | tr a-z A-Z)
compile() { $compiler -std=c++17 -O2 -Wall -Wextra ${CXXFLAGS:-} "$@"; }
exact='-ffp-contract=off -fno-math-errno'
cd "$work"

compile $exact -DDW_ISA=scalar -c "$native/tests/simd/cases.cpp" -o scalar_cases.o
compile $exact $own -DDW_ISA="$isa" -c "$native/tests/simd/cases.cpp" -o cases.o
compile $link -DDW_ISA="$isa" "$native/tests/simd/test.cpp" scalar_cases.o cases.o -o primitives
$emulator ./primitives "$rounds" ${emulator:+$(basename "$emulator" .sh)}

compile $exact -DDW_ISA=scalar -DDW_ISA_SCALAR=1 -c "$native/kernels/table.cpp" -o scalar_table.o &
compile $exact $own -DDW_ISA="$isa" -DDW_ISA_"$upper"=1 -c "$native/kernels/table.cpp" -o table.o
wait $!
compile $exact $link -DDW_WITH_"$upper" "$native"/tests/*.cpp "$native/runtime/dispatch.cpp" \
    "$native/runtime/scratch.cpp" scalar_table.o table.o -o kernels
$emulator ./kernels "$rounds" "$isa" ${emulator:+$(basename "$emulator" .sh)}
