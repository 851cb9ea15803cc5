"""Tables with dates, categories and empty cells: inputs, targets and predictions against plain loops."""

from __future__ import annotations

import csv
import datetime
import itertools
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from graphnet_rnn.data import Columns, Table
from graphnet_rnn.data.times import step_between, times_after, written
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

START = datetime.datetime(2024, 2, 27, 20)
HOUR = datetime.timedelta(hours=1)
RANDOM = np.random.default_rng(0)
#: Rows of two shops, 30 and 20 hours, shuffled.
ROWS: list[dict[str, Any]] = [
    {
        "date": (START + step * HOUR).isoformat(" "),
        "shop": shop,
        "sky": RANDOM.choice(["sun", "rain", "snow", ""]),
        "open": RANDOM.choice(["yes", "no"]),
        "warmth": "" if RANDOM.random() < 0.2 else f"{RANDOM.normal(15, 5):.2f}",
        "sold": "NaN" if RANDOM.random() < 0.1 else str(RANDOM.integers(0, 50)),
    }
    for shop, count in (("south, east", 30), ("north", 20))
    for step in range(count)
]
RANDOM.shuffle(ROWS)  # type: ignore[arg-type]
FORECAST: dict[str, Any] = {
    "targets": "sold",
    "time": "date",
    "case": "shop",
    "horizon": 3,
    "calendar": ("hour", "weekday"),
}


def frame_of(rows: list[dict[str, Any]] = ROWS) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def in_order(shop: str) -> list[dict[str, Any]]:
    return sorted((row for row in ROWS if row["shop"] == shop), key=lambda row: str(row["date"]))


def number(cell: str) -> float:
    return math.nan if cell in ("", "NaN") else float(cell)


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return path
    columns = frame_of(rows)
    for name in ("sold", "warmth"):
        columns[name] = [None if math.isnan(number(cell)) else number(cell) for cell in columns[name]]
    columns["date"] = [datetime.datetime.fromisoformat(cell) for cell in columns["date"]]
    columns["sky"] = [cell or None for cell in columns["sky"]]
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def expected_inputs(row: Mapping[str, Any]) -> list[float]:
    """In the order of the columns: sky, open, warmth, sold, calendar."""
    date = datetime.datetime.fromisoformat(row["date"])
    found = [float(row["sky"] == name) for name in ("rain", "snow", "sun")]
    found += [float(row["open"] == name) for name in ("no", "yes")]
    for name in ("warmth", "sold"):
        there = [value for each in ROWS if not math.isnan(value := number(each[name]))]
        value = number(row[name])
        found += [sum(there) / len(there), 1.0] if math.isnan(value) else [value, 0.0]
    for share in (date.hour / 24, date.weekday() / 7):
        found += [math.sin(2 * math.pi * share), math.cos(2 * math.pi * share)]
    return found


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_cells_of_a_table_become_numbers(tmp_path: Path, kind: str) -> None:
    table = Table(frame_of() if kind == "frame" else write(tmp_path / f"t.{kind}"), **FORECAST)
    names = table.columns.input_names()
    assert names[:7] == [
        "sky = rain",
        "sky = snow",
        "sky = sun",
        "open = no",
        "open = yes",
        "warmth",
        "warmth is empty",
    ]
    assert table.lengths is not None
    shops = list(dict.fromkeys(str(row["shop"]) for row in ROWS))
    assert table.lengths.tolist() == [len(in_order(shop)) for shop in shops]
    data = table.sequences
    assert data.weights is not None
    for n, shop in enumerate(shops):
        rows = in_order(shop)
        sold = [number(row["sold"]) for row in rows]
        for t, row in enumerate(rows):
            np.testing.assert_allclose(table.inputs[t, n], expected_inputs(row), rtol=1e-5, atol=1e-6)
            ahead = [sold[t + h] if t + h < len(rows) else math.nan for h in (1, 2, 3)]
            np.testing.assert_array_equal(data.weights[t, n], ~np.isnan(ahead))
            np.testing.assert_array_equal(data.targets[t, n], np.nan_to_num(ahead))
    empties, order = table.notes
    assert "11 cells of the column" in empties
    assert order == "rows are sorted by the column 'date'"


def test_new_rows_are_encoded_as_the_training_rows_were(tmp_path: Path) -> None:
    trained = Table(write(tmp_path / "t.csv"), **FORECAST).columns
    new = [{**row, "sky": "hail" if row["sky"] == "sun" else row["sky"]} for row in ROWS[:5]]
    one = [{**new[0], "shop": "west"}]
    for rows in (new, one):
        table = Table(frame_of(rows), trained)
        assert table.inputs.shape[2] == len(trained.input_names())
    hail = sum(row["sky"] == "sun" for row in ROWS[:5])
    assert f"{hail} cells of the column 'sky' have a category that is not in the training data" in " ".join(
        Table(frame_of(new), trained).notes
    )
    whole = [{**row, "warmth": row["warmth"] or "1"} for row in ROWS]
    complete = Table(frame_of(whole), **FORECAST).columns
    with pytest.raises(DataError, match=r"column 'warmth' is '', an empty cell; the training data had none"):
        Table(frame_of(ROWS), complete)


