"""Record what llama.cpp drafts with GGUF drafters that draftwalk wrote.

    PYTHONPATH=src:tests .referee/bin/python referee/interchange.py [LLAMA_CPP]

Writes tests/fixtures/llama_cpp_drafters.npz. llama.cpp loads and runs every file as it is; what is
recorded of the types with fewer bits is a second run with the same weights unpacked, for llama.cpp
rounds activations to 8 bits where weights are quantised. With the folder of llama.cpp's source (it
lies in the llama-cpp-python sdist, in vendor/), its own converter is run on recorded drafters as
well, and the files are kept in tests/fixtures/llama_cpp_converted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sentencepiece

from draftwalk.quant.f32 import FORMATS as F32
from draftwalk.weights import GgufFile, pack_tensor, write_gguf
from fixtures import FIXTURES, empty_folder, size_of
from llama_cpp_drafter import LlamaDrafter
from support.interchange_cases import ANCHOR, BLOCK, CASES, DEPTH, Case, V, features, made, tables
from support.interchange_cases import write as write_drafter

CONVERTED = (
    "dflash-plain",
    "dflash2-plain",
    "dflash-sliding-two-way",
    "dflash2-causal-window-in-block",
)


def main(arguments: Sequence[str]) -> None:
    """Rewrite the recordings."""
    recorded: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            target = write_target(case, Path(folder) / f"{case.name}-target.gguf")
            for outtype in case.types:
                path = write_drafter(case, outtype, Path(folder) / f"{case.name}-{outtype}.gguf")
                drafted = draft(case, path, target)
                if outtype != "f32":  # llama.cpp rounds activations to suit the weights' type
                    drafted = draft(case, unpacked(path), target)
                for name, values in drafted.items():
                    recorded[f"{case.name}.{outtype}.{name}"] = values
                print(f"{case.name} {outtype}: accepted")
    np.savez_compressed(FIXTURES / "llama_cpp_drafters.npz", **recorded)
    for source in arguments:
        convert(Path(source))


def unpacked(path: Path) -> Path:
    """The same weights as floats, in a file beside it."""
    file = GgufFile(path)
    tensors = [pack_tensor(name, raw.unpack(), F32) for name, raw in file.tensors.items()]
    beside = path.with_suffix(".f32.gguf")
    write_gguf(beside, file.metadata, tensors)
    return beside


def draft(case: Case, drafter: Path, target: Path) -> dict[str, np.ndarray]:
    """One block after the recorded features."""
    config = made(case).config
    own = config["dflash_config"]
    ids = [ANCHOR] + [own["mask_token_id"]] * (BLOCK - 1)
    with LlamaDrafter(drafter, target, bool(config["is_causal"])) as model:
        model.block(features(case), ids)
        if not case.selector:
            return {"logits": model.logits(BLOCK, V)[1:]}
        candidates, scores = model.lattice(BLOCK, case.width, own["selector_top_k"])
        return {"candidates": candidates.astype(np.int16), "scores": scores}


def write_target(case: Case, path: Path) -> Path:
    """A target of which only embedding and head matter."""
    width, mlp, head = case.width, 32, 16
    rng = np.random.default_rng(1)
    embedding, output = tables(case)
    values = {
        "token_embd.weight": embedding,
        "output.weight": output,
        "output_norm.weight": np.ones(width),
    }
    for n in range(DEPTH):
        shapes = {
            "attn_norm": (width,),
            "ffn_norm": (width,),
            "attn_q": (2 * head, width),
            "attn_k": (head, width),
            "attn_v": (head, width),
            "attn_output": (width, 2 * head),
            "ffn_gate": (mlp, width),
            "ffn_up": (mlp, width),
            "ffn_down": (width, mlp),
        }
        for name, shape in shapes.items():
            values[f"blk.{n}.{name}.weight"] = rng.standard_normal(shape) / 8
    sizes = {
        "block_count": DEPTH,
        "context_length": 512,
        "embedding_length": width,
        "feed_forward_length": mlp,
        "vocab_size": V,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "attention.key_length": head,
        "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": head,
    }
    write_gguf(
        path,
        {
            "general.architecture": "llama",
            "tokenizer.ggml.model": "none",
            **{f"llama.{key}": value for key, value in sizes.items()},
        },
        [pack_tensor(name, one.astype(np.float32), F32) for name, one in values.items()],
    )
    return path


def convert(llama_cpp: Path) -> None:
    """Runs llama.cpp's converter on recorded drafters."""
    kept = empty_folder(FIXTURES / "llama_cpp_converted")
    with tempfile.TemporaryDirectory() as place:
        for name in CONVERTED:
            source = Path(place) / name
            shutil.copytree(FIXTURES / "drafters" / name, source)
            config = json.loads((source / "config.json").read_text())
            target = target_folder(Path(place) / f"{name}-target", config)
            command = [sys.executable, str(llama_cpp / "convert_hf_to_gguf.py"), str(source)]
            command += ["--outfile", str(kept / f"{name}.gguf"), "--outtype", "bf16"]
            command += ["--target-model-dir", str(target)]
            subprocess.run(command, check=True, capture_output=True)
    print(f"{kept}: {size_of(kept)} bytes")


def target_folder(folder: Path, drafter: dict[str, object]) -> Path:
    """A target of which only the configuration and a small vocabulary are looked at."""
    folder.mkdir()
    vocabulary = int(str(drafter["vocab_size"]))
    words = " ".join(f"w{number % 7}{number % 5} abc def" for number in range(200))
    (folder / "text.txt").write_text(words)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=24,
        model_type="bpe",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": drafter["hidden_size"],
        "num_hidden_layers": drafter["num_target_layers"],
        "num_attention_heads": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


if __name__ == "__main__":
    main(sys.argv[1:])
