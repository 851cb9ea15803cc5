"""cached_property: as that of functools, without the lock that Python 3.11 holds while a value is computed.

That lock is one for all objects. A process that is forked while another thread holds it, in the midst of a compilation,
would wait for it for ever.
"""

from __future__ import annotations

import sys

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


__all__ = ["cached_property"]
