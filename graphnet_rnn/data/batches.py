"""Contiguous batches: the text is cut into lanes side by side, and these into pieces of equal time.

The states after one piece are those before the next, so what a lane has read is never forgotten
(Lynge 2016, 4.2.4, after Karpathy, Johnson & Li 2015).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphnet.node import Array
from graphnet_rnn.errors import DataError
from graphnet_rnn.settings import whole_number

__all__ = ["Batches"]


class Batches:
    """Pieces (inputs, targets), each (time, batch): the target is the next symbol.

    What does not fill a whole piece at the end of the lanes is left out.
    Raises DataError if the text is shorter than one batch, UsageError for impossible sizes.
    """

    def __init__(self, symbols: Array, time: int, batch: int) -> None:
        self.time = time = whole_number("time", time)
        self.batch = batch = whole_number("batch", batch)
        lane = (len(symbols) - 1) // batch if len(symbols) else 0
        self._count = lane // time
        if self._count < 1:
            raise DataError(
                f"the text has {len(symbols)} characters, fewer than one batch needs: {batch} lanes of {time} "
                f"steps take {batch * time + 1}. Use a longer text, or a smaller batch or time."
            )
        used = self._count * time
        self._inputs = np.ascontiguousarray(symbols[: batch * lane].reshape(batch, lane)[:, :used].T)
        self._targets = np.ascontiguousarray(symbols[1 : batch * lane + 1].reshape(batch, lane)[:, :used].T)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> tuple[Array, Array]:
        if not 0 <= i < self._count:
            raise IndexError(f"piece {i} of {self._count}")
        rows = slice(i * self.time, (i + 1) * self.time)
        return self._inputs[rows], self._targets[rows]

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        return (self[i] for i in range(self._count))
