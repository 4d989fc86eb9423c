"""Answers with their features on disk: checksummed shards of a folder, read through memory maps.

A folder has `answers.json` (what all shards have in common), and for each shard a safetensors file
and a JSON file beside it, which lists the answers in it and is written last: a shard without one
does not exist. No name is ever used again. In a shard the answers stand one after the other:

    tokens    I32 [N]           prompt and answer
    learned   BOOL [N]          whether the token is the target's own, the end of turn included
    starts    I64 [A + 1]       where each answer's tokens begin
    features  BF16 [N - A, F * H]   outputs of the tapped layers for all tokens but an answer's last
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftwalk.errors import UserError
from draftwalk.quant import formats_by_name
from draftwalk.weights.json_file import read_json_object
from draftwalk.weights.safetensors_file import read_safetensors
from draftwalk.weights.safetensors_writer import write_safetensors
from draftwalk.weights.tensor import RawTensor
from draftwalk.weights.whole_file import whole_file

HEADER = "answers.json"


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What all answers of a folder have in common; a folder never mixes two of these.

    Attributes:
        target: fingerprint of the target's embedding.
        template: digest of its chat template.
        back_end: what computed the features.
        taps: the layers listened to.
        width: values of one layer.
        vocabulary: tokens of the target.
        sampled: share of prompts answered by sampling.
        temperature: of those.
        max_tokens: most tokens of an answer.
        whole: answers that loop are kept whole; otherwise they end where the loop begins.
    """

    target: str
    template: str
    back_end: str
    taps: tuple[int, ...]
    width: int
    vocabulary: int
    sampled: float
    temperature: float
    max_tokens: int
    whole: bool

    @property
    def bytes_per_token(self) -> int:
        """What a token takes on disk."""
        return 2 * len(self.taps) * self.width + 5


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What is known of one answer.

    Attributes:
        key: the prompt's identifier.
        source: the prompt's file.
        greedy: answered greedily.
        seed: of its noise: 53 bits of a digest of the prompt's turns, by which a prompt is known
            again whatever its identifier and file.
        loop: the place in the record where it begins to loop, or `None`.
        finish: why it ended: "stop", "length", or "loop" where it was cut.
    """

    key: str
    source: str
    greedy: bool
    seed: int
    loop: int | None
    finish: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One record.

    Attributes:
        facts: what is known of it.
        tokens: [n] int64, prompt and answer, maybe of several turns.
        learned: [n] bool, which tokens the target chose.
        features: [n - 1, F * H] bfloat16; those of the last token were never computed.
    """

    facts: AnswerFacts
    tokens: Tensor
    learned: Tensor
    features: Tensor


class ShardWriter:
    """Appends shards to a folder, to which others may write at the same time.

    Args:
        folder: made if it is missing.
        facts: must be those of the shards already there.

    Raises:
        UserError: the folder holds answers of another target or with other settings.
    """

    def __init__(self, folder: Path, facts: DataFacts) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        header = folder / HEADER
        if header.exists():
            _check_same(read_facts(folder), facts, folder)
        else:
            _write_json(header, asdict(facts))

    def write(self, answers: Sequence[Answer]) -> int:
        """Writes a shard; its bytes."""
        path = _taken(self._folder)
        starts = np.cumsum([0, *(len(a.tokens) for a in answers)], dtype=np.int64)
        tensors = [
            _raw("tokens", "I32", torch.cat([a.tokens for a in answers]).to(torch.int32)),
            _raw("learned", "BOOL", torch.cat([a.learned for a in answers])),
            _raw("starts", "I64", torch.from_numpy(starts)),
            _raw("features", "BF16", torch.cat([a.features for a in answers])),
        ]
        write_safetensors(path, tensors)
        _write_json(
            path.with_suffix(".json"),
            {"sha256": _digest(path), "answers": [asdict(a.facts) for a in answers]},
        )
        return path.stat().st_size


