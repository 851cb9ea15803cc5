"""Settings to JSON and back without loss: types that JSON does not have are tagged.

(1, 2.5)           [1, 2.5]
[1, 2.5]           {"list": [1, 2.5]}
{"a": 1}           {"dict": [["a", 1]]}
math.inf           {"float": "inf"}
np.float32(0.5)    {"numpy": "float32", "value": 0.5}
a cell             its `description`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphnet_rnn.settings import shown

#: NumPy's scalars whose values JSON holds exactly.
SCALARS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
           "float16", "float32", "float64")  # fmt: skip
NOT_FINITE = ("inf", "-inf", "nan")


def to_json(value: Any) -> Any:
    """Converts a value to JSON; TypeError if `from_json` could not restore it.

    Subclasses (enumerations, named tuples) are rejected, since JSON would lose the class.
    """
    if isinstance(value, float) and type(value) is float and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return [to_json(each) for each in value]
    if type(value) is list:
        return {"list": [to_json(each) for each in value]}
    if type(value) is dict:
        return {"dict": [[to_json(key), to_json(each)] for key, each in value.items()]}
    if isinstance(value, np.generic) and value.dtype.name in SCALARS:
        return {"numpy": value.dtype.name, "value": to_json(value.item())}
    if callable(getattr(value, "description", None)) and not isinstance(value, type):
        return value.description()
    raise TypeError(f"JSON cannot store a {type(value).__name__}")


def from_json(value: Any, described: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Restores the argument of `to_json`; `described` recreates described objects. ValueError for invalid JSON."""

    def made(each: Any) -> Any:
        return from_json(each, described)

    match value:
        case list():
            return tuple(map(made, value))
        case {"list": list(items), **rest} if not rest:
            return [made(each) for each in items]
        case {"dict": list(items), **rest} if not rest and all(_is_pair(each) for each in items):
            try:
                return {made(key): made(each) for key, each in items}
            except TypeError:
                raise ValueError("a dict in it has a key that is not hashable") from None
        case {"float": str(text), **rest} if not rest and text in NOT_FINITE:
            return float(text)
        case {"numpy": str(name), "value": plain, **rest} if not rest and name in SCALARS:
            return _scalar(name, made(plain))
        case dict():
            return described(value)
    return value


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _scalar(name: str, plain: Any) -> Any:
    try:
        found = np.dtype(name).type(plain)
    except (TypeError, ValueError, OverflowError):
        found = None
    if not isinstance(plain, (bool, int, float)) or found is None or repr(found.item()) != repr(plain):
        raise ValueError(f"{shown(plain, 40)} is not a {name}")
    return found
