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
        epoch = step / steps
        bits = 1.5 + 3 * math.exp(-epoch)
        result.append(
            {"event": "step", "step": step, "epoch": epoch, "train_bits": bits, "learning_rate": 0.1}
        )
    for epoch in range(1, epochs + 1):
        result.append(
            {"event": "epoch", "epoch": epoch, "train_bits": 1.6, "valid_bits": 2 + abs(epoch - 3) / 10}
        )
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
    assert figure.axes[0].get_xlabel() == "epoch"
    assert figure.axes[0].get_ylabel() == "bits per character"
    figure.savefig(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 5000


def test_smoothing_keeps_a_straight_line():
    history = [{"event": "step", "epoch": i / 500, "train_bits": i} for i in range(1000)]
    line = lines_of(viz.training_curve(history))["training (smoothed)"]
    np.testing.assert_allclose(line.get_ydata(), np.arange(1000), atol=1e-6)


def test_files_and_rows_give_the_same_and_a_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(map(json.dumps, rows())) + '\n\n{"event": "st')
    assert read_history(path) == rows()
    assert lines_of(viz.training_curve(str(path))).keys() == lines_of(viz.training_curve(rows())).keys()


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"event": "step"}\nnonsense\n{"event": "step"}\n')
    with pytest.raises(viz.DrawingError, match=r"history\.jsonl', line 2, is not JSON"):
        viz.training_curve(path)
    path.write_text("[1]\n")
    with pytest.raises(viz.DrawingError, match="line 1, must be an object"):
        viz.training_curve(path)


def test_one_kind_of_row_is_enough_and_values_that_are_no_numbers_are_skipped():
    for keep in ["step", "epoch"]:
        with case(keep):
            history = [row for row in rows() if row["event"] == keep]
            history.append({"event": keep, "epoch": 9, "train_bits": None, "valid_bits": math.inf})
            assert viz.training_curve(iter(history)).axes[0].get_lines()


def test_one_point_is_enough():
    viz.training_curve([{"event": "epoch", "epoch": 1, "train_bits": 2.0, "valid_bits": 2.1}])


def test_any_measure_is_drawn_by_its_name():
    """On axes of its own where validation has another one than training."""
    for trained, validated, start, said in [
        ("train_loss", "valid_loss", {}, ["loss"]),
        ("train_error", "valid_error", {}, ["mean squared error"]),
        ("train_bits", "valid_bits", {"unit": "bits/symbol"}, ["bits per symbol"]),
        ("train_bits", "valid_bits", {"unit": "bits/char"}, ["bits per character"]),
        ("train_loss", "valid_wrong", {}, ["loss", "share of wrong answers"]),
        ("train_my_cost", "valid_my_cost", {"unit": ""}, ["my cost"]),
    ]:
        with case(trained, validated, start, said):
            names = {"train_bits": trained, "valid_bits": validated}
            history = [{names.get(key, key): value for key, value in row.items()} for row in rows()]
            figure = viz.training_curve([{"event": "start", **start}, *history])
            assert [axes.get_ylabel() for axes in figure.axes] == said
            assert [axes.get_xlabel() for axes in figure.axes][-1] == "epoch"
            first, last = (
                {line.get_label() for line in axes.get_lines()} for axes in (figure.axes[0], figure.axes[-1])
            )
            assert "training (smoothed)" in first
            assert "validation: best 2.000, epoch 3" in last
            assert len(figure.axes) == len(said)


def test_validation_without_numbers_leaves_training():
    """Nothing was kept for it."""
    history = [{"event": "epoch", "epoch": e, "train_loss": 3 / e, "valid_loss": None} for e in (1, 2)]
    (axes,) = viz.training_curve(history).axes
    assert axes.get_ylabel() == "loss"
    assert [line.get_label() for line in axes.get_lines()] == ["training"]
