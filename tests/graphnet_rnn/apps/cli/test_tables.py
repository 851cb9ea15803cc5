"""Tables with dates, categories and empty cells from the command line: train, evaluate, predict."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.apps.cli import main
from tests.graphnet_rnn.data.test_table import in_order, write
from tests.graphnet_rnn.training.runs import rows

SMALL = ["--cell", "GRU(4)", "--epochs", "2", "--batch", "4", "--pieces", "8"]
MODEL = "run/model.safetensors"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("sales.csv"))


def table(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_forecast_by_the_command_line(capsys: Any) -> None:
    how = (
        "--target sold --time-column date --case shop --horizon 3 --calendar hour,weekday --metrics mae,rmse"
    )
    assert main(["train", "sales.csv", *how.split(), *SMALL, "--out", "run"]) == 0
    said = capsys.readouterr().out
    assert "sales.csv: rows are sorted by the column 'date'\n" in said
    assert "predict run/model.safetensors sales.csv --out new.csv" in said
    network = rnn.load(MODEL)
    whole = rnn.data.Table("sales.csv", network.columns)
    outputs = rnn.run(network, whole.inputs, lengths=whole.lengths)[0]
    data = whole.sequences
    errors = np.where(data.target_weights() > 0, outputs - data.targets, np.nan)
    assert main(["evaluate", MODEL, "sales.csv", "--season", "2"]) == 0
    said = capsys.readouterr().out
    lines = {line[:20].strip(): line[20:].split() for line in said.splitlines()[-4:]}
    assert list(lines) == ["forecast", "network", "last value", "value 2 rows before"]
    both = np.isnan(whole.naive(1)) | np.isnan(whole.naive(2)) | np.isnan(errors)
    for name, predicted in (
        ("network", outputs),
        ("last value", whole.naive()),
        ("value 2 rows before", whole.naive(2)),
    ):
        error = np.where(both, np.nan, predicted - data.targets)
        expected = (
            np.nanmean(abs(error)),
            np.sqrt(np.nanmean(error**2)),
            np.nanmean(abs(error)) / whole.naive_error(2)[0],
        )
        assert lines[name] == [f"{value:.4g}" for value in expected]
    assert main(["predict", MODEL, "sales.csv", "--out", "next.csv", "--chart", "next.svg"]) == 0
    assert Path("next.svg").exists()
    assert [row["predicted_sold"] for row in table("next.csv")] == [
        str(value) for value in whole.predictions(outputs, "squared")["predicted_sold"]
    ]
    assert main(["predict", MODEL, "sales.csv", "--out", "next.csv"]) == 0  # overwrites its own file
    assert main(["predict", MODEL, "sales.csv", "--out", "sales.csv"]) == 2
    for _ in range(2):  # overwrites its own file
        assert main(["predict", MODEL, "sales.csv", "--out", "next.parquet"]) == 0
    assert [
        {name: str(value) for name, value in row.items()} for row in pq.read_table("next.parquet").to_pylist()
    ] == table("next.csv")
    pq.write_table(pq.read_table("next.parquet").replace_schema_metadata(None), "own.parquet")
    assert main(["predict", MODEL, "sales.csv", "--out", "own.parquet"]) == 2


def test_validation_and_evaluation_of_a_table_agree(capsys: Any) -> None:
    """The loss and all metrics, with empty targets: the rows of a run, and `evaluate` on the same rows."""
    write(Path("valid.csv"), in_order("north"))
    how = ["--target", "sold", "--time-column", "date", "--case", "shop", "--horizon", "3"]
    train = ["train", "sales.csv", "--valid", "valid.csv", *how, "--metrics", "mae,rmse"]
    assert main([*train, *SMALL[:-2], "--quiet", "--out", "run"]) == 0
    best = min(rows(Path("run"), "epoch"), key=lambda row: row["valid_loss"])
    capsys.readouterr()
    assert main(["evaluate", MODEL, "valid.csv"]) == 0
    said = capsys.readouterr().out
    metrics = best["metrics"]
    assert f"{best['valid_loss']:.4f} standardized squared error a step" in said
    assert not said.splitlines()[-3].startswith("network") or f" {metrics['mae']:.3g}" in said


def test_classes_by_the_command_line(capsys: Any) -> None:
    write(Path("valid.csv"), in_order("north"))
    how = [
        "--target",
        "sky",
        "--inputs",
        "warmth,open",
        "--case",
        "shop",
        "--time-column",
        "date",
        "--metrics",
        "f1",
    ]
    train = ["train", "sales.csv", "--valid", "valid.csv", *how, "--balanced", *SMALL[:-2], "--out", "run"]
    assert main(train) == 0
    best = min(rows(Path("run"), "epoch"), key=lambda row: row["valid_loss"])
    capsys.readouterr()
    assert main(["evaluate", MODEL, "valid.csv"]) == 0
    said = capsys.readouterr().out
    assert main(["predict", MODEL, "valid.csv", "--out", "p.csv"]) == 0
    found = [
        (true["sky"], row["predicted_sky"])
        for true, row in zip(in_order("north"), table("p.csv"), strict=True)
    ]
    found = [pair for pair in found if pair[0]]
    scores = []
    for name in ("rain", "snow", "sun"):
        right = sum(pair == (name, name) for pair in found)
        of = sum((true == name) + (predicted == name) for true, predicted in found)
        scores += [2 * right / of] if of else []
        row = next(line for line in said.splitlines() if line.startswith(name))
        counts = [sum(pair == (name, other) for pair in found) for other in ("rain", "snow", "sun")]
        assert row.split()[1:] == [str(count) for count in counts]
    assert f"F1 score {np.mean(scores):.4f}" in said
    assert best["metrics"]["f1"] == pytest.approx(np.mean(scores))
    assert f"{best['valid_loss']:.4f} nats a step" in said  # validation is not weighted by classes


def test_balanced_classes_have_equal_weight_in_training() -> None:
    x = np.zeros((1, 12, 1), "f4")
    np.savez("d.npz", x=x, y=np.array([[0] * 9 + [1] * 3]))
    how = [
        "--cell",
        "GRU(2)",
        "--batch",
        "12",
        "--steps",
        "1",
        "--rate",
        "1e-9",
        "--quiet",
        "--valid",
        "d.npz",
    ]
    for folder, more, expected in (("plain", [], [10 / 14, 4 / 14]), ("equal", ["--balanced"], [0.5, 0.5])):
        assert main(["train", "d.npz", *how, *more, "--out", folder]) == 0
        bias = rnn.load(f"{folder}/model.safetensors").parameters["output.b_o"].value
        np.testing.assert_allclose(np.exp(bias) / np.exp(bias).sum(), expected, rtol=1e-5)


def test_classes_without_a_scored_target_are_outputs(capsys: Any) -> None:
    """Only the last row of a case is scored, so the class c is never a target."""
    rows = [
        f"{case},{step},{'c' if step == 0 else 'ab'[case % 2]}" for case in range(12) for step in range(3)
    ]
    Path("t.csv").write_text("\n".join(["case,x,y", *rows]), encoding="utf-8")
    how = [
        "--case",
        "case",
        "--inputs",
        "x",
        "--target",
        "y",
        "--pool",
        "last",
        "--units",
        "2",
        "--epochs",
        "1",
    ]
    assert main(["train", "t.csv", *how, "--out", "run"]) == 0
    assert rnn.load("run/model.safetensors").outputs == 3
    assert main(["evaluate", "run/model.safetensors", "t.csv"]) == 0


def test_last_tenth_of_a_long_table_is_used_for_validation(capsys: Any) -> None:
    x = np.random.default_rng(0).normal(size=720)
    lines = [f"{'ab'[i % 2]},{i},{value},{value > 0}" for i, value in enumerate(x)]
    Path("t.csv").write_text("\n".join(["who,hour,x,y", *lines]), encoding="utf-8")
    how = ["--case", "who", "--time-column", "hour", "--target", "y", "--cell", "GRU(2)", "--epochs", "1"]
    assert main(["train", "t.csv", *how, "--categories", "who", "--balanced", "--out", "run"]) == 0
    said = capsys.readouterr().out
    assert "predicts y from who (2 categories), x" in said
    assert "8 segments of 648 time steps to train on, 2 segments of 72 time steps to validate" in said


def test_independent_rows_by_the_command_line(capsys: Any) -> None:
    """Equal times in a table without cases; the model stores that rows are independent."""
    how = ["--target", "open", "--inputs", "sky,warmth", "--time-column", "date", "--calendar", "hour"]
    assert main(["train", "sales.csv", *how, "--out", "run"]) == 1
    assert "add --independent-rows if rows do not depend on each other" in capsys.readouterr().err
    few = ["--units", "4", "--epochs", "1", "--out", "run"]
    assert main(["train", "sales.csv", *how, "--independent-rows", *few]) == 0
    said = capsys.readouterr().out
    assert "45 cases to train on, 5 cases to validate" in said
    assert "Network([Dense(units=4" in said
    assert main(["evaluate", MODEL, "sales.csv"]) == 0
    said = capsys.readouterr().out
    assert main(["predict", MODEL, "sales.csv", "--out", "p.csv"]) == 0
    written, true = table("p.csv"), table("sales.csv")
    assert [row["date"] for row in written] == [row["date"] for row in true]
    pairs = [(a["open"], b["predicted_open"]) for a, b in zip(true, written, strict=True)]
    for name in ("no", "yes"):
        right, of, guessed = (
            pairs.count((name, name)),
            sum(a == name for a, _ in pairs),
            sum(b == name for _, b in pairs),
        )
        scores = [right / guessed if guessed else None, right / of, 2 * right / (of + guessed)]
        line = next(line for line in said.splitlines()[-2:] if line.startswith(name))
        assert line.split()[1:] == ["-" if score is None else f"{score:.4f}" for score in scores]
    assert main(["evaluate", MODEL, "sales.csv", "--horizon", "2"]) == 2
    assert main(["predict", MODEL, "sales.csv", "--out", "p.csv", "--pieces", "2"]) == 2


def test_true_and_false_may_be_numbers() -> None:
    write(Path("b.csv"), [{"x": str(i), "y": ("FALSE", "TRUE")[i % 2]} for i in range(40)])
    for loss in ("sigmoid", "squared"):
        how = f"--target y --loss {loss} --independent-rows --epochs 1 --quiet --out {loss}"
        assert main(["train", "b.csv", *how.split()]) == 0
        assert main(["predict", f"{loss}/model.safetensors", "b.csv", "--out", "p.csv"]) == 0
        assert list(table("p.csv")[0]) == ["row", "predicted_y"]


def test_forecasts_of_classes_have_no_chart_and_no_season(capsys: Any) -> None:
    how = "--target open --inputs warmth --time-column date --case shop --horizon 1"
    assert main(["train", "sales.csv", *how.split(), *SMALL, "--quiet", "--out", "run"]) == 0
    for command, said in (
        (f"evaluate {MODEL} sales.csv --season 3", "--season applies only to forecasts of numbers"),
        (f"predict {MODEL} sales.csv --out p.csv --chart p.svg", "--chart shows forecasts of numbers"),
    ):
        assert main(command.split()) == 2
        assert said in capsys.readouterr().err
    assert not Path("p.csv").exists()


def test_a_target_with_as_many_classes_as_rows(capsys: Any) -> None:
    write(Path("n.csv"), [{"x": str(i), "z": str(i + 0.5), "name": f"name {i}"} for i in range(40)])
    how = "train n.csv --independent-rows --epochs 1 --quiet"
    for choice, said in (
        ("--inputs x --target z --loss softmax", "the target 'z' has 40 different values in 40 rows"),
        ("--inputs x --target name", "the column 'name' has 40 different values in 40 rows"),
    ):
        assert main(f"{how} {choice} --out new".split()) in (1, 2)
        assert said in capsys.readouterr().err
    assert main(f"{how} --inputs x --target name --categories name --out named".split()) == 0
    assert main(f"{how} --inputs z --target x --loss softmax --out whole".split()) == 0


def test_a_model_of_many_classes_continues_on_few_rows() -> None:
    rows = [{"x": str(i / 7), "name": f"name {i % 30}"} for i in range(200)]
    write(Path("many.csv"), rows)
    write(Path("few.csv"), rows[:40])
    how = "--independent-rows --epochs 1 --quiet"
    assert main(f"train many.csv --target name {how} --out many".split()) == 0
    assert main(f"train few.csv --start many/model.safetensors {how} --out few".split()) == 0


def test_inapplicable_options_are_rejected(capsys: Any) -> None:
    np.savez("d.npz", x=np.zeros((3, 4, 1)), y=np.zeros((3, 4, 1)))
    forecast = "train sales.csv --target sold --time-column date --case shop --horizon 2"
    for command, said in (
        (
            "train sales.csv --target sold --inputs warmth",
            "'sold' has whole numbers; add --loss softmax if they are",
        ),
        (
            "train sales.csv --target sold",
            "'date' holds times; name it as the time of the rows (--time-column)",
        ),
        (
            "train sales.csv --target sold --inputs warmth --loss squared --balanced",
            "balanced applies to classes",
        ),
        ("train d.npz --horizon 2", "horizon applies only to tables, not to d.npz"),
        ("train d.npz --calendar hour", "calendar applies only to tables, not to d.npz"),
        (f"{forecast} --pieces 5 --metrics f1", "names of metrics of Arrays (mae"),
    ):
        assert main([*command.split(), "--out", "new"]) in (1, 2)
        assert said in capsys.readouterr().err
    assert main(["train", "d.npz", "--cell", "GRU(2)", "--epochs", "1", "--quiet", "--out", "run"]) == 0
    for command, said in (
        (f"evaluate {MODEL} d.npz --season 2", "--season applies only to forecasts of numbers in tables"),
        (f"predict {MODEL} d.npz --out p.csv --chart p.svg", "--chart shows forecasts of numbers in tables"),
    ):
        assert main(command.split()) == 2
        assert said in capsys.readouterr().err


def test_pooled_models_read_as_many_cases_as_rows_and_targets(capsys: Any) -> None:
    """Targets of whole cases, also where their shape is that of targets of time steps."""
    rows = [{"c": str(i // 2), "a": str(i / 7), "y": str(i / 3), "z": str(-i)} for i in range(40)]
    write(Path("many.csv"), rows)
    for name, count, targets in (("one.csv", 1, "y"), ("square.csv", 4, "y,z")):
        write(Path(name), rows[:count])
        how = f"--case c --target {targets} --pool last --units 2 --epochs 1 --quiet --out {targets}"
        assert main(["train", "many.csv", "--valid", name, *how.split()]) == 0
        model = f"{targets}/model.safetensors"
        assert main(["predict", model, name, "--out", "p.csv"]) == 0
        wrong = [
            abs(float(row[f"predicted_{t}"]) - float(rows[2 * n + (count > 1)][t]))
            for n, row in enumerate(table("p.csv")[0:2])
            for t in targets.split(",")
        ]
        capsys.readouterr()
        assert main(["evaluate", model, name]) == 0
        assert f"MAE {np.mean(wrong):.4g}," in capsys.readouterr().out
    np.savez("one.npz", x=np.full((1, 1, 2), 0.1), y=np.ones((1, 1)))
    assert main(["evaluate", "y/model.safetensors", "one.npz"]) == 0


def test_validation_rows_do_not_change_training(capsys: Any) -> None:
    """For forecasts: other values in the last tenth of each case give the same training loss."""
    first = []
    for folder, factor in (("one", 1), ("two", 100)):
        changed = []
        for shop in ("south, east", "north"):
            rows_of = in_order(shop)
            held = len(rows_of) - round(0.1 * len(rows_of))
            changed += [
                {**row, "sold": str((factor if i >= held else 1) * (i % 5 + 1))}
                for i, row in enumerate(rows_of)
            ]
        write(Path("s.csv"), changed)
        how = "--target sold --inputs sold --time-column date --case shop --horizon 3 --no-scaling --steps 2"
        assert main(["train", "s.csv", *how.split(), *SMALL, "--quiet", "--out", folder]) == 0
        first.append(rows(Path(folder), "epoch")[0]["train_loss"])
    assert first[0] == first[1]


def test_a_continued_model_may_have_another_case(capsys: Any) -> None:
    """Its other columns are fixed; --valid, --resume and evaluate take the same options."""
    rows = [f"{k % 2},{k % 3},{k / 7:.3f},{k % 5}" for k in range(24)]
    Path("all.csv").write_text("\n".join(["shop,city,temp,y", *rows]), encoding="utf-8")
    options = "--inputs temp --epochs 1 --cell GRU(2) --quiet"
    assert (
        main(f"train all.csv --out k --target y --horizon 1 --case shop --categories shop {options}".split())
        == 0
    )
    start = "--start k/model.safetensors --case city --inputs temp --epochs 1 --quiet"
    assert main(f"train all.csv --out k2 --valid all.csv {start}".split()) == 0
    assert rnn.load("k2/model.safetensors").columns.case == "city"
    assert main(["train", "--resume", "k2", "--epochs", "2", "--quiet"]) == 0
    assert main(["evaluate", "k2/model.safetensors", "all.csv", "--inputs", "temp"]) == 0
    assert "3 cases" in capsys.readouterr().out
