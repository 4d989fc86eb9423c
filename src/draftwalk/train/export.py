"""Writing a trained drafter: for every engine, and small for this one."""

from __future__ import annotations

from pathlib import Path

from draftwalk.convert import Options, convert
from draftwalk.convert.drafter import read_drafter
from draftwalk.convert.factored import with_factors
from draftwalk.convert.replacing import check_free, replacing
from draftwalk.convert.types import MIXES
from draftwalk.convert.writing import write_gguf_drafter
from draftwalk.draft.export import embedding_fingerprint
from draftwalk.draft.pairing import EMBEDDING
from draftwalk.train.model import FACTORS
from draftwalk.train.snapshot import Snapshot
from draftwalk.weights import Checkpoint

FOLDER, SMALL = "drafter", "drafter.gguf"


def check_places(run: Path) -> None:
    """Checks that both forms can be written into a run's folder.

    Raises:
        UserError: there is something that is not replaced.
    """
    for name in (FOLDER, SMALL):
        check_free(run / name, force=True)


def export(drafter: Snapshot, target: Checkpoint, run: Path) -> None:
    """Writes both forms into a run's folder, in place of older ones.

    `drafter/` is a Hugging Face folder in bfloat16 with whole selector tables, which `convert`
    takes to other engines. `drafter.gguf` has Q4_0 matrices, which halve what a draft costs, and a
    selector stored as factors of the target's embedding, with that embedding's fingerprint.
    """
    options = Options(outtype=MIXES["BF16"], target=target, force=True)
    convert(drafter, run / FOLDER, "hf", options)
    read = read_drafter(drafter, None, whole_tables=False)
    if any(name in drafter.tensors for name in FACTORS):
        factors = {
            side: drafter.tensors[name]
            for side, name in zip(("predecessor", "successor"), FACTORS, strict=True)
        }
        read = with_factors(read, factors, embedding_fingerprint(target.tensors[EMBEDDING]))
    with replacing(run / SMALL, force=True) as beside:
        write_gguf_drafter(
            beside, read, {}, MIXES["Q4_0"], (), requantize=False, progress=lambda done, of: None
        )
