"""Randomly killed runs, and pairs of processes on the same files, end with the same files."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import pytest

from graphnet_rnn.__main__ import main
from tests.graphnet_rnn.training.runs import contents, require_same_files
from tests.tables import case

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]
KILLS, PAIRS = 60, 50
TRAIN = [
    "train", "text.txt", "--units", "8", "--dropout", "0.2", "--sample", "5", "--time", "5", "--batch", "4",
    "--threads", "1", "--epochs", "5", "--out", "run", "--quiet", "--checkpoint-seconds", "0",
]  # fmt: skip
RESUME = ["train", "--resume", "run", "--quiet", "--checkpoint-seconds", "0"]


class Process:
    """Runs a command in a folder, in a forked process (which starts at once); output goes to `name`.said."""

    def __init__(self, folder: Path, command: list[str], name: str = "it") -> None:
        self.said = folder / f"{name}.said"
        self.number = os.fork()
        if not self.number:
            code = 99
            try:
                os.chdir(folder)
                os.dup2(os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
                os.dup2(2, 1)
                sys.stdout = sys.stderr = os.fdopen(2, "w", closefd=False)
                code = main(command)
                sys.stderr.flush()
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)

    def end(self) -> int:
        """Waits for the end. Returns the exit code, or minus the number of the signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.number, 0)[1])

    def kill_after(self, seconds: float) -> int:
        """Sends SIGKILL after `seconds`, unless the process has ended. Returns the exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ended, status = os.waitpid(self.number, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.001)
        os.kill(self.number, signal.SIGKILL)
        return self.end()


def two(folder: Path, command: list[str], pause: float, rng: random.Random) -> tuple[list[int], list[str]]:
    """Runs two processes at once; returns their exit codes and outputs."""
    processes = []
    for name in "ab":
        processes.append(Process(folder, command, name))
        time.sleep(rng.choice([0, 0, pause]))
    return [each.end() for each in processes], [each.said.read_text(encoding="utf-8") for each in processes]


def new_folder(path: Path) -> Path:
    path.mkdir()
    (path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 25)
    return path


def continued(folder: Path) -> list[str]:
    """RESUME if there is a checkpoint, else TRAIN."""
    return RESUME if any(folder.glob("run/checkpoint-*")) else TRAIN


def left_over(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if path.suffix in (".part", ".lock")]


@pytest.fixture
def whole(tmp_path: Path) -> tuple[dict[str, bytes], float]:
    """Files and duration (seconds) of an undisturbed run."""
    for name in ("first", "whole"):  # the first finds no compiled kernels
        folder, started = new_folder(tmp_path / name), time.monotonic()
        process = Process(folder, TRAIN)
        assert process.end() == 0, process.said.read_text(encoding="utf-8")
        assert not left_over(folder)
    return contents(folder / "run"), time.monotonic() - started


def test_repeatedly_killed_runs_resume_to_the_same_files(
    tmp_path: Path, whole: tuple[dict[str, bytes], float]
) -> None:
    rng, kills, runs = random.Random(0), 0, 0
    while kills < KILLS:
        folder = new_folder(tmp_path / str(runs))
        runs += 1
        code, killed = 99, 0
        while code:
            process = Process(folder, continued(folder))
            code = process.kill_after(rng.uniform(0, whole[1] / (1 if killed > 8 else 3)))
            killed += code != 0
            assert code in (0, -signal.SIGKILL), process.said.read_text(encoding="utf-8")
        kills += killed
        with case(runs, killed):
            require_same_files(contents(folder / "run"), whole[0])
        assert not left_over(folder)


def test_two_processes_starting_the_same_run(tmp_path: Path, whole: tuple[dict[str, bytes], float]) -> None:
    """One process trains normally; the other one ends with a one-line error."""
    rng = random.Random(1)
    for pair in range(PAIRS):
        folder = new_folder(tmp_path / str(pair))
        ended, said = two(folder, TRAIN, rng.uniform(0, whole[1] / 2), rng)
        assert sorted(ended) == [0, 2], said
        refused = said[ended.index(2)]
        assert refused.count("\n") == 1, refused
        assert "another process" in refused or "already contains a run" in refused
        require_same_files(contents(folder / "run"), whole[0])
        assert not left_over(folder)


def test_two_processes_resuming_the_same_run(tmp_path: Path, whole: tuple[dict[str, bytes], float]) -> None:
    """The files are correct, whichever process acquires the lock first."""
    rng, contended = random.Random(2), 0
    for pair in range(PAIRS):
        folder = new_folder(tmp_path / str(pair))
        Process(folder, TRAIN).kill_after(rng.uniform(0.3, 0.7) * whole[1])
        ended, said = two(folder, continued(folder), rng.uniform(0, whole[1]), rng)
        assert sorted(ended) in ([0, 0], [0, 2]), said
        contended += 2 in ended
        require_same_files(contents(folder / "run"), whole[0])
    assert contended > PAIRS // 4, "there was something to contend for"
