"""Merging makes large graphs readable and keeps the rest unchanged."""

from __future__ import annotations

from graphlib import TopologicalSorter

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case
from viz.drawing.closed import BoxKind

from ..conftest import calls_of, make_unrolled


def columns(drawing: viz.Drawing) -> set[int]:
    return {box.column for box in drawing.picture.shapes if box.kind in (BoxKind.CELL, BoxKind.STEPS)}


def test_long_sequences_are_folded():
    u = rnn.Network([rnn.LSTM(4), rnn.LSTM(4)], 5, 5).unroll(time=40, batch=1)
    drawing = viz.draw(u)
    assert len(columns(drawing)) == 8
    steps = [box for box in drawing.picture.shapes if box.kind is BoxKind.STEPS]
    assert [box.row for box in steps] == [1, 2]
    assert all("33 steps" in box.lines for box in steps)
    names = " ".join(line for box in drawing.picture.shapes for line in box.lines)
    for t, shown in ((1, True), (4, True), (5, False), (37, False), (38, True), (40, True)):
        assert (f"<i>x</i><sub>{t}</sub>" in names) is shown
    # Both states go in and come out.
    links = [link for link in drawing.picture.edges if link.slot is not None]
    for box in steps:
        into = {link.slot for link in links if link.head == box.key}
        assert into == {link.slot for link in links if link.tail == box.key} == {0, 1}
    assert len(columns(viz.draw(u, steps=40))) == 40
    assert len(columns(viz.draw(u, steps=3))) == 3


def test_short_sequences_are_drawn_completely():
    picture = viz.draw(rnn.Network([rnn.Elman(4)], 5, 5).unroll(time=8, batch=1)).picture
    assert not [box for box in picture.shapes if box.kind is BoxKind.STEPS]


def test_open_pictures_fold_time_layer_by_layer():
    for style in ["full", "compact"]:
        with case(style):
            drawing = viz.draw(make_unrolled(30), style, closed=False)
            picture = drawing.picture
            assert picture.times == [1, 2, 3, 30]
            folded = {s.key: s for s in picture.shapes if s.lines == ("⋯",)}
            said = {(s.cluster.layer, s.tooltip) for s in folded.values() if s.cluster.layer}
            assert {(f"layer{n}", "27 time steps") for n in (0, 1)} <= said
            assert set(folded) <= {edge.head for edge in picture.edges}
            # Weights are tied to the steps that are seen, not to those that are not.
            squares = {s.key for s in picture.shapes if s.role.value in ("parameter", "constant")}
            assert not [e for e in picture.edges if e.tail in squares and e.head in folded]
            whole = viz.draw(make_unrolled(30), style, closed=False, steps=30).picture
            assert len(picture.shapes) < len(whole.shapes) / 3
            assert drawing.svg


def test_backward_steps_are_folded_separately():
    u = rnn.Network([rnn.Elman(4)], 5, 5).unroll(time=20, batch=1)
    gradients = gn.gradient(u.cost, [n for n in gn.Graph(u.cost).order if n.op.is_parameter])
    picture = viz.draw(gradients, "compact", steps=3).picture
    folded = [s for s in picture.shapes if s.lines == ("⋯",) and s.cluster.cell == "Elman"]
    assert len(folded) == 2
    on, back = (s.key for s in folded)
    assert any(e.tail == on and e.head == back for e in picture.edges)
    assert not any(e.tail == back and e.head == on for e in picture.edges)


def test_middle_blocks_are_folded():
    cell = rnn.RHN(8, depth=6)
    for style in ("full", "compact"):
        with case(style):
            drawing = viz.draw(cell, style)
            (one,) = [shape for shape in drawing.picture.shapes if shape.lines == ("⋯", "4 blocks")]
            for number in range(6):
                assert (f"<sub>sh{number}</sub>" in drawing.dot) == (number in (0, 5))
            whole = viz.draw(cell, style, steps=6)
            assert all(f"<sub>sh{number}</sub>" in whole.dot for number in range(6))
            assert [edge.label for edge in drawing.picture.edges if edge.head == one.key] == [""]
    assert viz.draw(rnn.RHN(8, depth=3)).size == viz.draw(rnn.RHN(8, depth=3), steps=9).size


