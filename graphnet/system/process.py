"""This process: its cores and compiler, its garbage collector, and cached properties that are safe under fork."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

#: As that of functools, without the lock that Python 3.11 holds while a value is computed. That lock is one for all
#: objects: a process that is forked while another thread holds it, in the midst of a compilation, would wait for ever.
if sys.version_info >= (3, 12):
    from functools import cached_property
else:
    from collections.abc import Callable
    from typing import Any, Generic, TypeVar, overload

    T = TypeVar("T")

    class cached_property(Generic[T]):  # noqa: N801 (as in functools)
        """A property that is computed once, and then is an attribute of its object."""

        def __init__(self, function: Callable[[Any], T]) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> cached_property[T]: ...

        @overload
        def __get__(self, instance: object, owner: type | None = None) -> T: ...

        def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[T] | T:
            if instance is None:
                return self
            value = vars(instance)[self.name] = self.function(instance)
            return value


def own_cores() -> list[int]:
    """Numbers of the cores that this process may use; all cores if the system does not provide them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses cyclic garbage collection. Nested or concurrent use is safe: the block that paused it resumes it.

    Nodes form no cycles, but each collection visits all live ones: with hundreds of thousands of nodes it would
    cost more than the work itself, and grow faster than linearly.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@cache
def has_compiler() -> bool:
    """True if Numba and its compiler, llvmlite, are installed."""
    return find_spec("numba") is not None and find_spec("llvmlite") is not None
