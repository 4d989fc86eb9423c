"""Convert tiny targets to GGUF with our converter, and record what llama.cpp makes of the files.

Run in the referee environment, with PYTHONPATH=src:tests. Rewrites
`tests/fixtures/target_conversions.json`: for each target and type llama.cpp's best token at every
position, how far it leads, and a little more than twice the largest difference of its logits
from ours.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from draftwalk.convert.target_gguf import target_file, write_target
from draftwalk.convert.types import MIXES
from draftwalk.models import open_model
from fixtures import FIXTURES, write_json
from libllama import LlamaModel
from support.hf_targets import CONFIGS, PROMPT, write_hf_target
from support.passes import logits_of

TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")
# Relative to the largest logit. llama.cpp rounds activations to the type of the matrix's partner
# (8 bits for packed types, 16 for floats), and takes GELU from a table of half precision.
TOLERANCE = {"F32": 2e-2, "F16": 2e-2, "BF16": 4e-2, "Q8_0": 1.5e-1, "Q4_0": 1.5e-1, "Q4_1": 1.5e-1}


def main() -> None:
    """Rewrite the fixture."""
    recorded: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in CONFIGS:
            folder = write_hf_target(Path(scratch) / name, name, torch.bfloat16)
            recorded[name] = {kind: record(folder, kind) for kind in TYPES}
    write_json(FIXTURES / "target_conversions.json", recorded)


def record(folder: Path, kind: str) -> dict[str, object]:
    """llama.cpp's choices for one type."""
    path = folder / f"{kind}.gguf"
    checkpoint = open_model(folder)
    file = target_file(checkpoint, MIXES[kind], tokenizer={"tokenizer.ggml.model": "none"})
    write_target(path, file, checkpoint)
    with LlamaModel(path) as model:
        theirs = model.logits(PROMPT)
    ours = logits_of(path, PROMPT).numpy()
    errors = np.abs(ours - theirs).max(axis=1)
    error = float(errors.max())
    scale = float(np.abs(theirs).max())
    assert error < TOLERANCE[kind] * scale, (folder.name, kind, error, scale)
    two = np.sort(theirs, axis=1)[:, -2:]
    agree = int((ours.argmax(1) == theirs.argmax(1)).sum())
    print(f"{folder.name} {kind}: {agree} of {len(PROMPT)} agree, error {error / scale:.1e}")
    return {
        "argmax": theirs.argmax(1).tolist(),
        "lead": [round(float(lead), 4) for lead in two[:, 1] - two[:, 0]],
        "rounding": [round(2.2 * float(one) + 1e-4, 4) for one in errors],
    }


if __name__ == "__main__":
    main()