def test_classes_have_names(tmp_path: Path) -> None:
    table = Table(
        write(tmp_path / "t.csv"), inputs=("warmth", "open"), targets="sky", time="date", case="shop"
    )
    assert table.columns.classes == ("rain", "snow", "sun")
    data, rows = table.sequences, in_order("north")
    n = list(dict.fromkeys(row["shop"] for row in ROWS)).index("north")
    assert data.weights is not None
    for t, row in enumerate(rows):
        assert data.weights[t, n] == bool(row["sky"])
        assert not row["sky"] or table.columns.classes[data.targets[t, n]] == row["sky"]
    logits = np.random.default_rng(1).normal(size=(*table.inputs.shape[:2], 3))
    found = table.predictions(logits, "softmax")
    assert list(found) == [
        "shop",
        "date",
        "predicted_sky",
        "probability_rain",
        "probability_snow",
        "probability_sun",
    ]
    assert found["date"] == [row["date"] for row in ROWS]  # in the order of the file
    for i, row in enumerate(ROWS):
        if row["shop"] == "north":
            o = logits[rows.index(row), n]
            assert found["predicted_sky"][i] == ("rain", "snow", "sun")[o.argmax()]
            assert found["probability_snow"][i] == pytest.approx(np.exp(o[1]) / np.exp(o).sum())


def test_integers_are_classes_only_on_request() -> None:
    rows = {"x": [0.5, 1.5, 2.5], "y": [3, 10, 3]}
    numbers, classes = (Table(rows, inputs="x", targets="y", categories=names) for names in ((), "y"))
    assert numbers.sequences.targets.ravel().tolist() == [3, 10, 3]
    assert (classes.columns.classes, classes.sequences.targets.ravel().tolist()) == (("3", "10"), [0, 1, 0])
    with_gap = Table({"x": rows["x"], "y": [3.0, np.nan, 10.0]}, classes.columns)
    assert with_gap.sequences.targets.ravel().tolist() == [0, 0, 1]
    assert with_gap.sequences.weights is not None
    assert with_gap.sequences.weights.ravel().tolist() == [1, 0, 1]


def test_naive_forecasts_are_earlier_values() -> None:
    table = Table(frame_of(), **FORECAST)
    n = list(dict.fromkeys(row["shop"] for row in ROWS)).index("north")
    sold = [number(row["sold"]) for row in in_order("north")]
    every = [[number(row["sold"]) for row in in_order(shop)] for shop in ("north", "south, east")]
    for season in (1, 2, 3, 7):
        found = table.naive(season)
        for t, h in itertools.product(range(len(sold)), (1, 2, 3)):
            source = t + h
            while source > t:
                source -= season
            np.testing.assert_equal(found[t, n, h - 1], sold[source] if source >= 0 else math.nan)
        gaps = [abs(b - a) for each in every for a, b in zip(each, each[season:], strict=False)]
        np.testing.assert_allclose(table.naive_error(season), np.nanmean(gaps))


def test_inputs_of_a_forecast() -> None:
    rows = {"shop": ["a", "a", "a", "b", "b", "b"], "x": np.arange(6.0), "y": np.arange(6.0) + 0.5}
    for how, names in (
        ({"horizon": 1}, ["x", "y"]),
        ({"horizon": 1, "inputs": "x"}, ["x", "y"]),  # the past of the target is always known
        ({"horizon": 1, "categories": "shop"}, ["shop = a", "shop = b", "x", "y"]),
        ({"categories": "shop"}, ["shop = a", "shop = b", "x"]),
    ):
        table = Table(rows, targets="y", case="shop", **how)
        assert table.columns.input_names() == names
    with pytest.raises(DataError, match="the column 'x' is no array"):
        Table({"x": [[1, 2], [3]], "y": [1.0, 2.0]}, targets="y")


def test_no_naive_forecast_before_the_first_season() -> None:
    table = Table({"y": np.arange(8.0)}, targets="y", horizon=1)
    assert np.isnan(table.naive(season=11)).all()


def test_forecast_times_follow_the_last_time() -> None:
    for name, (given, after) in {
        "hours": (["2024-02-28T22", "2024-02-28T23"], ["2024-02-29T00", "2024-02-29T01"]),
        "weeks": (["2023-12-18", "2023-12-25"], ["2024-01-01", "2024-01-08"]),
        "months": (["2023-11-15", "2023-12-15", "2024-01-15"], ["2024-02-15", "2024-03-15"]),
        "ends of months": (["2023-12-31", "2024-01-31", "2024-02-29"], ["2024-03-31", "2024-04-30"]),
        "quarters": (["2023-07-01", "2023-10-01", "2024-01-01"], ["2024-04-01", "2024-07-01"]),
        "the 30th": (["2024-11-30", "2024-12-30"], ["2025-01-30", "2025-02-28", "2025-03-30"]),
        "the 31st of some": (["2024-05-31T06", "2024-07-31T06"], ["2024-09-30T06", "2024-11-30T06"]),
        "unequal": (["2024-01-01", "2024-01-02", "2024-01-04"], None),
        "one": (["2024-01-01"], None),
    }.items():
        with case(name):
            times = np.array(given, "M8[us]")
            step = step_between(times)
            assert (step is None) == (after is None)
            if step is not None and after is not None:
                np.testing.assert_array_equal(times_after(times, len(after), step), np.array(after, "M8[us]"))
    assert times_after(np.array([1.0, 3.0]), 2, ("", 2.0)).tolist() == [5, 7]
    assert times_after(np.array([2**63 - 3, 2**63 - 2]), 2, ("", 1)).tolist() == [2**63 - 1, 2**63]
    assert written(np.array([1e15 + 1, 2.0, 0.1 + 0.2])) == ["1000000000000001", "2", "0.3"]


