"""Packs a DFlash2 drafter with a factored selector into the GGUF file the package carries.

    python scripts/pack_drafter.py DRAFTER_FOLDER FACTORS.safetensors TARGET.gguf OUT.gguf

DRAFTER_FOLDER is a Hugging Face checkpoint; FACTORS holds `predecessor_projection.weight` and
`successor_projection.weight` [rank, width], whose products with the target's embedding are the
selector's tables. Matrices become Q8_0.
"""

import sys
from pathlib import Path

from draftwalk.convert.factored import write_factored
from draftwalk.convert.types import MIXES
from draftwalk.draft.export import embedding_fingerprint
from draftwalk.models import open_model
from draftwalk.weights.safetensors_file import read_safetensors


def main() -> None:
    """Reads the arguments, writes the file."""
    folder, factors, target, out = (Path(argument) for argument in sys.argv[1:])
    stored = read_safetensors(factors)
    embedding = open_model(target).tensors["model.embed_tokens.weight"]
    write_factored(
        out,
        open_model(folder),
        MIXES["Q8_0"],
        {side: stored[f"{side}_projection.weight"] for side in ("predecessor", "successor")},
        embedding_fingerprint(embedding),
    )


main()
