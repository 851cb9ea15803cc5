"""Results: state of each run, read only from the sweep's folder.

recipe.json        recipe of the sweep
data/              copies of the recipe's files, named by content, for other machines that share the folder:
                   0a1b2c3d4e5f6071-book.txt, the first 16 digits of the SHA-256 of its content, and its name
0003-1/            configuration 3 with seed 1 (0003-1-4: and fold 4): its settings (settings.json), and a run of
                   `graphnet-rnn train` (run/)
0003-1/ended.json  final state: done, cut, or failed with a sentence
0003-1/reached.json  best value at each rung of steps or core-seconds
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from graphnet.system.json_lines import Tail
from graphnet.system.text import read_json
from graphnet_rnn.apps.sweep.recipe import FREE, Recipe, Settings
from graphnet_rnn.apps.sweep.tuner import Fate, Tuner
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import locked, read_bytes, write_atomically
from graphnet_rnn.settings import is_number, path, shown

#: Final states of a run. "cut": stopped early.
ENDS = ("done", "failed", "cut")
#: Timeout for other processes, in seconds.
PATIENCE = 60.0
#: Digits of the digest in a file name.
DIGITS = 16
RECIPE, DATA, RUN, PROPOSING = "recipe.json", "data", "run", "proposing"
SETTINGS, ENDED, REACHED = "settings.json", "ended.json", "reached.json"


@dataclass
class Entry:
    """Run of one configuration with one seed and one fold.

    number: number of the configuration, from 0. seed: seed of the run. settings: option -> value; empty before they are
    proposed. folder: folder of the run in the sweep. state: "waiting", "begun", "done", "cut" or "failed". sentence:
    reason of a failure. values: validation measure after each epoch (training measure without validation data).
    training: training measure of each epoch, infinite if it was not recorded.
    seconds: training time. unit: unit of `values`. sample: text that the network wrote after the last epoch. most:
    maximum number of epochs; later epochs of a run that was continued by hand do not count. fold: block that validates;
    None for the usual split. recipe: recipe that proposed settings must fit. reached: best value at each rung of steps
    or core-seconds. spent, in methods: part of the budget, in epochs, steps or core-seconds, as the recipe has it.

    >>> from pathlib import Path
    >>> entry = rnn.sweep.Entry(0, seed=1, settings={"units": 8}, folder=Path("units/0000-1"), values=[2.5, 2.0, 2.25])
    >>> entry.name, entry.epochs, entry.best, entry.value_at(1)
    ('0000-1', 3, 2.0, 2.5)
    >>> entry.propose({"units": 16})
    >>> entry.end("failed", "the disk is full")
    >>> entry.look()
    >>> entry.state, entry.sentence, entry.has_used(3)
    ('failed', 'the disk is full', True)
    >>> entry.try_again()
    >>> entry.state
    'waiting'
    >>> entry.recipe = rnn.sweep.Recipe("task:addition(30)", {"units": 16, "steps": 900})
    >>> entry.reach(300)
    >>> entry.has_used(300), entry.value_at(300)
    (True, 2.0)
    """

    number: int
    seed: int
    settings: Settings
    folder: Path
    state: str = "waiting"
    sentence: str = ""
    values: list[float] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    seconds: float = 0.0
    unit: str = ""
    sample: str = ""
    most: int | None = None
    fold: int | None = None
    recipe: Recipe | None = None
    reached: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._read_again()

    def _read_again(self) -> None:
        """The next look reads all rows."""
        self._damage = ""
        self._history, self._timing = (
            Tail(self.run / name, DataError) for name in ("history.jsonl", "timing.jsonl")
        )

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def run(self) -> Path:
        """Folder in which `graphnet-rnn train` writes."""
        return self.folder / RUN

    @property
    def epochs(self) -> int:
        return len(self.values)

    @property
    def best(self) -> float:
        """Minimum of the values; NaN before the first epoch."""
        return min(self.values, default=math.nan)

    @property
    def _in_epochs(self) -> bool:
        return self.recipe is None or self.recipe.budget[0] == "epochs"

    def has_used(self, spent: float) -> bool:
        """True if the run has been trained for `spent`."""
        return len(self.values) >= spent if self._in_epochs else f"{spent:g}" in self.reached

    def value_at(self, spent: float) -> float:
        """Returns the minimum of the values up to `spent`; infinity if the run failed or has not come so far."""
        if not self._in_epochs and self.has_used(spent):
            return self.reached[f"{spent:g}"]
        if self.state != "done" and not self.has_used(spent):
            return math.inf
        return min(self.values[: int(spent)] if self._in_epochs else self.values, default=math.inf)

    def reach(self, spent: float) -> None:
        """Records the best value at a rung; an epoch that ends between two rungs is trained again on resume."""
        if not self._in_epochs:
            self.reached[f"{spent:g}"] = min(self.values, default=math.inf)
            _write_json(self.folder / REACHED, {n: v for n, v in self.reached.items() if math.isfinite(v)})

    def look(self) -> None:
        """Reads new results of the run; thread-safe."""
        with self._lock:
            try:
                if not self._damage:
                    self._look()
            except DataError as error:  # affects only this run
                self._damage = f"{str(error).rstrip('.')}; remove {self.folder} to train it again"
                self.values, self.training = [], []
            if self._damage:
                self.state, self.sentence = "failed", self._damage

    def propose(self, settings: Settings) -> None:
        """Writes the settings that the run will use."""
        self.folder.mkdir(parents=True, exist_ok=True)
        fold = {} if self.fold is None else {"fold": self.fold}
        _write_json(self.folder / SETTINGS, {**settings, "seed": self.seed, **fold})
        self.settings = settings

    def _look(self) -> None:
        if not self.settings:
            found = _read(self.folder / SETTINGS)
            self.settings = {name: value for name, value in found.items() if name not in ("seed", "fold")}
            if found and not (self.recipe is not None and self.recipe.allows(self.settings)):
                self.settings = {}
                raise DataError(
                    f"{self.folder / SETTINGS} is damaged: its settings are not possible in the recipe"
                )
        if not self._in_epochs:
            reached = _read(self.folder / REACHED)
            self.reached |= {n: _number(self.folder / REACHED, value) for n, value in reached.items()}
        ended = _read(self.folder / ENDED)
        self.state, self.sentence = str(ended.get("state", "")), str(ended.get("sentence", ""))
        for anew, row in self._history.rows(b'"event": "start"', b'"event": "epoch"'):
            if anew:
                self.values, self.training, self.sample = [], [], ""
            if row.get("event") == "start":
                self.unit = str(row.get("unit", ""))
            elif self.most is None or len(self.values) < self.most:
                self.values.append(_value_of(self.run / "history.jsonl", row))
                self.training.append(_value_of(self.run / "history.jsonl", row, ("train_",)))
                self.sample = str(row.get("sample") or self.sample)
        for anew, row in self._timing.rows(b'"epoch"'):
            self.seconds = (0.0 if anew else self.seconds) + _number(
                self.run / "timing.jsonl", row.get("seconds", 0)
            )
        epochs = _number(self.folder / ENDED, ended.get("epochs", 0))
        if self.state == "done" and self.epochs < epochs:
            raise DataError(f"{self.run / 'history.jsonl'} has only {self.epochs} of {epochs:g} epochs")
        if self.state not in ENDS:
            self.state = "begun" if self.run.exists() else "waiting"

    def end(self, state: str, sentence: str = "") -> None:
        """Writes the final state, "done", "cut" or "failed", and the reason (`sentence`)."""
        assert state in ENDS
        self.look()
        _write_json(self.folder / ENDED, {"state": state, "sentence": sentence, "epochs": self.epochs})
        self.state, self.sentence = state, sentence

    def try_again(self) -> None:
        """Resets a failed run, unless its files are still damaged."""
        if self._damage:
            self._read_again()
            self.look()
        if self.state == "failed" and not self._damage:
            (self.folder / ENDED).unlink(missing_ok=True)
            self.look()


class Configuration(NamedTuple):
    """Result of one configuration over seeds and folds.

    settings: option -> value. mean: mean of the runs' best values. error: standard error of the mean; NaN for one run.
    known: number of runs with a value. runs: all runs, best first.

    >>> found = rnn.sweep.Configuration({"units": 64}, mean=1.9, error=0.02, known=3, runs=[])
    >>> found.settings["units"], found.mean
    (64, 1.9)
    """

    settings: Settings
    mean: float
    error: float
    known: int
    runs: list[Entry]


def require_recipe(who: str, recipe: Any) -> None:
    if not isinstance(recipe, Recipe | None):
        raise UsageError(f"{who}: recipe must be an rnn.sweep.Recipe, or None, not {shown(recipe)}")


class Results:
    """Record of all runs of a sweep, in its folder.

    recipe: recipe of the sweep; None reads that of the folder. The attribute `recipe` names the copies of its files in
    the folder. folder: folder of the sweep; created if it does not exist. number, in methods: number of a
    configuration, from 0.
    Raises UsageError if the folder holds a sweep of another recipe.

    >>> recipe = rnn.sweep.Recipe("task:addition(30)", {"units": rnn.sweep.Values((8, 16)), "epochs": 1}, seeds=2)
    >>> results = rnn.sweep.Results(recipe, "addition")
    >>> [(entry.name, entry.settings["units"], entry.state) for entry in results.look()]
    [('0000-0', 8, 'waiting'), ('0000-1', 8, 'waiting'), ('0001-0', 16, 'waiting'), ('0001-1', 16, 'waiting')]
    >>> results.propose(1)  # has no effect for a grid
    >>> results.of(1)[0].values.append(0.5)  # as if trained for an epoch
    >>> [(found.settings["units"], found.mean) for found in results.best()], results.is_hopeless(1)
    ([(16, 0.5)], False)
    """

    def __init__(self, recipe: Recipe | None, folder: str | Path) -> None:
        require_recipe("Results", recipe)
        self.folder = path("Results: folder", folder)
        held = self.folder / RECIPE
        if held.exists():
            was = _read(held)
            if recipe is None:
                recipe = Recipe.of(was, self.folder)
            else:
                self._require_same(was, recipe)
        elif recipe is None:
            raise UsageError(f"there is no sweep in {self.folder}")
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} exists and is not a sweep; name another folder")
        self._tuner = Tuner(recipe) if Tuner.is_needed(recipe) else None
        self.recipe = recipe.with_files(self._container.put)
        mapping = self._mapping(self.recipe)
        if not held.exists() or _read(held) != mapping:  # a new sweep, or one with more seeds or trials
            self.folder.mkdir(parents=True, exist_ok=True)
            _write_json(held, mapping)
        self.entries = list(self._entries())

    @property
    def _container(self) -> Container:
        return Container(self.folder / DATA)

    def _mapping(self, recipe: Recipe) -> dict[str, Any]:
        """Returns the mapping of a recipe's file, whose data files lie in the folder."""
        found = recipe.with_files(lambda file: f"{DATA}/{Path(file).name}").mapping()
        return dict(json.loads(_json(found)))

    def _require_same(self, was: dict[str, Any], recipe: Recipe) -> None:
        now = self._mapping(recipe.with_files(self._container.place))
        changed = [name for name in _differing(was, now) if name not in FREE]
        if changed == ["settings"] and isinstance(was.get("settings"), dict):
            changed = [
                f"the setting {name}" for name in _differing(was["settings"], now["settings"])
            ] or changed
        if changed:
            raise UsageError(
                f"{self.folder} belongs to another recipe: {' and '.join(changed)} differ; name another folder"
            )

    def _entries(self) -> Iterator[Entry]:
        recipe = self.recipe
        known = [{}] * recipe.trials if recipe.method == "optuna" else recipe.configurations()
        for number, settings in enumerate(known):
            for seed in range(recipe.seeds):
                for fold in range(recipe.folds):
                    name = f"{number:04d}-{seed}" + (f"-{fold}" if recipe.folds > 1 else "")
                    own = fold if recipe.folds > 1 else None
                    yield Entry(
                        number,
                        seed,
                        settings,
                        self.folder / name,
                        most=recipe.epochs,
                        fold=own,
                        recipe=recipe,
                    )

    def of(self, number: int) -> list[Entry]:
        """Returns the runs of configuration `number`."""
        runs = self.recipe.seeds * self.recipe.folds
        return self.entries[number * runs : (number + 1) * runs]

    # -- proposals -----------------------------------------------------------------------------

    def propose(self, number: int) -> None:
        """Proposes settings for configurations up to `number` that have none; locked against other processes."""
        if all(entry.settings for entry in self.of(number)):
            return
        busy = f"another sweep in {self.folder} has not finished to propose settings; wait for it, or stop it"
        with locked(self.folder / PROPOSING, busy, PATIENCE):
            for each in range(number + 1):
                self._propose(each)

    def _propose(self, number: int) -> None:
        assert self._tuner is not None
        entries = self.of(number)
        for entry in entries:
            entry.look()
        settings = next((entry.settings for entry in entries if entry.settings), None)
        if settings is None:
            self.look()
            settings = self._tuner.propose(number, self._fates())
        for entry in entries:
            if not entry.settings:
                entry.propose(settings)

    def is_hopeless(self, number: int) -> bool:
        """True if the pruner of the recipe would stop configuration `number` now."""
        if self.recipe.pruner is None or self._tuner is None:
            return False
        self.look()
        return self._tuner.is_hopeless(number, self._fates())

    def _fates(self) -> list[Fate]:
        found, runs = [], self.recipe.seeds * self.recipe.folds
        for number in range(len(self.entries) // runs):
            entries = self.of(number)
            if entries[0].settings:
                first = max(entries, key=lambda entry: entry.epochs)
                values = [entry.best for entry in entries if math.isfinite(entry.best)]
                states = {entry.state for entry in entries}
                ended = "" if states - set(ENDS) else "cut" if "cut" in states else "done"
                mean = math.fsum(values) / len(values) if values else math.nan
                found.append(Fate(number, entries[0].settings, list(first.values), ended, mean))
        return found

    # -- results -------------------------------------------------------------------------------

    def look(self) -> list[Entry]:
        """Reads new results from the folder; returns all entries."""
        for entry in self.entries:
            if entry.state not in ENDS or not entry.values:
                entry.look()
        return self.entries

    @property
    def names(self) -> list[str]:
        """Names of the settings that differ between runs."""
        return [name for name in self.recipe.ranges if any(name in each.settings for each in self.entries)]

    @property
    def unit(self) -> str:
        """Unit of the compared values; "value" before the first run has begun."""
        return next((entry.unit for entry in self.look() if entry.unit), "value")

    def best(self) -> list[Configuration]:
        """Returns configurations that have a value, best first."""
        found = []
        for number in sorted({entry.number for entry in self.look()}):
            runs = sorted(self.of(number), key=_order)
            values = [entry.best for entry in runs if math.isfinite(entry.best)]
            if values:
                mean = math.fsum(values) / len(values)
                spread = math.fsum((value - mean) ** 2 for value in values)
                error = math.sqrt(spread / (len(values) - 1) / len(values)) if len(values) > 1 else math.nan
                found.append(Configuration(runs[0].settings, mean, error, len(values), runs))
        return sorted(found, key=lambda each: each.mean)


def _order(entry: Entry) -> tuple[float, int, int]:
    return (entry.best if math.isfinite(entry.best) else math.inf), entry.seed, entry.fold or 0


def _differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))


