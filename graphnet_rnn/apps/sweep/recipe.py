"""Recipe: data, settings and search method of a sweep."""

from __future__ import annotations

import difflib
import itertools
import json
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from graphnet.system.text import did_you_mean
from graphnet_rnn.apps.sweep.halving import Bracket, Halving
from graphnet_rnn.apps.sweep.ranges import Range, Values, is_plain, range_of
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import read_bytes
from graphnet_rnn.installed import is_file
from graphnet_rnn.settings import is_number, one_of, shown, text, whole_number

#: A setting of `graphnet-rnn train` by its option's name, with _ for -.
Settings = dict[str, Any]
METHODS = ("grid", "random", "optuna")
#: Options with several names, which may be a list.
LISTS = ("inputs", "target", "calendar", "categories", "metrics")
#: Options that a recipe has elsewhere, or that the sweep sets.
OWN = (
    "seed", "fold", "gap", "threads", "out", "resume", "quiet", "no_live", "debug", "data", "checkpoint_seconds",
)  # fmt: skip
#: Budgets of a run; with several, the first one is that of the rungs.
BUDGETS = ("epochs", "steps", "core_seconds")
#: Names of settings in other libraries.
ELSEWHERE = {
    "lr": "rate", "learning_rate": "rate", "batch_size": "batch", "hidden_size": "units", "hidden": "units",
    "num_layers": "layers", "seq_len": "time", "wd": "optimizer", "weight_decay": "optimizer",
}  # fmt: skip
#: Settings that are files, besides the recipe's data.
FILES = ("valid", "test", "start")
#: Files that a resumed run does not need.
BEGUN = ("start",)
#: Fields that may change on resume.
FREE = ("name", "trials", "seeds", "threads", "sampler", "pruner")
#: Maximum number of configurations of a grid, and of runs of a sweep.
MOST = 100_000
#: Epochs of runs that are limited by steps or time.
ENOUGH = 1_000_000


