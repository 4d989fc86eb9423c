"""Where the recorded fixtures lie and how they are written: shared by all referee scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"


def write_json(path: Path, value: object) -> None:
    """Write `value` as readable JSON, the same bytes for the same value."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write named tensors to one safetensors file."""
    save_file(
        {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()},
        path,
        metadata={"format": "pt"},
    )


def empty_folder(path: Path) -> Path:
    """Make `path` an existing folder without files (its sub-folders are left alone)."""
    path.mkdir(parents=True, exist_ok=True)
    for old in path.iterdir():
        if old.is_file():
            old.unlink()
    return path


def size_of(path: Path) -> int:
    """Bytes of all files under `path`."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