def _number(path: Path, value: Any) -> float:
    if not is_number(value) or not math.isfinite(value):
        raise DataError(f"{path} is damaged: it must contain a number, not {shown(value)}")
    return float(value)


def _value_of(path: Path, row: Mapping[str, Any], kinds: Sequence[str] = ("valid_", "train_")) -> float:
    """Score of an epoch: validation, or training without validation data."""
    for kind in kinds:
        for name, value in row.items():
            if name.startswith(kind) and name in row.get("not_finite", ()):
                return math.inf
            if name.startswith(kind) and value is not None:
                return _number(path, value)
    return math.inf


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = read_json(read_bytes(path, DataError))
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} is damaged: it must contain a JSON object, not {shown(found)}")
    return found


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_atomically(path, _json(value))


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(dict(value), indent=1, default=list) + "\n").encode()


class Container:
    """Folder of files named by content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, file: str) -> str:
        """Copies a file with its permissions, unless it is there; returns the path of the copy.

        Checks a file that is in the folder already: raises DataError if it has changed or cannot be read.
        """
        kept, content = self._place(file)
        if not kept.exists():
            write_atomically(kept, content, like=file)
        return str(kept)

    def place(self, file: str) -> str:
        """Path of the copy that `put` makes; writes nothing."""
        return str(self._place(file)[0])

    def _place(self, file: str) -> tuple[Path, bytes]:
        path = Path(file)
        content = read_bytes(path, DataError)
        if not content:
            raise DataError(f"{path} is empty")
        digest = hashlib.sha256(content).hexdigest()[:DIGITS]
        if path.parent.resolve() == self.folder.resolve():
            if not path.name.startswith(f"{digest}-"):
                raise DataError(f"{path} has changed since the sweep began; restore it, or start a new sweep")
            return path, content
        there = sorted(self.folder.glob(f"{digest}-*"))
        if there:
            return self._place(str(there[0]))
        return self.folder / f"{digest}-{path.name}", content
