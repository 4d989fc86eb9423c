"""`draftwalk quantize`: a drafter as GGUF with its matrices in fewer bits."""

from __future__ import annotations

from typing import Annotated

import typer

from draftwalk.cli.convert import (
    DESTINATION,
    FORCE,
    JSON,
    NO_TOKENIZER,
    REQUANTIZE,
    SOURCE,
    TARGET,
    TENSORS,
)
from draftwalk.cli.options import StoreOptions

_TYPE = Annotated[
    str,
    typer.Argument(
        metavar="TYPE",
        help="Q8_0, Q6_K, Q5_K_M, Q5_1, Q5_0, Q4_K_M, Q4_1, Q4_0, BF16, F16 or F32.",
    ),
]


def quantize(
    *,
    source: SOURCE,
    destination: DESTINATION,
    outtype: _TYPE,
    target: TARGET = None,
    tensor: TENSORS = None,
    no_tokenizer: NO_TOKENIZER = False,
    allow_requantize: REQUANTIZE = False,
    force: FORCE = False,
    as_json: JSON = False,
    store: StoreOptions,
) -> None:
    """Packs a drafter's matrices as llama.cpp would, and tells where another type was taken."""
    from draftwalk.cli import conversion

    conversion.run(
        conversion.Job(
            source,
            destination,
            target,
            "gguf",
            outtype,
            tuple(tensor or ()),
            not no_tokenizer,
            allow_requantize,
            force,
            whole_tables=False,
        ),
        store,
        as_json,
    )
