"""The rows of one sequence as a verdict or a drafter looks at them: each when its turn comes.

What a pass has found already, the greatest logit of each row, is all that greedy needs. Other rows
go to the extension where it can take them, else to the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from draftwalk.settings import Sampling
from draftwalk.verify.distribution import Support, row_fault, supports
from draftwalk.verify.native import chooser_for, native_rows
from draftwalk.verify.verdict import Certain, Row


@dataclass(frozen=True, slots=True)
class Logits:
    """Logits of some rows.

    Attributes:
        values: [R, V].
        peaks: the greatest of each row, NaN if there is one, and
        best: its id; empty where the pass has not looked for them.
    """

    values: Tensor
    peaks: Sequence[float] = ()
    best: Sequence[int] = ()

    @staticmethod
    def of(values: Tensor, greatest: tuple[Tensor, Tensor] | None) -> Logits:
        """With the greatest logits [R] and their ids [R], if they are known."""
        if greatest is None:
            return Logits(values)
        peaks, best = greatest
        return Logits(values, peaks.tolist(), best.tolist())

    def part(self, start: int, stop: int) -> Logits:
        """Some of the rows."""
        if stop - start == self.values.shape[0]:
            return self
        return Logits(self.values[start:stop], self.peaks[start:stop], self.best[start:stop])

    def rows(
        self, sampling: Sampling, history: Sequence[int], draft: Sequence[int]
    ) -> Iterator[Row]:
        """One after the other, as far as they are asked for.

        Args:
            sampling: the filters.
            history: all committed tokens, prompt included, the anchor last.
            draft: the drafted tokens; row i has seen history + draft[:i], where draft may have
                grown until row i is asked for.
        """
        if self.best and sampling.greedy and sampling.plain:
            return self._greatest()
        chooser = chooser_for(self.values)
        if chooser is not None:
            return native_rows(chooser, self.values, sampling, history, draft)
        if len(draft) + 1 == len(self.values):
            return iter(supports(self.values, sampling, history, draft))
        return self._growing(sampling, history, draft)

    def _greatest(self) -> Iterator[Row]:
        for n, (peak, token) in enumerate(zip(self.peaks, self.best, strict=True)):
            fault = row_fault(n, peak, peak)
            yield Certain(token) if fault is None else Support.unusable(fault)

    def _growing(
        self, sampling: Sampling, history: Sequence[int], draft: Sequence[int]
    ) -> Iterator[Row]:
        """The reference, one row at a time, since the text before it is not known sooner."""
        for n in range(len(self.values)):
            text = history if sampling.plain else [*history, *draft[:n]]
            yield supports(self.values[n : n + 1], sampling, text, ())[0]
