"""Contiguous batches: the text is cut into lanes side by side, and these into pieces of equal time.

The states after one piece are those before the next, so what a lane has read is never forgotten
(Lynge 2016, 4.2.4, after Karpathy, Johnson & Li 2015).

With a stride, pieces overlap: truncated BPTT(k₁, k₂) scores k₁ = stride steps of each piece and goes back through all
of its k₂ = time steps (Sutskever 2013, 2.8.6; Williams & Peng 1990).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.text import symbol_row
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import whole_number

__all__ = ["Batches"]


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
                f"stride must be at most time, {time}, not {stride}: what lies between two pieces would never be read"
            )
        self.batch = batch = whole_number("batch", batch)
        lane = (len(symbols) - 1) // batch if len(symbols) else 0
        self._count = (lane - time) // self.stride + 1 if lane >= time else 0
        if self._count < 1:
            raise DataError(
                f"the text has {len(symbols)} characters, fewer than one batch needs: {batch} lanes of {time} "
                f"steps take {batch * time + 1}. Use a longer text, or a smaller batch or time."
            )
        used = (self._count - 1) * self.stride + time
        self._inputs = np.ascontiguousarray(symbols[: batch * lane].reshape(batch, lane)[:, :used].T)
        self._targets = np.ascontiguousarray(symbols[1 : batch * lane + 1].reshape(batch, lane)[:, :used].T)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> tuple[Array, Array]:
        if not 0 <= i < self._count:
            raise IndexError(f"piece {i} of {self._count}")
        rows = slice(i * self.stride, i * self.stride + self.time)
        return self._inputs[rows], self._targets[rows]

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return (self[i] for i in range(self._count))
