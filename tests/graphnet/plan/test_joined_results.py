"""Ops whose result is written into a part of a join: equal to NumPy, whatever the strides of this part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from tests.tables import case

random = np.random.default_rng(0)
SHAPES = ((3, 1), (2, 3, 1), (2, 2, 1, 1), (4, 2))
W = gn.parameter(random.normal(size=(4, 3, 1)))

#: Name -> (op, shapes of its inputs).
OPS: dict[str, tuple[Callable[..., Node], tuple[tuple[int, ...], ...]]] = {
    "product": (lambda x, y: x @ y, ((3, 4), (4, 2))),
    "product of one column": (lambda x, y: x @ y, ((3, 4), (4, 1))),
    "batch of products": (lambda x, y: x @ y, ((2, 3, 4), (4, 1))),
    "gradient of a lookup": (lambda c: gn.gradient(gn.sum(W[[0, 0, 1, 2, 0]] * c), [W])[0], ((5, 3, 1),)),
    **{
        f"{name} {list(shape)}": (op, (shape,))
        for shape in SHAPES
        for name, op in {
            "tanh": gn.tanh,
            "softmax": gn.softmax,
            "sum": lambda x: gn.sum(x, axis=0, keepdims=True),
            "last sum": lambda x: gn.sum(x, axis=-1, keepdims=True),
            "cumulative sum": lambda x: gn.cumsum(x, axis=0),
            "lookup": lambda x: gn.take(x, [0, 0, 1]),
            "scatter": lambda x: gn.scatter_add(x, np.arange(x.shape[0]) % 2, 2),
            "scatter of columns": lambda x: gn.scatter_add(x, np.arange(x.shape[-1]) % 2, 2, axis=-1),
        }.items()
    },
}


@pytest.mark.parametrize("name", OPS)
def test_results_in_joins_match_numpy(name: str) -> None:
    op, shapes = OPS[name]
    arrays: list[Array] = [random.normal(size=shape) for shape in shapes]
    inputs = [gn.input(shape, "float64") for shape in shapes]
    y = op(*inputs)
    zeros = gn.constant(np.zeros(y.shape))
    joins = [gn.concatenate([zeros, y], axis) for axis in range(y.ndim)]
    joins += [gn.stack([y, zeros], axis) for axis in range(y.ndim + 1)]
    for join in joins:
        expected, found = (gn.compile(join, inputs, backend=each)(*arrays)[0] for each in ("numpy", "numba"))
        with case(join.describe()):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
