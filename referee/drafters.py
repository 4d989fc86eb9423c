"""Record random DFlash and DFlash2 drafters, and what the public `dflash` package drafts with them.

Each folder of tests/fixtures/drafters gets config.json and model.safetensors as published drafters
have them, case.json (what was asked) and expected.safetensors (inputs and outputs, fp32).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from dflash.model import (
    DFlash2DraftModel,
    DFlashDraftModel,
    _crop_to,
    _draft_value,
    _make_cache,
    _raw_input_embeddings,
    _sampling_probs,
)
from safetensors.torch import save_file
from torch import nn
from transformers import Qwen3Config
from transformers.utils.logging import disable_progress_bar

from drafter_shapes import CASES, Case, Config, Round
from fixtures import FIXTURES, empty_folder, size_of, write_json, write_tensors

FOLDER = FIXTURES / "drafters"
# Two scores closer than this could change places by rounding alone.
SMALLEST_MARGIN = 1e-3
# The same draft with and without a cache differs by rounding only.
CACHE_TOLERANCE = 2e-5

Tensors = dict[str, torch.Tensor]


class TinyTarget(nn.Module):
    """The only parts of a target that a drafter borrows: embedding table and head."""

    def __init__(self, embedding: torch.Tensor, head: torch.Tensor | None) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(embedding)
        self.lm_head = nn.Linear(embedding.shape[1], embedding.shape[0], bias=False)
        self.lm_head.weight = nn.Parameter(embedding if head is None else head)

    def get_input_embeddings(self) -> nn.Embedding:
        """The embedding table, under the name that transformers gives it."""
        return self.embedding


def main(names: Sequence[str]) -> None:
    """Rewrite the named drafters, or all of them."""
    torch.set_num_threads(1)
    disable_progress_bar()
    for case in CASES:
        if not names or case.name in names:
            record(case, FOLDER / case.name)


@torch.inference_mode()
def record(case: Case, folder: Path) -> None:
    """Write one drafter's folder, with the first seed whose scores are all clearly apart."""
    empty_folder(folder)
    write_json(folder / "config.json", case.config)
    for seed in itertools.count(case.seed, 1000):
        generator = torch.Generator().manual_seed(seed)
        write_weights(case, folder, generator)
        model = load(folder)
        target, tensors = make_target(case, generator)
        margins: list[float] = []
        sequences = []
        for index, rounds in enumerate(case.sequences):
            described, outputs, margin = draft_rounds(case, model, target, rounds, generator)
            sequences.append(described)
            tensors.update({f"{index}.{name}": value for name, value in outputs.items()})
            margins.append(margin)
        if min(margins) > SMALLEST_MARGIN:
            break
    write_tensors(folder / "expected.safetensors", tensors)
    write_json(folder / "case.json", describe(case, model, sequences))
    print(f"{case.name}: {size_of(folder)} bytes, seed {seed}, smallest margin {min(margins):.1e}")


def describe(case: Case, model: DFlashDraftModel, sequences: list[object]) -> dict[str, object]:
    """What case.json says: how the package understood the config, and what was asked."""
    return {
        "version": 2 if isinstance(model, DFlash2DraftModel) else 1,
        "block_size": model.block_size,
        "mask_token_id": model.mask_token_id,
        "target_layer_ids": list(model.target_layer_ids),
        "tied": case.tied,
        "samplings": [asdict(sampling) for sampling in used_samplings(case, model)],
        "sequences": sequences,
    }


def used_samplings(case: Case, model: DFlashDraftModel) -> list[object]:
    """DFlash2 draws from its candidates by temperature alone, so only those settings count."""
    if isinstance(model, DFlash2DraftModel):
        return [s for s in case.samplings if s.top_k == 0 and s.top_p == 1.0]
    return list(case.samplings)


def write_weights(case: Case, folder: Path, generator: torch.Generator) -> None:
    """Draw weights and store them under the names of published drafters."""
    config = Qwen3Config.from_pretrained(folder)
    model = model_class(case.config)(config)
    tensors = {}
    for name, parameter in model.named_parameters():
        values = random_weight(name, parameter.shape, generator)
        tensors[published_name(name)] = values.to(getattr(torch, case.stored))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def published_name(name: str) -> str:
    """The two codebooks are stored without `.weight`; the package's modules have it."""
    return name.removesuffix(".weight") if "codebook" in name else name


