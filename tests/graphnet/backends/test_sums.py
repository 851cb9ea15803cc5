"""Sums of float64 are as precise as pairwise ones, however many terms they have and wherever these lie."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.numba import machine
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array
from graphnet.passes.cut import cut
from tests.tables import case

EPSILON = 2.0**-52

#: Shape, and the axes that are summed. 0.1 a million times over, one after the other, is wrong by 10,000 ε.
LONG = {
    "vector": ((1_000_000,), (0,)), "rows": ((3, 200_001), (1,)), "many-rows": ((17, 30_000), (1,)),
    "columns": ((200_000, 3), (0,)), "many-columns": ((30_000, 133), (0,)), "all": ((400, 700), (0, 1)),
    "outer": ((70, 60, 90), (0, 1)), "first": ((5_000, 3, 5), (0,)), "middle": ((3, 5_000, 5), (1,)),
    "first-and-last": ((300, 5, 40), (0, 2)), "short-rows": ((3_000, 2), (0, 1)),
}  # fmt: skip

#: How each back end is asked for; the simulator would take minutes for so many terms.
BACKENDS = {
    "numpy": {"backend": "numpy"}, "numba": {"backend": "numba", "threads": 1},
    "two-threads": {"backend": "numba", "threads": 2},
}  # fmt: skip
everywhere = pytest.mark.parametrize("how", BACKENDS.values(), ids=BACKENDS)


def worst(found: Array, number: float, count: int) -> float:
    """The largest error of sums of so many equal numbers, in ε of the sum."""
    right = math.fsum(itertools.repeat(number, count))
    return float(abs((found - right) / right).max() / EPSILON)


@everywhere
def test_long_sums(how: dict[str, Any]) -> None:
    for name, (shape, axes) in LONG.items():
        x = gn.input(shape, "float64")
        nodes = [gn.sum(x, axes), gn.sum(gn.stop_gradient(x) * 1.0, axes)]
        function = gn.compile(nodes, [x], **how)
        for number in (0.1, 0.7):
            terms = np.full(shape, number)
            for found in function(terms):
                with case(name, number):
                    assert worst(found, number, math.prod(shape[axis] for axis in axes)) <= 2


@everywhere
def test_sums_of_what_lies_the_other_way(how: dict[str, Any]) -> None:
    x = gn.input((30_000, 20), "float64")
    terms = np.full(x.shape, 0.1)
    rows, columns = gn.compile([gn.sum(x.T, 1), gn.mean(x.T, 0)], [x], **how)(terms)
    assert worst(rows, 0.1, 30_000) <= 2
    assert worst(columns, 0.1 / 20, 20) <= 2


@pytest.mark.cuda
def test_long_sums_on_cuda() -> None:
    for shape, axes in (((6_000,), (0,)), ((2_000, 3), (0,)), ((3, 2_000), (1,))):
        x, terms = gn.input(shape, "float64"), np.full(shape, 0.1)
        (found,) = gn.compile(gn.sum(x, axes), [x], backend="cuda")(terms)
        with case(shape, axes):
            assert worst(found, 0.1, shape[axes[0]]) <= 2


def test_on_vectors_of_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine.this_machine()
    x, terms = gn.input((2, 40_003), "float64"), np.full((2, 40_003), 0.1)
    for width in [width for width in (16, 32, 64) if width <= here.vector_bytes]:
        for threads in (1, 2):
            with monkeypatch.context() as patch, case(width, threads):
                patch.setattr(here, "vector_bytes", width)
                nodes = [gn.sum(x, 1), gn.sum(gn.transpose(x) * 1.0, 0)]
                rows, columns = gn.compile(nodes, [x], threads=threads)(terms)
                assert max(worst(rows, 0.1, 40_003), worst(columns, 0.1, 40_003)) <= 2


@everywhere
def test_sums_of_many_nodes(how: dict[str, Any]) -> None:
    for count in (17, 256, 257, 5_000):
        x = gn.input((count, 2), "float64")
        terms = np.full(x.shape, 0.1)
        (found,) = gn.compile(gn.add(*(row * 1.0 for row in x)), [x], passes=(), **how)(terms)
        with case(count):
            assert worst(found, 0.1, count) <= (4 if count < 5_000 else 8)


@everywhere
def test_sums_inside_of_other_ops(how: dict[str, Any]) -> None:
    """Of n equal numbers: n, which log and exp round as much as they must."""
    x = gn.input((50_000, 3), "float64")
    nodes = [gn.exp(gn.logsumexp(x, 0)), 1 / gn.softmax(x, 0)[0], gn.exp(-gn.log_softmax(x, 0)[0])]
    for found in gn.compile(nodes, [x], **how)(np.full(x.shape, 0.1) - 0.1):
        np.testing.assert_allclose(found, 50_000, rtol=30 * EPSILON)


def test_sums_that_are_cut_into_chunks() -> None:
    pieces = [gn.input((2, 3), "float64") for _ in range(2_000)]
    arrays = [np.full((2, 3), 0.1)] * 2_000
    graph = cut(Graph([gn.sum(gn.concatenate(pieces), 0)], pieces), rows=2)
    assert len(graph) > 4_000, "nothing was cut"
    for backend in ("numpy", "numba"):
        (found,) = gn.compile(graph.outputs, pieces, backend=backend, passes=())(*arrays)
        assert worst(found, 0.1, 4_000) <= 8


@pytest.mark.parametrize("backend", ["numpy", "numba", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_what_is_not_finite(backend: str) -> None:
    x = gn.input((700, 3), "float64")
    function = gn.compile([gn.sum(x, 0), gn.sum(gn.transpose(x), 1)], [x], backend=backend)
    y = gn.input((3, 700), "float64")
    other = gn.compile(gn.sum(y, 1), [y], backend=backend)
    for first, last, expected in (
        (np.inf, 1.0, np.inf), (-np.inf, 1.0, -np.inf), (np.inf, -np.inf, np.nan), (np.nan, 1.0, np.nan),
        (1e308, 1e308, np.inf), (-1e308, -1e308, -np.inf),
    ):  # fmt: skip
        terms = np.ones((700, 3))
        terms[0], terms[600] = first, last
        for found in (*function(terms), *other(terms.T.copy())):
            np.testing.assert_array_equal(found, np.full(3, expected), err_msg=f"{first}, {last}")
