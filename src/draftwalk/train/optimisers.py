"""Which parameter is updated how: by AdamW, or matrices inside the network by Muon.

Muon learns more per block from random values, but its updates are dear on a CPU; started from
copies of the target's layers, small updates by AdamW learned faster (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from draftwalk.train.model import FACTORS, GATE
from draftwalk.train.muon import Muon

Method = Literal["adamw", "muon"]
USUAL_RATES: Mapping[Method, float] = {"adamw": 8e-4, "muon": 4e-3}
_BETAS = (0.9, 0.95)


@dataclass(frozen=True, slots=True)
class OptimiserSettings:
    """Rates and the rest.

    Attributes:
        method: of matrices inside the network.
        lr: of these; by default the method's usual one.
        vector_lr: of AdamW for all else: norms, kernels and the selector.
        weight_decay: of matrices.
        clip: greatest norm of the whole gradient.
    """

    method: Method = "adamw"
    lr: float | None = None
    vector_lr: float = 1e-3
    weight_decay: float = 0.01
    clip: float = 1.0


class Optimisers:
    """All optimisers of a run as one.

    Args:
        parameters: by name.
        settings: rates and the rest.
    """

    def __init__(self, parameters: Mapping[str, Tensor], settings: OptimiserSettings) -> None:
        self._parameters = parameters
        self._settings = settings
        inside = {name for name in parameters if _inside(name, parameters[name])}
        groups = []
        lr = USUAL_RATES[settings.method] if settings.lr is None else settings.lr
        self._muon: Muon | None = None
        if settings.method == "muon":
            matrices = [parameters[name] for name in sorted(inside)]
            self._muon = Muon(matrices, lr, weight_decay=settings.weight_decay)
        else:
            groups.append(self._group(inside, lr, settings.weight_decay))
        groups.append(self._group(set(parameters) - inside, settings.vector_lr, 0.0))
        self._adamw = torch.optim.AdamW(groups, betas=_BETAS, fused=True)
        all_groups = [*self._adamw.param_groups, *(self._muon.param_groups if self._muon else ())]
        self._rates = [(group, float(group["lr"])) for group in all_groups]

    def step(self, factor: float) -> float:
        """Updates everything, clears gradients; the gradient's norm before it was clipped.

        Args:
            factor: on all learning rates.
        """
        values = list(self._parameters.values())
        norm = torch.nn.utils.clip_grad_norm_(values, self._settings.clip)
        for group, rate in self._rates:
            group["lr"] = rate * factor
        self._adamw.step()
        if self._muon is not None:
            self._muon.step()
        for value in values:
            value.grad = None
        return float(norm)

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs, by name."""
        found = {}
        for name, weight in self._parameters.items():
            for optimiser in (self._adamw, self._muon):
                if optimiser is not None and weight in optimiser.state:
                    for key, value in optimiser.state[weight].items():
                        found[f"{key}/{name}"] = value
        return found

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what `state` returned."""
        for name, weight in self._parameters.items():
            muon = self._muon is not None and f"momentum/{name}" in state
            keys = ("momentum",) if muon else ("step", "exp_avg", "exp_avg_sq")
            optimiser = self._muon if muon else self._adamw
            assert optimiser is not None
            if f"{keys[0]}/{name}" in state:
                optimiser.state[weight] = {
                    key: state[f"{key}/{name}"].to(weight.device) for key in keys
                }

    def _group(self, names: set[str], lr: float, weight_decay: float) -> dict[str, object]:
        values = [self._parameters[name] for name in sorted(names)]
        return {"params": values, "lr": lr, "weight_decay": weight_decay}


def _inside(name: str, value: Tensor) -> bool:
    """Matrices of the backbone. The selector's factors are like embeddings: Muon suits them ill."""
    return value.dim() == 2 and name not in (GATE, *FACTORS)
