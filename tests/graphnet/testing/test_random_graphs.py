"""All laws hold on random graphs; each pass changes the right graphs only."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import graphnet as gn
from graphnet import backends, passes
from graphnet.backends.numba.backend import NumbaBackend
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.testing import check_graph
from tests.tables import case

# A graph is grown by steps; each reads nodes that are there, `node()`, and a `number(below)`, and adds one node. All
# functions are smooth and bounded, so that finite differences are accurate wherever the graph is evaluated.


def _binary(function) -> Callable[..., Node]:
    def step(node, number) -> Node:
        a, b = node(), node()
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            b = gn.tanh(gn.sum(b))
        return function(a, b)

    return step


def _unary(function) -> Callable[..., Node]:
    return lambda node, number: function(node())


def _product(node, number) -> Node:
    a, b = node(), node()
    if not a.shape or not b.shape:
        return gn.tanh(a * b)
    if a.shape[-1] != (b.shape[-2] if b.ndim > 1 else b.shape[0]) or a.ndim > 2 or b.ndim > 2:
        a, b = gn.reshape(a, (1, a.size)), gn.reshape(a, (a.size, 1))
    return gn.tanh(a @ b)


def _slice(node, number) -> Node:
    a = node()
    keys = [0, -1, slice(1, None), slice(None, None, -1), slice(None, None, 2), (Ellipsis, 0), None]
    return a[keys[number(7)]] if a.shape else a


def _join(node, number) -> Node:
    a, b = node(), node()
    if a.shape != b.shape:
        b = gn.sin(a)
    if not a.shape or number(2):
        return gn.stack([a, b, a], number(a.ndim + 1))
    return gn.concatenate([b, a], number(a.ndim))


def _slice_of_join(node, number) -> Node:
    a = node()
    return gn.stack([gn.sin(a), a, gn.cos(a)], 0)[number(3)]


def _sum(node, number) -> Node:
    a = node()
    return gn.sum(0.3 * a, number(a.ndim), keepdims=bool(number(2))) if a.shape else gn.sin(a)


def _row(node, number) -> Node:
    """One row, or one column, by an index without axes."""
    a = node()
    axis = number(max(1, a.ndim))
    return gn.take(a, np.array(number(a.shape[axis])), axis) if a.shape else a


def _neutral(node, number) -> Node:
    """An expression that the passes simplify and fold can shorten."""
    a = node()
    changes = [
        lambda: a * 1, lambda: gn.negative(-a), lambda: a / 1.0, lambda: a - 0, lambda: a * (gn.constant(2.0) - 1),
        lambda: -1 * a, lambda: a + gn.fill(-0.0, a.shape, a.dtype), lambda: a.T.T, lambda: a - -a,
    ]  # fmt: skip
    return changes[number(len(changes))]()


STEPS = (
    _unary(gn.tanh), _unary(gn.sigmoid), _unary(gn.sin), _unary(lambda a: gn.softplus(a) - 1),
    _unary(lambda a: gn.tanh(a) ** 2), _unary(lambda a: gn.exp(-a * a)), _unary(gn.transpose),
    _unary(lambda a: gn.softmax(a) if a.shape else gn.cos(a)),
    _unary(lambda a: gn.log(gn.softmax(a)) * 0.1 if a.shape else a),
    _binary(gn.add), _binary(gn.subtract), _binary(lambda a, b: 0.5 * a * b), _binary(lambda a, b: a / (2 + gn.cos(b))),
    _binary(lambda a, b: gn.where(gn.constant(True), a, b)),
    _unary(lambda a: gn.broadcast_to(a, (2, *a.shape)) if a.ndim < 3 else a),
    _unary(lambda a: gn.label(a, "a name")),
    # a product that becomes a row lookup
    _unary(lambda a: gn.one_hot([0, len(a) - 1, 0], len(a), a.dtype) @ a if a.ndim == 2 else gn.sin(a)),
    _unary(lambda a: gn.take(a, np.array([a.shape[0] - 1, 0, 0])) * 0.5 if a.shape else a),
    # rows of two inputs, and as many as each has
    _unary(lambda a: gn.concatenate([gn.tanh(a), gn.sin(a)], 0)[:, 1:][1 : 1 + a.shape[0]]
           if a.ndim == 2 and a.shape[1] > 1 else gn.sin(a)),
    _product, _product, _slice, _slice, _join, _join, _slice_of_join, _sum, _row, _neutral, _neutral,
)  # fmt: skip


@st.composite
def graphs(draw: Any, rows: int = 2) -> tuple[list[Node], list[Node], list[Array]]:
    """(outputs, leaves, values)."""
    leaves = [gn.input((rows, 3), "float64"), gn.input((3, rows), "float64"), gn.input((3,), "float64")]
    matrix, weights, vector = leaves
    numbers = np.linspace(-1, 1, 3 * rows).reshape(rows, 3)
    pool = [gn.fill(0.5, (), "float64"), gn.constant(numbers), *leaves]
    pool += [gn.tanh(matrix @ weights), gn.sin(weights @ matrix + vector)]

    def node() -> Node:
        # Late nodes are the more likely ones: deep graphs, with some sharing.
        back = [draw(st.integers(0, len(pool) - 1)) for _ in range(2)]
        return pool[-1 - min(back)]

    def number(below: int) -> int:
        return draw(st.integers(0, below - 1))

    for _ in range(draw(st.integers(5, 14))):
        grown = draw(st.sampled_from(STEPS))(node, number)
        if grown.size <= 24 * rows:
            pool.append(grown)
    outputs = [pool[-1], pool[-2] + gn.sum(gn.tanh(pool[-3])), node()]
    if outputs[0].size and outputs[0].shape and number(3) == 0:
        # With equal values, argmax would depend on rounding, which differs between machines.
        apart = gn.constant(np.sqrt(np.arange(2.0, 2.0 + outputs[0].shape[-1])))
        outputs.append(gn.argmax(outputs[0] + apart))
    generator = np.random.default_rng(draw(st.integers(0, 999)))
    return outputs, leaves, [generator.uniform(-1, 1, leaf.shape) for leaf in leaves]


def some(count: int) -> settings:
    """Settings of Hypothesis for `count` graphs, the same in every run."""
    always = {"deadline": None, "derandomize": True, "database": None}
    return settings(max_examples=count, suppress_health_check=list(HealthCheck), **always)


def random_graphs(few: int, many: int) -> pytest.MarkDecorator:
    """Runs a test on `few` random graphs, or on `many` with -m slow."""
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.slow)])


def on_random_graphs(check: Callable[..., None], count: int, *more: st.SearchStrategy[Any]) -> None:
    """Calls `check` for `count` random graphs, with a sample of each strategy in `more`."""
    some(count)(given(graphs(), *more)(check))()


# All laws of a graph take a third of a second.
@random_graphs(25, 300)
def test_random_graphs_hold_all_laws(count: int) -> None:
    def check(drawn: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("cuda", "cuda-tf32"):
                patch.delitem(backends.AVAILABLE, name)
            check_graph(*drawn)

    on_random_graphs(check, count)


# Simulated, a graph takes a quarter of a second.
@pytest.mark.cuda
@random_graphs(8, 100)
def test_random_graphs_on_a_gpu(count: int) -> None:
    on_random_graphs(lambda drawn: check_graph(*drawn, laws=(7,)), count)


@random_graphs(50, 400)
def test_default_passes_leave_nothing_to_merge(count: int) -> None:
    """No two equal expressions, no label and no stop-gradient are left."""

    def check(drawn: Any) -> None:
        outputs, leaves, _ = drawn
        graph, _ = passes.optimize(Graph(outputs, leaves), passes.DEFAULT, NumbaBackend.has)
        assert len(passes.merge(graph)) == len(graph)
        assert not {"Label", "StopGradient"} & set(ops_of(graph))

    on_random_graphs(check, count)


def ops_of(graph: Graph) -> Counter[str]:
    """Number of nodes of each op."""
    return Counter(node.op.name for node in graph.order)


x, y = (gn.input((2, 3), "float64", name=name) for name in "xy")
W = gn.parameter(np.arange(6.0).reshape(3, 2), name="W")
index = gn.input((2,), "int64", name="index")


def same_values(before: Graph, after: Graph) -> None:
    """Both graphs compute the same numbers, bit for bit."""
    generator = np.random.default_rng(3)
    arrays = [
        generator.standard_normal(node.shape) if node.dtype.kind == "f" else np.array([2, 0])
        for node in before.inputs
    ]
    assert after.inputs == before.inputs
    values = [gn.compile(g.outputs, g.inputs, passes=())(*arrays) for g in (before, after)]
    for a, b in zip(*values, strict=True):
        np.testing.assert_array_equal(a, b)


SLICES = [
    (lambda a, b: gn.stack([a, b])[1], {"Sin", "Input"}),
    (lambda a, b: gn.stack([a, b], 2)[..., 0], {"Tanh", "Input"}),
    (lambda a, b: gn.stack([a, b])[0, 1], {"Tanh", "Slice", "Input"}),
    (lambda a, b: gn.concatenate([a, b])[2:], {"Sin", "Input"}),
    (lambda a, b: gn.concatenate([a, b])[3], {"Sin", "Slice", "Input"}),
    (lambda a, b: gn.concatenate([a, b], 1)[:, 1:3], {"Tanh", "Slice", "Input"}),
]


def test_prune_drops_labels_and_stop_gradients() -> None:
    graph = Graph([gn.tanh(gn.label(gn.stop_gradient(gn.label(x, "a")), "b"))])
    assert (len(graph), len(passes.prune(graph))) == (5, 2)
    function = gn.compile([gn.label(gn.tanh(x), "activation"), gn.label(x, "data")], [x])
    assert [node.name for node in function.outputs] == ["activation", "data"]
    assert "Label" not in ops_of(function.graph)


def test_slices_of_joins_read_the_input() -> None:
    for build, left in SLICES:
        with case(left):
            graph = Graph([build(gn.tanh(x), gn.sin(x))])
            pruned = passes.prune(graph)
            assert set(ops_of(pruned)) == left
            assert len(pruned) < len(graph)
            same_values(graph, pruned)


def test_slices_across_inputs_are_kept() -> None:
    for key in (slice(1, 3), slice(None), slice(None, None, -1), slice(0, 4, 2), slice(2, 2)):
        with case(key):
            graph = Graph([gn.concatenate([gn.tanh(x), gn.sin(x)])[key]])
            assert ops_of(passes.prune(graph))["Concatenate"] == 1


ZERO, ONE = gn.fill(0.0, (3,), "float64"), gn.fill(1, (3,), "int64")
APART = [
    (gn.input((3,), "float64"), gn.input((3,), "float64")),
    (gn.parameter(np.ones(3)), gn.parameter(np.ones(3))),
    (gn.RandomSource(0).normal(1.0, (3,)), gn.RandomSource(0).normal(1.0, (3,))),
    (ZERO, gn.fill(-0.0, (3,), "float64")), (ONE, gn.fill(1.0, (3,), "float64")),
    (ONE, gn.fill(True, (3,), "bool")), (ONE, gn.fill(1, (3,), "int32")), (ZERO, gn.fill(0.0, (3, 1), "float64")),
    (gn.constant(np.array([0.0])), gn.constant(np.array([-0.0]))),
    (gn.constant(np.array([1])), gn.constant(np.array([1.0]))),
    (gn.constant(np.array([1, 0])), gn.constant(np.array([[1, 0]]))),
    (gn.sum(x, 0), gn.sum(x, 1)), (gn.sum(x, 0), gn.max(x, 0)), (gn.max(x, 0), gn.min(x, 0)),
    (x - y, y - x), (x**2, x**3), (x[0], x[1]), (gn.softmax(x), gn.log_softmax(x)),
    (gn.one_hot(index, 3, "float64"), gn.one_hot(index, 4, "float64")),
    (gn.one_hot(index, 3, "float64"), gn.one_hot(index, 3, "float32")),
    (gn.cast(x, "float32"), gn.cast(x, "int64")), (gn.label(x, "one name"), gn.label(x, "another name")),
]  # fmt: skip


def test_merge_merges_equal_expressions() -> None:
    """One call also merges chains of equal expressions, and equal constants."""
    graph = Graph([gn.tanh(x @ W) + gn.tanh(x @ W) * gn.tanh(x @ W)])
    merged = passes.merge(graph)
    assert (len(graph), len(merged)) == (10, 6)
    same_values(graph, merged)
    a, b = x * gn.constant(np.ones(3)), x * gn.constant(np.ones(3))
    for _ in range(50):
        a, b = gn.sin(a), gn.sin(b)
    assert len(passes.merge(Graph([a, b]))) == 54


def test_merge_keeps_different_expressions() -> None:
    for a, b in APART:
        with case(a, b):
            merged = passes.merge(Graph([a, b]))
            assert merged.outputs[0] is not merged.outputs[1]
    # Rules drop an absent derivative and must keep zeros that are data: 0 · ∞ is NaN.
    (absent,) = gn.gradient(gn.sum(x), y)
    merged = passes.merge(Graph([absent, gn.fill(0.0, y.shape, y.dtype)]))
    assert [node.op.is_zeros for node in merged.outputs] == [True, False]


CONSTANTS = [
    (gn.constant(np.ones((2, 3))) + 1, "Constant"),
    (gn.fill(2.0, (3, 2), "float32") * gn.fill(3.0, (3, 2), "float32"), "Fill"),
    (gn.sum(gn.fill(2.0, (3, 2), "float32")), "Constant"),
    (gn.tanh(gn.constant(0.5)), "Constant"),
    (gn.cast(gn.fill(2.5, (3,), "float64"), "int64"), "Fill"),
    (gn.one_hot([1, 2], 3), "Constant"),
    (gn.where(gn.fill(True, (2,), "bool"), 1.0, gn.constant([2.0, 3.0])), "Constant"),
]


NOT_CONSTANT = [
    gn.tanh(x), gn.tanh(W), gn.tanh(gn.RandomSource(0).normal(1.0, (3,))),
    gn.log(gn.constant(np.array([-1.0, 0.0]))),  # NaN and -inf are to be reported where they run
    gn.fill(1.0, (2,), "float64") / gn.fill(0.0, (2,), "float64"),
    gn.broadcast_to(gn.constant(np.arange(2.0)), (100_000, 2)),  # would take 1.6 MB
    gn.one_hot([5], 3),  # fails: where it runs
]  # fmt: skip


def test_fold_computes_constants() -> None:
    for node, op in CONSTANTS:
        with case(node):
            graph = Graph([node])
            folded = passes.fold(graph)
            assert len(graph) > len(folded) == 1
            assert folded.outputs[0].op.name == op
            assert (folded.outputs[0].dtype, folded.outputs[0].shape) == (node.dtype, node.shape)
            same_values(graph, folded)


def test_fold_keeps_non_constant_nodes() -> None:
    for node in NOT_CONSTANT:
        with case(node):
            assert passes.fold(Graph([node])).outputs[0].op.name == node.op.name
    assert np.signbit(passes.fold(Graph([-gn.fill(0.0, (), "float64")])).outputs[0].op.forward())


FIRES = [
    (x + gn.fill(-0.0, (2, 3), "float64"), {"Input": 1}), (gn.add(x), {"Input": 1}), (x - 0.0, {"Input": 1}),
    (index + 0, {"Input": 1}), (x - (-y), {"Input": 2, "Add": 1}), (x * 1, {"Input": 1}), (1 * x, {"Input": 1}),
    (-1 * x, {"Input": 1, "Negative": 1}), (x * -1, {"Input": 1, "Negative": 1}), (x / 1, {"Input": 1}),
    (gn.negative(-x), {"Input": 1}), (x.T.T, {"Input": 1}),
    (gn.transpose(gn.input((2, 3, 4)), (1, 2, 0)).T, {"Input": 1, "Transpose": 1}),
    (gn.reshape(gn.reshape(x, (6,)), (3, 2)), {"Input": 1, "Reshape": 1}),
    (gn.reshape(gn.reshape(x, (6,)), (2, 3)), {"Input": 1}),
    (gn.broadcast_to(gn.broadcast_to(x, (4, 2, 3)), (5, 4, 2, 3)), {"Input": 1, "BroadcastTo": 1}),
    (gn.sum(gn.input((1, 3)), 0), {"Input": 1, "Reshape": 1}),
    (gn.log(gn.softmax(x)), {"Input": 1, "LogSoftmax": 1}),
    (gn.one_hot(index, 3, "float64") @ W, {"Input": 1, "Parameter": 1, "Take": 1}),
    (gn.one_hot(index, 4, "float64").T @ x, {"Input": 2, "ScatterAdd": 1}),
    (gn.one_hot(gn.input((4, 2), "int64")[1], 3, "float64") @ W,
     {"Input": 1, "Parameter": 1, "Slice": 1, "Take": 1}),
]  # fmt: skip


STAYS = [
    x * 0.0,  # NaN where x is infinite
    0.0 * x, x + 0.0,  # makes +0 of -0
    x - gn.fill(-0.0, (2, 3), "float64"), 0.0 / x, x - x, x / x, -(x - y), gn.log(gn.sigmoid(x)), gn.sum(x, 0),
    x.T, gn.softmax(gn.log(x)),
]  # fmt: skip


def test_rules_of_simplify_fire() -> None:
    for node, left in FIRES:
        with case(node, left):
            graph = Graph([node])
            simpler = passes.simplify(graph)
            assert dict(ops_of(simpler)) == left
            assert ops_of(simpler) != ops_of(graph)


def test_one_hot_symbols_beside_features_become_lookups() -> None:
    """[one_hot(i); f] @ W = W[i] + f @ W_f. Its gradient has no product with one-hot vectors either."""
    weights = gn.parameter(np.arange(14.0).reshape(7, 2))
    joined = gn.concatenate([gn.one_hot(index, 4, "float64"), x], 1)
    cost = gn.sum(gn.sin(joined @ weights))
    graph = Graph([cost, *gn.gradient(cost, weights)])
    simpler = passes.simplify(graph)
    assert ops_of(graph)["OneHot"] == 1
    assert ops_of(simpler)["OneHot"] == 0
    assert ops_of(simpler)["Take"] == ops_of(simpler)["ScatterAdd"] == 1
    symbols = gn.input((6, 2), "int64")  # the lookups of all steps share one scatter
    cost = gn.add(*(gn.sum(gn.sin(gn.take(W, symbols[t]))) for t in range(6)))
    assert ops_of(passes.simplify(Graph(gn.gradient(cost, W))))["ScatterAdd"] == 1


def test_gradient_of_slices_is_a_concatenation() -> None:
    """Gaps are filled with zeros; overlapping slices become separate terms."""
    a = gn.input((4, 3), "float64")
    for slices, left in [
        ([a[0], a[1], a[2], a[3]], {"Pad": 0, "Stack": 1}),
        ([a[:1], a[1:3], a[3:]], {"Pad": 0, "Concatenate": 1}),
        ([a[:1], a[2:]], {"Pad": 0, "Concatenate": 1}),  # with zeros between them
        ([a[:2], a[1:]], {"Pad": 2, "Concatenate": 0}),
        ([a[:2], a[:2], a[2:]], {"Pad": 0, "Concatenate": 1}),  # equal slices are added first
        ([a[:2], a[1:3], a[2:]], {"Pad": 1, "Concatenate": 1}),
        ([a[::2], a[1::2]], {"Pad": 2, "Concatenate": 0}),
    ]:
        graph = Graph(gn.gradient(gn.add(*(gn.sum(gn.sin(one)) for one in slices)), a))
        simpler = passes.simplify(graph)
        assert {name: ops_of(simpler)[name] for name in left} == left
        same_values(graph, simpler)


def test_simplify_leaves_other_expressions_unchanged() -> None:
    for node in STAYS:
        with case(node):
            graph = Graph([node])
            assert ops_of(passes.simplify(graph)) == ops_of(graph)


def test_rules_hold_for_special_numbers() -> None:
    a, value = gn.input((4,), "float64"), np.array([np.nan, np.inf, -np.inf, -0.0])
    negative_zero = gn.fill(-0.0, (4,), "float64")
    nodes = [a * 0.0, a + 0.0, a - 0.0, a * 1, gn.negative(-a), a / 1, -1 * a, a - negative_zero]
    plain = gn.compile(nodes, [a], passes=())(value)
    for found, expected in zip(gn.compile(nodes, [a])(value), plain, strict=True):
        np.testing.assert_array_equal(found, expected)
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))


def test_graphs_are_not_changed_and_reports_count_nodes() -> None:
    graph = Graph([gn.label(gn.tanh(x * 1) + gn.tanh(x * 1), "y")])
    before = [(node, node.op, node.inputs) for node in graph.order]
    result, reports = passes.optimize(graph)
    assert [(node, node.op, node.inputs) for node in graph.order] == before
    assert [report.name for report in reports] == [step.name for step in passes.DEFAULT]
    assert (reports[0].before, reports[-1].after) == (len(graph), len(result))
    assert all(a.after == b.before for a, b in itertools.pairwise(reports))
    left = [step.name for step in passes.without("fold", "prune")]
    assert left == [step.name for step in passes.DEFAULT if step.name not in ("fold", "prune")]


def test_new_nodes_keep_line_and_scope() -> None:
    with gn.scope(layer="first", time=3):
        product = gn.one_hot(index, 3, "float64") @ W
    (looked_up,) = passes.simplify(Graph([product])).outputs
    assert looked_up.op.name == "Take"
    assert looked_up.origin == product.origin
    assert dict(looked_up.scope) == {"layer": "first", "time": 3}
