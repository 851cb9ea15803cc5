"""How settings change while training goes on.

By epoch: an EpochSchedule is a factor on the optimiser's own rate. By step: a StepSchedule stands where a first-order
optimiser takes a rate or a momentum, and the optimiser counts the steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import amount, fraction, has_items, is_number, shown, whole_number

__all__ = [
    "ConstantRate",
    "DelayedDecay",
    "EpochSchedule",
    "NesterovMomentum",
    "StepSchedule",
    "Stepwise",
    "described",
    "rate_or_schedule",
    "share_or_schedule",
]  # fmt: skip

# -- by epoch ------------------------------------------------------------------------------------


class EpochSchedule(Protocol):
    """epoch (0, 1, ...) -> factor"""

    def factor(self, epoch: int) -> float: ...


@dataclass(frozen=True)
class ConstantRate:
    """ε_e = ε"""

    def factor(self, epoch: int) -> float:
        return 1.0


@dataclass(frozen=True)
class DelayedDecay:
    """ε_e = ε for the first `after` epochs, then × `decay` at every further one.

    The defaults, 10 and 0.95, are Lynge's (2016, 3.6.1, after Karpathy, Johnson & Li 2015).
    """

    after: int = 10
    decay: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "after", whole_number("DelayedDecay: after", self.after, least=0))
        if not is_number(self.decay) or not 0 < self.decay <= 1:
            raise UsageError(f"DelayedDecay: decay must be in (0, 1], not {shown(self.decay)}")

    def factor(self, epoch: int) -> float:
        return float(self.decay ** max(0, epoch - self.after + 1))


# -- by step -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepSchedule(ABC):
    """step (0, 1, ...) -> value. A frozen dataclass, which is all that says what it will do."""

    @abstractmethod
    def at(self, step: int) -> float:
        """The value at a step."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """No value is below the first, none above the second."""

    def description(self) -> dict[str, Any]:
        """It in words, numbers and lists alone, for JSON; an optimiser takes this, too, where it takes a schedule."""
        return {
            "schedule": type(self).__name__,
            **{f.name: _plain(getattr(self, f.name)) for f in fields(self)},
        }


@dataclass(frozen=True)
class Stepwise(StepSchedule):
    """The value at step t is that of the last of the given steps that is not after t

    values: a mapping, or pairs, step -> value; the first step is 0. Stepwise({0: 3e-5, 1500: 3e-4}) is 3e-5 at 1500
    steps, and then 3e-4. Kept as pairs in order.
    Raises UsageError for steps that are no whole numbers, or twice there, and for values that are not finite.
    """

    values: Any

    def __post_init__(self) -> None:
        given = self.values.items() if isinstance(self.values, Mapping) else self.values
        pairs = sorted((_pair(pair) for pair in _listed(given)), key=lambda pair: pair[0])
        steps = [step for step, _ in pairs]
        if not pairs or steps[0] != 0:
            raise UsageError(f"Stepwise: the first of the steps must be 0, not {steps[0] if pairs else None}")
        if len(set(steps)) < len(steps):
            raise UsageError(f"Stepwise: each step can have one value, but the steps are {steps}")
        object.__setattr__(self, "values", tuple(pairs))

    @classmethod
    def spaced(cls, values: Sequence[float], last: int, ratio: float = 2.0) -> Stepwise:
        """values[0] at first; the last from step `last` on, each other from 1/ratio of the step of the next one on

        The source places the momenta 0.8, 0.9, 0.95, 0.97, 0.99, 0.995, 0.997, 0.999 "(roughly) at exponentially
        spaced iterations", the last at 200,000 of 600,000; the ratio 2 is ours. Source: Sutskever 2013, 7.3.
        """
        listed, last = list(_listed(values)), whole_number("Stepwise.spaced: last", last)
        if not (is_number(ratio) and 1 < ratio < math.inf):
            raise UsageError(f"Stepwise.spaced: ratio must be a finite number > 1, not {ratio!r}")
        later = range(len(listed) - 2, -1, -1)
        steps = [0, *(round(last / ratio**n) for n in later)][: len(listed)]
        if len(set(steps)) < len(listed):
            raise UsageError(
                f"Stepwise.spaced: {len(listed)} values do not fit into {last} steps with the ratio {ratio}: they "
                f"would begin at {steps}"
            )
        return cls(zip(steps, listed, strict=True))

    def capped(self, most: float) -> Stepwise:
        """min(value, most)"""
        most = amount("Stepwise.capped: most", most)
        return Stepwise((step, min(value, most)) for step, value in self.values)

    def then(self, step: int, value: float) -> Stepwise:
        """This until `step`, and `value` from there on.

        Sutskever 2013, 7.3, in the last tenth of 600,000 steps: rate.then(540_000, rate / 10), and momentum 0.99.
        """
        step = whole_number("Stepwise.then: step", step, least=0)
        return Stepwise([*(pair for pair in self.values if pair[0] < step), (step, value)])

    def at(self, step: int) -> float:
        value: float = self.values[bisect_right(self.values, step, key=lambda pair: pair[0]) - 1][1]
        return value

    @property
    def range(self) -> tuple[float, float]:
        values = [value for _, value in self.values]
        return min(values), max(values)


@dataclass(frozen=True)
class NesterovMomentum(StepSchedule):
    """μ_t = min(1 - 3 / (t + 5), most)

    What Nesterov's own method comes to; for costs that are not convex it is to be limited.
    Source: Nesterov 1983; Sutskever 2013, 7.2, after eq. 7.6, where (a_t - 1) / a_{t+1} is near it.
    """

    most: float = 0.999

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", fraction("NesterovMomentum: most", self.most))

    def at(self, step: int) -> float:
        return min(1 - 3 / (step + 5), self.most)

    @property
    def range(self) -> tuple[float, float]:
        return self.at(0), self.most


#: What a description may name.
KINDS: dict[str, type[StepSchedule]] = {kind.__name__: kind for kind in (Stepwise, NesterovMomentum)}


def rate_or_schedule(argument: str, value: Any) -> float | StepSchedule:
    """A learning rate: a number > 0, a StepSchedule of such, or the description of one; UsageError for others."""
    rate = _number_or_schedule(argument, value)
    for each in _extremes(rate):
        if not each > 0:
            raise UsageError(f"{argument} must be > 0, not {each!r}")
        if math.isinf(each):
            raise UsageError(f"{argument} must be finite, not {each!r}")
    return rate


def share_or_schedule(argument: str, value: Any) -> float | StepSchedule:
    """The same of numbers in [0, 1), such as a momentum."""
    share = _number_or_schedule(argument, value)
    for each in _extremes(share):
        if not 0 <= each < 1:
            raise UsageError(f"{argument} must be in [0, 1), not {each!r}")
    return share


def described(setting: Any) -> Any:
    """A setting as JSON knows it: a schedule by its description."""
    return setting.description() if isinstance(setting, StepSchedule) else setting


def _number_or_schedule(argument: str, value: Any) -> float | StepSchedule:
    """The value, if it is a number or a StepSchedule; the schedule, if it is the description of one."""
    if isinstance(value, StepSchedule):
        return value
    if isinstance(value, Mapping) and isinstance(value.get("schedule"), str) and value["schedule"] in KINDS:
        settings = {str(name): setting for name, setting in value.items() if name != "schedule"}
        kind = KINDS[value["schedule"]]
        if set(settings) == {f.name for f in fields(kind)}:
            return kind(**settings)
    if is_number(value):
        return float(value) if isinstance(value, np.generic) else value
    raise UsageError(
        f"{argument} must be a number or a StepSchedule, e.g. Stepwise({{0: 0.1}}), not {shown(value)}"
    )


def _extremes(setting: float | StepSchedule) -> tuple[float, ...]:
    """The least and the largest value that it takes; of a number, the number."""
    return setting.range if isinstance(setting, StepSchedule) else (setting,)


def _listed(given: Any) -> Iterable[Any]:
    if isinstance(given, str) or not has_items(given):
        raise UsageError(f"Stepwise: values must be a mapping or pairs, step -> value, not {given!r:.60}")
    return given


def _pair(given: Any) -> tuple[int, float]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise UsageError(f"Stepwise: values must be pairs (step, value), but one is {given!r:.60}")
    step, value = given
    if not is_number(value) or not math.isfinite(value):
        raise UsageError(
            f"Stepwise: the value from step {step!r:.20} on must be a finite number, not {value!r:.40}"
        )
    return whole_number("Stepwise: a step", step, least=0), float(value)


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
