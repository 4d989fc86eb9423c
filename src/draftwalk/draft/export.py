"""What this package adds to a drafter's checkpoint, and other engines pass over."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from draftwalk.draft.config import OWN_TABLE, WINDOW_KEY
from draftwalk.weights import RawTensor
from draftwalk.window import Calibration


def embedding_fingerprint(embedding: RawTensor) -> str:
    """Which target a drafter was trained for: SHA-256 of its embedding's format, shape and bytes.

    The bytes are those of the file that stores it.
    """
    digest = hashlib.sha256(f"{embedding.format.NAME} {embedding.shape}".encode())
    digest.update(embedding.data.data)
    return digest.hexdigest()


def calibration_table(calibration: Calibration) -> dict[str, object]:
    """A calibration as the table `window` of the table `draftwalk` in config.json."""
    return {
        "bias": list(calibration.bias),
        "slope": list(calibration.slope),
        "heat": calibration.heat,
        "labels": calibration.labels,
    }


def calibrated(config: Mapping[str, object], calibration: Calibration | None) -> dict[str, object]:
    """A drafter's config.json with this calibration, or without any; all else as it was."""
    own = config.get(OWN_TABLE)
    table = {k: v for k, v in own.items() if k != WINDOW_KEY} if isinstance(own, Mapping) else {}
    if calibration is not None:
        table[WINDOW_KEY] = calibration_table(calibration)
    rest = {key: value for key, value in config.items() if key != OWN_TABLE}
    return {**rest, OWN_TABLE: table} if table else rest
