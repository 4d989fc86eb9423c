// Kernels are made of tiny functions on vectors. All of them must be inlined, and early: a vector
// that crosses a call is copied through memory, in pieces that stall when it is read back whole.
// The scalar path has no vectors, and would only take minutes to compile.
#pragma once

#if defined(DW_ISA_SCALAR)
#define DW_INLINE static inline
#define DW_INLINE_MEMBER inline
#define DW_INLINE_LAMBDA
#else
#define DW_INLINE __attribute__((always_inline)) static inline
#define DW_INLINE_MEMBER __attribute__((always_inline)) inline
#define DW_INLINE_LAMBDA __attribute__((always_inline))
#endif

// For what is large enough to be compiled by itself.
#define DW_NO_INLINE __attribute__((noinline)) static
