"""Lookups of columns and sums into columns: as they lie, without a transposed copy, on any number of cores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphnet as gn
from graphnet.errors import GraphnetError
from graphnet.plan.instructions import Host
from graphnet.plan.lowering import lower
from tests.graphnet.backends.conftest import require_same
from tests.tables import case

SIZES = ((1, 1, 1), (1, 5, 3), (3, 7, 16), (4, 3, 33), (9, 40, 130), (64, 50, 400), (5, 4, 0))


@pytest.mark.parametrize("index_dtype", ["int64", "int32", "uint8"])
def test_like_numpy(index_dtype: str) -> None:
    for dtype, (rows, columns, edges), threads in itertools.product(("float32", "float64"), SIZES, (1, 2)):
        with case(dtype, rows, columns, edges, threads):
            require_layer(rows, columns, edges, index_dtype, dtype, threads)


def require_layer(rows: int, columns: int, edges: int, index_dtype: str, dtype: str, threads: int) -> None:
    """A layer over a graph: y_j = tanh(Σ_i a_i τ_ij), its gradient, and the transposed operands of both."""
    generator = np.random.default_rng(0)
    source, target = generator.integers(0, columns, (2, edges)).astype(index_dtype)
    a, tau = gn.input((rows, columns), dtype, name="a"), gn.input((rows, edges), dtype, name="tau")
    i, j = gn.input((edges,), index_dtype, name="i"), gn.constant(target)
    y = gn.tanh(gn.scatter_add(gn.take(a, i, axis=1) * tau, j, columns, axis=1))
    across = gn.scatter_add(
        gn.take(a.T, np.arange(rows)[::-1].copy(), axis=1), np.arange(rows), rows + 1, axis=1
    )
    nodes = [y, across, *gn.gradient(gn.sum(y * y), [a, tau])]
    arrays = [
        generator.standard_normal(a.shape).astype(dtype),
        generator.standard_normal(tau.shape).astype(dtype),
        source,
    ]
    require_same(nodes, [a, tau, i], arrays, 1e-5 if dtype == "float32" else 1e-12, threads=threads)


def test_an_index_of_two_axes() -> None:
    generator = np.random.default_rng(0)
    x = gn.input((5, 3), "float64")
    for shape in ((2, 4), (0, 4), (4, 0)):
        y = gn.take(x, generator.integers(0, 3, shape), axis=1)
        nodes = [y, *gn.gradient(gn.sum(y * y), [x])]
        for passes in ((), gn.passes.DEFAULT):
            require_same(nodes, [x], [generator.standard_normal((5, 3))], 1e-12, passes=passes)


def test_strided_index() -> None:
    x, index = gn.input((3, 6), "float64"), gn.input((20, 2), "int64")
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal((3, 6)), generator.integers(0, 6, (20, 2))]
    require_same([gn.take(x, index[:, 1], axis=1), gn.take(x, index.T[0], axis=1)], [x, index], arrays, 1e-15)


def test_an_index_out_of_range_is_told() -> None:
    x, index = gn.input((2, 6)), gn.input((17,), "int64", name="places")
    for node in (
        gn.take(x, index, axis=1),
        gn.scatter_add(gn.take(x, np.zeros(17, int), axis=1), index, 6, axis=1),
    ):
        function = gn.compile([node], [x, index])
        for wrong, at in itertools.product((-1, 6, 10**12), (0, 7, 16)):
            values = np.zeros(17, np.int64)
            values[at] = wrong
            with pytest.raises(GraphnetError, match=str(wrong)):
                function(np.zeros((2, 6), "f"), values)


def test_nothing_runs_in_python() -> None:
    """The program of a sparse layer is native from end to end."""
    a, tau = gn.input((8, 30)), gn.input((8, 90))
    generator = np.random.default_rng(0)
    i, j = generator.integers(0, 30, (2, 90))
    y = gn.scatter_add(gn.take(a, i, axis=1) * tau, j, 30, axis=1)
    function = gn.compile([y, *gn.gradient(gn.sum(y * y), [a, tau])], [a, tau])
    assert not [step for step in lower(function.graph).instructions if isinstance(step, Host)]
    names = [node.op.name for node in function.graph.order]
    assert "Transpose" not in names
