"""Contiguous batches: the text is cut into parallel lanes, and each lane into segments of equal length.

The states after one segment are the initial states of the next (Lynge 2016, 4.2.4, after Karpathy, Johnson & Li 2015).

With a stride, segments overlap: truncated BPTT(k₁, k₂) scores k₁ = stride steps of each segment and backpropagates
through all k₂ = time steps (Sutskever 2013, 2.8.6; Williams & Peng 1990).

Bucketing puts cases of similar length into one batch, to save padding.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.symbols import symbol_row
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import whole_number

#: Number of candidate lengths for buckets; other lengths are rounded up.
DISTINCT = 200
#: Minimum fraction of all steps that one more length must save, since each length is compiled separately.
WORTH = 0.05


class Batches:
    """Segments (inputs, targets) of a text, each (time, batch); the target is the next symbol.

    symbols: the text, one row of whole numbers.
    time: time steps of a segment.
    batch: number of lanes, equal parts of the text that are read in parallel.
    stride: time steps from the start of a segment to the start of the next, at most `time` (the default).

    With a smaller stride, segments overlap, and all but the first add `stride` new steps at their end. The states for
    the next segment are then those after the first `stride` steps:

        u = network.unroll(time, batch, unscored=time - stride)    # carry u.after[stride - 1]

    Symbols at the end of a lane that do not fill a segment are left out.
    Raises DataError if the text is shorter than one batch, UsageError for impossible sizes.

    >>> batches = rnn.data.Batches(np.arange(9), time=2, batch=2)
    >>> x, t = batches[0]
    >>> len(batches), x.tolist(), t.tolist()
    (2, [[0, 4], [1, 5]], [[1, 5], [2, 6]])
    """

    def __init__(self, symbols: Array, time: int, batch: int, stride: int | None = None) -> None:
        symbols = symbol_row("Batches: symbols", symbols)
        self.time = time = whole_number("time", time)
        self.stride = time if stride is None else whole_number("stride", stride)
        if self.stride > time:
            raise UsageError(
                f"stride must be at most time ({time}), so that no character is skipped; got {stride}"
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
        #: Start of the first segment's inputs in each lane.
        self._positions = np.arange(time)[:, None] + lane * np.arange(batch)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> tuple[Array, Array]:
        if not 0 <= i < self._count:
            raise IndexError(f"there is no segment {i}: there are {self._count}")
        at = self._positions + i * self.stride
        return self._symbols[at], self._symbols[at + 1]

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return (self[i] for i in range(self._count))


def bucket_times(lengths: Array, most: int, batch: int = 1) -> list[int]:
    """Chooses padded lengths, ascending and at most `most`, that minimize the number of computed time steps.

    The last is the longest length. There are fewer if one more would save less than 5 % of the steps.
    batch: cases that are computed at once; the last batch of each length is filled up to this number.
    """
    longest = int(lengths.max())
    grain = -(-longest // DISTINCT)
    times, counts = np.unique(np.minimum(-(-lengths // grain) * grain, longest), return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    # least[j]: minimum steps for cases up to times[j], if times[j] is a length; came[k][j]: the length before it.
    least = times * _filled(below[1:], batch)
    came: list[Array] = []
    chosen, best = 1, float(least[-1])
    for k in range(2, min(most, len(times)) + 1):
        # Cases between i (the length before) and j are padded to times[j].
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
    """Returns, for each case, the index of the shortest of these lengths that holds the case."""
    return np.searchsorted(np.array(times), lengths)
