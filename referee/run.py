"""Rewrite all recorded fixtures, in the referee environment.

PYTHONPATH=src:tests python referee/run.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import chat_fixtures
import drafter_quantisation
import drafters
import interchange
import llama_cpp_logits
import model_files
import quant_errors
import quant_fixtures
import target_conversions
import targets
import tokenizer_fixtures
import vocabulary_fixtures
from fixtures import FIXTURES, ROOT, size_of


def main() -> None:
    """Run the recorders one after the other."""
    parser = argparse.ArgumentParser(description="rewrite tests/fixtures")
    parser.add_argument("--smollm2", type=Path, help="SmolLM2-135M-Instruct Q4_1 as GGUF")
    parser.add_argument("--gemma3", type=Path, help="Gemma 3 270M Q4_K_M as GGUF")
    parser.add_argument(
        "--vocabularies", type=Path, help="llama.cpp's folder `models` with its test vocabularies"
    )
    options = parser.parse_args()

    models = {
        "smollm2": options.smollm2 or model_files.smollm2(),
        "gemma3": options.gemma3 or model_files.gemma3(ROOT / ".referee" / "models"),
    }
    quant_fixtures.main()
    quant_errors.main()
    targets.main([])
    target_conversions.main()
    drafters.main([])
    interchange.main([])
    drafter_quantisation.main()
    for name, path in models.items():
        llama_cpp_logits.main([str(path), "--fixture", name])
    chat_fixtures.main()
    tokenizer_fixtures.main([str(path) for path in models.values()])
    if options.vocabularies is not None:
        vocabulary_fixtures.main([str(options.vocabularies)])
    print(f"{FIXTURES}: {size_of(FIXTURES)} bytes")


if __name__ == "__main__":
    main()
