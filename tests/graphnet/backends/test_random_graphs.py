"""Numba matches NumPy on random graphs and new cells, with any passes and any order of a plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.backends.numba.backend import NumbaBackend
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.schedule import make_schedule
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import substitute
from tests.graphnet.backends.conftest import require_same
from tests.graphnet.backends.races import planned, races
from tests.graphnet.backends.unseen_cells import CELLS, Tied
from tests.graphnet.testing.test_random_graphs import graphs, some
from tests.tables import case, some_quick

#: An eighth of the graphs, and all of them (slow): each has kernels of its own to compile.
NUMBERS = pytest.mark.parametrize(
    "share", [8, pytest.param(1, marks=pytest.mark.slow)], ids=["eighth", "all"]
)


def with_derivatives(outputs, leaves):
    cost = gn.add(*(gn.sum(gn.sin(node)) for node in outputs if is_float(node.dtype)))
    first = leaves[0]
    return [*outputs, *gn.gradient(cost, leaves), *gn.hessian_product(cost, {first: np.ones(first.shape)})]


def require_law(drawn, ways) -> None:
    """numba = NumPy without passes, for the outputs and their derivatives, compiled in each of these ways."""
    outputs, leaves, values = drawn
    nodes = with_derivatives(outputs, leaves)
    expected = gn.compile(nodes, leaves, backend="numpy", passes=())(*values)
    for how in ways:
        for a, b in zip(gn.compile(nodes, leaves, backend="numba", **how)(*values), expected, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=str(how))


#: Every pass left out; few of them, and in any order (which is drawn); threads and checks.
WAYS = {
    "one left out": lambda order: [{"passes": passes.without(left_out.name)} for left_out in passes.DEFAULT],
    "few": lambda order: [{"passes": each} for each in ((), (passes.fuse,), (passes.batch, passes.fuse))],
    "any order": lambda order: [{"passes": order}],
    "threads and checks": lambda order: [{"threads": 2}, {"check": True}, {"check": True, "threads": 3}],
}


@NUMBERS
@pytest.mark.parametrize("way", WAYS)
def test_random_graphs_match_in_every_mode(way: str, share: int) -> None:
    orders = st.permutations((*passes.DEFAULT, *passes.recomputing(3)))
    law = given(graphs(), orders)(lambda drawn, order: require_law(drawn, WAYS[way](order)))
    some((250 if way == "any order" else 30) // share)(law)()


@NUMBERS
def test_divided_work_on_small_graphs(share: int) -> None:
    """Loops, products and scatters of small graphs are divided as those of large ones."""

    @some(120 // share)
    @given(graphs(rows=12))
    def law(drawn) -> None:
        outputs, leaves, values = drawn
        nodes = with_derivatives(outputs, leaves)
        expected = gn.compile(nodes, leaves, backend="numpy", passes=())(*values)
        source = gn.Graph(nodes, leaves)
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
    """Inputs are float32, other nodes float64, and the gradient is float32."""

    @some(30 // share)
    @given(graphs())
    def law(drawn) -> None:
        outputs, leaves, values = drawn
        singles = [gn.input(leaf.shape, "float32") for leaf in leaves]
        doubled = {leaf: gn.cast(gn.tanh(x), "float64") for leaf, x in zip(leaves, singles, strict=True)}
        floats = [node for node in substitute(outputs, doubled) if is_float(node.dtype)]
        nodes = [*floats, *gn.gradient(gn.add(*(gn.sum(gn.sin(node)) for node in floats)), singles)]
        arrays = [value.astype("float32") for value in values]
        expected = gn.compile(nodes, singles, backend="numpy", passes=())(*arrays)
        for a, b in zip(gn.compile(nodes, singles)(*arrays), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(abs(b).max(initial=1.0)))

    law()


@pytest.mark.parametrize("cell", some_quick(CELLS, (Tied,)))
def test_numba_matches_numpy(cell: type[rnn.Cell]) -> None:
    """Cost, final states, gradient and Gauss-Newton product, for sizes that are no multiples of the vector width."""
    sizes = ((1, 1, 1), (1, 37, 4), (3, 5, 2), (33, 5, 3), (33, 1, 2), (33, 37, 2))
    for dtype, (batch, units, time) in (
        *(("float32", s) for s in sizes),
        *(("float64", s) for s in sizes[1:4:2]),
    ):
        net = rnn.Network([cell(units)], 5, 6, dtype=dtype)
        with case(dtype, batch, units, time):
            u = net.unroll(time, batch, training=False)
            require_network(net, u, 1e-4 if dtype == "float32" else 1e-10)
    how = {"skip": True, "dtype": "float64", "reads": "vectors", "loss": "squared", "seed": 1}
    net = rnn.Network([cell(5), cell(9)], 4, 3, **how)
    for threads in (1, 2):
        require_network(net, net.unroll(4, 10, training=False), 1e-10, threads=threads)


def require_network(net: rnn.Network, u, rtol: float, **how) -> None:
    generator = np.random.default_rng(0)
    parameters, inputs = list(net.parameters.values()), [u.inputs, u.targets, *u.initial]
    tangents = {p: generator.standard_normal(p.shape).astype(p.dtype) for p in parameters}
    nodes = [u.cost, *u.final, *gn.gradient(u.cost, parameters), *gn.gauss_newton_product(u.cost, tangents)]
    if rtol < 1e-8:
        nodes += gn.hessian_product(u.cost, tangents)
    arrays = [
        generator.integers(0, 5, n.shape) if n.dtype.kind == "i" else 0.5 * generator.standard_normal(n.shape)
        for n in inputs
    ]
    require_same(nodes, inputs, [a.astype(n.dtype) for a, n in zip(arrays, inputs, strict=True)], rtol, **how)
