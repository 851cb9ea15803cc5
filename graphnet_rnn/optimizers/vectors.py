"""Operations on long vectors: compiled passes over memory, for NumPy arrays and GPU vectors.

None of them uses BLAS: from about ten thousand numbers on, OpenBLAS splits a dot product among its own threads, which
then spin. Between runs of a compiled function on all cores, they would cost more than the function.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node

#: Maximum number of cached functions, each a few kilobytes of machine code.
KEPT = 128
#: For shorter vectors NumPy is faster than calling a compiled function.
LONG = 1 << 14
#: Squares below this may have underflowed.
LEAST = 1e-290

_kept: OrderedDict[Hashable, gn.Function] = OrderedDict()


def compiled(key: Hashable, make: Callable[[], gn.Function]) -> gn.Function:
    """Returns the function of this key, compiled at first use; least recently used functions are evicted."""
    found = _kept.pop(key, None)
    _kept[key] = found = make() if found is None else found
    while len(_kept) > KEPT:
        _kept.popitem(last=False)
    return found


#: Declaration of a pass: new values of some arguments, and sums to return as numbers.
Declared = tuple[Mapping[Node, Node], Sequence[Node]]


def fused(declared: Callable[..., Declared]) -> Callable[..., tuple[float, ...]]:
    """Decorator: one compiled pass over vectors that changes arrays in place, and returns numbers

        @fused
        def moved(x, p, alpha):
            new = x + alpha * p
            return {x: new}, [dot(new, new)]

    Arguments are vectors, numbers, or None; the function gets nodes instead, and None as it is.
    """

    @wraps(declared)
    def run(*arguments: Any) -> tuple[float, ...]:
        kinds = tuple([_kind(argument) for argument in arguments])
        function = compiled((declared, kinds), lambda: _compiled(declared, kinds))
        given = [
            a if kind else np.float64(a) for a, kind in zip(arguments, kinds, strict=True) if a is not None
        ]
        return tuple([float(found) for found in function(*given)])

    return run


def _kind(argument: Any) -> tuple[Any, ...] | None:
    if argument is None:
        return ("none",)
    if not hasattr(argument, "shape") or argument.shape == ():
        return None
    return gn.backend_of(argument), argument.shape, argument.dtype.name


def _compiled(declared: Callable[..., Declared], kinds: Sequence[tuple[Any, ...] | None]) -> gn.Function:
    names = declared.__code__.co_varnames[: len(kinds)]
    nodes: list[Node | None] = []
    for name, kind in zip(names, kinds, strict=True):
        if kind is None:
            nodes.append(gn.input((), "float64", name=name))
        else:
            nodes.append(None if kind == ("none",) else gn.input(kind[1], kind[2], name=name))
    changed, sums = declared(*nodes)
    # If a vector is in a device's memory, the device computes all.
    places = {kind[0] for kind in kinds if kind is not None and kind != ("none",)} - {"numba"}
    backend = places.pop() if places else "numba"
    return gn.compile(sums, [node for node in nodes if node is not None], backend, updates=changed)


def dot(a: Node, b: Node) -> Node:
    """aᵀb, summed in float64"""
    return gn.sum(gn.cast(a, "float64") * gn.cast(b, "float64"))


class Recycled:
    """Pool of vectors of one kind, reused as soon as no reference or view of them is left

    The operating system clears newly allocated pages, which costs more than a pass over a long vector.
    """

    def __init__(self) -> None:
        self._vectors: list[Array] = []

    def __call__(self, like: Array) -> Array:
        """Returns a vector with undefined content."""
        for vector in self._vectors:
            if sys.getrefcount(vector) == UNUSED:
                return vector
        self._vectors.append(np.empty_like(like))
        return self._vectors[-1]


#: Reference count of an unused vector: the list, the loop, and the function that counts.
UNUSED = 3


def double(a: Array) -> Array:
    """Returns the vector as float64, without a copy if possible."""
    return a.astype(np.float64, copy=False)


def inner(a: Array, b: Array) -> float:
    """aᵀb, summed in float64 if long, else in the dtype of both"""
    if a.size >= LONG:
        return _inner(a, b)[0]
    return float(np.einsum("i,i->", a, b))


def norm(a: Array) -> float:
    """‖a‖₂, summed in float64; scaled first if its square would overflow or underflow."""
    with np.errstate(over="ignore", under="ignore"):
        square = _square(a)[0] if a.size >= LONG else float(np.sum(np.square(a, dtype=np.float64)))
        if LEAST < square < math.inf or not a.size:
            return math.sqrt(square)
        largest = float(np.max(np.abs(np.asarray(a, np.float64))))
        if not 0 < largest < math.inf:
            return largest
        return largest * math.sqrt(float(np.sum(np.square(np.asarray(a, np.float64) / largest))))


@fused
def _inner(a: Node, b: Node) -> Declared:
    return {}, [dot(a, b)]


@fused
def _square(a: Node) -> Declared:
    return {}, [dot(a, a)]
