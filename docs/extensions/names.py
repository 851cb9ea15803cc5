"""The public names: which there are, and where each is documented.

A name is documented once, under the shortest path by which users know it: rnn.LSTM, not rnn.cells.LSTM.
"""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from types import ModuleType
from typing import Any

PACKAGES = ("graphnet", "graphnet_rnn", "viz")
_SHORT = {"gn": "graphnet", "rnn": "graphnet_rnn"}


@cache
def public_modules() -> dict[str, ModuleType]:
    """The packages and their public modules, by dotted name; shortest names first."""
    found: dict[str, ModuleType] = {}
    waiting = [(name, importlib.import_module(name)) for name in PACKAGES]
    while waiting:
        name, module = waiting.pop(0)
        found[name] = module
        waiting += [
            (f"{name}.{member}", value)
            for member in getattr(module, "__all__", ())
            if isinstance(value := getattr(module, member), ModuleType)
        ]
    return dict(
        sorted(found.items(), key=lambda item: (item[0].count("."), PACKAGES.index(item[0].split(".")[0])))
    )


@cache
def documented_names() -> dict[str, str]:
    """Every public path -> the path under which it is documented."""
    by_identity: dict[int, str] = {}
    found: dict[str, str] = {}
    for name, module in public_modules().items():
        found[name] = name
        for member in module.__all__:
            path, value = f"{name}.{member}", getattr(module, member)
            if isinstance(value, ModuleType):
                continue
            if isinstance(value, type) or inspect.isroutine(value):
                found[path] = by_identity.setdefault(id(value), path)
            else:
                found[path] = path
    return found


@cache
def _by_class_name() -> dict[str, str]:
    """Class name -> path, where only one public class has it: for `Function.profile` and "Raises ShapeError"."""
    names = documented_names()
    found: dict[str, set[str]] = {}
    for path in set(names.values()):
        if isinstance(value_of(path), type):
            found.setdefault(path.rsplit(".", 1)[-1], set()).add(path)
    return {name: next(iter(paths)) for name, paths in found.items() if len(paths) == 1}


def value_of(path: str) -> Any:
    if path in public_modules():
        return public_modules()[path]
    module, name = path.rsplit(".", 1)
    return getattr(public_modules()[module], name)


def public_path(written: str) -> str | None:
    """Where the object that is written like this is documented: "rnn.cells.LSTM" -> "graphnet_rnn.LSTM"."""
    head, _, rest = written.partition(".")
    path = f"{_SHORT.get(head, head)}.{rest}" if rest else head
    names = documented_names()
    if path in names:
        return names[path] if rest else None
    owner, _, member = path.rpartition(".")
    owner = names.get(owner) or _by_class_name().get(owner) or ""
    if not owner:
        return _by_class_name().get(path) if path.endswith("Error") else None
    is_member = isinstance(value_of(owner), type) and inspect.getdoc(getattr(value_of(owner), member, None))
    return f"{owner}.{member}" if is_member and not member.startswith("_") else None


def path_of(value: Any) -> str | None:
    """The documented path of a class or function."""
    wanted = id(value)
    return _identities().get(wanted)


@cache
def _identities() -> dict[int, str]:
    return {id(value_of(path)): path for path in documented_names().values() if path not in public_modules()}