class AnswerSet:
    """The answers of a folder, or of several, whose features are those of the layers all have.

    Args:
        folder: written by `ShardWriter`.
        more: further ones, of the same target.
        verify: compare checksums, which reads everything once.

    Raises:
        UserError: there are none, a shard is damaged, or folders do not belong together.
    """

    def __init__(self, folder: Path, *more: Path, verify: bool = False) -> None:
        self.folder = folder
        self._shards: list[_Shard] = []
        self._where: list[tuple[int, int]] = []
        every = [read_facts(one) for one in (folder, *more)]
        self.facts = _in_common(every, (folder, *more))
        for one, facts in zip((folder, *more), every, strict=True):
            before = len(self._where)
            for path in _listed(one):
                self._add(path, facts, verify)
            if len(self._where) == before:
                raise no_answers(one)

    def _add(self, path: Path, facts: DataFacts, verify: bool) -> None:
        digest, answers = _read_list(path)
        whole = path.with_suffix(".safetensors")
        if verify and whole.exists() and _digest(whole) != digest:
            raise _damaged(whole, "its checksum differs")
        shard = _Shard(whole, digest, answers, facts)
        self._where += [(len(self._shards), n) for n in range(len(shard.facts))]
        self._shards.append(shard)

    def __len__(self) -> int:
        return len(self._where)

    def __getitem__(self, number: int) -> Answer:
        shard, n = self._where[number]
        features = self._shards[shard].features(n, self.facts.taps)
        assert features is not None, "all shards have what is common to all"
        return Answer(self.about(number), *self.text(number), features)

    def keeping(self, layer: int) -> int:
        """How many answers have the outputs of a layer."""
        return sum(layer in self._shards[shard].taps for shard, _ in self._where)

    def features(self, number: int, taps: Sequence[int]) -> Tensor | None:
        """Features [n - 1, F * H] of some layers in an answer; `None` if it lacks one of them."""
        shard, n = self._where[number]
        return self._shards[shard].features(n, taps)

    def text(self, number: int) -> tuple[Tensor, Tensor]:
        """Tokens [n] int64 of an answer, and which of them the target chose [n] bool."""
        shard, n = self._where[number]
        return self._shards[shard].text(n)

    def about(self, number: int) -> AnswerFacts:
        """What is known of an answer, without reading it."""
        shard, n = self._where[number]
        return self._shards[shard].facts[n]

    def size(self, number: int) -> int:
        """Tokens of an answer with its prompt."""
        shard, n = self._where[number]
        return self._shards[shard].size(n)

    def __iter__(self) -> Iterator[Answer]:
        return (self[number] for number in range(len(self)))

    @property
    def tokens(self) -> int:
        """Of all answers with their prompts."""
        return sum(self.size(number) for number in range(len(self)))

    @property
    def shards(self) -> list[tuple[str, int]]:
        """Digest and count of answers of every shard, in the order of the answers' numbers."""
        return [(shard.digest, len(shard.facts)) for shard in self._shards]

    @property
    def checksum(self) -> str:
        """One digest for all shards."""
        return hashlib.sha256("".join(digest for digest, _ in self.shards).encode()).hexdigest()


class _Shard:
    """One shard, mapped."""

    def __init__(
        self, path: Path, digest: str, answers: list[AnswerFacts], facts: DataFacts
    ) -> None:
        self.digest = digest
        self.facts = answers
        self.taps = facts.taps
        self._width = facts.width
        tensors = read_safetensors(path)
        self._tokens = tensors["tokens"].data.view(np.int32)
        self._learned = tensors["learned"].data.view(np.bool_)
        self._starts: NDArray[np.int64] = tensors["starts"].data.view(np.int64)
        width = len(facts.taps) * facts.width
        self._features = tensors["features"].data.view(np.int16).reshape(-1, width)
        if len(self._starts) != len(self.facts) + 1 or self._starts[-1] != len(self._tokens):
            raise _damaged(path, "it and the list beside it disagree")

    def size(self, n: int) -> int:
        return int(self._starts[n + 1] - self._starts[n])

    def text(self, n: int) -> tuple[Tensor, Tensor]:
        part = slice(int(self._starts[n]), int(self._starts[n + 1]))
        tokens, learned = self._tokens[part].astype(np.int64), np.array(self._learned[part])
        return torch.from_numpy(tokens), torch.from_numpy(learned)

    def features(self, n: int, taps: Sequence[int]) -> Tensor | None:
        kept, width = self.taps, self._width
        if not set(taps) <= set(kept):
            return None
        first, end = int(self._starts[n]), int(self._starts[n + 1])
        rows = self._features[first - n : end - n - 1]
        parts = [kept.index(tap) * width for tap in taps]
        found = np.concatenate([rows[:, start : start + width] for start in parts], axis=1)
        return torch.from_numpy(found).view(torch.bfloat16)


