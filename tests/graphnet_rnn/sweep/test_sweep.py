"""Sweeps: each run is the one that `train` makes, kills lose nothing, failures stop nobody, the worst are cut."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import distributed
import joblib
import numpy as np
import optuna
import pytest

from graphnet.system.json_lines import read_rows
from graphnet_rnn.cli import main
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.sweep import Between, Book, Halving, Optuna, Recipe, Sweep, Values
from graphnet_rnn.sweep.baker import _cores
from graphnet_rnn.sweep.program import settings_of_train
from graphnet_rnn.sweep.report import report
from graphnet_rnn.sweep.tuner import Tuner
from tests.graphnet_rnn.sweep.conftest import TEXT
from tests.graphnet_rnn.sweep.inside import Endless, Inside
from tests.tables import case

SMALL: dict[str, Any] = {"time": 10, "batch": 4, "sample": 0, "no_early_stopping": True}


def recipe(text: str, epochs: int = 2, **more: Any) -> Recipe:
    given = {"units": Values((4, 8)), **SMALL, "epochs": epochs, **more.pop("settings", {})}
    return Recipe(text, given, **more)


def rows(folder: Path) -> dict[str, bytes]:
    """What each run left that is the same whenever it was made."""
    kept = ("history.jsonl", "model.safetensors")
    return {
        f"{p.parent.parent.name}/{p.name}": p.read_bytes() for p in folder.glob("*/run/*") if p.name in kept
    }


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_sweep_is_the_runs_that_train_makes(text: str, tmp_path: Path) -> None:
    """In processes of their own; all others here train in that of the tests."""
    wanted = recipe(text, settings={"units": 4, "cell": Values(("GRU", "Nonsense"))})
    sweep = Sweep(wanted, tmp_path / "sweep")
    seen: list[str] = []
    sweep.run(lambda entry: seen.append(f"{entry.name} {entry.state}"))
    assert {entry.name: entry.state for entry in sweep.book.look()} == {"0000-0": "done", "0001-0": "failed"}
    made, failed = sweep.book.entries
    assert "Nonsense" in failed.sentence
    assert "\n" not in failed.sentence
    assert "0001-0 failed" in seen
    assert main(sweep.recipe.command(made.settings, 0, tmp_path / "alone")) == 0
    for name in ("history.jsonl", "model.safetensors"):
        assert (made.run / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    ((best, mean, error, _, _),) = sweep.book.best()
    assert mean == made.best == min(made.values)
    assert math.isnan(error)
    assert best["cell"] == "GRU"
    before = rows(tmp_path / "sweep")
    assert Book(None, tmp_path / "sweep").unit == sweep.book.unit == "bits/char"
    Sweep(sweep.recipe, tmp_path / "sweep").run()
    assert rows(tmp_path / "sweep") == before


def test_what_the_program_does_not_know_is_refused_before_the_first_run(text: str, tmp_path: Path) -> None:
    for name, close in (
        ("lr", "rate"),
        ("learning_rate", "rate"),
        ("batch_size", "batch"),
        ("unit", "units"),
    ):
        with pytest.raises(
            UsageError, match=rf"train has no setting {name}; it has .*Did you mean {close}\?"
        ):
            Sweep(recipe(text, settings={name: 1}), tmp_path / "sweep")
        assert not (tmp_path / "sweep").exists()


@pytest.mark.usefixtures("inside")
def test_halving_cuts_the_worst_and_goes_on_with_the_best(text: str, tmp_path: Path) -> None:
    wanted = recipe(
        text, 4, settings={"units": Values((1, 2, 8, 16)), "rate": 0.02}, halving=Halving(1, 2), seeds=1
    )
    sweep = Sweep(wanted, tmp_path / "sweep")
    sweep.run()
    entries = sweep.book.look()
    assert sorted(entry.epochs for entry in entries) == [1, 1, 2, 4]
    assert sorted(entry.state for entry in entries) == ["cut", "cut", "cut", "done"]
    first = sorted(entries, key=lambda entry: entry.values[0])
    assert {entry.epochs for entry in first[:2]} == {2, 4}
    done = next(entry for entry in entries if entry.state == "done")
    assert main(wanted.command({**done.settings, "epochs": 4}, 0, tmp_path / "whole")) == 0
    assert (done.run / "history.jsonl").read_bytes() == (tmp_path / "whole" / "history.jsonl").read_bytes()


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("budget", [{"steps": 40}, {"core_seconds": 0.2}], ids=["steps", "core-seconds"])
def test_brackets_of_steps_and_of_time(text: str, tmp_path: Path, budget: dict[str, Any]) -> None:
    """Two configurations that are halved after half the budget, and two that are not; each goes on where it was."""
    ((unit, most),) = budget.items()
    settings = {"rate": Between(1e-4, 0.1, log=True), "units": 4, **SMALL, **budget}
    halving = Halving(most // 2 if unit == "steps" else most / 2, 2, brackets=True)
    wanted = Recipe(text, settings, "random", trials=4, halving=halving)
    sweep = Sweep(wanted, tmp_path / "s")
    sweep.run()
    entries = sweep.book.look()
    assert sorted(entry.state for entry in entries[:2]) == ["cut", "done"], [e.sentence for e in entries]
    assert [entry.state for entry in entries[2:]] == ["done", "done"]
    cut, kept = sorted(entries[:2], key=lambda entry: entry.state)
    assert kept.value_at(most / 2) <= cut.value_at(most / 2) < math.inf
    assert [entry.has_used(most) for entry in (cut, kept, *entries[2:])] == [False, True, True, True]
    if unit == "steps":
        alone = tmp_path / "alone"
        assert main(wanted.command({**kept.settings, **wanted.until(most)}, 0, alone)) == 0
        assert (alone / "history.jsonl").read_bytes() == (kept.run / "history.jsonl").read_bytes()
    before = rows(tmp_path / "s")
    again = Sweep(None, tmp_path / "s")
    assert [entry.value_at(most / 2) for entry in again.book.look()[:2]] == [
        entry.value_at(most / 2) for entry in entries[:2]
    ]
    again.run()
    assert rows(tmp_path / "s") == before


def command_of(folder: Path, epochs: int, units: str = "4") -> list[str]:
    """Sweeps one run for each of the units in the folder s there."""
    (folder / "recipe.toml").write_text(
        f"data = 'book.txt'\n[settings]\nunits = {{ values = [{units}] }}\ntime = 10\nbatch = 4\nsample = 0\n"
        f"no_early_stopping = true\nepochs = {epochs}\n",
        encoding="utf-8",
    )
    python = [sys.executable, "-m", "graphnet_rnn", "sweep"]
    return [*python, str(folder / "recipe.toml"), f"--out={folder / 's'}"]


@pytest.mark.skipif(sys.platform != "linux", reason="a process that dies with another")
def test_a_sweep_that_is_killed_goes_on_and_nothing_is_lost(text: str, tmp_path: Path, take: Any) -> None:
    command = [*command_of(tmp_path, 40), "--quiet"]
    for number in (signal.SIGKILL, signal.SIGTERM):
        before = _written(tmp_path / "s")
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_until(lambda before=before: _written(tmp_path / "s") > before)
        process.send_signal(number)
        _, said = process.communicate(timeout=300)
        assert process.returncode == (-number if number == signal.SIGKILL else 130), said
        wait_until(lambda: not _numbers_of(tmp_path / "s"))
    take(Inside)
    Sweep(None, tmp_path / "s").run()
    require_those_of_train(Book(None, tmp_path / "s"), tmp_path / "alone")


def require_those_of_train(book: Book, folder: Path) -> None:
    """The files of all runs are those that `train` makes."""
    for entry in book.look():
        assert entry.state == "done", entry.sentence
        alone = folder / entry.name
        epochs = {"epochs": book.recipe.epochs}
        assert main(book.recipe.command({**entry.settings, **epochs}, entry.seed, alone, entry.fold)) == 0
        for name in ("history.jsonl", "model.safetensors"):
            assert (entry.run / name).read_bytes() == (alone / name).read_bytes()


def wait_until(happened: Callable[[], bool]) -> None:
    """Only what hangs is not waited for."""
    end = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < end, "this takes more than 300 s"
        time.sleep(0.02)


def _written(folder: Path) -> int:
    """Bytes of all histories."""
    return sum(path.stat().st_size for path in folder.glob("*/run/history.jsonl"))


@pytest.mark.usefixtures("inside")
def test_two_sweeps_in_one_folder_share_the_runs(text: str, tmp_path: Path) -> None:
    wanted = recipe(text, 2, seeds=2)
    sweeps = [Sweep(wanted, tmp_path / "sweep", workers=1) for _ in range(2)]
    threads = [threading.Thread(target=sweep.run) for sweep in sweeps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    states = [entry.state for entry in Book(wanted, tmp_path / "sweep").look()]
    assert states == ["done"] * 4
    for history in (tmp_path / "sweep").glob("*/run/history.jsonl"):
        started = [line for line in history.read_text("utf-8").splitlines() if '"event": "start"' in line]
        assert len(started) == 1  # nothing twice


@pytest.mark.usefixtures("inside")
def test_runs_end_where_their_budget_does(text: str, tmp_path: Path) -> None:
    budgets: list[dict[str, Any]] = [{"core_seconds": 0.1}, {"steps": 30}]
    for budget in budgets:
        settings = {"units": 4, "cell": "Elman", **SMALL, **budget}
        sweep = Sweep(Recipe(text, settings), tmp_path / min(budget))
        sweep.run()
        (entry,) = sweep.book.look()
        assert entry.state == "done", entry.sentence
        assert entry.best == min(entry.values)
    steps = [row for row in read_rows(entry.run / "history.jsonl", DataError) if row["event"] == "step"]
    assert steps[-1]["step"] == 30


@pytest.mark.usefixtures("inside")
def test_a_command_that_is_refused_is_a_failure_with_its_sentence(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recipe, "command", lambda *_: ["nothing"])
    sweep = Sweep(recipe(text, settings={"units": 4}), tmp_path / "sweep")
    sweep.run()
    (entry,) = sweep.book.look()
    assert entry.state == "failed"
    assert "invalid choice: 'nothing'" in entry.sentence
    monkeypatch.undo()
    sweep.run()
    assert entry.state == "failed"
    sweep.run(retry=True)
    assert (entry.state, entry.epochs) == ("done", 2)


def test_another_recipe_is_another_sweep(text: str, tmp_path: Path) -> None:
    Book(recipe(text), tmp_path / "sweep")
    Book(recipe(text, seeds=5), tmp_path / "sweep")  # more may be asked for
    with pytest.raises(UsageError, match="is a sweep of another recipe: the setting epochs of it differ"):
        Book(recipe(text, 3), tmp_path / "sweep")
    Path(text).write_text(TEXT + "x", encoding="utf-8")
    with pytest.raises(UsageError, match="is a sweep of another recipe: data of it differ"):
        Book(recipe(text), tmp_path / "sweep")
    assert len(list((tmp_path / "sweep" / "data").iterdir())) == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    with pytest.raises(UsageError, match="is there already, and holds no sweep"):
        Book(recipe(text), tmp_path / "other")


def made(text: str, folder: Path) -> Book:
    """A sweep whose histories are written by hand."""
    book = Book(
        Recipe(text, {"units": Values((4, 8)), "cell": Values(("A_1", "B|<&")), "epochs": 2}, seeds=2), folder
    )
    for entry in book.entries:
        entry.run.mkdir(parents=True)
        values = [3.0 - entry.number - 0.1 * entry.seed, 2.0 - 0.5 * entry.number + 0.2 * entry.seed]
        lines = [{"event": "start", "unit": "bits/char"}]
        lines += [{"event": "epoch", "train_bpc": 1.0, "valid_bpc": value} for value in values]
        (entry.run / "history.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )
        entry.end("done" if entry.number < 3 else "failed", "" if entry.number < 3 else "no\nmemory | left")
    return book


def test_tables(text: str, tmp_path: Path) -> None:
    book = made(text, tmp_path / "sweep")
    markdown = report(book)
    assert "| run | units | cell | bits/char | ± error | runs | epochs | seconds | state |" in markdown
    assert "| 0002-1 | 8 | A_1 | 0.9500 | 0.0500 | 2 | 2 | 0 | done |" in markdown
    assert "- 0003-0: no memory \\| left" in markdown
    assert "B\\|&lt;&" in markdown
    found = list(csv.reader(io.StringIO(report(book, ".csv"))))
    assert [row[3] for row in found[1:]] == sorted((row[3] for row in found[1:]), key=float)
    assert r"A\_1" in report(book, ".tex")
    assert r"B|<\&" in report(book, ".tex")
    with pytest.raises(UsageError, match="kind must be"):
        report(book, ".xls")


def test_a_figure(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(text, tmp_path / "sweep")
    command = ["sweep", str(tmp_path / "sweep"), "--only-report"]
    assert main([*command, "--figure", str(tmp_path / "f.svg"), "--against", "units"]) == 0
    drawn = (tmp_path / "f.svg").read_text("utf-8")
    assert "bits/char" in drawn
    assert main([*command, "--figure", str(tmp_path / "g.svg"), "--by", "size"]) == 1
    assert "results have no setting 'size'" in capsys.readouterr().err


@pytest.mark.usefixtures("inside")
def test_the_command(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.toml").write_text(
        "data = 'book.txt'\n[settings]\nunits = { values = [4] }\ntime = 10\nbatch = 4\nsample = 0\nepochs = 1\n",
        encoding="utf-8",
    )
    out, table = f"--out={tmp_path / 's'}", f"--report={tmp_path / 'r.csv'}"
    assert main(["sweep", str(tmp_path / "r.toml"), out, table]) == 0
    said = capsys.readouterr()
    assert "1 run in" in said.out
    assert "| 0000-0 | 4 | " in said.out
    assert (tmp_path / "r.csv").read_text("utf-8").startswith("run,units,bits/char")
    assert main(["sweep", str(tmp_path / "r.toml"), out, "--only-report"]) == 0
    assert "| 0000-0 | 4 | " in capsys.readouterr().out


def test_each_run_has_its_own_cores(text: str, tmp_path: Path) -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no cores are given here")
    cores = sorted(os.sched_getaffinity(0))
    book = Book(recipe(text), tmp_path / "sweep")
    with contextlib.ExitStack() as stack:
        given = [stack.enter_context(_cores(book)) for _ in range(len(cores) + 1)]
    assert given == [*([str(core)] for core in cores), []]
    with _cores(book) as again:
        assert again == [str(cores[0])]
    assert Sweep(recipe(text, threads=len(cores)), tmp_path / "sweep").workers == 1


def guide() -> str:
    """The recipe of docs/sweeps.md."""
    page = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text("utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (found,) = (block for block in blocks if block.startswith("data = "))
    return str(found)


def test_the_recipe_of_the_guide(text: str, tmp_path: Path) -> None:
    """It says 24 settings with halving, and nothing that `train` does not know."""
    (tmp_path / "r.toml").write_text(guide(), encoding="utf-8")
    given = Recipe.read(tmp_path / "r.toml")
    assert given.count == 24
    assert (given.folds, given.seeds, given.gap) == (5, 2, 500)
    assert given.rungs == [1, 3, 9]
    assert given.effort == 24 * 10 * 1 + 8 * 10 * 2 + 2 * 10 * 6
    assert Recipe.of(given.mapping(), tmp_path) == given
    given.require_known(settings_of_train())


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_the_recipe_of_the_guide_is_swept(text: str, tmp_path: Path) -> None:
    """All 24 settings of it, with its halving, at small sizes."""
    words = guide()
    for before, after in {
        "values = [32, 64]": "values = [4, 8]",
        "seeds = 2": "seeds = 1",
        "folds = 5": "folds = 2",
        "gap = 500": "gap = 10",
        "epochs = 9": "epochs = 9\ntime = 10\nbatch = 4\nsample = 0\nno_early_stopping = true",
    }.items():
        assert words.count(before) == 1
        words = words.replace(before, after)
    (tmp_path / "r.toml").write_text(words, encoding="utf-8")
    table = tmp_path / "cells.md"
    assert (
        main(["sweep", str(tmp_path / "r.toml"), "--out", str(tmp_path / "s"), "--report", str(table)]) == 0
    )
    entries = Book(None, tmp_path / "s").look()
    assert sorted(entry.epochs for entry in entries) == [1] * 32 + [3] * 12 + [9] * 4
    assert sorted(entry.state for entry in entries) == ["cut"] * 44 + ["done"] * 4
    assert table.read_text("utf-8").count("\n| 00") == 24


# -- Optuna --------------------------------------------------------------------------------------


def by_hand(book: Book, number: int, *values: float, state: str = "done") -> None:
    """A run that has these values."""
    (entry,) = book.of(number)
    entry.run.mkdir(parents=True, exist_ok=True)
    lines = [{"event": "start", "unit": "bits/char"}, *({"event": "epoch", "valid_bpc": v} for v in values)]
    (entry.run / "history.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    if state:
        entry.end(state)


def test_a_sampler_proposes_where_others_do_well(text: str, tmp_path: Path) -> None:
    """Of a bowl of two settings, one of which is one only beside a value of a third; the folder keeps all there is."""
    ranges = {
        "rate": Between(1e-4, 1.0, log=True),
        "layers": Values((1, 2)),
        "dropout": Between(0.0, 0.9, when={"layers": (2,)}),
        "epochs": 1,
    }
    wanted = Recipe(text, ranges, "optuna", trials=40, sampler=Optuna("TPESampler", {"n_startup_trials": 8}))

    def cost(settings: dict[str, Any]) -> float:
        return (math.log10(settings["rate"]) + 2) ** 2 + abs(settings.get("dropout", 0.9) - 0.3)

    book = Book(wanted, tmp_path / "s")
    for number in range(40):
        assert [bool(entry.settings) for entry in book.look()] == [i < number for i in range(40)]
        book.propose(number)
        (entry,) = book.of(number)
        assert ("dropout" in entry.settings) == (entry.settings["layers"] == 2)
        by_hand(book, number, cost(entry.settings))
    costs = [cost(entry.settings) for entry in Book(None, tmp_path / "s").look()]
    assert statistics.median(costs[-10:]) < 0.3 * statistics.median(costs[:8])
    assert book.names == ["rate", "layers", "dropout"]


def test_a_pruner_cuts_what_learns_worse_than_others(text: str, tmp_path: Path) -> None:
    pruner = Optuna("MedianPruner", {"n_startup_trials": 2})
    wanted = Recipe(text, {"units": Values((1, 2, 3, 4)), "epochs": 9}, pruner=pruner)
    book = Book(wanted, tmp_path / "s")
    by_hand(book, 0, 5.0, 4.0, 3.0)
    by_hand(book, 1, 5.5, 4.5, 3.5)
    by_hand(book, 2, 5.1, 4.1, state="")
    by_hand(book, 3, 5.6, 4.6, state="")
    assert [book.is_hopeless(number) for number in (2, 3)] == [False, True]
    book = Book(replace(wanted, pruner=Optuna("MedianPruner", {"n_startup_trials": 9})), tmp_path / "s")
    assert not book.is_hopeless(3)  # another pruner may be tried
    assert Book(wanted, tmp_path / "s").is_hopeless(3)


def test_every_pruner_of_optuna_can_be_asked_or_says_what_it_needs(text: str, tmp_path: Path) -> None:
    needed = {
        "PercentilePruner": {"percentile": 25.0},
        "ThresholdPruner": {"upper": 1.0},
        "PatientPruner": None,
    }
    for kind in (k for k in dir(optuna.pruners) if k.endswith("Pruner") and k != "BasePruner"):
        settings = needed.get(kind, {})
        wanted = Recipe(text, {"units": Values((1, 2)), "epochs": 9}, pruner=Optuna(kind, settings or {}))
        with case(kind):
            if settings is None:
                with pytest.raises(UsageError, match=f"pruner {kind} cannot be made"):
                    Book(wanted, tmp_path / kind)
                continue
            book = Book(wanted, tmp_path / kind)
            by_hand(book, 0, 5.0, 4.0, 3.0)
            by_hand(book, 1, 5.0, 4.5, state="")
            assert book.is_hopeless(1) == (kind == "ThresholdPruner")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_sweep_by_optuna_that_is_killed_goes_on(text: str, tmp_path: Path, take: Any) -> None:
    (tmp_path / "recipe.toml").write_text(
        "data = 'book.txt'\nmethod = 'optuna'\ntrials = 3\npruner = 'MedianPruner'\n[settings]\n"
        "units = { whole = [2, 16] }\nrate = { log = [1e-5, 0.1] }\ntime = 10\nbatch = 4\nsample = 0\nepochs = 2\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "graphnet_rnn", "sweep", str(tmp_path / "recipe.toml"), "--quiet"]
    command += [f"--out={tmp_path / 's'}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: _written(tmp_path / "s") > 0)
    process.kill()
    process.communicate()
    wait_until(lambda: not _numbers_of(tmp_path / "s"))
    before = {path: path.read_bytes() for path in (tmp_path / "s").glob("*/settings.json")}
    assert before
    (tmp_path / "recipe.toml").unlink()
    Path(text).unlink()
    take(Inside)
    Sweep(None, tmp_path / "s").run()  # the folder has all it takes
    entries = Book(None, tmp_path / "s").look()
    assert {entry.state for entry in entries} <= {"done", "cut"}, [entry.sentence for entry in entries]
    assert len({json.dumps(entry.settings) for entry in entries}) == 3
    assert all(path.read_bytes() == content for path, content in before.items())


def test_what_optuna_has_not(text: str, tmp_path: Path) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"sampler": Optuna("Nothing")}, "Optuna has no sampler Nothing; it has .*TPESampler"),
        ({"sampler": Optuna("TPESampler", {"speed": 3})}, "sampler TPESampler cannot be made: .*speed"),
        ({"pruner": Optuna("Nothing")}, "Optuna has no pruner Nothing; it has .*MedianPruner"),
        (
            {"sampler": Optuna("TPESampler", {"n_startup_trials": "x"})},
            r"cannot search so \(TPESampler\): TypeError",
        ),
        ({"sampler": Optuna("BruteForceSampler")}, r"cannot search so \(BruteForceSampler\): ValueError"),
        ({"pruner": Optuna("HyperbandPruner", {"min_resource": 0})}, r"\(TPESampler and HyperbandPruner\)"),
    ]
    settings = {"rate": Between(1e-4, 1.0, log=True)}
    for how, words in rows:
        with case(how), pytest.raises(UsageError, match=words):
            Book(recipe(text, method="optuna", settings=settings, **how), tmp_path / "s")
        assert not (tmp_path / "s").exists()


def test_settings_that_the_recipe_has_not_are_damage(text: str, tmp_path: Path) -> None:
    wanted = Recipe(text, {"units": Between(2, 9, whole=True), "epochs": 1}, "optuna", trials=2)
    forged: list[dict[str, Any]] = [
        {"units": "x"},
        {"units": 3.5},
        {"units": 99},
        {"units": [[]]},
        {"cell": "a.py:B"},
    ]
    for place, each in enumerate(forged):
        Book(wanted, tmp_path / str(place)).propose(0)
        path = tmp_path / str(place) / "0000-0" / "settings.json"
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | each), encoding="utf-8")
        book = Book(wanted, tmp_path / str(place))
        entry = book.look()[0]
        with case(each):
            assert (entry.state, entry.settings) == ("failed", {})
            assert "settings.json is damaged: the recipe has no such settings" in entry.sentence
            book.propose(1)
            assert 2 <= book.entries[1].settings["units"] <= 9


@pytest.mark.usefixtures("inside")
def test_whose_code_runs_is_said(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it does, also where the folder alone says it; to tell of a sweep runs none."""
    (tmp_path / "mine.py").write_text(
        "import pathlib\nimport graphnet_rnn as rnn\n"
        f"pathlib.Path({str(tmp_path / 'ran')!r}).touch()\nclass Own(rnn.GRU): pass\n",
        encoding="utf-8",
    )
    (tmp_path / "r.toml").write_text(
        f"data = 'book.txt'\n[settings]\ncell = '{tmp_path / 'mine.py'}:Own'\nunits = 2\nepochs = 1\n"
        "sample = 0\ntime = 10\nbatch = 4\n",
        encoding="utf-8",
    )
    folder = str(tmp_path / "s")
    Book(Recipe.read(tmp_path / "r.toml"), folder)
    main(["sweep", folder, "--only-report", "--html", str(tmp_path / "p.html")])
    assert "runs its code" not in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
    assert main(["sweep", folder]) == 0
    assert (
        f"the recipe names cells of {tmp_path / 'mine.py'}: the runs import that" in capsys.readouterr().err
    )
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("asked", ["propose", "is_hopeless"])
def test_a_search_that_fails_ends_the_sweep_with_its_sentence(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take: Any, asked: str
) -> None:
    """Its runs are ended, not waited for."""
    take(Endless)
    settings = {"units": Between(2, 9, whole=True), **SMALL, "epochs": 100_000}
    wanted = Recipe(text, settings, "optuna", trials=3, pruner=Optuna("MedianPruner"))
    sweep = Sweep(wanted, tmp_path / "s", workers=2)
    honest = Tuner.propose

    def fails(tuner: Tuner, number: int, fates: Any) -> Any:
        if asked == "propose" and number == 0:
            return honest(tuner, number, fates)
        raise UsageError("recipe: Optuna cannot search so")

    monkeypatch.setattr(Tuner, asked, fails)
    with pytest.raises(UsageError, match="Optuna cannot search so"):
        sweep.run()
    assert Endless.all
    assert all(stub.returncode is not None for stub in Endless.all)


