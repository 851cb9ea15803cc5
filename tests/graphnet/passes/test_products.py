"""Passes for compiled back ends and products change only the right graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from tests.graphnet.testing.test_random_graphs import ops_of
from tests.tables import case


def count(graph: Graph, op: str = "MatMul") -> int:
    return ops_of(graph)[op]


def arrays_for(inputs: Sequence[Node]) -> list[Array]:
    draws = np.random.default_rng(0)
    return [
        draws.standard_normal(x.shape).astype(x.dtype) if x.dtype.kind == "f" else draws.integers(0, 2, x.shape)
        for x in inputs
    ]  # fmt: skip


def same_values(before: Graph, after: Graph) -> None:
    assert after.inputs == before.inputs
    arrays = arrays_for(before.inputs)
    values = [gn.compile(g.outputs, g.inputs, backend="numpy", passes=())(*arrays) for g in (after, before)]
    for a, b in zip(*values, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def require_counts(step: Any, outputs: list[Node], counts: tuple[int, int]) -> Graph:
    """Requires these numbers of products before and after the pass, and equal values; returns the graph."""
    before = Graph(outputs)
    after = step(before)
    assert (count(before), count(after)) == counts
    same_values(before, after)
    return after


def matrix(*shape: int) -> Node:
    return gn.input(shape, "float64")


def weights(*shape: int) -> Node:
    return gn.parameter(np.sin(np.arange(np.prod(shape), dtype="float64")).reshape(shape))


x, y, W, V, square = matrix(3, 4), matrix(3, 4), weights(4, 2), weights(4, 2), weights(4, 4)
source, bias = matrix(3, 2, 4), weights(4)


class Gated(rnn.Cell):
    """m = (x W_xm) (h W_hn); z = σ(x, m, s);  h' = z tanh(x, m);  s' = (1 - z) s + z tanh m. Only a test."""

    states = (rnn.State("h"), rnn.State("s"))

    def step(self, x: Node, h: Node, s: Node) -> tuple[Node, Node]:
        m = self.affine("m", x=x, bias=None) * self.affine("n", h=h, bias=None)
        z = gn.sigmoid(self.affine("z", x=x, m=m, s=s))
        return gn.tanh(self.affine("h", x=x, m=m)) * z, (1 - z) * s + z * gn.tanh(m)


def of_net(cell: type[rnn.Cell], steps: int, what: str) -> Graph:
    """The cost, or a derivative of it, of a net over dense inputs, as the passes that stack products are given it."""
    u = rnn.Network([cell(5)], 4, 3, dtype="float64", reads="vectors").unroll(steps, 2, training=False)
    parameters = list(u.network.parameters.values())
    tangents = {p: weights(*p.shape) for p in parameters}
    nodes: dict[str, Callable[[], Sequence[Node]]] = {
        "cost": lambda: [u.cost],
        "gradient": lambda: gn.gradient(u.cost, parameters),
        "rop": lambda: gn.rop([u.logits], tangents),
        "Gv": lambda: gn.gauss_newton_product(u.cost, tangents),
    }
    graph = Graph(nodes[what](), [u.inputs, u.targets, *u.initial])
    return passes.simplify(passes.merge(passes.prune(graph)))


def stacked(graph: Graph) -> Graph:
    return passes.stack_columns(passes.stack_rows(passes.stack_sums(graph)))


@pytest.mark.parametrize(("cell", "gates", "steps"), [(rnn.Elman, 1, 5), (rnn.LSTM, 4, 2)])
def test_product_passes_on_a_recurrent_net(cell: type[rnn.Cell], gates: int, steps: int) -> None:
    cost, gradient = of_net(cell, steps, "cost"), of_net(cell, steps, "gradient")
    forward = (2 * gates + 1) * steps
    # x_t [W_x· ...], and h_t [W_h· ... | W_ho], the output of step t with the gates of step t + 1
    columns = passes.stack_columns(cost)
    assert (count(cost), count(columns)) == (forward, 2 * steps + 1)
    widths = Counter(node.shape for node in columns.order if node.op.name == "MatMul")
    assert widths[2, 5 * gates + 3] == steps - 1
    # x_t W for all t, h_t W_ho for all t; h_t W_h· follow one another
    rows = passes.stack_rows(cost)
    assert count(rows) == gates + gates * steps + 1
    assert {(2 * steps, 5), (2 * steps, 3)} <= {n.shape for n in rows.order if n.op.name == "MatMul"}
    # a weight's gradient, a state's and a bias's; go_t W_hoᵀ is for rows
    sums = passes.stack_sums(gradient)
    assert count(gradient) == forward + steps + gates * (steps - 1) + forward
    assert count(sums) == forward + steps + (steps - 1) + (2 * gates + 1)
    over_rows = [sum(n.op.name == "Sum" and n.op.axes == (0,) for n in g.order) for g in (gradient, sums)]
    assert over_rows == [(gates + 1) * steps, gates + 1]
    for before, after in ((cost, columns), (cost, rows), (gradient, sums)):
        same_values(before, after)


def test_steps_keep_only_dependent_products() -> None:
    """In a sweep through time, a step keeps only products that depend on the step before.

    left: number of values of a step that are multiplied by weights (h; for a Gated cell h, m and s).
    """
    for cell, left in ((rnn.Elman, 1), (rnn.LSTM, 1), (rnn.GRU, 2), (Gated, 3)):
        for what, sweeps in (("cost", 1), ("gradient", 2), ("rop", 2), ("Gv", 3)):
            with case(cell.__name__, what):
                graphs = {steps: of_net(cell, steps, what) for steps in (3, 5)}
                after = {steps: stacked(graph) for steps, graph in graphs.items()}
                assert count(after[5]) - count(after[3]) == 2 * sweeps * left
                assert count(after[3]) < count(graphs[3])
                same_values(graphs[3], after[3])


def test_sums_rows_and_columns_may_differ_in_number() -> None:
    """For example, time steps with different batch sizes. Terms that are not products of weights are kept."""
    factors = [(matrix(n, 2), matrix(n, 3)) for n in (1, 5, 2)]
    require_counts(passes.stack_sums, [gn.add(*(a.T @ b for a, b in factors))], (3, 1))
    mixed = [gn.add(x.T @ y, gn.sin(W @ V.T), y.T @ x, W @ W.T)]
    assert count(require_counts(passes.stack_sums, mixed, (4, 3)), "Sin") == 1
    a, b = matrix(1, 4), matrix(6, 4)
    require_counts(passes.stack_rows, [a @ W, gn.tanh(b) @ W, (x + 1.0) @ W], (3, 1))
    by_weights = [x @ W, x @ weights(4, 1), x @ gn.tanh(weights(4, 7)), x @ y.T]
    require_counts(passes.stack_columns, by_weights, (4, 2))
    whole = matrix(4, 3, 4)  # slices of one array are read where they lie, in whatever order
    for order in ((0, 1, 2, 3), (2, 0, 3, 1)):
        after = require_counts(passes.stack_rows, [gn.sin(whole[t] @ W) for t in order], (4, 1))
        assert count(after, "Concatenate") == 0


def test_groups_are_never_cyclic() -> None:
    """(x W, b W) and (y V, a V) with a from x W and b from y V: one pair at most, never both."""
    left, right = weights(4, 4), weights(4, 4)
    before = Graph([gn.sin(x @ left) @ right, gn.sin(y @ right) @ left])
    after = passes.stack_rows(before)
    assert count(after) >= 3
    same_values(before, after)


def chains(*functions: Callable[[Node], Node]) -> list[Node]:
    """Each step waits for the one before. Links of two could be joined, but cores would wait at every link."""
    ends = [x, y][: len(functions)]
    for _ in range(4):
        ends = [function(end @ square) for function, end in zip(functions, ends, strict=True)]
    return ends


STAY: dict[str, list[Callable[[], list[Node]]]] = {
    "stack_sums": [
        lambda: [x.T @ y], lambda: [x.T @ y + 1.0], lambda: [x.T @ y + gn.sin(x.T @ y)],
        lambda: [gn.stack([x.T @ x, y.T @ y])], lambda: [gn.add(x, x * 2.0)],
        lambda: [x @ y.T + y @ gn.tanh(x.T)],  # not transposed on the left: no gradient of a weight
        lambda: [(p := x.T @ y) + (q := y.T @ x), p, gn.sin(q)],  # computed twice otherwise
        lambda: [gn.add(gn.sum(x, 0), gn.sum(y, 1)[:1])],
    ],
    "stack_rows": [
        lambda: [x @ W, x @ V], lambda: [x @ W, y @ V], lambda: [x @ W, W.T @ y.T], lambda: chains(gn.tanh),
        lambda: [matrix(0, 4) @ W, matrix(0, 4) @ W], lambda: chains(gn.tanh, gn.sin),
    ],
    "stack_columns": [
        lambda: [x @ W, y @ W], lambda: [x @ W, x.T @ y], lambda: [x @ W + x @ W],
        lambda: [(a := matrix(3, 3)) @ gn.tanh(a @ matrix(3, 3))],
    ],
    "batch": [
        *(lambda order=order: [gn.stack([source[i] for i in order])] for order in ((1, 0, 2), (0, 2, 1), (0, 0, 1))),
        lambda: [gn.stack([gn.sin(source[0]), gn.cos(source[1])])],  # not the same function
        lambda: [gn.stack([gn.sin(source[0]), source[1]])], lambda: [gn.stack([source[0] * 2.0, source[1] * 3.0])],
        lambda: [gn.stack([source[0] + bias, source[1] + gn.sin(bias)])],
        lambda: [gn.stack([source[0] + bias, source[1] + (bias * 2.0)])],
        lambda: [gn.stack([gn.sin(source[0]), gn.sin(source[1])], 1)],  # not along the first axis
        lambda: [gn.stack([p := gn.sin(source[0]), gn.sin(source[1])]), p],  # p would be computed twice
        lambda: [gn.stack([p := gn.sin(source[0]), gn.sin(source[1])]), gn.tanh(p)],
        lambda: [gn.concatenate([gn.sin(source[0][:1]), gn.sin(source[1])])],  # of different arrays
    ],
    "expand": [
        lambda: [gn.exp(x) / gn.sum(gn.exp(x), 1, keepdims=True)], lambda: [gn.softplus(x)],
        lambda: [gn.softmax(x[:0])], lambda: [gn.squared_error(x, x + 1.0)],
    ],
}  # fmt: skip


def test_products_without_savings_are_not_joined() -> None:
    """Products of batches are not joined either."""
    a, b = matrix(2, 3, 4), matrix(2, 4, 5)
    batches = Graph([gn.add(a @ b, gn.sin(a) @ b), a @ gn.cos(b)])
    for name, builds in STAY.items():
        for number, build in enumerate(builds):
            with case(name, number):
                graph = passes.merge(Graph(build()))
                after = getattr(passes, name)(graph)
                assert ops_of(after) == ops_of(graph)
                same_values(graph, after)
        assert ops_of(getattr(passes, name)(batches)) == ops_of(batches)


def test_fixed_rows_are_not_multiplied_again_with_varying_ones() -> None:
    v, shared = gn.input((2, 3), "float64", varying=True), weights(3, 4)
    require_counts(passes.stack_rows, [matrix(2, 3) @ shared, v @ shared], (2, 2))


def test_new_nodes_keep_the_line_of_old_ones() -> None:
    """Every node that a pass makes belongs to a line of the net that it was given."""
    graph = of_net(rnn.LSTM, 3, "gradient")
    lines = {node.origin for node in graph.order}
    for name in ("stack_sums", "stack_rows", "stack_columns", "batch", "expand", "fuse"):
        with case(name):
            assert {node.origin for node in getattr(passes, name)(graph).order} <= lines


def test_joins_of_all_slices_become_the_array() -> None:
    v, m = matrix(4), matrix(3, 3)
    for number, node in enumerate((
        gn.stack([m[0], m[1], m[2]]), gn.concatenate([m[:1], m[1:2], m[2:]]), gn.stack([v[k] for k in range(4)]),
        gn.stack([v[1], v[2]]), gn.stack([gn.sin(v[k]) for k in range(4)]), gn.stack([m[1, 0], m[1, 1], m[1, 2]]),
        gn.stack([m[0], m[1]]),
    )):  # fmt: skip
        with case(number):
            before = Graph([node], [v, m])
            after = passes.batch(before)
            same_values(before, after)
            assert number > 1 or not {"Stack", "Concatenate", "Slice"} & set(ops_of(after))


def test_bias_is_added_once() -> None:
    before = Graph([gn.stack([gn.tanh(source[t] + bias) * 2.0 for t in range(3)])])
    after = passes.batch(before)
    assert ops_of(before)["Tanh"] == 3
    found = ops_of(after)
    assert (found["Add"], found["Tanh"], found["Multiply"], found["Stack"], len(after)) == (1, 1, 1, 0, 9)
    same_values(before, after)
    before = stacked(of_net(rnn.Elman, 4, "cost"))
    after = passes.batch(before)
    assert count(after, "Add") < count(before, "Add")
    assert count(after, "Stack") == 0
    same_values(before, after)


LOOPS = {
    "Sum", "Max", "Exp", "Log", "Divide", "Subtract", "Add", "Multiply", "Negative", "Equal", "Where", "OneHot",
    "BroadcastTo", "Reshape", "Fill", "Input", "Constant",
}  # fmt: skip


def test_softmax_functions_become_loops_and_reductions() -> None:
    losses = [gn.softmax_cross_entropy(x, [1, 0, 3]), gn.softmax_cross_entropy(x, np.full((3, 4), 0.25))]
    functions = [f(x, axis) for f in (gn.softmax, gn.log_softmax) for axis in (1, 0)]
    for number, node in enumerate([*functions, gn.logsumexp(x), *losses]):
        with case(number):
            before = Graph([node], [x])
            after = passes.expand(before)
            assert set(ops_of(after)) <= LOOPS
            assert not set(ops_of(before)) <= LOOPS
            same_values(before, after)
    cost = gn.mean(losses[0])
    graph = passes.merge(passes.expand(Graph([cost, *gn.gradient(cost, x)])))
    assert (count(graph, "Exp"), count(graph, "Max")) == (1, 1), "those of a loss and its gradient are one"


def test_chains_are_grouped_up_to_products_sums_and_64_nodes() -> None:
    """A node of a group that is also read elsewhere is an output of the group."""
    h = gn.tanh(x * y + 1.0)
    graph = passes.fuse(Graph([gn.sin(h) * gn.cos(h)]))
    (group,) = graph.groups
    assert {n.op.name for n in group.nodes} == {"Multiply", "Add", "Tanh", "Sin", "Cos"}
    assert group.outputs == graph.outputs
    h = gn.tanh(x)
    last = gn.exp(h)
    (group,) = passes.fuse(Graph([gn.sum(h), last, h])).groups
    assert set(group.outputs) == {h, last}
    for between in (lambda h: h @ square, lambda h: gn.sum(h, 0, keepdims=True) * h):
        groups = passes.fuse(Graph([gn.exp(between(gn.tanh(x)))])).groups
        assert len(groups) == 2
        assert not any({"Tanh", "Exp"} <= {n.op.name for n in group.nodes} for group in groups)
    for _ in range(500):
        h = gn.tanh(h)
    groups = passes.fuse(Graph([h])).groups
    assert 500 / 64 <= len(groups) <= 500 / 16
    assert max(len(group.nodes) for group in groups) <= 64


def test_every_node_is_stored_or_computed_where_it_is_read() -> None:
    """Values that a group reads from outside are leaves, stored values, or results of other ops."""
    graph, _ = passes.optimize(of_net(rnn.LSTM, 4, "Gv"))
    stored = {node for group in graph.groups for node in group.outputs}
    computed = {node for group in graph.groups for node in group.nodes}
    assert set(graph.outputs) & computed <= stored
    for group in graph.groups:
        outside = {source for node in group.nodes for source in node.inputs} - set(group.nodes)
        assert outside & computed <= stored
    assert {n for n in graph.order if n.op.name in ("Tanh", "Sigmoid", "Multiply")} <= computed
    before = of_net(rnn.LSTM, 3, "cost")
    after = passes.fuse(before)
    assert after.order == before.order
    assert after.groups and not before.groups  # noqa: PT018
