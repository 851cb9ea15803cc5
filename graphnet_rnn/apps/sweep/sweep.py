"""Sweep: runs of a recipe, each in its own process, on all cores or on a cluster."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system.process import own_cores
from graphnet.system.text import in_brief
from graphnet_rnn.apps.sweep.recipe import Recipe
from graphnet_rnn.apps.sweep.results import Entry, Results, require_recipe
from graphnet_rnn.apps.sweep.run_monitor import LOOK, RunMonitor, is_wanted, machine, settings_of_train
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.files.whole import locked, write_atomically
from graphnet_rnn.settings import shown, whole_number, yes_or_no

#: Maximum number of crashes of joblib's workers.
FAILURES = 5
#: Seconds until an idle worker of loky exits.
IDLE = 10


class Sweep:
    """Trains all runs of a recipe in a folder, several at a time; finished runs are not repeated.

    recipe: recipe of the sweep; None reads that of the folder. folder: folder of the sweep. workers: number of runs at
    a time; by default cores / threads of a run. parallel: None runs on this machine; or a back end of joblib, "loky",
    "dask" or "ray", or a mapping with its settings: {"backend": "dask", "scheduler_host": "tcp://10.0.0.1:8786"}. All
    machines of a cluster must share the folder.
    After an interruption or a crash, runs resume from their checkpoints with the same results bit for bit. Several
    sweeps, also on other machines, may work in one folder: each run is trained by one of them. A failed run is recorded
    with its error message.

    >>> recipe = rnn.sweep.Recipe("task:addition(30)", {"units": rnn.sweep.Values((8, 16)), "epochs": 1})
    >>> sweep = rnn.sweep.Sweep(recipe, "sweep")
    >>> len(sweep.results.entries), sweep.results.best()
    (2, [])
    >>> sweep.stop()  # in another thread than run()

        sweep.run(print)
        for settings, mean, error, known, runs in sweep.results.best(): ...
    """

    def __init__(
        self,
        recipe: Recipe | None,
        folder: str | Path,
        workers: int | None = None,
        parallel: str | Mapping[str, Any] | None = None,
    ) -> None:
        self._config = None if parallel is None else _configuration(parallel)
        if workers is not None:
            workers = whole_number("Sweep: workers", workers)
        require_recipe("Sweep", recipe)
        if recipe is not None:
            recipe.require_known(settings_of_train())
        self.results = Results(recipe, folder)
        self.recipe = self.results.recipe
        most = max(1, len(own_cores()) // self.recipe.threads) if parallel is None else -1
        #: -1: all workers of joblib's back end.
        self.workers = most if workers is None else workers
        #: Budget up to which runs are trained now.
        self.rung = self.recipe.rungs[0]
        self._stopped = threading.Event()
        self._failures = 0
        self._shown: dict[str, tuple[str, int]] = {}

    def run(
        self,
        listener: Callable[[Entry], object] | None = None,
        until: Callable[[], bool] = lambda: False,
        retry: bool = False,
    ) -> None:
        """Trains until every run has ended; Ctrl-C stops after the runs have written their checkpoints.

        listener: callback with an entry whenever it has changed. until: callback that stops the sweep by returning
        True. retry: True tries failed runs again from their last checkpoints; False by default.
        """
        yes_or_no("Sweep.run: retry", retry)
        self._stopped.clear()
        rungs, brackets = self.recipe.rungs, self.recipe.brackets
        entries = self.results.look()
        if retry:
            for entry in entries:
                entry.try_again()
        going: list[Entry] = []
        with contextlib.ExitStack() as stack:
            director = stack.enter_context(ThreadPoolExecutor(1))
            stack.callback(self._stopped.set)
            for place, spent in enumerate(rungs):
                last, self.rung = place + 1 == len(rungs), spent
                going += [
                    e
                    for numbers, begin in brackets
                    if begin == place
                    for n in numbers
                    for e in self.results.of(n)
                ]
                done = director.submit(self._train, going, spent, last)
                while wait([done], LOOK).not_done:
                    self._tell(listener)
                    if until():
                        self.stop()
                done.result()
                if not (last or self._stopped.is_set()):
                    going = [
                        entry
                        for numbers, _ in brackets
                        for entry in self._kept([e for e in going if e.number in numbers], spent)
                    ]
                self._tell(listener)
                if self._stopped.is_set():
                    return

    def stop(self) -> None:
        """Stops `run` from another thread, after its runs have written their checkpoints."""
        self._stopped.set()

    def _tell(self, listener: Callable[[Entry], object] | None) -> None:
        for entry in self.results.look():
            now = entry.state, entry.epochs
            if self._shown.get(entry.name) != now:
                self._shown[entry.name] = now
                if listener is not None:
                    listener(entry)

    def _train(self, entries: Sequence[Entry], spent: float, last: bool) -> None:
        """Trains all entries up to `spent`; waits for those that another sweep trains."""
        waiting = list(entries)
        while waiting and not self._stopped.is_set():
            if self._config is None:
                self._train_here(waiting, spent, last)
            else:
                self._train_elsewhere(waiting, spent, last)
            self.results.look()
            waiting = [entry for entry in waiting if is_wanted(entry, spent, last)]
            if waiting:
                self._stopped.wait(4 * LOOK)

    def _train_here(self, entries: Sequence[Entry], spent: float, last: bool) -> None:
        monitor = RunMonitor(self.results, self._stopped.is_set)
        with ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(monitor.train, entry, spent, last) for entry in entries]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self._stopped.set()  # otherwise the executor would wait for the others
                raise

    def _train_elsewhere(self, entries: Sequence[Entry], spent: float, last: bool) -> None:
        """Trains with joblib. A file stops the workers."""
        assert self._config is not None
        joblib = _package()
        stop = self.results.folder / f"stop-{secrets.token_hex(8)}"
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                if self._stopped.wait(LOOK):
                    write_atomically(stop, b"")
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with joblib.parallel_config(**self._config):
                parallel = joblib.Parallel(n_jobs=self.workers, batch_size=1, pre_dispatch="all")
                folder, owner = str(self.results.folder.resolve()), (machine(), os.getpid())
                parallel(
                    joblib.delayed(_train_elsewhere)(folder, entry.name, spent, last, str(stop), owner)
                    for entry in entries
                )
        except (GraphnetError, KeyboardInterrupt):
            raise
        except Exception as error:  # e.g. a killed worker: its run resumes from its checkpoint
            self._failures += 1
            if self._failures > FAILURES:
                reason = in_brief(" ".join(str(error).split()) or type(error).__name__, 200)
                raise TrainingError(
                    f"joblib's {self._config['backend']} failed {self._failures} times, at last: {reason}"
                ) from None
        finally:
            done.set()
            watcher.join()
            stop.unlink(missing_ok=True)

    def _kept(self, entries: Sequence[Entry], spent: float) -> list[Entry]:
        """Best configurations by the mean over seeds and folds (ties: the first); the others are cut."""
        assert self.recipe.halving is not None
        numbers = sorted({entry.number for entry in entries})
        values = {n: sum(e.value_at(spent) for e in entries if e.number == n) for n in numbers}
        keep = self.recipe.halving.kept(len(numbers))
        kept = set(sorted(numbers, key=lambda n: (values[n], n))[:keep])
        for entry in entries:
            if entry.number not in kept and entry.state == "begun":
                with contextlib.suppress(UsageError), locked(entry.folder, "busy"):
                    entry.end("cut")
        return [entry for entry in entries if entry.number in kept]


def _train_elsewhere(
    folder: str, name: str, spent: float, last: bool, stop: str, owner: tuple[str, int]
) -> None:
    """Trains in a process that joblib has started, here or on another machine. owner: the sweep."""
    host, process = owner
    here = host == machine()

    def stopped() -> bool:
        return os.path.exists(stop) or (here and not _is_alive(process))

    results = Results(None, folder)
    (entry,) = (each for each in results.entries if each.name == name)
    RunMonitor(results, stopped).train(entry, spent, last)


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":  # os.kill would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process of another user
        return True
    return True


# -- joblib ------------------------------------------------------------------------------------


def _package() -> Any:
    try:
        return importlib.import_module("joblib")
    except ImportError:
        raise UsageError(
            "Sweep: parallel needs joblib: pip install 'graphnet-rnn[sweep]', or leave parallel out"
        ) from None


def _configuration(given: str | Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"backend": given} if isinstance(given, str) else dict(given)
    if not isinstance(found.get("backend"), str):
        raise UsageError(
            f"Sweep: parallel must name a back end of joblib, such as 'loky', not {shown(given)}"
        )
    joblib = _package()
    if found["backend"] == "multiprocessing":
        raise UsageError(
            "Sweep: parallel must not be 'multiprocessing', which forks a process with threads; use 'loky'"
        )
    if found["backend"] == "loky":  # idle workers of a killed sweep must exit soon
        found.setdefault("idle_worker_timeout", IDLE)
    if found["backend"] == "ray":
        try:
            importlib.import_module("ray.util.joblib").register_ray()
        except ImportError:
            raise UsageError("Sweep: parallel='ray' needs ray, which is not installed") from None
    try:
        with joblib.parallel_config(**found):
            joblib.Parallel()
    except (TypeError, ValueError, ImportError, OSError) as error:
        raise UsageError(f"Sweep: joblib cannot use {shown(found)}: {' '.join(str(error).split())}") from None
    return found
