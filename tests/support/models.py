"""Small models for tests: recorded targets, random drafters for them, and a scripted drafter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from draftwalk.draft import Draft, DraftRequest
from draftwalk.draft.block import BlockDrafter
from draftwalk.draft.load import build_drafter
from draftwalk.draft.none import CountingState
from draftwalk.models import open_model
from draftwalk.ops import RopeTable
from draftwalk.ops.memory import KVPages
from draftwalk.ops.torch import TorchOperations
from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.rows import Rows
from draftwalk.state.pages import PagedKV
from draftwalk.target.decoder import Decoder
from draftwalk.target.load import build_target
from draftwalk.verify.distribution import Support
from draftwalk.weights import RawTensor, pack_tensor

FIXTURES = Path(__file__).parent.parent / "fixtures"
CPU = torch.device("cpu")
DOUBLE = TorchOperations(CPU, torch.float64)
BLOCK = 6


@cache
def target(name: str) -> Decoder:
    """A recorded tiny target in float64; 160 tokens, 48 wide."""
    return build_target(open_model(FIXTURES / "targets" / name), DOUBLE)


@cache
def windowed_target(window: int, full: bool = False, context: int = 1024) -> Decoder:
    """Two sliding layers of a window of one's choice, or one beside a full layer, in float64."""
    recorded = open_model(FIXTURES / "targets" / "gemma3")
    types = ["sliding_attention", "full_attention" if full else "sliding_attention"]
    changes = {
        "num_hidden_layers": len(types),
        "layer_types": types,
        "sliding_window": window,
        "max_position_embeddings": context,
    }
    dropped = tuple(f"model.layers.{n}." for n in range(len(types), 7))
    tensors = {k: v for k, v in recorded.tensors.items() if not k.startswith(dropped)}
    return build_target(MadeCheckpoint({**recorded.config, **changes}, tensors), DOUBLE)


@dataclass(frozen=True)
class MadeCheckpoint:
    """A checkpoint that was never a file."""

    config: Mapping[str, object]
    tensors: Mapping[str, RawTensor]
    path: Path = Path("made-for-a-test")
    container: str = "safetensors"
    architecture: str = "DFlash2DraftModel"
    generation: Mapping[str, object] = field(default_factory=dict)


def drafter_checkpoint(
    vocabulary: int,
    width: int,
    taps: Sequence[int],
    selector: bool,
    layer_types: Sequence[str] = ("full_attention", "full_attention"),
    causal: bool | None = None,
    block: int = BLOCK,
    context: int = 512,
    seed: int = 1,
    mlp: int = 40,
) -> MadeCheckpoint:
    """A random drafter of two or so layers; mostly wrong, which is what lossless tests want."""
    rng = np.random.default_rng(seed)
    heads, kv_heads, head_dim = 2, 1, 16
    taps_of_kernel, group, rank, candidates = 2, 8, 6, 4
    own: dict[str, object] = {
        "block_size": block,
        "mask_token_id": 3,
        "target_layer_ids": list(taps),
    }
    if selector:
        own |= {
            "conv_kernel_size": taps_of_kernel,
            "conv_group_size": group,
            "selector_rank": rank,
            "selector_top_k": candidates,
        }
    config: dict[str, object] = {
        "hidden_size": width,
        "num_hidden_layers": len(layer_types),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": mlp,
        "vocab_size": vocabulary,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": context,
        "layer_types": list(layer_types),
        "sliding_window": 5,
        "is_causal": causal,
        "dflash_config": own,
    }
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (width, width * len(taps)),
        "hidden_norm.weight": (width,),
        "norm.weight": (width,),
    }
    for n in range(len(layer_types)):
        layer = f"layers.{n}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (width,),
            f"{layer}.post_attention_layernorm.weight": (width,),
            f"{layer}.self_attn.q_proj.weight": (heads * head_dim, width),
            f"{layer}.self_attn.k_proj.weight": (kv_heads * head_dim, width),
            f"{layer}.self_attn.v_proj.weight": (kv_heads * head_dim, width),
            f"{layer}.self_attn.o_proj.weight": (width, heads * head_dim),
            f"{layer}.self_attn.q_norm.weight": (head_dim,),
            f"{layer}.self_attn.k_norm.weight": (head_dim,),
            f"{layer}.mlp.gate_proj.weight": (mlp, width),
            f"{layer}.mlp.up_proj.weight": (mlp, width),
            f"{layer}.mlp.down_proj.weight": (width, mlp),
        }
        if selector:
            for conv in ("attention_conv", "mlp_conv"):
                shapes[f"{layer}.{conv}.base_kernel"] = (2, taps_of_kernel, width)
                shapes[f"{layer}.{conv}.kernel_projection.weight"] = (
                    2 * taps_of_kernel * width // group,
                    width,
                )
    if selector:
        shapes |= {
            "candidate_selector.predecessor_codebook": (vocabulary, rank),
            "candidate_selector.successor_codebook": (vocabulary, rank),
            "candidate_selector.hidden_projection.weight": (rank, width),
        }
    tensors = {}
    for name, shape in shapes.items():
        scale = 0.3 if len(shape) == 1 else 1.5 / np.sqrt(shape[-1])
        values = rng.standard_normal(shape) * scale + (1.0 if len(shape) == 1 else 0.0)
        tensors[name] = pack_tensor(name, values.astype(np.float32), F32)
    return MadeCheckpoint(config, tensors)


