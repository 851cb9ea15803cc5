"""Contiguous batches: the text is cut into lanes side by side, and these into pieces of equal time.

The states after one piece are those before the next, so what a lane has read is never forgotten
(Lynge 2016, 4.2.4, after Karpathy, Johnson & Li 2015).

With a stride, pieces overlap: truncated BPTT(k₁, k₂) scores k₁ = stride steps of each piece and goes back through all
of its k₂ = time steps (Sutskever 2013, 2.8.6; Williams & Peng 1990).

Cases of like lengths are put into batches of one length each, so that little is computed of what fills them up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.symbols import symbol_row
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import whole_number

__all__ = ["Batches", "bucket_of", "bucket_times"]

#: Longest steps that are told apart when lengths of batches are chosen: the others are rounded up.
DISTINCT = 200
#: One more length, which is compiled by itself, must save at least such a share of all steps.
WORTH = 0.05


class Batches:
    """Pieces (inputs, targets), each (time, batch): the target is the next symbol.

    stride: from the start of each piece to that of the next, at most `time`, which it is by default. The states before
    the next piece are then those after the first `stride` steps, and the last `stride` steps are those that no piece
    before had, but for the first piece, which is all new:

        u = network.unroll(time, batch, unscored=time - stride)    # to carry: u.after[stride - 1]

    What does not fill a whole piece at the end of the lanes is left out.
    Raises DataError if the text is shorter than one batch, UsageError for impossible sizes.
    """

    def __init__(self, symbols: Array, time: int, batch: int, stride: int | None = None) -> None:
        symbols = symbol_row("Batches: symbols", symbols)
        self.time = time = whole_number("time", time)
        self.stride = time if stride is None else whole_number("stride", stride)
        if self.stride > time:
            raise UsageError(
                f"stride must be at most time, {time}, not {stride}, or characters would never be read"
            )
        self.batch = batch = whole_number("batch", batch)
        lane = (len(symbols) - 1) // batch if len(symbols) else 0
        self._count = (lane - time) // self.stride + 1 if lane >= time else 0
        if self._count < 1:
            raise DataError(
                f"the text has {len(symbols)} characters, fewer than one batch needs: {batch} lanes of {time} "
                f"steps take {batch * time + 1}. Use a longer text, or a smaller batch or time."
            )
        self._symbols = symbols
        #: Of the first piece's inputs.
        self._positions = np.arange(time)[:, None] + lane * np.arange(batch)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> tuple[Array, Array]:
        if not 0 <= i < self._count:
            raise IndexError(f"piece {i} of {self._count}")
        at = self._positions + i * self.stride
        return self._symbols[at], self._symbols[at + 1]

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return (self[i] for i in range(self._count))


def bucket_times(lengths: Array, most: int, batch: int = 1) -> list[int]:
    """At most so many lengths to which cases are filled up, ascending, such that the fewest steps are computed

    The last is the longest; fewer, where one more would save less than 5 % of the steps. batch: so many cases are
    computed at once, in the last batch of a length, too, however many it has.
    """
    longest = int(lengths.max())
    grain = -(-longest // DISTINCT)
    times, counts = np.unique(np.minimum(-(-lengths // grain) * grain, longest), return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    # least[j]: steps of the cases up to times[j], where times[j] is one of the lengths; came[k][j]: the one before it.
    least = times * _filled(below[1:], batch)
    came: list[Array] = []
    chosen, best = 1, float(least[-1])
    for k in range(2, min(most, len(times)) + 1):
        # From i (the last length before) to j: all cases between are filled up to times[j].
        steps = least[:, None] + times[None, :] * _filled(below[None, 1:] - below[1:, None], batch)
        steps = np.where(np.arange(len(times))[:, None] < np.arange(len(times))[None, :], steps, np.inf)
        came.append(steps.argmin(axis=0))
        least = steps.min(axis=0)
        if least[-1] < best * (1 - WORTH):
            chosen, best = k, float(least[-1])
    at, found = len(times) - 1, [longest]
    for k in range(chosen, 1, -1):
        at = int(came[k - 2][at])
        found.append(int(times[at]))
    return found[::-1]


def _filled(cases: Array, batch: int) -> Array:
    return -(-cases // batch) * batch


def bucket_of(lengths: Array, times: list[int]) -> Array:
    """For each case the number of the shortest of these lengths that holds it."""
    return np.searchsorted(np.array(times), lengths)
