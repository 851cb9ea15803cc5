"""Every pass: a graph that it changes, and a similar one that it leaves unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.shape import Pad
from tests.graphnet.passes.test_products import arrays_for
from tests.graphnet.passes.test_recompute import require_same
from tests.tables import case, require_rows

a, b = (gn.input((4, 3), "float64", name=name) for name in "ab")
W, V = (gn.parameter(np.ones((3, 3)), name=name) for name in "WV")
rows, index = gn.input((50, 3), "float64", name="rows"), gn.input((50,), "int64", name="index")
scattered = gn.scatter_add(rows, index, 5)
long = [gn.input((passes.cut.__defaults__[0], 3), name=f"long{i}") for i in range(4)]  # type: ignore[index]
three, below_zero = gn.constant(np.array([1.0, 2.0, 3.0])), gn.constant(np.array([-1.0]))


def columns(*summed: int) -> list[Node]:
    """Concatenation of two steps of [a | b], and sums over the rows of the given columns."""
    steps = [(gn.tanh(a), gn.tanh(b)), (gn.sin(a), gn.sin(b))]
    whole = gn.concatenate([gn.concatenate(step, 1) for step in steps])
    return [whole, *(gn.sum(gn.concatenate([step[i] for step in steps]), 0) for i in summed)]


#: Outputs of a graph that the pass changes, and of one that it does not.
EXAMPLES: dict[str, tuple[list[Node], list[Node]]] = {
    "prune": ([gn.label(a * b, "h") + 1], [a * b + 1]),
    "merge": ([gn.tanh(a) * gn.tanh(a)], [gn.tanh(a) * gn.tanh(b)]),
    "simplify": ([gn.transpose(a.T)], [a * 0.0]),  # 0 · ∞ is NaN
    "stack sums": ([a.T @ b + b.T @ a], [a.T @ b + b[:3]]),
    "stack rows": ([a @ W, b @ W], [gn.tanh(a @ W) @ W]),
    "stack columns": ([a @ W, a @ V], [a @ W, b @ V]),
    "stack reductions": (columns(0, 1), columns(0)),
    "batch": ([gn.concatenate([gn.tanh(a[:2]), gn.tanh(a[2:])])], [gn.concatenate([gn.tanh(a[:2]), gn.sin(a[2:])])]),
    "fold": ([gn.tanh(three) * a], [gn.log(below_zero)]),  # NaN is made where it runs
    "expand": ([gn.softmax(a)], [gn.tanh(a)]),
    "merge again": ([gn.tanh(a) * gn.tanh(a)], [gn.tanh(a) * gn.tanh(b)]),
    "sum scatters": ([gn.sum(rows, 0), scattered], [gn.sum(rows, 1), scattered]),
    "cut": ([gn.sum(gn.concatenate(long), 0)], [gn.sum(gn.concatenate(long[:1]), 0)]),
    "fuse": ([gn.tanh(a) * b], [a @ W]),
    "fuse reductions": ([gn.sum(gn.tanh(a), 1)], [gn.sum(gn.tanh(a), 0)]),
}  # fmt: skip


def changed(name: str, outputs: list[Node]) -> bool:
    """True if the pass changes the nodes or groups."""
    (step,) = (step for step in passes.DEFAULT if step.name == name)
    before = passes.fuse(Graph(outputs)) if name == "fuse reductions" else Graph(outputs)
    after = step(before)
    return (after.order, after.groups) != (before.order, before.groups)


def test_every_pass_changes_the_right_graphs() -> None:
    names = {step.name for step in passes.DEFAULT}
    what = "outputs of a graph on which it fires, and of one that it leaves as it is"
    require_rows(names - set(EXAMPLES), "EXAMPLES in test_every_pass.py", what)
    require_rows(set(EXAMPLES) - names, "DEFAULT in graphnet/passes/__init__.py", "the pass")
    page = (Path(__file__).parents[3] / "docs" / "design" / "passes.md").read_text(encoding="utf-8")
    unknown = {name for name in names if name.removesuffix(" again") not in page}
    require_rows(unknown, "the table in docs/design/passes.md", "what the pass does")
    for name, (fires, stays) in EXAMPLES.items():
        with case(name):
            assert changed(name, fires)
            assert not changed(name, stays)
    for sums in (gn.sum(rows, 1), gn.sum(rows, (0, 1)), gn.max(rows, 0), gn.sum(rows * 2.0, 0)):
        assert not changed("sum scatters", [sums, scattered])
    across = gn.scatter_add(rows.T, index, 3, axis=1)
    assert not changed("sum scatters", [gn.sum(rows, 0), across])


T = 12
#: Slices of x [12, 6] -> most arrays of x's size in the sum of cotangents (pads and joins).
READS: dict[str, tuple[Callable[[gn.Node], list[gn.Node]], int]] = {
    "each row": (lambda x: [x[t] for t in range(T)], 1),
    "each row, the first twice": (lambda x: [x[0], *(x[t] for t in range(T))], 1),
    "each row but some": (lambda x: [x[t] for t in range(T) if t not in (0, 4, 5, 11)], 1),
    "in pieces, with gaps": (lambda x: [x[1:3], x[3:4], x[7:9]], 1),
    "windows of three": (lambda x: [x[t : t + 3] for t in range(T - 2)], 3),
    "one row at each step": (lambda x: [x[3] for _ in range(T)], 1),
    "parts of rows": (lambda x: [part for t in range(T) for part in (x[t, :2], x[t, 2:5])], 1),
    "columns and elements": (lambda x: [*(x[:, j] for j in range(6)), *(x[t, 1] for t in range(T))], 3),
    "every other row": (lambda x: [x[::2], x[1::2], x[0], x[1]], 4),
    "rows, and the whole": (lambda x: [*(x[t] for t in range(T)), x], 2),
}


def test_sums_of_pads() -> None:
    for reads, (read, most) in READS.items():
        with case(reads):
            values = np.random.default_rng(0).standard_normal((T, 6))
            x = gn.input(values.shape, "float64")
            cost = gn.fill(0.0, (), "float64")
            expected = np.zeros_like(values)
            for factor, part in enumerate(read(x), start=1):
                cost = cost + factor * gn.sum(gn.sin(part))
            places = read(gn.constant(np.arange(values.size).reshape(values.shape)))
            for factor, index in enumerate(places, start=1):
                (at,) = gn.compile([index], [])()
                expected.reshape(-1)[at] += factor * np.cos(values.reshape(-1)[at])
            gradient = gn.gradient(cost, [x])
            np.testing.assert_allclose(gn.compile(gradient, [x])(values)[0], expected, rtol=1e-12)
            (total,) = passes.simplify(Graph(gradient)).outputs
            arrays = total.inputs if total.op.name == "Add" else (total,)
            assert len(arrays) <= most, [node.describe() for node in arrays]
    (total,) = passes.simplify(Graph(gn.gradient(gn.sum(gn.sin(x[3])), [x]))).outputs
    assert isinstance(total.op, Pad)


def test_reading_each_step_costs_no_more_than_reading_all() -> None:
    """Memory of a run grows with T, not with T²."""
    for offset in (0, 1):
        peaks = []
        for steps in (200, 400):
            x = gn.input((steps, 8), "float64")
            cost = gn.sum(gn.sin(x[0]))
            for t in range(offset, steps):
                cost = cost + gn.sum(gn.sin(x[t]))
            peaks.append(gn.compile(gn.gradient(cost, [x]), [x]).memory.peak)
        assert peaks[1] <= 2.2 * peaks[0], peaks


def rows_summed(function: gn.Function) -> list[int]:
    sums = [n for n in function.graph.order if n.op.name == "Sum" and n.op.axes == (0,)]
    return sorted(n.inputs[0].shape[0] for n in sums)


def test_sum_uses_the_array_with_fewer_rows() -> None:
    for rows, size, expected in ((50, 7, 7), (7, 7, 7), (5, 9, 5)):
        for backend in ("numpy", "numba"):
            with case(rows, size, backend):
                x, index = gn.input((rows, 20), "float64"), gn.input((rows,), "int64")
                y = gn.tanh(x)
                outputs = [gn.sum(y, axis=0), gn.scatter_add(y, index, size)]
                function = gn.compile(outputs, [x, index], backend=backend)
                assert rows_summed(function) == [expected]
                plain = gn.compile(outputs, [x, index], backend="numpy", passes=())
                require_same(function, plain, *arrays_for([x, index]))


def test_fixed_sums_do_not_use_varying_indices() -> None:
    for varies, expected in (("index", 50), ("rows", 4), ("", 4)):
        with case(varies):
            x = gn.input((50, 20), varying=varies == "rows")
            i = gn.input((50,), "int64", varying=varies == "index")
            assert rows_summed(gn.compile([gn.scatter_add(x, i, 4), gn.sum(x, axis=0)], [x, i])) == [expected]
    x, i, j = gn.input((50, 20)), gn.input((50,), "int64"), gn.input((50,), "int64")
    scatters = [gn.scatter_add(x, k, size) for k, size in ((i, 30), (j, 4), (i, 40))]
    assert rows_summed(gn.compile([*scatters, gn.sum(x, axis=0)], [x, i, j])) == [4]


def test_pass_applies_to_biases_of_cells_with_symbols() -> None:
    for cell in (rnn.LSTM, rnn.Elman, rnn.GRU):
        with case(cell.__name__):
            net = rnn.Network([cell(8)], 5, 5)
            u = net.unroll(10, 4, initial="zero")
            outputs = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
            function = gn.compile(outputs, [u.inputs, u.targets])
            assert set(rows_summed(function)) == {5, 40}  # the output's bias has no symbols beside it
            apart = gn.compile(outputs, [u.inputs, u.targets], passes=passes.without("sum scatters"))
            assert 5 not in rows_summed(apart)


def test_scattered_booleans_without_passes() -> None:
    x, array = gn.input((2, 4), "bool", name="x"), np.array([[1, 0, 0, 1], [1, 1, 1, 1]], bool)
    for axis, index in ((0, [0, 0]), (1, [0, 0, 0, 0])):
        y = gn.scatter_add(x, index, 2, axis=axis)
        for chosen in ((), passes.without("expand")):
            with case(axis):
                (found,) = gn.compile([y], [x], passes=chosen)(array)
                expected = np.zeros(y.shape, bool)
                np.logical_or.at(expected, (index,) if axis == 0 else (slice(None), index), array)
                np.testing.assert_array_equal(found, expected)
