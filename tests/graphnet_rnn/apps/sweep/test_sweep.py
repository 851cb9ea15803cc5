"""Sweeps: runs match `train`, halving stops the worst, and searches improve."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import re
import shutil
import statistics
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import distributed
import joblib
import numpy as np
import optuna
import pytest

from graphnet_rnn.apps.cli import main
from graphnet_rnn.apps.sweep import Between, Halving, Optuna, Recipe, Results, Sweep, Values
from graphnet_rnn.apps.sweep.report import report
from graphnet_rnn.apps.sweep.results import Container
from graphnet_rnn.apps.sweep.run_monitor import _cores, settings_of_train
from graphnet_rnn.apps.sweep.tuner import Tuner
from graphnet_rnn.errors import DataError, UsageError
from tests.graphnet_rnn.apps.sweep.conftest import (
    FILES,
    SMALL,
    TEXT,
    Endless,
    command_of,
    history,
    recipe,
    rows,
)
from tests.tables import case


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_sweep_runs_match_train(text: str, tmp_path: Path) -> None:
    """Uses separate processes; the other tests train in the test process."""
    wanted = recipe(text, settings={"units": 4, "cell": Values(("GRU", "Nonsense"))})
    sweep = Sweep(wanted, tmp_path / "sweep")
    seen: list[str] = []
    sweep.run(lambda entry: seen.append(f"{entry.name} {entry.state}"))
    assert {entry.name: entry.state for entry in sweep.results.look()} == {
        "0000-0": "done",
        "0001-0": "failed",
    }
    made, failed = sweep.results.entries
    assert re.fullmatch(".*Nonsense.*", failed.sentence)  # one line
    assert "0001-0 failed" in seen
    assert main(sweep.recipe.command(made.settings, 0, tmp_path / "alone")) == 0
    for name in FILES:
        assert (made.run / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    ((best, mean, error, _, _),) = sweep.results.best()
    assert best["cell"] == "GRU"
    assert mean == made.best == min(made.values)
    assert math.isnan(error)
    before = rows(tmp_path / "sweep")
    assert Results(None, tmp_path / "sweep").unit == sweep.results.unit == "bits/char"
    Sweep(sweep.recipe, tmp_path / "sweep").run()
    assert rows(tmp_path / "sweep") == before


@pytest.mark.usefixtures("inside")
def test_halving_stops_the_worst_runs_and_resumes_the_best(text: str, tmp_path: Path) -> None:
    wanted = recipe(text, 4, {"units": Values((1, 2, 8, 16)), "rate": 0.02}, halving=Halving(1, 2), seeds=1)
    sweep = Sweep(wanted, tmp_path / "sweep")
    sweep.run()
    entries = sweep.results.look()
    assert sorted(entry.epochs for entry in entries) == [1, 1, 2, 4]
    assert sorted(entry.state for entry in entries) == ["cut", "cut", "cut", "done"]
    first = sorted(entries, key=lambda entry: entry.values[0])
    assert {entry.epochs for entry in first[:2]} == {2, 4}
    done = next(entry for entry in entries if entry.state == "done")
    assert main(wanted.command({**done.settings, "epochs": 4}, 0, tmp_path / "whole")) == 0
    assert (done.run / "history.jsonl").read_bytes() == (tmp_path / "whole" / "history.jsonl").read_bytes()


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(("unit", "most"), [("steps", 40), ("core_seconds", 0.2)])
def test_brackets_of_steps_and_of_time(text: str, tmp_path: Path, unit: str, most: float) -> None:
    """Two configurations are halved after half the budget, two are not; all resume from their state."""
    half = most // 2 if unit == "steps" else most / 2
    settings = {"rate": Between(1e-4, 0.1, log=True), "units": 4, **SMALL, unit: most}
    wanted = Recipe(text, settings, "random", trials=4, halving=Halving(half, 2, brackets=True))
    sweep = Sweep(wanted, tmp_path / "s")
    sweep.run()
    entries = sweep.results.look()
    assert sorted(entry.state for entry in entries[:2]) == ["cut", "done"], [e.sentence for e in entries]
    assert [entry.state for entry in entries[2:]] == ["done", "done"]
    cut, kept = sorted(entries[:2], key=lambda entry: entry.state)
    assert kept.value_at(half) <= cut.value_at(half) < math.inf
    assert [entry.has_used(most) for entry in (cut, kept, *entries[2:])] == [False, True, True, True]
    if unit == "steps":
        alone = tmp_path / "alone"
        assert main(wanted.command({**kept.settings, **wanted.until(most)}, 0, alone)) == 0
        assert (alone / "history.jsonl").read_bytes() == (kept.run / "history.jsonl").read_bytes()
    before, again = rows(tmp_path / "s"), Sweep(None, tmp_path / "s")
    assert [e.value_at(half) for e in again.results.look()[:2]] == [e.value_at(half) for e in entries[:2]]
    again.run()
    assert rows(tmp_path / "s") == before


@pytest.mark.usefixtures("inside")
def test_two_sweeps_in_one_folder_share_runs(text: str, tmp_path: Path) -> None:
    wanted = recipe(text, 2, seeds=2)
    sweeps = [Sweep(wanted, tmp_path / "sweep", workers=1) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(Sweep.run, sweeps))
    assert [entry.state for entry in Results(wanted, tmp_path / "sweep").look()] == ["done"] * 4
    for path in (tmp_path / "sweep").glob("*/run/history.jsonl"):
        assert path.read_text("utf-8").count('"event": "start"') == 1  # nothing twice


@pytest.mark.usefixtures("inside")
def test_folds_are_separate_runs(text: str, tmp_path: Path) -> None:
    wanted = recipe(text, 1, folds=2, gap=5)
    sweep = Sweep(wanted, tmp_path / "s")
    sweep.run()
    assert wanted.effort == 4
    bests = {entry.name: entry.best for entry in sweep.results.entries}
    assert list(bests) == ["0000-0-0", "0000-0-1", "0001-0-0", "0001-0-1"]
    assert len(set(bests.values())) == 4
    (_, mean, error, known, runs), *_ = sweep.results.best()
    own = [run.best for run in runs]
    assert (known, own) == (2, sorted(own))
    assert mean == pytest.approx(sum(own) / 2)
    assert error == pytest.approx(statistics.stdev(own) / math.sqrt(2))
    second = sweep.results.entries[1]
    command = wanted.command({**second.settings, "epochs": 1}, 0, tmp_path / "alone", 1)
    assert {"--fold=2/2", "--gap=5"} < set(command)
    assert main(command) == 0
    assert (tmp_path / "alone" / "history.jsonl").read_bytes() == (second.run / "history.jsonl").read_bytes()


@pytest.mark.usefixtures("inside")
def test_arrays_and_problems_are_swept_too(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((6, 24, 2)).astype("f4")
    np.savez(tmp_path / "sums.npz", x=x, total=x.sum(axis=2).cumsum(axis=0))
    settings = {"target": "total", "units": Values((2, 3)), "batch": 4, "epochs": 1, "rate": 0.02}
    sweep = Sweep(Recipe(str(tmp_path / "sums.npz"), settings, folds=2), tmp_path / "a")
    sweep.run()
    assert {(entry.state, entry.sentence) for entry in sweep.results.look()} == {("done", "")}
    assert sweep.results.unit == "standardized squared error"
    assert [math.isfinite(each.error) for each in sweep.results.best()] == [True, True]
    settings = {"cell": "Elman", "units": 4, "batch": 20, "epochs": 1, "gradient_batches": 1}
    sweep = Sweep(Recipe("task:addition(10)", settings), tmp_path / "b")
    sweep.run()
    assert [entry.state for entry in sweep.results.look()] == ["done"]


def test_each_run_has_its_own_cores(text: str, tmp_path: Path) -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no cores are given here")
    cores = sorted(os.sched_getaffinity(0))
    results = Results(recipe(text), tmp_path / "sweep")
    with contextlib.ExitStack() as stack:
        given = [stack.enter_context(_cores(results)) for _ in range(len(cores) + 1)]
    assert given == [*([core] for core in cores), []]
    with _cores(results) as again:
        assert again == [cores[0]]
    assert Sweep(recipe(text, threads=len(cores)), tmp_path / "sweep").workers == 1


def test_folders_of_other_recipes_are_rejected(text: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "sweep", tmp_path / "other"
    Results(recipe(text), folder)
    longer = Results(recipe(text, seeds=5), folder)  # more may be asked for
    assert [entry.name for entry in Results(None, folder).entries] == [entry.name for entry in longer.entries]
    other.mkdir()
    (other / "x").touch()
    for wanted, where, said in (
        (recipe(text, 3), folder, "belongs to another recipe: the setting epochs differ"),
        (recipe(text), other, "exists and is not a sweep"),
    ):
        with pytest.raises(UsageError, match=said):
            Results(wanted, where)
    with pytest.raises(UsageError, match=r"Sweep: recipe must be an rnn\.sweep\.Recipe"):
        Sweep({"units": [2]}, folder)
    with pytest.raises(UsageError, match=r"no setting learning_rate; it has .*Did you mean rate"):
        Sweep(recipe(text, settings={"learning_rate": 1}), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    Path(text).write_text(TEXT + "x", encoding="utf-8")
    with pytest.raises(UsageError, match="belongs to another recipe: data differ"):
        Results(recipe(text), folder)
    assert len(list((folder / "data").iterdir())) == 1


def test_copies_of_private_data_are_private(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("a secret")
    for mode in (0o600, 0o400):
        (tmp_path / "diary.txt").chmod(mode)
        kept = Container(tmp_path / f"{mode:o}").put(str(tmp_path / "diary.txt"))
        assert Path(kept).stat().st_mode & 0o777 == 0o600, "the owner can delete and replace it"


def test_folder_stores_data_by_content(text: str, tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text(TEXT[:300], encoding="utf-8")
    valid = {"valid": str(tmp_path / "valid.txt")}
    results = Results(recipe(text, settings=valid), tmp_path / "s")
    assert {path.name[17:] for path in (tmp_path / "s" / "data").iterdir()} == {"book.txt", "valid.txt"}
    assert Path(results.recipe.data).read_text(encoding="utf-8") == TEXT
    assert Path(results.recipe.settings["valid"]).parent == tmp_path / "s" / "data"
    shutil.copytree(tmp_path / "s", tmp_path / "moved")
    shutil.copy(text, tmp_path / "renamed.txt")
    Results(recipe(str(tmp_path / "renamed.txt"), settings=valid), tmp_path / "s")
    moved = Results(None, tmp_path / "moved")
    assert Path(moved.recipe.data).parent == tmp_path / "moved" / "data"
    Path(moved.recipe.data).write_text("x", encoding="utf-8")
    with pytest.raises(DataError, match="has changed since the sweep began"):
        Results(None, tmp_path / "moved")


def test_tables(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Uses hand-written histories."""
    settings = {"units": Values((4, 8)), "cell": Values(("A_1", "B|<&")), "epochs": 2}
    results = Results(Recipe(text, settings, seeds=2), tmp_path / "sweep")
    for entry in results.entries:
        i, seed = entry.number, entry.seed
        history(entry.run, 3.0 - i - 0.1 * seed, 2.0 - 0.5 * i + 0.2 * seed)
        entry.end("done" if i < 3 else "failed", "" if i < 3 else "no\nmemory | left")
    markdown, tex = report(results), report(results, ".tex")
    for words in (
        "| run | units | cell | bits/char | ± error | runs | epochs | seconds | state |",
        "| 0002-1 | 8 | A_1 | 0.9500 | 0.0500 | 2 | 2 | 0 | done |",
        "- 0003-0: no memory \\| left", "B\\|&lt;&",
    ):  # fmt: skip
        assert words in markdown
    assert (r"A\_1" in tex, r"B|<\&" in tex) == (True, True)
    found = [row[3] for row in csv.reader(io.StringIO(report(results, ".csv")))][1:]
    assert found == sorted(found, key=float)
    with pytest.raises(UsageError, match="kind must be"):
        report(results, ".xls")
    command = ["sweep", str(tmp_path / "sweep"), "--only-report", "--figure", str(tmp_path / "f.svg")]
    assert main([*command, "--against", "units"]) == 0
    assert "bits/char" in (tmp_path / "f.svg").read_text("utf-8")
    assert main([*command, "--by", "size"]) == 1
    assert "results have no setting 'size'" in capsys.readouterr().err


