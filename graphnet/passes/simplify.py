"""Simplify and fold: algebra that holds for all values, including NaN, infinities and signed zeros, and constant
folding.

`x · 0` is therefore left alone (it is NaN for an infinite x), and so is `x + 0` (it makes +0 of -0)
unless the zero is -0. (The zeros of a pad stand for absent derivatives: these may go.)
Absent derivatives never become nodes at all (see `Op.zero_if`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node, Shape, shared
from graphnet.ops.broadcast import BroadcastTo, Sum
from graphnet.ops.elementwise import Add, Cast, Divide, Log, Multiply, Negative, Subtract, add
from graphnet.ops.index import ScatterAdd, Take
from graphnet.ops.leaf import After, Fill, constant, fill
from graphnet.ops.linear import MatMul
from graphnet.ops.reduce import Softmax, log_softmax
from graphnet.ops.shape import (
    Concatenate,
    Pad,
    Reshape,
    Slice,
    Transpose,
    concatenate,
    is_whole,
    reshape,
    slice_along,
)
from graphnet.passes.pads import joins_of_pads

#: A constant may not grow by folding beyond this many bytes (a broadcast of a small one would).
LARGEST = 1 << 16


def simplify(graph: Graph) -> Graph:
    """Applies the rules of algebra below to each node, inputs first, until none applies.

    graph: the graph to simplify; the result is a new graph.

    >>> x = gn.input(3)
    >>> len(gn.passes.simplify(gn.Graph([-(-x) * 1.0], [x])))  # x alone
    1
    """
    return graph.rewrite(_simplest)


def _simplest(node: Node) -> Node:
    while True:
        rule = RULES.get(type(node.op))
        simpler = rule(node) if rule is not None else None
        if simpler is None:
            return node
        node = simpler


# -- each rule gives a simpler node, or None ------------------------------------------------------


def _minus_zero(node: Node) -> bool:
    number = node.op.everywhere
    return number == 0 and bool(np.signbit(number))


def _add(node: Node) -> Node | None:
    terms = node.inputs
    if len(terms) == 1:
        return terms[0]
    kept = tuple(t for t in terms if not (_minus_zero(t) or (t.op.everywhere == 0 and t.dtype.kind in "iu")))
    if len(kept) < len(terms):
        return add(*kept) if kept else terms[0]
    for rule in (_sum_of_views, _sum_of_pads, _sum_of_scatters, _sum_of_joins):
        shorter = rule(terms)
        if shorter is not None:
            return shorter
    return None


def _sum_of_views(terms: tuple[Node, ...]) -> Node | None:
    """Σ_t x_tᵀ = (Σ_t x_t)ᵀ, and so for reshapes, broadcasts and pads: the gradient of a weight's view in each step."""
    by_view: dict[tuple[object, Shape], list[Node]] = {}
    for term in terms:
        if _keeps_all(term) and term.inputs[0].inputs:
            by_view.setdefault((term.op, term.inputs[0].shape), []).append(term)
    groups = [group for group in by_view.values() if len(group) > 1]
    if not groups:
        return None
    moved = {term for group in groups for term in group}
    rest = [term for term in terms if term not in moved]
    sums = [_simplest(group[0].op(_simplest(add(*(term.inputs[0] for term in group))))) for group in groups]
    return add(*sums, *rest) if len(sums) + len(rest) > 1 else sums[0]


def _keeps_all(node: Node) -> bool:
    """True for a linear op whose result holds all elements of its operand; both have the same sum."""
    op = node.op
    if op.zero_if != "all" or len(node.inputs) != 1 or op.is_label:
        return False
    (x,) = node.inputs
    return (op.moves or isinstance(op, Pad)) and node.dtype == x.dtype and node.size >= x.size


def _sum_of_joins(terms: tuple[Node, ...]) -> Node | None:
    """Σ_t [a_t; b_t] = [Σ_t a_t; Σ_t b_t], which other rules then make shorter."""
    first = terms[0]
    match first.op:
        case Concatenate() as join:
            cuts = [x.shape for x in first.inputs]
            if any(t.op != join or [x.shape for x in t.inputs] != cuts for t in terms):
                return None
            return join(*[_simplest(add(*column)) for column in zip(*(t.inputs for t in terms), strict=True)])
    return None


