"""Invalid arguments raise errors with the argument, its value, and the remedy."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet_rnn.experiments.control import Arm, CenterOut, Controller
from graphnet_rnn.text.reading import Reading
from tests.tables import case
from viz.charts.braille import text_curve
from viz.drawing.render import Drawing
from viz.pages import TextPage

pytest.importorskip("matplotlib")

X = gn.input((3, 2), name="x")
H = gn.tanh(X)
COST = gn.sum(H)
FUNCTION = gn.compile([H])
DUMP = lambda path: viz.dump(FUNCTION, path)
READING = Reading("ab", (0.5, 0.5), "ab")
NAN = math.nan
NO_COSTS = SimpleNamespace(characters=1, bits=(NAN,), new_words=(1,), parts=(), means=(), length=9)
KEYS = np.ones((2, 88))
EPOCH = {"event": "epoch", "epoch": 1, "train_bits": 1.0, "valid_bits": 1.0}
LOSS = {"event": "epoch", "epoch": 1, "valid_loss": 1.0}
UNITS = [{"units": u, "cell": c, "mean": 1.0, "valid_bits": 1.0} for u in (1, 2) for c in ("GRU", "LSTM")]
MOVED = CenterOut(Controller([rnn.Elman(3)]), directions=3, time=5).trajectories()

GRAPHS = [
    (lambda: viz.draw(H, style=["full"]), r"style must be 'full' or 'compact', not \['full'\]"),
    (lambda: viz.to_dot(H, rankdir="UP"), "rankdir must be '.*' or '.*', not"),
    (lambda: viz.draw(H, theme=["dark"]), r"theme must be 'light', .* or a viz\.Style, not \['dark'\]"),
    (lambda: viz.draw(H, theme="sepia"), "'light', 'dark', 'colour-blind'"),
    (lambda: viz.Style(background="white"), "Style: background must be a color such as '#1f66c1', not 'white'"),
    (lambda: viz.Style(font_size=0), "Style: font_size must be"),
    (lambda: viz.Style(font="a&b"), "Style: font must be the names of fonts, not 'a&b'"),
    (lambda: viz.walkthrough(viz.draw(rnn.Elman(2)), seconds=400), "seconds must be at most 300, not 400"),
    *((lambda p=p: viz.schedule_curve(rnn.Warmup(5)).savefig(p), "path must be the name") for p in ("", None)),
    (lambda: viz.Style(sequence=("#ffffff",)), "Style: sequence must be a tuple of two or more colors"),
    (lambda: viz.Style(diverging=("#ffffff", 0)), "Style: diverging must be a tuple"),  # type: ignore[arg-type]
    (lambda: viz.draw(H, limit="all"), "limit must be a whole number of nodes, .* not 'all'"),
    (lambda: viz.mirror(COST, limit=-1), "limit must be .* not -1"),
    (lambda: viz.draw(H, notes={X: 1}), r"notes must be a result of viz\.values, gradients, times or changes"),
    (lambda: viz.draw(H, notes=viz.changes(gn.Graph(H), gn.Graph(H))), r"\(which returns two\)"),
    (lambda: viz.draw(H, steps=2), "steps must be a whole number of at least 3"),
    (lambda: viz.draw(H, steps=True), "steps must be a whole number of at least 3"),
    (lambda: viz.draw(rnn.Warmup(5)), "is a schedule, not a graph; draw it with viz.schedule_curve"),
    (lambda: viz.to_dot(None), "thing: cannot draw a NoneType"),
    (lambda: viz.mirror(X), r"mirror needs a scalar .* not x\[3, 2\]"),
    (lambda: viz.mirror(COST, closed=True), "no time steps in this graph; draw it with closed=False"),
    (lambda: viz.gradients(H), r"gradients needs a scalar .* not Tanh\[3, 2\]"),
    (lambda: viz.gradients(COST, {X: np.ones((3, 2), "float32"), H: 1}), "Tanh.* is not an input"),
    (lambda: viz.values(COST, {}), r"feeds has no array for x\[3, 2\]"),
    (lambda: viz.values(COST, [X]), "feeds must be a dict"),
    (lambda: viz.values(H, {X: np.zeros((3, 1), "float32")}), r"x\[3, 2\] .* of shape \[3, 1\]"),
    (lambda: viz.times(COST), r"needs a compiled function \(gn\.compile\), not Sum\[\]"),
    (lambda: viz.times(FUNCTION, repeats="a"), "repeats must be a whole number >= 1, not 'a'"),
    (lambda: viz.changes(H, gn.Graph(H)), r"before: changes compares two graphs \(gn\.Graph\), not Tanh\[3, 2\]"),
    (lambda: viz.passes(H), r"function: passes needs a compiled function \(gn\.compile\)"),
    (lambda: viz.dump("no function", "a"), r"dump needs a compiled function \(gn\.compile\), not a str"),
    (lambda: viz.dump(FUNCTION, __file__), "folder .*test_errors.* cannot be written"),
    *((lambda given=given: viz.units(given), r"groups must be a result of rnn\.riemannian\.unit_groups")
      for given in (None, "groups", [rnn.GRU])),
    (lambda: viz.generation(rnn.Network([rnn.Bidirectional(2)], 3, 3)), "network: .* reads later inputs"),
    (lambda: viz.generation("net"), r"needs an rnn\.Network, not a str"),
    (lambda: viz.generation(rnn.Network([rnn.Elman(4)], 2, 3)), r"as many outputs \(3\) as inputs \(2\)"),
    (lambda: Drawing(None), "picture must be a Picture, not None"),
    *((lambda call=call, path=path: call(path), "(path|folder) must be (a str|the name of a file)")
      for call in (viz.draw(H).save, viz.explore(H).save, viz.reading(READING).save, DUMP)
      for path in (None, "a\0b")),
]  # fmt: skip
TEXTS = [
    (lambda: viz.coloured(3, []), "text must be a str, not 3"),
    *((lambda call=call, more=more: call("ab", *more), says)
      for call in (viz.coloured, viz.coloured_html)
      for more, says in (
        ((None,), "probabilities must be a list with a value for each character, not None"),
        (([0.5],), "probabilities holds 1 values for 2 characters"),
        ((["a", 0.5],), r"probabilities\[0\] is 'a'"),
        *((([0.5, wrong],), r"probabilities\[1\] is") for wrong in (1.5, -0.1, NAN)),
        (([0.5, 0.5], "abc"), "guesses holds 3 values for 2 characters"),
        (([0.5, 0.5], 3), "guesses must be a list .* not 3"),
        (([0.5, 0.5], [1, 2]), "guesses must hold a str"),
        (([0.5, 0.5], None, 0), "width must be a whole number >= 2, not 0"),
      )),
    (lambda: viz.reading(READING, 80, "sepia"), "theme must be one of 'light', 'dark', .* not 'sepia'"),
    (lambda: viz.reading({}), "readings is empty"),
    (lambda: viz.reading({"a": "text"}), "result of rnn.read"),
    (lambda: viz.reading(READING, 1), "width must be a whole number >= 2"),
    (lambda: viz.samples([{"event": "epoch", "epoch": 1}]), r"no row has .* a 'sample'\. Train with"),
    (lambda: viz.samples({"a": "b"}, count="a"), "count must be a whole number >= 1, not 'a'"),
    (lambda: viz.samples({"a": "b"}, width=None), "width must be a whole number >= 2, not None"),
    (lambda: viz.reading(READING).save("a.png"), r"must end in \.html, \.svg, \.txt or \.ansi"),
    (lambda: viz.reading(READING).save("no/a.html"), r"cannot be written \(there is no folder"),
    (lambda: TextPage("a", None, "b", "light"), "TextPage: terminal must be a str, not None"),
    (lambda: text_curve([(0, NAN)]), "nothing to draw"),
    (lambda: text_curve([(0, 1)], width=15), "16 characters and 2 rows, not 15 and 8"),
]  # fmt: skip
HISTORIES = [
    (lambda: viz.flight_recorder(3), "history must be rows"),
    (lambda: viz.flight_recorder([1, 2]), "history must be rows"),
    (lambda: viz.flight_recorder("none.jsonl"), "cannot be read"),
    (lambda: viz.flight_recorder([]), "nothing to draw: it needs rows with event 'step'"),
    (lambda: viz.flight_recorder([{"event": "step", "step": 1, "loss": None}]), "nothing to draw"),
    (lambda: viz.training_curve([]), "nothing to draw"),
    (lambda: viz.training_curve([{"event": "step", "epoch": 1, "train_bits": NAN}]), "nothing to draw"),
    (lambda: viz.minibatches_and_failures([{"event": "step"}]), "table holds nothing to draw: .* 'task'"),
    (lambda: viz.minibatches_and_failures(7), "table must be rows"),
    (lambda: viz.loss_by_calls({}), "runs holds nothing"),
    (lambda: viz.loss_by_calls({"a": [{"event": "epoch"}]}), "the run a holds nothing to draw"),
    (lambda: viz.compare_runs({}), "histories must be a dict"),
    (lambda: viz.compare_runs([[EPOCH]]), "histories must be a dict"),
    (lambda: viz.compare_runs({"a": [EPOCH], "b": []}), r"histories\['b'\] holds nothing to draw"),
    (lambda: viz.compare_runs({"a": [{**EPOCH, "train_bits": None, "valid_bits": None}]}), "nothing to draw"),
    (lambda: viz.compare_runs({"a": 3}), r"histories\['a'\] must be rows"),
    (lambda: viz.compare_runs({"a": ""}), "history is an empty path"),
    (lambda: viz.compare_runs({"a": [EPOCH]}, by="hour"), "by must be one of .*, not 'hour'"),
    (lambda: viz.compare_runs({"a": [EPOCH]}, by="step"), r"histories\['a'\] holds nothing .* numbers 'step'"),
    (lambda: viz.compare_runs({}, by=[]), r"by must be one of .*, not \[\]"),
    (lambda: viz.compare_runs({"a": [EPOCH]}, log="z"), "log must be one of '', 'x', 'y', 'xy', not 'z'"),
    (lambda: viz.compare_runs({"a": [EPOCH], "b": [LOSS]}), "measures: 'a' bits, 'b' loss; compare"),
    (lambda: viz.best_setting(UNITS, "dropout", "units", by="rate"), "no row has 'dropout', .*, 'rate'"),
    (lambda: viz.best_setting([], "a", "b", by=[]), r"by must be the name of a setting, a str, not \[\]"),
    (lambda: viz.best_setting([], 3, "b"), "best must be the name of a setting"),
    (lambda: viz.compare_settings([]), "no setting has two values"),
    (lambda: viz.compare_settings([{"units": 3, "mean": 1.0}]), "no setting has two values"),
    (lambda: viz.compare_settings([{"u": u, "mean": 1.0} for u in (1, 2)], by="u"), "two values besides 'u'; leave"),
    (lambda: viz.compare_settings(UNITS, against="size"), "results have no setting 'size'"),
    (lambda: viz.compare_settings(UNITS, by=3), "by must be the name of a setting"),
    (lambda: viz.compare_settings([{"a": 1, "mean": 1}, {"b": 2, "mean": 1}], "a", by="b"), "a mean and a, b"),
    (lambda: viz.weight_norms([{"event": "epoch", "epoch": 1}]), "no row has 'epoch' and 'weight_norms'"),
    (lambda: viz.weight_norms({"a": {"W": 1.0}, "b": {}}), r"norms\['b'\] must be a dict"),
    (lambda: viz.weight_norms({"W": NAN}), "must be a dict of finite norms"),
    (lambda: viz.weight_norms(3), "norms must be rows"),
    *((lambda norms=norms: viz.gradient_by_distance(norms), "nothing to draw")
      for norms in ({"h": [0.0, 0.0]}, {"h": []}, {"h": [NAN]}, {"h": {}}, {})),
    (lambda: viz.gradient_by_distance({"h": np.ones((2, 2))}), r"'h' must be one norm for each.*\[2, 2\]"),
    (lambda: viz.gradient_by_distance({"h": "x"}), "'h' must be one norm for each distance, not 'x'"),
    (lambda: viz.gradient_by_distance([1.0]), "norms must be a result of"),
    (lambda: viz.cost_over_text({}), "result of rnn.cost_over_text"),
    (lambda: viz.cost_over_text([1.0]), "result of rnn.cost_over_text"),
    (lambda: viz.cost_over_text({"a": 3}), "result of rnn.cost_over_text"),
    (lambda: viz.cost_over_text(NO_COSTS), "result of rnn.cost_over_text"),
    (lambda: viz.time_lag([1, 2]), "result of rnn.tasks.time_lag"),
    (lambda: viz.time_lag(rnn.tasks.TimeLag(("a", "b"), np.zeros((2, 3, 4)), 10)), "smooth must be at most 4, .*10"),
    (lambda: viz.schedule_curve(0.5), r"schedule must be a Schedule, e.g. rnn.Warmup\(500\), not 0.5"),
    (lambda: viz.schedule_curve(rnn.OnPlateau()), "depends on validation costs; in Python, pass them"),
    (lambda: viz.schedule_curve(rnn.Warmup(5) * rnn.Cosine(9).by_epoch()), "pass the number of steps in an epoch"),
    (lambda: viz.schedule_curve(rnn.Warmup(5), 0), "until must be a whole number >= 1, not 0"),
    (lambda: viz.schedule_curve(rnn.OnPlateau(), costs=["low"]), "costs must be a list of numbers"),
]  # fmt: skip
ARRAYS = [
    (lambda: viz.arm_movements({}, Arm()), "shown holds nothing"),
    (lambda: viz.arm_movements({"a": MOVED}, Arm(), np.ones((2, 2))), r"pushed must be \[5, 3\], not"),
    (lambda: viz.arm_movements({"a": MOVED}, Arm(), torques_of=3), "one of the 3 movements, not 3"),
    (lambda: viz.attention_map(np.ones((2, 3, 4))), r"shares must be .* of one case, not \[2, 3, 4\]"),
    (lambda: viz.attention_map(np.full((2, 2), 3.0)), r"shares must be in 0 \.\.\. 1, not 3"),
    (lambda: viz.attention_map(np.full((2, 2), NAN)), r"shares must be in 0 \.\.\. 1"),
    (lambda: viz.attention_map("here"), "shares must be an array, not 'here'"),
    (lambda: viz.attention_map(np.ones((2, 2)), read="abc"), "read must be 2, not 3"),
    (lambda: viz.attention_map([[0.5, 0.5, 0.0]], read=5), "attention_map: read must be 3 names, not 5"),
    (lambda: viz.image_rows({}), "rows holds nothing to draw"),
    (lambda: viz.image_rows([np.ones((2, 4))]), "rows holds nothing to draw"),
    (lambda: viz.image_rows({"x": np.ones((2, 5))}), "the 5 pixels of x are not a square number; pass width"),
    (lambda: viz.image_rows({"x": np.ones((2, 6))}, width=4), "the 6 pixels of x are not rows of 4"),
    (lambda: viz.image_rows({"x": np.ones(4)}), r"x must be finite numbers .*, not \[4\]"),
    (lambda: viz.image_rows({"x": np.full((1, 4), NAN)}), "x must be finite numbers"),
    (lambda: viz.image_rows({"x": "walk"}), r"x must be an array \(count, pixels\), not 'walk'"),
    (lambda: viz.image_rows({"x": np.ones((2, 4)), "y": np.ones((3, 4))}), r"y must be \[2, 2, 2\]"),
    (lambda: viz.joint_curves(np.ones((2, 3, 4))), r"truth must be .* of one case, not \[2, 3, 4\]"),
    (lambda: viz.joint_curves("walk"), r"truth must be an array \(time, width\), not 'walk'"),
    (lambda: viz.joint_curves(np.ones((4, 3)), {"a": np.ones((4, 2))}), r"a must be \[4, 3\].* not"),
    *((lambda columns=columns: viz.joint_curves(np.ones((4, 3)), columns=columns), r"must be among 0 \.\.\. 2, not \[")
      for columns in ([3], [0.5], [True], [])),
    (lambda: viz.forecast(None), "forecasts holds nothing to draw"),
    (lambda: viz.joint_curves(np.ones((4, 3)), names=["a"]), "names must be 3, one for each column, not 1"),
    (lambda: viz.piano_roll(np.ones((2, 3, 88))), r"truth must be .* of one piece, not \[2, 3, 88\]"),
    (lambda: viz.piano_roll(2 * KEYS), r"truth must be in 0 \.\.\. 1, not 2"),
    (lambda: viz.piano_roll(NAN * KEYS), r"truth must be in 0 \.\.\. 1"),
    (lambda: viz.piano_roll("a tune"), r"truth must be an array \(time, keys\), not 'a tune'"),
    (lambda: viz.piano_roll(KEYS, np.ones((3, 88))), r"predicted must be \[2, 88\].* not \[3, 88\]"),
    (lambda: viz.filmstrip(np.zeros((3, 5))), r"filmstrip: videos must be finite, \(count"),
    (lambda: viz.filmstrip(np.zeros((3, 2, 9, 9))), r"for several cases, pass v\[:, case\]"),
    (lambda: viz.filmstrip({"a": np.full((3, 9), NAN)}), r"filmstrip: videos\['a'\] must be finite"),
    (lambda: viz.filmstrip("a film"), "videos must be an array of images, not 'a film'"),
    (lambda: viz.filmstrip({}), "one or more videos of the same shape"),
    (lambda: viz.filmstrip(np.zeros((3, 9)), first=3), "first is 3, but a video has only 3 frames"),
    (lambda: viz.filmstrip(np.zeros((3, 9)), count=0), "filmstrip: count"),
    (lambda: viz.animation({"a": np.zeros((3, 9)), "b": np.zeros((4, 9))}), "videos .* of the same shape"),
    (lambda: viz.animation(np.zeros((3, 9)), 0), "animation: frames_per_second"),
    (lambda: viz.animation(np.zeros((3, 9)), title=3), "animation: title must be a str"),
    (lambda: viz.animation(np.zeros((3, 9))).save("a.avi"), r"an animation must end in \.html, \.gif or \.mp4"),
    (lambda: viz.receptive_fields("W"), "receptive_fields: W must be an array"),
    (lambda: viz.receptive_fields(np.zeros((5, 4))), "the columns of W must be finite"),
    (lambda: viz.receptive_fields(np.zeros((9, 4)), np.zeros((3, 3))), r"recurrent must be finite, \(4, 4\)"),
    (lambda: viz.receptive_fields(np.zeros((9, 4)), "none"), r"recurrent must be an array \(4, 4\), not 'none'"),
]  # fmt: skip


def test_invalid_arguments_are_rejected():
    for call, names in (*GRAPHS, *TEXTS, *HISTORIES, *ARRAYS):
        with case(names), pytest.raises((viz.DrawingError, gn.ShapeError), match=names):
            call()


def test_masked_arrays_are_rejected():
    """Masked values would be drawn as if they were there."""
    mask = np.ma.masked_array([[0, 1, 1, 0.0]], [[False, True, False, False]])
    draws = (
        viz.joint_curves, viz.piano_roll, viz.filmstrip, lambda m: viz.image_rows({"a": m}), viz.receptive_fields,
        viz.attention_map, lambda m: Arm().state_at(m[:, :2]),
    )  # fmt: skip
    for draw in draws:
        with case(draw), pytest.raises(gn.DtypeError, match="masked array"):
            draw(mask)


def test_joint_curves_with_gaps_draw_the_columns_that_move_most():
    frames = np.random.default_rng(0).normal(size=(9, 8)) * np.arange(8)
    frames[2, 7] = NAN
    assert [axes.get_ylabel() for axes in viz.joint_curves(frames).axes] == [
        f"column {k}" for k in range(2, 8)
    ]


def test_to_dot_matches_draw():
    dot = viz.to_dot(rnn.LSTM, "compact", theme="dark")
    assert viz.DARK.background in dot
    assert dot == viz.draw(rnn.LSTM, "compact", theme="dark").dot


def test_mirror_size_counts_both_sides():
    u = rnn.Network([rnn.Elman(3)], 3, 3).unroll(time=3, batch=2)
    drawing = viz.mirror(u.cost, limit=20)
    assert drawing.size > 20 > len(drawing.picture.shapes)
    nodes = re.findall(r"^  (?!title_|scale_)(\w+) \[pos=", drawing.dot, re.M)
    assert drawing.size == len(nodes)
    with pytest.raises(viz.DrawingError, match=rf"{drawing.size} nodes to draw, more than limit=20"):
        _ = drawing.svg
