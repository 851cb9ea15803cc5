"""The ops, in families, one file each.

leaf         inputs, parameters, constants, labels
shape        reshape, transpose, slices, joins
broadcast    BroadcastTo and Sum, each the other's transpose
elementwise  arithmetic, functions, comparisons, choices
linear       matrix products
einsum       sums of products over named axes, composed of other ops
index        row lookup, its transpose, one-hot codes
reduce       sums, maxima, the softmax family
loss         the three losses
surrogate    losses with a convex surrogate for their curvature
random       dropout masks and noise
rowwise      base class of ops that are a loop for each row
"""

from __future__ import annotations

from collections.abc import Iterator

from graphnet.graph.node import Op
from graphnet.ops import (
    broadcast,
    einsum,
    elementwise,
    index,
    leaf,
    linear,
    loss,
    random,
    reduce,
    rowwise,
    shape,
    surrogate,
)

FAMILIES = (
    leaf,
    shape,
    broadcast,
    elementwise,
    linear,
    einsum,
    index,
    reduce,
    loss,
    surrogate,
    random,
    rowwise,
)


#: Base classes, which are no ops.
BASES = (
    leaf.Leaf,
    shape.Join,
    broadcast.Reduction,
    elementwise.Elementwise,
    linear.Product,
    index.Lookup,
    rowwise.Rowwise,
)


def all_ops() -> Iterator[type[Op]]:
    """Yields every op class, family by family."""
    for family in FAMILIES:
        for name, member in vars(family).items():
            own = f"{getattr(member, '__module__', '')}.".startswith(f"{family.__name__}.") and name[0] != "_"
            if own and isinstance(member, type) and issubclass(member, Op) and member not in BASES:
                yield member
