"""Signatures: strings that document an op's shapes, check them, and appear in errors.

    "n k, k m -> n m"     a matrix product
    "... k, ... -> ..."   any leading axes, the same in each input

A letter is an axis; the same letter must have the same size everywhere. `...` stands for any
number of leading axes (broadcasting is done before, by explicit nodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from graphnet.errors import ShapeError, UsageError, table_of_inputs

if TYPE_CHECKING:
    from graphnet.graph.node import Node

Axes = tuple[str, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """A parsed signature: the axes of each input and of the output."""

    text: str
    inputs: tuple[Axes, ...]
    output: Axes
    #: Cache of inferred shapes; equal shapes of large graphs are then one object, too.
    known: dict[tuple[Shape, ...], Shape] = field(default_factory=dict, compare=False, repr=False)

    def infer(self, op_name: str, nodes: Sequence[Node]) -> Shape:
        """Returns the output's shape; raises ShapeError if an input's shape does not fit."""
        shapes = tuple([node.shape for node in nodes])
        found = self.known.get(shapes)
        if found is None:
            found = self.known[shapes] = self._inferred(op_name, nodes)
        return found

    def _inferred(self, op_name: str, nodes: Sequence[Node]) -> Shape:
        if len(nodes) != len(self.inputs):
            self._fail(op_name, nodes, f"takes {len(self.inputs)} inputs, not {len(nodes)}")
        sizes: dict[str, int] = {}
        first_seen: dict[str, int] = {}
        leading: tuple[int, ...] | None = None
        for position, (axes, node) in enumerate(zip(self.inputs, nodes, strict=True), start=1):
            shape = node.shape
            if axes and axes[0] == "...":
                named = axes[1:]
                if len(shape) < len(named):
                    self._fail(op_name, nodes, f"input {position} needs at least {len(named)} axes")
                cut = len(shape) - len(named)
                if leading is None:
                    leading, first_leading = shape[:cut], position
                elif leading != shape[:cut]:
                    self._fail(
                        op_name,
                        nodes,
                        f"leading axes are {list(leading)} in input {first_leading} "
                        f"but {list(shape[:cut])} in input {position}",
                    )
                shape = shape[cut:]
            else:
                named = axes
                if len(shape) != len(named):
                    self._fail(op_name, nodes, f"input {position} has {len(shape)} axes, not {len(named)}")
            for axis, size in zip(named, shape, strict=True):
                known = sizes.setdefault(axis, size)
                first_seen.setdefault(axis, position)
                if known != size:
                    self._fail(
                        op_name,
                        nodes,
                        f"axis {axis} is {known} in input {first_seen[axis]} but {size} in input {position}",
                    )
        if self.output and self.output[0] == "...":
            return (leading or ()) + tuple(sizes[axis] for axis in self.output[1:])
        return tuple(sizes[axis] for axis in self.output)

    def _fail(self, op_name: str, nodes: Sequence[Node], problem: str) -> None:
        raise ShapeError(f"{op_name}: {problem}." + table_of_inputs(nodes, self.text))


@cache
def parse(text: str) -> Signature:
    """Parses `"n k, k m -> n m"`; raises ValueError if it is not a signature."""
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ValueError(f"signature {text!r} has no '->'")
    inputs = tuple(tuple(part.split()) for part in left.split(","))
    output = tuple(right.split())
    if any("..." in axes[1:] for axes in (*inputs, output)):
        raise ValueError(f"signature {text!r}: ... must be the first axis")
    known = {axis for axes in inputs for axis in axes}
    unknown = [axis for axis in output if axis not in known]
    if unknown:
        raise ValueError(f"signature {text!r}: output axis {unknown[0]} is in no input")
    return Signature(text, inputs, output)


def check_signature(owner: str, text: Any) -> None:
    """Raises UsageError for a malformed signature of a class; properties and "" are fine."""
    if isinstance(text, str) and text:
        try:
            parse(text)
        except ValueError as error:
            raise UsageError(f"{owner}: {error}; write e.g. '... n m, m -> ... n'") from None
