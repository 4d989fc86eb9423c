// The whole firmware of the emulated machine: from the reset vector to 64-bit mode with the AVX-512 state
// enabled, memory mapped one to one, then to the loader. The last 64 KiB of the 2 MiB image that bochs.sh puts together:
// 0xffe00000 the program, 0xfffd0000 its arguments, 0xfffe0000 the loader, 0xffff0000 this (seen at 0xf0000, too).
    .intel_syntax noprefix
    .set HERE, 0xf0000        // where the image is seen below 1 MiB
    .set TABLES, 0x1000       // page tables: one PML4, one PDPT, four page directories
    .set LOADER_IMAGE, 0xfffe0000
    .set LOADER, 0x100000
    .set STACK, 0x90000

    .text
    .globl reset
image:
    .code16
start16:
    cli
    data32 lgdt cs:[table - image]
    mov eax, cr0
    or eax, 1
    mov cr0, eax
    data32 ljmp 0x08:(start32 - image + HERE)

    .code32
start32:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov edi, TABLES
    xor eax, eax
    mov ecx, 6 * 1024
    rep stosd
    mov dword ptr [TABLES], TABLES + 0x1000 + 3
    mov edi, TABLES + 0x1000
    mov eax, TABLES + 0x2000 + 3
    mov ecx, 4
directories:
    mov [edi], eax
    add edi, 8
    add eax, 0x1000
    loop directories
    mov edi, TABLES + 0x2000
    mov eax, 0x83             // present, writable, 2 MiB
    mov ecx, 2048
pages:
    mov [edi], eax
    add edi, 8
    add eax, 0x200000
    loop pages
    mov esi, LOADER_IMAGE
    mov edi, LOADER
    mov ecx, 0x10000 / 4
    rep movsd
    mov eax, 0x50620          // PAE, FXSR, SIMD exceptions, FSGSBASE, XSAVE
    mov cr4, eax
    mov eax, TABLES
    mov cr3, eax
    mov ecx, 0xc0000080       // EFER: system calls, long mode
    mov eax, 0x101
    xor edx, edx
    wrmsr
    mov eax, 0x80000023       // paging, native FPU errors, monitor, protection; no emulation
    mov cr0, eax
    xor ecx, ecx              // XCR0: x87, SSE, AVX, the three AVX-512 parts
    mov eax, 0xe7
    xor edx, edx
    xsetbv
    ljmp 0x18:(start64 - image + HERE)

    .code64
start64:
    mov esp, STACK
    mov eax, LOADER
    jmp rax

    .balign 8
descriptors:
    .quad 0
    .quad 0x00cf9a000000ffff  // 0x08: code, 32 bit
    .quad 0x00cf92000000ffff  // 0x10: data
    .quad 0x00af9a000000ffff  // 0x18: code, 64 bit
table:
    .word table - descriptors - 1
    .long descriptors - image + HERE

    .org 0xfff0
    .code16
reset:
    jmp start16
    .org 0x10000