def test_invalid_tables_are_rejected() -> None:
    dates = ["2024-01-01", "2024-01-02", "2024-01-03"]
    y = [1.5, 2.5, 3.5]
    odd: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
        "lists": (
            {"a": [["a"], ["b", "c"], ["d"]], "y": y},
            {"inputs": "a", "targets": "y"},
            "column 'a' is",
        ),
        "structs": (
            {"a": [{"b": 1}] * 3, "y": y},
            {"inputs": "a", "targets": "y"},
            "row 1 of the column 'a' is .*; each cell must be one number",
        ),
        "dates as inputs": (
            {"d": dates, "y": y},
            {"inputs": "d", "targets": "y"},
            "column 'd' holds times; name it as the time",
        ),
        "no dates": (
            {"d": ["5/1", "5/2", "5/3"], "x": y, "y": y},
            {"inputs": "x", "targets": "y", "time": "d"},
            "row 1 .*date format",
        ),
        "a number is missing": (
            {"d": ["0", "1", ""], "x": y, "y": y},
            {"inputs": "x", "targets": "y", "time": "d"},
            "row 3 of the column 'd' is '', but must be a number",
        ),
        "another format": (
            {"d": ["1.2.2024", "2.2.2024", "2/3/2024"], "x": y, "y": y},
            {"inputs": "x", "targets": "y", "time": "d", "date_format": "%d.%m.%Y"},
            "row 3 of the column 'd' is '2/3/2024', but must be %d.%m.%Y",
        ),
        "a time twice": (
            {"d": [dates[0]] * 2 + dates[2:], "x": y, "y": y},
            {"inputs": "x", "targets": "y", "time": "d"},
            "rows 1 and 2",
        ),
        "a hole in times": (
            {"d": [*dates[:2], ""], "x": y, "y": y},
            {"inputs": "x", "targets": "y", "time": "d"},
            "row 3 .*column 'd'",
        ),
        "names": (
            {"x": [f"person {i}" for i in range(30)], "y": y * 10},
            {"inputs": "x", "targets": "y"},
            "'x' has 30 different values in 30 rows",
        ),
        "thousands": (
            {"x": ["1,000", "2,000", "9"], "y": y},
            {"inputs": "x", "targets": "y"},
            "row 1 .*'1,000', which is not a number",
        ),
        "a word among numbers": (
            {"x": ["1", "2", "many"], "y": y},
            {"inputs": "x", "targets": "y"},
            "row 3 .*'many'",
        ),
        "an empty column": (
            {"x": ["", "", ""], "y": y},
            {"inputs": "x", "targets": "y"},
            "column 'x' is empty",
        ),
        "no targets": ({"x": y, "y": ["", "", ""]}, {"inputs": "x", "targets": "y"}, "all targets are empty"),
        "no target of a whole case": (
            {"c": ["a", "a"], "x": [1, 2], "y": [1, ""]},
            {"inputs": "x", "targets": "y", "case": "c", "whole": True},
            "the last rows have no target",
        ),
        "a target of names": (
            {"x": range(60), "k": [f"name {i}" for i in range(60)]},
            {"inputs": "x", "targets": "k"},
            "'k' has 60 different values in 60 rows",
        ),
        "two targets, one of classes": (
            {"x": y, "y": y, "k": ["a", "b", "a"]},
            {"inputs": "x", "targets": ("y", "k")},
            "'k' is a column of categories",
        ),
        "classes far ahead": (
            {"x": y, "k": ["a", "b", "a"]},
            {"inputs": "x", "targets": "k", "horizon": 2},
            "at most horizon 1",
        ),
        "calendar of numbers": (
            {"d": [1, 2, 3], "x": y, "y": y},
            {"inputs": "x", "targets": "y", "time": "d", "calendar": "hour"},
            "need dates",
        ),
        "target alone": ({"y": y}, {"targets": "y"}, "no column is left .*horizon"),
        "an unknown category": (
            {"x": y, "y": y},
            {"inputs": "x", "targets": "y", "categories": "z"},
            "no column 'z'",
        ),
        "an infinite time": (
            {"t": [0, 1, np.inf], "y": y},
            {"targets": "y", "time": "t", "horizon": 1},
            "finite",
        ),
        "two roles": ({"x": y, "y": y}, {"inputs": "x", "targets": "y", "time": "x"}, "only one role"),
    }
    for name, (columns, choice, said) in odd.items():
        with case(name), pytest.raises((DataError, UsageError), match=said):
            _ = Table(columns, **choice).sequences
    for settings, said in (
        ({"calendar": "hour"}, "need the column of the time"),
        ({"calendar": "moon", "time": "d"}, "calendar must be of hour, weekday, day, month"),
        ({"inputs": ("a", "a")}, "different names"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": 1, "whole": True}, "horizon does not apply to cases with one target"),
    ):
        with pytest.raises(UsageError, match=said):
            Table({"a": [1.0, 2.0], "b": [1.0, 2.0], "d": [1.0, 2.0]}, **{"targets": "a", **settings})


def test_irregular_times_are_noted() -> None:
    days = ["2024-01-01", "2024-01-02", "2024-01-05"]
    table = Table({"d": days, "y": [1.5, 2, 3]}, targets="y", time="d", horizon=1)
    (note,) = table.notes
    assert re.fullmatch(
        r"gaps in the column 'd' differ, from 1 day.* to 3 days.* \(before row 3\); each row .*", note
    )
    assert list(table.predictions(np.zeros((3, 1, 1)), "squared")) == ["step", "predicted_y"]  # no next date
    more = {"d": [*days, *days], "c": ["a"] * 3 + ["b"] * 3, "y": [1.5, 2, 3] * 2}
    more["d"][4:] = ["2024-01-04", "2024-01-31"]
    (note,) = Table(more, targets="y", time="d", case="c", horizon=1).notes
    assert re.match(r"gaps in the column 'd' differ, from 1 day.* to 27 days.* \(before row 6\)", note)


def test_forecast_dates_of_cases_with_regular_gaps() -> None:
    """Daily, every second day, of one row, at odd days."""
    days = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-01", "2024-01-03", "2024-01-05"]
    odd = ["2024-01-01", "2024-01-02", "2024-01-09"]
    rows = {"s": list("aaabbcddd"), "d": days + odd, "y": np.arange(9.0)}
    table = Table(rows, targets="y", time="d", case="s", horizon=2)
    found = table.predictions(np.zeros((*table.inputs.shape[:2], 2)), "squared")
    assert found["d"] == ["2024-01-04", "2024-01-05", "2024-01-05", "2024-01-07", None, None, None, None]


def test_dates_in_several_forms() -> None:
    for days, date_format in (
        (["2024-05-01", "2024-05-02"], None),
        (["2024/05/01", "2024/05/02"], None),
        (["20240501", "20240502"], None),
        (["20240501", "2024-05-02"], None),
        (["1.5.2024", "2.5.2024"], "%d.%m.%Y"),
        (np.array(["2024-05-01", "2024-05-02"], "M8[D]"), None),
    ):
        choice = {"targets": "y", "time": "d", "horizon": 1, "date_format": date_format}
        found = Table({"d": days, "y": [1.5, 2]}, **choice).predictions(np.zeros((2, 1, 1)), "squared")
        assert found["d"] == ["2024-05-03" if date_format is None else "03.05.2024"]


def test_columns_are_saved_with_the_model(tmp_path: Path) -> None:
    table = Table(write(tmp_path / "t.csv"), **FORECAST)
    inputs, outputs = len(table.columns.input_names()), len(table.columns.output_names())
    net = rnn.Network(
        [rnn.GRU(4)], inputs, outputs, "squared", scaling=rnn.data.Scaling.of(table.sequences, table.columns)
    )
    net.columns = table.columns
    rnn.save(net, tmp_path / "m.safetensors")
    loaded = rnn.load(tmp_path / "m.safetensors")
    assert isinstance(loaded, rnn.Network)
    assert loaded.columns == table.columns
    with pytest.raises(UsageError, match="1 columns do not fit a network of"):
        net.columns = Columns(("sold",), ("sold",))
    classes, one = {"y": ("u", "v", "w")}, rnn.Network([rnn.GRU(2)], 1, 2, reads="vectors")
    with pytest.raises(UsageError, match="need 3 outputs with the loss 'softmax', but the network has 2"):
        one.columns = Columns(("a",), ("y",), classes)
    pooled = rnn.Network([rnn.GRU(2)], 1, 2, "squared", reads="vectors", pool="last")
    with pytest.raises(UsageError, match="a horizon do not fit a network with one output"):
        pooled.columns = Columns(("a",), ("y",), horizon=2)
    for message, settings in (
        ("several targets; choose one target of categories", {"targets": ("y", "z"), "categories": classes}),
        ("a horizon of more than one row", {"categories": classes, "horizon": 2}),
        ("horizon does not apply to independent rows", {"independent": True, "horizon": 1}),
        ("means must be finite numbers", {"means": {"a": math.nan}}),
    ):
        with pytest.raises(UsageError, match=message):
            Columns(**{"inputs": ("a",), "targets": ("y",), **settings})
    rows = {"a": [1.0, 2.0], "y": [0.5, 1.5], "s": [1, 1]}
    with pytest.raises(UsageError, match="date_format must be a str"):
        Table(rows, inputs="a", targets="y", date_format=3)
    with pytest.raises(UsageError, match="date_format must not have %Z"):
        Table(rows, inputs="a", targets="y", time="s", date_format="%Y-%m-%d %Z")
    with pytest.raises(UsageError, match="inputs must be a list or a tuple, not a set"):
        Table(rows, inputs={"a", "b"}, targets="y")
    model = Columns(("a",), ("y",))
    for settings in ({"inputs": "y"}, {"targets": "a"}, {"horizon": 1}, {"independent": True}):
        fixed = f"{next(iter(settings))} .* is fixed by the columns of the model"
        with pytest.raises(UsageError, match=fixed):
            Table(rows, model, **settings)
    assert Table(rows, model, inputs="a", targets="y").columns == model
    two = rnn.Network([rnn.GRU(2)], 2, 2, reads="vectors")
    two.columns = Columns(("a",), ("y",), {"y": ("u", "v")}, means={"a": np.float32(0.5)})
    rnn.save(two, tmp_path / "two.safetensors")
    assert rnn.load(tmp_path / "two.safetensors").columns == two.columns


def test_forecasts_match_the_outputs_of_the_rows(tmp_path: Path) -> None:
    """Whole cases or segments: the table of forecasts, and the chart's."""
    path = write(tmp_path / "t.csv")
    shops = list(dict.fromkeys(str(row["shop"]) for row in ROWS))
    for pieces in (None, 7):
        table = Table(path, inputs="sold", targets="sold", time="date", case="shop", horizon=3, pieces=pieces)
        outputs = table.inputs[..., :1] + np.arange(3) * 100.0  # of each row, its own value
        found = table.predictions(outputs, "squared")
        assert found["shop"] == [shop for shop in shops for _ in range(3)]
        drawn = table.forecasts(outputs, "squared")
        mean = table.columns.means["sold"]
        for n, shop in enumerate(shops):
            rows = in_order(shop)
            last = datetime.datetime.fromisoformat(rows[-1]["date"])
            assert found["date"][3 * n : 3 * n + 3] == [(last + h * HOUR).isoformat(" ") for h in (1, 2, 3)]
            values = [mean if math.isnan(value := number(row["sold"])) else value for row in rows]
            expected = [values[-1], values[-1] + 100, values[-1] + 200]
            np.testing.assert_allclose(found["predicted_sold"][3 * n : 3 * n + 3], expected, rtol=1e-6)
            np.testing.assert_allclose(drawn[n].predicted, expected, rtol=1e-6)
            np.testing.assert_allclose(drawn[n].earlier, np.array([0, 100, 200]) + values[-4], rtol=1e-6)
            np.testing.assert_array_equal(drawn[n].values, [number(row["sold"]) for row in rows])
        of_cases = np.zeros((len(shops), 3))
        for wrong in (
            outputs[:, :, :2],
            outputs[1:],
            np.repeat(outputs, 2, axis=1),
            of_cases,
            outputs[0, 0],
            None,
        ):
            with pytest.raises(UsageError, match=r"forecasts: outputs must be .* of shape \[.* not "):
                table.forecasts(wrong, "squared")
            with pytest.raises(UsageError, match="predictions: outputs must be those of"):
                table.predictions(wrong, "squared")


def test_last_segments_of_each_series_are_held_out() -> None:
    rows = {"who": ["a"] * 50 + ["b"] * 30 + ["c"] * 20, "x": np.arange(100.0), "y": np.arange(100) + 0.5}
    data = Table(rows, inputs="x", targets="y", case="who", pieces=2).sequences
    net = rnn.Network([rnn.Elman(2)], 1, 1, "squared")
    problem = rnn.Arrays(net, data, valid=0.2, batch=5)
    held = problem._valid
    assert held is not None
    assert sorted(held.inputs[0, :, 0].tolist()) == [40, 42, 44, 46, 48, 74, 76, 78, 96, 98]


def test_held_out_segments_are_the_last_in_any_row_order() -> None:
    x = np.arange(4.0).reshape(1, 4, 1)
    data = rnn.data.Sequences(x, x, series=np.array([0, 1, 0, 1]))
    net = rnn.Network([rnn.GRU(2)], inputs=1, outputs=1, loss="squared")
    problem = rnn.Arrays(net, data, valid=0.5)
    assert problem._train.inputs.ravel().tolist() == [0, 1]


def test_no_training_target_is_in_a_row_of_validation() -> None:
    """Validation uses the last rows of each case; targets of both parts are their own rows."""
    rows = {"who": ["a"] * 30 + ["b"] * 20, "y": np.arange(50.0)}
    for horizon, pieces in ((1, None), (4, None), (4, 7)):
        choice = {"targets": "y", "case": "who", "horizon": horizon, "pieces": pieces}
        train, valid = Table(rows, **choice).split(0.2)
        for part, own in ((train, {*range(24), *range(30, 46)}), (valid, {*range(24, 30), *range(46, 50)})):
            with case(horizon, pieces, len(own)):
                assert {int(value) for value in part.inputs[part.inside()].ravel()} == own
                w = part.target_weights() > 0
                assert {int(value) for value in part.targets[w]} <= own
                steps, cases, ahead = np.nonzero(w)
                now = part.inputs[steps, cases, 0]
                np.testing.assert_array_equal(part.targets[w], now + ahead + 1)
    for share in (0.01, 0.0):
        with pytest.raises(UsageError, match="leaves an empty part"):
            Table(rows, targets="y", case="who", horizon=1).split(share)


def test_table_arguments_are_checked() -> None:
    table = Table({"x": [1.0, 2, 3], "y": [5.0, 6, 7]}, targets="y")
    for call, said in (
        (lambda: Table({"y": [1.0]}, "x"), "columns must be those of a model"),
        (
            lambda: table.predictions(np.zeros((2, 1, 1)), "squared"),
            r"of shape \[3, 1, 1\],.* not \[2, 1, 1\]",
        ),
        (lambda: table.predictions(np.zeros((3, 1, 1)), "softmax"), "loss must be 'squared' or 'sigmoid'"),
    ):
        with case(said), pytest.raises(UsageError, match=said):
            call()  # type: ignore[no-untyped-call]


def test_targets_without_training_values_are_rejected() -> None:
    """Its predictions would be arbitrary."""
    table = Table({"y": np.arange(60.0)}, targets="y", horizon=60)
    with pytest.raises(DataError, match=r"no training row has a value of y \+54, .* smaller horizon"):
        table.split(0.1)
    y = np.arange(10.0)
    empty = Table({"x": y, "a": y, "b": [""] * 10}, inputs="x", targets=("a", "b"))
    with pytest.raises(DataError, match="no training row has a value of b"):
        empty.split(0.1)


def test_a_case_too_short_to_validate_is_trained_on_as_a_whole() -> None:
    """One row in the validation part would have no known target."""
    columns = {"c": ["p"] * 14 + ["q"] * 40, "y": np.arange(54.0)}
    train, valid = Table(columns, targets="y", case="c", horizon=1).split(0.1)
    assert train.lengths is not None
    assert (train.lengths.tolist(), valid.inputs.ravel().tolist()) == ([14, 36], [50, 51, 52, 53])


def test_validation_without_targets_is_rejected() -> None:
    x, y = np.arange(40.0), [*range(30), *[""] * 10]
    weights = np.repeat([1.0, 0.0], 20)
    for columns, choice in (
        ({"x": x, "y": y}, {"horizon": 1}),
        ({"x": x, "y": y}, {"pieces": 5}),
        ({"x": x, "y": x, "w": weights}, {"weights": "w", "horizon": 1}),
    ):
        with case(choice), pytest.raises(DataError, match="the validation rows have no target"):
            Table(columns, inputs="x", targets="y", **choice).split(0.2)


def test_bytes_are_read_as_text(tmp_path: Path) -> None:
    kinds = np.array(["sun", "räin", "sun"], object)
    for cells in (
        np.char.encode(kinds.astype(str), "utf-8"),
        np.array([kind.encode() for kind in kinds], object),
    ):
        table = Table({"x": np.array([b"1", b"2", b"5"]), "y": cells}, targets="y")
        assert (table.inputs.ravel().tolist(), table.columns.classes) == ([1, 2, 5], ("räin", "sun"))
    other = {"x": [1.0, 2, 3], "y": [b"a", b"\xff", b"a"]}
    pyarrow.parquet.write_table(pyarrow.table(other), tmp_path / "t.parquet")
    for source in (other, tmp_path / "t.parquet"):
        assert Table(source, targets="y").columns.classes == (r"\xff", "a")


def test_weights_come_from_the_predicted_rows() -> None:
    rows = {"y": [1.5, 2, 3, 4], "w": [0, 1, 2, 0]}
    data = Table(rows, inputs="y", targets="y", weights="w", horizon=2).sequences
    assert data.weights is not None
    np.testing.assert_array_equal(data.weights[:, 0], [[1, 2], [2, 0], [0, 0], [0, 0]])


def test_case_column_may_be_an_input() -> None:
    rows = {"who": ["a", "b", "a"], "x": [1.5, 2, 3], "y": [1.5, 2, 3]}
    table = Table(rows, inputs=("x", "who"), targets="y", case="who")
    assert table.columns.input_names() == ["x", "who = a", "who = b"]
    np.testing.assert_array_equal(table.inputs[:, 0], [[1.5, 1, 0], [3, 1, 0]])


def test_times_with_zones_are_converted_to_utc(tmp_path: Path) -> None:
    days = ["2024-07-01T01:00+02:00", "2024-07-01T02:00+02:00", "2024-06-30T21:00-04:00"]
    times = [datetime.datetime.fromisoformat(day) for day in days]
    for unit in ("s", "us", "ns"):
        column = pyarrow.array(times, pyarrow.timestamp(unit, "America/New_York"))
        pyarrow.parquet.write_table(
            pyarrow.table({"d": column, "y": [1.5, 2, 3]}), tmp_path / f"{unit}.parquet"
        )
    files = [tmp_path / f"{unit}.parquet" for unit in ("s", "us", "ns")]
    for source in ({"d": days, "y": [1.5, 2, 3]}, {"d": times, "y": [1.5, 2, 3]}, *files):
        with case(source):
            table = Table(source, targets="y", time="d", horizon=1)
            assert table.notes == ["times of the column 'd' are read as UTC"]
            assert table.predictions(np.zeros((3, 1, 1)), "squared")["d"] == ["2024-07-01 02:00:00+00:00"]
    zone = {"targets": "y", "time": "d", "horizon": 1, "date_format": "%d.%m.%Y %H:%M %z"}
    found = Table({"d": ["01.07.2024 01:00 +0200", "01.07.2024 02:00 +0200"], "y": [1.5, 2]}, **zone)
    assert found.predictions(np.zeros((2, 1, 1)), "squared")["d"] == ["01.07.2024 01:00 +0000"]


def test_negative_zero_is_the_case_and_the_category_0() -> None:
    table = {"a": np.array([0.0, -0.0, 1.0, 1.0]), "b": [1.0, 2.0, 3.0, 4.0], "y": [1.5, 2.5, 3.5, 4.5]}
    assert Table(table, targets="y", case="a").inputs.shape == (2, 2, 1)
    assert Table(table, targets="y", categories="a").columns.input_names() == ["a = 0", "a = 1", "b"]


def test_names_of_the_table_are_kept_in_predictions() -> None:
    rows = {"step": ["A", "A", "B", "B"], "y": [1.5, 2, 3, 4]}
    found = Table(rows, targets="y", case="step", horizon=1).predictions(np.zeros((2, 2, 1)), "squared")
    assert (found["step"], found["step_ahead"]) == (["A", "B"], [1, 1])
    table = Table(
        {"predicted_y": ["A", "A"], "x": [1.5, 2], "y": [1.5, 2]}, inputs="x", targets="y", case="predicted_y"
    )
    with pytest.raises(UsageError, match="rename it in the table"):
        table.predictions(np.zeros((2, 1, 1)), "squared")


def test_forecasts_of_zeros_and_ones_are_probabilities() -> None:
    table = Table({"open": [0.0, 1, 1, 0]}, targets="open", horizon=1)
    logits = np.array([-2.0, 0, 1, 3]).reshape(4, 1, 1)
    (drawn,) = table.forecasts(logits, "sigmoid")
    np.testing.assert_allclose([*drawn.earlier, *drawn.predicted], 1 / (1 + np.exp([-1.0, -3.0])))
    assert table.predictions(logits, "sigmoid")["predicted_open"] == pytest.approx(drawn.predicted)


def test_classes_are_not_taken_for_numbers() -> None:
    table = Table({"x": [1.0, 2, 3], "sky": ["sun", "rain", "snow"]}, targets="sky")
    for loss in ("sigmoid", "squared"):
        with pytest.raises(UsageError, match=f"loss {loss}: the target 'sky' holds classes, not numbers"):
            table.predictions(np.zeros((3, 1, 1)), loss)
    with pytest.raises(UsageError, match="targets that are numbers, not classes"):
        table.naive_error()


def test_a_parquet_file_is_read_in_one_thread(tmp_path: Path) -> None:
    """Threads of pyarrow abort a process that ends with an error while they start."""
    rows = pyarrow.table({name: np.arange(1000.0) for name in "abcdefgh"})
    pyarrow.parquet.write_table(rows, tmp_path / "t.parquet")
    program = """
import pyarrow.parquet, sys
from pathlib import Path
from graphnet_rnn.data import Table
def threads():
    names = [(each / "comm").read_text() for each in Path("/proc/self/task").iterdir()]
    return sum(not name.startswith("jemalloc") for name in names)  # of the allocator
before = threads()
Table(sys.argv[1], targets="a")
print(threads() - before)
"""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("this system does not list threads")
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "t.parquet")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "0"


