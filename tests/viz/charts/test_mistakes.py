"""Charts of what cannot be drawn: each names the argument, what it was, and what it must be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
import viz
from graphnet_rnn.models.control import Arm, CenterOut, Controller
from tests.tables import case
from viz.charts.braille import text_curve

pytest.importorskip("matplotlib")

NAN = float("nan")
SHORT, LONG = np.ones((2, 88)), np.ones((3, 88))
EPOCH = {"event": "epoch", "epoch": 1, "train_bits": 1.0, "valid_bits": 1.0}
UNITS = [{"units": u, "cell": c, "mean": 1.0, "valid_bits": 1.0} for u in (1, 2) for c in ("GRU", "LSTM")]
TWO = [{"a": 1, "mean": 1.0}, {"b": 2, "mean": 1.0}]

#: Chart -> (arguments, arguments by name, what the message says).
MISTAKES: dict[Any, list[tuple[tuple[Any, ...], dict[str, Any], str]]] = {
    viz.loss_by_calls: [
        (({},), {}, "runs holds nothing"),
        (({"a": [{"event": "epoch"}]},), {}, "the run a holds nothing to draw"),
    ],
    viz.arm_movements: [(({}, Arm()), {}, "shown holds nothing")],
    viz.attention_map: [
        ((np.ones((2, 3, 4)),), {}, "shares must be (steps, places) of one case, not [2, 3, 4]"),
        ((np.full((2, 2), 3.0),), {}, "shares must be in 0 ... 1, not 3 ... 3"),
        ((np.full((2, 2), NAN),), {}, "shares must be in 0 ... 1"),
        (("here",), {}, "shares must be an array, not 'here'"),
        ((np.ones((2, 2)),), {"read": "abc"}, "read must be 2, not 3"),
        (([[0.5, 0.5, 0.0]],), {"read": 5}, "attention_map: read must be 3 names, not 5"),
    ],
    text_curve: [
        (([(0, NAN)],), {}, "nothing to draw"),
        (([(0, 1)],), {"width": 15}, "16 characters and 2 rows, not 15 and 8"),
    ],
    viz.compare_runs: [
        (({},), {}, "give a mapping of names"),
        (([[EPOCH]],), {}, "give a mapping of names"),
        (({"a": [EPOCH], "b": []},), {}, "histories['b'] holds nothing to draw"),
        (({"a": [{"event": "epoch", "epoch": 1, "valid_bits": None}]},), {}, "nothing to draw"),
        (({"a": 3},), {}, "histories['a']: give rows"),
        (({"a": "no/such/run"},), {}, "cannot be read"),
        (({"a": ""},), {}, "history is an empty path"),
        (({"a": [EPOCH]},), {"by": "hour"}, "by must be one of 'epoch', 'step', 'seconds', not 'hour'"),
        (({"a": [EPOCH]},), {"log": "z"}, "log must be one of '', 'x', 'y', 'xy', not 'z'"),
        (
            ({"a": [EPOCH], "b": [{"event": "epoch", "epoch": 1, "valid_loss": 1.0}]},),
            {},
            "histories are of different measures: 'a' bits, 'b' loss; compare",
        ),
    ],
    viz.best_setting: [
        ((UNITS, "dropout", "units"), {"by": "rate"}, "no row has 'dropout', 'units', 'valid_bits', 'rate'"),
    ],
    viz.compare_settings: [
        (([],), {}, "no setting has two values"),
        (([{"units": 3, "mean": 1.0}],), {}, "no setting has two values"),
        ((UNITS,), {"against": "size"}, "results have no setting 'size'"),
        ((UNITS,), {"by": 3}, "by must be the name of a setting"),
        ((TWO,), {"against": "a", "by": "b"}, "no row has a mean and a, b"),
    ],
    viz.training_curve: [
        (([],), {}, "nothing to draw"),
        (([{"event": "note"}],), {}, "nothing to draw"),
        (([{"event": "step", "epoch": 1, "train_bits": math.nan}],), {}, "nothing to draw"),
        (("none.jsonl",), {}, "cannot be read"),
    ],
    viz.flight_recorder: [
        (([],), {}, "nothing to draw: it needs rows with event 'step'"),
        (([{"event": "note"}],), {}, "nothing to draw"),
        (([{"event": "step", "step": 1, "loss": None}],), {}, "nothing to draw"),
        ((3,), {}, "history: give rows"),
        (([1, 2],), {}, "history: give rows"),
        (([None],), {}, "history: give rows"),
        (("none.jsonl",), {}, "cannot be read"),
    ],
    viz.minibatches_and_failures: [
        (([{"event": "step"}],), {}, "table holds nothing to draw: it needs rows with 'task'"),
        ((7,), {}, "table: give rows"),
    ],
    viz.image_rows: [
        (({},), {}, "rows holds nothing to draw"),
        (([np.ones((2, 4))],), {}, "rows holds nothing to draw"),
        (({"x": np.ones((2, 5))},), {}, "the 5 pixels of x make no square; give width"),
        (({"x": np.ones((2, 6))},), {"width": 4}, "the 6 pixels of x are not rows of 4"),
        (({"x": np.ones(4)},), {}, "x must be finite numbers (count, pixels) or (count, rows, columns), not [4]"),
        (({"x": np.full((1, 4), NAN)},), {}, "x must be finite numbers"),
        (({"x": "walk"},), {}, "x must be an array (count, pixels), not 'walk'"),
        (({"x": np.ones((2, 4)), "y": np.ones((3, 4))},), {}, "y must be [2, 2, 2], as the first row is, not"),
    ],
    viz.joint_curves: [
        ((np.ones((2, 3, 4)),), {}, "truth must be (time, width) of one case, not [2, 3, 4]"),
        (("walk",), {}, "truth must be an array (time, width), not 'walk'"),
        ((np.ones((4, 3)), {"a": np.ones((4, 2))}), {}, "a must be [4, 3], as truth is, not [4, 2]"),
        ((np.ones((4, 3)),), {"columns": [3]}, "columns must be among 0 ... 2, not [3]"),
        ((np.ones((4, 3)),), {"names": ["a"]}, "names must be 3, one for each column, not 1"),
    ],
    viz.piano_roll: [
        ((np.ones((2, 3, 88)),), {}, "truth must be (time, keys) of one piece, not [2, 3, 88]; of several take truth["),
        ((2 * SHORT,), {}, "truth must be in 0 ... 1, not 2 ... 2"),
        ((NAN * SHORT,), {}, "truth must be in 0 ... 1"),
        (("a tune",), {}, "truth must be an array (time, keys), not 'a tune'"),
        ((SHORT, LONG), {}, "predicted must be [2, 88], as truth is, not [3, 88]"),
    ],
    viz.weight_norms: [
        (([{"event": "epoch", "epoch": 1}],), {}, "no row has 'epoch' and 'weight_norms'"),
        (({},), {}, "must map weights to finite norms"),
        (({"a": {"W": 1.0}, "b": {}},), {}, "norms['b'] must map"),
        (({"W": NAN},), {}, "must map weights to finite norms"),
        ((3,), {}, "norms: give rows"),
    ],
    viz.gradient_by_distance: [
        *((({"h": norms},), {}, "nothing to draw") for norms in ([0.0, 0.0], [], [NAN], {})),
        (({},), {}, "nothing to draw"),
        (({"h": np.ones((2, 2))},), {}, "'h' must be one norm for each distance, not an array of shape [2, 2]"),
        (([1.0],), {}, "norms must be what"),
    ],
    viz.cost_over_text: [
        ((costs,), {}, "give what rnn.cost_over_text") for costs in ({}, [1.0, 2.0], {"a": 3})
    ],
    viz.time_lag: [(([1, 2],), {}, "give what rnn.time_lag")],
    viz.schedule_curve: [
        ((0.5,), {}, "schedule must be a Schedule, e.g. rnn.Warmup(500), not 0.5"),
        ((rnn.OnPlateau(),), {}, "follows validated costs; give some"),
        ((rnn.Warmup(5) * rnn.Cosine(9).by_epoch(),), {}, "say how many steps make one"),
        ((rnn.Warmup(5), 0), {}, "until must be a whole number >= 1, not 0"),
        ((rnn.OnPlateau(),), {"costs": ["low"]}, "costs must be a list of numbers"),
    ],
    viz.draw: [((rnn.Warmup(5),), {}, "is no graph but a curve: viz.schedule_curve")],
    viz.filmstrip: [
        ((np.zeros((3, 5)),), {}, "filmstrip: videos must be finite, (count, pixels) of square"),
        ((np.zeros((3, 2, 9, 9)),), {}, "of several cases take one, v[:, case]"),
        (({"a": np.full((3, 9), NAN)},), {}, "filmstrip: videos['a'] must be finite"),
        (("a film",), {}, "videos must be an array of images, not 'a film'"),
        (({},), {}, "one or more of one shape"),
        ((np.zeros((3, 9)),), {"first": 3}, "first is 3, but a video has only 3 frames"),
        ((np.zeros((3, 9)),), {"count": 0}, "filmstrip: count"),
    ],
    viz.animation: [
        (({"a": np.zeros((3, 9)), "b": np.zeros((4, 9))},), {}, "animation: videos must be one or more of one shape"),
        ((np.zeros((3, 9)), 0), {}, "animation: frames_per_second"),
        ((np.zeros((3, 9)),), {"title": 3}, "animation: title must be a str"),
    ],
    viz.receptive_fields: [
        (("W",), {}, "receptive_fields: W must be an array"),
        ((np.zeros((5, 4)),), {}, "the columns of W must be finite"),
        ((np.zeros((9, 4)), np.zeros((3, 3))), {}, "recurrent must be finite, (4, 4)"),
        ((np.zeros((9, 4)), "none"), {}, "recurrent must be finite, (4, 4)"),
    ],
}  # fmt: skip


def test_what_cannot_be_drawn_is_told() -> None:
    moved = CenterOut(Controller([rnn.Elman(3)]), directions=3, time=5).trajectories()
    of_arms = [
        (({"a": moved}, Arm(), np.ones((2, 2))), {}, "pushed must be [5, 3], not [2, 2]"),
        (({"a": moved}, Arm()), {"torques_of": 3}, "one of the 3 movements, not 3"),
    ]
    for chart, mistakes in {**MISTAKES, viz.arm_movements: MISTAKES[viz.arm_movements] + of_arms}.items():
        for arguments, settings, says in mistakes:
            with case(chart.__name__, says):
                with pytest.raises(viz.DrawingError) as caught:
                    chart(*arguments, **settings)
                assert says in str(caught.value)


def test_every_chart_has_its_mistakes() -> None:
    charts = {
        name for name, f in vars(viz).items() if getattr(f, "__annotations__", {}).get("return") == "Chart"
    }
    told = {chart.__name__ for chart in MISTAKES}
    assert charts <= told | {"history_chart"}
