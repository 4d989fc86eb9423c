// Runs one statically linked Linux program on the bare emulated machine, in ring 0, with the few
// system calls that the C library needs. Written to be small and quick to start: no interrupts, one
// thread, files are not there. What the program writes goes to the first parallel port, its exit
// code to the second one.
#include <asm/errno.h>
#include <asm/unistd_64.h>

#include <cstddef>
#include <cstdint>

namespace {

constexpr uint64_t PROGRAM = 0xffe00000;    // the ELF file
constexpr uint64_t ARGUMENTS = 0xfffd0000;  // strings, each closed by a 0, an empty one last
constexpr uint64_t STACK_TOP = 0x10000000;
constexpr uint64_t MAPPINGS = 0x10000000;  // anonymous mappings are handed out upwards from here
constexpr uint64_t MEMORY_END = 0x3f000000;

struct Header {
    uint8_t ident[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, segments, sections;
    uint32_t flags;
    uint16_t size, segment_size, segment_count, section_size, section_count, names;
};
struct Segment {
    uint32_t type, flags;
    uint64_t offset, address, physical, file_size, memory_size, align;
};
struct Gate {
    uint16_t low, selector;
    uint8_t stack, type;
    uint16_t middle;
    uint32_t high, zero;
};
struct __attribute__((packed)) Pointer {
    uint16_t limit;
    uint64_t base;
};
struct Vector {
    const void* base;
    uint64_t size;
};

uint64_t break_start, break_now, mapped = MAPPINGS;
Gate gates[32];

void out(uint16_t port, uint8_t value) { asm volatile("outb %0, %1" : : "a"(value), "Nd"(port)); }

void write_msr(uint32_t which, uint64_t value) {
    asm volatile("wrmsr" : : "c"(which), "a"(uint32_t(value)), "d"(uint32_t(value >> 32)));
}

void put(uint16_t port, char c) {
    out(port, uint8_t(c));
    out(port + 2, 0x0d);  // strobe: the byte is taken when it falls
    out(port + 2, 0x0c);
}

void print(const char* text) {
    while (*text) put(0x378, *text++);
}

void print_number(uint64_t value, unsigned base, uint16_t port) {
    char digits[24];
    int n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    while (n) put(port, digits[--n]);
}

[[noreturn]] void finish(int code) {
    print_number(uint64_t(code & 255), 10, 0x278);
    put(0x278, '\n');
    for (const char* c = "Shutdown"; *c; ++c) out(0x8900, uint8_t(*c));
    for (;;) asm volatile("cli; hlt");
}

void copy(void* to, const void* from, uint64_t n) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

void clear(void* to, uint64_t n) {
    asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(0) : "memory");
}

int64_t write(uint64_t file, const void* data, uint64_t n) {
    if (file != 1 && file != 2) return -EBADF;
    for (uint64_t i = 0; i < n; ++i) put(0x378, static_cast<const char*>(data)[i]);
    return int64_t(n);
}

int64_t write_vectors(uint64_t file, const Vector* vectors, uint64_t count) {
    int64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i) sum += write(file, vectors[i].base, vectors[i].size);
    return sum;
}

// A terminal, so that output is passed on line by line.
int64_t state_of_file(uint64_t to) {
    clear(reinterpret_cast<void*>(to), 144);
    *reinterpret_cast<uint32_t*>(to + 24) = 0x2000 | 0600;
    return 0;
}

int64_t set_break(uint64_t to) {
    if (to < break_start || to >= STACK_TOP - 0x1000000) return int64_t(break_now);
    if (to > break_now) clear(reinterpret_cast<void*>(break_now), to - break_now);
    break_now = to;
    return int64_t(to);
}

int64_t map(uint64_t size) {
    size = (size + 4095) & ~uint64_t(4095);
    if (mapped + size > MEMORY_END) return -ENOMEM;
    const uint64_t at = mapped;
    mapped += size;
    clear(reinterpret_cast<void*>(at), size);
    return int64_t(at);
}

int64_t tell_time(uint64_t* to) {  // some time
    uint32_t low, high;
    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    const uint64_t ticks = uint64_t(high) << 32 | low;
    to[0] = ticks / 1000000000;
    to[1] = ticks % 1000000000;
    return 0;
}

int64_t fill_random(uint8_t* to, uint64_t n) {  // the same each time
    for (uint64_t i = 0; i < n; ++i) to[i] = uint8_t(i * 37 + 11);
    return int64_t(n);
}

int64_t set_thread_pointer(uint64_t what, uint64_t to) {
    if (what != 0x1002) return -EINVAL;
    write_msr(0xc0000100, to);
    return 0;
}

}  // namespace

