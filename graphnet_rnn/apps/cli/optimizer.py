"""Optimizers by name, with settings: adam, momentum(momentum=0.99), hf(structural=0.1), riemannian(rbpm).

And schedules, as in Python: Warmup(500).then(Cosine(20000)).
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from typing import Any

from graphnet_rnn import optimizers
from graphnet_rnn.apps.cli.calls import made, quoted, read_expression, read_settings, taken_apart
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.schedules import KINDS as SCHEDULES
from graphnet_rnn.optimizers.schedules import Schedule, Stepwise
from graphnet_rnn.riemannian.metrics import KINDS, METRICS
from graphnet_rnn.settings import amount

EXAMPLE = "hf(structural=0.1, cg_steps=100)"
EXAMPLE_OF_SCHEDULE = "Warmup(500).then(Cosine(20000))"
A_SCHEDULE = f"a schedule, e.g. {EXAMPLE_OF_SCHEDULE}"

__all__ = [
    "EXAMPLE_OF_SCHEDULE",
    "default_rates",
    "is_schedule",
    "make_optimizer",
    "make_schedule",
    "no_limit",
    "optimizer_class",
    "require_rate",
    "schedule_help",
]


def optimizer_class(text: str) -> type[Optimizer]:
    """The class that is named, whatever its settings; UsageError if there is none."""
    where, name, _ = taken_apart(text, EXAMPLE)
    if not where and name in optimizers.ALL:
        return optimizers.ALL[name]
    close = difflib.get_close_matches(name, optimizers.ALL, 1, 0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise UsageError(f"there is no optimizer {quoted(text)}; there are {', '.join(optimizers.ALL)}.{hint}")


def default_rates() -> str:
    """The optimizers that have a rate, each with its own, in words."""
    firsts = {name: kind for name, kind in optimizers.ALL.items() if issubclass(kind, FirstOrder)}
    return ", ".join(f"{name} {kind.rate}" for name, kind in firsts.items())


def no_limit(option: str, value: float) -> float | None:
    """The limit that an option says; None for its 0, which is how to write that there is none."""
    if not value >= 0:
        raise UsageError(f"{option} must be > 0, or 0 for no limit, not {value:g}")
    return value or None


def make_optimizer(
    text: str,
    default: Mapping[str, Any] | None = None,
    rate: float | None = None,
    clip_norm: float | None = None,
) -> Optimizer:
    """The optimizer with the settings in the parentheses; those that are not said are `default`, or its own.

    A rate or momentum may be a schedule, adam(rate=0.002 * Warmup(500)), or a dict by step:
    momentum(rate={0: 1e-4, 1000: 1e-3}). A metric may be its name alone, or a call: riemannian(rbpm),
    riemannian(OuterProduct('diagonal', damping=0.1)). rate, clip_norm: of options of their
    own, for optimizers that have such settings; clip_norm 0 for no limit.
    Raises UsageError for settings that it does not have, or that are said twice.
    """
    kind = optimizer_class(text)
    own = inspect.signature(kind).parameters
    has_metric = "metric" in own
    arguments, named = read_settings(
        text,
        taken_apart(text, EXAMPLE).settings,
        EXAMPLE,
        _metric_or_schedule if has_metric else _schedule,
        METRICS if has_metric else (),
        A_SCHEDULE,
    )
    if has_metric and len(arguments) == 1 and "metric" not in named:
        named["metric"] = arguments.pop()
    if arguments:
        raise UsageError(f"{quoted(text)}: write settings of optimizers by name, e.g. adam(rate=0.001)")
    for name, option, value in (("rate", "--rate", rate), ("clip_norm", "--clip-norm", clip_norm)):
        if value is None:
            continue
        if name not in own:
            raise UsageError(f"{option} is not for --optimizer {text}, which has no such setting")
        if name in named:
            raise UsageError(f"{option} {value:g} and {quoted(text)} both say {name}; leave out one")
        named[name] = amount(option, value, above_zero=True) if name == "rate" else no_limit(option, value)
    settings = {**{k: v for k, v in (default or {}).items() if k in own}, **named}
    return made(
        kind,
        [],
        {k: Stepwise(v) if isinstance(v, dict) and k != "groups" else v for k, v in settings.items()},
    )


def make_schedule(text: str) -> Schedule:
    """The schedule that an expression says; UsageError for anything else."""
    found = read_expression(text, EXAMPLE_OF_SCHEDULE, _schedule, A_SCHEDULE)
    if not isinstance(found, Schedule):
        raise UsageError(f"{quoted(text)} is no schedule; one is e.g. {EXAMPLE_OF_SCHEDULE!r}")
    return found


def require_rate(optimizer: Optimizer, text: str) -> None:
    """UsageError for an optimizer without a rate."""
    if not hasattr(optimizer, "rate"):
        raise UsageError(f"--schedule is a factor on a rate, and --optimizer {text} has none")


def is_schedule(text: str) -> bool:
    """Whether it begins as an expression that makes a schedule."""
    return re.match(rf"[(\s]*([\d.e-]+\s*\*[(\s]*)?({'|'.join(SCHEDULES)})\s*[(.]", text) is not None


def schedule_help() -> str:
    """What an option that takes a schedule says."""
    return (
        f"factor on the rate by step, '{EXAMPLE_OF_SCHEDULE}', or by epoch, 'Cosine(20).by_epoch()'; made of "
        f"{', '.join(SCHEDULES)}, multiplied by * or one .then(another)"
    )


def _schedule(name: str) -> type[Schedule]:
    """The class of schedules of this name; UsageError if there is none."""
    if name in SCHEDULES:
        return SCHEDULES[name]
    lowered = {kind.lower(): kind for kind in SCHEDULES}
    close = difflib.get_close_matches(name.lower(), lowered, 1, 0.5)
    hint = f". Did you mean {lowered[close[0]]}?" if close else ""
    raise UsageError(f"there is no schedule {quoted(name)}; there are {', '.join(SCHEDULES)}{hint}")


def _metric_or_schedule(name: str) -> type:
    """The class of metrics, or of schedules, of this name; UsageError if there is none."""
    if name in SCHEDULES:
        return SCHEDULES[name]
    if name in KINDS:
        return KINDS[name]
    hint = f"; write {name} alone, or one of these" if name in METRICS else ""
    raise UsageError(f"there is no metric {quoted(name)} with settings; there are {', '.join(KINDS)}{hint}")
