"""Sweeps with failures: non-finite losses, no memory, kills, damaged files, several sweeps at once."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphnet.system.json_lines import read_rows
from graphnet_rnn.apps.sweep import Halving, Recipe, Results, Sweep, Values, fork_server, run_monitor
from graphnet_rnn.apps.sweep.fork_server import FORK_SERVER
from graphnet_rnn.apps.sweep.report import report
from graphnet_rnn.errors import DataError
from tests.graphnet_rnn.apps.sweep import conftest as runs
from tests.graphnet_rnn.apps.sweep.conftest import Inside, Killed, command_of, history, recipe, rows
from tests.tables import case, some_quick

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes in /proc")


def require_each_epoch_once(folder: Path) -> None:
    for path in folder.glob("*/run/history.jsonl"):
        rows = [row for row in read_rows(path, DataError) if row["event"] in ("start", "epoch")]
        found = [row.get("epoch") for row in rows]
        assert found == [None, *range(1, len(found))]


BAD_RATE = {"rate": Values((0.01, 1e38)), "optimizer": "sgd", "units": 4}


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("settings", "words"),
    [(BAD_RATE, r"the loss is (inf|nan).* cannot go on"), ({"units": Values((4, 3_000_000))}, "memory")],
)
def test_failed_runs_do_not_stop_others(text: str, tmp_path: Path, settings: Any, words: str) -> None:
    sweep = Sweep(recipe(text, settings=settings), tmp_path / "s", workers=1)
    sweep.run()
    good, bad = sweep.results.look()
    assert (good.state, good.epochs) == ("done", 2)
    assert bad.state == "failed"
    assert re.fullmatch(f".*({words}).*", bad.sentence), bad.sentence  # on one line
    again = Results(None, tmp_path / "s").look()
    assert [(entry.state, entry.sentence) for entry in again] == [("done", ""), ("failed", bad.sentence)]


@pytest.mark.usefixtures("inside")
def test_rejected_commands_can_be_retried(text: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Recipe, "command", lambda *_: ["nothing"])
    sweep = Sweep(recipe(text, settings={"units": 4}), tmp_path / "sweep")
    sweep.run()
    (entry,) = sweep.results.look()
    assert entry.state == "failed"
    assert "invalid choice: 'nothing'" in entry.sentence
    monkeypatch.undo()
    sweep.run()
    assert entry.state == "failed"
    sweep.run(retry=True)
    assert (entry.state, entry.epochs) == ("done", 2)


@linux
@pytest.mark.parametrize("search", some_quick([True, False], [True]))
def test_killed_sweeps_resume(text: str, tmp_path: Path, take: Any, search: bool) -> None:
    """Killed grids and Optuna searches resume from their folders and lose nothing."""
    more = "method = 'optuna'\ntrials = 3\npruner = 'MedianPruner'"
    how = (2, "[2, 4, 8, 16]", more) if search else (40, "[4]")
    command, out = command_of(tmp_path, *how), tmp_path / "s"
    for number in [signal.SIGKILL, signal.SIGTERM][: 1 if search else 2]:
        before = runs.written(out)
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        runs.wait_until(lambda before=before: runs.written(out) > before)
        process.send_signal(number)
        _, said = process.communicate(timeout=300)
        assert process.returncode == (-number if number == signal.SIGKILL else 130), said
        runs.wait_until(lambda: not runs.numbers_of(out))
    before = {path: path.read_bytes() for path in out.glob("*/settings.json")}
    assert before
    (tmp_path / "recipe.toml").unlink()
    Path(text).unlink()
    take(Inside)
    Sweep(None, out).run()
    entries = Results(None, out).look()
    assert {entry.state for entry in entries} <= {"done", "cut"}, [entry.sentence for entry in entries]
    assert len(entries) == (3 if search else 1)
    assert all(path.read_bytes() == content for path, content in before.items())
    if not search:
        runs.require_those_of_train(Results(None, out), tmp_path / "alone")


@linux
def test_killed_runs_resume_from_their_checkpoint(text: str, tmp_path: Path) -> None:
    """Kills the run by each signal once, and then the process from which it was forked."""
    sweep = Sweep(recipe(text, 600, {"units": 4}), tmp_path / "s", workers=1)
    run = sweep.results.entries[0].run
    left, killed, servers = [signal.SIGKILL, signal.SIGTERM], set[int](), list[int]()

    def kill() -> bool:
        """Kills processes, then the fork server. `run` calls this repeatedly; False: continue."""
        made = run / "history.jsonl"
        known = made.read_text("utf-8").count('"event": "epoch"') if made.exists() else 0
        if left and known >= 6 - 3 * len(left) and any(run.glob("checkpoint-*")):
            for process in set(runs.numbers_of(run)) - killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, left.pop(0))
                    killed.add(process)
        elif not left and not servers and known >= 8 and FORK_SERVER._running is not None:
            servers.append(FORK_SERVER._running[0].pid)
            FORK_SERVER._running[0].kill()
        return False

    sweep.run(until=kill)
    assert (len(killed), len(servers)) == (2, 1)
    assert FORK_SERVER._running is not None
    assert FORK_SERVER._running[0].pid not in servers
    runs.require_those_of_train(sweep.results, tmp_path / "alone")
    require_each_epoch_once(tmp_path / "s")


def test_repeatedly_killed_runs_fail(text: str, tmp_path: Path, take: Any) -> None:
    """Killed as by a system without memory: after three kills without an epoch, the run has failed."""
    take(Killed)
    sweep = Sweep(recipe(text, settings={"units": 4}), tmp_path / "s", workers=1)
    sweep.run()
    (bad,) = sweep.results.look()
    assert (bad.state, Killed.count) == ("failed", run_monitor.DEATHS)
    assert bad.sentence.startswith("ended by SIGKILL, 3 times in epoch 1; if memory was exhausted")
    take(Inside)
    sweep.run(retry=True)
    assert sweep.results.look()[0].state == "done"
    require_each_epoch_once(tmp_path / "s")


@linux
@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_two_machines_share_a_folder(text: str, tmp_path: Path, killed: bool, take: Any) -> None:
    """Each run is made once, with the same bytes, with halving, even if one machine is killed for good."""
    wanted, folder = recipe(text, 16, halving=Halving(8, 2)), tmp_path / "s"
    Results(wanted, folder)
    run = "import runpy; runpy.run_module('graphnet_rnn', run_name='__main__', alter_sys=True)"
    other = f"import platform; platform.node = lambda: 'other'; {run}"
    options = ["sweep", str(folder), "--quiet", "--workers=1"]
    commands = [[sys.executable, "-c", program, *options] for program in (run, other)]
    begun = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    cores: set[str] = set()

    def over() -> bool:
        cores.update(path.name.split("-")[0] for path in (folder / "cores").glob(".*.lock"))
        if killed and len(cores) == 2 and len(list(folder.glob("*/run/checkpoint-*"))) >= 2:
            begun[1].kill()  # while it trains
        return all(process.poll() is not None for process in begun)

    runs.wait_until(over)
    said = [process.communicate()[1] for process in begun]
    assert [process.returncode for process in begun] == [0, -signal.SIGKILL if killed else 0], said
    assert len(cores) == 2
    assert ".other" in cores
    take(Inside)
    Sweep(wanted, tmp_path / "whole").run()
    assert rows(folder) == rows(tmp_path / "whole")
    entries = Results(None, folder).look()
    assert [e.state for e in entries] == [e.state for e in Results(None, tmp_path / "whole").look()]
    assert sorted(entry.state for entry in entries) == ["cut", "done"]
    require_each_epoch_once(folder)


@linux
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "sweep"])
def test_killed_joblib_workers_lose_nothing(text: str, tmp_path: Path, victim: str) -> None:
    """If the sweep is killed, its workers start no more runs."""
    out = tmp_path / "s"
    command = command_of(tmp_path, 30, "[4]" if victim == "worker" else "[4, 5, 6, 7]")
    # With one run_monitor, joblib starts no process.
    process = subprocess.Popen([*command, "--parallel=loky", "--workers=2"])
    runs.wait_until(lambda: runs.written(out) > 0 and bool(runs.numbers_of(out)))
    if victim == "sweep":
        process.kill()
        process.wait()
        runs.wait_until(lambda: not runs.numbers_of(out))
        begun = sorted(out.glob("*/run"))
        time.sleep(2)
        assert sorted(out.glob("*/run")) == begun
        assert subprocess.run(command, timeout=600, check=False).returncode == 0
    else:
        status = Path(f"/proc/{runs.numbers_of(out)[0]}/stat").read_text(encoding="utf-8")
        os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)  # its parent
        assert process.wait(timeout=600) == 0
    runs.require_those_of_train(Results(None, out), tmp_path / "alone")


def test_history_rows_are_read_once(text: str, tmp_path: Path) -> None:
    """Includes a half-written row, and a history that was cut when its run was resumed."""
    results = Results(Recipe(text, {"units": 4, "epochs": 9}), tmp_path / "sweep")
    (entry,) = results.entries
    history(entry.run, 3.0, more='{"event": "epoch", "')
    entry.look()
    assert (entry.values, entry.sample) == ([3.0], "s3.0")
    history(entry.run, 3.0, 2.0, 1.0)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: entry.look(), range(8)))
    assert entry.values == [3.0, 2.0, 1.0]
    history(entry.run, 3.0)
    entry.look()
    assert (entry.values, entry.unit) == ([3.0], "bits/char")
    # The history was cut and is longer again: the old end is now within a row.
    history(entry.run, 2.25, 1.5)
    entry.look()
    assert (entry.state, entry.values) == ("begun", [2.25, 1.5])
    history(entry.run, 2.25, 1.5, more='{"event": "epoch", \n')
    entry.look()
    assert entry.state == "failed"
    assert re.search(r"history\.jsonl, line \d+, .*; remove .* to train it again", entry.sentence)


@linux
def test_failed_start_of_the_fork_server_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "graphnet_rnn.py").write_text("raise ImportError('a broken package')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    broken = fork_server._ForkServer()
    monkeypatch.setattr(fork_server, "FORK_SERVER", broken)
    process = fork_server.start(["train"], [])
    assert process.wait() == 1
    assert "a broken package" in process.communicate()[1]
    broken.end()


def test_damaged_runs_do_not_hide_others(text: str, tmp_path: Path) -> None:
    rows = (
        '{"event": "epoch", "epoch": 1, "valid_bits": "x", "seconds": "x"}', '["event": "epoch", "seconds"]',
        '{"event": "epoch", "epoch": 1, "valid_bits": {}, "seconds": null}', '"event": "epoch" "epoch"',
    )  # fmt: skip
    good = '{"event": "epoch", "epoch": 1, "valid_bits": 2.0, "seconds": 1.0}\n'
    for place, (name, row) in enumerate(itertools.product(("history.jsonl", "timing.jsonl"), rows)):
        results = Results(recipe(text, 1), tmp_path / str(place))
        for entry in results.entries:
            entry.run.mkdir(parents=True)
            for each in ("history.jsonl", "timing.jsonl"):
                (entry.run / each).write_text(good, encoding="utf-8")
        (results.entries[0].run / name).write_text(row + "\n", encoding="utf-8")
        first, second = results.look()
        with case(name, row):
            assert first.state == "failed"
            told = rf"{name}(, line 1, (is not JSON|must be an object)| is damaged)"
            assert re.search(told, first.sentence)
            assert second.values == [2.0]
            assert f"/{name}" in report(results)


def test_infinite_validation_costs_are_not_those_of_training(text: str, tmp_path: Path) -> None:
    rows = (
        '{"event": "epoch", "epoch": 1, "train_bits": 0.1, "valid_bits": null, "not_finite": ["valid_bits"]}\n',
        '{"event": "epoch", "epoch": 1, "train_bits": 3.0, "valid_bits": 2.0}\n',
    )
    results = Results(recipe(text, 1), tmp_path / "s")
    for entry, row in zip(results.entries, rows, strict=True):
        entry.run.mkdir(parents=True)
        (entry.run / "history.jsonl").write_text(row, encoding="utf-8")
    first, second = results.look()
    assert (first.values, second.values) == ([math.inf], [2.0])


def test_finished_runs_have_all_their_epochs(text: str, tmp_path: Path) -> None:
    first, second = Results(recipe(text, 2), tmp_path / "s").entries
    row = '{"event": "epoch", "epoch": %d, "valid_bits": 2.0, "seconds": 1.0}\n'
    for entry in (first, second):
        entry.run.mkdir(parents=True)
        (entry.run / "history.jsonl").write_text(row % 1 + row % 2, encoding="utf-8")
        entry.end("done")
    for left in (row % 1, "", "zzz\n"):
        (first.run / "history.jsonl").write_text(left, encoding="utf-8")
        results = Results(None, tmp_path / "s")
        assert [entry.state for entry in results.look()] == ["failed", "done"]
        assert re.search(r"history.jsonl has only \d of 2 epochs; remove .*0000", results.entries[0].sentence)
        assert [found.known for found in results.best()] == [1]
        results.entries[0].try_again()
        assert results.entries[0].state == "failed"
    (first.run / "history.jsonl").write_text(row % 1 + row % 2, encoding="utf-8")
    results.entries[0].try_again()
    assert (results.entries[0].state, results.entries[0].epochs) == ("done", 2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_pipes_and_devices_do_not_block(text: str, tmp_path: Path) -> None:
    makers = (os.mkfifo, lambda path: os.symlink("/dev/zero", path))
    found = itertools.product(("history.jsonl", "timing.jsonl"), makers)
    results = Results(recipe(text, 1, seeds=2), tmp_path / "s")
    for entry, (name, make) in zip(results.entries, found, strict=True):
        entry.run.mkdir(parents=True)
        make(entry.run / name)
        entry.look()
        assert entry.state == "failed"
        assert name in entry.sentence