def random_drafter(checkpoint: MadeCheckpoint, of: Decoder, context: int = 512) -> BlockDrafter:
    """The checkpoint's drafter in float64, with a state of its own."""
    return build_drafter(checkpoint, DOUBLE, of.tables, of.depth, context)


class ScriptedDrafter:
    """Knows the text that will come, and proposes a scripted number of right tokens a step.

    Args:
        texts: by slot, prompt and continuation; what the target will say.
        script: right tokens in each step of a sequence, cyclic; the rest of a draft is wrong.
        vocabulary: to be wrong within.
        lengths: tokens proposed in each step, cyclic; where there are none, all that may be.
        wrong: the token in place of a right one; by default one more than that.
    """

    context = 2**40
    shortens = False

    def __init__(
        self,
        texts: Mapping[int, Sequence[int]],
        script: Sequence[int],
        vocabulary: int,
        taps: tuple[int, ...] = (),
        lengths: Sequence[int] = (),
        block: int = BLOCK,
        wrong: int | None = None,
    ) -> None:
        self._wrong = wrong
        self.state = CountingState()
        self.taps = taps
        self.block = block
        self.texts = texts
        self._script = tuple(script)
        self._lengths = tuple(lengths)
        self._vocabulary = vocabulary
        self._steps: dict[int, int] = {}

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        return [self._draft(request) for request in requests]

    def _draft(self, request: DraftRequest) -> Draft:
        step = self._steps.get(request.sequence, 0)
        self._steps[request.sequence] = step + 1
        text, start = self.texts[request.sequence], len(request.history)
        right = self._script[step % len(self._script)]
        length = self._lengths[step % len(self._lengths)] if self._lengths else request.limit
        tokens = []
        for n in range(min(length, request.limit)):
            truth = text[start + n] if start + n < len(text) else 0
            wrong = (truth + 1) % self._vocabulary if self._wrong is None else self._wrong
            tokens.append(truth if n < right else wrong)
        q = tuple(Support.certain(token) for token in tokens)
        return Draft(tuple(tokens), q, (1.0,) * len(tokens))

    def observe(self, rows: Rows, features: Tensor, kept: Mapping[int, int]) -> None:
        self.state.begin(rows)
        self.state.commit(kept)


def hidden_rows(
    drafter: BlockDrafter, requests: Sequence[DraftRequest], block: int | None = None
) -> Tensor:
    """Final-normed rows [M, H] that the drafter picks its tokens from."""
    caught = []
    outputs = drafter.outputs

    def catching(hidden: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        caught.append(hidden)
        return outputs(hidden, rows)

    drafter.outputs = catching  # type: ignore[method-assign]
    drafter.draft(requests, block)
    del drafter.outputs
    return caught[0]


def new_pages(layers: int, heads: int, head_dim: int, window: int | None) -> PagedKV:
    """K/V pages in float64."""
    return PagedKV(DOUBLE.page_pool(layers, heads, head_dim), window, CPU)


def store(k: Tensor, v: Tensor, into: KVPages, rows: Rows) -> None:
    """Writes keys and values [T, G, D] as they are: by a rope that turns nothing."""
    half = (512, k.shape[2] // 2)
    still = RopeTable(torch.ones(half).to(k), torch.zeros(half).to(k))
    DOUBLE.remember(k.flatten(1), v.flatten(1), k.shape[1], None, still, into, rows)
