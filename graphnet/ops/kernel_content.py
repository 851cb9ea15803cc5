"""Digest of a user's kernel: its code, the numbers and functions that it names, and their content."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

#: Modules whose names have a fixed meaning for a given version, which is part of the digest.
_KNOWN = ("math", "numpy", "numba", "operator", "builtins", "cmath")


def content_of(function: Callable[..., Any]) -> str | None:
    """Returns a digest of all that the machine code depends on; None if a global may change."""
    try:
        return hashlib.sha256(repr(_described(function, [])).encode()).hexdigest()
    except _UnknownContentError:
        return None


class _UnknownContentError(Exception):
    pass


def _described(function: Any, within: list[Any]) -> Any:
    if function in within:  # it calls itself
        return ["again", within.index(function)]
    code: types.CodeType = function.__code__
    within = [*within, function]
    cells = dict(
        zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()), strict=True)
    )
    names = {name for each in _codes(code) for name in each.co_names}
    known = {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
    defaults = function.__defaults__ or ()
    return [
        [_of_code(each) for each in _codes(code)], _of_value(defaults, within),
        *([name, _of_value(value, within)] for name, value in (known | cells).items()),
    ]  # fmt: skip


def _codes(code: types.CodeType) -> list[types.CodeType]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return [code, *(found for each in inner for found in _codes(each))]


def _of_code(code: types.CodeType) -> Any:
    constants = [repr(const) for const in code.co_consts if not isinstance(const, types.CodeType)]
    # Line numbers appear in error messages.
    return [
        code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_filename,
        code.co_firstlineno,
    ]  # fmt: skip


def _of_value(value: Any, within: list[Any]) -> Any:
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None), np.generic)):
        return [type(value).__name__, repr(value)]
    if isinstance(value, tuple):
        return [_of_value(each, within) for each in value]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return [value.dtype.str, value.shape, value.tobytes()]
    if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] in _KNOWN:
        return [value.__name__, getattr(value, "__version__", "")]
    inner = getattr(value, "py_func", None)
    if inner is not None:  # decorated with numba.njit
        return [_described(inner, within), repr(sorted(getattr(value, "targetoptions", {}).items()))]
    module, name = (
        getattr(value, "__module__", None),
        getattr(value, "__qualname__", getattr(value, "__name__", "")),
    )
    if isinstance(module, str) and module.split(".")[0] in _KNOWN and name:
        return [module, name]
    raise _UnknownContentError
