"""The fingerprint of an embedding: which target a drafter was trained for."""

from __future__ import annotations

import hashlib

from draftwalk.weights import RawTensor


def embedding_fingerprint(embedding: RawTensor) -> str:
    """SHA-256 of an embedding as its file stores it: format, shape and bytes."""
    digest = hashlib.sha256(f"{embedding.format.NAME} {embedding.shape}".encode())
    digest.update(embedding.data.data)
    return digest.hexdigest()