def random_weight(name: str, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Values under which every part of the drafter moves the result."""
    noise = torch.randn(shape, generator=generator)
    if name.endswith("base_kernel"):
        values = 0.3 * noise
        values[:, 0] += 1.0
        return values
    if name.endswith("norm.weight"):
        return 1.0 + 0.25 * noise
    if name.endswith("bias"):
        return 0.4 * noise
    if "codebook" in name:
        return noise / shape[-1] ** 0.25
    if name.endswith("kernel_projection.weight"):
        return 0.4 * noise / shape[-1] ** 0.5
    gain = 1.5 if ".q_proj." in name or ".k_proj." in name else 1.0
    return gain * noise / shape[-1] ** 0.5


def model_class(config: Config) -> type[DFlashDraftModel]:
    """The class that a config's `architectures` names."""
    second = config["architectures"] == ["DFlash2DraftModel"]
    return DFlash2DraftModel if second else DFlashDraftModel


def load(folder: Path) -> DFlashDraftModel:
    """Read a folder as a user of the package does, in fp32."""
    config = Qwen3Config.from_pretrained(folder)
    kind = model_class({"architectures": config.architectures})
    model, report = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    problems = {key: value for key, value in report.items() if value}
    assert not problems, problems
    return model.eval()


def make_target(case: Case, generator: torch.Generator) -> tuple[TinyTarget, Tensors]:
    """Random embedding and head of a target, rounded to bf16 and kept in fp32."""
    vocabulary, hidden = case.config["vocab_size"], case.config["hidden_size"]
    assert isinstance(vocabulary, int)
    assert isinstance(hidden, int)
    embedding = (torch.randn(vocabulary, hidden, generator=generator)).bfloat16()
    head = (1.5 * torch.randn(vocabulary, hidden, generator=generator) / hidden**0.5).bfloat16()
    tensors = {"target.embedding": embedding}
    if not case.tied:
        tensors["target.head"] = head
    return TinyTarget(embedding.float(), None if case.tied else head.float()), tensors


def draft_rounds(
    case: Case,
    model: DFlashDraftModel,
    target: TinyTarget,
    rounds: tuple[Round, ...],
    generator: torch.Generator,
) -> tuple[list[object], Tensors, float]:
    """Draft round after round with one cache, as the package's own loop does."""
    cache = _make_cache(model.config)
    width = len(model.target_layer_ids) * model.config.hidden_size
    past = torch.zeros(0, width)
    described: list[object] = []
    tensors: Tensors = {}
    margins = []
    for index, wanted in enumerate(rounds):
        features = torch.randn(wanted.new_features, width, generator=generator).bfloat16().float()
        past = torch.cat([past, features])
        anchor = int(torch.randint(model.config.vocab_size, (), generator=generator))
        start = past.shape[0]
        hidden = block_hidden(model, target, features, anchor, start, wanted.rows, cache)
        _crop_to(cache, start)
        uncached = block_hidden(model, target, past, anchor, start, wanted.rows, None)
        assert (hidden - uncached).abs().max() < CACHE_TOLERANCE, (case.name, index)

        logits = model.compute_logits(hidden[1:], target.lm_head)
        outputs = {"features": features, "hidden": hidden, "logits": logits}
        if isinstance(model, DFlash2DraftModel):
            more, margin = second_outputs(case, model, target, hidden, logits, anchor)
        else:
            more, margin = first_outputs(case, logits)
        outputs.update(more)
        margins.append(margin)
        tensors.update({f"{index}.{name}": value for name, value in outputs.items()})
        described.append({"anchor": anchor, "start": start, "rows": wanted.rows})
    return described, tensors, min(margins)


def block_hidden(
    model: DFlashDraftModel,
    target: TinyTarget,
    features: torch.Tensor,
    anchor: int,
    start: int,
    rows: int,
    cache: object | None,
) -> torch.Tensor:
    """Final-normed hidden states of a block's rows, [rows, hidden]."""
    ids = torch.tensor([[anchor] + [model.mask_token_id] * (rows - 1)])
    scale = float(_draft_value(model.config, "input_embedding_scale", 1.0))
    return model(
        target_hidden=features[None],
        noise_embedding=_raw_input_embeddings(target, ids, scale),
        position_ids=torch.arange(start - features.shape[0], start + rows)[None],
        past_key_values=cache,
        use_cache=cache is not None,
    )[0, -rows:]


def first_outputs(case: Case, logits: torch.Tensor) -> tuple[Tensors, float]:
    """DFlash: every row by itself."""
    outputs = {"path": logits.argmax(-1)}
    for index, sampling in enumerate(case.samplings):
        outputs[f"q{index}"] = _sampling_probs(
            logits, sampling.temperature, sampling.top_p, sampling.top_k
        )
    return outputs, first_margin(case, logits)


def first_margin(case: Case, logits: torch.Tensor) -> float:
    """Smallest distance from the edge where argmax, top-k or top-p would choose otherwise."""
    best = logits.sort(-1, descending=True).values
    edges = [1, *(s.top_k for s in case.samplings if s.top_k)]
    margins = [(best[:, k - 1] - best[:, k]).min().item() for k in edges]
    for sampling in case.samplings:
        if sampling.top_p < 1:
            p = _sampling_probs(logits, sampling.temperature, 1.0, sampling.top_k)
            mass = p.sort(-1, descending=True).values.cumsum(-1)
            margins.append((mass - sampling.top_p).abs().min().item())
    return min(margins)


def second_outputs(
    case: Case,
    model: DFlash2DraftModel,
    target: TinyTarget,
    hidden: torch.Tensor,
    logits: torch.Tensor,
    anchor: int,
) -> tuple[Tensors, float]:
    """DFlash2: candidates, all transition scores, the greedy path, and q along drawn paths."""
    anchors = torch.tensor([anchor])
    path, found, _ = model.propose(hidden[None, 1:], anchors, target.lm_head, 0.0)
    # The package leaves the K candidates of a row in any order: here they ascend by id.
    candidates = found[0].sort(-1).values
    first, lattice = transition_scores(model, hidden, logits, candidates, anchor)
    outputs = {
        "candidates": candidates,
        "unary": logits.gather(-1, candidates),
        "first_scores": first,
        "lattice": lattice,
        "path": path[0],
    }
    assert walk(first, lattice, candidates) == path[0].tolist(), case.name
    for index, sampling in enumerate(used_samplings(case, model)):
        torch.manual_seed(case.seed + index)
        drawn, found, q = model.propose(
            hidden[None, 1:], anchors, target.lm_head, sampling.temperature
        )
        order = found[0].argsort(-1)
        assert torch.equal(found[0].gather(-1, order), candidates)
        outputs[f"path{index}"] = drawn[0]
        outputs[f"q{index}"] = q[0].gather(-1, order)
        check_q(outputs, index, sampling.temperature)
    return outputs, second_margin(logits, candidates.shape[-1], first, lattice)


def transition_scores(
    model: DFlash2DraftModel,
    hidden: torch.Tensor,
    logits: torch.Tensor,
    candidates: torch.Tensor,
    anchor: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of the first row, [K], and of later rows, [rows, predecessor, successor]."""
    selector = model.candidate_selector
    gate = selector.hidden_projection(hidden[1:])
    unary = logits.gather(-1, candidates)
    successors = selector.successor_codebook(candidates)
    begin = selector.predecessor_codebook(torch.tensor(anchor)) * gate[0]
    first = unary[0] + successors[0] @ begin
    before = selector.predecessor_codebook(candidates[:-1]) * gate[1:, None]
    lattice = unary[1:, None] + torch.einsum("npr,ncr->npc", before, successors[1:])
    return first, lattice


def walk(first: torch.Tensor, lattice: torch.Tensor, candidates: torch.Tensor) -> list[int]:
    """The greedy path through recorded scores: it must be the package's own."""
    choice = int(first.argmax())
    path = [int(candidates[0, choice])]
    for row, scores in enumerate(lattice, 1):
        choice = int(scores[choice].argmax())
        path.append(int(candidates[row, choice]))
    return path


def check_q(outputs: Tensors, index: int, temperature: float) -> None:
    """The package's q along its drawn path is the softmax of the recorded scores."""
    candidates, path = outputs["candidates"], outputs[f"path{index}"]
    scores = outputs["first_scores"]
    for row, token in enumerate(path):
        q = torch.softmax(scores / temperature, -1)
        assert torch.allclose(q, outputs[f"q{index}"][row], atol=1e-5)
        choice = int((candidates[row] == token).nonzero())
        if row + 1 < len(path):
            scores = outputs["lattice"][row, choice]


def second_margin(
    logits: torch.Tensor, k: int, first: torch.Tensor, lattice: torch.Tensor
) -> float:
    """Smallest distance of two scores whose order decides a candidate set or a step."""
    margins = []
    if k < logits.shape[-1]:
        best = logits.sort(-1, descending=True).values
        margins.append((best[:, k - 1] - best[:, k]).min().item())
    if k > 1:
        for scores in (first[None], lattice):
            top = scores.topk(2, -1).values
            margins.append((top[..., 0] - top[..., 1]).min().item() if top.numel() else 1.0)
    return min(margins)


if __name__ == "__main__":
    main(sys.argv[1:])
