"""Long vectors: passes over them declared on nodes, and what works on NumPy's arrays as on those of a GPU.

From some ten thousand numbers on, OpenBLAS divides a dot product among threads of its own, which then keep spinning for
the next one. Between two runs of a compiled function that has all cores, they cost more than the function. So nothing
here is BLAS: what is to be done with long vectors is compiled, too, into one pass over memory.
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

__all__ = ["Declared", "Recycled", "compiled", "dot", "double", "fused", "inner", "norm"]

#: Functions that are kept, in all: each has some kilobytes of machine code, and no vectors.
KEPT = 128
#: Shorter vectors are summed up sooner than a compiled function is called.
LONG = 1 << 14
#: Squares below this may have lost what they are made of.
LEAST = 1e-290

_kept: OrderedDict[Hashable, gn.Function] = OrderedDict()


def compiled(key: Hashable, make: Callable[[], gn.Function]) -> gn.Function:
    """The function of this key, made when it is first asked for; those that were not used for long are dropped."""
    found = _kept.pop(key, None)
    _kept[key] = found = make() if found is None else found
    while len(_kept) > KEPT:
        _kept.popitem(last=False)
    return found


#: What a pass declares: of some of its arguments the new values, and sums that it returns as numbers.
Declared = tuple[Mapping[Node, Node], Sequence[Node]]


def fused(declared: Callable[..., Declared]) -> Callable[..., tuple[float, ...]]:
    """A pass over vectors, compiled once for arguments of one kind: it changes arrays in place, and returns numbers

        @fused
        def moved(x, p, alpha):
            new = x + alpha * p
            return {x: new}, [dot(new, new)]

    The arguments are vectors, numbers, and None for what there is not; the function gets nodes for all but None.
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
    """Of a vector where it lies, its shape and its dtype; None for a number."""
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
    # Where some lie in a device's memory, that device works on all.
    places = {kind[0] for kind in kinds if kind is not None and kind != ("none",)} - {"numba"}
    backend = places.pop() if places else "numba"
    return gn.compile(sums, [node for node in nodes if node is not None], backend, updates=changed)


def dot(a: Node, b: Node) -> Node:
    """aᵀb, summed in float64"""
    return gn.sum(gn.cast(a, "float64") * gn.cast(b, "float64"))


class Recycled:
    """Vectors of one kind, which are taken again as soon as nobody holds them, nor anything that looks into them

    The system clears each page of memory that it hands out anew: for a long vector that costs more than a pass over it.
    """

    def __init__(self) -> None:
        self._vectors: list[Array] = []

    def __call__(self, like: Array) -> Array:
        """A vector of whatever was there."""
        for vector in self._vectors:
            if sys.getrefcount(vector) == UNUSED:
                return vector
        self._vectors.append(np.empty_like(like))
        return self._vectors[-1]


#: References to a vector that nobody holds: of the list, of the loop, and of the function that counts them.
UNUSED = 3


def double(a: Array) -> Array:
    """The vector in float64: itself if it is so already."""
    return a.astype(np.float64, copy=False)


def inner(a: Array, b: Array) -> float:
    """aᵀb, summed in float64 if it is long, else in the dtype of both"""
    if a.size >= LONG:
        return _inner(a, b)[0]
    return float(np.einsum("i,i->", a, b))


def norm(a: Array) -> float:
    """‖a‖₂, summed in float64; scaled first where its square is beyond that."""
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
