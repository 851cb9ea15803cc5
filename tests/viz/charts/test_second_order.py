"""The flight recorder and the figure of many runs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import viz
from tests.tables import case
from viz.charts.history import has_flight

pytest.importorskip("matplotlib")

LOSS, RATIO = "Loss", "Reduction ratio ρ"
TEST = "Test sequences that are wrong (%)"
MODEL = "Quadratic model φ / φ at the end"
CONDITION = "Condition of the metric's blocks (at least)"
#: What each panel is drawn from.
PANELS = {
    LOSS: {"before", "after"}, TEST: {"wrong"}, RATIO: {"ratio"}, "Damping": {"damping", "structural"},
    "Norms": {"gradient_norm", "step_norm"}, "Line search α": {"scale"}, "Seconds a step": {"seconds"},
    "CG steps": {"cg_steps", "cg_reason", "chosen"}, MODEL: {"cg_values", "chosen"},
}  # fmt: skip
STEP = {
    "loss": 2.1, "gradient_norm": 0.5, "before": 2.0, "after": 1.0, "ratio": 0.9, "damping": 0.1, "structural": 0.02,
    "cg_steps": 3, "cg_reason": "progress", "cg_values": [0.5, -1.0, -1.8, -2.0], "chosen": 2, "scale": 1.0,
    "step_norm": 0.3, "seconds": 0.1,
}  # fmt: skip


def step(number: int, **changes) -> dict:
    return {"event": "step", "step": number, **STEP, **changes}


def history(count: int = 6) -> list[dict]:
    rows: list[dict] = [{"event": "start"}, {"event": "test", "step": 0, "wrong": 1.0}]
    for k in range(1, count + 1):
        before, damping = 10.0 ** (-k / 3), 0.5**k
        rows.append(step(k, before=before, after=before / 2, damping=damping, structural=damping / 5))
    return [*rows, {"event": "test", "step": count, "wrong": 0.4}]


def panels(rows) -> dict:
    return {
        axes.get_title(loc="left"): axes
        for axes in viz.flight_recorder(rows).axes
        if axes.get_title(loc="left")
    }


def panel(name: str, rows):
    """One panel alone, which is quicker to draw than all."""
    keys = {"event", "step", *PANELS[name]}
    return panels([{k: v for k, v in row.items() if k in keys} for row in rows])[name]


def points(axes, label: str) -> list[tuple[float, float]]:
    (line,) = [line for line in axes.get_lines() if line.get_label() == label]
    return [tuple(point) for point in np.asarray(line.get_xydata()).tolist()]


def labels(axes) -> list[str]:
    return axes.get_legend_handles_labels()[1]


def curves(axes, length: int = 4) -> list:
    return [line for line in axes.get_lines() if len(line.get_xdata()) == length]


def test_all_panels_have_titles_and_axis_labels():
    figure = viz.flight_recorder(history(), title="a run")
    found = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_title(loc="left")}
    assert found.keys() == PANELS.keys()
    assert figure.get_suptitle() == "a run"
    (low, high), *others = {found[name].get_xlim() for name in PANELS if name != MODEL}
    assert low < 0
    assert high > 6
    assert not others
    named = {name: axes.get_xlabel() for name, axes in found.items() if axes.get_xlabel()}
    assert named == {"Damping": "HF step", "CG steps": "HF step", MODEL: "CG step"}
    assert [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()] == ["HF step"]  # the colour bar's
    assert {found[name].get_yscale() for name in (LOSS, "Damping", "Norms")} == {"log"}
    assert points(found[LOSS], "before")[2] == (3.0, pytest.approx(0.1))
    assert points(found[LOSS], "after")[2] == (3.0, pytest.approx(0.05))
    assert points(found["Damping"], "λ")[:2] == [(1.0, 0.5), (2.0, 0.25)]
    assert points(found["Norms"], "gradient |g|")[0] == (1.0, 0.5)
    assert points(found["Norms"], "step |δ|")[0] == (1.0, 0.3)
    assert "no fall predicted" not in labels(found[RATIO])
    assert "rejected" not in labels(found[LOSS])


def test_loss_axis_is_linear_below_a_decade():
    for rows in (history(2), [*history(), step(7, before=-1e-3)], [step(1, before=0.0, after=0.0)]):
        assert panel(LOSS, rows).get_yscale() == "linear"
    axes = panel(LOSS, [*history(), step(7, before=0.02, after=0.0), step(8, before=0.0, after=0.0)])
    edge = pytest.approx(axes.get_ylim()[0])
    assert axes.get_yscale() == "log"
    assert points(axes, "0") == [(7.0, edge), (8.0, edge)]


def test_steps_without_a_ratio_are_marked():
    """λ grows at these steps."""
    rows = [step(7, ratio=None), step(8, ratio=math.nan), step(9, ratio=None, after=None)]
    for before in (history(), []):
        axes = panels([*before, *rows])[RATIO]
        low = axes.get_ylim()[0]
        assert points(axes, "no fall predicted") == [(7.0, low), (8.0, low)]


def test_structural_damping_weight_is_labelled():
    """λ μ or μ, depending on the rule, and no λ without damping (Krause)."""
    for damping, structural, said in (
        (lambda k: 0.5**k, lambda k: 0.02 * 0.5**k, ["λ", "λμ (structural, μ = 0.02)"]),
        (lambda k: 0.1, lambda k: 0.5**k, ["λ", "μ (structural)"]),
        (lambda k: 0.0, lambda k: 0.5**k, ["μ (structural)"]),
        (lambda k: 0.1, lambda k: 0.03, ["λ", "structural"]),  # λ μ or μ: the rows do not say
        (lambda k: 0.1, lambda k: 0.0, ["λ"]),
    ):
        with case(said):
            rows = [step(k, damping=damping(k), structural=structural(k)) for k in (1, 2, 3)]
            axes = panel("Damping", rows)
            assert labels(axes) == said
            if "μ (structural)" in said:
                assert points(axes, "μ (structural)") == [(k, 0.5**k) for k in (1, 2, 3)]
    assert "Damping" not in panels([step(k, damping=0.0, structural=0.0) for k in (1, 2, 3)])


def test_rejected_steps_are_marked_in_the_loss_and_in_the_line_search():
    found = panels([*history(), step(7, before=0.5, after=0.5, scale=0.0), step(8, scale=0.64)])
    assert points(found[LOSS], "rejected") == [(7.0, 0.5)]
    assert points(found["Line search α"], "0: rejected") == [(7.0, 0.0)]
    assert [tuple(p) for p in found["Line search α"].get_lines()[0].get_xydata()][-2:] == [(6, 1), (8, 0.64)]


def test_test_errors_are_in_percent():
    for wrong, scale, shown, zeros in (
        ([0.5, 0.0], "linear", [50, 0], 0),
        ([0.0, 0.0], "linear", [0, 0], 0),
        ([1.0, 0.02, 0.0], "log", [100, 2, 1], 1),
    ):
        with case(wrong):
            axes = panel(TEST, [{"event": "test", "step": 5 * i, "wrong": w} for i, w in enumerate(wrong)])
            assert axes.get_yscale() == scale
            np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), shown)
            assert labels(axes) == ["0 %"] * zeros
            if zeros:
                assert points(axes, "0 %") == [(10.0, axes.get_ylim()[0])]


def test_wild_ratios_are_drawn_at_the_edge_and_labelled():
    ratios = [0.9, 1.3, -8.61, 40.0, -1.5, math.nan, None, -math.inf]
    axes = panel(RATIO, [step(k, ratio=r) for k, r in enumerate(ratios, start=1)])
    assert axes.get_ylim() == (-1, 2)
    assert points(axes, "to 40") == [(4.0, 2.0)]
    assert points(axes, "to −∞") == [(3.0, -1.0), (5.0, -1.0), (8.0, -1.0)]
    assert [(text.get_text(), text.get_position()[1]) for text in axes.texts] == [
        ("3/4", 0.75),
        ("1/4", 0.25),
    ]
    assert [list(other.get_xdata()) for other in axes.get_lines() if other.get_marker() == "o"] == [[1, 2]]


def test_cg_steps_are_marked_by_their_reason_for_ending():
    words = {
        "progress": "stalled", "limit": "limit", "solved": "solved", "curvature": "curvature ≤ 0",
        "not finite": "not finite", "loss": "loss turns", "ratio": "ρ < 1/4", "failures": "failures",
    }  # fmt: skip
    reasons = [*words, "of its own", None]
    axes = panel("CG steps", [step(k, cg_reason=r, cg_steps=10 * k) for k, r in enumerate(reasons, start=1)])
    assert labels(axes) == [*words.values(), "other", "iterate taken"]
    for k, word in enumerate(words.values(), start=1):
        assert points(axes, word) == [(k, 10 * k)]
    assert points(axes, "other") == [(9, 90), (10, 100)]
    assert points(axes, "iterate taken") == [(k, 2) for k in range(1, 11)]
    lines = [line for line in axes.get_lines() if line.get_label() in (*words.values(), "other")]
    for look in ("marker", "color"):
        assert len({getattr(each, f"get_{look}")() for each in lines}) == len(lines) == 9


def test_model_curves_end_at_one_and_mark_the_chosen_iterate():
    axes = panel(MODEL, history(3))
    found = curves(axes)
    np.testing.assert_allclose(found[0].get_ydata(), [-0.25, 0.5, 0.9, 1.0])
    np.testing.assert_array_equal(found[0].get_xdata(), [0, 1, 2, 3])
    assert [line.get_xydata().tolist() for line in curves(axes, 1)] == [[[2.0, 0.9]]] * 3
    assert len({curve.get_color() for curve in found}) == 3
    low, high = panel(
        MODEL, [step(1, cg_values=[90.0, -1.0, -2.0])]
    ).get_ylim()  # a warm start far above zero
    assert -1.1 < low < 0
    assert 1 < high < 1.2


def test_few_of_many_curves_are_drawn_with_the_count_in_the_title():
    found = panels(history(500))
    shown = curves(found[f"{MODEL}, 40 of 500 HF steps"])
    assert len(shown) == len({curve.get_color() for curve in shown}) == 40
    assert len(points(found[LOSS], "before")) == 500


def test_missing_curve_values_leave_gaps():
    """Steps without a predicted reduction have no value."""
    nothing = [None, [], "wrong", 3, [-1.0], [0.0, 0.5], [None, None], [math.nan, -math.inf], [[1], {}]]
    rows = [step(k, cg_values=values) for k, values in enumerate(nothing)]
    assert MODEL not in panels(rows)
    assert len(curves(panel(MODEL, [*rows, step(20)]))) == 1
    axes = panel(MODEL, [step(1, cg_values=[0.0, None, -2.0, math.nan], chosen=9)])
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [0, np.nan, 1, np.nan])
    assert not curves(axes, 1)


def test_invalid_values_are_ignored(tmp_path):
    """Each value of a step in turn, and all together."""
    rows = [step(1)]
    for value in [None, math.nan, math.inf, -math.inf, "x", True, [], {}, 10**400, 1e308, 5e-324]:
        for keys in [STEP, *([key] for key in STEP)]:
            rows.append(step(len(rows) + 1, **dict.fromkeys(keys, value)))
        rows.append({"event": "test", "step": len(rows), "wrong": value})
    rows += [step("x"), step(None), step(math.nan), {"event": "test", "step": None, "wrong": 0.5}]
    found = {name.split(",")[0]: axes for name, axes in panels(rows).items()}
    assert found.keys() == PANELS.keys()
    assert len(points(found["Damping"], "λ")) == sum(row["event"] == "step" for row in rows)
    found[LOSS].figure.savefig(tmp_path / "run.png", dpi=30)


def test_empty_panels_are_omitted():
    """Rows of other optimizers can be drawn, too."""
    found = panels([{"event": "step", "loss": 1.0 / k, "gradient_norm": 0.1} for k in range(1, 5)])
    assert found.keys() == {"Loss", "Norms"}
    assert found["Loss"].get_xlabel() == "step"
    np.testing.assert_array_equal(found["Loss"].get_lines()[0].get_xdata(), [1, 2, 3, 4])
    assert panels([{"event": "test", "wrong": 0.5}]).keys() == {TEST}
    lengths = panels(
        [{"event": "step", "loss": 1.0 / i, "length": 0.5 / i, "condition": 3.0} for i in range(1, 5)]
    )
    assert lengths.keys() == {LOSS, "Length of a step in the metric", CONDITION}


def test_riemannian_runs_show_rates_by_part():
    """rnn.Riemannian with two alternating parts; the fifth step is canceled."""
    rows = [
        {
            "event": "step", "step": i, "loss": 2.0 / i, "gradient_norm": 1.0, "after": 2.0 / i if i == 5 else 1.5 / i,
            "rate": 0.0 if i == 5 else 0.1 * i, "tries": 50 if i == 5 else 1, "condition": 10.0 * i,
            "part": ("outputs", "hidden")[i % 2],
        }
        for i in range(1, 9)
    ]  # fmt: skip
    found = panels(rows)
    assert found.keys() == {LOSS, "Norms", "Rates", "Rates tried", CONDITION}
    assert [y for _, y in points(found["Rates"], "outputs")] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert [x for x, _ in points(found["Rates"], "hidden")] == [1, 3, 7]
    assert "canceled" in labels(found["Rates"])
    assert "rejected" in labels(found[LOSS])
    assert [y for _, y in points(found[LOSS], "before")] == pytest.approx([2.0 / i for i in range(1, 9)])
    others = [{"event": "step", "ratio": 1.0}], [{"event": "step", "loss": 1.0}]
    assert [has_flight(r) for r in (rows, *others)] == [True, True, False]


def test_resumed_runs_replace_later_rows():
    keys = ("event", "step", "before", "wrong")
    rows = [{k: v for k, v in row.items() if k in keys} for row in history()]
    for again, steps, tests in (
        ([step(4), {"event": "test", "step": 4, "wrong": 0.2}], [1, 2, 3, 4], [0, 4]),
        ([{"event": "test", "step": 3, "wrong": 0.2}], [1, 2, 3], [0, 3]),
        ([{"event": "test", "step": 0, "wrong": 0.9}], [], [0]),
        ([step(7), step(9)], [1, 2, 3, 4, 5, 6, 7, 9], [0, 6]),
    ):
        with case(steps, tests):
            found = panels([*rows, *again])
            np.testing.assert_array_equal(found[TEST].get_lines()[0].get_xdata(), tests)
            assert (LOSS in found) == bool(steps)
            assert not steps or [x for x, _ in points(found[LOSS], "before")] == steps


def test_captions_and_legends_do_not_overlap():
    """With the longest legends: all reasons, and ratios beyond both edges."""
    reasons = ["progress", "limit", "solved", "curvature", "not finite", "loss", "ratio"]
    changes = [{"cg_reason": r, "ratio": (-1) ** k * 12.34, "scale": k % 2} for k, r in enumerate(reasons, 1)]
    found = panels([step(k, **each) for k, each in enumerate(changes, 1)])
    found[LOSS].figure.draw_without_rendering()
    assert found.keys() == PANELS.keys() - {TEST}
    for axes in found.values():
        title = axes._left_title.get_window_extent()
        assert axes.bbox.width > 300
        for other in found.values():
            assert not title.overlaps(other.bbox)
            if other.get_legend() is not None:
                legend = other.get_legend().get_window_extent()
                assert not legend.overlaps(title), (axes, other)
                assert legend.y0 >= other.bbox.y1 - 1
                assert axes is other or not legend.overlaps(axes.bbox)


def outcome(task="addition", length=30, minibatches=574.0, seed=0, **changes) -> dict:
    row = {"structural": True, "solved": True, "open": False, "minibatches": minibatches, **changes}
    return {"task": task, "length": length, "seed": seed, **row}


TABLE = [
    outcome(minibatches=100.0), outcome(minibatches=500.0, seed=1), outcome(minibatches=60000.0, seed=2, solved=False),
    outcome(minibatches=4000.0, seed=3, solved=False, open=True), outcome(length=50, solved=False, minibatches=None),
    outcome(length=100, minibatches=900.0), outcome(structural=False, minibatches=800.0),
    outcome("xor", 50, structural=False, minibatches=2000.0),
]  # fmt: skip


def drawn(axes, label: str):
    """Of one kind of damping, and maybe one end: the line, or the container with line, caps and bars."""
    (found,) = [h for h, name in zip(*axes.get_legend_handles_labels(), strict=True) if name == label]
    return found


def runs_drawn(axes, end: str, damping: str = "structural damping") -> list[float]:
    """The number of runs that ended so, for each T."""
    return [bar.get_height() for bar in drawn(axes, f"{damping}: {end}")]


def test_mean_and_range_of_solved_runs_and_counts_of_all(tmp_path):
    (tmp_path / "table.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in [{"event": "start"}, *TABLE])
    )
    addition, xor, runs, _ = viz.minibatches_and_failures(tmp_path / "table.jsonl").axes
    line, _, (bars,) = drawn(addition, "structural damping")
    np.testing.assert_allclose(line.get_ydata(), [300, np.nan, 900])
    assert [bar[:, 1].tolist() for bar in bars.get_segments() if len(bar)] == [[100, 500], [900, 900]]
    ends = [runs_drawn(runs, end) for end in ("solved", "open", "failed")]
    assert ends == [[2, 0, 1], [1, 0, 0], [1, 1, 0]]
    assert runs_drawn(runs, "solved", "no structural damping") == [1]
    np.testing.assert_allclose(drawn(addition, "no structural damping")[0].get_ydata(), [800])
    assert addition.get_yscale() == "log"
    assert addition.get_shared_y_axes().joined(addition, xor)
    assert [axes.get_title() for axes in (addition, xor)] == ["addition", "xor"]
    assert [axes.get_ylabel() for axes in (addition, xor, runs)] == ["minibatches", "", "runs"]
    # Both kinds of damping stand side by side at the lengths.
    with_, without = (drawn(addition, f"{no}structural damping")[0].get_xdata() for no in ("", "no "))
    assert without[0] < 30 < with_[0] < 33
    np.testing.assert_allclose(with_ / [30, 50, 100], with_[0] / 30)
    np.testing.assert_array_equal(addition.get_xticks(), [30, 50, 100])
    np.testing.assert_allclose(drawn(xor, "no structural damping")[0].get_xdata(), [50])


def test_resumed_runs_count_with_their_last_outcome():
    rows = [outcome(solved=False, seed=1), outcome(solved=False, seed=2), outcome(minibatches=7.0, seed=1)]
    above, below = viz.minibatches_and_failures(rows).axes
    assert drawn(above, "structural damping")[0].get_ydata() == [7.0]
    assert runs_drawn(below, "solved") == runs_drawn(below, "failed") == [1]


def test_runs_stopped_early_and_failed_runs_look_different():
    """Different markers, bars and labels, also for kinds of damping."""
    figure = viz.minibatches_and_failures(TABLE)
    above, _, runs, _ = figure.axes
    marks = [drawn(above, f"structural damping: {end}") for end in ("open", "failed")]
    assert [mark.get_ydata().tolist() for mark in marks] == [[4000], [60000]]
    assert len({mark.get_marker() for mark in marks}) == 2
    bars = [drawn(runs, f"structural damping: {end}")[0] for end in ("solved", "open", "failed")]
    assert len({bar.get_facecolor() for bar in bars}) == 3
    assert [bool(bar.get_hatch()) for bar in bars] == [False, True, False]
    words = [text.get_text() for text in figure.legends[0].texts]
    assert words[2:] == ["solved", "open: stopped early", "failed: not solved at the limit"]
    alone = viz.minibatches_and_failures(TABLE[:1]).legends[0]
    assert [text.get_text() for text in alone.texts] == ["structural damping", "solved"]
    lines = [drawn(above, f"{no}structural damping")[0] for no in ("", "no ")]
    for look in ("color", "marker", "linestyle"):
        assert len({str(getattr(line, f"get_{look}")()) for line in lines}) == 2


def test_many_problems_are_drawn_in_two_rows():
    figure = viz.minibatches_and_failures([outcome(n, minibatches=10.0**i) for i, n in enumerate("abcde")])
    above = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in above] == [*"abcde"]
    assert len(figure.axes) == 10
    assert len({axes.get_ylim() for axes in above}) == 1
    figure.draw_without_rendering()
    *heights, last = (axes.get_position().y0 for axes in above)
    assert last < min(heights) == max(heights)


def test_tables_without_solved_runs_are_labelled(tmp_path):
    figure = viz.minibatches_and_failures([outcome(solved=False, minibatches=None)], title="all in vain")
    above, below = figure.axes
    assert "none solved" in [text.get_text() for text in above.texts]
    assert runs_drawn(below, "failed") == [1]
    assert figure.get_suptitle() == "all in vain"
    figure.savefig(tmp_path / "table.png", dpi=30)


def test_incomplete_rows_are_reported():
    for changes, says in (
        ({"minibatches": None}, "'minibatches' must be a number > 0"), ({"minibatches": 0}, "'minibatches' must be"),
        ({"length": 0}, "'length' must be a number > 0"), ({"structural": 1 / 30}, "'structural', .* True or False"),
        ({"open": 1}, "'open' must each be True"), ({"open": True}, "'solved' and 'open' cannot both be True"),
    ):  # fmt: skip
        with case(changes), pytest.raises(viz.DrawingError, match=f"table, row 2: .*{says}.*addition"):
            viz.minibatches_and_failures([outcome(), {**outcome(), **changes}])
