"""Settings: checks of values (UsageError if invalid), and dataclass fields that declare them.

    @dataclass(frozen=True)
    class Warmup(Schedule):
        steps: Count
        start: Fraction = 0.0

The annotation of a field is its kind; `X | None` also allows None; `bool` and `Literal["a", "b"]` are kinds, too. Call
`require_kinds(self)` in __post_init__ to check all fields.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable
from dataclasses import Field, field, fields, is_dataclass
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import numpy as np

from graphnet.settings import (
    MANY,
    amount,
    fraction,
    has_items,
    is_number,
    limit,
    listed,
    number,
    one_of,
    path,
    shown,
    text,
    whole_number,
    yes_no_or_none,
    yes_or_no,
)
from graphnet_rnn.errors import UsageError

__all__ = [
    "MANY", "Amount", "Count", "CountOrZero", "Fraction", "Limit", "NamedArguments", "Number", "Positive", "Share",
    "amount", "declared_settings", "fixed_settings", "fraction", "has_items", "is_number", "is_true", "limit", "listed",
    "number", "one_of", "path", "require_generator", "require_kinds", "setting", "shown", "text", "whole_number",
    "yes_no_or_none", "yes_or_no",
]  # fmt: skip

Count = Annotated[int, whole_number]
CountOrZero = Annotated[int, partial(whole_number, least=0)]
Number = Annotated[float, number]
Amount = Annotated[float, amount]  # at least 0
Positive = Annotated[float, partial(amount, above_zero=True)]
Fraction = Annotated[float, fraction]  # in [0, 1)
Share = Annotated[float, partial(fraction, or_all=True)]  # in [0, 1]
Limit = Annotated[float, limit]


#: Names of arguments in other libraries, and here.
_ELSEWHERE = {
    "lr": "rate", "learning_rate": "rate", "batch_size": "batch", "hidden_size": "units", "num_units": "units",
    "input_size": "inputs", "output_size": "outputs", "num_epochs": "epochs", "n_epochs": "epochs",
    "max_epochs": "epochs", "betas": "beta1", "eps": "delta", "epsilon": "delta", "clipnorm": "clip_norm",
    "clipvalue": "clip_value", "max_grad_norm": "clip_norm", "dropout_rate": "dropout", "seq_len": "time",
    "sequence_length": "time", "random_state": "seed", "nonlinearity": "activation",
}  # fmt: skip


#: Arguments of other libraries, and what to write here instead.
_CONSTRUCTS = {
    "bidirectional": "wrap the cell: rnn.Bidirectional(cell)",
    "num_layers": "give a network one cell for each layer: rnn.Network([cell, cell], ...)",
}


class _SignatureOfInit:
    """Signature of a class: that of __init__. Before Python 3.11.4, inspect.signature prefers an inherited __new__."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        found = inspect.signature(owner.__init__)
        given = [each for each in found.parameters.values() if each.name != "self"]
        return found.replace(parameters=given)


class NamedArguments:
    """Mixin: an argument that does not exist raises TypeError, with the name of such an argument here."""

    __signature__ = _SignatureOfInit()

    def __new__(cls, *args: Any, **given: Any) -> Self:
        known = _arguments_of(cls) if given else ()
        unknown = next((name for name in given if known and name not in known), None)
        if unknown is not None:
            close = difflib.get_close_matches(unknown, known, 1)
            here = _ELSEWHERE.get(unknown)
            if unknown in _CONSTRUCTS:
                hint = _CONSTRUCTS[unknown]
            elif here in known:
                hint = f"here it is called {here!r}"
            else:
                hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {unknown!r}; {hint}")
        return super().__new__(cls)


def _arguments_of(cls: type) -> tuple[str, ...]:
    """Names of the arguments; () if any name is one."""
    found = inspect.signature(cls).parameters.values()
    return () if any(each.kind is each.VAR_KEYWORD for each in found) else tuple(each.name for each in found)


def require_generator(who: str, given: Any) -> np.random.Generator:
    """Returns the generator; UsageError, prefixed with `who`, for a seed or anything else."""
    if not isinstance(given, np.random.Generator):
        raise UsageError(
            f"{who}: generator must be a NumPy generator, e.g. np.random.default_rng(seed), not {shown(given)}"
        )
    return given


def is_true(answer: object) -> bool:
    """True if a callback returned True or np.True_."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def require_kinds(owner: Any) -> None:
    """Checks the fields of a dataclass by their annotations, and converts them to plain numbers. Raises UsageError."""
    for name, (kind, or_none) in _kinds(type(owner)).items():  # type: ignore[arg-type]
        value = getattr(owner, name)
        if value is not None or not or_none:
            object.__setattr__(owner, name, kind(f"{type(owner).__name__}: {name}", value))


@cache
def _kinds(owner: Any) -> dict[str, tuple[Callable[[str, Any], Any], bool]]:
    found: dict[str, tuple[Callable[[str, Any], Any], bool]] = {}
    for base in reversed(owner.__mro__):
        for name, written in vars(base).get("__annotations__", {}).items():
            kinds = _options(written, base) if name in owner.__dataclass_fields__ else ()
            checks = [check for kind in kinds if (check := _check(kind)) is not None]
            found.pop(name, None)
            if checks:
                found[name] = checks[0], NoneType in kinds
    return found


def _options(written: Any, base: type) -> tuple[Any, ...]:
    if isinstance(written, str):
        try:
            written = eval(written, vars(sys.modules[base.__module__]))
        except (AttributeError, NameError, TypeError):
            return ()
    return (written,) if get_origin(written) in (None, Annotated, Literal) else get_args(written)


def _check(kind: Any) -> Callable[[str, Any], Any] | None:
    if kind is bool:
        return yes_or_no
    if get_origin(kind) is Literal:
        return partial(one_of, choices=get_args(kind))
    return next(iter(get_args(kind)[1:]), None) if get_origin(kind) is Annotated else None


def setting(value: Any, /, says: str, *, free: bool = False, **option: Any) -> Any:
    """Declares a dataclass field as a setting, for the description of a run and an option of a command.

    value: its default. says: the option's help text. free: True if it may change on resume, since it changes no result.
    option: more arguments of argparse's add_argument.
    """
    return field(default=value, metadata={"says": says, "free": free, "option": option})


def declared_settings(owner: Any) -> list[Field[Any]]:
    """Returns the fields of a dataclass, or instance, made by `setting`; none for other objects.

    In the order of its arguments: keyword-only fields of its bases come last.
    """
    found = [each for each in fields(owner) if "says" in each.metadata] if is_dataclass(owner) else []
    return sorted(found, key=lambda each: each.kw_only is True)


def fixed_settings(owner: Any) -> dict[str, Any]:
    """Returns the settings that must not change on resume, with their values."""
    return {
        each.name: getattr(owner, each.name) for each in declared_settings(owner) if not each.metadata["free"]
    }
