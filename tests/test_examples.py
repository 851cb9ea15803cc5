"""Docstring examples print the shown output, and every parameter is explained."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet.testing
import graphnet_rnn as rnn
import graphnet_rnn.apps.sweep
import graphnet_rnn.apps.writer
import graphnet_rnn.data
import graphnet_rnn.optimizers
import graphnet_rnn.testing
import viz
from tests.tables import case, require_rows

MODULES: dict[str, ModuleType] = {
    "gn": gn,
    "gn.testing": graphnet.testing,
    "rnn": rnn,
    "rnn.data": graphnet_rnn.data,
    "rnn.initializers": rnn.initializers,
    "rnn.testing": graphnet_rnn.testing,
    "sweep": graphnet_rnn.apps.sweep,
    "writer": graphnet_rnn.apps.writer,
    "viz": viz,
    "rnn.tasks": rnn.tasks,
    "rnn.control": rnn.control,
    "rnn.ctc": rnn.ctc,
    "rnn.energy": rnn.energy,
    "rnn.online": rnn.online,
    "rnn.formats": rnn.formats,
    "rnn.riemannian": rnn.riemannian,
    "gn.passes": gn.passes,
    "rnn.inside": rnn.inside,
    "gn.inside": gn.inside,
}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public(module: ModuleType) -> dict[str, Any]:
    """The functions and classes that a module exports, without exceptions."""
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {
        name: value
        for name, value in found.items()
        if (inspect.isclass(value) or inspect.isroutine(value))
        and value.__module__.startswith(("graphnet", "viz"))
        and not (inspect.isclass(value) and issubclass(value, BaseException))
    }


def methods(value: Any) -> dict[str, Any]:
    """The public methods that a class defines."""
    if not inspect.isclass(value):
        return {}
    members = {name: getattr(member, "__func__", member) for name, member in vars(value).items()}
    return {
        name: member
        for name, member in members.items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_show(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"gn": gn, "rnn": rnn, "np": np, "viz": viz}
    documented = {
        f"{name}.{each}".rstrip("."): own
        for name, value in public(MODULES[module]).items()
        for each, own in {"": value, **methods(value)}.items()
    }
    for name, value in documented.items():
        examples = doctest.DocTestParser().get_doctest(
            inspect.getdoc(value) or "", dict(names), f"{module}.{name}", None, None
        )
        with case(name):
            report: list[str] = []
            failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(examples, out=report.append)
            assert not failed, "".join(report)


def unexplained(value: Any) -> Iterator[str]:
    """Parameters of a function, or of a class and its methods, that no docstring mentions."""
    bases = list(inspect.getmro(value)[:-1]) if inspect.isclass(value) else []
    own = " ".join(inspect.getdoc(each) or "" for each in [value, *bases])
    members = {"": (value, own)}
    for name, function in methods(value).items():
        inherited = " ".join(inspect.getdoc(getattr(base, name, None)) or "" for base in bases)
        members[f".{name}"] = function, f"{own} {inherited}"
    for name, (function, text) in members.items():
        try:
            parameters = list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            continue
        for each in parameters:
            if each not in ("self", "cls", "args", "kwargs", "_") and not re.search(rf"\b{each}\b", text):
                yield f"{name}({each})"


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_examples_and_explain_their_parameters(module: str) -> None:
    found = public(MODULES[module])
    bare = [name for name, value in found.items() if ">>>" not in (inspect.getdoc(value) or "")]
    require_rows(bare, "the docstring", "an example, >>>")
    untold = [f"{name}{each}" for name, value in found.items() for each in unexplained(value)]
    require_rows(untold, "the docstring", "what the parameter means")


@pytest.mark.parametrize("module", MODULES)
def test_examples_call_every_public_method(module: str) -> None:
    """Except methods that override one of a base class, where they are shown."""
    bare = []
    for name, value in public(MODULES[module]).items():
        shown = inspect.getdoc(value) or ""
        for each, method in methods(value).items():
            overrides = any(each in vars(base) for base in inspect.getmro(value)[1:])
            if not (overrides or f".{each}(" in shown or ">>>" in (method.__doc__ or "")):
                bare.append(f"{name}.{each}")
    require_rows(bare, "the examples in the class's docstring", "a call of the public method")
