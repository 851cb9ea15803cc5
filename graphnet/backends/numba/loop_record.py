"""What the records of loops touch: the memory of `OperandCode` and `ReductionCode`, told in numbers."""

from __future__ import annotations

from graphnet.backends.numba.operands import LoopForm, Operand, Reduced
from graphnet.backends.numba.records import Axes, Number, RecordForm, Touched, constant, word

__all__ = ["record_of"]


def record_of(form: LoopForm) -> RecordForm:
    return _LoopRecord(form).record()


class _LoopRecord:
    """The words in their order, as `OperandCode` and `ReductionCode` take them."""

    def __init__(self, form: LoopForm) -> None:
        self.form = form
        axes = form.axes
        self.sizes = [word(3 + a) for a in range(axes)]
        if form.short:
            self.sizes[-1] = constant(form.short)
        self.strides = [[word(3 + axes * (k + 1) + a) for a in range(axes)] for k in range(form.strides)]
        self.next = 3 + axes * (1 + form.strides)
        self.found: list[Touched] = []
        self.fixed: list[tuple[int, int]] = []

    def record(self) -> RecordForm:
        form = self.form
        counts: dict[int, Number] = {}
        for k, load in enumerate(form.loads):
            base = self._word()
            at = -1
            if load.kind != "plain" and load.twin < 0:
                at, counts[k] = self._word(), word(self._word())
            self._load(load, base, at, counts.get(load.twin, counts.get(k)))
        for store in form.stores:
            axes = (*self._outer(store.strides), self._last(store.strides, store.move, stored=True))
            self.found.append(Touched(self._word(), form.dtype_of(store.number).itemsize, True, axes))
        for reduced in form.reductions:
            axes = self._reduced(reduced)
            self.found.append(Touched(self._word(), reduced.dtype.itemsize, True, axes))
        return RecordForm(self.next, True, tuple(self.found), tuple(self.fixed))

    def _word(self) -> int:
        self.next += 1
        return self.next - 1

    def _outer(self, strides: int) -> Axes:
        """All axes but the innermost."""
        return tuple(zip(self.sizes[:-1], self.strides[strides], strict=False))

    def _last(self, strides: int, move: str, stored: bool = False) -> tuple[Number, Number]:
        """The innermost axis."""
        step = self.strides[strides][-1]
        if move == "vector" or (move == "same" and not stored):
            step = constant(int(move == "vector"))
        return self.sizes[-1], step

    def _load(self, load: Operand, base: int, at: int, count: Number | None) -> None:
        last, item = self._last(load.strides, load.move), load.dtype.itemsize
        index = 0 if load.index_dtype is None else load.index_dtype.itemsize
        if load.kind == "plain":
            self.found.append(Touched(base, item, False, (*self._outer(load.strides), last)))
            return
        assert count is not None
        if load.kind == "columns":
            row = (self._last(load.index_strides, load.index_move),)
            self.found.append(Touched(at, index, False, row))
            looked_up = (count, self.strides[load.strides][-1])
            self.found.append(Touched(base, item, False, (*self._outer(load.strides), looked_up)))
            return
        if at >= 0:
            self.found.append(Touched(at, index, False, self._outer(load.index_strides)))
        if load.kind == "rows":
            self.found.append(Touched(base, item, False, ((count, self.strides[load.strides][0]), last)))

    def _reduced(self, reduced: Reduced) -> Axes:
        """The axes that are kept. Results of rows side by side are written as one vector, if they lie so."""
        form, strides = self.form, self.strides[reduced.strides]
        kept = form.axes - form.reduced
        if not kept:
            return ()
        step = strides[kept - 1]
        size = self.sizes[kept - 1] if form.vector_axis_reduced else self.sizes[-1]
        if reduced.move == "vector" and form.vector_axis_reduced:
            self.fixed.append((step.word, 1))
        elif reduced.move == "vector":
            step = constant(1)
        return (*zip(self.sizes[: kept - 1], strides, strict=False), (size, step))
