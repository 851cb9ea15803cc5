"""Sums of products over named axes, composed of transposes, matrix products and sums.

A letter repeated within an operand is a diagonal. Axes that only one operand has are summed first. Pairs of operands
are multiplied in the order that NumPy finds cheapest: as matrices if there is an axis to sum over and one to keep, else
element by element. The result consists of nodes of other ops, so derivatives, passes and back ends need no special
case.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphnet.errors import ShapeError, table_of_inputs
from graphnet.graph.node import Node, shared
from graphnet.ops.broadcast import Sum
from graphnet.ops.elementwise.base import as_nodes_together
from graphnet.ops.linear import as_common_dtype, matmul
from graphnet.ops.shape import reshape, slice_along, transpose
from graphnet.settings import shown, text

#: With more operands, the search for the best order takes longer than it saves.
FEW = 5


class Factor(NamedTuple):
    """A node with one letter for each of its axes."""

    node: Node
    labels: str

    def sizes(self, labels: str) -> list[int]:
        return [self.node.shape[self.labels.index(label)] for label in labels]


def einsum(subscripts: str, *operands: Any) -> Node:
    """y = Σ a · b · ... over the axes whose letters are not in the result, as numpy.einsum.

    subscripts: the letters of each operand, then "->" and those of the result: "ij,jk->ik". A letter twice in one
    operand is its diagonal; "..." stands for axes that broadcast; without "->" the result has the letters that occur
    once, in alphabetical order. operands: nodes or arrays, which are cast to a common dtype if it holds all their
    values. Pairs of them are multiplied in the order that `numpy.einsum_path` finds cheapest. Sums of integers keep
    their dtype, as in NumPy.
    Raises ShapeError where letters, operands and shapes do not fit.

    >>> a, b = gn.input((2, 3)), gn.input((3, 4))
    >>> gn.einsum("ij,jk->ik", a, b).shape
    (2, 4)
    >>> gn.compile(gn.einsum("ii->i", [[1.0, 2.0], [3.0, 4.0]]))()[0].tolist()
    [1.0, 4.0]
    """
    subscripts = text("einsum: subscripts", subscripts)
    nodes = as_nodes_together("einsum", operands)
    terms, result = _parsed(subscripts, nodes)
    factors = [
        Factor(node, labels) for node, labels in zip(as_common_dtype("einsum", nodes), terms, strict=True)
    ]
    factors = _without_repetition(factors, subscripts, nodes)
    for places in _order(factors, result):
        chosen = [factors[i] for i in places]
        factors = [factor for i, factor in enumerate(factors) if i not in places]
        factors.append(_product(chosen, result, _labels(factors)))
    (whole,) = factors
    whole = _summed(whole, result)
    return transpose(whole.node, [whole.labels.index(label) for label in result])


# -- parsing -----------------------------------------------------------------------------------------


def _wrong(what: str, subscripts: str, nodes: Sequence[Node]) -> ShapeError:
    return ShapeError(f"einsum: {shown(subscripts, 200)}: {what}." + table_of_inputs(nodes))


def _parsed(subscripts: str, nodes: Sequence[Node]) -> tuple[list[str], str]:
    """Returns the letters of each operand and of the result; axes of an ellipsis get unused letters."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    written = inputs.split(",")
    for term in (*written, output):
        if not re.fullmatch(r"[a-zA-Z]*(\.\.\.)?[a-zA-Z]*", term):
            what = f"{term!r} may hold only letters and one '...'; write e.g. 'ij,jk->ik'"
            raise _wrong(what, subscripts, nodes)
    if len(written) != len(nodes):
        what = f"it names {len(written)} operands, but {len(nodes)} are given"
        raise _wrong(what, subscripts, nodes)
    hidden = _hidden_axes(written, subscripts, nodes)
    free = [letter for letter in string.ascii_letters if letter not in subscripts]
    broadcast = max(hidden)
    if broadcast > len(free):
        raise _wrong(f"there are only {len(string.ascii_letters)} letters for axes", subscripts, nodes)
    ellipsis = "".join(free[:broadcast])
    terms = [
        term.replace("...", ellipsis[broadcast - count :])
        for term, count in zip(written, hidden, strict=True)
    ]
    every = "".join(written).replace(".", "")
    if not arrow:
        output = "..." + "".join(sorted(letter for letter in set(every) if every.count(letter) == 1))
    for letter in output.replace(".", ""):
        if output.count(letter) > 1 or letter not in every:
            why = "appears twice in the result" if letter in every else "of the result is in no operand"
            raise _wrong(f"{letter!r} {why}", subscripts, nodes)
    if broadcast and "..." not in output:
        what = f"'...' stands for {broadcast} axes, which the result must have as well: write '->...{output}'"
        raise _wrong(what, subscripts, nodes)
    return terms, output.replace("...", ellipsis)


def _hidden_axes(written: Sequence[str], subscripts: str, nodes: Sequence[Node]) -> list[int]:
    hidden = []
    for position, (term, node) in enumerate(zip(written, nodes, strict=True), start=1):
        named = len(term.replace(".", ""))
        if node.ndim < named or ("..." not in term and node.ndim > named):
            what = f"operand {position} has {node.ndim} axes, but {term!r} names {named}"
            raise _wrong(what, subscripts, nodes)
        hidden.append(node.ndim - named)
    return hidden


