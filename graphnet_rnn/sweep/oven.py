"""Sweep: the runs of a recipe, each a process of its own, on all cores."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from graphnet.system.cores import own_cores
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.whole import locked
from graphnet_rnn.parallel.mpi import alone
from graphnet_rnn.settings import whole_number
from graphnet_rnn.sweep.book import SETTINGS, Book, Entry, write_json
from graphnet_rnn.sweep.recipe import Recipe

__all__ = ["Sweep"]

#: Seconds between looks at a run that is computing.
LOOK = 0.5
#: Seconds that a run may take to write its checkpoint when it is told to end.
PATIENCE = 60.0


class Sweep:
    """Trains all runs of a recipe in a folder, so many at a time; what was done before is not done again.

    workers: how many runs at a time; by default as many as there are cores for. Killed in any way, it goes on from the
    checkpoints of its runs, and gives the same results to the bit. Several sweeps, also on other machines, may work in
    one folder: each run is claimed by one of them. A run that fails is recorded with its sentence.

        sweep = Sweep(Recipe.read("recipe.toml"), "sweeps/gru")
        sweep.run(print)
        for settings, mean, error, known, runs in sweep.book.best(): ...
    """

    def __init__(self, recipe: Recipe, folder: str | Path, workers: int | None = None) -> None:
        self.recipe, self.book = recipe, Book(recipe, folder)
        most = max(1, len(own_cores()) // recipe.threads)
        self.workers = most if workers is None else whole_number("Sweep: workers", workers)
        self._slots = [threading.Lock() for _ in range(self.workers)]
        self._stopped = threading.Event()
        self._listener: Callable[[Entry], object]
        self._telling = threading.Lock()

    def run(self, listener: Callable[[Entry], object] | None = None) -> None:
        """Until every run has ended, or was cut; Ctrl-C ends it, once the runs have written their checkpoints.

        listener: called with an entry whenever it may have changed, one at a time.
        """
        heard = listener or (lambda entry: None)

        def tell(entry: Entry) -> None:
            with self._telling:
                heard(entry)

        self._listener = tell
        self._stopped.clear()
        rungs = self.recipe.rungs
        going = self.book.look()
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(self.workers))
            stack.callback(self._stopped.set)
            for place, epochs in enumerate(rungs):
                last = place + 1 == len(rungs)
                self._train(pool, going, epochs, last)
                if self._stopped.is_set():
                    return
                going = going if last else self._kept(going, epochs)

    def stop(self) -> None:
        """Ends `run`, which is in another thread, once its runs have written their checkpoints."""
        self._stopped.set()

    def _train(self, pool: ThreadPoolExecutor, entries: Sequence[Entry], epochs: int, last: bool) -> None:
        """All of them to so many epochs; those that another sweep has claimed are waited for."""
        waiting = list(entries)
        while waiting and not self._stopped.is_set():
            futures: dict[Future[bool], Entry] = {
                pool.submit(self._one, entry, epochs, last): entry for entry in waiting
            }
            waiting = []
            try:
                for future in as_completed(futures):
                    if not future.result():
                        waiting.append(futures[future])
            except BaseException:
                self._stopped.set()
                raise
            if waiting and not self._stopped.wait(4 * LOOK):
                continue

    def _kept(self, entries: Sequence[Entry], epochs: int) -> list[Entry]:
        """The best configurations, by their means over seeds and folds; the others are cut. Of equal ones the first."""
        assert self.recipe.halving is not None
        numbers = sorted({entry.number for entry in entries})
        values = {n: sum(e.value_at(epochs) for e in entries if e.number == n) for n in numbers}
        keep = self.recipe.halving.kept(len(numbers))
        kept = set(sorted(numbers, key=lambda n: (values[n], n))[:keep])
        for entry in entries:
            if entry.number not in kept and entry.state == "begun":
                with contextlib.suppress(UsageError), locked(entry.folder, "busy"):
                    entry.end("cut")
                self._listener(entry)
        return [entry for entry in entries if entry.number in kept]

    def _one(self, entry: Entry, epochs: int, last: bool) -> bool:
        """Trains one to so many epochs; False if another sweep does."""
        if self._stopped.is_set():
            return True
        entry.folder.mkdir(parents=True, exist_ok=True)
        slot = next((i for i, lock in enumerate(self._slots) if lock.acquire(blocking=False)), 0)
        try:
            with locked(entry.folder, "another sweep does it"):
                entry.look()
                if entry.state not in ("waiting", "begun") or (entry.epochs >= epochs and not last):
                    return True
                self._process(entry, epochs, last, slot)
                return True
        except UsageError:
            entry.look()
            return entry.state not in ("waiting", "begun")
        finally:
            with contextlib.suppress(RuntimeError):
                self._slots[slot].release()
            self._listener(entry)

    def _process(self, entry: Entry, epochs: int, last: bool, slot: int) -> None:
        recipe = self.recipe
        write_json(
            entry.folder / SETTINGS,
            {**entry.settings, "seed": entry.seed, **({} if entry.fold is None else {"fold": entry.fold})},
        )
        if any(entry.run.glob("checkpoint-*.safetensors")):
            command = [
                "train",
                f"--resume={entry.run}",
                f"--epochs={epochs}",
                f"--threads={recipe.threads}",
                "--quiet",
            ]
        else:
            command = recipe.command(
                {**entry.settings, "epochs": epochs}, entry.seed, entry.run, entry.fold or 0
            )
        with subprocess.Popen(
            [sys.executable, "-m", "graphnet_rnn.sweep.child", *_own_cores(slot, recipe.threads), "--", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, env=alone(os.environ),
        ) as process:  # fmt: skip
            begun, before, late = time.monotonic(), entry.seconds, False
            while process.poll() is None:
                if self._stopped.wait(LOOK):
                    self._end(process)
                    break
                entry.look()
                self._listener(entry)
                if recipe.seconds is not None and before + time.monotonic() - begun > recipe.seconds:
                    late = True
                    self._end(process)
                    break
            _, errors = process.communicate()
        entry.look()
        if late:
            entry.end("out of time")
        elif process.returncode == 0:
            if last or entry.epochs < epochs:  # early stopping
                entry.end("done")
        elif not self._stopped.is_set():
            entry.end("failed", _sentence(errors, process.returncode))

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def _sentence(errors: str, code: int) -> str:
    """The last line that it said, without the program's name; what ended it where it said nothing."""
    lines = [line for line in errors.splitlines() if line.strip()]
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return lines[-1].removeprefix("graphnet-rnn train: ")[:500] if lines else f"exit code {code}"


def _own_cores(slot: int, threads: int) -> list[str]:
    """The cores of the run in this place; none where processes cannot be given any."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    cores = own_cores()
    return [str(cores[(slot * threads + i) % len(cores)]) for i in range(threads)]
