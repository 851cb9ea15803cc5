"""Changes in the explorer page, computed by NumPy and, if node is installed, by its scripts."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from tests.tables import some_quick
from viz.explorer.changes import NODES, program_of, switched
from viz.explorer.derivatives import cost_of, cotangents, default_tangents, tangents_of
from viz.explorer.values import FEW
from viz.feeds import computed, fed

NODE = shutil.which("node")
WRAPPERS = {"Attention", "Bidirectional", "Normalized", "Residual"}


def unrolled(name: str) -> Graph:
    kind = rnn.cells.ALL[name]
    cell = kind(rnn.LSTM(3)) if name in WRAPPERS else kind(3)
    return Graph(rnn.Network([cell], inputs=3, outputs=3).unroll(time=2, batch=2).cost)


def small() -> tuple[Graph, dict[str, Node]]:
    x = gn.input((2, 3), name="x", dtype="float64")
    W = gn.parameter(np.linspace(-1, 1, 9).reshape(3, 3), name="W")
    a = gn.tanh(x @ W)
    b = gn.sigmoid(x) * a
    return Graph(gn.mean(b * b + x)), {"x": x, "W": W, "a": a, "b": b}


def with_feeds(graph: Graph, feeds: Mapping[Node, Any], wanted: list[Node]) -> list[Array]:
    found = dict(computed(wanted, feeds))
    return [found[node] for node in wanted]


def settings(
    graph: Graph, held: Mapping[Node, float], cut: set[tuple[Node, int]], directions: Iterable[Node] = ()
) -> Any:
    made = switched(graph, cost_of(graph), directions)
    feeds: dict[Node, Any] = {}
    for node, (own, value) in made.free.items():
        feeds[own] = np.array(node not in held)
        feeds[value] = np.array(held.get(node, 0), node.dtype)
    for place, switch in made.joined.items():
        feeds[switch] = np.array(place not in cut)
    return made, feeds


@pytest.mark.parametrize("name", some_quick(sorted(rnn.cells.ALL), ("GRU",)))
def test_without_changes_all_values_and_gradients_are_the_same(name: str) -> None:
    graph = unrolled(name)
    given = fed(graph, None)
    made, feeds = settings(graph, {}, set())
    cost = graph.outputs[0]
    listed = [node for node in graph.order if node.dtype.kind == "f"]
    before = with_feeds(graph, given, [*graph.order, *gn.gradient(cost, listed)])
    after = [*map(made.of.get, graph.order), *gn.gradient(made.of[cost], [made.of[node] for node in listed])]
    for x, y in zip(before, with_feeds(graph, given | feeds, after), strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-6)


def test_held_operators_are_constant_and_cut_inputs_zero() -> None:
    graph, at = small()
    x, W, cost = at["x"], at["W"], graph.outputs[0]
    given = {x: np.random.default_rng(0).standard_normal((2, 3))}

    def outcome(held: dict[Node, float], cut: set[tuple[Node, int]]) -> list[Array]:
        made, feeds = settings(graph, held, cut)
        return with_feeds(
            graph, given | feeds, [made.of[cost], *gn.gradient(made.of[cost], [W, x, made.of[at["a"]]])]
        )

    value, w, gate = given[x], W.value, 1 / (1 + np.exp(-given[x]))
    cost_held, of_W, of_x, of_a = outcome({at["a"]: 0.5}, set())
    np.testing.assert_allclose(cost_held, np.mean((gate * 0.5) ** 2 + value))
    np.testing.assert_array_equal(of_W, 0)
    np.testing.assert_allclose(of_x, (2 * 0.25 * gate * gate * (1 - gate) + 1) / 6)
    np.testing.assert_allclose(of_a, 2 * 0.5 * gate**2 / 6)
    slot = at["b"].inputs.index(at["a"])
    cost_cut, of_W, _, of_a = outcome({}, {(at["b"], slot)})
    np.testing.assert_allclose(cost_cut, np.mean(value))
    np.testing.assert_array_equal(of_W, 0)
    np.testing.assert_array_equal(of_a, 0)
    free, *_ = outcome({}, set())
    np.testing.assert_allclose(free, np.mean((gate * np.tanh(value @ w)) ** 2 + value))


def test_derivatives_along_cut_paths_are_zero_even_if_they_are_infinite() -> None:
    """sum(x² + log √x) at x = 0, with log √x held or cut: gradient 2x; and tangents of √0 for a cut input: 0."""
    x = gn.input((3,), name="x", dtype="float64")
    root = gn.sqrt(x)
    log = gn.log(root)
    both = x * x + log
    graph, value = Graph(gn.sum(both)), np.array([0.25, 0.0, 2.0])
    slot = both.inputs.index(log)
    changes: list[tuple[dict[Node, float], set[tuple[Node, int]]]] = [
        ({log: 0.0}, set()), ({}, {(both, slot)}), ({}, {(log, 0), (both, slot)}), ({log: 1.0}, {(root, 0)}),
    ]  # fmt: skip
    for held, cut in changes:
        made, feeds = settings(graph, held, cut, [x])
        (g,) = gn.gradient(made.of[graph.outputs[0]], [x])
        np.testing.assert_array_equal(with_feeds(graph, {x: value, **feeds}, [g])[0], 2 * value)
        if cut:
            (r,) = gn.rop([made.moved[graph.outputs[0]]], {x: np.ones(3)})
            np.testing.assert_array_equal(with_feeds(graph, {x: value, **feeds}, [r])[0], (2 * value).sum())


def program(graph: Graph) -> tuple[dict[str, Any], list[Array]]:
    """Data of the page, and what Python computes in the same order."""
    given, cost, direction = fed(graph, None), cost_of(graph), default_tangents(graph)
    assert cost is not None
    backward, rop = cotangents(graph, cost).of, tangents_of(graph, direction).of
    ids = {node: place for place, node in enumerate(graph.order)}
    data = program_of(graph, given, ids, cost, backward, direction, rop)
    assert data is not None
    wanted = [*graph.order, *backward.values(), *rop.values()]
    return {**data, "side": 5, "few": FEW}, with_feeds(graph, given, wanted)


def in_javascript(data: dict[str, Any], script: str) -> Any:
    assert NODE is not None
    assets = resources.files("viz.explorer").joinpath("assets")
    heat = assets.joinpath("heat.js").read_text(encoding="utf-8").partition("let scales")[0]
    code = f"{heat}{assets.joinpath('changes.js').read_text(encoding='utf-8')}\n"
    code += "const changes = new Changes(JSON.parse(require('fs').readFileSync(0, 'utf8')));\n" + script
    done = subprocess.run(
        [NODE, "-e", code], input=json.dumps(data), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="node")
@pytest.mark.parametrize("name", some_quick(sorted(rnn.cells.ALL), ("LSTM", "GraphRNN")))
def test_javascript_matches_python(name: str) -> None:
    graph = unrolled(name)
    if len(graph) > NODES:
        pytest.skip("too large for the page")
    data, expected = program(graph)
    every = "['forward', 'backward', 'rop'].flatMap((mode) => [...changes.results[mode].values()])"
    found = in_javascript(
        data, f"changes.run(); console.log(JSON.stringify({every}.map((v) => changes.read(v))))"
    )
    for ours, theirs in zip(expected, found, strict=True):
        np.testing.assert_allclose(theirs, ours.ravel(), rtol=2e-4, atol=1e-5)


@pytest.mark.skipif(NODE is None, reason="node")
def test_every_function_of_kernels_is_the_same_in_javascript() -> None:
    x = gn.input((40,), name="x", dtype="float64")
    y = gn.input((40,), name="y", dtype="float64")
    positive = gn.exp(x)
    ops = [
        abs(x), gn.ceil(x), gn.cos(x), gn.erf(x), gn.floor(x), gn.log(positive), gn.softplus(x), gn.maximum(x, y),
        gn.minimum(x, y), gn.mod(x, y), gn.round(2 * x), gn.sigmoid(x), gn.sin(x), gn.sqrt(positive), gn.tanh(x),
        positive**y, x**3, gn.where(x > y, x, y), gn.softmax(x), gn.max(x), gn.relu(x),
    ]  # fmt: skip
    graph = Graph(gn.mean(gn.concatenate([gn.reshape(op, (-1,)) for op in ops])))
    data, expected = program(graph)
    found = in_javascript(
        data,
        "changes.run(); console.log(JSON.stringify([...changes.results.forward.values()].map((v) => changes.read(v))))",
    )
    for node, ours, theirs in zip(graph.order, expected, found, strict=False):
        np.testing.assert_allclose(theirs, ours.ravel(), rtol=1e-12, atol=1e-12, err_msg=node.describe())


@pytest.mark.skipif(NODE is None, reason="node")
def test_javascript_follows_changes() -> None:
    graph, at = small()
    ids = {node: place for place, node in enumerate(graph.order)}
    data, expected = program(graph)
    cost = ids[graph.outputs[0]]
    a, b, W = (ids[at[name]] for name in ("a", "b", "W"))
    told = f"console.log(JSON.stringify([changes.value('forward', {cost}).mean, changes.value('backward', {W}).norm]))"
    scaled = in_javascript(data, f"changes.scale({W}, 0); {told}")
    given = fed(graph, None)[at["x"]]
    np.testing.assert_allclose(scaled[0], np.mean(given))
    held = in_javascript(data, f"changes.hold({a}, 0.5); {told}")
    np.testing.assert_allclose(held, [np.mean((0.5 / (1 + np.exp(-given))) ** 2 + given), 0])
    cut = in_javascript(data, f"changes.setCut({b}, {at['b'].inputs.index(at['a'])}, true); {told}")
    np.testing.assert_allclose(cut, [np.mean(given), 0])
    back = in_javascript(data, f"changes.hold({a}, 0.5); changes.run(); changes.reset(); {told}")
    np.testing.assert_allclose(back[0], expected[cost])


@pytest.mark.skipif(NODE is None, reason="node")
def test_javascript_has_no_gradient_through_a_held_operator() -> None:
    """sum(x² + log x) at x = 0, log held: 2x."""
    x = gn.parameter(np.array([0.0, 1.5]), name="x")
    log = gn.log(x)
    graph = Graph(gn.sum(x * x + log))
    ids = {node: place for place, node in enumerate(graph.order)}
    data, _ = program(graph)
    told = f"console.log(JSON.stringify(changes.value('backward', {ids[x]}).norm))"
    assert in_javascript(data, f"changes.hold({ids[log]}, 0); {told}") == 3.0


@pytest.mark.skipif(NODE is None, reason="node")
def test_javascript_powers_of_one_match_numpy() -> None:
    data, _ = program(small()[0])
    powers = [(1, "Infinity"), (1, "NaN"), (-1, "-Infinity"), (2, "-Infinity"), (-1, "3")]
    script = ", ".join(f"HELPERS.pow({x}, {y})" for x, y in powers)
    assert in_javascript(data, f"console.log(JSON.stringify([{script}]))") == [1, 1, 1, 0, -1]


@pytest.mark.skipif(NODE is None, reason="node")
def test_where_without_gradient_is_kept() -> None:
    i = gn.constant(np.array([1, 2, 3]))
    x = gn.input((3,), name="x", dtype="float64")
    chosen = gn.where(gn.constant(np.array([True, False, True])), i, gn.stop_gradient(2 * i))
    graph = Graph(gn.sum(gn.cast(chosen, "float64") * x))
    data, expected = program(graph)
    every = "[...changes.results.forward.values()].map((v) => changes.read(v))"
    for ours, theirs in zip(
        expected, in_javascript(data, f"changes.run(); console.log(JSON.stringify({every}))"), strict=False
    ):
        np.testing.assert_allclose(theirs, ours.ravel())


def along_an_operator() -> tuple[Graph, dict[Node, Array], dict[Node, Node]]:
    """A graph, its direction, which is that of an operator, and the tangents."""
    h = gn.tanh(gn.input((2, 3), name="x", dtype="float64"))
    graph, direction = Graph(gn.mean(h * h)), {h: np.ones((2, 3))}
    return graph, direction, tangents_of(graph, direction).of


def test_operator_tangents_match_python() -> None:
    graph, direction, rop = along_an_operator()
    given = fed(graph, None)
    made, feeds = settings(graph, {}, set(), direction)
    ours = gn.rop(
        [made.moved[node] for node in rop], {made.moved[h]: tangent for h, tangent in direction.items()}
    )
    theirs = with_feeds(graph, given, list(rop.values()))
    for x, y in zip(theirs, with_feeds(graph, given | feeds, ours), strict=True):
        np.testing.assert_allclose(y, x)


@pytest.mark.skipif(NODE is None, reason="node")
def test_javascript_computes_tangents_of_an_operator() -> None:
    graph, direction, rop = along_an_operator()
    given = fed(graph, None)
    ids = {node: place for place, node in enumerate(graph.order)}
    data = program_of(graph, given, ids, graph.outputs[0], [], direction, rop)
    assert data is not None
    told = "console.log(JSON.stringify([...changes.results.rop.values()].map((v) => changes.read(v))))"
    found = in_javascript({**data, "side": 5, "few": FEW}, f"changes.run(); {told}")
    for ours, theirs in zip(with_feeds(graph, given, list(rop.values())), found, strict=True):
        np.testing.assert_allclose(theirs, ours.ravel())


@pytest.mark.skipif(NODE is None, reason="node")
def test_only_float_inputs_and_parameters_can_be_changed() -> None:
    i = gn.input((3,), "int64", name="i")
    E, F = (gn.parameter(np.ones((5, 2)), name=name) for name in "EF")
    a, b = gn.constant(np.ones((3, 2)), name="a"), gn.constant(np.ones((3, 2)), name="b")
    graph = Graph(gn.mean(gn.take(E, i) * a + gn.take(F, i) * b))
    data, _ = program(graph)
    ids = {node: place for place, node in enumerate(graph.order)}
    can = in_javascript(
        data,
        f"console.log(JSON.stringify({[ids[n] for n in (i, a, b, E, F)]}.map((id) => changes.canScale(id))))",
    )
    assert can == [False, False, False, True, True]
    means = ", ".join(f"changes.value('forward', {ids[n]}).mean" for n in (E, F))
    told = f"console.log(JSON.stringify([{means}]))"
    assert in_javascript(data, f"changes.scale({ids[E]}, 3); {told}") == [3, 1]


@pytest.mark.skipif(NODE is None, reason="node")
def test_integers_are_the_same_in_javascript() -> None:
    """Products that double precision rounds, casts out of range, remainders of 0."""
    generator = np.random.default_rng(0)
    floats = np.array([-1e10, -2.2, -0.5, 0.0, 127.9, 300, 3e9, np.inf, -np.inf, np.nan])
    ends: list[Node] = []
    for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32"):
        info = np.iinfo(dtype)
        x, y = (
            gn.constant(generator.integers(info.min, info.max, 12, dtype, endpoint=True)) for _ in range(2)
        )
        rest = gn.mod(x, gn.constant(np.array([0, 3] * 6, dtype)))
        ends += [x * y * x, x + y - x * y, -x, rest, gn.absolute(x), x**3, gn.sum(x), gn.cast(x, "int8")]
        ends += [gn.cast(gn.constant(floats), dtype), gn.reshape(x, (3, 4)) @ gn.reshape(y, (4, 3))]
    graph = Graph(gn.mean(gn.concatenate([gn.cast(gn.reshape(y, (-1,)), "float64") for y in ends])))
    data, expected = program(graph)
    found = in_javascript(
        data,
        "changes.run(); console.log(JSON.stringify([...changes.results.forward.values()].map((v) => changes.read(v))))",
    )
    for node, ours, theirs in zip(graph.order, expected, found, strict=False):
        if not np.isfinite(ours).all():  # JSON has no NaN
            continue
        np.testing.assert_array_equal(theirs, ours.ravel(), node.describe())


@pytest.mark.skipif(NODE is None, reason="node")
def test_restored_numbers_are_not_changes() -> None:
    graph, at = small()
    data, _ = program(graph)
    W = {node: place for place, node in enumerate(graph.order)}[at["W"]]
    script = f"changes.setNumber({W}, 0, 5); const before = changes.some; changes.setNumber({W}, 0, -1);"
    assert in_javascript(data, f"{script} console.log(JSON.stringify([before, changes.some]))") == [
        True,
        False,
    ]


def test_a_network_with_dropout_can_be_explored() -> None:
    net = rnn.Network([rnn.GRU(3)], inputs=3, outputs=3, dropout=0.5)
    assert viz.explore(net.unroll(time=2, batch=1, training=True)).html


def test_large_graphs_cannot_be_changed() -> None:
    y = gn.input((2,), name="x")
    for _ in range(NODES):
        y = gn.tanh(y)
    assert '"changes": null' in viz.explore(gn.mean(y)).html.replace('"changes":null', '"changes": null')