def _without_repetition(factors: Sequence[Factor], subscripts: str, nodes: Sequence[Node]) -> list[Factor]:
    """Returns factors with distinct letters and without axes of size 1 that broadcast."""
    size_of: dict[str, int] = {}
    for position, (node, labels) in enumerate(factors, start=1):
        for label, size in zip(labels, node.shape, strict=True):
            known = size_of.get(label, 1)
            if len({size, known} - {1}) > 1:
                what = f"{label!r} is {size} in operand {position}, but {known} before"
                raise _wrong(what, subscripts, nodes)
            if len({n for n, name in zip(node.shape, labels, strict=True) if name == label}) > 1:
                what = (
                    f"the axes {label!r} of operand {position} have different sizes, so there is no diagonal"
                )
                raise _wrong(what, subscripts, nodes)
            size_of[label] = known if size == 1 else size
    found = []
    for factor in map(_diagonal, factors):
        kept = "".join(
            label for label, n in zip(factor.labels, factor.node.shape, strict=True) if n == size_of[label]
        )
        found.append(Factor(reshape(factor.node, factor.sizes(kept)), kept))
    return found


def _diagonal(factor: Factor) -> Factor:
    """Merges two adjacent axes of one letter and takes every (n + 1)th element."""
    node, labels = factor
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, second = [i for i, name in enumerate(labels) if name == label][:2]
            order = [i for i in range(node.ndim) if i != second]
            order.insert(first + 1, second)
            node, n = transpose(node, order), node.shape[first]
            node = reshape(node, (*node.shape[:first], n * n, *node.shape[first + 2 :]))
            node = slice_along(node, first, (0, n * n, n + 1))
            labels = labels[:second] + labels[second + 1 :]
    return Factor(node, labels)


# -- products ----------------------------------------------------------------------------------------


def _order(factors: Sequence[Factor], result: str) -> Iterator[Sequence[int]]:
    """Yields the factors to multiply next; their product becomes the last of those that are left."""
    if len(factors) < 3:
        if len(factors) == 2:
            yield (0, 1)
        return
    terms = ",".join(factor.labels for factor in factors)
    shapes = [np.broadcast_to(0.0, factor.node.shape) for factor in factors]
    how = "optimal" if len(factors) <= FEW else "greedy"
    # The number limits the size of a product; beyond it NumPy would multiply all remaining factors at once.
    path, _ = np.einsum_path(f"{terms}->{result}", *shapes, optimize=(how, 2**62))
    yield from path[1:]


def _labels(factors: Sequence[Factor]) -> str:
    return "".join(factor.labels for factor in factors)


def _product(factors: Sequence[Factor], result: str, others: str) -> Factor:
    """Returns the product of the factors; others: letters of the factors that are multiplied later."""
    whole = factors[0]
    for i, factor in enumerate(factors[1:], start=2):
        whole = _pair(whole, factor, result, others + _labels(factors[i:]))
    return whole


def _pair(a: Factor, b: Factor, result: str, others: str) -> Factor:
    """Returns a · b, summed over letters that are neither in the result nor in others."""
    kept = {*result, *others}
    a, b = _summed(a, {*kept, *b.labels}), _summed(b, {*kept, *a.labels})
    if _first_of(b, a, result) < _first_of(a, b, result) < len(result):
        a, b = b, a  # so that the product has its rows and columns where the result has them
    inner = "".join(label for label in a.labels if label in b.labels and label not in kept)
    batch = "".join(label for label in a.labels if label in b.labels and label in kept)
    left, right = _own(a, b), _own(b, a)
    # For batches of single rows and columns, a matrix product is not faster.
    if inner and (left and right if batch else left or right):
        sizes = [*a.sizes(batch + left), *b.sizes(right)]
        product = matmul(_matrices(a, batch, left, inner), _matrices(b, batch, inner, right))
        return Factor(reshape(product, sizes), batch + left + right)
    if len(a.labels) < len(b.labels):
        a, b, right = b, a, left
    x = reshape(a.node, (*a.node.shape, *[1] * len(right)))
    labels = a.labels + right
    ordered = "".join(label for label in labels if label in b.labels)
    y = transpose(b.node, [b.labels.index(label) for label in ordered])
    y = reshape(y, [*_sizes_or_ones(b, labels)])
    return _summed(Factor(x * y, labels), kept)


def _own(factor: Factor, other: Factor) -> str:
    return "".join(label for label in factor.labels if label not in other.labels)


def _first_of(factor: Factor, other: Factor, result: str) -> int:
    return min([result.index(label) for label in _own(factor, other) if label in result], default=len(result))


def _sizes_or_ones(factor: Factor, labels: str) -> list[int]:
    return [factor.sizes(label)[0] if label in factor.labels else 1 for label in labels]


def _matrices(factor: Factor, batch: str, rows: str, columns: str) -> Node:
    node = transpose(factor.node, [factor.labels.index(label) for label in batch + rows + columns])
    sizes = [math.prod(factor.sizes(group)) for group in (batch, rows, columns)]
    return reshape(node, sizes if batch else sizes[1:])


def _summed(factor: Factor, kept: Collection[str]) -> Factor:
    axes = tuple(i for i, label in enumerate(factor.labels) if label not in kept)
    if not axes:
        return factor
    return Factor(shared(Sum, axes)(factor.node), "".join(label for label in factor.labels if label in kept))