def test_single_row_cases_use_the_time_step_of_other_cases() -> None:
    rows = {"c": ["a", "a", "b"], "d": ["2024-01-01", "2024-01-03", "2024-01-05"], "y": [1.5, 2, 3]}
    table = Table(rows, targets="y", time="d", case="c", horizon=2)
    found = table.predictions(np.zeros((2, 2, 2)), "squared")
    assert found["d"] == ["2024-01-05", "2024-01-07", "2024-01-07", "2024-01-09"]
    late = Table({"d": ["9000-01-01", "9999-01-01"], "y": [1.5, 2]}, targets="y", time="d", horizon=1)
    assert late.predictions(np.zeros((2, 1, 1)), "squared")["d"][0].startswith("10998-01-01")


def test_masked_and_complex_columns_are_rejected() -> None:
    with pytest.raises(GraphnetError, match=r"column 'a'.*masked array"):
        Table({"a": np.ma.masked_array([1.0, 2], [0, 1]), "y": [1.5, 2]}, inputs="a", targets="y")
    with pytest.raises(DataError, match="column 'a' must be real numbers"):
        Table({"a": np.array([1j, 2]), "y": [1.5, 2]}, inputs="a", targets="y")


def test_independent_rows_are_cases_of_one_step() -> None:
    """Shuffled rows with equal times: inputs, targets, weights, predictions row by row, and a random split."""
    own = [{**row, "weight": str(1 + n % 3)} for n, row in enumerate(ROWS)]
    choice = {
        "targets": "warmth",
        "inputs": ("open",),
        "time": "date",
        "calendar": "hour",
        "weights": "weight",
        "independent": True,
    }
    table = Table(frame_of(own), **choice)
    hours = np.array([int(row["date"][11:13]) for row in ROWS]) / 24
    x = [
        [
            row["open"] == "no",
            row["open"] == "yes",
            math.sin(2 * math.pi * hour),
            math.cos(2 * math.pi * hour),
        ]
        for row, hour in zip(ROWS, hours, strict=True)
    ]
    np.testing.assert_allclose(table.inputs, np.array([x], "f4"), atol=1e-6)
    assert table.lengths is None
    assert table.sequences.series is None
    warmth = np.array([number(row["warmth"]) for row in ROWS])
    np.testing.assert_array_equal(table.sequences.targets[0, :, 0], np.nan_to_num(warmth))
    expected = np.where(np.isnan(warmth), 0, 1 + np.arange(len(ROWS)) % 3)
    np.testing.assert_array_equal(table.sequences.target_weights().ravel(), expected)

    found = table.predictions(np.arange(len(ROWS))[None, :, None] * 1.0, "squared")
    assert found["date"] == [row["date"] for row in ROWS]
    assert found["row"] == list(range(1, len(ROWS) + 1))
    assert found["predicted_warmth"] == list(range(len(ROWS)))

    numbered = Table({"a": np.arange(50), "b": np.arange(50) * 2.0}, targets="b", independent=True)
    train, valid = numbered.split(0.2)
    np.testing.assert_array_equal(train.targets, 2 * train.inputs)
    both = [part.inputs.ravel().astype(int).tolist() for part in (train, valid)]
    assert sorted(both[0] + both[1]) == list(range(50))
    assert len(both[1]) == 10
    assert max(both[1]) - min(both[1]) > 20
    assert valid.inputs.shape == (1, 10, 1)
    for other in ({"horizon": 1}, {"pieces": 4}, {"whole": True}):
        with pytest.raises(UsageError, match="independent rows"):
            Table({"a": [1, 2], "b": [1, 2]}, targets="b", independent=True, **other)


