"""Charts show the given numbers at the right positions."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

import graphnet_rnn as rnn
import viz
from graphnet_rnn.experiments.control import Arm, CenterOut, Controller
from tests.tables import case
from viz.animation import HEIGHT, MARGIN, NAME
from viz.charts import parts as chart
from viz.charts.labels import spread
from viz.charts.music import MISSED

pytest.importorskip("matplotlib")


def test_attention_map_has_steps_as_rows_and_places_as_columns() -> None:
    shares = np.array([[0.1, 0.9, 0.0], [1.0, 0.0, 0.0]])
    (axes,) = viz.attention_map(shares, read="abc", written=["x", "y"]).axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), shares)
    assert image.get_clim() == (0, 1)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]


def test_attention_arrows_are_wide_where_attention_is_large() -> None:
    shares = np.array([[0.1, 0.9, 0.0], [1.0, 0.0, 0.0]])
    (axes,) = viz.attention_map(shares, read="abc", written="xy", arrows=True).axes
    arrows = {(text.xy[0], text.xyann[0]): text.arrow_patch for text in axes.texts if text.get_text() == ""}
    assert sorted(arrows) == [(0.25, 1 / 6), (0.25, 0.5), (0.75, 1 / 6)]  # (step, position)
    widths = [arrows[key].get_linewidth() for key in sorted(arrows)]
    assert widths[0] < widths[1] < widths[2]
    at = {text.get_text(): text.get_position()[0] for text in axes.texts}
    assert [at[label] for label in "xyabc"] == pytest.approx([0.25, 0.75, 1 / 6, 0.5, 5 / 6])


def test_lags_are_the_differences_and_zero_is_drawn() -> None:
    ratios = np.random.default_rng(0).normal(0.5, 0.1, (2, 3, 40))
    lags = {
        name: rnn.tasks.TimeLag(("[[", "Th"), ratios[:, :runs], 10)
        for name, runs in (("one", 3), ("other", 1))
    }
    (axes,) = viz.time_lag(lags, ideal=2.5).axes
    lines = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
    for each, line in zip(lags.values(), lines, strict=False):
        np.testing.assert_allclose(line, each.difference)
    assert [float(line[0]) for line in lines[2:]] == [0.0, 2.5]
    assert {text.get_text() for text in axes.texts} == {"one", "other", "ideal"}
    assert len(axes.collections) == 1  # one run has no error


def test_joint_curves_have_one_panel_per_column() -> None:
    generator = np.random.default_rng(0)
    truth, other = generator.standard_normal((2, 30, 9))
    figure = viz.joint_curves(truth, {"rnn": other}, columns=[2, 7], names=[f"joint {i}" for i in range(9)])
    assert [axes.get_ylabel() for axes in figure.axes] == ["joint 2", "joint 7"]
    for axes, column in zip(figure.axes, (2, 7), strict=True):
        for line, wanted in zip(axes.lines, (truth, other), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), wanted[:, column])
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["what is", "rnn"]
    # Otherwise the columns that move most are drawn.
    truth, most = np.zeros((10, 8)), [0, 2, 3, 4, 6, 7]
    truth[:, most] = np.arange(10)[:, None] % 2
    assert [axes.get_ylabel() for axes in viz.joint_curves(truth).axes] == [f"column {c}" for c in most]


def test_image_rows_are_drawn_below_each_other() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.random((3, 20)), generator.random((3, 4, 5))
    figure = viz.image_rows({"images": x, "net": y}, width=5, title="Curves")
    assert [axes.get_yticklabels()[0].get_text() for axes in figure.axes] == ["images", "net"]
    assert figure.axes[0].get_title(loc="left") == "Curves"
    for axes, images in zip(figure.axes, (x.reshape(3, 4, 5), y), strict=True):
        (drawn,) = axes.images
        strip = np.ma.filled(drawn.get_array(), np.nan)
        assert strip.shape == (4, 17)
        for i, image in enumerate(images):
            np.testing.assert_array_equal(strip[:, 6 * i : 6 * i + 5], image)
        assert np.isnan(strip[:, [5, 11]]).all()
        assert drawn.get_clim() == (x.min(), x.max())
    (axes,) = viz.image_rows({"x": np.arange(32.0).reshape(2, 16)}).axes  # squares unless a width is given
    np.testing.assert_array_equal(axes.images[0].get_array()[:, :4], np.arange(16).reshape(4, 4))


def test_constant_first_row_uses_the_scale_of_all_rows() -> None:
    for images, limits in (
        ({"a": np.zeros((2, 4)), "b": np.ones((2, 4))}, (0, 1)),
        ({"a": np.ones((2, 4))}, (1, 1)),
    ):
        with case(limits):
            for axes in viz.image_rows(images).axes:
                assert axes.images[0].get_clim() == limits


VIDEO = np.random.default_rng(0).random((9, 12))


def test_filmstrip_has_the_requested_frames() -> None:
    wide, other = VIDEO.reshape(9, 3, 4), 1 - VIDEO.reshape(9, 3, 4)
    axes = viz.filmstrip({"is": wide, "was": other}, count=3, every=2, first=1).axes
    for row, video in enumerate((wide, other)):
        for column, frame in enumerate((1, 3, 5)):
            np.testing.assert_array_equal(axes[3 * row + column].images[0].get_array(), video[frame])
    assert [a.get_title(loc="left") for a in axes] == ["is", "", "", "was", "", ""]
    assert [[t.get_text() for t in a.texts] for a in axes] == [[], [], [], ["1"], ["3"], ["5"]]
    assert len(viz.filmstrip(VIDEO[:, :9], first=7).axes) == 2


def test_animation_page_has_every_pixel() -> None:
    page = viz.animation({"<is>": VIDEO.reshape(9, 3, 4)}, 25, "A & B").html
    assert "<title>A &amp; B</title>" in page
    assert not re.search(r"https?:|src=|href=", page)
    data = json.loads(re.search(r"const data = (.*);\n", page)[1])  # type: ignore[index]
    assert (data["time"], data["height"], data["width"], data["rate"]) == (9, 3, 4, 25)
    assert "<is>" not in page
    (video,) = data["videos"]
    pixels = np.frombuffer(base64.b64decode(video["pixels"]), np.uint8)
    np.testing.assert_array_equal(pixels, np.rint(255 * VIDEO).ravel())


def test_gif_has_every_frame(tmp_path: Path) -> None:
    video = np.zeros((4, 10, 10))
    video[np.arange(4), np.arange(4), 2 * np.arange(4)] = 1
    shown = viz.animation({"is": video, "not": 1 - video}, 5)
    shown.save(tmp_path / "a.gif")
    by = HEIGHT // 10
    with Image.open(tmp_path / "a.gif") as gif:
        for t in range(4):
            gif.seek(t)
            middles = np.array(gif.convert("L"))[MARGIN + NAME :, MARGIN:][by // 2 : 10 * by : by, by // 2 :]
            np.testing.assert_array_equal(middles[:, : 10 * by : by], 255 * video[t])
            other = middles[:, 10 * by + MARGIN :][:, : 10 * by : by]
            np.testing.assert_array_equal(other, 255 * (1 - video[t]))
            assert gif.info["duration"] == 200
        assert (gif.n_frames, gif.info["loop"]) == (4, 0)  # type: ignore[attr-defined]
        size = gif.size
    bundle = shown._repr_mimebundle_()
    assert bundle["text/plain"] == "<Animation of 2 videos, 4 frames of 10 x 10 pixels>"
    shown_data = base64.b64decode(bundle["text/html"].split("base64,")[1].split('"')[0])
    assert Image.open(io.BytesIO(shown_data)).size == size
    shown.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == shown.html


def test_receptive_fields_are_columns_of_the_weights() -> None:
    W, between = np.arange(36.0).reshape(9, 4) - 20, np.arange(16.0).reshape(4, 4)
    left, right = viz.receptive_fields(W, between, units=3).axes[:2]
    tiles = left.images[0].get_array()
    assert tiles.shape == (7, 7)
    for n, (y, x) in enumerate(((0, 0), (0, 4), (4, 0))):
        np.testing.assert_array_equal(tiles[y : y + 3, x : x + 3], W[:, n].reshape(3, 3))
    np.testing.assert_array_equal(right.images[0].get_array(), between[:3, :3].T)
    lows, highs = zip(*(axes.images[0].get_clim() for axes in (left, right)), strict=True)
    assert lows == tuple(-high for high in highs)
    assert len(viz.receptive_fields(W.reshape(3, 3, 4)).axes) == 2  # the field, and its scale


def test_schedule_curve_matches_the_schedule() -> None:
    costs = [3.0, 2.0, 2.0, 2.0, 1.0]
    for schedule, how, last, words in [
        (rnn.Warmup(10).then(rnn.Cosine(30)), {}, 44, "step"),
        (rnn.Warmup(1000).then(rnn.Cosine(30_000)), {}, 34_100, "step"),
        (rnn.Constant(), {}, 1000, "step"),
        (rnn.Cosine(20).by_epoch(), {}, 22, "epoch"),
        (rnn.Warmup(30) * rnn.OnPlateau(0.5, 1), {"costs": costs, "epoch": 20}, 100, "step"),
        (rnn.Cosine(20), {"until": 7}, 7, "step"),
    ]:
        with case(schedule, how, last, words):
            (axes,) = viz.schedule_curve(schedule, **how).axes
            (line,) = axes.get_lines()
            at, values = np.asarray(line.get_data())
            assert (at[0], at[-1], axes.get_xlabel()) == (0, last, words)
            each = how.get("epoch", 1)
            expected = [schedule.now(int(t), int(t) // each, costs[: int(t) // each]) for t in at]
            assert values.tolist() == expected
    assert "<svg" in rnn.Warmup(5).then(rnn.Cosine(9))._repr_mimebundle_()["image/svg+xml"]
    assert set(rnn.OnPlateau()._repr_mimebundle_()) == {"text/plain"}


def test_piano_roll_bars_have_the_length_of_notes() -> None:
    def bars(axes: Any) -> dict[str, set[tuple[float, float, float]]]:
        """By colour (key, first frame, frames)."""
        found: dict[str, set[tuple[float, float, float]]] = {}
        for patch in axes.patches:
            place = (patch.get_y() + patch.get_height() / 2, patch.get_x(), patch.get_width())
            found.setdefault(to_hex(patch.get_facecolor()), set()).add(tuple(round(x, 6) for x in place))
        return found

    truth, predicted = np.zeros((6, 88)), np.zeros((6, 88))
    truth[0:3, 39] = truth[5, 39] = truth[2:6, 43] = 1
    predicted[1:5, 39] = 0.9
    predicted[:, 43] = 0.5
    above, below = viz.piano_roll(truth, predicted).axes
    assert bars(above) == {chart.BLACK: {(60, 0, 3), (60, 5, 1), (64, 2, 4)}}
    assert bars(below) == {
        chart.BLUE.lower(): {(60, 1, 2)}, chart.VERMILION.lower(): {(60, 3, 2)},
        MISSED: {(60, 0, 1), (60, 5, 1), (64, 2, 4)},
    }  # fmt: skip
    assert [label.get_text() for label in above.get_yticklabels()] == ["C4", "C5"]
    assert below.get_xlim() == (0, 6)
    (axes,) = viz.piano_roll(np.zeros((4, 88)), title="silence").axes
    assert not axes.patches
    assert axes.get_title(loc="left") == "silence"


ROWS = [{"event": "epoch", "calls": c, "valid_loss": v} for c, v in ((3, 2.0), (9, 0.5), (20, 0.7))]


def test_loss_by_calls_is_the_best_so_far() -> None:
    (axes,) = viz.loss_by_calls({"a": ROWS, "b": ROWS[:2]}, least=0.1).axes
    first, second, least = axes.get_lines()
    assert np.asarray(first.get_data()).tolist() == [[3, 9, 20], [2, 0.5, 0.5]]
    assert np.asarray(second.get_data()).tolist() == [[3, 9], [2, 0.5]]
    assert np.asarray(least.get_ydata()).tolist() == [0.1, 0.1]
    assert {text.get_text() for text in axes.texts} == {"a 0.5", "b 0.5", "iLQR 0.1"}
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    chart = viz.loss_by_calls({"a": [*ROWS, {**ROWS[0], "calls": 30, "valid_loss": 0.0}]}, least=0)
    assert {text.get_text() for text in chart.axes[0].texts} == {"a 0", "iLQR 0"}
    assert chart.axes[0].get_ylim()[0] > 0.1
    assert "<svg" in chart.svg


def test_arm_movements_match_the_trajectories() -> None:
    """The limb has shoulder, elbow and hand; pushes are drawn over the trajectory."""
    moved = CenterOut(Controller([rnn.Elman(3)]), directions=3, time=5).trajectories()
    pushed = np.zeros((5, 3), bool)
    pushed[3:, 1] = True
    figure = viz.arm_movements({"one": moved, "two": moved}, Arm(), pushed, torques_of=1)
    above, below = figure.axes[0], figure.axes[2]
    limb, _, *ways = above.get_lines()
    ends = np.asarray(limb.get_xydata())
    np.testing.assert_allclose(np.hypot(*np.diff(ends, axis=0).T), [Arm().length1, Arm().length2])
    np.testing.assert_allclose(ends[[0, 2]], [[0, 0], moved.hands[0, 1]], atol=1e-6)
    np.testing.assert_allclose(np.asarray(ways[1].get_xydata()), moved.hands[:, 1], atol=1e-6)
    over = np.asarray(ways[2].get_xydata())
    assert np.isfinite(over[:, 0]).tolist() == [False, False, False, True, True, True]
    torques = [np.asarray(line.get_ydata()) for line in below.get_lines()]
    np.testing.assert_allclose(np.transpose(torques), moved.torques[:, 1])


def test_labels_are_spread_with_minimal_displacement() -> None:
    """No small change that keeps order, gaps and bounds has a lower squared displacement."""
    for places, gap, expected in (
        ([0.9, 0.1, 0.5], 0.2, [0.9, 0.1, 0.5]), ([0.5, 0.5], 0.1, [0.45, 0.55]), ([1.0, 1.0], 0.1, [0.9, 1.0]),
        ([0.3] * 5, 0.5, [0, 0.25, 0.5, 0.75, 1]), ([], 0.1, []),
    ):  # fmt: skip
        np.testing.assert_allclose(spread(np.array(places), gap), expected)
    for seed in range(20):
        with case(seed):
            generator = np.random.default_rng(seed)
            places, gap = generator.random(generator.integers(1, 9)) ** 2, 0.1
            found = spread(places, gap)
            order = np.argsort(places, kind="stable")
            assert (np.diff(found[order]) > gap - 1e-12).all()
            assert (np.abs(found - 0.5) < 0.5 + 1e-12).all()
            cost = np.square(found - places).sum()
            for _ in range(200):
                other = found + generator.normal(0, 0.01, len(found))
                if (np.diff(other[order]) >= gap).all() and (np.abs(other - 0.5) <= 0.5).all():
                    assert np.square(other - places).sum() > cost - 1e-12


NORMS = {"layer0.W_xh": 3.0, "layer0.b_h": 0.0, "output.W_ho": 2.0}


def words(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_weight_norm_history_is_drawn_as_lines() -> None:
    rows = [
        {"event": "epoch", "epoch": e, "weight_norms": {k: v + e for k, v in NORMS.items()}} for e in range(4)
    ]
    hidden, output = viz.weight_norms([{"event": "start"}, *rows]).axes
    assert (hidden.get_title(loc="left"), output.get_title(loc="left")) == ("layer0", "output")
    np.testing.assert_allclose(hidden.get_lines()[0].get_ydata(), [3, 4, 5, 6])
    assert (words(hidden), words(output)) == (["W_xh", "b_h"], ["W_ho"])
    many = {f"layer{i}.W": 1.0 + i for i in range(7)}  # more than fit beside each other
    assert len(viz.weight_norms([{"epoch": e, "weight_norms": many} for e in range(3)]).axes) == 7


def test_weight_norm_snapshots_are_drawn_as_bars():
    hidden, _output = viz.weight_norms(NORMS).axes
    assert [bar.get_height() for bar in hidden.patches] == [3, 0]
    assert [label.get_text() for label in hidden.get_xticklabels()] == ["W_xh", "b_h"]
    figure = viz.weight_norms({"before": NORMS, "after": {"layer0.W_xh": 5.0}})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["before", "after"]
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights[:3] == [3, 0, 5]
    assert np.isnan(heights[3])


# -- gradients -----------------------------------------------------------------------------------


def test_gradient_norms_have_one_line_per_state_and_panel_per_snapshot() -> None:
    slow, fast, still = (rate ** np.arange(30) for rate in (0.9, 0.5, 0.99))
    norms = {"at initialization": {"layer0.h": fast}, "at the end": {"layer0.h": slow, "layer0.c": still}}
    first, last = viz.gradient_by_distance(norms).axes
    assert first.get_title(loc="left") == "at initialization"
    assert first.get_yscale() == last.get_yscale() == "log"
    np.testing.assert_allclose(first.get_lines()[0].get_ydata(), fast)
    assert [line.get_color() for line in first.get_lines()] == [last.get_lines()[0].get_color()]
    assert words(last) == ["layer0.h", "layer0.c"]
    # One measurement is one panel; a line ends where the gradient has vanished altogether.
    (axes,) = viz.gradient_by_distance({"h": [1.0, 0.1, 0.0, np.inf, 0.2]}).axes
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [1.0, 0.1, np.nan, np.nan, 0.2])


@dataclass
class Costs:
    characters: int = 1000
    bits: tuple[float, ...] = (float("nan"), *np.linspace(3, 2, 79), *[2.5] * 10, *[2.8] * 10)
    new_words: tuple[int, ...] = (50, *[4] * 99)
    parts: tuple[tuple[str, int], ...] = (("training", 0), ("validation", 80_000), ("test", 90_000))
    means: tuple[float, ...] = (2.5, 2.5, 2.8)
    length: int = 100_000


def test_parts_of_a_text_are_marked_with_their_means() -> None:
    above, below = viz.cost_over_text(Costs()).axes
    assert words(above) == ["training\n2.500", "validation\n2.500", "test\n2.800"]
    borders = [line.get_xdata()[0] for line in below.get_lines() if len(line.get_xdata()) == 2]
    assert borders == [80, 90]
    assert below.get_xlabel() == "characters (thousands)"
    pieces, mean = (line for line in above.get_lines() if len(line.get_xdata()) > 2)
    np.testing.assert_allclose(pieces.get_xdata(), np.arange(1, 100) + 0.5)
    np.testing.assert_allclose(pieces.get_ydata(), Costs().bits[1:])
    np.testing.assert_allclose(mean.get_ydata()[[0, -1]], [3, 2.8])
    figure = viz.cost_over_text({"GRU": Costs(), "LSTM": Costs(bits=(1.0,) * 100)}, title="Both")
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["GRU", "LSTM"]


def test_new_words_are_scaled_to_a_thousand_characters():
    costs = Costs(characters=500, bits=(2.0,) * 3, new_words=(5, 5, 1), parts=(), means=(), length=1100)
    _, below = viz.cost_over_text(costs).axes
    np.testing.assert_allclose(below.get_lines()[0].get_ydata(), [10, 10, 10])
    assert below.get_xlabel() == "characters"


def test_axis_ignores_a_single_spike() -> None:
    bits = np.full(4000, 2.0)
    bits[7] = 60.0
    costs = Costs(bits=tuple(bits), new_words=(1,) * 4000, parts=(), length=4_000_000)
    above, _ = viz.cost_over_text(costs).axes
    assert above.get_ylim()[1] < 3
    assert above.get_xlim() == (0, 4)


def test_short_texts_are_drawn_as_a_point():
    """A line through one point would be invisible."""
    short = Costs(1000, (3.1,), (12,), (("text", 0),), (), 230)
    for axes in viz.cost_over_text(short).axes:
        (point,) = [line for line in axes.get_lines() if line.get_marker() == "o"]
        assert list(point.get_xdata()) == [115]
        assert axes.get_xlim() == (0, 230)


def test_charts_name_supported_suffixes(tmp_path: Path) -> None:
    with pytest.raises(
        viz.DrawingError, match=r"chart\.html': the suffix must be one of .*\.pdf, .*\.png, .*\.svg"
    ):
        viz.schedule_curve(rnn.Warmup(5)).save(tmp_path / "chart.html")


def test_short_series_have_no_naive_forecast() -> None:
    rows = {"s": list("aaab"), "y": np.arange(4.0)}
    table = rnn.data.Table(rows, targets="y", case="s", horizon=2)
    long, short = viz.forecast(table.forecasts(np.zeros((*table.inputs.shape[:2], 2)), "squared")).axes
    assert [line.get_label() for line in long.get_lines()][:3] == ["values", "earlier forecast", "forecast"]
    assert [line.get_label() for line in short.get_lines()][:2] == ["values", "forecast"]
    assert [len(line.get_xdata()) for line in short.get_lines()][:2] == [1, 3]


def test_numeric_time_axis_has_the_column_name() -> None:
    for times, name in (([0.0, 0.5, 1.0, 1.5, 2.0], "t"), ([0.0, 0.5, 1.0, 1.5, 7.0], "row")):
        with case(times):
            table = rnn.data.Table({"t": times, "y": np.arange(5.0)}, targets="y", time="t", horizon=2)
            assert viz.forecast(table.forecasts(np.zeros((5, 1, 2)), "squared")).axes[0].get_xlabel() == name


def test_dollar_signs_in_names_are_escaped() -> None:
    """Text between two "$" would be italic, or an error."""
    name = r"a_b$\q$"
    rows = [{"event": "epoch", "epoch": n, "train_loss": 1 / n, "valid_loss": 2 / n} for n in (1, 2)]
    settings = [{name: n, "$c$": c, "mean": 1.0} for n in (1, 2, 3) for c in ("$x$", "y")]
    table = rnn.data.Table({name: np.arange(5.0)}, targets=name, horizon=2)
    for number, drawn in enumerate((
        viz.compare_runs({name: rows}, title=name), viz.compare_settings(settings, title=name, unit=name),
        viz.forecast(table.forecasts(np.zeros((5, 1, 2)), "squared")),
        viz.attention_map(np.eye(2), written=[name, "y"]),
        viz.image_rows({name: np.eye(4)}), viz.joint_curves(np.eye(2), {name: np.eye(2)}, names=[name, "y"]),
        viz.weight_norms({name: {name: 1.0}, "b": {name: 1.0}}, title=name), viz.filmstrip({name: VIDEO[:, :9]}),
        viz.cost_over_text({name: Costs(parts=((name, 0),)), "b": Costs()}, title=name),
    )):  # fmt: skip
        with case(number), matplotlib.rc_context({"svg.fonttype": "none"}):  # words as text
            assert name in drawn.svg