@dataclass(frozen=True)
class Optuna:
    """Sampler or pruner of Optuna.

    name: name of its class, such as "TPESampler" or "MedianPruner". settings: its arguments; empty by default.

    >>> sampler = rnn.sweep.Optuna("TPESampler", {"n_startup_trials": 5})
    >>> sampler.settings["n_startup_trials"]
    5
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.settings, Mapping):
            raise UsageError(
                f"recipe: settings must be a dict, option -> value or range, not {shown(self.settings)}"
            )
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise UsageError(
                "recipe: the name of a sampler or pruner must be a class of Optuna, such as MedianPruner, not "
                f"{shown(self.name)}"
            )
        for name, value in self.settings.items():
            if not is_plain(value):
                raise UsageError(
                    f"recipe: {self.name}: {name} must be a word or a finite number, not {shown(value)}"
                )


@dataclass(frozen=True)
class Recipe:
    """Data, settings of `graphnet-rnn train`, and ranges of hyperparameters to search.

    data: as for `train`: file of a text, of arrays, of a table or of music, or a problem such as "task:addition(30)".
    settings: option -> value or range; "epochs", "steps" or "core_seconds" is the budget of a run.
    method: "grid" (default) tries all values of all ranges. "random" draws `trials` configurations; trial n depends
    only on n and `seed`, so you can raise `trials` later. "optuna" proposes `trials` configurations with `sampler`,
    from the results of the others.
    trials: number of configurations for "random" and "optuna"; 20 by default. seeds: runs of each configuration, with
    seeds 0, 1, ...; 1 by default. folds: number of blocks for cross-validation of a text, of long series or of
    independent cases; 1 by default: the usual split. gap: characters or time steps that are left out on each side of
    the validation block, see data.Corpus.fold and data.Sequences.fold; 0 by default. seed: seed of "random" and of
    Optuna; 0 by default. threads: cores of each run; 1 by default.
    halving: successive halving; None by default. sampler: sampler of Optuna; TPESampler by default. pruner: pruner of
    Optuna that may stop a run after each epoch, with any method; None by default. name: title in reports.
    Raises UsageError for settings that do not fit.

    >>> recipe = rnn.sweep.Recipe("task:addition(30)", {"units": rnn.sweep.Values((8, 16)), "epochs": 5}, seeds=2)
    >>> recipe.count, list(recipe.configurations())[0]["units"], recipe.budget
    (2, 8, ('epochs', 5))
    >>> settings = recipe.fitting(lambda name: 8)
    >>> settings, recipe.allows(settings), recipe.allows({"units": 9, "epochs": 5})
    ({'units': 8, 'epochs': 5}, True, False)
    >>> recipe.require_known(["units", "epochs", "rate"])
    >>> recipe.command(settings, seed=1, folder="run")[:4]
    ['train', 'task:addition(30)', '--out=run', '--seed=1']
    >>> recipe.resuming("run", spent=3)
    ['train', 'task:addition(30)', '--resume=run', '--epochs=3', '--threads=1', '--quiet']
    >>> recipe.until(3)
    {'epochs': 3}
    >>> from pathlib import Path
    >>> text = '''data = "task:addition(30)"
    ... settings = {units = {values = [8, 16]}, epochs = 5}'''
    >>> _ = Path("recipe.toml").write_text(text)
    >>> rnn.sweep.Recipe.read("recipe.toml").count
    2
    >>> rnn.sweep.Recipe.of(recipe.mapping(), Path()) == recipe
    True
    >>> rnn.sweep.Recipe("recipe.toml", {"epochs": 5}).with_files(lambda file: f"data/{file}").data
    'data/recipe.toml'
    """

    data: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    method: str = "grid"
    trials: int = 20
    seeds: int = 1
    folds: int = 1
    gap: int = 0
    seed: int = 0
    threads: int = 1
    halving: Halving | None = None
    sampler: Optuna | None = None
    pruner: Optuna | None = None
    name: str = "sweep"

    def __post_init__(self) -> None:
        if not isinstance(self.data, str) or not self.data:
            raise UsageError(f"recipe: data must name a file, not {shown(self.data)}")
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise UsageError(f"recipe: name must be one line of text, not {shown(self.name)}")
        for what, kind in (("halving", Halving), ("sampler", Optuna), ("pruner", Optuna)):
            if not isinstance(getattr(self, what), kind | None):
                raise UsageError(
                    f"recipe: {what} must be an rnn.sweep.{kind.__name__}, or None, not {shown(getattr(self, what))}"
                )
        one_of("recipe: method", self.method, METHODS)
        for name, least in {"trials": 1, "seeds": 1, "folds": 1, "gap": 0, "seed": 0, "threads": 1}.items():
            object.__setattr__(self, name, whole_number(f"recipe: {name}", getattr(self, name), least=least))
        if self.folds > 1 and "valid" in self.settings:
            raise UsageError(
                "recipe: folds and the setting valid both set the validation data; give only one of them"
            )
        if self.gap and self.folds == 1:
            raise UsageError("recipe: gap needs folds")
        if self.sampler is not None and self.method != "optuna":
            raise UsageError("recipe: a sampler needs method = 'optuna'")
        if self.halving is not None and self.pruner is not None:
            raise UsageError("recipe: halving and pruner both stop runs early; give only one of them")
        self._require_settings()
        if self.method == "grid":
            loose = [name for name, each in self.ranges.items() if not isinstance(each, Values)]
            if loose:
                raise UsageError(
                    f"recipe: a grid needs values = [...], but {' and '.join(loose)} "
                    f"{'have' if len(loose) > 1 else 'has'} none; use method = 'random'"
                )
        if self.count * self.seeds * self.folds > MOST:
            raise UsageError(
                f"recipe: a sweep must have at most {MOST:,} runs (configurations x seeds x folds), but this one "
                "has more; reduce one of these"
            )

    def _require_settings(self) -> None:
        for name, value in self.settings.items():
            text("recipe: the name of a setting", name)
            if name in OWN:
                raise UsageError(f"recipe: {name} must not be among the settings: the sweep sets it")
            if name == "no_scaling" and isinstance(value, Range):
                raise UsageError(
                    "recipe: no_scaling must be true or false, since errors with and without standardization "
                    "cannot be compared"
                )
            if not isinstance(value, Range) and not is_plain(value):
                raise UsageError(
                    f"recipe: {name} must be a word, a finite number, true or false, or a range, not {shown(value)}"
                )
        for name, each in self.ranges.items():
            for other, values in each.conditions.items():
                if other not in self.settings:
                    raise UsageError(
                        f"recipe: when of {name} must name another setting; {other} is not a setting"
                    )
                there = self.settings[other]
                if not any(there.holds(v) if isinstance(there, Range) else there == v for v in values):
                    raise UsageError(
                        f"recipe: {name} would never be used: it needs {other} to be "
                        f"{' or '.join(map(str, values))}, which is not among its values"
                    )
        _ = self._in_order

    @cached_property
    def _in_order(self) -> list[str]:
        found: list[str] = []

        def add(name: str, path: tuple[str, ...]) -> None:
            if name in path:
                circle = [*path[path.index(name) :], name]
                raise UsageError(f"recipe: {', which depends on '.join(circle)}: a cycle")
            for other in _conditions_of(self.settings[name]):
                add(other, (*path, name))
            if name not in found:
                found.append(name)

        for name in self.settings:
            add(name, ())
        return found

    @property
    def ranges(self) -> dict[str, Range]:
        return {name: value for name, value in self.settings.items() if isinstance(value, Range)}

    @cached_property
    def budget(self) -> tuple[str, float]:
        """Kind of budget, "epochs", "steps" or "core_seconds", and its amount. Raises UsageError."""
        name = next((name for name in BUDGETS if name in self.settings), "epochs")
        value = self.settings.get(name)
        if value is None or isinstance(value, Range):
            raise UsageError(
                "recipe: give epochs, a number, under [settings], the length of training; or steps, or core-seconds"
            )
        if name == "core_seconds":
            if not is_number(value) or not 0 < value < float("inf"):
                raise UsageError(f"recipe: core_seconds must be a number above 0, not {shown(value)}")
            amount = float(value)
        else:
            amount = whole_number(f"recipe: {name}", value)
        if self.halving is not None:
            first = self.halving.first
            if name != "core_seconds":
                whole_number(f"halving: first, in {name},", first)
            if first >= amount:
                raise UsageError(f"recipe: halving: first, {first}, must be below {name}, {amount:g}")
        return name, amount

    @property
    def epochs(self) -> int:
        """Maximum number of epochs of a run."""
        name, amount = self.budget
        return int(amount) if name == "epochs" else ENOUGH

    @property
    def rungs(self) -> list[float]:
        """Budgets at which runs are compared; only the whole budget without halving."""
        amount = self.budget[1]
        return [amount] if self.halving is None else self.halving.rungs(amount)

    @property
    def brackets(self) -> list[Bracket]:
        """Groups of configurations that are compared among themselves."""
        if self.halving is None:
            return [Bracket(range(self.count), 0)]
        return list(self.halving.divided(self.count, self.budget[1]))

    @property
    def effort(self) -> int | None:
        """Epochs of all runs together if none stops early; None for other budgets."""
        if self.epochs == ENOUGH:
            return None
        total, rungs = 0.0, self.rungs
        for numbers, begin in self.brackets:
            count, done = len(numbers), 0.0
            for rung in rungs[begin:]:
                total += count * self.seeds * self.folds * (rung - done)
                done = rung
                count = count if self.halving is None else self.halving.kept(count)
        return int(total)

    def until(self, spent: float) -> Settings:
        """Returns the settings that stop a run at the budget `spent`."""
        name, _ = self.budget
        others = {each: self.settings[each] for each in BUDGETS if each in self.settings and each != name}
        return {"epochs": ENOUGH, **others, name: spent}

    @cached_property
    def count(self) -> int:
        """Number of configurations."""
        return self.trials if self.method != "grid" else sum(1 for _ in self.configurations())

    def require_known(self, options: Collection[str]) -> None:
        """Raises UsageError for a setting that is not among these options of `train`."""
        options = set(options) - set(OWN)
        for name in self.settings:
            if name not in options:
                close = (
                    [ELSEWHERE[name]]
                    if name in ELSEWHERE
                    else difflib.get_close_matches(name, options, 1, 0.5)
                )
                hint = f" Did you mean {close[0]}?" if close else ""
                raise UsageError(
                    f"recipe: train has no setting {name}; it has {', '.join(sorted(options))}.{hint}"
                )

    def command(
        self, settings: Settings, seed: int, folder: str | Path, fold: int | None = None
    ) -> list[str]:
        """Returns the arguments of `graphnet-rnn` that train one configuration in `folder`."""
        found = ["train", self.data, f"--out={folder}", f"--seed={seed}", f"--threads={self.threads}"]
        if fold is not None:
            found += [f"--fold={fold + 1}/{self.folds}", *([f"--gap={self.gap}"] if self.gap else [])]
        for name, value in settings.items():
            option = f"--{name.replace('_', '-')}"
            found += [option] * value if isinstance(value, bool) else [f"{option}={value}"]
        return [*found, "--quiet"]

    def resuming(self, folder: str | Path, spent: float) -> list[str]:
        """Returns the arguments of `graphnet-rnn` that resume the run in `folder` up to the budget `spent`."""
        files = {name: self.settings[name] for name in FILES if name in self.settings and name not in BEGUN}
        options = [
            f"--{name.replace('_', '-')}={value}" for name, value in (self.until(spent) | files).items()
        ]
        return ["train", self.data, f"--resume={folder}", *options, f"--threads={self.threads}", "--quiet"]

    # -- in files ------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path) -> Recipe:
        """Reads a recipe from a TOML file.

        path: TOML file with `data` and the other arguments above, and the settings under [settings].
        Raises DataError for a file that is not TOML, UsageError for settings that do not fit.
        """
        content = read_bytes(path, DataError)
        try:
            given = tomllib.loads(content.decode("utf-8-sig"))
        except ValueError as error:  # of tomllib, UTF-8, or a number of thousands of digits
            raise DataError(f"{path} is not valid TOML: {error}") from None
        except RecursionError:
            raise DataError(f"{path} is not a recipe: its brackets are nested too deeply") from None
        return cls.of(given, Path(path).parent)

    @classmethod
    def of(cls, mapping: Mapping[str, Any], folder: Path) -> Recipe:
        """Returns the recipe of a mapping, as a TOML file has it.

        mapping: contents of the file. folder: folder to which paths of data files are relative.
        """
        given = dict(mapping)
        settings = given.pop("settings", {})
        if not isinstance(settings, dict):
            raise UsageError(f"recipe: settings must be a table, not {shown(settings)}")
        made = {name.replace("-", "_"): _setting_of(name, value) for name, value in settings.items()}
        if len(made) < len(settings):
            raise UsageError("recipe: settings has an option twice, once with - and once with _ in its name")
        tables = {name: given.pop(name, None) for name in ("halving", "sampler", "pruner")}
        known = sorted({each.name for each in fields(cls)} - {"settings", *tables})
        strange = sorted(set(given) - set(known))
        if strange:
            raise UsageError(
                f"recipe: there is no key {shown(strange[0])}{did_you_mean(strange[0], known)}; options of train "
                "stand under [settings], see docs/hyperparameter_search.md"
            )
        if "trials" in given and given.get("method", METHODS[0]) == "grid":
            raise UsageError(
                "recipe: trials needs method = 'random' or 'optuna'; a grid tries all configurations"
            )
        if "data" not in given:
            raise UsageError("recipe: data = 'FILE' is missing")

        def there(name: Any) -> Any:
            return str((folder / name).resolve()) if isinstance(name, str) and is_file(name) else name

        found = cls(
            there(given.pop("data")),
            {name: there(value) if name in FILES else value for name, value in made.items()},
            halving=_halving_of(tables["halving"]),
            sampler=_optuna_of("sampler", tables["sampler"]),
            pruner=_optuna_of("pruner", tables["pruner"]),
            **given,
        )
        return found

    def mapping(self) -> dict[str, Any]:
        """Returns the recipe as a mapping for JSON."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        found["settings"] = {
            name: value.description() if isinstance(value, Range) else value
            for name, value in self.settings.items()
        }
        if self.method == "grid":
            del found["trials"]
        if self.halving is not None:
            found["halving"] = self.halving.mapping()
        for name in ("sampler", "pruner"):
            if found[name] is not None:
                found[name] = {"name": found[name].name, **found[name].settings}
        return {name: value for name, value in found.items() if value is not None}

    def with_files(self, kept: Callable[[str], str]) -> Recipe:
        """Returns a copy in which the name of each file is replaced by `kept(name)`."""
        settings = {
            name: kept(value) if name in FILES and isinstance(value, str) else value
            for name, value in self.settings.items()
        }
        return replace(self, data=kept(self.data) if is_file(self.data) else self.data, settings=settings)

    # -- configurations ------------------------------------------------------------------------

    def configurations(self) -> Iterator[Settings]:
        """Yields the settings of each configuration, in order; those of "optuna" depend on runs, see sweep.Results."""
        if self.method == "random":
            for number in range(self.trials):
                random = np.random.default_rng([self.seed, number])
                yield self.fitting(
                    {name: each.draw(random) for name, each in self.ranges.items()}.__getitem__
                )
            return
        names = list(self.ranges)
        seen: set[str] = set()
        for values in itertools.product(*(each.values for each in self.ranges.values())):  # type: ignore[attr-defined]
            found = self.fitting(dict(zip(names, values, strict=True)).__getitem__)
            key = json.dumps(found, sort_keys=True)
            if key not in seen:  # without ranges that do not apply here
                seen.add(key)
                yield found
            if len(seen) > MOST:
                raise UsageError(
                    f"recipe: the grid has more than {MOST:,} configurations; use method = 'random'"
                )

    def allows(self, settings: Mapping[str, Any]) -> bool:
        """True if these settings are a configuration of the recipe."""
        if not all(name in self.settings and _may_be(self.settings[name], v) for name, v in settings.items()):
            return False
        try:
            return self.fitting(settings.__getitem__) == settings
        except KeyError:  # a missing setting
            return False

    def fitting(self, value_of: Callable[[str], Any]) -> Settings:
        """Returns the settings, with `value_of(name)` for ranges; settings that do not apply are left out."""
        found: Settings = {}
        for name in self._in_order:
            value = self.settings[name]
            if all(other in found and found[other] in held for other, held in _conditions_of(value).items()):
                found[name] = value_of(name) if isinstance(value, Range) else value
        return {name: found[name] for name in self.settings if name in found}


def _may_be(setting: Any, value: Any) -> bool:
    return setting.holds(value) if isinstance(setting, Range) else setting == value


def _conditions_of(setting: Any) -> Mapping[str, tuple[Any, ...]]:
    return setting.conditions if isinstance(setting, Range) else {}


def _setting_of(name: str, value: Any) -> Any:
    """A table is a range of values; a list of names is what the command takes, a,b."""
    if isinstance(value, dict):
        return range_of(name, value)
    if name in LISTS and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return value


def _halving_of(given: Any) -> Halving | None:
    try:
        return None if given is None else Halving(**given)
    except TypeError:
        raise UsageError(
            f"recipe: halving must have only the keys first, factor and brackets, not {shown(given)}"
        ) from None


def _optuna_of(what: str, given: Any) -> Optuna | None:
    if given is None or isinstance(given, str):
        return None if given is None else Optuna(given)
    if not isinstance(given, dict) or "name" not in given:
        raise UsageError(f"recipe: {what} must be a name, or {{ name = ..., settings }}, not {shown(given)}")
    settings = dict(given)
    return Optuna(settings.pop("name"), settings)
