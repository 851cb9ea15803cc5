"""Helpers for test tables: errors name missing and failed rows."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Container, Iterable, Iterator
from typing import Any

import pytest


@contextlib.contextmanager
def case(*name: object) -> Iterator[None]:
    """An error raised within names the case: ``for dtype in DTYPES: with case(dtype): ...``."""
    try:
        yield
    except pytest.skip.Exception as skipped:
        raise AssertionError("a skip within a loop leaves out the cases after it; use continue") from skipped
    except BaseException as error:  # pytest's "DID NOT RAISE" is no Exception
        error.add_note("case: " + ", ".join(map(str, name)))
        raise


def require_rows(missing: Iterable[Any], where: str, what: str) -> None:
    """AssertionError that says where a row goes, and what is in it, for each of what has none.

    missing: classes, functions or names.
    """
    names = sorted(str(getattr(each, "__name__", each)) for each in missing)
    assert not names, f"add a row to {where} for {', '.join(names)}: {what}"


def leaves(kind: type) -> Iterator[type]:
    """The subclasses of `kind` in graphnet_rnn that have no subclasses."""
    below = [each for each in kind.__subclasses__() if each.__module__.startswith("graphnet_rnn.")]
    if not below:
        yield kind
    for each in below:
        yield from leaves(each)


def some_quick(names: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """Parameters of a test, of which all that are not `quick` are slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@contextlib.contextmanager
def usual_recursion() -> Iterator[None]:
    """Within it, Python's own limit of nested calls holds, which other libraries raise."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
