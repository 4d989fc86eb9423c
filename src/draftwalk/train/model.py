"""A drafter as it is trained: the same network, its tensors parameters, its head the target's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from draftwalk.draft.backbone import Backbone
from draftwalk.draft.config import DrafterConfig
from draftwalk.draft.pairing import EMBEDDING
from draftwalk.errors import CheckpointError
from draftwalk.ops.memory import KVTensors
from draftwalk.ops.torch import DenseMatrix
from draftwalk.rows import Rows, Rowset
from draftwalk.target.decoder import Decoder
from draftwalk.train.anchors import Lesson, lay_out_blocks
from draftwalk.train.learning import LayerContexts, LearningOperations, NoContexts
from draftwalk.train.selector import SelectorParts
from draftwalk.weights import Checkpoint
from draftwalk.weights.source import TensorSource
from draftwalk.weights.tensor import RawTensor

GATE = "candidate_selector.hidden_projection.weight"
FACTORS = ("candidate_selector.predecessor_factor", "candidate_selector.successor_factor")


@dataclass(frozen=True, slots=True)
class TargetTables:
    """What of the target the drafter's loss goes through; none of it is trained.

    Attributes:
        embedding: [V, H].
        head: [V, H].
        norm: [H] weights of the final norm.
        eps: of the final norm.
        last: number of the last layer.
        softcap: of logits.
    """

    embedding: Tensor
    head: Tensor
    norm: Tensor
    eps: float
    last: int
    softcap: float | None = None

    @staticmethod
    def of(checkpoint: Checkpoint, target: Decoder, device: torch.device) -> TargetTables:
        """Those of a target."""

        def values(name: str) -> Tensor:
            return torch.from_numpy(checkpoint.tensors[name].unpack()).to(device)

        blueprint = target.blueprint
        embedding = values(EMBEDDING)
        return TargetTables(
            embedding,
            embedding if blueprint.tied else values("lm_head.weight"),
            values("model.norm.weight") + blueprint.norm_offset,
            blueprint.sizes.norm_eps,
            target.depth - 1,
            blueprint.softcap,
        )

    def finish(self, hidden: Tensor) -> Tensor:
        """The final norm of the last layer's outputs [P, H]."""
        return functional.rms_norm(hidden, self.norm.shape, self.norm, self.eps)


class LearningDrafter:
    """A drafter whose tensors are parameters.

    Args:
        config: its shape.
        tensors: its starting values under canonical names, the selector's as factors.
        tables: the target's.
        context: most tokens of a text.
        device: where it is trained.

    Raises:
        CheckpointError: the tensors do not fit the configuration, or are what is not trained.
    """

    def __init__(
        self,
        config: DrafterConfig,
        tensors: dict[str, RawTensor],
        tables: TargetTables,
        context: int,
        device: torch.device,
    ) -> None:
        if config.bias or config.sinks or config.interleaved or config.softcap is not None:
            raise CheckpointError("drafters with biases, sinks or a softcap are not trained")
        self.config = config
        self.tables = tables
        self.embedding = tables.embedding
        self.head = tables.head
        self._ops = LearningOperations(device)
        source = TensorSource(tensors, "the drafter")
        embedding = DenseMatrix(tables.embedding)
        self._backbone = Backbone(config, source, self._ops, embedding, context)
        self.selector: SelectorParts | None = None
        if config.selector is not None:
            shape = (config.selector.rank, config.sizes.width)
            parts = [self._ops.matrix(source.take(n, shape)).weight for n in (GATE, *FACTORS)]
            self.selector = SelectorParts(*parts)
        source.finish()

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Everything that is trained, by canonical name."""
        return self._ops.parameters

    @property
    def candidates(self) -> int:
        """K of the selector."""
        assert self.config.selector is not None, "a DFlash drafter has no candidates"
        return self.config.selector.candidates

    @property
    def device(self) -> torch.device:
        """Where it is trained."""
        return self._ops.device

    def hidden(self, lessons: Sequence[Lesson]) -> Tensor:
        """Final-normed drafted rows [n * (B - 1), H] of all lessons' blocks, equally long ones.

        Each block sees its answer strictly before its anchor, and its own rows.
        """
        rows = lay_out_blocks(lessons, self.config.mask, self.device)
        # One object for all blocks of a lesson tells the attention that they stand in one text.
        owners = [n for n, lesson in enumerate(lessons) for _ in lesson.blocks.anchors]
        layers = [
            {block: contexts[owner] for block, owner in enumerate(owners)}
            for contexts in self._contexts(lessons)
        ]
        out = self._backbone.forward(LayerContexts(layers), rows)
        return self._ops.gather(out, rows.wanted)

    def _contexts(self, lessons: Sequence[Lesson]) -> list[list[tuple[Tensor, Tensor]]]:
        """For every layer and lesson K/V [reach, G, D] of the text before the last anchor."""
        reaches = [lesson.reach for lesson in lessons]
        heard = torch.cat([lesson.answer.features[: lesson.reach] for lesson in lessons])
        features = heard.to(self.device, torch.float32)
        rowsets = [Rowset(n, [0] * reach, 0, "none") for n, reach in enumerate(reaches)]
        rows = Rows.lay_out(rowsets, self.device)
        injected = self._backbone.inject(NoContexts(), rows, features)
        return [
            list(zip(torch.split(kv.k, reaches), torch.split(kv.v, reaches), strict=True))
            for kv in injected
            if isinstance(kv, KVTensors)
        ]