def test_blocks_belong_to_one_step_and_direction():
    """Blocks of several time steps, and their derivatives: no shape depends on itself."""
    u = rnn.Network([rnn.RHN(4, depth=5)], 5, 5).unroll(time=3, batch=1)
    for thing, count in ((u.cost, 3), (gn.gradient(u.cost, list(u.network.parameters.values())), 6)):
        for style in ("full", "compact"):
            with case(count, style):
                picture = viz.draw(thing, style, closed=False).picture
                folded = [s for s in picture.shapes if "3 blocks" in s.lines and s.cluster.time]
                assert len(folded) == count
                reads = {shape.key: set[str]() for shape in picture.shapes}
                for edge in picture.edges:
                    reads[edge.head].add(edge.tail)
                assert len(list(TopologicalSorter(reads).static_order())) == len(reads)


def test_blocks_beside_folded_time_labels_and_other_stacks():
    u = rnn.Network([rnn.RHN(4, depth=5)], 5, 5).unroll(time=10, batch=1)
    picture = viz.draw(gn.gradient(u.cost, [u.network.parameters["layer0.W_sh2"]]), closed=False).picture
    assert {key for pair in picture.pairs for key in pair} <= {shape.key for shape in picture.shapes}
    h = gn.input((2, 3), name="x")
    for tower in ("left", "right"):
        for number in range(6):
            with gn.scope(tower=tower, block=number):
                h = gn.label(gn.tanh(h), f"h{number}")
    lines = [shape.lines for shape in viz.draw(h).picture.shapes]
    assert lines.count(("⋯", "4 blocks")) == 2
    assert len(lines) == 1 + 2 * (2 * 2 + 1)
    for odd in ([0, 1], "embed"):
        with gn.scope(block=odd):
            assert viz.draw(gn.exp(gn.sin(h))).size == len(lines) + 2


def test_composites_are_drawn_closed_and_open():
    x, y = gn.input((4, 3), name="X"), gn.input((4, 1), name="y")
    w = gn.parameter(np.ones((3, 1), "float32"), name="W")
    estimate = x @ w
    with gn.scope(cell="SSE"):
        cost = gn.sum((estimate - y) ** 2)
    closed, opened = viz.draw(cost, closed=True), viz.draw(cost)
    (composite,) = [shape for shape in closed.picture.shapes if shape.is_cost]
    assert composite.lines == ("SSE",)
    assert len(composite.nodes) == 3
    assert len(closed.picture.shapes) == len(opened.picture.shapes) - 2
    symbols = {s.key: s.lines[0] for s in closed.picture.shapes}
    into = [symbols[e.tail] for e in closed.picture.edges if e.head == composite.key]
    assert into[0] == "@"
    assert "<i>y</i>" in into[1]


def test_work_grows_linearly_with_time():
    cell = rnn.Network([rnn.LSTM(4)], 5, 5)
    few, many = (cell.unroll(time=time, batch=2) for time in (20, 80))
    assert calls_of(lambda: viz.draw(many).dot) < 5 * calls_of(lambda: viz.draw(few).dot)


def test_nodes_used_only_by_folded_steps_are_folded():
    """Elements of a sequence, one for each step, without scope."""
    x, h = gn.input((12, 2, 3), name="x"), gn.input((2, 3), name="h_0")
    elements = [x[t] for t in range(12)]
    for t, element in enumerate(elements):
        with gn.scope(layer="layer0", cell="Sum", time=t + 1):
            h = gn.tanh(element + h)
    picture = viz.draw(gn.sum(h), closed=False, steps=3).picture
    taken = [shape.lines[0] for shape in picture.shapes if shape.nodes and shape.nodes[0] in elements]
    assert taken == ["[0]", "[11]"]
