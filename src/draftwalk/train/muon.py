"""Muon: momentum whose matrices are made orthogonal before they are added (K. Jordan 2024).

torch has one too, but it iterates in bfloat16, which CPUs without such units emulate at a quarter
of the speed of float32. The update is scaled to the root mean square that AdamW's usually has
(Moonlight, arXiv 2502.16982), so one learning rate suits both.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # quintic, from K. Jordan's description
_RMS = 0.2


class Muon(Optimizer):
    """For matrices of a network's inside.

    Args:
        parameters: 2-D tensors.
        lr: learning rate.
        momentum: of the gradients, used Nesterov's way.
        weight_decay: decoupled.
        steps: of the Newton-Schulz iteration.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        steps: int = 5,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "steps": steps}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates every matrix that has a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight)
                momentum = state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonal(weight.grad.lerp(momentum, group["momentum"]), group["steps"])
                scale = _RMS * max(weight.shape) ** 0.5
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(update, alpha=-group["lr"] * scale)


def orthogonal(matrix: Tensor, steps: int) -> Tensor:
    """The nearest matrix whose singular values are all near 1, by Newton-Schulz iteration."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x: Tensor = wide / (wide.norm() + 1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T