def test_commas_separate_names() -> None:
    rows = {"price, EUR": [1.0, 2], "a": [1.0, 2], "b": [1.0, 2], "t": ["2024-01-01", "2024-01-02"]}
    one = Table(rows, targets="a, b", time="t", calendar="hour,weekday").columns
    assert one == Table(rows, targets=("a", "b"), time="t", calendar=["hour", "weekday"]).columns
    assert Table(rows, inputs=["price, EUR"], targets="a").columns.inputs == ("price, EUR",)


def test_training_and_validation_may_differ_in_time_steps() -> None:
    """Without pieces, each loss is the mean over its part."""
    t = np.arange(40.0)
    train, valid = Table({"t": t, "y": t % 3}, inputs="t", targets="y").split(0.25)
    assert [part.inputs.shape for part in (train, valid)] == [(30, 1, 1), (10, 1, 1)]
    net = rnn.Network([rnn.Elman(2)], 1, 1, loss="squared", dtype="float64")
    problem = rnn.Arrays(net, train, valid=valid)
    outputs = [rnn.run(net, part.inputs)[0] for part in (train, valid)]
    expected = [((o - part.targets) ** 2).mean() for o, part in zip(outputs, (train, valid), strict=True)]
    assert [problem.feed(0, 0).loss(net.theta), problem.validate()] == pytest.approx(expected)


