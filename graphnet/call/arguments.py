"""Arguments of a compiled function, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphnet.errors import DtypeError, ShapeError
from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.settings import shown

#: NumPy's kinds of objects, strings, times and records.
_NO_NUMBERS = "OSUVMm"
#: A float64 holds each integer up to this one.
_EXACT = 2**53

#: Returns an array that a program can read in place (see Program.taken), or None.
Taken = Callable[[Any], Any]


def checked_inputs(inputs: Sequence[Node], arrays: Sequence[Any], taken: Taken | None = None) -> list[Array]:
    """Returns one array for each input; raises ShapeError or DtypeError if one does not fit."""
    if len(arrays) != len(inputs):
        listed = ", ".join(node.describe() for node in inputs) or "none"
        raise ShapeError(
            f"this function takes {len(inputs)} array(s) ({listed}), but {len(arrays)} were given."
        )
    return [
        array
        # Fast path for arrays that fit as they are, since small functions take microseconds.
        if type(array) is np.ndarray and array.dtype is node.dtype and array.shape == node.shape
        else as_input(node, array, taken)
        for node, array in zip(inputs, arrays, strict=True)
    ]


def as_input(node: Node, array: Any, taken: Taken | None = None) -> Array:
    """Returns the array for an Input node; raises ShapeError or DtypeError if it does not fit.

    Python numbers and lists take the node's dtype, if it can hold them. An array is converted only if no value can
    change, and if it is on the host.
    """
    require_unmasked(f"input {node.describe()}", array)
    is_array = isinstance(array, (np.ndarray, np.generic))
    if isinstance(array, Node):
        raise DtypeError(f"input {node.describe()} was given a node; pass an array")
    value = None if is_array or taken is None else taken(array)
    try:
        value = _on_host(array) if value is None else value
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise ShapeError(f"input {node.describe()} must be an array: {error}") from None
    if value.dtype.kind in _NO_NUMBERS:
        raise DtypeError(
            f"input {node.describe()} (made at {node.origin}) was given {shown(array)} of type {type(array).__name__}, "
            f"which is not an array of numbers; pass an array of {node.dtype}."
        )
    if value.dtype.kind == "c":
        raise DtypeError(
            f"input {node.describe()} (made at {node.origin}) was given an array of {value.dtype}, but complex "
            "numbers are not supported; pass array.real and array.imag as two inputs"
        )
    if value.shape != node.shape:
        raise ShapeError(
            f"input {node.describe()} (made at {node.origin}) was given an array of shape "
            f"{list(value.shape)}."
        )
    if value.dtype == node.dtype:
        return value
    if not isinstance(value, np.ndarray):
        raise DtypeError(
            f"input {node.describe()} (made at {node.origin}) is {node.dtype}, but was given an array of "
            f"{value.dtype} on the GPU; convert it there first."
        )
    if np.can_cast(value.dtype, node.dtype, "safe"):
        if value.dtype.itemsize == 8 and node.dtype.kind == "f" and value.dtype.kind in "iu":
            large = value[(value > _EXACT) | (value < -_EXACT)].tolist()  # NumPy regards this cast as safe
            if rounded := [number for number in large if int(float(number)) != number]:
                raise DtypeError(
                    f"input {node.describe()} (made at {node.origin}) is {node.dtype}, which cannot hold {rounded[0]}; "
                    f"pass rounded numbers: np.asarray(array, {node.dtype.name!r})."
                )
        return value.astype(node.dtype)
    whole = value.dtype.kind in "iu" and node.dtype.kind in "iu"
    if whole or (not is_array and np.can_cast(value.dtype, node.dtype, "same_kind")):
        with np.errstate(over="ignore"):
            converted = value.astype(node.dtype)
        kept = converted == value if whole else np.isinf(converted) == np.isinf(value)
        if kept.all():
            return converted
        if not is_array:
            raise DtypeError(
                f"input {node.describe()} (made at {node.origin}) is {node.dtype}, which cannot hold {value[~kept][0]}."
            )
    raise DtypeError(
        f"input {node.describe()} (made at {node.origin}) is {node.dtype}, but was given an array of "
        f"{value.dtype}; convert it: array.astype({node.dtype.name!r})."
    )


def _on_host(array: Any) -> Array:
    if hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
        return np.from_dlpack(array)
    return np.asarray(array)


def sample_inputs(inputs: Sequence[Node], graph: Graph) -> list[Array]:
    """Returns a fixed array for each input: standard normal numbers; False; integers that are valid
    indices of `graph`, or zeros if they index nothing.
    """
    floats, integers = np.random.default_rng(0), np.random.default_rng(1)
    sizes = index_sizes(graph)
    return [
        floats.standard_normal(node.shape).astype(node.dtype)
        if node.dtype.kind == "f"
        else integers.integers(0, _least_above(node, sizes), node.shape).astype(node.dtype)
        for node in inputs
    ]


def _least_above(node: Node, sizes: Mapping[Node, int]) -> int:
    size = max(1, sizes.get(node, 1))
    return size if node.dtype.kind == "b" else min(size, np.iinfo(node.dtype).max + 1)


def index_sizes(graph: Graph) -> dict[Node, int]:
    """Returns the upper bound (exclusive) of each node that holds indices."""
    sizes: dict[Node, int] = {}
    for node in reversed(graph.order):
        for position, source in enumerate(node.inputs):
            if source.dtype.kind in "iu":
                size = node.op.index_size(position, *node.inputs)
                if size is None and node.op.moves:
                    size = sizes.get(node)
                if size is not None:
                    sizes[source] = min(size, sizes.get(source, size))
    return sizes