def _sum_of_pads(terms: tuple[Node, ...]) -> Node | None:
    """The cotangent of an array that was read a slice at a time, as few joins."""
    fewer = joins_of_pads(terms)
    return None if fewer is None else add(*fewer) if len(fewer) > 1 else fewer[0]


def _sum_of_scatters(terms: tuple[Node, ...]) -> Node | None:
    """Σ_t scatter(x_t, i_t) = scatter(all x, all i): one pass over the rows instead of one for each t."""
    scatters = [t for t in terms if _is_scatter_of_rows(t)]
    if len(scatters) < 2 or any(t.op != scatters[0].op for t in scatters):
        return None
    if len({t.inputs[1].dtype for t in scatters}) > 1:
        return None
    rest = [t for t in terms if not _is_scatter_of_rows(t)]
    scatters.sort(key=lambda t: (t.inputs[1].serial, t.inputs[0].serial))  # in the order of time
    tail = scatters[0].shape[1:]
    rows = concatenate([reshape(t.inputs[0], (t.inputs[1].size, *tail)) for t in scatters])
    index = concatenate([reshape(t.inputs[1], (t.inputs[1].size,)) for t in scatters])
    total = scatters[0].op(rows, index)
    return add(total, *rest) if rest else total


def _is_scatter_of_rows(node: Node) -> bool:
    match node.op:
        case ScatterAdd(axis=0):
            return True
    return False


def _subtract(node: Node) -> Node | None:
    a, b = node.inputs
    if b.op.everywhere == 0 and not _minus_zero(b):
        return a
    match b.op:
        case Negative():
            return a + b.inputs[0]
    return None


def _multiply(node: Node) -> Node | None:
    a, b = node.inputs
    if b.op.everywhere == 1:
        return a
    if a.op.everywhere == 1:
        return b
    if a.op.everywhere == -1:
        return -b
    if b.op.everywhere == -1:
        return -a
    return None


def _divide(node: Node) -> Node | None:
    a, b = node.inputs
    return a if b.op.everywhere == 1 else None


def _negative(node: Node) -> Node | None:
    (x,) = node.inputs
    match x.op:
        case Negative():
            return x.inputs[0]
    return None


def _fill_like(node: Node) -> Node | None:
    """A view of a constant array is a constant array."""
    (x,) = node.inputs
    number = None if x.op.is_zeros else x.op.everywhere
    return None if number is None else Fill(number, node.shape, node.dtype)()


def _before_waiting(node: Node) -> Node | None:
    """Moves a wait after the view of a weight, so that views of one weight are one node."""
    (x,) = node.inputs
    match x.op:
        case After() as waiting:
            leaf = x.inputs[0]
            while leaf.op.is_view:
                leaf = leaf.inputs[0]
            if leaf.op.is_parameter or (leaf.op.is_constant and leaf.op.everywhere is None):
                return waiting(_simplest(node.op(x.inputs[0])), *x.inputs[1:])
    return None


def _moved_inward(node: Node) -> Node | None:
    """Rewrite for any view that only moves elements."""
    number = _fill_like(node)
    return _before_waiting(node) if number is None else number


def _transpose(node: Node) -> Node | None:
    (x,) = node.inputs
    match node.op, x.op:
        case Transpose(axes=axes), _ if axes == tuple(range(len(axes))):
            return x
        case Transpose(axes=outer), Transpose(axes=inner):
            return shared(Transpose, tuple(inner[axis] for axis in outer))(x.inputs[0])
    return _moved_inward(node)