extern "C" {

void syscall_entry();
extern char trap_entries[];

[[noreturn]] void trapped(uint64_t vector, uint64_t error, uint64_t at) {
    uint64_t address;
    asm volatile("mov %%cr2, %0" : "=r"(address));
    print("trap ");
    print_number(vector, 10, 0x378);
    print(" at ");
    print_number(at, 16, 0x378);
    print(" error ");
    print_number(error, 16, 0x378);
    print(" address ");
    print_number(address, 16, 0x378);
    print("\n");
    finish(128 + int(vector));
}

int64_t system_call(uint64_t a, uint64_t b, uint64_t c, uint64_t, uint64_t number) {
    switch (number) {
        case __NR_read: return 0;  // the end of the file
        case __NR_write: return write(a, reinterpret_cast<const void*>(b), c);
        case __NR_writev: return write_vectors(a, reinterpret_cast<const Vector*>(b), c);
        case __NR_fstat: return state_of_file(b);
        case __NR_newfstatat: return state_of_file(c);
        case __NR_brk: return set_break(a);
        case __NR_mmap: return a ? -ENOMEM : map(b);
        case __NR_clock_gettime: return tell_time(reinterpret_cast<uint64_t*>(b));
        case __NR_getrandom: return fill_random(reinterpret_cast<uint8_t*>(a), b);
        case __NR_arch_prctl: return set_thread_pointer(a, b);
        case __NR_exit:
        case __NR_exit_group: finish(int(a));
        case __NR_kill:
        case __NR_tkill:
        case __NR_tgkill: finish(128 + 6);  // abort
        case __NR_getpid:
        case __NR_gettid:
        case __NR_set_tid_address: return 1;
        case __NR_close:
        case __NR_mprotect:
        case __NR_munmap:
        case __NR_madvise:
        case __NR_rt_sigaction:
        case __NR_rt_sigprocmask:
        case __NR_set_robust_list: return 0;  // nothing is done, nobody notices
        default: return -ENOSYS;
    }
}

[[noreturn]] void loader() {
    asm volatile("fninit");
    for (unsigned i = 0; i < 32; ++i) {
        uint64_t to = reinterpret_cast<uint64_t>(trap_entries) + 16 * i;
        gates[i] = {uint16_t(to), 0x18, 0, 0x8e, uint16_t(to >> 16), uint32_t(to >> 32), 0};
    }
    Pointer table{sizeof gates - 1, reinterpret_cast<uint64_t>(gates)};
    asm volatile("lidt %0" : : "m"(table));
    write_msr(0xc0000081, uint64_t(0x18)
                              << 32);  // STAR: the code segment that system calls are taken in
    write_msr(0xc0000082, reinterpret_cast<uint64_t>(&syscall_entry));
    write_msr(0xc0000084, 0x700);  // flags cleared on entry

    const Header* header = reinterpret_cast<const Header*>(PROGRAM);
    const Segment* segments = reinterpret_cast<const Segment*>(PROGRAM + header->segments);
    uint64_t phdr = 0;
    if (header->ident[0] != 0x7f || header->type != 2) {
        print("not a statically linked program at fixed addresses\n");
        finish(127);
    }
    for (unsigned i = 0; i < header->segment_count; ++i) {
        const Segment& s = segments[i];
        if (s.type == 3) {
            print("not a statically linked program\n");
            finish(127);
        }
        if (s.type != 1) continue;
        copy(reinterpret_cast<void*>(s.address), reinterpret_cast<const void*>(PROGRAM + s.offset),
             s.file_size);
        clear(reinterpret_cast<void*>(s.address + s.file_size), s.memory_size - s.file_size);
        if (header->segments >= s.offset && header->segments < s.offset + s.file_size)
            phdr = s.address + header->segments - s.offset;
        if (s.address + s.memory_size > break_start) break_start = s.address + s.memory_size;
    }
    break_start = break_now = (break_start + 4095) & ~uint64_t(4095);

    // What the kernel lays on a new program's stack: the arguments, no environment, the auxiliary
    // vector.
    uint64_t* top = reinterpret_cast<uint64_t*>(STACK_TOP - 64 * 1024);
    uint64_t* p = top;
    const char* text = reinterpret_cast<const char*>(ARGUMENTS);
    ++p;
    while (*text && p - top < 4096) {
        *p++ = reinterpret_cast<uint64_t>(text);
        while (*text) ++text;
        ++text;
    }
    *top = uint64_t(p - top - 1);
    *p++ = 0;
    *p++ = 0;
    const uint64_t auxiliary[] = {3,  phdr, 4,  header->segment_size, 5,  header->segment_count,
                                  6,  4096, 9,  header->entry,        16, 0,
                                  23, 0,    25, STACK_TOP - 64,       0,  0};
    for (uint64_t v : auxiliary) *p++ = v;
    asm volatile("mov %0, %%rsp; xor %%edx, %%edx; xor %%ebp, %%ebp; jmp *%1"
                 :
                 : "S"(top), "D"(header->entry));
    __builtin_unreachable();
}

}  // extern "C"

// The entry comes first in the image. A system call comes from ring 0 and goes back there.
asm(R"(
    .section .start, "ax"
    call loader
    .text
syscall_entry:
    mov %rsp, saved_stack(%rip)
    lea system_stack_top(%rip), %rsp
    push %rcx
    push %r11
    push %rdi
    push %rsi
    push %rdx
    push %r10
    push %r8
    push %r9
    mov %r10, %rcx
    mov %rax, %r8
    cld
    call system_call
    pop %r9
    pop %r8
    pop %r10
    pop %rdx
    pop %rsi
    pop %rdi
    pop %r11
    pop %rcx
    push %r11
    popfq
    mov saved_stack(%rip), %rsp
    jmp *%rcx

    .balign 16
trap_entries:
    .set vector, 0
    .rept 32
    .balign 16
    .if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21)
    .else
    push $0
    .endif
    push $vector
    jmp trap
    .set vector, vector + 1
    .endr
trap:
    pop %rdi
    pop %rsi
    pop %rdx
    lea system_stack_top(%rip), %rsp
    call trapped

    .bss
    .balign 16
saved_stack: .quad 0
    .balign 16
    .skip 8192
system_stack_top:
    .text
)");
