"""The mirror: derivatives are placed like their nodes and match NumPy."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case


@pytest.fixture
def net():
    x, t = gn.input((4, 3), name="x"), gn.input((4,), "int64", name="t")
    w = gn.parameter(np.linspace(-1, 1, 15, dtype="float32").reshape(3, 5), name="W_xh")
    b = gn.parameter(np.zeros(5, "float32"), name="b_h")
    v = gn.parameter(np.linspace(1, -1, 15, dtype="float32").reshape(5, 3), name="W_ho")
    return gn.mean(gn.softmax_cross_entropy(gn.tanh(x @ w + b) @ v, t))


def centres(svg: str) -> dict[str, np.ndarray]:
    """Where each node stands, from the points of its outline."""
    found = {}
    for key, body in re.findall(r'class="node">\n<title>(\w+)</title>(.*?)(?=<!--|\Z)', svg, re.S):
        ellipse = re.search(r'<ellipse[^>]* cx="([-\d.]+)" cy="([-\d.]+)"', body)
        outline = ellipse or re.search(r'<(?:polygon|path)[^>]* (?:points|d)="([^"]+)"', body)
        if outline:
            numbers = re.findall(r"[-\d.]+", " ".join(outline.groups()))
            points = np.array(numbers, float).reshape(-1, 2)
            found[key] = (points.min(0) + points.max(0)) / 2
    return found


def test_derivatives_are_drawn_below_their_nodes(net):
    for values, style in itertools.product((True, False), ("full", "compact")):
        with case(values, style):
            text = viz.mirror(net, style, values=values).svg
            assert "forward" in text
            assert "backward" in text
            found = centres(text)
            pairs = [(found[key], found[f"{key}_back"]) for key in found if f"{key}_back" in found]
            assert len(pairs) > 3
            for (x, y), (back, below) in pairs:
                assert x == pytest.approx(back, abs=1)
                assert y < below  # forward above
            assert np.ptp([below - y for (_, y), (_, below) in pairs]) < 60


def test_backward_edges_have_transposed_weights(net):
    picture = viz.mirror(net, values=False).picture
    back = [edge for edge in picture.edges if edge.back and not edge.hidden]
    assert {(e.tail.removesuffix("_back"), e.head.removesuffix("_back")) for e in back} < {
        (e.tail, e.head) for e in picture.edges if not e.back
    }
    labels = {re.sub("<.*?>", "", edge.label) for edge in back}
    assert {"WxhT", "WhoT"} <= labels
    assert any(line.endswith("tanh′") for shape in picture.shapes for line in shape.lines)


def test_backward_edges_of_transposed_weights_are_plain():
    x, w = gn.input((2, 3), name="x"), gn.parameter(np.ones((4, 3), "float32"), name="W")
    edges = viz.mirror(gn.sum(gn.tanh(x @ gn.transpose(w))), values=False).picture.edges
    plain = [(re.sub("<(?!/?sup).*?>", "", edge.label), edge.back) for edge in edges if edge.label]
    assert plain == [("W<sup>T</sup>", False), ("W", True)]


def test_nodes_without_derivative_are_hidden(net):
    picture = viz.mirror(net, "full", closed=False).picture
    seen = {
        shape.nodes[0]: not shape.hidden
        for shape in picture.shapes
        if shape.key.endswith("_back") and shape.nodes
    }
    assert seen == {node: node.dtype.kind == "f" for node in gn.Graph(net).order if node in seen}
    assert not all(seen.values())
    hidden = {shape.key for shape in picture.shapes if shape.hidden}
    assert all(edge.hidden == bool({edge.tail, edge.head} & hidden) for edge in picture.edges)
    picture = viz.mirror(rnn.Network([rnn.Elman(3)], 3, 3).unroll(time=3, batch=2).cost, "full").picture
    back = {box.key for box in picture.beside.shapes}
    assert {"x0_back", "x1_back", "x2_back"} <= back  # symbols as vectors
    assert "t0" in {box.key for box in picture.shapes}
    assert "t0_back" not in back  # symbols


def test_numbers_match_the_gradient(net):
    graph = gn.Graph(net)
    weights = [node for node in graph.order if node.op.is_parameter]
    feeds = {n: np.ones(n.shape, n.dtype) for n in graph.inputs}
    expected = gn.compile(gn.gradient(net, weights), graph.inputs, backend="numpy")(*feeds.values())
    picture = viz.mirror(net, "full", feeds=feeds).picture
    heat = {s.nodes[0]: s.note.heat for s in picture.shapes if s.key.endswith("_back") and s.note and s.nodes}
    for weight, gradient in zip(weights, expected, strict=True):
        assert heat[weight] == pytest.approx(np.linalg.norm(gradient), rel=1e-5)


def test_unrolled_networks_are_mirrored_closed():
    """Columns and rows match for any width of numbers."""
    u = rnn.Network([rnn.LSTM(4), rnn.GRU(3)], 5, 5).unroll(time=6, batch=2)
    drawing = viz.mirror(u.cost)
    forward, backward = drawing.picture, drawing.picture.beside
    there = {box.key: (box.row, box.column) for box in forward.shapes}
    assert all(there[box.key.removesuffix("_back")] == (box.row, box.column) for box in backward.shapes)
    assert all(link.back for link in backward.edges)
    found = re.findall(r'^  (\w+) \[pos="([-\d.]+),([-\d.]+)"', drawing.dot, re.M)
    placed = {key: np.array([float(x), float(y)]) for key, x, y in found}
    right, left = (
        max(s * placed[b.key][0] for b in side.shapes) for s, side in ((1, forward), (-1, backward))
    )
    assert right < -left
    kinds = ("CELL", "OUTPUT", "COST")
    keys = [box.key for box in forward.shapes if box.kind.name in kinds]
    moved = [placed[f"{key}_back"] - placed[key] for key in keys]
    assert len(moved) == 6 * 3 + 1
    np.testing.assert_allclose(moved, np.broadcast_to([moved[0][0], 0.0], (19, 2)), atol=0.15)
    assert drawing.svg


def test_folded_blocks_have_backward_edges():
    u = rnn.Network([rnn.RHN(3)], inputs=3, outputs=3).unroll(time=1, batch=2)
    picture = viz.mirror(u.cost, values=False).picture
    assert len(picture.shapes) < len(viz.mirror(u.cost, values=False, steps=7).picture.shapes)
    (folded,) = [s.key for s in picture.shapes if s.lines[:1] == ("⋯",) and s.key.endswith("_back")]
    around = [{edge.tail, edge.head} for edge in picture.edges if edge.back and not edge.hidden]
    assert sum(folded in ends for ends in around) >= 4


def test_tangent_pass_matches_directional_derivatives(net):
    graph = gn.Graph(net)
    weights = [node for node in graph.order if node.op.is_parameter]
    draws = np.random.default_rng(0)
    along = {w: draws.standard_normal(w.shape).astype("f4") for w in weights[:2]}
    feeds = {n: draws.integers(0, 3, n.shape).astype(n.dtype) for n in graph.inputs}
    cost, before, costs = gn.compile(net, graph.inputs), [w.value.copy() for w in weights], []
    for step in (1e-2, -1e-2):
        for weight, value in zip(weights, before, strict=True):
            weight.value = value + step * along.get(weight, np.zeros((), "f4"))
        costs.append(float(cost(*feeds.values())[0]))
    for weight, value in zip(weights, before, strict=True):
        weight.value = value
    slope = (costs[0] - costs[1]) / 2e-2
    picture = viz.mirror(net, "full", along=along, feeds=feeds).picture
    found = {s.nodes[-1]: s.note for s in picture.shapes if s.key.endswith("_along") and s.note and s.nodes}
    assert {w for w in weights if w in found} == set(along)
    assert float(found[net].lines[0].replace("−", "-")) == pytest.approx(slope, rel=0.01, abs=1e-4)
    for node, direction in along.items():
        assert found[node].heat == pytest.approx(np.linalg.norm(direction), rel=1e-5)
    assert not any(edge.back for edge in picture.edges)
    assert not any(edge.label for edge in picture.edges if edge.hidden)


def test_invalid_directions_are_rejected(net):
    x = gn.Graph(net).inputs[0]
    for along, message in (
        ({}, "along must be a direction"),
        ({x: np.ones(3)}, r"along must have an array of numbers \[4, 3\] for x\[4, 3\]"),
        ({x: [[1, 2], [3]]}, "along must have an array of numbers"),
        ({x: 1j * np.ones((4, 3))}, "along must have an array of numbers"),
        ({gn.input(()): 1.0}, "along must have float nodes that the cost depends on"),
    ):
        with case(along), pytest.raises(viz.DrawingError, match=message):
            viz.mirror(net, along=along)


def test_closed_networks_have_a_pass_along_a_direction():
    net = rnn.Network([rnn.GRU(3)], 4, 4)
    u = net.unroll(3, 1)
    drawing = viz.mirror(u.cost, along={p: np.ones(p.shape) for p in net.parameters.values()})
    captions = [caption for _, caption in viz.walkthrough(drawing).steps]
    assert [c for c in captions if "R{GRU" in c] == [f"R{{GRU layer 0, step {n}}}" for n in (1, 2, 3)]
    assert not any(link.back for link in drawing.picture.beside.edges)
