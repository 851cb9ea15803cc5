"""Training curves and comparisons of runs: rows and lines."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

import graphnet_rnn as rnn
import viz
from tests.tables import case
from viz.charts.history import read_history

pytest.importorskip("matplotlib")


def rows(epochs: int = 4, steps: int = 50) -> list[dict]:
    result: list[dict] = []
    for step in range(epochs * steps):
        bits = 1.5 + 3 * math.exp(-step / steps)
        result.append({"event": "step", "step": step, "epoch": step / steps, "train_bits": bits})
    for epoch in range(1, epochs + 1):
        valid = 2 + abs(epoch - 3) / 10
        result.append({"event": "epoch", "epoch": epoch, "train_bits": 1.6, "valid_bits": valid})
    return result


def lines_of(figure) -> dict:
    return {line.get_label(): line for line in figure.axes[0].get_lines()}


def test_training_is_smoothed_and_the_best_epoch_marked(tmp_path):
    figure = viz.training_curve(rows())
    lines = lines_of(figure)
    assert len(lines["training (smoothed)"].get_xdata()) == 200
    np.testing.assert_array_equal(lines["validation: best 2.000, epoch 3"].get_xdata(), [1, 2, 3, 4])
    assert [3] in [list(line.get_xdata()) for line in figure.axes[0].get_lines()]  # the ring
    assert not figure.axes[0].texts  # words beside it would hide a curve
    figure.savefig(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 5000


def test_smoothing_keeps_a_straight_line():
    history = [{"event": "step", "epoch": i / 500, "train_bits": i} for i in range(1000)]
    line = lines_of(viz.training_curve(history))["training (smoothed)"]
    np.testing.assert_allclose(line.get_ydata(), np.arange(1000), atol=1e-6)


def test_truncated_last_line_is_ignored_and_damage_is_reported(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(map(json.dumps, rows())) + '\n\n{"event": "st')
    assert read_history(path) == rows()
    assert lines_of(viz.training_curve(str(path))).keys() == lines_of(viz.training_curve(rows())).keys()
    for text, says in (
        ('{"event": "step"}\nnonsense\n{"event": "step"}\n', r"history\.jsonl', line 2, is not JSON"),
        ("[1]\n", "line 1, must be an object"),
    ):
        path.write_text(text)
        with pytest.raises(viz.DrawingError, match=says):
            viz.training_curve(path)


def test_single_kinds_of_rows_are_drawn_and_non_numbers_skipped():
    for keep in ["step", "epoch"]:
        with case(keep):
            history = [row for row in rows() if row["event"] == keep]
            history.append({"event": keep, "epoch": 9, "train_bits": None, "valid_bits": math.inf})
            assert viz.training_curve(iter(history)).axes[0].get_lines()
    viz.training_curve([{"event": "epoch", "epoch": 1, "train_bits": 2.0, "valid_bits": 2.1}])
    history = [{"event": "epoch", "epoch": e, "train_loss": 3 / e, "valid_loss": None} for e in (1, 2)]
    (axes,) = viz.training_curve(history).axes
    assert axes.get_ylabel() == "loss"
    assert [line.get_label() for line in axes.get_lines()] == ["training"]


def test_any_metric_is_drawn_by_name():
    """Validation has separate axes if its metric differs."""
    for trained, validated, start, said in [
        ("train_error", "valid_error", {}, ["mean squared error"]),
        ("train_bits", "valid_bits", {}, ["bits per character"]),
        ("train_bits", "valid_bits", {"unit": "bits/symbol"}, ["bits per symbol"]),
        ("train_loss", "valid_wrong", {}, ["loss", "share of wrong answers"]),
        ("train_my_cost", "valid_my_cost", {"unit": ""}, ["my cost"]),
    ]:
        with case(trained, validated, start, said):
            names = {"train_bits": trained, "valid_bits": validated}
            history = [{names.get(key, key): value for key, value in row.items()} for row in rows()]
            figure = viz.training_curve([{"event": "start", **start}, *history])
            assert [axes.get_ylabel() for axes in figure.axes] == said
            assert figure.axes[-1].get_xlabel() == "epoch"
            first, last = ([line.get_label() for line in figure.axes[n].get_lines()] for n in (0, -1))
            assert "training (smoothed)" in first
            assert "validation: best 2.000, epoch 3" in last


def history(bits: list[float], train: float = 0.3) -> list[dict]:
    rows: list[dict] = [{"event": "initial", "epoch": 0}]
    for epoch, value in enumerate(bits, start=1):
        rows.append({"event": "step", "step": 10 * epoch, "epoch": epoch, "train_bits": value})
        rows.append({"event": "epoch", "epoch": epoch, "train_bits": value - train, "valid_bits": value})
    return rows


def lines(axes) -> list:
    return [line for line in axes.get_lines() if len(line.get_xdata())]


def words(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_validation_is_solid_training_dotted_and_the_best_is_named(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "history.jsonl").write_text("\n".join(map(json.dumps, history([3, 2.5, 2.6]))))
    figure = viz.compare_runs({"GRU": history([3.2, 2.0]), "LSTM": str(tmp_path / "run")}, title="Both")
    (axes,) = figure.axes
    dotted, solid, best, *other = lines(axes)
    np.testing.assert_allclose(solid.get_ydata(), [3.2, 2.0])
    np.testing.assert_allclose(dotted.get_ydata(), [2.9, 1.7])
    assert solid.get_linestyle() == "-"
    assert dotted.get_linestyle() == "--"  # a pattern of dashes: dots
    assert solid.get_color() == dotted.get_color() != other[0].get_color()
    assert (best.get_xdata(), best.get_ydata()) == ([2.0], [2.0])
    assert words(axes) == ["GRU 2.000", "LSTM 2.500"]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["validation", "training", "best"]
    assert axes.get_title(loc="left") == "Both"


def test_compare_runs_by_step_and_by_seconds():
    """Epochs are at the number of steps done, also if few steps or none have a row."""
    net, x = rnn.Network([rnn.Elman(2)], 1, 1, loss="squared"), np.ones((3, 10, 1))
    settings = rnn.Training(rnn.Adam(), epochs=3, log_every=4)
    outcome = rnn.Trainer(rnn.Arrays(net, x, x, batch=3), settings, progress=False).run()
    drawn = lines(viz.compare_runs({"a": outcome}, by="step").axes[0])
    assert [line.get_xdata().tolist() for line in drawn[:2]] == [[3, 6, 9]] * 2
    rows = [{**row, "seconds": 3.0 * row["epoch"]} for row in history([3, 2, 0.5]) if row["event"] == "epoch"]
    (axes,) = viz.compare_runs({"a": rows}, by="seconds", log="xy").axes
    np.testing.assert_allclose(lines(axes)[0].get_xdata(), [3, 6, 9])
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == ("log", "log", "seconds of a core")
    assert viz.compare_runs({"a": rows}).axes[0].get_yscale() == "linear"


def test_log_axis_omits_non_positive_costs():
    for last in (0.0, -0.5):
        with case(last):
            chart = viz.compare_runs({"a": history([2, 1, last]), "b": history([3, 2])}, log="y")
            (axes,) = chart.axes
            assert axes.get_yscale() == "log"
            assert words(axes) == [f"a {last:.3f}", "b 2.000"]
            assert axes.texts[0].xyann[1] == 0  # the label is at the lower edge
            assert "<svg" in chart.svg


def test_training_is_solid_without_validation():
    rows = [{"event": "epoch", "epoch": n, "train_loss": 3.0 / n} for n in (1, 2, 3)]
    (axes,) = viz.compare_runs({"a": rows, "b": rows[:2]}).axes
    assert [line.get_linestyle() for line in lines(axes)] == ["-", "-"]
    assert words(axes) == ["a 1.000", "b 1.500"]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["training"]


def test_many_runs_have_labels_that_do_not_overlap():
    figure = viz.compare_runs({f"run {i}": history([3, 2 + i / 1000]) for i in range(12)})
    figure.draw_without_rendering()
    # Of the words alone: an annotation's own extent takes in its line.
    extent = pytest.importorskip("matplotlib.text").Text.get_window_extent
    boxes = sorted(map(extent, figure.axes[0].texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in itertools.pairwise(boxes))
    assert len(boxes) == 12
    assert all(b.x1 <= figure.bbox.x1 and b.y1 <= figure.bbox.y1 and b.y0 >= 0 for b in boxes)


def named(rows: list[dict], trained: str, validated: str) -> list[dict]:
    names = {"train_bits": trained, "valid_bits": validated}
    return [{names.get(key, key): value for key, value in row.items()} for row in rows]


def test_any_metric_is_compared_by_name():
    losses = named(history([3, 2.5]), "train_loss", "valid_loss")
    training = [{"event": "initial"}, *named(history([2]), "train_loss", "x")]
    (axes,) = viz.compare_runs({"a": losses, "b": training}).axes
    assert axes.get_ylabel() == "loss"
    assert words(axes) == ["a 2.500", "b 1.700 (training)"]
    # Training of another measure is left out.
    (axes,) = viz.compare_runs({"a": named(history([0.5, 0.25]), "train_loss", "valid_wrong")}).axes
    assert axes.get_ylabel() == "share of wrong answers"
    assert words(axes) == ["a 0.250"]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["validation", "best"]


def grid() -> list[dict]:
    """The best dropout is 0.1 for each doubling of 64 units, twice that for the low rate."""
    return [
        {"units": u, "dropout": d, "rate": r, "layers": n, "valid_bits": (d - 0.1 * np.log2(u / 64) * f) ** 2}
        for u in (64, 128, 256)
        for d in (0.0, 0.1, 0.2, 0.3, 0.4)
        for r, f in ((0.01, 1), (0.001, 2))
        for n in (2, 3)
    ]


def test_best_setting_has_the_lowest_score():
    figure = viz.best_setting(grid(), "dropout", "units", by="rate", panels="layers")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["layers 2", "layers 3"]
    for axes in figure.axes:
        low, high = lines(axes)
        np.testing.assert_allclose(low.get_xdata(), [64, 128, 256])
        np.testing.assert_allclose(low.get_ydata(), [0, 0.2, 0.4])  # rate 0.001 comes first
        np.testing.assert_allclose(high.get_ydata(), [0, 0.1, 0.2])
        assert words(axes) == ["rate 0.001", "rate 0.01"]
    assert figure.axes[0].get_ylabel() == "best dropout"


def test_scores_are_validation_costs_and_incomplete_rows_are_skipped():
    rows = [*grid(), {"units": 64}, {"units": 64, "dropout": 0.0, "valid_bits": None}, {"note": "none"}]
    losses = named(rows, "", "valid_loss")
    for given, how in ((rows, {}), (losses, {}), (losses, {"score": "valid_loss"})):
        (line,) = lines(viz.best_setting(given, "dropout", "units", **how).axes[0])
        np.testing.assert_allclose(line.get_ydata(), [0, 0.1, 0.2])
    rows = [{"cell": c, "units": 8, "rate": 0.1, "valid_bits": 1.0} for c in ("GRU", "LSTM")]
    assert words(viz.best_setting(rows, "rate", "units", by="cell").axes[0]) == ["cell GRU", "cell LSTM"]
