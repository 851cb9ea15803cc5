"""Ranges of settings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import is_number, listed, shown, yes_or_no
from graphnet_rnn.training.problem import plain


def is_plain(value: Any) -> bool:
    """True for a value of a setting: a str, bool or finite number."""
    return type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))


class Range(ABC):
    """Range of a setting.

    when: values of other settings with which this setting applies; otherwise it is left out. None: always applies.
    """

    when: Mapping[str, tuple[Any, ...]] | None

    @property
    def conditions(self) -> Mapping[str, tuple[Any, ...]]:
        """`when`; empty for a setting that always applies."""
        return self.when or {}

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """True if `value` lies in the range."""

    @abstractmethod
    def draw(self, random: np.random.Generator) -> Any:
        """Draws a value with the generator `random`."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Returns the range as written in a recipe."""


@dataclass(frozen=True)
class Values(Range):
    """List of values; a grid search tries all of them.

    values: strings, numbers or bools. when: settings with which this setting applies, e.g. {"cell": ("GRU",)}; None:
    always. `holds(value)`: True if `value` is listed. `draw(random)`: one value, drawn with a NumPy generator.
    Raises UsageError for an empty list.

    >>> cells = rnn.sweep.Values(("LSTM", "GRU"))
    >>> cells.holds("GRU"), cells.holds("RHN")
    (True, False)
    """

    values: tuple[Any, ...]
    when: Mapping[str, tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        found = tuple(listed("Values: values", self.values, "settings"))
        if not found or not all(map(is_plain, found)):
            raise UsageError(
                f"values must be words, finite numbers, true or false, at least one, not {shown(self.values)}"
            )
        object.__setattr__(self, "values", found)
        object.__setattr__(self, "when", _conditions(self.when))

    def holds(self, value: Any) -> bool:
        return value in self.values

    def draw(self, random: np.random.Generator) -> Any:
        return self.values[int(random.integers(len(self.values)))]

    def description(self) -> dict[str, Any]:
        return {"values": list(self.values), **_when(self.when)}


@dataclass(frozen=True)
class Between(Range):
    """Uniform distribution of a number between low and high.

    low, high: ends, both included. log: True for a log-uniform distribution (learning rates); False by default.
    whole: True for whole numbers; False by default. when: settings with which this setting applies, e.g.
    {"optimizer": ("adam",)}; None: always.
    `holds(value)`: True if `value` lies in the range. `draw(random)`: one value, drawn with a NumPy generator.
    Raises UsageError for ends that do not fit.

    >>> rate = rnn.sweep.Between(1e-4, 1e-1, log=True)
    >>> rate.holds(0.01), rate.holds(1.0)
    (True, False)
    >>> rate.description()
    {'log': [0.0001, 0.1]}
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False
    when: Mapping[str, tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        yes_or_no("Between: log", self.log)
        yes_or_no("Between: whole", self.whole)
        ends = (self.low, self.high)
        if not all(is_number(end) and math.isfinite(end) for end in ends) or not self.low < self.high:
            raise UsageError(
                f"a range must go from a number to a larger one, not from {self.low!r} to {self.high!r}"
            )
        if self.log and self.low <= 0:
            raise UsageError(f"a log range must begin above 0, not at {self.low!r}")
        if self.whole and any(end != int(end) for end in ends):
            raise UsageError(
                f"the ends of a whole range must be whole numbers, not {self.low!r} and {self.high!r}"
            )
        for name in ("low", "high"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        object.__setattr__(self, "when", _conditions(self.when))

    def holds(self, value: Any) -> bool:
        fits = is_number(value) and (not self.whole or isinstance(value, int))
        return fits and self.low <= value <= self.high

    def draw(self, random: np.random.Generator) -> Any:
        low, high = (self.low, self.high + 1) if self.whole else (self.low, self.high)
        share = random.random()
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        return min(math.floor(value), int(self.high)) if self.whole else float(f"{value:.6g}")

    def description(self) -> dict[str, Any]:
        kind = "whole" if self.whole else "log" if self.log else "uniform"
        both = {"log": True} if self.whole and self.log else {}
        return {kind: [self.low, self.high], **both, **_when(self.when)}


def range_of(name: str, given: Mapping[str, Any]) -> Range:
    """Range from a table of a recipe: {values = [...]}, {uniform = [a, b]}, {log = [a, b]}, {whole = [a, b]}.

    With when = {...} for a setting that does not always apply. Raises UsageError, which names the setting.
    """
    kinds = [kind for kind in ("values", "uniform", "log", "whole") if isinstance(given.get(kind), list)]
    logarithms = given.get("log") is True and kinds == ["whole"]
    known = {"when", *kinds, *(["log"] if logarithms else [])}
    if len(kinds) != 1 or set(given) - known:
        raise UsageError(
            f"recipe: {name} must be a value, or one of {{ values = [...] }}, {{ uniform = [a, b] }}, {{ log = [a, "
            "b] } and { whole = [a, b] }, with when = {...} if only some configurations have it, not "
            f"{shown(dict(given))}"
        )
    (kind,), when = kinds, given.get("when")
    if when is not None and not isinstance(when, Mapping):
        raise UsageError(f"recipe: {name}: when must be {{ setting = [values] }}, not {shown(when)}")
    ends = given[kind]
    try:
        if kind == "values":
            return Values(tuple(ends), when)
        if len(ends) != 2:
            raise UsageError(f"a range must be two numbers, [a, b], not {len(ends)}")
        low, high = ends
        return Between(low, high, kind == "log" or logarithms, kind == "whole", when)
    except UsageError as error:
        raise UsageError(f"recipe: {name}: {error}") from None


def _conditions(when: Any) -> dict[str, tuple[Any, ...]] | None:
    if when is None:
        return None
    found = {}
    for name, values in when.items():
        values = tuple(values) if isinstance(values, Sequence) and not isinstance(values, str) else (values,)
        found[str(name)] = values
    return found


def _when(when: Mapping[str, tuple[Any, ...]] | None) -> dict[str, Any]:
    return {} if when is None else {"when": {name: list(values) for name, values in when.items()}}