def test_without_optuna(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"pip install 'graphnet\[sweep\]', or say method = 'random'"):
        Book(recipe(text, method="optuna"), tmp_path / "s")
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(UsageError, match=r"pip install 'graphnet\[sweep\]', or leave parallel out"):
        Sweep(recipe(text), tmp_path / "s", parallel="loky")


# -- elsewhere -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("inside")
def test_joblib_starts_the_same_runs(text: str, tmp_path: Path) -> None:
    """Also with halving; here in threads of joblib, below in its processes."""
    wanted = recipe(text, 3, halving=Halving(1, 2))
    Sweep(wanted, tmp_path / "here").run()
    seen: list[str] = []
    there = Sweep(wanted, tmp_path / "there", parallel="threading")
    there.run(lambda entry: seen.append(f"{entry.name} {entry.state}"))
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert {"0000-0 cut", "0001-0 done"} <= set(seen) or {"0001-0 cut", "0000-0 done"} <= set(seen)
    assert not list((tmp_path / "there").glob("stop-*"))


def test_without_ray(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """It is told before anything is made."""
    monkeypatch.setitem(sys.modules, "ray", None)
    command_of(tmp_path, 1)
    recipe_file, out = str(tmp_path / "recipe.toml"), str(tmp_path / "s")
    assert main(["sweep", recipe_file, "--out", out, "--parallel", "ray"]) == 2
    assert "parallel='ray' needs ray, which is not installed" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.usefixtures("inside")
def test_ray_is_registered_with_joblib(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its package does that, which is not installed here; what stands in for it starts the runs."""
    asked: list[str] = []

    class Ray(joblib._parallel_backends.ThreadingBackend):
        def __init__(self, address: str = "", **more: Any) -> None:
            super().__init__(**more)
            asked.append(address)

    ours = types.ModuleType("ray.util.joblib")
    ours.register_ray = lambda: joblib.register_parallel_backend("ray", Ray)  # type: ignore[attr-defined]
    for name in ("ray", "ray.util"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "ray.util.joblib", ours)
    sweep = Sweep(recipe(text, 1), tmp_path / "s", workers=2, parallel={"backend": "ray", "address": "there"})
    sweep.run()
    assert [entry.state for entry in sweep.book.look()] == ["done", "done"]
    assert set(asked) == {"there"}
    monkeypatch.delitem(joblib.parallel.BACKENDS, "ray")


@pytest.mark.usefixtures("inside")
def test_a_cluster_of_dask_starts_the_same_runs(text: str, tmp_path: Path) -> None:
    wanted = recipe(text, 2)
    Sweep(wanted, tmp_path / "here").run()
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(processes=False, **how) as cluster:
        config = {"backend": "dask", "scheduler_host": cluster.scheduler_address}
        Sweep(wanted, tmp_path / "there", parallel=config).run()
    assert rows(tmp_path / "there") == rows(tmp_path / "here")


def test_runs_that_joblib_has_started_end_when_told(text: str, tmp_path: Path, take: Any) -> None:
    take(Endless)
    sweep = Sweep(recipe(text, 100_000), tmp_path / "s", workers=2, parallel="threading")
    sweep.run(until=lambda: all((entry.run / "history.jsonl").exists() for entry in sweep.book.entries))
    assert {entry.state for entry in sweep.book.look()} == {"begun"}
    assert [stub.returncode for stub in Endless.all] == [130, 130]
    assert not list((tmp_path / "s").glob("stop-*"))


@pytest.mark.usefixtures("inside")
def test_arrays_and_problems_are_swept_too(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 24, 2)).astype("f4")
    np.savez(tmp_path / "sums.npz", x=x, total=x.sum(axis=2).cumsum(axis=0))
    settings = {"target": "total", "units": Values((2, 3)), "batch": 4, "epochs": 1, "rate": 0.02}
    sweep = Sweep(Recipe(str(tmp_path / "sums.npz"), settings, folds=2), tmp_path / "a")
    sweep.run()
    assert [entry.state for entry in sweep.book.look()] == ["done"] * 4, [
        e.sentence for e in sweep.book.entries
    ]
    best = sweep.book.best()
    assert [each.known for each in best] == [2, 2]
    assert sweep.book.unit == "squared error"
    assert all(math.isfinite(each.error) for each in best)
    settings = {"cell": "Elman", "units": 4, "batch": 20, "epochs": 1, "gradient_batches": 1}
    sweep = Sweep(Recipe("task:addition(10)", settings), tmp_path / "b")
    sweep.run()
    assert [entry.state for entry in sweep.book.look()] == ["done"]
    assert Book(None, tmp_path / "b").recipe.data == "task:addition(10)"


@pytest.mark.skipif(sys.platform != "linux", reason="processes in /proc")
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "sweep"])
def test_a_worker_of_joblib_that_is_killed_loses_nothing(text: str, tmp_path: Path, victim: str) -> None:
    """Nor does the sweep itself; its workers begin nothing more."""
    out = tmp_path / "s"
    command = [*command_of(tmp_path, 30, "4" if victim == "worker" else "4, 5, 6, 7"), "--quiet"]
    # With one worker joblib starts no process.
    process = subprocess.Popen([*command, "--parallel=loky", "--workers=2"])
    wait_until(lambda: _written(out) > 0 and bool(_numbers_of(out)))
    if victim == "sweep":
        process.kill()
        process.wait()
        wait_until(lambda: not _numbers_of(out))
        begun = sorted(out.glob("*/run"))
        time.sleep(2)
        assert sorted(out.glob("*/run")) == begun
        assert subprocess.run(command, timeout=600, check=False).returncode == 0
    else:
        os.kill(_parent(_numbers_of(out)[0]), signal.SIGKILL)
        assert process.wait(timeout=600) == 0
    require_those_of_train(Book(None, out), tmp_path / "alone")


def _numbers_of(folder: Path) -> list[int]:
    """Of the processes that train there."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = each.read_bytes().decode(errors="replace")
            if str(folder) in words and "sweep.child" in words:
                found.append(int(each.parent.name))
    return found


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def test_the_folder_keeps_the_data_by_their_content(text: str, tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text(TEXT[:300], encoding="utf-8")
    wanted = recipe(text, settings={"valid": str(tmp_path / "valid.txt")})
    book = Book(wanted, tmp_path / "s")
    kept = sorted(path.name for path in (tmp_path / "s" / "data").iterdir())
    assert [name[17:] for name in kept] == ["book.txt", "valid.txt"] or [name[17:] for name in kept] == [
        "valid.txt",
        "book.txt",
    ]
    assert Path(book.recipe.data).read_text(encoding="utf-8") == TEXT
    assert Path(book.recipe.settings["valid"]).parent == tmp_path / "s" / "data"
    shutil.copytree(tmp_path / "s", tmp_path / "moved")
    shutil.copy(text, tmp_path / "renamed.txt")
    Book(recipe(str(tmp_path / "renamed.txt"), settings={"valid": wanted.settings["valid"]}), tmp_path / "s")
    moved = Book(None, tmp_path / "moved")
    assert Path(moved.recipe.data).parent == tmp_path / "moved" / "data"
    Path(moved.recipe.data).write_text("x", encoding="utf-8")
    with pytest.raises(DataError, match="is not what it was when the sweep began"):
        Book(None, tmp_path / "moved")
    with pytest.raises(UsageError, match="there is no sweep in"):
        Book(None, tmp_path / "nowhere")


def test_what_is_added_to_a_history_is_read_once(text: str, tmp_path: Path) -> None:
    """Also a row that is only half written, and a history that was cut when its run was resumed."""
    book = Book(Recipe(text, {"units": 4, "epochs": 9}), tmp_path / "sweep")
    (entry,) = book.entries
    entry.run.mkdir(parents=True)
    history = entry.run / "history.jsonl"

    def row(value: float) -> str:
        return json.dumps({"event": "epoch", "valid_bpc": value, "sample": f"s{value}"}) + "\n"

    history.write_text(
        '{"event": "start", "unit": "bits/char"}\n' + row(3.0) + row(2.0)[:20], encoding="utf-8"
    )
    entry.look()
    assert (entry.values, entry.sample) == ([3.0], "s3.0")
    history.write_text(
        '{"event": "start", "unit": "bits/char"}\n' + row(3.0) + row(2.0) + row(1.0), encoding="utf-8"
    )
    threads = [threading.Thread(target=entry.look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entry.values == [3.0, 2.0, 1.0]
    history.write_text('{"event": "start", "unit": "bits/char"}\n' + row(3.0), encoding="utf-8")
    entry.look()
    assert (entry.values, entry.unit) == ([3.0], "bits/char")
    # Cut, and longer than before when it is looked at: what comes after the old end begins within a row.
    history.write_text('{"event": "start", "unit": "bits/char"}\n' + row(2.25) + row(1.5), encoding="utf-8")
    entry.look()
    assert (entry.state, entry.values) == ("begun", [2.25, 1.5])
    history.write_text(history.read_text("utf-8") + '{"event": "epoch", \n', encoding="utf-8")
    entry.look()
    assert entry.state == "failed"
    assert re.search(r"history\.jsonl, line \d+, .*; remove .* to have it trained again", entry.sentence)


def test_a_damaged_run_hides_no_other(text: str, tmp_path: Path) -> None:
    rows = [
        '{"event": "epoch", "epoch": 1, "valid_bits": "x", "seconds": "x"}',
        '["event": "epoch", "seconds"]',
        '{"event": "epoch", "epoch": 1, "valid_bits": {}, "seconds": null}',
        '"event": "epoch" "epoch"',
    ]
    for name, row in itertools.product(("history.jsonl", "timing.jsonl"), rows):
        book = Book(recipe(text, 1), tmp_path / f"{name}{rows.index(row)}")
        for entry in book.entries[:2]:
            entry.run.mkdir(parents=True)
            good = '{"event": "epoch", "epoch": 1, "valid_bits": 2.0, "seconds": 1.0}\n'
            (entry.run / "history.jsonl").write_text(good, encoding="utf-8")
            (entry.run / "timing.jsonl").write_text(good, encoding="utf-8")
        (book.entries[0].run / name).write_text(row + "\n", encoding="utf-8")
        first, second, *_ = book.look()
        with case(name, row):
            assert first.state == "failed"
            told = rf"{name}(, line 1, (is not JSON|must be an object)| is damaged)"
            assert re.search(told, first.sentence)
            assert second.values == [2.0]
            assert f"/{name}" in report(book)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_what_is_no_file_is_not_waited_for(text: str, tmp_path: Path) -> None:
    makers = (os.mkfifo, lambda path: os.symlink("/dev/zero", path))
    found = itertools.product(("history.jsonl", "timing.jsonl"), makers)
    book = Book(recipe(text, 1, seeds=2), tmp_path / "s")
    for entry, (name, make) in zip(book.entries, found, strict=True):
        entry.run.mkdir(parents=True)
        make(entry.run / name)
        entry.look()
        assert entry.state == "failed"
        assert name in entry.sentence


@pytest.mark.usefixtures("inside")
def test_folds_are_runs_of_their_own(text: str, tmp_path: Path) -> None:
    wanted = recipe(text, 1, settings={"units": Values((4, 8))}, folds=2, gap=5)
    sweep = Sweep(wanted, tmp_path / "s")
    sweep.run()
    names = ["0000-0-0", "0000-0-1", "0001-0-0", "0001-0-1"]
    assert [entry.name for entry in sweep.book.entries] == names
    assert wanted.effort == 4
    assert len({entry.best for entry in sweep.book.entries}) == 4
    (_, mean, error, known, runs), *_ = sweep.book.best()
    own = [run.best for run in runs]
    assert known == 2
    assert own == sorted(own)
    assert mean == pytest.approx(sum(own) / 2)
    assert error == pytest.approx(statistics.stdev(own) / math.sqrt(2))
    command = wanted.command({**sweep.book.entries[1].settings, "epochs": 1}, 0, tmp_path / "alone", 1)
    assert {"--fold=2/2", "--gap=5"} < set(command)
    assert main(command) == 0
    alone = (tmp_path / "alone" / "history.jsonl").read_bytes()
    assert alone == (sweep.book.entries[1].run / "history.jsonl").read_bytes()
    with pytest.raises(UsageError, match="of another recipe: folds of it differ"):
        Book(recipe(text, 1, settings={"units": Values((4, 8))}, folds=4, gap=5), tmp_path / "s")
    with pytest.raises(UsageError, match="gap is beside the blocks of folds"):
        recipe(text, 1, gap=5)
