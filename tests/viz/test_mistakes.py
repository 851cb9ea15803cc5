"""Mistakes: what cannot be drawn is refused with the argument, what it was, and the remedy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz

X = gn.input((3, 2), name="x")
H = gn.tanh(X)
COST = gn.sum(H)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: viz.draw(H, style=["full"]), r"style must be 'full' or 'compact', not \['full'\]"),
        (lambda: viz.draw(H, theme=["dark"]), r"theme must be 'light', .* or a viz\.Style, not \['dark'\]"),
        (
            lambda: viz.draw(H, limit="all"),
            "limit must be a whole number of nodes, or None for no limit, not 'all'",
        ),
        (lambda: viz.draw(H, limit=0), "limit must be .* not 0"),
        (lambda: viz.mirror(COST, limit=-1), "limit must be .* not -1"),
        (
            lambda: viz.draw(H, notes={X: 1}),
            r"notes must be what viz\.values, gradients, times or changes gives",
        ),
        (
            lambda: viz.draw(H, notes=viz.changes(gn.Graph(H), gn.Graph(H))),
            r"notes must be .* \(changes gives two\)",
        ),
        (lambda: viz.to_dot(None), "thing: cannot draw a NoneType"),
        (lambda: viz.to_dot(H, theme="sepia"), "theme must be 'light'"),
        (lambda: viz.changes(H, gn.Graph(H)), r"before: changes compares two of gn\.Graph, not Tanh\[3, 2\]"),
        (
            lambda: viz.passes(H),
            r"function: passes needs what gn\.compile returns",
        ),  # before the first is asked for
        (lambda: viz.mirror(COST, closed=True), "no time steps in this graph; draw it with closed=False"),
    ],
)
def test_mistakes_are_named(call, says):
    with pytest.raises(viz.DrawingError, match=says):
        call()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"wrt": 3}, "wrt: 3 is not a node of floating point in this graph"),
        ({"wrt": "x"}, "wrt: 'x' is not a node"),
        ({"passes": 3}, r"passes must be a sequence of passes, .* not 3"),
        ({"passes": "fuse"}, "passes must be .* not 'fuse'"),
        ({"passes": ["fuse"]}, r"passes must be .* not \['fuse'\]"),
        ({"feeds": {COST: 1}}, r"feeds: Sum\[\] is not an input of this graph; its inputs are x\[3, 2\]"),
    ],
)
def test_mistakes_of_the_explorer_are_named_and_leave_the_file(tmp_path, settings, says):
    page = tmp_path / "page.html"
    page.write_text("before")
    with pytest.raises(viz.DrawingError, match=says):
        viz.explore(COST, page, **settings)
    assert page.read_text() == "before"


def test_a_network_that_reads_later_inputs_cannot_generate():
    network = rnn.Network([rnn.Bidirectional(2)], 3, 3)
    with pytest.raises(viz.DrawingError, match=r"network: .* reads later inputs, .* nothing to generate"):
        viz.generation(network)


def test_to_dot_takes_what_draw_takes():
    dot = viz.to_dot(rnn.LSTM, "compact", theme="dark")
    assert viz.DARK.background in dot
    assert dot == viz.draw(rnn.LSTM, "compact", theme="dark").dot


def test_a_mirror_is_as_large_as_both_of_its_sides():
    u = rnn.Network([rnn.Elman(3)], 3, 3).unroll(time=3, batch=2)
    drawing = viz.mirror(u.cost, limit=20)
    assert drawing.size > 20 > len(drawing.picture.shapes)
    nodes = re.findall(r"^  (\w+) \[pos=", drawing.dot, re.M)
    assert drawing.size == len([key for key in nodes if not key.startswith(("title_", "scale_"))])
    with pytest.raises(
        viz.DrawingError, match=rf"there are {drawing.size} nodes to draw, more than limit=20"
    ):
        _ = drawing.svg


def test_feeds_that_do_not_fit_are_graphnets_to_refuse():
    with pytest.raises(gn.ShapeError, match=r"input x\[3, 2\] .* was given an array of shape \[3, 1\]"):
        viz.values(H, {X: np.zeros((3, 1), "float32")})
