"""Open pictures of unrolled networks: equal columns, states from left to right, no edge below a shape."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case, some_quick
from tests.viz.drawing.test_labels import faults, laid_out
from viz.drawing.render import Drawing, installed_renderer

pytestmark = pytest.mark.skipif(installed_renderer() is None, reason="Graphviz")
#: An edge would pass below a shape, or steps differ: Graphviz's own layout remains.
ODD = (
    "Attention", "Bidirectional", "GLNN", "GNN", "GraphLSTM", "GraphRNN", "LSTMProjected", "LayerNormLSTM", "NARX",
)  # fmt: skip


def check_columns(drawing: Drawing) -> None:
    boxes, edges = laid_out(drawing)
    clusters = {shape.key: shape.cluster for shape in drawing.picture.shapes}
    times = {key: cluster.time for key, cluster in clusters.items() if cluster and cluster.time is not None}
    columns = {
        time: sorted((clusters[k].row, *boxes[k][0][::-1].round(1)) for k in times if times[k] == time)
        for time in sorted(set(times.values()))
    }
    first, *others = columns.values()
    shifts = []
    for other in others:
        assert [(row, y) for row, y, _ in other] == [(row, y) for row, y, _ in first]
        shifts += [{round(b[2] - a[2]) for a, b in zip(first, other, strict=True)}]
    distance = max(shifts[0])
    for k, found in enumerate(shifts, start=1):
        assert all(abs(shift - k * distance) <= 1 for shift in found)
    assert distance > max(x for _, _, x in first) - min(x for _, _, x in first)
    for tail, head, points in edges:
        if tail in times and head in times and times[tail] != times[head]:
            assert points[0][0] < points[-1][0]
        for key, (place, half) in boxes.items():
            if key not in (tail, head) and not key.startswith(("title_", "label_")):
                assert not (abs(points - place) < half - 1).all(1).any(), (tail, head, key)


@pytest.mark.parametrize(
    "name", some_quick(rnn.cells.ALL, ("Elman", "LSTM", "GRU", "MRNN", "NARX", "HMMFilter"))
)
def test_steps_are_equal_columns(name: str) -> None:
    u = rnn.Network([rnn.cells.ALL[name]().resized(8)], 5, 5).unroll(3, 2)
    drawing = viz.draw(u, "compact", closed=False)
    assert faults(drawing) == []
    if name not in ODD:
        check_columns(drawing)


def test_layers_and_notes_are_in_columns() -> None:
    layers = [rnn.GRU(8), rnn.LSTM(8)]
    for skip, theme in ((False, "light"), (True, "dark")):
        u = rnn.Network(layers, 5, 5, skip=skip).unroll(2, 2)
        with case(skip):
            check_columns(viz.draw(u.cost, "compact", closed=False, theme=theme, notes=viz.gradients(u.cost)))


def test_other_pictures_are_drawn_by_graphviz() -> None:
    """Derivatives, and steps that differ because some are folded."""
    network = rnn.Network([rnn.Elman(8)], 5, 5)
    short, long = network.unroll(3, 2), network.unroll(9, 2)
    for thing in (gn.gradient(short.cost, list(network.parameters.values())), long):
        drawing = viz.draw(thing, "compact", closed=False)
        boxes, _ = laid_out(drawing)
        assert {shape.key for shape in drawing.picture.shapes} <= set(boxes)


def test_input_read_by_every_step_and_by_the_cost() -> None:
    h, x = gn.input((2, 3), name="h_0"), gn.input((2, 3), name="x")
    w = gn.parameter(np.zeros((3, 3), "float32"), name="W")
    for time in range(1, 4):
        with gn.scope(layer="a", time=time):
            h = gn.tanh(h @ w + x)
    with gn.scope(layer="cost"):
        cost = gn.mean(gn.squared_error(h, x))
    for style in ("full", "compact"):
        boxes, edges = laid_out(viz.draw(cost, style, closed=False))
        for tail, head, points in edges:
            for key, end in ((tail, points[0]), (head, points[-1])):
                place, half = boxes.get(key, (end, np.zeros(2)))
                assert (abs(end - place) < half + 9).all(), (style, tail, head)
