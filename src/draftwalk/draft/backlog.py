"""Features that a drafter has not learned yet, because its texts do not draft at the moment.

Learning them row by row would cost something in every step. They are kept as they are, and learned
together once somebody asks for a draft or there are too many of them. What a drafter makes of a row
does not depend on which rows it learns along with it, so it drafts as if it had never waited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from torch import Tensor, cat

from draftwalk.draft import Drafter
from draftwalk.rows import Rows, Rowset, Span

MOST = 128  # rows that wait in a slot


@dataclass(slots=True)
class _Waiting:
    """Rows of one slot.

    Attributes:
        features: [MOST, F * H]; the first `count` are used.
        first: place of the first of them.
        count: how many there are; once the drafter knows them, they are no longer waiting.
    """

    features: Tensor
    first: int = 0
    count: int = 0


class Backlog:
    """Stands between a loop and its drafter's memory, which it may let fall behind.

    Args:
        drafter: whose memory it is.
    """

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._waiting: dict[int, _Waiting] = {}

    def observe(
        self, rows: Rows, features: Tensor, kept: Mapping[int, int], idle: Collection[int]
    ) -> None:
        """Learns the features of kept rows, or keeps those of idle slots.

        Args:
            rows: a pass of the target.
            features: [T, F * H] of its rows.
            kept: how many of each slot's rows are kept.
            idle: slots that can wait.
        """
        now = []
        for span in rows.spans:
            count = kept[span.sequence]
            if span.sequence in idle and self.waiting(span.sequence) + count <= MOST:
                self._keep(span, features, count)
            else:
                now.append(span)
        if now:
            self.catch_up(span.sequence for span in now)
            slots = {span.sequence: kept[span.sequence] for span in now}
            some = rows if len(now) == len(rows.spans) else replace(rows, spans=tuple(now))
            self._drafter.observe(some, features, slots)

    def catch_up(self, slots: Iterable[int]) -> None:
        """Learns all that waits in some slots."""
        late = [slot for slot in slots if self.waiting(slot)]
        if not late:
            return
        parts = [self._waiting[slot] for slot in late]
        state = self._drafter.state
        rowsets = [
            Rowset(slot, [0] * part.count, state.length(slot), "none")
            for slot, part in zip(late, parts, strict=True)
        ]
        features = parts[0].features[: parts[0].count]
        if len(parts) > 1:
            features = cat([part.features[: part.count] for part in parts])
        rows = Rows.lay_out(rowsets, features.device)
        self._drafter.observe(rows, features, {span.sequence: span.size for span in rows.spans})

    def waiting(self, slot: int) -> int:
        """How many rows wait in a slot."""
        part = self._waiting.get(slot)
        if part is None or part.first + part.count <= self._drafter.state.length(slot):
            return 0
        return part.count

    def length(self, slot: int) -> int:
        """Rows of the slot that are learned or wait."""
        return self._drafter.state.length(slot) + self.waiting(slot)

    def reachable(self, slot: int, length: int) -> int:
        """The greatest length, at most `length`, that the slot can go back to."""
        learned = self._drafter.state.length(slot)
        if length >= learned:
            return min(length, self.length(slot))
        return self._drafter.state.reachable(slot, length)

    def truncate(self, slot: int, length: int) -> int:
        """Goes back to `length`, or the nearest reachable one before it; returns that length."""
        length = self.reachable(slot, length)
        learned = self._drafter.state.length(slot)
        if slot in self._waiting:
            self._waiting[slot].count = max(0, length - learned)
        if length < learned:
            self._drafter.state.truncate(slot, length)
        return length

    def close(self, slot: int) -> None:
        """Forgets the slot, here and in the drafter's memory."""
        self._waiting.pop(slot, None)
        self._drafter.state.close(slot)

    def _keep(self, span: Span, features: Tensor, count: int) -> None:
        """Copies the span's first rows: the pass's own memory is used again."""
        count = min(count, self._drafter.context - span.context)  # no block stands behind others
        if count <= 0:
            return
        part = self._waiting.get(span.sequence)
        if part is None:
            part = _Waiting(features.new_empty((MOST, features.shape[1])))
            self._waiting[span.sequence] = part
        if not self.waiting(span.sequence):
            part.first, part.count = span.context, 0
        start = part.count
        part.features[start : start + count] = features[span.start : span.start + count]
        part.count += count