@pytest.mark.usefixtures("inside")
def test_sweep_command(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", *command_of(tmp_path, 1)[4:-1]]
    assert main([*command, f"--report={tmp_path / 'r.csv'}"]) == 0
    assert re.search(r"1 run in[\s\S]*\| 0000-0 \| 4 \| ", capsys.readouterr().out)
    assert (tmp_path / "r.csv").read_text("utf-8").startswith("run,units,bits/char")
    assert main([*command, "--only-report"]) == 0
    assert "| 0000-0 | 4 | " in capsys.readouterr().out


@pytest.mark.usefixtures("inside")
def test_source_of_imported_code_is_reported(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reported before importing, also if only the folder names it; reports import no code."""
    mine, ran, folder = tmp_path / "mine.py", tmp_path / "ran", str(tmp_path / "s")
    code = f"import pathlib\nimport graphnet_rnn as rnn\npathlib.Path({str(ran)!r}).touch()\nclass Own(rnn.GRU): pass\n"
    mine.write_text(code, encoding="utf-8")
    Results(recipe(text, 1, {"cell": f"{mine}:Own", "units": 2}), folder)
    main(["sweep", folder, "--only-report", "--html", str(tmp_path / "p.html")])
    assert "execute this code" not in capsys.readouterr().err
    assert not ran.exists()
    assert main(["sweep", folder]) == 0
    assert (
        f"the recipe uses cells of {mine}; the runs import and execute this code" in capsys.readouterr().err
    )
    assert ran.exists()


def test_guide_recipe(text: str, tmp_path: Path) -> None:
    """The guide uses 24 settings with halving, and only settings of `train`."""
    page = (Path(__file__).parents[4] / "docs" / "hyperparameter_search.md").read_text("utf-8")
    (words,) = re.findall(r"```toml\n(data = .*?)```", page, re.DOTALL)
    (tmp_path / "r.toml").write_text(words, encoding="utf-8")
    given = Recipe.read(tmp_path / "r.toml")
    assert (given.count, given.rungs) == (24, [1, 3, 9])
    assert given.effort == given.folds * given.seeds * (24 * 1 + 8 * 2 + 2 * 6)
    assert Recipe.of(given.mapping(), tmp_path) == given
    given.require_known(settings_of_train())


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_joblib_and_dask_give_the_same_runs(text: str, tmp_path: Path) -> None:
    """Includes halving; uses joblib threads."""
    wanted = recipe(text, 3, halving=Halving(1, 2))
    Sweep(wanted, tmp_path / "here").run()
    seen: list[str] = []
    there = Sweep(wanted, tmp_path / "there", parallel="threading")
    there.run(lambda entry: seen.append(f"{entry.name} {entry.state}"))
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert {"0000-0 cut", "0001-0 done"} <= set(seen) or {"0001-0 cut", "0000-0 done"} <= set(seen)
    assert not list((tmp_path / "there").glob("stop-*"))
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(processes=False, **how) as cluster:
        config = {"backend": "dask", "scheduler_host": cluster.scheduler_address}
        Sweep(wanted, tmp_path / "dask", parallel=config).run()
    assert rows(tmp_path / "dask") == rows(tmp_path / "here")


@pytest.mark.usefixtures("inside")
def test_ray_is_registered_with_joblib(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Ray's package, which is not installed here, starts the runs."""
    asked: list[str] = []

    class Ray(joblib._parallel_backends.ThreadingBackend):
        def __init__(self, address: str = "", **more: Any) -> None:
            super().__init__(**more)
            asked.append(address)

    ours: Any = types.ModuleType("ray.util.joblib")
    ours.register_ray = lambda: joblib.register_parallel_backend("ray", Ray)
    monkeypatch.setitem(sys.modules, "ray.util.joblib", ours)
    sweep = Sweep(recipe(text, 1), tmp_path / "s", workers=2, parallel={"backend": "ray", "address": "there"})
    sweep.run()
    assert [entry.state for entry in sweep.results.look()] == ["done", "done"]
    assert set(asked) == {"there"}
    monkeypatch.delitem(joblib.parallel.BACKENDS, "ray")


def test_missing_packages_are_reported_before_files_are_made(text: str, tmp_path: Path) -> None:
    for missing, how, words in (
        ("optuna", None, r"pip install 'graphnet-rnn\[sweep\]', or use method = 'random'"),
        ("joblib", "loky", r"pip install 'graphnet-rnn\[sweep\]', or leave parallel out"),
        ("ray", "ray", "parallel='ray' needs ray, which is not installed"),
    ):
        wanted = recipe(text, method="grid" if how else "optuna")
        with case(missing), pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            with pytest.raises(UsageError, match=words):
                Sweep(wanted, tmp_path / "s", parallel=how)
        assert not (tmp_path / "s").exists()


def test_runs_started_by_joblib_can_be_stopped(text: str, tmp_path: Path, take: Any) -> None:
    take(Endless)
    sweep = Sweep(recipe(text, 100_000), tmp_path / "s", workers=2, parallel="threading")
    sweep.run(until=lambda: all((entry.run / "history.jsonl").exists() for entry in sweep.results.entries))
    assert {entry.state for entry in sweep.results.look()} == {"begun"}
    assert [stub.returncode for stub in Endless.all] == [130, 130]
    assert not list((tmp_path / "s").glob("stop-*"))


def by_hand(results: Results, number: int, *values: float, ends: bool = True) -> None:
    """A run that has these values."""
    (entry,) = results.of(number)
    history(entry.run, *values)
    if ends:
        entry.end("done")


def test_sampler_proposes_better_settings(text: str, tmp_path: Path) -> None:
    """The cost is a bowl over two settings, one of them conditional; the folder keeps all trials."""
    ranges = {
        "rate": Between(1e-4, 1.0, log=True), "layers": Values((1, 2)),
        "dropout": Between(0.0, 0.9, when={"layers": (2,)}), "epochs": 1,
    }  # fmt: skip
    wanted = Recipe(text, ranges, "optuna", trials=40, sampler=Optuna("TPESampler", {"n_startup_trials": 8}))

    def cost(settings: dict[str, Any]) -> float:
        return (math.log10(settings["rate"]) + 2) ** 2 + abs(settings.get("dropout", 0.9) - 0.3)

    results = Results(wanted, tmp_path / "s")
    for number in range(40):
        assert [bool(entry.settings) for entry in results.look()] == [i < number for i in range(40)]
        results.propose(number)
        (entry,) = results.of(number)
        assert ("dropout" in entry.settings) == (entry.settings["layers"] == 2)
        by_hand(results, number, cost(entry.settings))
    costs = [cost(entry.settings) for entry in Results(None, tmp_path / "s").look()]
    assert statistics.median(costs[-10:]) < 0.3 * statistics.median(costs[:8])
    assert results.names == ["rate", "layers", "dropout"]


def test_pruner_stops_worse_runs(text: str, tmp_path: Path) -> None:
    pruner = Optuna("MedianPruner", {"n_startup_trials": 2})
    wanted = Recipe(text, {"units": Values((1, 2, 3, 4)), "epochs": 9}, pruner=pruner)
    results = Results(wanted, tmp_path / "s")
    for number, values in enumerate(((5.0, 4.0, 3.0), (5.5, 4.5, 3.5), (5.1, 4.1), (5.6, 4.6))):
        by_hand(results, number, *values, ends=number < 2)
    assert [results.is_hopeless(number) for number in (2, 3)] == [False, True]
    results = Results(replace(wanted, pruner=Optuna("MedianPruner", {"n_startup_trials": 9})), tmp_path / "s")
    assert not results.is_hopeless(3)  # another pruner may be tried


def test_every_pruner_of_optuna_works(text: str, tmp_path: Path) -> None:
    """Except one that needs another pruner."""
    needed = {"PercentilePruner": {"percentile": 25.0}, "ThresholdPruner": {"upper": 1.0}}
    for kind in (k for k in dir(optuna.pruners) if k.endswith("Pruner")):
        if kind not in ("BasePruner", "PatientPruner"):
            wanted = recipe(text, 9, pruner=Optuna(kind, needed.get(kind, {})))
            with case(kind):
                results = Results(wanted, tmp_path / kind)
                by_hand(results, 0, 5.0, 4.0, 3.0)
                by_hand(results, 1, 5.0, 4.5, ends=False)
                assert results.is_hopeless(1) == (kind == "ThresholdPruner")


def test_invalid_optuna_settings_are_rejected(text: str, tmp_path: Path) -> None:
    for kind, name, given, words in (
        ("sampler", "Nothing", {}, "Optuna has no sampler Nothing; it has .*TPESampler"),
        ("sampler", "TPESampler", {"speed": 3}, "sampler TPESampler cannot be created: .*speed"),
        ("pruner", "PatientPruner", {}, "pruner PatientPruner cannot be created"),
    ):
        how = {"method": "optuna", "settings": {"rate": Between(1e-4, 1.0, log=True)}}
        with case(name, given), pytest.raises(UsageError, match=words):
            Results(recipe(text, **how, **{kind: Optuna(name, given)}), tmp_path / "s")
        assert not (tmp_path / "s").exists()


def test_settings_absent_from_the_recipe_are_reported_as_damage(text: str, tmp_path: Path) -> None:
    wanted = Recipe(text, {"units": Between(2, 9, whole=True), "epochs": 1}, "optuna", trials=2)
    wrong = [("units", "x"), ("units", 3.5), ("units", 99), ("units", [[]]), ("cell", "a.py:B")]
    for place, (name, value) in enumerate(wrong):
        folder = tmp_path / str(place)
        Results(wanted, folder).propose(0)
        path = folder / "0000-0" / "settings.json"
        forged = json.loads(path.read_text(encoding="utf-8")) | {name: value}
        path.write_text(json.dumps(forged), encoding="utf-8")
        results = Results(wanted, folder)
        entry = results.look()[0]
        with case(name, value):
            assert (entry.state, entry.settings) == ("failed", {})
            assert "settings.json is damaged: its settings are not possible in the recipe" in entry.sentence
            results.propose(1)
            assert 2 <= results.entries[1].settings["units"] <= 9


@pytest.mark.parametrize("asked", ["propose", "is_hopeless"])
def test_failed_search_stops_all_runs(
    text: str, tmp_path: Path, monkeypatch: Any, take: Any, asked: str
) -> None:
    """Runs are stopped immediately."""
    take(Endless)
    settings = {"units": Between(2, 9, whole=True), **SMALL, "epochs": 100_000}
    wanted = Recipe(text, settings, "optuna", trials=3, pruner=Optuna("MedianPruner"))
    sweep = Sweep(wanted, tmp_path / "s", workers=2)
    honest = Tuner.propose

    def fails(tuner: Tuner, number: int, fates: Any) -> Any:
        if asked == "propose" and number == 0:
            return honest(tuner, number, fates)
        raise UsageError("recipe: Optuna cannot search with")

    monkeypatch.setattr(Tuner, asked, fails)
    with pytest.raises(UsageError, match="Optuna cannot search with"):
        sweep.run()
    assert Endless.all
    assert all(stub.returncode is not None for stub in Endless.all)
