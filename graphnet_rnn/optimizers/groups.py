"""Groups of parameters, by patterns of their names: which learn more slowly, decay less, or do not learn at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import amount, shown, yes_or_no

__all__ = ["DECAYS", "RATES", "Groups", "as_groups", "as_mapping", "factors", "kinds_of"]

#: What the arrays of a state are called that hold a factor for each number of θ.
RATES, DECAYS = "group_rate", "group_weight_decay"
#: Patterns, and of each what it sets: as an optimiser keeps them, since settings must be hashable.
Groups = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


def as_groups(owner: str, given: Any) -> Groups:
    """The groups of {"layer0.*": {"rate": 0.1}, "*.b_*": {"weight_decay": 0}, "output.*": {"frozen": True}}.

    UsageError for what cannot be meant.
    """
    if given is None or given == ():
        return ()
    if isinstance(given, tuple):  # kept by another of its kind
        given = as_mapping(given)
    if not isinstance(given, Mapping):
        raise UsageError(
            f'{owner}: groups must be a mapping, e.g. {{"layer0.*": {{"rate": 0.1}}}}, not {shown(given)}'
        )
    return tuple(
        (_pattern(owner, name), _settings(f"{owner}: groups, {name!r}", s)) for name, s in given.items()
    )


def as_mapping(groups: Groups) -> dict[str, dict[str, Any]]:
    """As they are given, and as JSON holds them."""
    try:
        return {pattern: dict(settings) for pattern, settings in groups}
    except (TypeError, ValueError):
        raise UsageError(
            f'groups must be a mapping, e.g. {{"layer0.*": {{"rate": 0.1}}}}, not {shown(groups)}'
        ) from None


def kinds_of(groups: Groups) -> tuple[str, ...]:
    """Which arrays a state has for them."""
    named = {name for _, settings in groups for name, _ in settings}
    return tuple(
        array for array, names in ((RATES, {"rate", "frozen"}), (DECAYS, {"weight_decay"})) if named & names
    )


def factors(owner: str, groups: Groups, theta: Array, objective: Any) -> dict[str, Array]:
    """A factor for each number of θ, where θ lies; the last pattern that fits wins, setting by setting.

    UsageError for an objective whose parameters have no names, a pattern that fits none, and where all are frozen.
    """
    parameters = _parameters_of(owner, objective)
    names = [node.name or "" for node in parameters]
    for pattern, _ in groups:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(
                f"{owner}: groups name {pattern!r}, but no parameter is called so; there are {', '.join(names)}"
            )
    if sum(node.size for node in parameters) != theta.size:
        raise UsageError(
            f"{owner}: theta has {theta.size} numbers, but the objective's parameters {', '.join(names)} have others"
        )
    found = {}
    for array in kinds_of(groups):
        each = [_factor(name, groups, array) for name in names]
        if array == RATES and not any(each):
            raise UsageError(
                f"{owner}: groups freeze all of the parameters, so that nothing would be learned"
            )
        sizes = [node.size for node in parameters]
        found[array] = gn.place(np.repeat(each, sizes).astype(theta.dtype), gn.backend_of(theta))
    return found


def _factor(name: str, groups: Groups, array: str) -> float:
    """Of one parameter."""
    own: dict[str, Any] = {}
    for pattern, settings in groups:
        if fnmatchcase(name, pattern):
            own |= dict(settings)
    if array == DECAYS:
        return float(own.get("weight_decay", 1.0))
    return 0.0 if own.get("frozen") else float(own.get("rate", 1.0))


def _parameters_of(owner: str, objective: Any) -> list[Any]:
    found = getattr(objective, "parameters", None)
    if found is None:
        raise UsageError(
            f"{owner}: groups are by the names of an objective's parameters; write init(theta, objective), of an "
            "objective that has some, e.g. an rnn.Objective"
        )
    return list(found.values() if isinstance(found, Mapping) else found)


def _pattern(owner: str, given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise UsageError(f'{owner}: groups go by patterns of names, such as "layer0.*", not {shown(given)}')
    return given


def _settings(argument: str, given: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(given, Mapping) or not given or not given.keys() <= {"rate", "weight_decay", "frozen"}:
        raise UsageError(
            f'{argument} must be one or more of {{"rate": factor, "weight_decay": factor, "frozen": True}}, not '
            f"{shown(given)}"
        )
    if given.get("frozen") and "rate" in given:
        raise UsageError(f"{argument}: what is frozen has no rate; leave out one")
    checked: dict[str, Callable[[Any], Any]] = {
        "rate": lambda value: amount(f"{argument}: the factor on the rate", value, above_zero=True),
        "weight_decay": lambda value: amount(f"{argument}: the factor on the weight decay", value),
        "frozen": lambda value: yes_or_no(f"{argument}: frozen", value),
    }
    return tuple((name, checked[name](value)) for name, value in given.items())
