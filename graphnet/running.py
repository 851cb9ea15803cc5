"""Running: a program called with checked arrays, and again with other ones for the inputs that vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphnet.arguments import checked_inputs
from graphnet.backends.base import Program
from graphnet.errors import BackendError
from graphnet.node import Array, Node

__all__ = ["InFiles", "Running"]


class InFiles:
    """What native code is held by: a file takes it to another process, and nothing else does."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Of pickle, copy, and processes that are spawned."""
        raise BackendError(
            f"a {type(self).__name__} cannot be pickled or copied, since it holds native code: write the compiled "
            "function to a file with function.save(path); gn.load_function(path) reads it, in another process too."
        )


class Running:
    """What calls a program. It keeps the arrays of the last call, if there are inputs that vary."""

    def __init__(self, inputs: Sequence[Node], program: Program) -> None:
        self.inputs, self.program = inputs, program
        self.varying = [i for i, node in enumerate(inputs) if node.op.varying]
        self._last: list[Array] | None = None
        self._failed = False

    def __call__(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        given = checked_inputs(self.inputs, arrays, self.program.taken)
        self._last, self._failed = None, True  # a run that fails leaves nothing to be run again
        outputs = tuple(self.program.run(given))
        self._failed = False
        if self.varying:
            self._last = given
        return outputs

    def again(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        """See Function.again."""
        if not self.varying:
            raise BackendError("again: none of the inputs was made with gn.input(..., varying=True)")
        if self._last is None:
            why = "the last call failed" if self._failed else "the function was not called before"
            raise BackendError(f"again: {why}; call it with all arrays first")
        other = checked_inputs([self.inputs[i] for i in self.varying], arrays, self.program.taken)
        for i, array in zip(self.varying, other, strict=True):
            self._last[i] = array
        return tuple(self.program.again(self._last))
