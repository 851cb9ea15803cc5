"""What goes wrong in real runs: losses that are not finite, no memory, processes that are killed, several sweeps."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphnet.system.json_lines import read_rows
from graphnet_rnn.errors import DataError
from graphnet_rnn.sweep import Book, Halving, Sweep, Values, baker
from tests.graphnet_rnn.sweep.inside import Inside, Killed
from tests.graphnet_rnn.sweep.test_sweep import (
    _numbers_of,
    recipe,
    require_those_of_train,
    rows,
    wait_until,
)


def require_each_epoch_once(folder: Path, epochs: int) -> None:
    for history in folder.glob("*/run/history.jsonl"):
        found = [row for row in read_rows(history, DataError) if row["event"] in ("start", "epoch")]
        assert [row.get("epoch") for row in found if row["event"] == "epoch"] == list(range(1, epochs + 1))
        assert sum(row["event"] == "start" for row in found) == 1


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"rate": Values((0.01, 1e38)), "optimizer": "sgd", "units": 4},
            r"the loss is (inf|nan).* training cannot go on",
        ),
        ({"units": Values((4, 3_000_000))}, "memory"),
    ],
    ids=["not finite", "no memory"],
)
def test_a_run_that_fails_is_told_and_stops_no_other(
    text: str, tmp_path: Path, settings: dict[str, object], words: str
) -> None:
    sweep = Sweep(recipe(text, settings=settings), tmp_path / "s", workers=1)
    sweep.run()
    good, bad = sweep.book.look()
    assert (good.state, good.epochs) == ("done", 2)
    assert bad.state == "failed"
    assert re.fullmatch(f".*({words}).*", bad.sentence), bad.sentence  # on one line
    again = Book(None, tmp_path / "s").look()
    assert [(entry.state, entry.sentence) for entry in again] == [("done", ""), ("failed", bad.sentence)]


@pytest.mark.skipif(sys.platform != "linux", reason="processes in /proc")
def test_a_run_whose_process_is_killed_goes_on_from_its_checkpoint(text: str, tmp_path: Path) -> None:
    """Once by each signal."""
    sweep = Sweep(recipe(text, 60, settings={"units": 4}), tmp_path / "s", workers=1)
    run = sweep.book.entries[0].run
    left, killed = [signal.SIGKILL, signal.SIGTERM], set[int]()

    def kill() -> bool:
        """What `run` asks again and again; never to end."""
        history = run / "history.jsonl"
        known = history.read_text("utf-8").count('"event": "epoch"') if history.exists() else 0
        if left and known >= 6 - 3 * len(left) and any(run.glob("checkpoint-*")):
            for process in set(_numbers_of(run)) - killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, left.pop(0))
                    killed.add(process)
        return False

    sweep.run(until=kill)
    assert len(killed) == 2
    require_those_of_train(sweep.book, tmp_path / "alone")
    require_each_epoch_once(tmp_path / "s", 60)


def test_a_run_that_is_killed_again_and_again_has_failed(text: str, tmp_path: Path, take: Any) -> None:
    """As by a system without memory: after three times without an epoch; so it goes on by retry."""
    take(Killed)
    sweep = Sweep(recipe(text, settings={"units": 4}), tmp_path / "s", workers=1)
    sweep.run()
    (bad,) = sweep.book.look()
    assert bad.state == "failed"
    assert Killed.count == baker.DEATHS
    assert bad.sentence.startswith(
        "ended by SIGKILL, 3 times in epoch 1; if the system ended it for want of memory"
    )
    take(Inside)
    sweep.run(retry=True)
    assert sweep.book.look()[0].state == "done"
    require_each_epoch_once(tmp_path / "s", 2)


#: The command line, on a machine that is called otherwise.
OTHER = (
    "import platform, runpy; platform.node = lambda: 'other'; "
    "runpy.run_module('graphnet_rnn', run_name='__main__', alter_sys=True)"
)


@pytest.mark.skipif(sys.platform != "linux", reason="processes in /proc")
@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_two_processes_and_two_machines_share_a_folder(
    text: str, tmp_path: Path, killed: bool, take: Any
) -> None:
    """Each run is made once, to the same bytes, with halving, also where one of the two is killed and comes no more."""
    wanted = recipe(text, 16, halving=Halving(8, 2))
    folder = tmp_path / "s"
    Book(wanted, folder)
    options = ["sweep", str(folder), "--quiet", "--workers=1"]
    begun = [
        subprocess.Popen([sys.executable, *program, *options], stderr=subprocess.PIPE, text=True)
        for program in (["-m", "graphnet_rnn"], ["-c", OTHER])
    ]
    cores: set[str] = set()

    def over() -> bool:
        cores.update(path.name.split("-")[0] for path in (folder / "cores").glob(".*.lock"))
        if killed and len(cores) == 2 and len(list(folder.glob("*/run/checkpoint-*"))) >= 2:
            begun[1].kill()  # while it trains
        return all(process.poll() is not None for process in begun)

    wait_until(over)
    said = [process.communicate()[1] for process in begun]
    assert [process.returncode for process in begun] == [0, -signal.SIGKILL if killed else 0], said
    assert len(cores) == 2
    assert ".other" in cores
    take(Inside)
    Sweep(wanted, tmp_path / "whole").run()
    assert rows(folder) == rows(tmp_path / "whole")
    entries = Book(None, folder).look()
    assert [e.state for e in entries] == [e.state for e in Book(None, tmp_path / "whole").look()]
    assert sorted(entry.state for entry in entries) == ["cut", "done"]
    for entry in entries:
        found = list(read_rows(entry.run / "history.jsonl", DataError))
        assert [row["epoch"] for row in found if row["event"] == "epoch"] == list(range(1, entry.epochs + 1))
        assert sum(row["event"] == "start" for row in found) == 1
