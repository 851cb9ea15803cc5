"""Mistakes: what cannot be drawn is refused with the argument, what it was, and the remedy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet_rnn.text.reading import Reading
from tests.tables import case
from viz.drawing.render import Drawing
from viz.pages import TextPage

X = gn.input((3, 2), name="x")
H = gn.tanh(X)
COST = gn.sum(H)


BIDIRECTIONAL = rnn.Network([rnn.Bidirectional(2)], 3, 3)
READING = Reading("ab", (0.5, 0.5), "ab")


def test_mistakes_are_named(tmp_path):
    (tmp_path / "file").write_text("")
    pair, one = viz.changes(gn.Graph(H), gn.Graph(H)), viz.reading(READING)
    for call, says in (
        (lambda: viz.draw(H, style=["full"]), r"style must be 'full' or 'compact', not \['full'\]"),
        (lambda: viz.draw(H, style="fancy"), "style must be '.*' or '.*', not"),
        (lambda: viz.to_dot(H, rankdir="UP"), "rankdir must be '.*' or '.*', not"),
        (lambda: viz.draw(H, theme=["dark"]), r"theme must be 'light', .* or a viz\.Style, not \['dark'\]"),
        (lambda: viz.draw(H, theme="sepia"), "'light', 'dark', 'colour-blind'"),
        (lambda: viz.to_dot(H, theme="sepia"), "theme must be 'light'"),
        (lambda: viz.draw(H, limit="all"), "limit must be a whole number of nodes, or None for no limit, not 'all'"),
        (lambda: viz.draw(H, limit=0), "limit must be .* not 0"),
        (lambda: viz.mirror(COST, limit=-1), "limit must be .* not -1"),
        (lambda: viz.draw(H, notes={X: 1}), r"notes must be what viz\.values, gradients, times or changes gives"),
        (lambda: viz.draw(H, notes=pair), r"notes must be .* \(changes gives two\)"),
        (lambda: viz.to_dot(None), "thing: cannot draw a NoneType"),
        (lambda: viz.mirror(X), r"mirror needs a scalar .* not x\[3, 2\]"),
        (lambda: viz.mirror(COST, closed=True), "no time steps in this graph; draw it with closed=False"),
        (lambda: viz.gradients(H), r"gradients needs a scalar .* not Tanh\[3, 2\]"),
        (lambda: viz.gradients(COST, {X: np.ones((3, 2), "float32"), H: 1}), "Tanh.* is not an input of this graph"),
        (lambda: viz.values(COST, {}), r"feeds has no array for x\[3, 2\]"),
        (lambda: viz.values(COST, [X]), "feeds must be a dict"),
        (lambda: viz.times(COST), r"needs what gn\.compile returns, not Sum\[\]"),
        (lambda: viz.times(gn.compile([H]), repeats="a"), "repeats must be a whole number >= 1, not 'a'"),
        (lambda: viz.changes(H, gn.Graph(H)), r"before: changes compares two of gn\.Graph, not Tanh\[3, 2\]"),
        # Before the first is asked for.
        (lambda: viz.passes(H), r"function: passes needs what gn\.compile returns"),
        (lambda: viz.dump("no function", tmp_path), r"dump needs what gn\.compile returns, not a str"),
        (lambda: viz.dump(gn.compile([H]), tmp_path / "file"), "folder .*file.* cannot be written"),
        *((lambda given=given: viz.units(given), r"units takes what rnn\.riemannian\.unit_groups")
          for given in (None, 3, "groups", [1], [rnn.GRU])),
        (lambda: viz.generation(BIDIRECTIONAL), "network: .* reads later inputs, .* nothing to generate"),
        (lambda: viz.generation("net"), r"needs an rnn\.Network, not a str"),
        (lambda: viz.generation(rnn.Network([rnn.Elman(4)], 2, 3)), r"outputs \(3\) are not of the size of its inputs"),
        (lambda: viz.coloured(3, []), "text must be a str, not 3"),
        *((lambda call=call, more=more: call("ab", *more), says)
          for call in (viz.coloured, viz.coloured_html)
          for more, says in (
            ((None,), "probabilities must hold a value for each character, not be None"),
            (([0.5],), "probabilities holds 1 values for 2 characters"),
            ((["a", 0.5],), r"probabilities\[0\] is 'a'"),
            *((([0.5, wrong],), r"probabilities\[1\] is") for wrong in (1.5, -0.1, float("nan"))),
            (([0.5, 0.5], "abc"), "guesses holds 3 values for 2 characters"),
            (([0.5, 0.5], 3), "guesses must hold .* not be 3"),
            (([0.5, 0.5], [1, 2]), "guesses must be characters"),
            (([0.5, 0.5], None, 0), "width must be a whole number >= 2, not 0"),
            (([0.5, 0.5], None, "a"), "width must be a whole number >= 2, not 'a'"),
          )),
        (lambda: viz.reading(READING, 80, "sepia"), "theme must be one of 'light', 'dark', .* not 'sepia'"),
        (lambda: viz.reading({}), "readings is empty"),
        (lambda: viz.reading(3), "give what rnn.read"),
        (lambda: viz.reading({"a": "text"}), "give what rnn.read"),
        (lambda: viz.reading(READING, 1), "width must be a whole number >= 2"),
        (lambda: viz.samples([{"event": "epoch", "epoch": 1}]), r"no row has .* a 'sample'\. Train with --sample 200"),
        (lambda: viz.samples({"a": "b"}, count=0), "count must be a whole number >= 1, not 0"),
        (lambda: viz.samples({"a": "b"}, count="a"), "count must be a whole number >= 1, not 'a'"),
        (lambda: viz.samples({"a": "b"}, width=None), "width must be a whole number >= 2, not None"),
        (lambda: one.save(tmp_path / "a.png"), r"must end in \.html, \.svg, \.txt or \.ansi"),
        (lambda: one.save(tmp_path / "no" / "a.html"), r"cannot be written \(there is no folder"),
        (lambda: viz.animation(np.zeros((3, 9))).save("a.mp4"), r"an animation must end in \.html or \.gif"),
        (lambda: viz.best_setting([], "a", "b", by=[]), r"by must be the name of a setting, a str, not \[\]"),
        (lambda: viz.best_setting([], 3, "b"), "best must be the name of a setting"),
        (lambda: viz.compare_runs({}, by=[]), r"by must be one of .*, not \[\]"),
        (lambda: TextPage("a", None, "b", "light"), "TextPage: terminal must be a str, not None"),
        (lambda: Drawing(None), "picture: a Drawing is of a Picture, not of None"),
        *((lambda call=call, path=path: call(path), "(path|folder) must (be a str|name a file)")
          for call in (
            lambda path: viz.draw(H).save(path),
            lambda path: viz.explore(H).save(path),
            lambda path: viz.dump(gn.compile([H]), path),
            lambda path: viz.samples({"a": "b"}).save(path),
          )
          for path in (None, 3, "a\0b")),
    ):  # fmt: skip
        with case(says), pytest.raises(viz.DrawingError, match=says):
            call()


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
