"""The pass `cut`: long stacks are multiplied and summed in chunks, with less memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.plan.instructions import Loop, MatrixProduct
from graphnet.plan.lowering import lower
from tests.graphnet.passes.test_products import arrays_for, count, same_values
from tests.graphnet.passes.test_recompute import require_same
from tests.graphnet.testing.test_random_graphs import on_random_graphs, random_graphs
from tests.tables import case, some_quick

STEPS, ROWS = 12, 5


def steps(columns: int) -> tuple[Node, list[Node]]:
    """An input, and a list of nodes that are computed from its time steps."""
    x = gn.input((STEPS, ROWS, columns), "float64")
    return x, [gn.sin(row) for row in x]


def test_long_sums_are_computed_in_chunks() -> None:
    """The number of chunks is rows / minimum; each has whole time steps. Fewer than two chunks: no change."""
    (x, a), (y, b), index = steps(3), steps(4), gn.input((STEPS * ROWS,), "int64")
    long, other, there = gn.concatenate(a), gn.concatenate(b), gn.input((STEPS * ROWS, 3), "float64")
    product = long @ gn.parameter(np.cos(np.arange(12.0)).reshape(3, 4))
    for outputs, inputs, op in (
        ([long.T @ other], [x, y], "MatMul"),
        ([there.T @ other], [there, y], "MatMul"),
        ([gn.sum(long, 0)], [x], "Sum"),
        ([gn.scatter_add(long, index, 2)], [x, index], "ScatterAdd"),
        ([gn.tanh(product[i * ROWS : (i + 1) * ROWS]) for i in range(STEPS)], [x], "MatMul"),
    ):
        before = Graph(outputs, inputs)
        for rows, chunks in ((ROWS, STEPS), (2 * ROWS, 6), (17, 3), (30, 2), (31, 1)):
            with case(outputs[0], rows):
                after = passes.cut(before, rows)
                assert count(after, op) == chunks
                same_values(before, after)
                assert chunks > 1 or len(after) == len(before)


def test_joins_of_inputs_of_different_sizes() -> None:
    """Long inputs are not cut, and short ones are grouped; some rows are never read.

    A join is left unchanged if a chunk would end inside one of its inputs.
    """
    (x, a), y = steps(3), gn.input((2, STEPS * ROWS // 2, 4), "float64")
    halves = gn.concatenate([gn.sin(half) for half in y])
    rows = gn.input((100, 3), "float64")
    edges = [0, 1, 2, 3, 40, 41, 41, 90, 100]
    joined = gn.sum(gn.concatenate([gn.sin(rows[i:j]) for i, j in pairwise(edges)]), 0)
    product = rows @ gn.constant(np.ones((3, 2)))
    parts = [product[10:30] * 2, product[30:31] * 3, product[50:90, :1] * 4]
    for outputs, inputs, longest, op, chunks in (
        ([halves.T @ gn.concatenate(a)], [x, y], 2 * ROWS, "MatMul", [1]),
        ([halves.T @ gn.concatenate(a)], [x, y], 6 * ROWS, "MatMul", [2]),
        ([joined], [rows], 10, "Sum", range(2, 8)),
        (parts, [rows], 20, "MatMul", range(2, 100)),
    ):
        graph = Graph(outputs, inputs)
        after = passes.cut(graph, longest)
        assert count(after, op) in chunks
        same_values(graph, after)


def test_products_not_read_in_parts_are_unchanged() -> None:
    x = gn.input((60, 3), "float64")
    p = x @ gn.constant(np.ones((3, 2)))
    for number, readers in enumerate((
        [p[:30], p[30:], p], [p[:30], p[30:], p[60:]], [p[:31], p[29:]], [p[::2], p[1::2]], [p[0], p[1:]], [p * 2],
        [p[:, :1], p[:, 1:]],
    )):  # fmt: skip
        with case(number):
            graph = Graph([gn.tanh(node) for node in readers], [x])
            assert passes.cut(graph, 10) is graph or count(passes.cut(graph, 10)) == 1


@random_graphs(25, 200)
def test_random_graphs_keep_their_values(count: int) -> None:
    def check(drawn: Any, rows: int, order: Sequence[passes.Pass]) -> None:
        outputs, leaves, values = drawn
        short = passes.Pass("cut", partial(passes.cut, rows=rows))
        chosen = [short if step.name == "cut" else step for step in order]
        plain = gn.compile(outputs, leaves, backend="numpy", passes=())
        require_same(gn.compile(outputs, leaves, passes=chosen), plain, *values)

    on_random_graphs(check, count, st.integers(1, 3), st.permutations(passes.DEFAULT))


def net_of(cell: type[rnn.Cell], length: int, batch: int, what: str) -> tuple[list[Node], list[Node]]:
    net = rnn.Network([cell(8)], 5, 5, seed=0, dtype="float64")
    u = net.unroll(length, batch, initial="zero")
    parameters = list(net.parameters.values())
    if what == "gradient":
        return [u.cost, *gn.gradient(u.cost, parameters)], [u.inputs, u.targets]
    v = {p: gn.input(p.shape, p.dtype, varying=True) for p in parameters}
    return gn.gauss_newton_product(u.cost, v), [u.inputs, u.targets, *v.values()]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["Gv", "gradient"])
def test_cut_saves_memory_for_long_sequences(what: str) -> None:
    """Arrays of the backward pass are freed segment by segment. Results equal those without `cut`."""
    outputs, inputs = net_of(rnn.LSTM, 200, 64, what)
    arrays, threads = arrays_for(inputs), 2 if what == "Gv" else 1
    short = gn.compile(outputs, inputs, threads=threads)
    whole = gn.compile(outputs, inputs, threads=threads, passes=passes.without("cut"))
    assert short.memory.peak < 0.85 * whole.memory.peak
    require_same(short, whole, *arrays)
    if what == "Gv":
        for a, b in zip(short.again(*arrays[2:]), short(*arrays), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_chunk_is_multiplied_when_it_is_first_read() -> None:
    """The output layer's gradient for a segment is computed when the backward pass reaches the segment."""
    made = net_of(rnn.Elman, 100, 64, "gradient")
    assert "cut" not in {report.name for report in gn.compile(*made, backend="numpy").reports}
    instructions = lower(gn.compile(*made).graph).instructions
    products = [(i, x.c.shape) for i, x in enumerate(instructions) if isinstance(x, MatrixProduct)]
    sent = [i for i, shape in products if shape[0] > 2000 and shape[1] == 8]
    assert len(sent) == 3
    assert all(b - a > 2 * 30 for a, b in pairwise(sent)), sent


