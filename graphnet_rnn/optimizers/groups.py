"""Parameter groups by patterns of names: factors on learning rate and weight decay, frozen parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.system.text import matches
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import amount, shown

#: Names of the state arrays with a factor for each number of θ.
RATES, DECAYS = "group_rate", "group_weight_decay"
#: Hashable groups: (pattern, settings) pairs.
Groups = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


def as_groups(owner: str, given: Any) -> Groups:
    """Converts {"layer0.*": {"rate": 0.1}, "*.b_*": {"weight_decay": 0}} to hashable groups. Raises UsageError."""
    if given is None:
        return ()
    if isinstance(given, tuple):  # already converted, or empty
        given = as_mapping(given)
    if not isinstance(given, Mapping):
        raise UsageError(
            f'{owner}: groups must be a mapping, e.g. {{"layer0.*": {{"rate": 0.1}}}}, not {shown(given)}'
        )
    return tuple(
        (_pattern(owner, name), _settings(f"{owner}: groups, {name!r}", s)) for name, s in given.items()
    )


def as_mapping(groups: Groups) -> dict[str, dict[str, Any]]:
    """Returns the groups as a mapping, for JSON."""
    try:
        return {pattern: dict(settings) for pattern, settings in groups}
    except (TypeError, ValueError):
        raise UsageError(
            f'groups must be a mapping, e.g. {{"layer0.*": {{"rate": 0.1}}}}, not {shown(groups)}'
        ) from None


def kinds_of(groups: Groups) -> tuple[str, ...]:
    """Returns the names of the state arrays for the groups."""
    named = {name for _, settings in groups for name, _ in settings}
    return tuple(array for array, name in ((RATES, "rate"), (DECAYS, "weight_decay")) if name in named)


def factors(owner: str, groups: Groups, theta: Array, objective: Any) -> dict[str, Array]:
    """Returns a factor for each number of θ, in θ's memory; the last matching pattern wins, for each setting.

    Raises UsageError for an objective whose parameters have no names, and for a pattern without a match.
    """
    parameters = _parameters_of(owner, objective)
    names = getattr(objective, "names", None) or [node.name or "" for node in parameters]
    for pattern, _ in groups:
        if not any(matches(name, pattern) for name in names):
            raise UsageError(
                f"{owner}: groups name {pattern!r}, which no parameter matches; the parameters are {', '.join(names)}"
            )
    if sum(node.size for node in parameters) != theta.size:
        raise UsageError(
            f"{owner}: theta has {theta.size} numbers, but the objective's parameters, {', '.join(names)}, "
            "have another size"
        )
    found = {}
    for array in kinds_of(groups):
        each = [_factor(name, groups, array) for name in names]
        sizes = [node.size for node in parameters]
        found[array] = gn.place(np.repeat(each, sizes).astype(theta.dtype), gn.backend_of(theta))
    return found


def patterns(owner: str, given: Any) -> tuple[str, ...]:
    """Converts a list, or a text with commas, to a tuple of patterns. Raises UsageError."""
    listed = [each.strip() for each in given.split(",")] if isinstance(given, str) else given
    if isinstance(listed, Mapping) or not isinstance(listed, Iterable):
        raise UsageError(f'{owner} must be patterns of names, e.g. ("layer0.*", "*.b_*"), not {shown(given)}')
    found = tuple(listed)
    if not all(isinstance(each, str) and each for each in found) and given != "":
        raise UsageError(f'{owner} must be patterns of names, e.g. ("layer0.*", "*.b_*"), not {shown(given)}')
    return tuple(each for each in found if each)


def trained(owner: str, parameters: Mapping[str, Node], frozen: Sequence[str]) -> dict[str, Node]:
    """Returns the parameters that match no pattern; UsageError for a pattern without a match, and if all are frozen."""
    for pattern in frozen:
        if not any(matches(name, pattern) for name in parameters):
            raise UsageError(
                f"{owner}: frozen names {pattern!r}, which no parameter matches; the parameters are "
                f"{', '.join(parameters)}"
            )
    found = {
        name: node
        for name, node in parameters.items()
        if not any(matches(name, pattern) for pattern in frozen)
    }
    if not found:
        raise UsageError(f"{owner}: frozen must leave at least one parameter to train")
    return found


def _factor(name: str, groups: Groups, array: str) -> float:
    own: dict[str, Any] = {}
    for pattern, settings in groups:
        if matches(name, pattern):
            own |= dict(settings)
    if array == DECAYS:
        return float(own.get("weight_decay", 1.0))
    return float(own.get("rate", 1.0))


def _parameters_of(owner: str, objective: Any) -> list[Any]:
    found = getattr(objective, "parameters", None)
    if found is None:
        raise UsageError(
            f"{owner}: groups need the names of the parameters; call init(theta, objective) with an objective that "
            "has parameters, e.g. an rnn.Objective"
        )
    return list(found.values() if isinstance(found, Mapping) else found)


def _pattern(owner: str, given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise UsageError(
            f'{owner}: keys of groups must be patterns of names, e.g. "layer0.*", not {shown(given)}'
        )
    return given


def _settings(argument: str, given: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(given, Mapping) or not given or not given.keys() <= {"rate", "weight_decay"}:
        raise UsageError(
            f'{argument} must be one or more of {{"rate": factor, "weight_decay": factor}}, not '
            f"{shown(given)}"
        )
    checked: dict[str, Callable[[Any], Any]] = {
        "rate": lambda value: amount(f"{argument}: the factor on the rate", value, above_zero=True),
        "weight_decay": lambda value: amount(f"{argument}: the factor on the weight decay", value),
    }
    return tuple((name, checked[name](value)) for name, value in given.items())