def read_facts(folder: Path) -> DataFacts:
    """What the answers of a folder have in common.

    Raises:
        UserError: the folder holds no answers.
    """
    if not (folder / HEADER).exists():
        raise no_answers(folder)
    values = read_json_object(folder / HEADER)
    try:
        return DataFacts(**{**values, "taps": tuple(values["taps"])})  # type: ignore[arg-type]
    except (KeyError, TypeError):
        raise UserError(
            f"{folder / HEADER} is damaged: it does not say what the answers have in common",
            "use another folder",
        ) from None


def no_answers(folder: Path) -> UserError:
    """What is wrong with a folder that has none."""
    return UserError(f"{folder} holds no answers", "make them with draftwalk train answers")


def answered_seeds(folder: Path) -> set[int]:
    """Seeds, and by that the texts, of the prompts answered so far."""
    if not (folder / HEADER).exists():
        return set()
    return {one.seed for path in _listed(folder) for one in _read_list(path)[1]}


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.json"))


def _read_list(path: Path) -> tuple[str, list[AnswerFacts]]:
    """The digest of a shard, and what is known of its answers."""
    values = read_json_object(path)
    try:
        entries: list[dict[str, Any]] = values["answers"]  # type: ignore[assignment]
        return str(values["sha256"]), [AnswerFacts(**entry) for entry in entries]
    except (KeyError, TypeError):
        raise _damaged(path, "it is no list of answers") from None


def _damaged(path: Path, why: str) -> UserError:
    both = f"{path.stem}.safetensors and {path.stem}.json"
    hint = f"remove {both}; draftwalk train answers then answers their prompts again"
    return UserError(f"{path} is damaged: {why}", hint)


def _taken(folder: Path) -> Path:
    """A name behind those of all shards, also of removed and unfinished ones beside others.

    There is an empty file under it at once, so that it is nobody else's.
    """
    names = (re.match(r"shard-(\d+)\.", path.name) for path in folder.iterdir())
    number = max((int(found[1]) for found in names if found), default=-1) + 1
    while True:
        path = folder / f"shard-{number:05d}.safetensors"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return path


def _in_common(every: Sequence[DataFacts], folders: Sequence[Path]) -> DataFacts:
    """The first folder's facts, with the taps that all have."""
    first = every[0]
    for facts, folder in zip(every, folders, strict=True):
        alike = replace(
            facts,
            taps=first.taps,
            sampled=first.sampled,
            temperature=first.temperature,
            max_tokens=first.max_tokens,
        )
        _check_same(alike, first, folder)
    taps = tuple(tap for tap in first.taps if all(tap in facts.taps for facts in every))
    return replace(first, taps=taps)


def _check_same(there: DataFacts, asked: DataFacts, folder: Path) -> None:
    for (name, old), new in zip(asdict(there).items(), asdict(asked).values(), strict=True):
        if old != new:
            raise UserError(
                f"{folder} holds answers with {name} {old}, asked for is {new}",
                "use another folder",
            )


def _raw(name: str, kind: str, values: Tensor) -> RawTensor:
    if values.dtype == torch.bfloat16:
        values = values.view(torch.int16)
    data = values.contiguous().numpy()
    return RawTensor(name, data.shape, formats_by_name()[kind], data.reshape(-1).view(np.uint8))


def _write_json(path: Path, values: object) -> None:
    with whole_file(path) as file:
        # Names of files may have bytes that are no characters: they are escaped.
        file.write((json.dumps(values, indent=1) + "\n").encode())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
