"""Tables of formats whose codes name values instead of counting steps."""

from __future__ import annotations

import numpy as np

from draftwalk.quant import Values

# Spaced more densely around zero, where weights are (IQ4_NL, IQ4_XS).
NON_LINEAR: Values = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.float32
)

# A sign, two bits of exponent, one of mantissa, times 2 so that all are whole; no negative zero.
E2M1_DOUBLED: Values = np.array(
    [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=np.float32
)
