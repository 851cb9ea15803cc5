"""Values for the page: arrays for the inputs, every node computed, and what is told of each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.arguments import as_input, sample_inputs
from graphnet.backends.numpy import call_forward
from graphnet.graph import Graph
from graphnet.node import Array, Node
from viz.errors import DrawingError

__all__ = ["computed", "fed", "summary"]

#: Arrays of no more elements are told number by number.
_FEW = 12
_DIGITS = 6
_LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_ZERO = len(_LEVELS) // 2
_NOT_FINITE = "!"


def fed(inputs: Sequence[Node], feeds: Mapping[Node, Any] | None) -> dict[Node, Array]:
    """An array for each input: those of `feeds`, or without any the same standard normal numbers in each run.

    Raises DrawingError for an input without an array and for a key that is no input; ShapeError, DtypeError for an
    array that does not fit.
    """
    if feeds is None:
        return dict(zip(inputs, sample_inputs(inputs), strict=True))
    if not isinstance(feeds, Mapping):
        raise DrawingError(f"feeds must be a dict {{input node: array}}, not a {type(feeds).__name__}.")
    strangers = [key for key in feeds if key not in set(inputs)]
    if strangers:
        listed = ", ".join(key.describe() if isinstance(key, Node) else repr(key) for key in strangers)
        raise DrawingError(
            f"feeds: {listed} is not an input of this graph; its inputs are "
            f"{', '.join(node.describe() for node in inputs) or 'none'}."
        )
    missing = [node for node in inputs if node not in feeds]
    if missing:
        raise DrawingError(
            f"feeds has no array for {', '.join(node.describe() for node in missing)}; give one for each input, or "
            "leave feeds out to draw them all at random."
        )
    return {node: as_input(node, feeds[node]) for node in inputs}


def computed(outputs: Iterable[Node], given: Mapping[Node, Array]) -> Iterator[tuple[Node, Array]]:
    """Each node that the outputs need with its value, by the ops' own rules; a value is dropped once it is used.

    Raises BackendError, which names the node, where a rule fails.
    """
    order = Graph(outputs).order
    last: dict[Node, int] = {}
    for i, node in enumerate(order):
        for source in (node, *node.inputs):
            last[source] = i
    dying: dict[int, list[Node]] = {}
    for node, i in last.items():
        dying.setdefault(i, []).append(node)
    values: dict[Node, Array] = {}
    for i, node in enumerate(order):
        value = given[node] if node.op.is_input else call_forward(node, [values[x] for x in node.inputs])
        values[node] = value
        yield node, value
        for dead in dying.get(i, ()):
            del values[dead]


# -- what is told of a value -------------------------------------------------------------------


def summary(array: Array, side: int) -> list[Any]:
    """[min, mean, max, norm, columns, heat map, numbers]: an array in a few hundred characters.

    The heat map has at most side × side cells, row by row, each a letter of 64 levels from -m to m, m the largest
    size of a cell; a larger array is shown by the means of blocks, leading axes one below the other. Numbers are
    there for arrays of few elements. What JSON cannot hold is text: "NaN", "inf", "-inf".
    """
    if not array.size:
        return [0, 0, 0, 0, 0, "", []]
    exact = np.asarray(array, "float64")
    with np.errstate(all="ignore"):
        told = [exact.min(), exact.mean(), exact.max(), np.sqrt(np.sum(np.square(exact)))]
        cells = _blocks(exact, side)
        heat = _letters(cells)
    numbers = [_number(x) for x in array.ravel().tolist()] if array.size <= _FEW else []
    return [*(_number(float(x)) for x in told), cells.shape[1], heat, numbers]


def _number(x: float | int | bool) -> float | int | str:
    """Six digits of a number."""
    if isinstance(x, (bool, int)):
        return int(x)
    if not math.isfinite(x):
        return "NaN" if math.isnan(x) else str(x)
    short = float(f"{x:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 10**_DIGITS else short


def _blocks(array: Array, side: int) -> Array:
    """The array as a table of at most side × side means of blocks, as equal as they can be."""
    table = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    for axis in (0, 1):
        size = table.shape[axis]
        if size > side:
            starts = np.arange(side) * size // side
            counts = np.diff(starts, append=size)
            means = np.add.reduceat(table, starts, axis) / (counts[:, None] if axis == 0 else counts)
            table = means
    return table


def _letters(cells: Array) -> str:
    finite = np.isfinite(cells)
    size = np.abs(cells[finite]).max(initial=0.0)
    scaled = np.where(finite, cells, 0.0) * ((_ZERO - 1) / size if size else 0.0)
    levels = np.rint(scaled).astype(int) + _ZERO
    letters: Collection[str] = [
        _LEVELS[level] if is_finite else _NOT_FINITE
        for level, is_finite in zip(levels.ravel().tolist(), finite.ravel().tolist(), strict=True)
    ]
    return "".join(letters)