def test_integers_beside_nulls_are_exact(tmp_path: Path) -> None:
    ids = [2**53 + 1, 2**53, 2**53 + 1, None]
    for kind, shift in (("int64", 0), ("uint64", 2**63)):
        column = pyarrow.array([None if n is None else n + shift for n in ids], kind)
        pyarrow.parquet.write_table(
            pyarrow.table({"id": column, "n": [1, None, 3, 4]}), tmp_path / "a.parquet"
        )
        with case(kind):
            table = Table(tmp_path / "a.parquet", inputs="n", targets="id", categories="id")
            assert table.sequences.targets[:3].ravel().tolist() == [1, 0, 1]
            assert table.sequences.target_weights().ravel().tolist() == [1, 1, 1, 0]
            assert table.inputs[:, 0, 0].tolist() == [1, pytest.approx(8 / 3), 3, 4]


def test_times_are_exact() -> None:
    """Integers have more digits than float64; dates are in microseconds."""
    start = 1_700_000_000_000_000_123
    choice = {"targets": "y", "time": "t", "horizon": 2}
    for times, kind in ((np.arange(4) * 100 + start, int), ([str(start + 100 * k) for k in range(4)], str)):
        table = Table({"t": times, "y": [1.0, 2, 3, 4]}, **choice)
        after = table.predictions(np.zeros((4, 1, 2)), "squared")["t"]
        assert after == [kind(start + 400), kind(start + 500)]
    fractions = Table({"t": [0.1, 0.2, 0.3], "y": [1.0, 2, 3]}, **choice)
    assert fractions.predictions(np.zeros((3, 1, 2)), "squared")["t"] == [0.4, 0.5]
    dates = ["2024-01-01", "2024-01-01T00:00:00.000000001", "2024-01-02"]
    for given in (dates, np.array(dates, "M8[ns]")):
        with pytest.raises(DataError, match=r"row 2 of the column 't' is .* whole microseconds; round them"):
            Table({"t": given, "y": [1.0, 2, 3]}, **choice)
    with pytest.raises(DataError, match=r"row 2 of the column 't' is .* less than 2\^63"):
        Table({"t": np.array([2**63 - 1, 2**63 + 1], "uint64"), "y": [1.0, 2]}, **choice)
    with pytest.raises(DataError, match=r"row 1 of the column 't' is .* less than 2\^63"):
        Table({"t": [str(2**63), "-1"], "y": [1.0, 2]}, **choice)
    with pytest.raises(DataError, match="row 2 of the column 't' is '', but must be a number"):
        Table({"t": ["1720000000.1234567", ""], "y": [1.0, 2]}, **choice)


