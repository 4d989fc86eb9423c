"""The native back end: kernels on the CPU, passes recorded once per shape and replayed.

Its logits are the same bits on every instruction set, for any number of threads, and in whatever
company a row is computed. It needs the extension `draftwalk._native`; `draftwalk.ops.choice` knows
whether that is there.
"""

from draftwalk.ops.native.operations import NativeOperations

__all__ = ["NativeOperations"]
