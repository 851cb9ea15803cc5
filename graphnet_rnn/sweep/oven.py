"""Sweep: the runs of a recipe, each a process of its own, on all cores, or on those of a cluster."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system.characters import in_brief
from graphnet.system.cores import own_cores
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.files.whole import locked, write_atomically
from graphnet_rnn.parallel.mpi import alone
from graphnet_rnn.settings import shown, whole_number, yes_or_no
from graphnet_rnn.sweep.book import ENDS, SETTINGS, Book, Entry
from graphnet_rnn.sweep.program import settings_of_train
from graphnet_rnn.sweep.recipe import Recipe

__all__ = ["Sweep"]

#: Seconds between looks at runs that are computing.
LOOK = 0.5
#: Seconds that a run may take to write its checkpoint when it is told to end.
PATIENCE = 60.0
#: How often the workers of a back end of joblib may die until it is given up.
FAILURES = 5
#: Seconds that a worker of loky waits for more.
IDLE = 10


class Sweep:
    """Trains all runs of a recipe in a folder, so many at a time; what was done before is not done again.

    recipe: None for that of the folder. workers: how many runs at a time; by default as many as there are cores for.
    parallel: what starts them: None for this process, or a back end of joblib by its name, "loky", "dask" or "ray",
    with its settings in a mapping: {"backend": "dask", "scheduler_host": "tcp://10.0.0.1:8786"}; then runs are also on
    the machines of that cluster, which must share the folder. Killed in any way, it goes on from the checkpoints of its
    runs, and gives the same results to the bit. Several sweeps, also on other machines, may work in one folder: each
    run is claimed by one of them. A run that fails is recorded with its sentence.

        sweep = Sweep(Recipe.read("recipe.toml"), "sweeps/gru")
        sweep.run(print)
        for settings, mean, error, known, runs in sweep.book.best(): ...
    """

    def __init__(
        self,
        recipe: Recipe | None,
        folder: str | Path,
        workers: int | None = None,
        parallel: str | Mapping[str, Any] | None = None,
    ) -> None:
        self._config = None if parallel is None else _configuration(parallel)
        if recipe is not None:
            recipe.require_known(settings_of_train())
        self.book = Book(recipe, folder)
        self.recipe = self.book.recipe
        most = max(1, len(own_cores()) // self.recipe.threads) if parallel is None else -1
        #: -1: as many as a back end of joblib has.
        self.workers = most if workers is None else whole_number("Sweep: workers", workers)
        self._stopped = threading.Event()
        self._failures = 0
        self._shown: dict[str, tuple[str, int]] = {}

    def run(
        self,
        listener: Callable[[Entry], object] | None = None,
        until: Callable[[], bool] = lambda: False,
        retry: bool = False,
    ) -> None:
        """Until every run has ended, or was cut; Ctrl-C ends it, once the runs have written their checkpoints.

        listener: called with an entry whenever it has changed. until: ends it as well, where it says so. retry: those
        that failed are tried again, from their last checkpoints.
        """
        yes_or_no("Sweep.run: retry", retry)
        self._stopped.clear()
        rungs = self.recipe.rungs
        going = self.book.look()
        if retry:
            for entry in going:
                entry.try_again()
        with contextlib.ExitStack() as stack:
            director = stack.enter_context(ThreadPoolExecutor(1))
            stack.callback(self._stopped.set)
            for place, epochs in enumerate(rungs):
                last = place + 1 == len(rungs)
                done = director.submit(self._train, going, epochs, last)
                while wait([done], LOOK).not_done:
                    self._tell(listener)
                    if until():
                        self.stop()
                done.result()
                if not (last or self._stopped.is_set()):
                    going = self._kept(going, epochs)
                self._tell(listener)
                if self._stopped.is_set():
                    return

    def stop(self) -> None:
        """Ends `run`, which is in another thread, once its runs have written their checkpoints."""
        self._stopped.set()

    def _tell(self, listener: Callable[[Entry], object] | None) -> None:
        """Of what has changed."""
        for entry in self.book.look():
            now = entry.state, entry.epochs
            if self._shown.get(entry.name) != now:
                self._shown[entry.name] = now
                if listener is not None:
                    listener(entry)

    def _train(self, entries: Sequence[Entry], epochs: int, last: bool) -> None:
        """All of them to so many epochs; those that another sweep has claimed are waited for."""
        waiting = list(entries)
        while waiting and not self._stopped.is_set():
            if self._config is None:
                self._train_here(waiting, epochs, last)
            else:
                self._train_elsewhere(waiting, epochs, last)
            self.book.look()
            waiting = [entry for entry in waiting if _is_wanted(entry, epochs, last)]
            if waiting:
                self._stopped.wait(4 * LOOK)

    def _train_here(self, entries: Sequence[Entry], epochs: int, last: bool) -> None:
        baker = Baker(self.book, self._stopped.is_set)
        with ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(baker.bake, entry, epochs, last) for entry in entries]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self._stopped.set()  # or the others would be waited for
                raise

    def _train_elsewhere(self, entries: Sequence[Entry], epochs: int, last: bool) -> None:
        """By joblib. Workers see a file that tells them to stop."""
        assert self._config is not None
        joblib = _package()
        stop = self.book.folder / f"stop-{secrets.token_hex(8)}"
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
                folder, owner = str(self.book.folder.resolve()), (_machine(), os.getpid())
                parallel(
                    joblib.delayed(_bake_elsewhere)(folder, entry.name, epochs, last, str(stop), owner)
                    for entry in entries
                )
        except (GraphnetError, KeyboardInterrupt):
            raise
        except Exception as error:  # as when a worker was killed: its run goes on from its checkpoint
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
        return [entry for entry in entries if entry.number in kept]


class Baker:
    """Who trains runs of a book, one or several at a time, in threads, each in a process of its own."""

    def __init__(self, book: Book, stopped: Callable[[], bool]) -> None:
        self._book, self._stopped = book, stopped

    def bake(self, entry: Entry, epochs: int, last: bool) -> None:
        """Trains one to so many epochs; nothing if another does."""
        if self._stopped():
            return
        self._book.propose(entry.number)
        entry.folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(entry.folder, "another sweep does it"))
            except UsageError:
                return
            _wait_for(entry.run)
            entry.look()
            if _is_wanted(entry, epochs, last):
                with _cores(self._book) as cores:
                    self._process(entry, epochs, last, cores)

    def _process(self, entry: Entry, epochs: int, last: bool, cores: Sequence[str]) -> None:
        recipe = self._book.recipe
        if not (entry.folder / SETTINGS).exists():
            entry.propose(entry.settings)
        if any(entry.run.glob("checkpoint-*.safetensors")):
            command = recipe.resuming(entry.run, epochs)
        else:
            command = recipe.command({**entry.settings, "epochs": epochs}, entry.seed, entry.run, entry.fold)
        with subprocess.Popen(
            [sys.executable, "-m", "graphnet_rnn.sweep.child", *cores, "--", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, env=alone(os.environ),
        ) as process:  # fmt: skip
            try:
                stopped = self._watch(process, entry, epochs)
            except BaseException:
                _end(process)
                raise
            _, errors = process.communicate()
        entry.look()
        if entry.state == "cut":
            return
        if process.returncode == 0:
            if last or entry.epochs < epochs:  # early stopping, or another budget
                entry.end("done")
        elif not stopped:
            entry.end("failed", _sentence(errors, process.returncode))

    def _watch(self, process: subprocess.Popen[str], entry: Entry, epochs: int) -> bool:
        """Until it ends, or is to end; whether the sweep was told to stop."""
        seen, pause = entry.epochs, LOOK / 10  # what fails, fails at once
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(pause)
            pause, stopped = LOOK, self._stopped()
            entry.look()
            if not stopped and entry.state != "cut" and seen < entry.epochs < epochs:
                seen = entry.epochs
                self._cut_if_hopeless(entry)
            if process.poll() is None and (stopped or entry.state == "cut"):
                _end(process)
                return stopped
        return False

    def _cut_if_hopeless(self, entry: Entry) -> None:
        """Ends all runs of its configuration that have not ended, if the recipe's pruner says so."""
        if self._book.is_hopeless(entry.number):
            for each in self._book.of(entry.number):
                if each.state not in ENDS:
                    each.folder.mkdir(parents=True, exist_ok=True)
                    each.end("cut")


