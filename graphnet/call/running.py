"""Running: a program called with checked arrays, and again with other ones for the inputs that vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet.backends.base import Program
from graphnet.call.arguments import checked_inputs
from graphnet.errors import BackendError, DtypeError
from graphnet.graph.node import Array, Node

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
    """What calls a program. It keeps the arrays of the last call, if there are inputs that vary.

    updated: positions of the inputs whose arrays take the values of the last of the program's outputs; or None.
    """

    def __init__(
        self, inputs: Sequence[Node], program: Program, updated: Sequence[int] | None = None
    ) -> None:
        self.inputs, self.program, self.updated = inputs, program, updated
        self.varying = [i for i, node in enumerate(inputs) if node.op.varying]
        self._last: list[Array] | None = None
        self._failed = False

    def __call__(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        given = checked_inputs(self.inputs, arrays, self.program.taken)
        if self.updated:
            return self._updating(arrays, given)
        self._last, self._failed = None, True  # a run that fails leaves nothing to be run again
        outputs = tuple(self.program.run(given))
        self._failed = False
        if self.varying:
            self._last = given
        return outputs

    def _updating(self, arrays: Sequence[Any], given: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs, once the arrays are updated. Nothing is written if the run fails."""
        assert self.updated is not None
        for i in self.updated:
            _require_writable(self.inputs[i], arrays[i], given[i])
        outputs = self.program.run(given)
        if self.program.updates_in_place:
            return tuple(outputs)
        count = len(outputs) - len(self.updated)
        for i, value in zip(self.updated, outputs[count:], strict=True):
            given[i][...] = value
        return tuple(outputs[:count])

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


def _require_writable(node: Node, array: Any, found: Any) -> None:
    """DtypeError unless what is written to the array that was found reaches the one that was given."""
    if not isinstance(found, np.ndarray):
        return
    if found is not array or not found.flags.writeable or not found.flags.c_contiguous:
        if isinstance(array, np.ndarray):
            readable = "" if array.flags.writeable else ", read-only"
            pieces = "" if array.flags.c_contiguous else ", not in one piece"
            what = f"{array.dtype} of shape {list(array.shape)}{readable}{pieces}"
        else:
            what = f"a {type(array).__name__}"
        raise DtypeError(
            f"input {node.describe()} (made at {node.origin}) is updated, so it must be given an array of {node.dtype} "
            f"that can be written and lies in one piece, not {what}"
        )
