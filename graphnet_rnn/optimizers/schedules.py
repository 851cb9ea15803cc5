"""Schedules: learning rates and momenta that change during training.

A schedule has a value for each step: in an optimizer, the rate or momentum; in a Trainer, a factor on the optimizer's
rate. Most shapes begin or end at 1. Multiply them, and concatenate them with `then`:

    rnn.Adam(rate=0.002 * rnn.Warmup(500).then(rnn.Cosine(20_000)))            # a rate, by step
    rnn.Training(schedule=rnn.Warmup(500).then(rnn.Cosine(20_000)))            # the same factors on the rate
    rnn.Training(schedule=rnn.Cosine(20).by_epoch() * rnn.Warmup(500))         # by epoch, and by step
    rnn.Training(schedule=rnn.OnPlateau(0.5, patience=3))                      # by validation costs

Schedules have no state: the optimizer's state counts steps; the Trainer counts epochs and stores validation costs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any

import numpy as np

from graphnet.graph.display import ShowsItself
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import (
    Count,
    CountOrZero,
    Fraction,
    NamedArguments,
    Number,
    amount,
    fraction,
    has_items,
    is_number,
    number,
    require_kinds,
    shown,
    whole_number,
)

#: Counters that a schedule may read.
STEP, EPOCH, COSTS = "step", "epoch", "costs"
#: Counters that only a Trainer has, in words.
UNKNOWN = {EPOCH: "epochs", COSTS: "validation costs"}


@dataclass(frozen=True)
class Schedule(NamedArguments, ShowsItself, ABC):
    """Base class of schedules: step (0, 1, ...) -> value, a frozen dataclass without state.

    A subclass defines `at` and `range`. reads: the counters that it depends on, of "step", "epoch" and "costs"; default
    "step". length: number of steps until its last value; default None, unlimited.

    Multiply schedules with `*`, concatenate them with `then`, count epochs instead of steps with `by_epoch`.

    >>> schedule = rnn.Warmup(2).then(rnn.Cosine(4)) * 0.5
    >>> [round(schedule.at(step), 3) for step in range(7)]
    [0.25, 0.5, 0.5, 0.427, 0.25, 0.073, 0.0]
    >>> round(schedule.now(step=3), 3), rnn.Cosine(4).by_epoch().now(step=100, epoch=2)
    (0.427, 0.5)
    >>> rnn.Warmup(2).description()
    {'schedule': 'Warmup', 'steps': 2, 'start': 0.0}
    """

    #: Makes `number * schedule` call the schedule for NumPy's numbers, too.
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        require_kinds(self)

    @abstractmethod
    def at(self, step: int) -> float:
        """Returns the value at a step (0, 1, ...)."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Lower and upper bound of all values."""

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({STEP})

    @property
    def length(self) -> int | None:
        return None

    def now(self, step: int, epoch: int = 0, costs: Sequence[float] = ()) -> float:
        """Returns the value after this many steps (`step`) and epochs (`epoch`), and the validation costs (`costs`),
        one for each epoch.
        """
        return self.at(step)

    def description(self) -> dict[str, Any]:
        """Returns the schedule as JSON values; optimizers also accept this form."""
        return {
            "schedule": type(self).__name__,
            **{f.name: _plain(getattr(self, f.name)) for f in fields(self)},
        }

    # -- composed ------------------------------------------------------------------------------

    def then(self, following: Schedule | float, at: int | None = None) -> Schedule:
        """Follows this schedule until step `at`, then the next one from its step 0

        following: the next schedule, or a number.
        at: the step at which the next schedule begins; by default the length of this one.
        Raises UsageError if this schedule has no length and `at` is missing.
        """
        if at is None:
            at = self.length
            if at is None:
                raise UsageError(
                    f"then: {shown(self)} has no last step; give the step at which the next schedule begins: "
                    "schedule.then(following, at=1000)"
                )
        return Then(self, _as_schedule("then: following", following), at)

    def by_epoch(self) -> Schedule:
        """Returns the schedule of epochs instead of steps, for a Trainer, which counts epochs."""
        return ByEpoch(self)

    def __mul__(self, other: Schedule | float) -> Schedule:
        if not isinstance(other, Schedule) and not is_number(other):
            return NotImplemented
        return Times(other, self) if not isinstance(other, Schedule) else Times(self, other)

    def __rmul__(self, other: float) -> Schedule:
        return Times(other, self) if is_number(other) else NotImplemented


