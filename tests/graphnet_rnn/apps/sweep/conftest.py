"""Helpers for sweeps: a text, stand-ins for the processes of runs, and files of runs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from graphnet_rnn.apps.cli import main
from graphnet_rnn.apps.sweep import Recipe, Results, Values, run_monitor, sweep

#: Output belongs to the whole process, so only one run trains at a time.
ONE = threading.Lock()


class Stub:
    """Stand-in for the process of a run; `begin` defines what it does."""

    def __init__(self, command: list[str], cores: list[int]) -> None:
        self.command = command
        self.returncode: int | None = None
        self.said = ""
        self._ended = threading.Event()
        self.begin()

    def end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("stub", timeout or 0)
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        self.wait()
        return "", self.said

    def send_signal(self, number: int) -> None:
        self.end(130)

    def kill(self) -> None:
        self.end(-signal.SIGKILL)


class Inside(Stub):
    """Trains in this process."""

    def begin(self) -> None:
        said = io.StringIO()
        with ONE, contextlib.redirect_stderr(said):
            try:
                code = main(self.command)
            except SystemExit as ended:
                code = int(str(ended.code))
        self.said = said.getvalue()
        self.end(code)


def history(run: Path, *values: float, sample: str = "", more: str = "") -> None:
    """Writes the history of a run with these values."""
    run.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = [{"event": "start", "unit": "bits/char"}]
    rows += [{"event": "epoch", "valid_bpc": value, "sample": sample or f"s{value}"} for value in values]
    text = "".join(json.dumps(row) + "\n" for row in rows) + more
    (run / "history.jsonl").write_text(text, encoding="utf-8")


class Endless(Stub):
    """Has made one epoch, and continues until it is stopped."""

    all: ClassVar[list[Endless]] = []

    def begin(self) -> None:
        self.all.append(self)
        (found,) = (word for word in self.command if word.startswith("--out="))
        history(Path(found.partition("=")[2]), 1.0)


class Killed(Stub):
    """Killed by a signal before its first epoch."""

    count = 0

    def begin(self) -> None:
        type(self).count += 1
        self.kill()


TEXT = "the cat sat on the mat, and the rat sat on the hat.\n" * 20
SMALL: dict[str, Any] = {"time": 10, "batch": 4, "sample": 0, "no_early_stopping": True}
FILES = ("history.jsonl", "model.safetensors")


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Stub]], None]:
    """`take(Inside)` makes runs by this stand-in, and looks at them often."""
    for module in (run_monitor, sweep):
        monkeypatch.setattr(module, "LOOK", 0.02)
    Endless.all, Killed.count = [], 0

    def take(kind: type[Stub]) -> None:
        monkeypatch.setattr(run_monitor, "start", kind)

    return take


@pytest.fixture
def inside(take: Callable[[type[Stub]], None]) -> None:
    take(Inside)


def recipe(text: str, epochs: int = 2, settings: Mapping[str, Any] | None = None, **more: Any) -> Recipe:
    return Recipe(text, {"units": Values((4, 8)), **SMALL, "epochs": epochs, **(settings or {})}, **more)


def rows(folder: Path) -> dict[str, bytes]:
    """Contents of the files of each run that do not depend on when it was made."""
    found = (path for name in FILES for path in folder.glob(f"*/run/{name}"))
    return {f"{path.parent.parent.name}/{path.name}": path.read_bytes() for path in found}


def require_those_of_train(results: Results, folder: Path) -> None:
    """All runs have the files that `train` makes, and each epoch was made once."""
    for entry in results.look():
        assert entry.state == "done", entry.sentence
        alone, epochs = folder / entry.name, {"epochs": results.recipe.epochs}
        assert main(results.recipe.command({**entry.settings, **epochs}, entry.seed, alone, entry.fold)) == 0
        for name in FILES:
            assert (entry.run / name).read_bytes() == (alone / name).read_bytes()


def wait_until(happened: Callable[[], bool]) -> None:
    """Waits for an event; fails after 300 s."""
    end = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < end, "this takes more than 300 s"
        time.sleep(0.02)


def command_of(folder: Path, epochs: int, units: str = "[4]", more: str = "") -> list[str]:
    """Command of a sweep with one run for each value of units, in the folder s."""
    (folder / "recipe.toml").write_text(
        f"data = 'book.txt'\n{more}\n[settings]\nunits = {{ values = {units} }}\ntime = 10\nbatch = 4\n"
        f"sample = 0\nno_early_stopping = true\nepochs = {epochs}\n",
        encoding="utf-8",
    )
    python = [sys.executable, "-m", "graphnet_rnn", "sweep"]
    return [*python, str(folder / "recipe.toml"), f"--out={folder / 's'}", "--quiet"]


def written(folder: Path) -> int:
    """Bytes of all histories."""
    return sum(path.stat().st_size for path in folder.glob("*/run/history.jsonl"))


def target(link: Path) -> str:
    with contextlib.suppress(OSError):  # closed meanwhile
        return os.readlink(link)
    return ""


def numbers_of(folder: Path) -> list[int]:
    """Process ids of the runs in this folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"sweep.fork_server" in (each / "cmdline").read_bytes() and any(
                target(file).startswith(f"{folder}/") for file in (each / "fd").iterdir()
            ):
                found.append(int(each.name))
    return found
