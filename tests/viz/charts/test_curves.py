"""Training curves: what is drawn from which rows, and what is said of rows that cannot be drawn."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import viz
from tests.tables import case
from viz.charts.curves import read_history

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


def test_a_torn_last_line_is_left_out_and_a_broken_one_is_named(tmp_path):
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


def test_one_kind_of_row_is_enough_and_values_that_are_no_numbers_are_skipped():
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


def test_any_measure_is_drawn_by_its_name():
    """On axes of its own where validation has another one than training."""
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