def test_large_integers_of_lists_are_exact() -> None:
    rows = {"id": [2**63 + 1, 2**63 + 2, -1, -1], "y": [1.0, 2, 3, 4]}
    table = Table(rows, targets="y", case="id", horizon=1)
    assert table.predictions(table.inputs * 0, "squared")["id"] == [2**63 + 1, 2**63 + 2, -1]


def test_a_model_reads_dates_in_another_format() -> None:
    iso, german = ["2024-01-30", "2024-01-31", "2024-02-01"], ["30.01.2024", "31.01.2024", "01.02.2024"]
    trained = Table({"d": iso, "y": [1.0, 2.0, 3.0]}, targets="y", time="d", horizon=1, calendar="weekday")
    other = Table({"d": german, "y": [1.0, 2.0, 3.0]}, trained.columns, date_format="%d.%m.%Y")
    np.testing.assert_array_equal(other.inputs, trained.inputs)
    assert other.predictions(np.zeros((3, 1, 1)), "squared")["d"] == ["02.02.2024"]


def test_empty_cells_of_categories_are_counted() -> None:
    table = Table({"x": ["a", "", "b"], "y": [1.0, 2.0, 3.0]}, targets="y")
    np.testing.assert_array_equal(table.inputs[:, 0], [[1, 0], [0, 0], [0, 1]])
    assert "1 cells of the column 'x' are empty; its inputs are 0" in table.notes


def test_words_for_empty_targets_are_named() -> None:
    columns = {"x": [1.0, 2.0, 3.0, 4.0], "y": ["None", "mild", "", "NA"]}
    table = Table(columns, targets="y")
    assert table.columns.classes == ("mild",)
    assert any("column 'y' are empty ('NA', 'None'): no targets" in note for note in table.notes)
    missing = Table({**columns, "y": np.array([None, "mild", "", np.nan], object)}, targets="y")
    assert not any("'y'" in note for note in missing.notes), "no words"
    days = Table({"day": [1.0, 2.0], "y": ["a", "b"]}, targets="y")
    assert Table({"day": [1.0, 2.0]}, days.columns).inputs.shape == (2, 1, 1)