def _is_wanted(entry: Entry, epochs: int, last: bool) -> bool:
    return entry.state in ("waiting", "begun") and (entry.epochs < epochs or last)


def _wait_for(run: Path) -> None:
    """Until the process of a sweep that was killed has written its checkpoint."""
    if run.is_dir():
        with contextlib.suppress(UsageError), locked(run, "busy", PATIENCE):
            pass


def _bake_elsewhere(
    folder: str, name: str, epochs: int, last: bool, stop: str, owner: tuple[str, int]
) -> None:
    """Of a process that a back end of joblib has started, here or on another machine. owner: whose sweep it is."""
    machine, process = owner
    here = machine == _machine()

    def stopped() -> bool:
        return os.path.exists(stop) or (here and not _is_alive(process))

    book = Book(None, folder)
    (entry,) = (each for each in book.entries if each.name == name)
    Baker(book, stopped).bake(entry, epochs, last)


def _is_alive(process: int) -> bool:
    if sys.platform == "win32":  # where this would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


@contextlib.contextmanager
def _cores(book: Book) -> Iterator[list[str]]:
    """Cores of this machine that no other run of the sweep is on; none where all are taken, or cannot be given."""
    threads, claimed = book.recipe.threads, contextlib.ExitStack()
    cores = own_cores() if hasattr(os, "sched_getaffinity") else []
    places = book.folder / "cores"
    with claimed:
        for slot in range(len(cores) // threads):
            try:
                places.mkdir(exist_ok=True)
                claimed.enter_context(locked(places / f"{_machine()}-{slot}", "taken"))
            except UsageError:
                continue
            yield [str(core) for core in cores[slot * threads : (slot + 1) * threads]]
            return
        yield []


def _machine() -> str:
    """Its name, as a file may be called."""
    return "".join(c if c.isalnum() else "-" for c in platform.node()) or "here"


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


# -- joblib ------------------------------------------------------------------------------------


def _package() -> Any:
    try:
        return importlib.import_module("joblib")
    except ImportError:
        raise UsageError(
            "Sweep: other back ends are joblib's: pip install 'graphnet[sweep]', or leave parallel out"
        ) from None


def _configuration(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """What joblib is to be told. UsageError for what it does not know."""
    found: dict[str, Any] = {"backend": given} if isinstance(given, str) else dict(given)
    if not isinstance(found.get("backend"), str):
        raise UsageError(
            f"Sweep: parallel must name a back end of joblib, such as 'loky', not {shown(given)}"
        )
    joblib = _package()
    if found["backend"] == "multiprocessing":
        raise UsageError("Sweep: parallel='multiprocessing' forks a process that has threads; take 'loky'")
    if found["backend"] == "loky":  # idle workers of a sweep that was killed are not to stay for minutes
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
