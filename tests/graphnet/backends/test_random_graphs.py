"""Random graphs: numba = NumPy, whichever passes have run, also in orders that a plan does not expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphnet as gn
from graphnet import passes
from graphnet.backends.numba.backend import NumbaBackend
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.schedule import make_schedule
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import Graph, substitute
from graphnet.graph.node import Array, Node
from tests.graphnet.backends.races import planned, races
from tests.graphnet.testing.test_random_graphs import graphs

#: A fifth of the graphs, and all of them (slow): each has kernels of its own to compile.
NUMBERS = pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["fifth", "all"])


def some(count: int) -> settings:
    """So many graphs, the same in every run."""
    checks = list(HealthCheck)
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=checks
    )


def with_derivatives(outputs: list[Node], leaves: list[Node]) -> list[Node]:
    cost = gn.add(*(gn.sum(gn.sin(node)) for node in outputs if is_float(node.dtype)))
    first = leaves[0]
    return [*outputs, *gn.gradient(cost, leaves), *gn.hessian_product(cost, {first: np.ones(first.shape)})]


def require_same(drawn: Any, ways: Sequence[dict[str, Any]]) -> None:
    """numba = NumPy without passes, for the outputs and their derivatives, compiled in each of these ways."""
    outputs, leaves, values = drawn
    nodes = with_derivatives(outputs, leaves)
    expected = gn.compile(nodes, leaves, backend="numpy", passes=())(*values)
    for how in ways:
        for a, b in zip(gn.compile(nodes, leaves, backend="numba", **how)(*values), expected, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=str(how))


def require_all(share: int, ways: Callable[[Any], Sequence[dict[str, Any]]], drawn_too: Any = None) -> None:
    """For 30 graphs, or a share of them; ways: of what is drawn_too."""

    @some(30 // share)
    @given(graphs(), st.none() if drawn_too is None else drawn_too)
    def law(drawn: Any, other: Any) -> None:
        require_same(drawn, ways(other))

    law()


@NUMBERS
def test_every_pass_may_be_left_out(share: int) -> None:
    require_all(share, lambda _: [{"passes": passes.without(left_out.name)} for left_out in passes.DEFAULT])


@NUMBERS
def test_few_passes_and_passes_in_any_order(share: int) -> None:
    few: list[Any] = [(), (passes.fuse,), (passes.batch, passes.fuse)]
    require_all(
        share, lambda order: [{"passes": each} for each in (*few, order)], st.permutations(passes.DEFAULT)
    )


@NUMBERS
def test_threads_and_checks(share: int) -> None:
    require_all(share, lambda _: [{"threads": 2}, {"check": True}, {"check": True, "threads": 3}])


@NUMBERS
def test_work_that_is_divided(share: int) -> None:
    """Graphs this small run on one core, in one piece; here each loop, product and scatter is cut as large ones are."""

    @some(120 // share)
    @given(graphs(rows=12))
    def law(drawn: Any) -> None:
        outputs, leaves, values = drawn
        nodes = with_derivatives(outputs, leaves)
        expected = gn.compile(nodes, leaves, backend="numpy", passes=())(*values)
        source = Graph(nodes, leaves)
        graph, _ = passes.optimize(source, passes.DEFAULT, NumbaBackend.has)
        for check in (False, True):
            rehearsed = list(NumbaBackend().rehearse(graph, source, values, check))
            for a, b in zip(rehearsed[0][1], expected, strict=True):  # twelve rows round more than two
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
            for order, found in rehearsed:
                assert [a.tobytes() for a in found] == [b.tobytes() for b in rehearsed[0][1]], order
        plan = planned(lambda: make_schedule(graph, this_machine(), 3, False, finely=True))
        assert list(races(plan)) == []

    law()


@NUMBERS
def test_single_and_double_precision_in_one_function(share: int) -> None:
    """The leaves are float32, all else float64, and the gradient is float32 again."""

    @some(30 // share)
    @given(graphs())
    def law(drawn: Any) -> None:
        outputs, leaves, values = drawn
        singles = [gn.input(leaf.shape, "float32") for leaf in leaves]
        doubled = {leaf: gn.cast(gn.tanh(x), "float64") for leaf, x in zip(leaves, singles, strict=True)}
        floats = [node for node in substitute(outputs, doubled) if is_float(node.dtype)]
        nodes = [*floats, *gn.gradient(gn.add(*(gn.sum(gn.sin(node)) for node in floats)), singles)]
        arrays: list[Array] = [value.astype("float32") for value in values]
        expected = gn.compile(nodes, singles, backend="numpy", passes=())(*arrays)
        for a, b in zip(gn.compile(nodes, singles)(*arrays), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(abs(b).max(initial=1.0)))

    law()
