"""Loops: fused elementwise expressions as native kernels, made from `plan.Loop`.

The innermost axis runs over vectors, with a masked rest; axes outside it are plain loops. Those with reductions are in
`reduction`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphnet.backends.numba.code.ir import LLVMValue
from graphnet.backends.numba.code.operands import LoopForm, OperandCode
from graphnet.backends.numba.code.reduction import ReductionCode


@dataclass(frozen=True)
class LoopKernel(LoopForm):
    """A loop's form, which has a text."""

    def text(self) -> str:
        return (ReductionCode(self) if self.reductions else _LoopCode(self)).module()


class _LoopCode(OperandCode):
    def __init__(self, kernel: LoopForm) -> None:
        super().__init__(kernel)
        self._nest(0, [])

    def _nest(self, axis: int, indices: list[LLVMValue]) -> None:
        if axis < self.kernel.axes - 1:

            def body(i: LLVMValue, _: list[LLVMValue]) -> list[LLVMValue]:
                self._nest(axis + 1, [*indices, i])
                return []

            self.loop(self.integer(0), self.sizes[axis], 1, [], body)
            return
        row = self._row(indices)
        if self.kernel.short:
            self._at(row, self.integer(0), self._short_mask())
        else:
            self._over_vectors(self.sizes[-1], lambda j, mask: self._at(row, j, mask))

    def _over_vectors(self, size: LLVMValue, body: Callable[[LLVMValue, LLVMValue | None], object]) -> None:
        lanes = self.lanes

        def vector(j: LLVMValue, _: list[LLVMValue]) -> None:
            body(j, None)

        if lanes == 1:
            self.loop(self.integer(0), size, 1, [], vector)
            return
        whole = self.binary("and", size, self.integer(-lanes))
        self.loop(self.integer(0), whole, lanes, [], vector)
        rest = self.subtract(size, whole)
        some = self.compare("sgt", rest, self.integer(0))
        self.when(some, lambda: body(whole, self.first_lanes(lanes, rest)))
