"""RunMonitor: trains a run of a sweep in its own process, on its own cores."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from graphnet.system.process import own_cores
from graphnet_rnn.apps.sweep.fork_server import Process, start
from graphnet_rnn.apps.sweep.results import ENDS, SETTINGS, Entry, Results
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.files.whole import locked
from graphnet_rnn.parallel.launcher import alone

#: Seconds between checks of training runs.
LOOK = 0.5
#: Seconds for a stopped run to write its checkpoint.
PATIENCE = 60.0
#: Maximum number of kills of a run without an epoch in between; then it has failed.
DEATHS = 3
#: Exit code of a stopped run.
INTERRUPTED = 130
#: Prefix of error messages of `graphnet-rnn train`.
PROGRAM = "graphnet-rnn train: "


class RunMonitor:
    """Trains runs of a sweep, one or several at a time, in threads, each in its own process."""

    def __init__(self, results: Results, stopped: Callable[[], bool]) -> None:
        self._results, self._stopped = results, stopped

    def train(self, entry: Entry, spent: float, last: bool) -> None:
        """Trains a run up to the budget `spent`; does nothing if another sweep trains it."""
        if self._stopped():
            return
        self._results.propose(entry.number)
        entry.folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(entry.folder, "another sweep does it"))
            except UsageError:
                return
            _wait_for(entry.run)
            entry.look()
            if is_wanted(entry, spent, last):
                with _cores(self._results) as cores:
                    self._process(entry, spent, last, cores)

    def _process(self, entry: Entry, spent: float, last: bool, cores: Sequence[int]) -> None:
        """Trains in a process; restarts from the last checkpoint, a few times, if something else kills it."""
        if not (entry.folder / SETTINGS).exists():
            entry.propose(entry.settings)
        deaths, before = 0, -1
        while True:
            code, errors, stopped = self._attempt(entry, spent, cores)
            entry.look()
            if entry.state == "cut":
                return
            if code == 0:
                entry.reach(spent)
                if last or not entry.has_used(spent):  # early stopping, or another budget
                    entry.end("done")
                return
            if stopped:
                return
            deaths, before = (deaths + 1 if entry.epochs == before else 1), entry.epochs
            if not _is_from_outside(code):
                entry.end("failed", _sentence(errors, code))
                return
            if deaths == DEATHS:  # a run that needs too much memory is killed each time
                entry.end(
                    "failed",
                    f"{_sentence(errors, code)}, {DEATHS} times in epoch {before + 1}; if memory was exhausted, use "
                    "fewer workers, or smaller settings",
                )
                return
            for _ in range(4 * deaths):  # other runs may end and free memory
                if self._stopped():
                    return
                time.sleep(LOOK)

    def _attempt(self, entry: Entry, spent: float, cores: Sequence[int]) -> tuple[int, str, bool]:
        """(exit code, error output, True if the sweep was stopped)"""
        recipe = self._results.recipe
        if any(entry.run.glob("checkpoint-*.safetensors")):
            command = recipe.resuming(entry.run, spent)
        else:
            command = recipe.command(
                {**entry.settings, **recipe.until(spent)}, entry.seed, entry.run, entry.fold
            )
        process = start(command, cores)
        try:
            stopped = self._watch(process, entry)
        except BaseException:
            _end(process)
            raise
        _, errors = process.communicate()
        assert process.returncode is not None
        return process.returncode, errors, stopped

    def _watch(self, process: Process, entry: Entry) -> bool:
        seen, pause = entry.epochs, LOOK / 10  # failures come early
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(pause)
            pause, stopped = LOOK, self._stopped()
            entry.look()
            if not stopped and entry.state != "cut" and seen < entry.epochs < self._results.recipe.epochs:
                seen = entry.epochs
                self._cut_if_hopeless(entry)
            if process.poll() is None and (stopped or entry.state == "cut"):
                _end(process)
                return stopped
        return False

    def _cut_if_hopeless(self, entry: Entry) -> None:
        if self._results.is_hopeless(entry.number):
            for each in self._results.of(entry.number):
                if each.state not in ENDS:
                    each.folder.mkdir(parents=True, exist_ok=True)
                    each.end("cut")


def is_wanted(entry: Entry, spent: float, last: bool) -> bool:
    return entry.state in ("waiting", "begun") and (last or not entry.has_used(spent))


def _wait_for(run: Path) -> None:
    """Waits until the process of a killed sweep has written its checkpoint."""
    if run.is_dir():
        with contextlib.suppress(UsageError), locked(run, "busy", PATIENCE):
            pass


@contextlib.contextmanager
def _cores(results: Results) -> Iterator[list[int]]:
    """Cores of this machine without another run of the sweep; none if all are taken, or cannot be set."""
    threads, claimed = results.recipe.threads, contextlib.ExitStack()
    cores = own_cores() if hasattr(os, "sched_getaffinity") else []
    places = results.folder / "cores"
    with claimed:
        for slot in range(len(cores) // threads):
            try:
                places.mkdir(exist_ok=True)
                claimed.enter_context(locked(places / f"{machine()}-{slot}", "taken"))
            except UsageError:
                continue
            yield cores[slot * threads : (slot + 1) * threads]
            return
        yield []


def machine() -> str:
    """Name of this machine, safe for file names."""
    return "".join(c if c.isalnum() else "-" for c in platform.node()) or "here"


def _end(process: Process) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


def _is_from_outside(code: int) -> bool:
    """True if a signal ended the process, also one after which it wrote its checkpoint."""
    return code < 0 or code == INTERRUPTED


def _sentence(errors: str, code: int) -> str:
    """Last line of the error output, without the program's name; else the reason of the exit."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    lines = [line for line in errors.splitlines() if line.strip()]
    own = [line.removeprefix(PROGRAM) for line in lines if line.startswith(PROGRAM)]  # details may follow
    return (own or lines or [f"exit code {code}"])[-1][:500]


@functools.cache
def settings_of_train() -> frozenset[str]:
    """Options of `graphnet-rnn train`, with _ for -, from its --help. Raises TrainingError if it does not start."""
    asked = subprocess.run(
        [sys.executable, "-m", "graphnet_rnn", "train", "--help"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=alone(os.environ), check=False,
    )  # fmt: skip
    names = re.findall(r"^ +--([a-z][a-z0-9-]*)", asked.stdout, re.MULTILINE)
    if asked.returncode or not names:
        lines = asked.stderr.strip().splitlines()
        raise TrainingError(f"graphnet-rnn train does not start: {lines[-1] if lines else asked.returncode}")
    return frozenset(name.replace("-", "_") for name in names)
