"""Book: what there is of each run, read from the sweep's folder alone, so whoever looks sees the same.

recipe.json        what is swept
0003-1/            configuration 3 with seed 1: its settings (settings.json), and a run of `graphnet-rnn train` (run/)
0003-1/ended.json  how it ended for good: done, failed with a sentence, or out of time
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphnet.system.json_lines import read_rows
from graphnet.system.json_text import read_json
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.files.whole import read_bytes, write_atomically
from graphnet_rnn.settings import shown
from graphnet_rnn.sweep.recipe import Recipe, Settings

__all__ = ["ENDS", "Book", "Entry"]

#: How a run may end for good. "cut": others learned better.
ENDS = ("done", "failed", "cut", "out of time")
RECIPE, SETTINGS, ENDED, RUN = "recipe.json", "settings.json", "ended.json", "run"


@dataclass
class Entry:
    """One run: a configuration and a seed.

    epochs: how many it has made. values: the validated measure after each (of the training data where nothing is kept
    to validate). state: "waiting", "begun", or one of ENDS. sentence: why it failed.
    """

    number: int
    seed: int
    settings: Settings
    folder: Path
    state: str = "waiting"
    sentence: str = ""
    values: list[float] = field(default_factory=list)
    seconds: float = 0.0
    unit: str = ""

    @property
    def name(self) -> str:
        return f"{self.number:04d}-{self.seed}"

    @property
    def run(self) -> Path:
        """The folder of the run itself."""
        return self.folder / RUN

    @property
    def epochs(self) -> int:
        return len(self.values)

    @property
    def best(self) -> float:
        """The least value; NaN before the first."""
        return min(self.values, default=math.nan)

    def value_at(self, epochs: int) -> float:
        """The least of so many epochs, or of fewer if it ended before; infinite if it failed, or is not so far."""
        whole = len(self.values) >= epochs or self.state in ("done", "out of time")
        return min(self.values[:epochs], default=math.inf) if whole else math.inf

    def look(self) -> None:
        """Reads what is there now."""
        ended = _read(self.folder / ENDED)
        self.state, self.sentence = str(ended.get("state", "")), str(ended.get("sentence", ""))
        self.values, self.unit = [], self.unit
        history = self.run / "history.jsonl"
        for row in read_rows(history, DataError) if history.exists() else []:
            if row.get("event") == "start":
                self.unit = str(row.get("unit", ""))
            elif row.get("event") == "epoch":
                found = [
                    value for name, value in row.items() if name.startswith("valid_") and value is not None
                ]
                found = found or [value for name, value in row.items() if name.startswith("train_")]
                self.values.append(float(found[0]) if found and found[0] is not None else math.inf)
        timing = self.run / "timing.jsonl"
        rows = read_rows(timing, DataError) if timing.exists() else []
        self.seconds = sum(float(row.get("seconds", 0)) for row in rows if "epoch" in row)
        if self.state not in ENDS:
            self.state = "begun" if self.run.exists() else "waiting"

    def end(self, state: str, sentence: str = "") -> None:
        """Writes how it ended for good."""
        assert state in ENDS
        write_atomically(self.folder / ENDED, _json({"state": state, "sentence": sentence}))
        self.state, self.sentence = state, sentence


class Book:
    """All runs of a recipe, in a folder. It is made, or taken up: UsageError for a folder of another recipe."""

    def __init__(self, recipe: Recipe, folder: str | Path) -> None:
        self.recipe, self.folder = recipe, Path(folder)
        held = self.folder / RECIPE
        if held.exists():
            was, now = _read(held), json.loads(_json(recipe.description()))
            changed = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
            if changed:
                raise UsageError(
                    f"{self.folder} is a sweep of another recipe: {' and '.join(changed)} of it differ; name another "
                    "folder"
                )
        else:
            if self.folder.exists() and any(self.folder.iterdir()):
                raise UsageError(f"{self.folder} is there already, and holds no sweep; name another folder")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(held, _json(recipe.description()))
        self.entries = list(self._entries())

    def _entries(self) -> Iterator[Entry]:
        for number, settings in enumerate(self.recipe.configurations()):
            for seed in range(self.recipe.seeds):
                yield Entry(number, seed, settings, self.folder / f"{number:04d}-{seed}")

    def look(self) -> list[Entry]:
        """The entries, as they are now."""
        for entry in self.entries:
            if entry.state not in ENDS or not entry.values:
                entry.look()
        return self.entries

    def best(self) -> list[tuple[Settings, float, float, list[Entry]]]:
        """Of each configuration that has a value: settings, mean of the best values over seeds, standard error, runs.

        The best first.
        """
        found = []
        for number in sorted({entry.number for entry in self.entries}):
            runs = [entry for entry in self.entries if entry.number == number]
            values = [entry.best for entry in runs if math.isfinite(entry.best)]
            if values:
                mean = math.fsum(values) / len(values)
                spread = math.fsum((value - mean) ** 2 for value in values)
                error = math.sqrt(spread / (len(values) - 1) / len(values)) if len(values) > 1 else math.nan
                found.append((runs[0].settings, mean, error, runs))
        return sorted(found, key=lambda each: each[1])


def _read(path: Path) -> dict[str, Any]:
    """A small file of JSON; {} where it is not there. DataError for what is none."""
    if not path.exists():
        return {}
    try:
        found = read_json(read_bytes(path, DataError))
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} is damaged: it holds {shown(found)}")
    return found


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(dict(value), indent=1, default=list) + "\n").encode()
