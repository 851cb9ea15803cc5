"""Recipe: what is tried, and how."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import read_bytes
from graphnet_rnn.settings import amount, one_of, shown, whole_number
from graphnet_rnn.sweep.ranges import PLAIN, Range, Values, range_of

__all__ = ["Halving", "Recipe", "Settings"]

#: A setting of `graphnet-rnn train` by its option's name, with _ for -.
Settings = dict[str, Any]
METHODS = ("grid", "random")
#: What a recipe says elsewhere, or what the sweep sees to.
OWN = ("seed", "fold", "gap", "threads", "out", "resume", "quiet", "no_live", "debug", "text")
#: Configurations of a grid at most.
MOST = 100_000


@dataclass(frozen=True)
class Halving:
    """Successive halving: those that learn worst are cut down early.

    All configurations train for `first` epochs, the best 1/`factor` of them `factor` times as long, and so on to the
    recipe's epochs. Source: Karnin, Koren & Somekh 2013; Jamieson & Talwalkar 2016.
    """

    first: int = 1
    factor: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", whole_number("halving: first", self.first))
        object.__setattr__(self, "factor", whole_number("halving: factor", self.factor, least=2))

    def rungs(self, epochs: int) -> list[int]:
        """Epochs after which it is decided who goes on, the last one included."""
        found: list[int] = []
        while self.first * self.factor ** len(found) < epochs:
            found.append(self.first * self.factor ** len(found))
        return [*found, epochs]

    def kept(self, count: int) -> int:
        """How many of so many go on."""
        return max(1, count // self.factor)


@dataclass(frozen=True)
class Recipe:
    """A text, settings of `graphnet-rnn train`, and ranges of some.

    text: the file. settings: option -> value or Range. method: "grid", all values of all ranges, or "random", so many
    `trials`, each drawn by its number and the recipe's seed alone, so more can be asked for later. seeds: how often
    each configuration is trained, from seed 0 on. folds: and each of these so many times, with another block of the
    text to validate on; gap: characters on each side of the block that nobody reads, see data.Corpus.fold; 1: the usual
    parts of the text. threads: cores of a run. seconds: of a run at most. halving: cut down early what learns worst.
    name: in reports.
    Raises UsageError.
    """

    text: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    method: str = "grid"
    trials: int = 20
    seeds: int = 1
    folds: int = 1
    gap: int = 0
    seed: int = 0
    threads: int = 1
    seconds: float | None = None
    halving: Halving | None = None
    name: str = "sweep"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text:
            raise UsageError(f"recipe: text must name a file, not {shown(self.text)}")
        if not isinstance(self.name, str) or not self.name.strip() or not self.name.isprintable():
            raise UsageError(f"recipe: name must be words on one line, not {shown(self.name)}")
        one_of("recipe: method", self.method, METHODS)
        for name, least in (
            ("trials", 1),
            ("seeds", 1),
            ("folds", 1),
            ("gap", 0),
            ("seed", 0),
            ("threads", 1),
        ):
            object.__setattr__(self, name, whole_number(f"recipe: {name}", getattr(self, name), least=least))
        if self.folds > 1 and "valid" in self.settings:
            raise UsageError(
                "recipe: folds say what to validate on, and so does the setting valid; give one of them"
            )
        if self.gap and self.folds == 1:
            raise UsageError("recipe: gap is beside the blocks of folds, of which there are none")
        if self.seconds is not None:
            object.__setattr__(self, "seconds", amount("recipe: seconds", self.seconds, above_zero=True))
        for name, value in self.settings.items():
            if name in OWN:
                raise UsageError(f"recipe: {name} is no setting: the sweep sees to it")
            if not isinstance(value, Range) and type(value) not in PLAIN:
                raise UsageError(
                    f"recipe: {name} must be a word, a number, true or false, or a range, not {shown(value)}"
                )
        for name, each in self.ranges.items():
            for other, values in each.conditions.items():
                if other not in self.settings:
                    raise UsageError(
                        f"recipe: {name} is a setting when {other} is this or that, which is no setting"
                    )
                there = self.settings[other]
                if not any(there.holds(v) if isinstance(there, Range) else there == v for v in values):
                    raise UsageError(
                        f"recipe: {name} is a setting when {other} is {' or '.join(map(str, values))}, which it never "
                        "is"
                    )
        self._require_no_circle()
        if self.method == "grid":
            loose = [name for name, each in self.ranges.items() if not isinstance(each, Values)]
            if loose:
                raise UsageError(
                    f"recipe: a grid goes through values, and {' and '.join(loose)} "
                    f"{'have' if len(loose) > 1 else 'has'} none; say method = 'random'"
                )

    def _require_no_circle(self) -> None:
        """UsageError where what a setting depends on depends on that setting."""

        def follow(name: str, path: tuple[str, ...]) -> None:
            if name in path:
                circle = [*path[path.index(name) :], name]
                raise UsageError(
                    f"recipe: {', which depends on '.join(circle)}: nobody could say which is a setting"
                )
            for other in _conditions_of(self.settings[name]):
                follow(other, (*path, name))

        for name in self.settings:
            follow(name, ())

    @property
    def ranges(self) -> dict[str, Range]:
        return {name: value for name, value in self.settings.items() if isinstance(value, Range)}

    @property
    def epochs(self) -> int:
        """To which a run is trained at most."""
        value = self.settings.get("epochs")
        if value is None or isinstance(value, Range):
            raise UsageError("recipe: say epochs, a number, under [settings]: for how long all are trained")
        epochs = whole_number("recipe: epochs", value)
        if self.halving is not None and self.halving.first >= epochs:
            raise UsageError(f"recipe: halving: first, {self.halving.first}, must be below epochs, {epochs}")
        return epochs

    @property
    def rungs(self) -> list[int]:
        """Epochs after which it is decided who goes on; the last one alone where nothing is cut down."""
        return [self.epochs] if self.halving is None else self.halving.rungs(self.epochs)

    @property
    def effort(self) -> int:
        """Epochs of all runs together, if none ends early."""
        count, done, total = sum(1 for _ in self.configurations()), 0, 0
        for rung in self.rungs:
            total += count * self.seeds * self.folds * (rung - done)
            done = rung
            count = count if self.halving is None else self.halving.kept(count)
        return total

    def require_known(self, options: Collection[str]) -> None:
        """UsageError for a setting that is none of these."""
        for name in self.settings:
            if name not in options:
                close = difflib.get_close_matches(name, options, 1, 0.5)
                hint = f" Did you mean {close[0]}?" if close else ""
                raise UsageError(
                    f"recipe: train has no setting {name}; it has {', '.join(sorted(options))}.{hint}"
                )

    def command(self, settings: Settings, seed: int, folder: str | Path, fold: int = 0) -> list[str]:
        """The arguments of `graphnet-rnn` that train one of them."""
        found = ["train", self.text, f"--out={folder}", f"--seed={seed}", f"--threads={self.threads}"]
        if self.folds > 1:
            found += [f"--fold={fold + 1}/{self.folds}", f"--gap={self.gap}"]
        for name, value in settings.items():
            option = f"--{name.replace('_', '-')}"
            found += [option] * value if isinstance(value, bool) else [f"{option}={value}"]
        return [*found, "--quiet"]

    @classmethod
    def read(cls, path: str | Path) -> Recipe:
        """A recipe in TOML: text and settings under [settings], the rest above. DataError, UsageError."""
        try:
            given = tomllib.loads(read_bytes(path, DataError).decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is no TOML: {error}") from None
        settings = given.pop("settings", {})
        if not isinstance(settings, dict):
            raise UsageError(f"recipe: settings must be a table, not {shown(settings)}")
        made = {
            name.replace("-", "_"): range_of(name, value) if isinstance(value, dict) else value
            for name, value in settings.items()
        }
        halving = given.pop("halving", None)
        known = ("text", "method", "trials", "seeds", "folds", "gap", "seed", "threads", "seconds", "name")
        strange = sorted(set(given) - set(known))
        if strange or (halving is not None and not isinstance(halving, dict)):
            wrong = strange[0] if strange else "halving"
            close = difflib.get_close_matches(wrong, known, 1, 0.7)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"recipe: {shown(wrong)} is not what a recipe says; {hint}options of train stand under [settings], see "
                "docs/sweeps.md"
            )
        if "trials" in given and given.get("method", METHODS[0]) == "grid":
            raise UsageError("recipe: trials are of method = 'random'; a grid has as many as it has")
        try:
            cut = None if halving is None else Halving(**halving)
        except TypeError:
            raise UsageError(f"recipe: halving has first and factor, not {shown(halving)}") from None
        if "text" not in given:
            raise UsageError("recipe: text = 'FILE' is missing")
        text = given.pop("text")
        if isinstance(text, str) and text:  # beside the recipe, wherever it is run
            text = str((Path(path).parent / text).resolve())
        return cls(text, made, halving=cut, **given)

    def configurations(self) -> Iterator[Settings]:
        """The settings of each, in their order."""
        fixed = {name: value for name, value in self.settings.items() if not isinstance(value, Range)}
        if self.method == "random":
            for number in range(self.trials):
                random = np.random.default_rng([self.seed, number])
                drawn = {name: each.draw(random) for name, each in self.ranges.items()}
                yield self._fitting({**fixed, **drawn})
            return
        names = list(self.ranges)
        seen: set[str] = set()
        for values in itertools.product(*(each.values for each in self.ranges.values())):  # type: ignore[attr-defined]
            found = self._fitting({**fixed, **dict(zip(names, values, strict=True))})
            key = json.dumps(found, sort_keys=True)
            if key not in seen:  # ranges that are no settings here
                seen.add(key)
                yield found
            if len(seen) > MOST:
                raise UsageError(
                    f"recipe: the grid has more than {MOST:,} configurations; say method = 'random'"
                )

    def _fitting(self, settings: Settings) -> Settings:
        """Without those that are none beside the others, nor beside those that are none themselves."""

        @cache
        def fits(name: str) -> bool:
            when = _conditions_of(self.settings[name])
            return all(fits(other) and settings[other] in values for other, values in when.items())

        return {name: settings[name] for name in self.settings if name in settings and fits(name)}

    def description(self) -> dict[str, Any]:
        """As JSON: what must be the same for a sweep to go on. Of trials, seeds and cores there may be more."""
        settings = {
            name: value.description() if isinstance(value, Range) else value
            for name, value in self.settings.items()
        }
        folded = {"folds": [self.folds, self.gap]} if self.folds > 1 else {}
        return folded | {
            "text": hashlib.sha256(read_bytes(self.text, DataError)).hexdigest(), "settings": settings,
            "method": self.method, "seed": self.seed, "seconds": self.seconds,
            "halving": None if self.halving is None else [self.halving.first, self.halving.factor],
        }  # fmt: skip


def _conditions_of(setting: Any) -> Mapping[str, tuple[Any, ...]]:
    return setting.conditions if isinstance(setting, Range) else {}
