"""Running: calls a program with checked arrays, and again with new ones for the inputs that vary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from graphnet.backends.base import Program
from graphnet.call.arguments import checked_inputs
from graphnet.errors import BackendError, DtypeError, ValueAccessError
from graphnet.graph.node import Array, Node
from graphnet.settings import shown


class CompiledCallable:
    """Base of compiled functions, which hold native code: immutable, and stored only by `save`."""

    _running: Running

    def __setattr__(self, name: str, value: Any) -> None:
        if "_running" in vars(self):  # set last
            raise ValueAccessError(
                f"{name} cannot be set to {shown(value)}: compiled functions are immutable; compile another: "
                "gn.compile(outputs, inputs, backend=..., threads=...)"
            )
        super().__setattr__(name, value)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise BackendError(
            f"a {type(self).__name__} cannot be pickled or copied, since it holds native code: write the compiled "
            "function to a file with function.save(path); gn.load_function(path) reads it, in another process too."
        )


class Running:
    """Calls a program. Keeps the arrays of the last call, if there are inputs that vary.

    updated: positions of the inputs whose arrays take the values of the last outputs of the program; or None.
    begun: positions of the outputs that depend on nothing that varies. beginning: makes a program of these alone, for
    programs that cannot run a part of their work. waits: True if the program computes some of these outputs only after
    nodes that vary, as when values are computed again to save memory; None for False.
    """

    def __init__(
        self,
        inputs: Sequence[Node],
        program: Program,
        updated: Sequence[int] | None = None,
        parameters: Sequence[Node] = (),
        begun: Sequence[int] = (),
        beginning: Callable[[], Program] | None = None,
        waits: Callable[[], bool] | None = None,
    ) -> None:
        self.inputs, self.program, self.updated = inputs, program, updated
        self.parameters = parameters
        self.varying = [i for i, node in enumerate(inputs) if node.op.varying]
        self._varying_inputs = [inputs[i] for i in self.varying]
        self._last: list[Array] | None = None
        self._failed = False
        self.begun, self._make_beginning = tuple(begun), beginning
        self._beginning: Program | None = None
        self._waits = waits
        self._in_parts: bool | None = True if waits is None else None
        #: True if the program has yet to compute nodes that do not vary.
        self._whole = False

    def __call__(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        given = checked_inputs(self.inputs, arrays, self.program.taken)
        if self.updated:
            return self._updating(arrays, given)
        self._last, self._failed = None, True  # invalid if the run fails
        outputs = tuple(self.program.run(given))
        self._failed = self._whole = False
        if self.varying:
            self._last = given
        return outputs

    def begin(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        self._require_varying("begin")
        assert self._make_beginning is not None
        others = [node for node in self.inputs if not node.op.varying]
        checked = iter(checked_inputs(others, arrays, self.program.taken))
        given = [
            np.zeros(node.shape, node.dtype) if node.op.varying else next(checked) for node in self.inputs
        ]
        self._last, self._failed = None, True
        if self._in_parts is None:
            assert self._waits is not None
            self._in_parts = not self._waits()
        outputs = self.program.begin(given, self.begun) if self._in_parts else None
        self._whole = outputs is None
        if outputs is None:
            self._beginning = self._beginning or self._make_beginning()
            outputs = self._beginning.run([given[i] for i in range(len(given)) if i not in self.varying])
        self._last, self._failed = given, False
        return tuple(outputs)

    def restart(self) -> None:
        """Makes the next `again` compute all nodes, after the program ran on other arrays."""
        self._whole = True

    def _require_varying(self, who: str) -> None:
        if not self.varying:
            raise BackendError(f"{who}: none of the inputs was made with gn.input(..., varying=True)")

    def _updating(self, arrays: Sequence[Any], given: Sequence[Array]) -> tuple[Array, ...]:
        """Returns the outputs after updating the arrays. Nothing is written if the run fails."""
        assert self.updated is not None
        for i in self.updated:
            _require_writable(self.inputs[i], arrays[i], given[i])
        self._require_apart(given)
        within = [i for i in self.updated if self._is_in_parameters(given[i])]
        if within:
            # All nodes read the old parameters, so updates are written to copies first.
            copies = {i: given[i].copy() for i in within}
            outputs = self.program.run([copies.get(i, array) for i, array in enumerate(given)])
            if self.program.updates_in_place:
                for i, copied in copies.items():
                    given[i][...] = copied
        else:
            outputs = self.program.run(given)
        if self.program.updates_in_place:
            return tuple(outputs)
        count = len(outputs) - len(self.updated)
        for i, value in zip(self.updated, outputs[count:], strict=True):
            given[i][...] = value
        return tuple(outputs[:count])

    def _require_apart(self, given: Sequence[Any]) -> None:
        assert self.updated is not None
        spans = sorted((*span, i) for i, array in enumerate(given) if (span := _span(array)) is not None)
        furthest, owner = 0, -1
        for start, end, i in spans:
            if start < furthest and (i in self.updated or owner in self.updated):
                a, b = sorted((owner, i))
                raise BackendError(
                    f"the arrays of inputs {a} and {b} of this function share memory, and it updates one of them; pass "
                    "a copy of the other"
                )
            if end > furthest:
                furthest, owner = end, i

    def _is_in_parameters(self, array: Any) -> bool:
        span = _span(array)
        found = (_span(node.value) for node in self.parameters) if span is not None else ()
        return any(other is not None and span[0] < other[1] and other[0] < span[1] for other in found)  # type: ignore[index]

    def again(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        self._require_varying("again")
        if self._last is None:
            why = "the last call failed" if self._failed else "the function was not called before"
            raise BackendError(f"again: {why}; call the function with all arrays first")
        other = checked_inputs(self._varying_inputs, arrays, self.program.taken)
        given = self._last.copy()  # another thread may be here, too
        for i, array in zip(self.varying, other, strict=True):
            given[i] = array
        self._last = given
        if not self._whole:
            return tuple(self.program.again(given))
        outputs = tuple(self.program.run(given))
        self._whole = False
        return outputs


def _span(array: Any) -> tuple[int, int] | None:
    """Returns start and end address of a host array; None for other arrays, and for empty ones."""
    if not isinstance(array, np.ndarray) or not array.size:
        return None
    if array.flags.c_contiguous:  # the usual case, at every step of an optimizer
        start: int = array.__array_interface__["data"][0]
        return start, start + array.nbytes
    low, high = byte_bounds(array)
    return low, high


def _require_writable(node: Node, array: Any, found: Any) -> None:
    """Raises DtypeError unless writing to `found` changes the array that was given."""
    if not isinstance(found, np.ndarray):
        return
    if found is not array or not found.flags.writeable or not found.flags.c_contiguous:
        if isinstance(array, np.ndarray):
            readable = "" if array.flags.writeable else ", read-only"
            pieces = "" if array.flags.c_contiguous else ", not contiguous"
            kind = "" if type(array) is np.ndarray else f"a {type(array).__name__} of "
            what = f"{kind}{array.dtype} of shape {list(array.shape)}{readable}{pieces}"
        else:
            what = f"a {type(array).__name__}"
        raise DtypeError(
            f"input {node.describe()} (made at {node.origin}) is updated, so it must be given an array of {node.dtype} "
            f"(a plain numpy.ndarray) that is writable and contiguous, not {what}"
        )
