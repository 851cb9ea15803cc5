"""Training: the settings of a run; its files, the check on resuming and the command line use them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, fields
from typing import Any

from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Optimizer, require_optimizer
from graphnet_rnn.optimizers.first_order import Adam, FirstOrder
from graphnet_rnn.optimizers.schedules import Constant, ExponentialDecay, Schedule, factor_schedule
from graphnet_rnn.settings import (
    Amount,
    Count,
    Fraction,
    NamedArguments,
    Positive,
    Share,
    is_number,
    require_kinds,
    setting,
    shown,
)
from graphnet_rnn.training.state import as_stored, description_of


@dataclass(frozen=True)
class EarlyStopping(NamedArguments):
    """Continues while C_t ≤ C_{t-N} (1 - τ)^N, C_t > 0 the validation cost after epoch t. Source: Lynge 2016, 4.2.1.

    Negative costs must decrease by the same share of their size.

    memory: N, in epochs, default 10.
    tolerance: τ, minimum mean relative decrease per epoch, default 5e-5.
    patience: replaces this rule: stop after this number of epochs without a new best; default None.

    >>> rnn.EarlyStopping(patience=2).should_stop([3.0, 2.0, 2.1, 2.2])
    True
    """

    memory: Count = 10
    tolerance: Fraction = 5e-5
    patience: Count | None = None

    def __post_init__(self) -> None:
        require_kinds(self)

    def should_stop(self, costs: Sequence[float]) -> bool:
        """Returns True to stop. costs: the validation cost after each epoch so far."""
        if self.patience is not None:
            best, since = math.inf, 0
            for cost in costs:
                best, since = (cost, 0) if cost < best else (best, since + 1)
            return since >= self.patience
        if len(costs) <= self.memory:
            return False
        before, kept = costs[-1 - self.memory], (1 - self.tolerance) ** self.memory
        return not costs[-1] <= before * (kept if before > 0 else 2 - kept)


#: Its identity distinguishes the default from an equal rule that is given.
_BY_DEFAULT = EarlyStopping()


@dataclass(frozen=True)
class Training(NamedArguments):
    """Settings of a Trainer: optimizer, learning rate schedule, and when to stop.

    optimizer: any of rnn.optimizers; default Adam(clip_norm=1).
    epochs, steps: maximum numbers, default 50 and None (unlimited).
    core_seconds: maximum processor time for steps and validation, in seconds; default None (unlimited, not measured).
    The first of the three limits ends the run, if necessary within an epoch, and the result is validated.
    schedule: an rnn.Schedule of factors on the learning rate, by steps, epochs (`by_epoch`) or validation costs
    (OnPlateau). Default ExponentialDecay(0.95, after=10).by_epoch() for first-order optimizers whose rate is a number,
    else Constant().
    average: κ; validates and saves the running mean a ← κ_t a + (1 - κ_t) θ, κ_t = min(κ, 1 - 1/t) after step t; 1 for
    the mean of all steps. Default None.
    stopping: early stopping, default EarlyStopping(); None for none.
    patience: stop after this number of epochs without a new best validation cost; short for
    stopping=EarlyStopping(patience=...). Default None.
    goal: stop when the validation measure, or the training cost without validation data, is at most this; default None.
    log_every: steps between rows of the history, default 10; all steps of second-order optimizers are logged.
    checkpoint_seconds: maximum time between checkpoints, in seconds, default 20.
    Raises UsageError for invalid settings.

    >>> training = rnn.Training(rnn.Adam(rate=0.002), epochs=20, patience=3)
    >>> training.epochs, training.optimizer.rate
    (20, 0.002)
    >>> sorted(training.description())
    ['average', 'goal', 'log_every', 'optimizer', 'schedule', 'stopping']
    """

    optimizer: Optimizer = field(default_factory=lambda: Adam(clip_norm=1.0))
    epochs: Count = setting(50, "maximum number of epochs", free=True)
    steps: Count | None = setting(None, "maximum number of steps (default: no limit)", free=True, type=int)
    core_seconds: Positive | None = setting(
        None,
        "maximum processor time for steps and validation, in seconds (default: no limit)",
        free=True,
        type=float,
    )
    schedule: Schedule | None = None
    average: Share | None = setting(
        None,
        "validate and save a running mean of the weights with this decay, e.g. 0.999",
        type=float,
    )
    stopping: EarlyStopping | None = _BY_DEFAULT
    goal: float | None = setting(None, "stop when the validation measure is at most this", type=float)
    log_every: Count = setting(10, "steps between rows of the history")
    checkpoint_seconds: Amount = setting(20.0, "maximum time between checkpoints, in seconds", free=True)
    patience: InitVar[int | None] = None

    def __post_init__(self, patience: int | None) -> None:
        require_kinds(self)
        if patience is not None:
            if self.stopping is not _BY_DEFAULT:
                raise UsageError(
                    "Training: stopping and patience both set early stopping; give only one of them"
                )
            object.__setattr__(self, "stopping", EarlyStopping(patience=patience))
        require_optimizer("Training", self.optimizer)
        stops = callable(getattr(self.stopping, "should_stop", None)) and not isinstance(self.stopping, type)
        if self.stopping is not None and not stops:
            raise UsageError(
                "Training: stopping must be an object with a method should_stop, e.g. rnn.EarlyStopping(), or None, "
                f"not {shown(self.stopping)}"
            )
        if self.schedule is not None:
            factor_schedule("Training: schedule", self.schedule)
            if self.schedule != Constant():
                require_rate("Training: schedule", self.optimizer, type(self.optimizer).__name__)
        if self.goal is not None and (not is_number(self.goal) or math.isnan(self.goal)):
            raise UsageError(f"Training: goal must be a number or None, not {shown(self.goal)}")
        falls = isinstance(self.optimizer, FirstOrder) and not isinstance(self.optimizer.rate, Schedule)
        object.__setattr__(self, "schedule", self.schedule or default_schedule(falls))

    def description(self) -> dict[str, Any]:
        """Returns the settings that must not change on resume, as JSON."""
        fixed = {f.name: getattr(self, f.name) for f in fields(self) if not f.metadata.get("free")}
        plain = (type(None), bool, int, float, str)
        said = {name: v if isinstance(v, plain) else description_of(v) for name, v in fixed.items()}
        own = {"name": type(self.optimizer).__name__, **self.optimizer.settings()}
        return as_stored({**said, "optimizer": own})


def require_rate(schedule: str, optimizer: Optimizer, name: str) -> None:
    """Raises UsageError for an optimizer without a learning rate; schedule, name: what the message calls the two."""
    if not hasattr(optimizer, "rate"):
        raise UsageError(f"{schedule} multiplies the learning rate, but {name} has none; leave it out")


def default_schedule(falls: bool) -> Schedule:
    """Returns the Trainer's default schedule; falls: True if nothing else lowers the learning rate."""
    return ExponentialDecay(0.95, after=10).by_epoch() if falls else Constant()
