"""Record tiny random targets: weights in two file formats, and what transformers computes.

Each folder of tests/fixtures/targets gets config.json, model.safetensors (or shards), model.gguf
where a GGUF file can say the same, and expected.safetensors. Every GGUF file is also run by
llama.cpp, to be sure that it is a file that llama.cpp understands.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from fixtures import FIXTURES, empty_folder, size_of, write_json, write_tensors
from libllama import LlamaModel
from target_gguf import write_target_gguf
from target_shapes import SHAPES, Config, Shape

FOLDER = FIXTURES / "targets"
# One token, and one prompt that is longer than any sliding window here and every rope ramp.
PROMPT_LENGTHS = (1, 40)
SMALLEST_EFFECT = 0.05
# GELU comes from a table of half precision in llama.cpp; the other activations do not.
LLAMA_CPP_TOLERANCE = {"gemma3_text": 2e-2}
DEFAULT_TOLERANCE = 1e-4


def main(names: Sequence[str]) -> None:
    """Rewrite the named targets, or all of them."""
    torch.set_num_threads(1)
    disable_progress_bar()
    for shape in SHAPES:
        if not names or shape.name in names:
            record(shape, FOLDER / shape.name)


def record(shape: Shape, folder: Path) -> None:
    """Write one target's folder and check what was written."""
    empty_folder(folder)
    write_json(folder / "config.json", shape.config)
    weights = write_weights(shape, folder)
    model = load(folder)
    prompts = make_prompts(shape)
    outputs = [run(model, ids) for ids in prompts]
    tensors = {}
    for index, (ids, output) in enumerate(zip(prompts, outputs, strict=True)):
        tensors[f"{index}.ids"] = ids
        tensors.update({f"{index}.{name}": value for name, value in output.items()})
    write_tensors(folder / "expected.safetensors", tensors)

    effects = [
        effect(shape, change, weights, prompts[-1], outputs[-1]) for change in shape.ablations
    ]
    assert min(effects) > SMALLEST_EFFECT, (shape.name, effects)
    report = f"{shape.name}: {size_of(folder)} bytes, smallest effect of a key {min(effects):.2f}"
    if shape.gguf:
        path = folder / "model.gguf"
        write_target_gguf(path, shape.config, weights)
        error = llama_cpp_error(path, prompts, outputs)
        tolerance = LLAMA_CPP_TOLERANCE.get(str(shape.config["model_type"]), DEFAULT_TOLERANCE)
        scale = outputs[-1]["logits"].abs().max().item()
        assert error < tolerance * max(scale, 1.0), (shape.name, error, scale)
        report += f", llama.cpp differs by {error:.1e} (largest logit {scale:.1f})"
    print(report)


def write_weights(shape: Shape, folder: Path) -> dict[str, torch.Tensor]:
    """Draw random weights, store them as safetensors, return them by their names in that file."""
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomise(model, shape.seed)
    model.to(getattr(torch, shape.stored))
    # transformers writes its own idea of the config, so ours is written again afterwards.
    model.save_pretrained(folder, max_shard_size="60KB" if shape.shards else "5GB")
    write_json(folder / "config.json", {**shape.config, "torch_dtype": shape.stored})
    tied = shape.config["tie_word_embeddings"]
    return {
        name: value.float()
        for name, value in model.state_dict().items()
        if not (tied and name == "lm_head.weight")
    }


@torch.no_grad()
def randomise(model: PreTrainedModel, seed: int) -> None:
    """Fill a model with values under which attention is sharp and every weight matters."""
    generator = torch.Generator().manual_seed(seed)
    centre = 0.0 if model.config.model_type == "gemma3_text" else 1.0
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight"):
            parameter.copy_(centre + 0.25 * noise)
        elif name.endswith("bias") or "embed_tokens" in name:
            parameter.copy_(0.5 * noise)
        else:
            gain = 1.6 if ".q_proj." in name or ".k_proj." in name else 1.0
            parameter.copy_(gain * noise / parameter.shape[-1] ** 0.5)


def make_prompts(shape: Shape) -> list[torch.Tensor]:
    """Random token ids, the same for every run of this script."""
    generator = torch.Generator().manual_seed(1000 + shape.seed)
    size = shape.config["vocab_size"]
    assert isinstance(size, int)
    return [torch.randint(size, (length,), generator=generator) for length in PROMPT_LENGTHS]


def load(folder: Path) -> PreTrainedModel:
    """Read a folder the way a user of transformers would, in fp32."""
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


@torch.no_grad()
def run(model: PreTrainedModel, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Logits, all hidden states, and the residual stream before the final norm."""
    before_norm: list[torch.Tensor] = []
    hook = model.model.norm.register_forward_pre_hook(
        lambda _module, inputs: before_norm.append(inputs[0])
    )
    output = model(ids[None], output_hidden_states=True, use_cache=False)
    hook.remove()
    return {
        "logits": output.logits[0],
        "hidden_states": torch.stack([state[0] for state in output.hidden_states]),
        "residual": before_norm[0][0],
    }


@torch.no_grad()
def effect(
    shape: Shape,
    change: Config,
    weights: dict[str, torch.Tensor],
    ids: torch.Tensor,
    output: dict[str, torch.Tensor],
) -> float:
    """How far the logits move when one key of the config is changed: it must not be ignorable."""
    values = {**shape.config, **change}
    values.pop("torch_dtype")
    config = AutoConfig.for_model(**values)
    model = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return (run(model, ids)["logits"] - output["logits"]).abs().max().item()


def llama_cpp_error(
    path: Path, prompts: list[torch.Tensor], outputs: list[dict[str, torch.Tensor]]
) -> float:
    """Largest difference between llama.cpp's logits of the GGUF file and the recorded ones."""
    with LlamaModel(path) as model:
        return max(
            (torch.from_numpy(model.logits(ids.tolist())) - output["logits"]).abs().max().item()
            for ids, output in zip(prompts, outputs, strict=True)
        )


if __name__ == "__main__":
    main(sys.argv[1:])
