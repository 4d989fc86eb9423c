"""Arms of llama.cpp, native: plain and with our drafter, on files it can read."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from draftwalk.convert import Options, convert, mix_of
from draftwalk.errors import UserError
from draftwalk.models import open_model
from draftwalk.weights import GgufCheckpoint
from speculation_parts.answer import LLAMA, LLAMA_DFLASH2, Arm
from speculation_parts.llama_process import Answering, LlamaProcess

_QUANTISE = Path(__file__).parents[2] / "referee" / "quantise_target.py"


@dataclass(frozen=True, slots=True)
class Files:
    """What llama.cpp is given.

    Attributes:
        targets: by what their matrices are stored in.
        drafter: a GGUF file, for drafting.
    """

    targets: dict[str, Path]
    drafter: Path | None


def rival_arms(
    files: Files, answering: Answering, asked: Sequence[str], n_max: Sequence[int], stack: ExitStack
) -> list[Arm]:
    """Processes for every target: plain, and one for each number of drafted tokens.

    Raises:
        UserError: one does not start.
    """
    arms: list[Arm] = []
    for kind, target in files.targets.items():
        if LLAMA in asked:
            process = stack.enter_context(LlamaProcess(answering, target))
            arms.append(Arm(f"{LLAMA}/{kind}", LLAMA, process.ask, 0, kind))
        if LLAMA_DFLASH2 in asked:
            for most in n_max:
                process = stack.enter_context(LlamaProcess(answering, target, files.drafter, most))
                name = f"{LLAMA_DFLASH2}/{kind}/{most}"
                arms.append(Arm(name, LLAMA_DFLASH2, process.ask, most, kind))
    return arms


def format_of(path: Path) -> str:
    """What most of a file's values are stored in.

    Raises:
        UserError: it is no GGUF file.
    """
    checkpoint = open_model(path)
    if not isinstance(checkpoint, GgufCheckpoint):
        raise UserError(f"llama.cpp cannot read {path}", "give a GGUF file, or name --engines")
    sizes: Counter[str] = Counter()
    for raw in checkpoint.tensors.values():
        sizes[raw.format.NAME] += raw.size
    return sizes.most_common(1)[0][0]


def q4_0_of(target: Path, folder: Path, referee: Path) -> Path:
    """The target in Q4_0 by llama.cpp's own quantiser, in the referee's environment.

    Raises:
        UserError: there is none, or it fails.
    """
    path = folder / "target-q4_0.gguf"
    command = [str(referee.absolute()), str(_QUANTISE), str(target), str(path), "Q4_0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise UserError(f"{referee} cannot be run: {error.strerror}", "make referee") from error
    if done.returncode:
        last = (done.stderr.splitlines() or ["no reason given"])[-1]
        raise UserError(f"llama.cpp does not quantise the target: {last}", "give --target-q4-0")
    return path


def drafter_file(drafter: Path, target: Path, folder: Path) -> Path:
    """A drafter as llama.cpp reads it: whole selector tables, Q8_0 where it is no GGUF file yet.

    Raises:
        UserError: it cannot be converted.
    """
    found = open_model(drafter)
    path = folder / "drafter.gguf"
    outtype = None if isinstance(found, GgufCheckpoint) else mix_of("q8_0")
    convert(found, path, "gguf", Options(outtype=outtype, target=open_model(target)))
    return path
