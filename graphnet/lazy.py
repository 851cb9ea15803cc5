"""Lazy imports of a package's public names, so that importing the package is fast.

    with lazy_imports(__name__):
        from graphnet.call.function import Function as Function, compile as compile

Readers, type checkers and packagers find the imports in the usual place; `as` marks a public name. They are only
recorded: the first use of `gn.compile` imports its module. `__all__` has all recorded names.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from types import ModuleType, SimpleNamespace
from typing import Any

#: Held while a public name is imported: two threads could wait for each other's modules. No module of this project may
#: use such a name while it is being imported, or it could deadlock with another thread.
_IMPORTING = RLock()
#: Held while imports are recorded.
_RECORDING = RLock()


class LazyPackage(ModuleType):
    """A package whose public names and submodules are imported on first use."""

    #: public name -> its module
    _lazy: dict[str, str]

    def _import(self, name: str) -> Any:
        source = self._lazy.get(name, self.__name__)
        if source == self.__name__:
            return self._submodule(name)
        with _IMPORTING:
            value = getattr(__import__(source, fromlist=[name]), name)
        self.__dict__[name] = value
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by name, as cloudpickle does with modules."""
        return import_module, (self.__name__,)

    def __setattr__(self, name: str, value: Any) -> None:
        """Keeps a public name when Python sets a submodule of the same name: `viz.mirror`."""
        if self._lazy.get(name, self.__name__) == self.__name__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def _names(self) -> list[str]:
        return sorted({*self.__dict__, *self._lazy})

    def _submodule(self, name: str) -> ModuleType:
        path = f"{self.__name__}.{name}"
        try:
            if not name.startswith("__"):  # Python looks these up in any object
                return import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)


@contextmanager
def lazy_imports(package: str) -> Iterator[None]:
    """Records `from module import name` in its body, for the package of this name to import later."""
    module = sys.modules[package]
    names: dict[str, str] = {}
    with _RECORDING:
        import_at_once = builtins.__import__

        def record(
            name: str,
            globals: Mapping[str, Any] | None = None,
            locals: Mapping[str, Any] | None = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            if globals is not module.__dict__:  # another thread imports something else
                return import_at_once(name, globals, locals, fromlist or (), level)
            names.update(dict.fromkeys(fromlist or (), name))
            return SimpleNamespace(**dict.fromkeys(fromlist or ()))

        builtins.__import__ = record
        try:
            yield
        finally:
            builtins.__import__ = import_at_once
    for name in names:
        del module.__dict__[name]
    module.__dict__.update(_lazy=names, __all__=sorted(names))
    module.__class__ = LazyPackage
    assert isinstance(module, LazyPackage)
    # In the module, not in its class: there they would slow down each access to a name.
    module.__dict__.update(__getattr__=module._import, __dir__=module._names)