ONE_PLACE = ("Elman", "GRU", "MultiplicativeLSTM", "RHN", "LSTM", "LSTMPeephole", "MRNN", "Normalized")


def stored_twice(function: gn.Function) -> int:
    """Values that loops write to more than one place."""
    numbers = [[n for n, _ in i.stores] for i in lower(function.graph).instructions if isinstance(i, Loop)]
    return sum(len(stores) - len(set(stores)) for stores in numbers)


@pytest.mark.parametrize("name", some_quick(ONE_PLACE, ("Elman", "GRU", "LSTMPeephole", "Normalized")))
def test_values_are_stored_once(name: str) -> None:
    """No loop stores a value twice: all gradients use one order of time steps and gates.

    Includes an initial state that is a number, and stages that are computed again from a kept state.
    """
    ways = ((8, "gradient", {}), (8, "Gv", {}), (40, "gradient", {"memory": "sqrt"}))
    for steps, what, how in ways:
        if not how or name in ("Elman", "GRU", "MultiplicativeLSTM", "RHN"):
            with case(what, how):
                assert stored_twice(gn.compile(*net_of(rnn.cells.ALL[name], steps, 3, what), **how)) == 0


def test_stages_sum_all_gates_together() -> None:
    """One product, one sum over rows and one scatter for an LSTM's four gates, in each stage."""
    graph = gn.compile(*net_of(rnn.LSTM, 40, 3, "gradient"), memory="sqrt").graph
    scatters = count(graph, "ScatterAdd")
    assert 2 <= scatters <= 8
    products = [n for n in graph.order if n.op.name == "MatMul" and n.shape == (8, 32)]
    assert sum(n.inputs[0].op.name == "Transpose" for n in products) == scatters