def _reshape(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.shape == node.shape:
        return x
    match x.op:
        case Reshape():
            return reshape(x.inputs[0], node.shape)
    return _moved_inward(node)


def _broadcast(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.shape == node.shape:
        return x
    match x.op:
        case BroadcastTo():
            return shared(BroadcastTo, node.shape)(x.inputs[0])
    return _fill_like(node)


def _sum(node: Node) -> Node | None:
    """A sum over axes of size 1 is a reshape."""
    (x,) = node.inputs
    match node.op:
        case Sum(axes=axes) if all(x.shape[axis] == 1 for axis in axes):
            return reshape(x, node.shape)
    return None


def _cast(node: Node) -> Node | None:
    (x,) = node.inputs
    return x if x.dtype == node.dtype else None


def _log(node: Node) -> Node | None:
    """log softmax(x), which underflows to log 0, is x - log Σ exp(x), which does not."""
    (x,) = node.inputs
    match x.op:
        case Softmax(axis=axis):
            return log_softmax(x.inputs[0], axis)
    return None


def _slice(node: Node) -> Node | None:
    (x,) = node.inputs
    match node.op:
        case Slice(key=key) if is_whole(key, x.shape):
            return x
        case Slice(key=(*rest, (0, stop, 1))) if x.op.is_one_hot and stop == x.shape[-1]:
            return x.op(Slice(tuple(rest))(x.inputs[0]))
    return _moved_inward(node)


def _matmul(node: Node) -> Node | None:
    """one_hot(i) @ W reads rows of W; one_hot(i)ᵀ @ G adds rows of G up by symbol.

    0 · inf is NaN, so a product with an infinite weight differs; the lookup is the intended result.
    """
    a, b = node.inputs
    if a.op.is_one_hot and a.dtype == b.dtype:
        return Take(0)(b, a.inputs[0])
    if _joins_codes(a):
        return add(*[_simplest(x @ rows) for x, rows in zip(a.inputs, _rows_of(b, a), strict=True)])
    match a.op:
        case Transpose():
            (codes,) = a.inputs
            if codes.op.is_one_hot and codes.dtype == b.dtype:
                return ScatterAdd(codes.shape[-1], 0)(b, codes.inputs[0])
            if _joins_codes(codes):
                return concatenate([_simplest(x.T @ b) for x in codes.inputs], 0)
    return None


def _rows_of(b: Node, join: Node) -> Iterator[Node]:
    """The rows of b that each input of a join of columns multiplies."""
    return (slice_along(b, 0, place) for place in Concatenate(1).places(join.inputs))


def _joins_codes(x: Node) -> bool:
    """True for columns side by side, some of which are one-hot codes."""
    return x.op.joins_along == 1 and any(part.op.is_one_hot for part in x.inputs)


RULES: dict[type, Callable[[Node], Node | None]] = {
    Add: _add,
    BroadcastTo: _broadcast,
    Cast: _cast,
    Divide: _divide,
    Log: _log,
    MatMul: _matmul,
    Multiply: _multiply,
    Negative: _negative,
    Reshape: _reshape,
    Slice: _slice,
    Subtract: _subtract,
    Sum: _sum,
    Transpose: _transpose,
}


# -- constants --------------------------------------------------------------------------------


def fold(graph: Graph) -> Graph:
    """Replaces nodes whose inputs are all constants by a constant, unless that would take much memory.

    Elementwise ops on numbers that fill a shape stay numbers that fill a shape. A node that fails, or
    makes a NaN or an infinity, is left: it must do so where and when it runs.
    graph: the graph to change; the result is a new graph.

    >>> graph = gn.Graph([gn.add(gn.constant(np.ones(2)), gn.constant(np.ones(2)))])
    >>> len(graph), len(gn.passes.fold(graph))
    (3, 1)
    """
    return graph.rewrite(_folded)


def _folded(node: Node) -> Node:
    if not node.inputs or not all(x.op.is_constant for x in node.inputs):
        return node
    numbers = [np.asarray(x.op.everywhere, x.dtype) for x in node.inputs if x.op.everywhere is not None]
    if len(numbers) == len(node.inputs) and node.op.is_elementwise:
        number = _evaluate(node, numbers)
        return node if number is None else fill(number.item(), node.shape, node.dtype)
    limit = max(LARGEST, *(x.nbytes if x.op.everywhere is None else 0 for x in node.inputs))
    if node.nbytes > limit:
        return node
    value = _evaluate(node, [x.op.forward() for x in node.inputs])
    return node if value is None else constant(value)


def _evaluate(node: Node, arrays: list[Array]) -> Array | None:
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(node.op.forward(*arrays))
    except Exception:  # the node fails on these constants: let it fail at run time, with its origin
        return None
    return value if value.dtype.kind != "f" or np.isfinite(value).all() else None
