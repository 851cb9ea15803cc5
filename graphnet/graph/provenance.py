"""Origin of a node: the user's line that made it, and the scope it was made in.

A derivative node has the line and the scope of the node that it differentiates. A node made by a pass has those of the
node that it replaces (`attributed_to`). So every error and profile names the user's line, however far the graph has
been transformed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

Scope = Mapping[str, Any]
NO_SCOPE: Scope = MappingProxyType({})


class Origin(NamedTuple):
    """File and line of the user's code that made a node."""

    file: str
    line: int

    def __str__(self) -> str:
        cell = _notebook_cell(self.file)
        if cell:
            return f"{cell}:{self.line}"
        name = os.path.relpath(self.file) if os.path.isabs(self.file) else self.file
        return f"{self.file if name.startswith('..') else name}:{self.line}"


def _notebook_cell(file: str) -> str | None:
    """Returns `In[3]` for a notebook cell, whose file name is meaningless."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = name_of(file) if name_of else None
    return str(found[-1]) if found else None


class Attributed(Protocol):
    """An object with an origin, a scope and a place in the user's program: a node or a Provenance."""

    @property
    def origin(self) -> Origin: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def source_serial(self) -> int: ...


class Provenance(NamedTuple):
    """An origin, scope and place without a node."""

    origin: Origin
    scope: Scope
    source_serial: int


class _Context(threading.local):
    scope: Scope = NO_SCOPE
    #: The node whose origin, scope and place new nodes take; None for nodes made by the user's lines.
    model: Attributed | None = None


context = _Context()

_HIDDEN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_hidden_files: dict[str, bool] = {}
#: One object for all nodes of a line.
_origins: dict[tuple[str, int], Origin] = {}


def hide_module(file: str) -> None:
    """Excludes lines of this file from origins: library code, not the user's equations."""
    _hidden_files[file] = True


def _is_hidden(file: str) -> bool:
    hidden = _hidden_files.get(file)
    if hidden is None:
        hidden = _hidden_files[file] = file.startswith(_HIDDEN_FOLDER)
    return hidden


def passed(error: BaseException) -> list[Origin]:
    """Returns the user's lines in the traceback of an error, the innermost last."""
    found, traceback = [], error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not _is_hidden(file):
            found.append(Origin(file, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def here() -> Origin:
    """Returns the innermost line of user code on the call stack."""
    frame = sys._getframe(1)
    while True:
        file = frame.f_code.co_filename
        if not _is_hidden(file) or frame.f_back is None:
            place = file, frame.f_lineno
            found = _origins.get(place)
            if found is None:
                found = _origins[place] = Origin(*place)
            return found
        frame = frame.f_back


@contextmanager
def scope(**labels: Any) -> Iterator[None]:
    """Context manager that adds labels to all nodes made inside.

    labels: keyword arguments such as layer="layer0", cell="LSTM", time=3; they add to those of enclosing scopes.
    `Function.profile` sums time by them, errors of `check=True` show them, and pictures group by layer, part of a layer
    (such as its two directions), cell and time. `composite="layer norm"` is one operator in compact pictures. Of nodes
    with block=0, block=1, ..., pictures show the first and the last block.

    >>> with gn.scope(layer="layer0", time=3):
    ...     y = gn.tanh(gn.input((2,)))
    >>> dict(y.scope)
    {'layer': 'layer0', 'time': 3}
    """
    before = context.scope
    context.scope = MappingProxyType({**before, **labels})
    try:
        yield
    finally:
        context.scope = before


@contextmanager
def attributed_to() -> Iterator[_Context]:
    """Lets a transformation set `context.model`: new nodes get the model's line and scope."""
    before = context.model
    try:
        yield context
    finally:
        context.model = before
