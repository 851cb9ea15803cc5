"""Where a node comes from: the user's line that made it, and the scope it was made in.

A derivative node belongs to the line and the scope of the node that it is the derivative of, and a
node made by a pass to those of the node that it replaces; `attributed_to` says so. This keeps the
user's line in every error and profile, however far the graph has been transformed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

__all__ = [
    "NO_SCOPE",
    "Origin",
    "Provenance",
    "Scope",
    "attributed_to",
    "here",
    "hide_module",
    "passed",
    "scope",
]

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
    """`In[3]` for a cell of a notebook, whose file has a name that tells nobody anything."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = name_of(file) if name_of else None
    return str(found[-1]) if found else None


class Attributed(Protocol):
    """What has an origin, a scope and a place in the user's program: a node, or a Provenance."""

    @property
    def origin(self) -> Origin: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def source_serial(self) -> int: ...


class Provenance(NamedTuple):
    """An attribution of its own."""

    origin: Origin
    scope: Scope
    source_serial: int


class _Context(threading.local):
    scope: Scope = NO_SCOPE
    #: The node whose origin, scope and place new nodes take; None while the user's own lines make them.
    model: Attributed | None = None


context = _Context()

_HIDDEN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_hidden_files: dict[str, bool] = {}
#: One object for all nodes of a line.
_origins: dict[tuple[str, int], Origin] = {}


def hide_module(file: str) -> None:
    """Never name lines of this file as an origin: it is machinery, not the user's equations."""
    _hidden_files[file] = True


def _is_hidden(file: str) -> bool:
    hidden = _hidden_files.get(file)
    if hidden is None:
        hidden = _hidden_files[file] = file.startswith(_HIDDEN_FOLDER)
    return hidden


def passed(error: BaseException) -> list[Origin]:
    """The lines that an error has come through and that are not machinery, the innermost last."""
    found, traceback = [], error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not _is_hidden(file):
            found.append(Origin(file, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def here() -> Origin:
    """The innermost line on the call stack that is not machinery."""
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
    """Nodes made inside carry these labels, e.g. `scope(layer="layer0", cell="LSTM", time=3)`.

    Labels add to those of the enclosing scopes. `Function.profile` sums time by them, `check=True`
    names them, and pictures group by them: layer, part of a layer (as its two directions), cell and time;
    `composite="layer norm"` is one operator in compact pictures.
    """
    before = context.scope
    context.scope = MappingProxyType({**before, **labels})
    try:
        yield
    finally:
        context.scope = before


@contextmanager
def attributed_to() -> Iterator[_Context]:
    """Lets a transformation set `context.model` node by node: what it makes belongs where the model does."""
    before = context.model
    try:
        yield context
    finally:
        context.model = before