# -- shapes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constant(Schedule):
    """x_t = value

    value: default 1.

    >>> rnn.Constant(0.5).at(100)
    0.5
    """

    value: Number = 1.0

    def at(self, step: int) -> float:
        return self.value

    @property
    def reads(self) -> frozenset[str]:
        return frozenset()

    @property
    def range(self) -> tuple[float, float]:
        return self.value, self.value


@dataclass(frozen=True)
class Ramp(Schedule):
    """x_t = first + (last - first) min(t, n) / n, n = steps: linear from one value to another

    first, last: the values at step 0 and from step n on.
    steps: n.

    >>> [rnn.Ramp(0.5, 0.9, steps=4).at(t) for t in (0, 2, 4, 10)]
    [0.5, 0.7, 0.9, 0.9]
    """

    first: Number
    last: Number
    steps: Count

    @property
    def length(self) -> int:
        return self.steps

    def at(self, step: int) -> float:
        return _between(self.first, self.last, min(step, self.steps) / self.steps)

    @property
    def range(self) -> tuple[float, float]:
        return min(self.first, self.last), max(self.first, self.last)


@dataclass(frozen=True)
class Warmup(Schedule):
    """x_t = start + (1 - start) min(t + 1, n) / n, n = steps: linear warmup to 1

    steps: n; the n-th step has the value 1.
    start: default 0; the first step then has 1 / n, so no step is without effect.
    Source: Goyal et al. 2017, 2.2.

    >>> [rnn.Warmup(4).at(t) for t in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    steps: Count
    start: Fraction = 0.0

    @property
    def length(self) -> int:
        return self.steps

    def at(self, step: int) -> float:
        return _between(self.start, 1.0, min(step + 1, self.steps) / self.steps)

    @property
    def range(self) -> tuple[float, float]:
        return self.at(0), 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """x_t = final + (1 - final) (1 + cos(π min(t, n) / n)) / 2, n = steps: cosine decay from 1 to `final`

    steps: n.
    final: the value from step n on, default 0.
    Source: Loshchilov & Hutter 2017 (SGDR), eq. 5, without restarts.

    >>> [round(rnn.Cosine(4).at(t), 3) for t in range(5)]
    [1.0, 0.854, 0.5, 0.146, 0.0]
    """

    steps: Count
    final: Fraction = 0.0

    @property
    def length(self) -> int:
        return self.steps

    def at(self, step: int) -> float:
        if step >= self.steps:
            return self.final
        return _between(self.final, 1.0, (1 + math.cos(math.pi * step / self.steps)) / 2)

    @property
    def range(self) -> tuple[float, float]:
        return self.final, 1.0


@dataclass(frozen=True)
class OneCycle(Schedule):
    """x_t: linear from `start` up to 1, back to `start`, and down to `final`, in n = steps

    steps: n, number of steps of the cycle.
    start: first value, default 0.1.
    final: last value, default 0.001.
    rise: fraction of the steps for the way up, in (0, 0.5], default 0.45; the way back takes as many.

    Momentum may go the other way: Ramp(0.95, 0.85, 450).then(Ramp(0.85, 0.95, 450)). Source: Smith & Topin 2018, 2
    (1cycle).

    >>> [round(rnn.OneCycle(10, rise=0.4).at(t), 3) for t in (0, 2, 4, 6, 8, 10)]
    [0.1, 0.55, 1.0, 0.55, 0.1, 0.001]
    """

    steps: Count
    start: Fraction = 0.1
    final: Fraction = 0.001
    rise: float = 0.45

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.rise) or not 0 < self.rise <= 0.5:
            raise UsageError(f"OneCycle: rise must be in (0, 0.5], not {shown(self.rise)}")
        if not 1 <= self._up <= self.steps / 2:
            raise UsageError(
                f"OneCycle: {self.steps} steps are too few to rise and fall in {self._up} steps each; use more steps"
            )

    @property
    def _up(self) -> int:
        return round(self.rise * self.steps)

    @property
    def length(self) -> int:
        return self.steps

    def at(self, step: int) -> float:
        up, left = self._up, self.steps - 2 * self._up
        if step <= up:
            return _between(self.start, 1.0, step / up)
        if step <= 2 * up and (left or step < 2 * up):
            return _between(1.0, self.start, (step - up) / up)
        return _between(self.start, self.final, min(step - 2 * up, left) / left if left else 1.0)

    @property
    def range(self) -> tuple[float, float]:
        return min(self.start, self.final), 1.0


@dataclass(frozen=True)
class ExponentialDecay(Schedule):
    """x_t = decay^(max(0, t - after + 1) / n), n = steps: 1 at first, then × decay in n steps

    decay: factor in (0, 1], default 0.95.
    after: number of steps with the value 1, default 1.
    steps: n, default 1.

    ExponentialDecay(0.95, after=10).by_epoch() is the default of a Trainer (Lynge 2016, 3.6.1, after Karpathy, Johnson
    & Li 2015).

    >>> [round(rnn.ExponentialDecay(0.5, after=2).at(t), 3) for t in range(5)]
    [1.0, 1.0, 0.5, 0.25, 0.125]
    """

    decay: Annotated[float, partial(fraction, or_all=True, above_zero=True)] = 0.95
    after: CountOrZero = 1
    steps: Count = 1

    def at(self, step: int) -> float:
        return float(self.decay ** (max(0, step - self.after + 1) / self.steps))

    @property
    def range(self) -> tuple[float, float]:
        return (1.0 if self.decay == 1 else 0.0), 1.0


@dataclass(frozen=True)
class InverseRootDecay(Schedule):
    """x_t = √(n / (n + t)), n = steps

    steps: n.

    Warmup(n).then(InverseRootDecay(n)) rises to 1 in n steps and then falls as 1/√t. Source: Vaswani et al. 2017, eq.
    3, divided by its maximum.

    >>> rnn.InverseRootDecay(100).at(300)
    0.5
    """

    steps: Count

    def at(self, step: int) -> float:
        return math.sqrt(self.steps / (self.steps + step))

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0


@dataclass(frozen=True)
class Stepwise(Schedule):
    """Piecewise constant: each value holds from its step until the next one

    values: a mapping step -> value, or pairs (step, value); the first step is 0. Stored as sorted pairs.
    Raises UsageError for invalid or repeated steps, and for values that are not finite.

    >>> schedule = rnn.Stepwise({0: 0.1, 1500: 0.01})
    >>> schedule.at(1499), schedule.at(1500)
    (0.1, 0.01)
    >>> rnn.Stepwise.spaced([0.8, 0.9, 0.99], last=8).capped(0.95).values
    ((0, 0.8), (4, 0.9), (8, 0.95))
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
        """Spaces values geometrically over the steps: values[0] from step 0, the last value from step `last` on

        values: the values, in order.
        last: the step at which the last value begins.
        ratio: each value begins at 1/ratio of the step of the next one, default 2.

        The source places the momenta 0.8, 0.9, 0.95, 0.97, 0.99, 0.995, 0.997, 0.999 "(roughly) at exponentially spaced
        iterations", the last at 200,000 of 600,000; the ratio 2 is ours. Source: Sutskever 2013, 7.3.
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
        """Returns min(value, most) of all values."""
        most = amount("Stepwise.capped: most", most)
        return Stepwise((step, min(value, most)) for step, value in self.values)

    def then(self, following: Schedule | float, at: int | None = None) -> Schedule:
        """Follows this schedule until step `at`; a number becomes one more step of it.

        following, at: as in Schedule.then.

        Sutskever 2013, 7.3, in the last tenth of 600,000 steps: rate.then(rate / 10, at=540_000), and momentum 0.99.
        """
        if isinstance(following, Schedule) or at is None:
            return super().then(following, at)
        at = whole_number("then: at", at, least=0)
        return Stepwise([*(pair for pair in self.values if pair[0] < at), (at, following)])

    def at(self, step: int) -> float:
        value: float = self.values[bisect_right(self.values, step, key=lambda pair: pair[0]) - 1][1]
        return value

    @property
    def range(self) -> tuple[float, float]:
        values = [value for _, value in self.values]
        return min(values), max(values)


@dataclass(frozen=True)
class NesterovMomentum(Schedule):
    """μ_t = min(1 - 3 / (t + 5), most)

    most: upper bound, default 0.999.

    Approximates the momentum of Nesterov's method; for costs that are not convex, bound it by `most`.
    Source: Nesterov 1983; Sutskever 2013, 7.2, after eq. 7.6, which is close to (a_t - 1) / a_{t+1}.

    >>> momentum = rnn.NesterovMomentum(most=0.9)
    >>> momentum.at(0), momentum.at(100)
    (0.4, 0.9)
    """

    most: Fraction = 0.999

    def at(self, step: int) -> float:
        return min(1 - 3 / (step + 5), self.most)

    @property
    def range(self) -> tuple[float, float]:
        return self.at(0), self.most


@dataclass(frozen=True)
class OnPlateau(Schedule):
    """x = max(factor^k, least), k the number of times that `patience` epochs in a row did not improve the validation
    cost

    factor: multiplied with the value at each plateau, default 0.5.
    patience: number of epochs without improvement, default 5.
    tolerance: minimum relative improvement: an epoch improves if C < C_best - tolerance |C_best|; default 1e-4.
    least: lower bound of the value, default 0.

    Reads the validation costs of a Trainer (the training costs without validation data). They are stored in
    checkpoints, so resuming needs no further state. Combine it with others: Warmup(500) * OnPlateau(0.5).

    >>> rnn.OnPlateau(0.5, patience=2).now(step=0, epoch=3, costs=[1.0, 1.2, 1.1])
    0.5
    """

    factor: Annotated[float, partial(fraction, above_zero=True)] = 0.5
    patience: Count = 5
    tolerance: Fraction = 1e-4
    least: Fraction = 0.0

    def at(self, step: int) -> float:
        raise _unknown(self)

    def now(self, step: int, epoch: int = 0, costs: Sequence[float] = ()) -> float:
        best, idle, times = math.inf, 0, 0
        for cost in costs:
            improves = cost < best - (self.tolerance * abs(best) if math.isfinite(best) else 0.0)
            best, idle = (cost, 0) if improves else (best, idle + 1)
            if idle == self.patience:
                times, idle = times + 1, 0
        return max(self.factor**times, self.least)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({COSTS})

    @property
    def range(self) -> tuple[float, float]:
        return self.least, 1.0


# -- composed ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OfSchedules(Schedule):
    @abstractmethod
    def now(self, step: int, epoch: int = 0, costs: Sequence[float] = ()) -> float: ...

    def at(self, step: int) -> float:
        if self.reads - {STEP}:
            raise _unknown(self)
        return self.now(step)


@dataclass(frozen=True, repr=False)
class Then(_OfSchedules):
    """x_t = first_t for t < at, following_{t - at} afterwards; the result of `first.then(following)`."""

    first: Schedule
    following: Schedule
    start: CountOrZero

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "first", _as_schedule("then: first", self.first))
        object.__setattr__(self, "following", _as_schedule("then: following", self.following))

    def __repr__(self) -> str:
        at = "" if self.start == self.first.length else f", at={self.start}"
        first = f"({self.first!r})" if isinstance(self.first, Times) else repr(self.first)
        return f"{first}.then({self.following!r}{at})"

    def now(self, step: int, epoch: int = 0, costs: Sequence[float] = ()) -> float:
        if step < self.start:
            return self.first.now(step, epoch, costs)
        return self.following.now(step - self.start, epoch, costs)

    @property
    def reads(self) -> frozenset[str]:
        return self.first.reads | self.following.reads | {STEP}

    @property
    def length(self) -> int | None:
        following = 0 if isinstance(self.following, Constant) else self.following.length
        return None if following is None else self.start + following

    @property
    def range(self) -> tuple[float, float]:
        (a, b), (c, d) = self.first.range, self.following.range
        return min(a, c), max(b, d)


@dataclass(frozen=True, repr=False)
class Times(_OfSchedules):
    """x_t = a_t b_t, or a b_t for a number a; the result of `a * b`."""

    factor: Schedule | float
    of: Schedule

    def __post_init__(self) -> None:
        if not is_number(self.factor):
            object.__setattr__(self, "factor", _as_schedule("a schedule's factor", self.factor))
        else:
            object.__setattr__(self, "factor", number("a schedule's factor", self.factor))
        object.__setattr__(self, "of", _as_schedule("a product of schedules", self.of))

    def __repr__(self) -> str:
        of = f"({self.of!r})" if isinstance(self.of, Times) else repr(self.of)
        return f"{self.factor!r} * {of}"

    def now(self, step: int, epoch: int = 0, costs: Sequence[float] = ()) -> float:
        factor = self.factor.now(step, epoch, costs) if isinstance(self.factor, Schedule) else self.factor
        return factor * self.of.now(step, epoch, costs)

    @property
    def reads(self) -> frozenset[str]:
        return self.of.reads | (self.factor.reads if isinstance(self.factor, Schedule) else frozenset())

    @property
    def length(self) -> int | None:
        if not isinstance(self.factor, Schedule):
            return self.of.length
        lengths = self.factor.length, self.of.length
        return None if lengths[0] is None or lengths[1] is None else max(lengths[0], lengths[1])

    @property
    def range(self) -> tuple[float, float]:
        ends = [a * b for a in _extremes(self.factor) for b in self.of.range]
        return min(ends), max(ends)


@dataclass(frozen=True, repr=False)
class ByEpoch(_OfSchedules):
    """x = of_e, e epochs; the result of `schedule.by_epoch()`."""

    of: Schedule

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", _as_schedule("by_epoch", self.of))

    def __repr__(self) -> str:
        of = f"({self.of!r})" if isinstance(self.of, Times) else repr(self.of)
        return f"{of}.by_epoch()"

    def now(self, step: int, epoch: int = 0, costs: Sequence[float] = ()) -> float:
        return self.of.now(epoch, epoch, costs)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(EPOCH if each == STEP else each for each in self.of.reads)

    @property
    def range(self) -> tuple[float, float]:
        return self.of.range


#: Names in expressions on the command line.
KINDS: dict[str, type[Schedule]] = {
    kind.__name__: kind
    for kind in (
        Warmup, Cosine, OneCycle, Ramp, ExponentialDecay, InverseRootDecay, OnPlateau, Stepwise, NesterovMomentum,
        Constant,
    )
}  # fmt: skip
#: Schedules in descriptions.
DESCRIBED = KINDS | {kind.__name__: kind for kind in (Then, Times, ByEpoch)}


# -- where one is given --------------------------------------------------------------------------


def rate_or_schedule(argument: str, value: Any) -> float | Schedule:
    """Checks a learning rate: a number > 0, a Schedule of rates >= 0, or the description of one. Raises UsageError."""
    rate = _number_or_schedule(argument, value)
    least, most = _extremes(rate)
    scheduled = isinstance(rate, Schedule)
    for each, fits in ((least, least >= 0 if scheduled else least > 0), (most, most > 0)):
        if not fits:
            sign = ">= 0, and > 0 at some step" if scheduled else "> 0"
            raise UsageError(f"{argument} must be {sign}, not {each!r}")
        if math.isinf(each):
            raise UsageError(f"{argument} must be finite, not {each!r}")
    return rate


def share_or_schedule(argument: str, value: Any) -> float | Schedule:
    """Checks a number in [0, 1), such as a momentum, or a Schedule of these. Raises UsageError."""
    share = _number_or_schedule(argument, value)
    for each in _extremes(share):
        if not 0 <= each < 1:
            raise UsageError(f"{argument} must be in [0, 1), not {each!r}")
    return share


#: Kinds of settings, see graphnet_rnn.settings.
Rate = Annotated[float | Schedule, rate_or_schedule]
FractionOrSchedule = Annotated[float | Schedule, share_or_schedule]


def factor_schedule(argument: str, value: Any) -> Schedule:
    """Checks a Schedule of factors on the learning rate. Raises UsageError."""
    if not isinstance(value, Schedule):
        raise UsageError(f"{argument} must be a Schedule, e.g. rnn.Warmup(500), or None, not {shown(value)}")
    least, most = value.range
    if not (least >= 0 and 0 < most < math.inf):
        raise UsageError(
            f"{argument} must have factors >= 0, not all 0, but {shown(value)} goes from {least:g} to {most:g}"
        )
    return value


def described(setting: Any) -> Any:
    """Returns a setting as JSON; a schedule by its description."""
    return setting.description() if isinstance(setting, Schedule) else setting


def _number_or_schedule(argument: str, value: Any) -> float | Schedule:
    """Returns the number, the schedule, or the schedule of a description; UsageError if it reads more than steps."""
    found = _of_description(value)
    if isinstance(found, Schedule):
        for each in sorted(found.reads - {STEP}):
            raise UsageError(
                f"{argument} cannot be {shown(found)}, since it depends on {UNKNOWN[each]}, and an optimizer has only "
                "steps; give a Trainer a schedule of factors on the rate: rnn.Training(schedule=...)"
            )
        return found
    if is_number(value):
        return float(value) if isinstance(value, np.generic) else value
    raise UsageError(f"{argument} must be a number or a Schedule, e.g. 0.1 * Warmup(500), not {shown(value)}")


def _of_description(value: Any) -> Any:
    """Returns the schedule of a description; any other value unchanged."""
    if isinstance(value, Mapping) and isinstance(value.get("schedule"), str):
        kind = DESCRIBED.get(value["schedule"])
        settings = {str(name): _of_description(s) for name, s in value.items() if name != "schedule"}
        if kind is not None and set(settings) == {f.name for f in fields(kind)}:
            return kind(**settings)
    return value


def _as_schedule(argument: str, value: Any) -> Schedule:
    found = Constant(value) if is_number(value) else _of_description(value)
    if not isinstance(found, Schedule):
        raise UsageError(f"{argument} must be a Schedule or a number, not {shown(value)}")
    return found


def _unknown(schedule: Schedule) -> UsageError:
    reads = " and ".join(UNKNOWN[each] for each in sorted(schedule.reads - {STEP}))
    return UsageError(f"{shown(schedule)}: its value depends on {reads}; call now(step, epoch, costs)")


def _between(a: float, b: float, share: float) -> float:
    """Interpolates linearly; exact at both ends."""
    return a + (b - a) * share if share < 1 else b


def _extremes(setting: float | Schedule) -> tuple[float, float]:
    return setting.range if isinstance(setting, Schedule) else (setting, setting)


def _listed(given: Any) -> Iterable[Any]:
    if isinstance(given, str) or not has_items(given):
        raise UsageError(f"Stepwise: values must be a mapping or pairs, step -> value, not {shown(given)}")
    return given


def _pair(given: Any) -> tuple[int, float]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise UsageError(f"Stepwise: values must be pairs (step, value), but one is {shown(given)}")
    step, value = given
    if not is_number(value) or not math.isfinite(value):
        raise UsageError(
            f"Stepwise: the value from step {shown(step, 20)} on must be a finite number, not {shown(value, 40)}"
        )
    return whole_number("Stepwise: a step", step, least=0), float(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Schedule):
        return value.description()
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
