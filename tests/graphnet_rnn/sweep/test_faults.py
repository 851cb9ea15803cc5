"""What goes wrong in real runs: losses that are not finite, no memory, processes that are killed, several sweeps."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from graphnet.system.json_lines import read_rows
from graphnet_rnn.errors import DataError
from graphnet_rnn.sweep import Book, Halving, Sweep, Values, baker
from tests.graphnet_rnn.sweep.test_sweep import _numbers_of, recipe, rows

TEXT = "the cat sat on the mat, and the rat sat on the hat.\n" * 20


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    return str(path)


def require_each_epoch_once(folder: Path, epochs: int) -> None:
    for history in folder.glob("*/run/history.jsonl"):
        found = [row for row in read_rows(history, DataError) if row["event"] in ("start", "epoch")]
        assert [row.get("epoch") for row in found if row["event"] == "epoch"] == list(range(1, epochs + 1))
        assert sum(row["event"] == "start" for row in found) == 1


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


class Killer(threading.Thread):
    """Ends processes that train one run of a folder: once that has so many epochs, so often."""

    def __init__(self, folder: Path, name: str, number: int, epochs: int = 0, most: int = 1) -> None:
        super().__init__(daemon=True)
        self._run, self._number, self._epochs, self._most = folder / name / "run", number, epochs, most
        self.killed: list[int] = []
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.02) and len(self.killed) < self._most:
            history = self._run / "history.jsonl"
            known = history.read_text("utf-8").count('"event": "epoch"') if history.exists() else 0
            if known >= self._epochs and any(self._run.glob("checkpoint-*")) >= bool(self._epochs):
                for process in set(_numbers_of(self._run)) - set(self.killed):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, self._number)
                        self.killed.append(process)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def __enter__(self) -> Killer:
        self.start()
        return self


@pytest.mark.skipif(sys.platform != "linux", reason="processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_whose_process_is_killed_goes_on_from_its_checkpoint(
    text: str, tmp_path: Path, number: int
) -> None:
    wanted = recipe(text, 30)
    Sweep(wanted, tmp_path / "whole", workers=1).run()
    sweep = Sweep(wanted, tmp_path / "s", workers=2)
    with Killer(tmp_path / "s", "0001-0", number, epochs=3) as killer:
        sweep.run()
    assert len(killer.killed) == 1
    assert [entry.state for entry in sweep.book.look()] == ["done", "done"]
    assert rows(tmp_path / "s") == rows(tmp_path / "whole")
    require_each_epoch_once(tmp_path / "s", 30)


@pytest.mark.skipif(sys.platform != "linux", reason="processes in /proc")
def test_a_run_that_is_killed_again_and_again_has_failed(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a system without memory: after three times without an epoch; the other goes on, and so does it by retry."""
    monkeypatch.setattr(baker, "LOOK", 0.1)
    sweep = Sweep(recipe(text, 3), tmp_path / "s", workers=1)
    with Killer(tmp_path / "s", "0000-0", signal.SIGKILL, most=99) as killer:
        sweep.run()
    bad, good = sweep.book.look()
    assert (bad.state, good.state, good.epochs) == ("failed", "done", 3)
    assert len(killer.killed) == baker.DEATHS
    assert bad.sentence.startswith(
        "ended by SIGKILL, 3 times in epoch 1; if the system ended it for want of memory"
    )
    sweep.run(retry=True)
    assert [entry.state for entry in sweep.book.look()] == ["done", "done"]
    require_each_epoch_once(tmp_path / "s", 3)


#: The command line, on a machine that is called otherwise.
OTHER = (
    "import platform, runpy; platform.node = lambda: 'other'; "
    "runpy.run_module('graphnet_rnn', run_name='__main__', alter_sys=True)"
)


@pytest.mark.skipif(sys.platform != "linux", reason="processes in /proc")
@pytest.mark.parametrize("killed", [False, True])
def test_two_processes_and_two_machines_share_a_folder(text: str, tmp_path: Path, killed: bool) -> None:
    """Each run is made once, to the same bytes, with halving, also where one of the two is killed and comes no more."""
    wanted = recipe(text, 16, seeds=2, halving=Halving(8, 2))
    Sweep(wanted, tmp_path / "whole").run()
    folder = tmp_path / "s"
    Book(wanted, folder)
    options = ["sweep", str(folder), "--quiet", "--workers=1"]
    begun = [
        subprocess.Popen([sys.executable, *program, *options], stderr=subprocess.PIPE, text=True)
        for program in (["-m", "graphnet_rnn"], ["-c", OTHER])
    ]
    cores: set[str] = set()
    end = time.monotonic() + 200
    while any(process.poll() is None for process in begun) and time.monotonic() < end:
        cores |= {path.name.split("-")[0] for path in (folder / "cores").glob(".*.lock")}
        if killed and len(cores) == 2 and len(list(folder.glob("*/run/checkpoint-*"))) >= 2:
            begun[1].kill()  # while it trains
        time.sleep(0.02)
    said = [process.communicate(timeout=60)[1] for process in begun]
    assert [process.returncode for process in begun] == [0, -signal.SIGKILL if killed else 0], said
    assert len(cores) == 2
    assert ".other" in cores
    assert rows(folder) == rows(tmp_path / "whole")
    states = [entry.state for entry in Book(None, folder).look()]
    assert states == [entry.state for entry in Book(None, tmp_path / "whole").look()]
    assert sorted(states) == ["cut", "cut", "done", "done"]
    for entry in Book(None, folder).look():
        found = list(read_rows(entry.run / "history.jsonl", DataError))
        assert [row["epoch"] for row in found if row["event"] == "epoch"] == list(range(1, entry.epochs + 1))
        assert sum(row["event"] == "start" for row in found) == 1
