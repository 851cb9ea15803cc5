"""Mistakes: what cannot be drawn is refused with the argument, what it was, and the remedy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case
from viz.drawing.render import Drawing
from viz.pages import TextPage

X = gn.input((3, 2), name="x")
H = gn.tanh(X)
COST = gn.sum(H)


def test_mistakes_are_named():
    for call, says in [
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
        (lambda: viz.coloured(3, []), "text must be a str, not 3"),
        (lambda: viz.coloured("ab", None), "probabilities must hold a value for each character, not be None"),
        (lambda: viz.coloured("ab", ["a", 0.5]), r"probabilities\[0\] is 'a'"),
        (lambda: viz.coloured("ab", [0.5, 0.5], guesses=3), "guesses must hold .* not be 3"),
        (lambda: viz.coloured("ab", [0.5, 0.5], guesses=[1, 2]), "guesses must be characters"),
        (
            lambda: viz.coloured_html("ab", [0.5, 0.5], width="a"),
            "width must be a whole number >= 2, not 'a'",
        ),
        (lambda: viz.samples({"a": "b"}, count="a"), "count must be a whole number >= 1, not 'a'"),
        (lambda: viz.samples({"a": "b"}, width=None), "width must be a whole number >= 2, not None"),
        (lambda: viz.times(gn.compile([H]), repeats="a"), "repeats must be a whole number >= 1, not 'a'"),
        (lambda: viz.best_setting([], "a", "b", by=[]), r"by must be the name of a setting, a str, not \[\]"),
        (lambda: viz.best_setting([], 3, "b"), "best must be the name of a setting"),
        (lambda: viz.compare_runs({}, by=[]), r"by must be one of .*, not \[\]"),
        (lambda: TextPage("a", None, "b", "light"), "TextPage: terminal must be a str, not None"),
        (lambda: Drawing(None), "picture: a Drawing is of a Picture, not of None"),
        *[
            (lambda call=call, path=path: call(path), "(path|folder) must (be a str|name a file)")
            for call in (
                lambda path: viz.draw(H).save(path),
                lambda path: viz.explore(H).save(path),
                lambda path: viz.dump(gn.compile([H]), path),
                lambda path: viz.samples({"a": "b"}).save(path),
            )
            for path in (None, 3, "a\0b")
        ],
        (lambda: viz.mirror(COST, closed=True), "no time steps in this graph; draw it with closed=False"),
    ]:
        with case(call, says), pytest.raises(viz.DrawingError, match=says):
            call()


def test_mistakes_of_the_explorer_are_named_and_leave_the_file(tmp_path):
    for settings, says in [
        ({"wrt": 3}, "wrt: 3 is not a node of floating point in this graph"),
        ({"wrt": "x"}, "wrt: 'x' is not a node"),
        ({"passes": 3}, r"passes must be a sequence of passes, .* not 3"),
        ({"passes": "fuse"}, "passes must be .* not 'fuse'"),
        ({"passes": ["fuse"]}, r"passes must be .* not \['fuse'\]"),
        ({"feeds": {COST: 1}}, r"feeds: Sum\[\] is not an input of this graph; its inputs are x\[3, 2\]"),
    ]:
        with case(settings, says):
            page = tmp_path / "page.html"
            page.write_text("before")
            with pytest.raises(viz.DrawingError, match=says):
                viz.explore(COST, page, **settings)
            assert page.read_text(encoding="utf-8") == "before"


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
