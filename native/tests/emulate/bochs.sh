#!/bin/sh
# Runs a statically linked x86-64 Linux program on an emulated processor with AVX-512 (F, BW, DQ, VL, VNNI):
#     native/tests/emulate/bochs.sh PROGRAM [ARGUMENT…]
# Its output and exit code are passed on; a trap (an instruction that the processor does not have: 6) gives 128 + its
# number. One thread, 1 GiB of memory, no files. Needs Debian's packages bochs and bochs-term, and g++.
# EMULATED_CPU names the processor (default tigerlake; `bochs --help cpu` lists them; corei7_skylake_x has no VNNI,
# corei7_haswell_4770 no AVX-512).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
g++ -c -o "$work/reset.o" "$here/reset.S"
ld -Ttext=0 -e 0 --oformat binary -o "$work/reset.bin" "$work/reset.o"
g++ -std=c++17 -Os -ffreestanding -fno-exceptions -fno-rtti -fno-pic -fno-stack-protector -fcf-protection=none \
    -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -mno-red-zone -mgeneral-regs-only \
    -Wall -Wextra -c -o "$work/loader.o" "$here/loader.cpp"
printf 'SECTIONS { . = 0x100000; .all : { *(.start) *(.text*) *(.rodata*) *(.data*) *(.bss*) *(COMMON) } }' > "$work/loader.ld"
ld -T "$work/loader.ld" -e 0x100000 --oformat binary -o "$work/loader.bin" "$work/loader.o"
strip -o "$work/program" "$1"
[ "$(wc -c < "$work/program")" -le 1900544 ] || { echo "$1 is larger than 1.8 MiB" >&2; exit 125; }
for argument in "$@"; do printf '%s\0' "$argument"; done > "$work/arguments"
place() { dd if="$1" of="$work/image" bs=65536 seek="$2" conv=notrunc status=none; }
truncate -s 2M "$work/image"
place "$work/program" 0
place "$work/arguments" 29
place "$work/loader.bin" 30
place "$work/reset.bin" 31
cat > "$work/bochsrc" <<END
cpu: model=${EMULATED_CPU:-tigerlake}, ips=100000000, reset_on_triple_fault=0
memory: guest=1024, host=1024
romimage: file=$work/image
parport1: enabled=1, file=$work/output
parport2: enabled=1, file=$work/status
com1: enabled=0
clock: sync=none
display_library: term
log: $work/log
panic: action=fatal
error: action=ignore
info: action=ignore
END
echo continue > "$work/commands"
(cd "$work" && TERM=linux bochs -q -f bochsrc -rc commands > screen 2>&1 < /dev/null) || true
if [ ! -s "$work/status" ]; then
    cat "$work/output" 2>/dev/null || true
    tail -n 60 "$work/log" >&2
    tail -n 5 "$work/screen" >&2
    exit 126
fi
cat "$work/output"
exit "$(cat "$work/status")"
