"""Cells by name: graphnet's own, `package.module:Cell`, or `file.py:Cell`; with settings, `RHN(depth=3)`.

Settings are literals, or cells in their turn: `Residual(GRU(64))`.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from graphnet.system.files import kind_of
from graphnet_rnn.apps.cli.calls import (
    Named,
    error_text,
    line_of,
    made,
    quoted,
    read_settings,
    signature_of,
    taken_apart,
    usage,
)
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cells.all import ALL
from graphnet_rnn.errors import UsageError

EXAMPLE = "RHN(units=64, depth=3)"

__all__ = ["described", "find_cell", "make_cell", "own_cells", "own_line", "parts_of", "slug"]


def parts_of(text: str) -> Named:
    """Where the cell is, its name and its settings; UsageError where parentheses do not fit."""
    return taken_apart(text, EXAMPLE)


def find_cell(text: str) -> type[Cell]:
    """The class, whatever its settings; UsageError says in one sentence why there is none."""
    where, name, _ = parts_of(text)
    if not where and name.endswith(".py"):
        found = " or ".join(f"{name}:{cell}" for cell in _cells(_load(name)) if cell not in ALL)
        raise UsageError(
            f"{name} is a file; " + (f"say which cell: {found}." if found else "it holds no cell.")
        )
    if not where:
        return _among(name, ALL)
    module = _load(where)
    try:
        cell = getattr(module, name, None)
    except Exception as error:  # a module may have a __getattr__, which may raise anything
        raise UsageError(
            f"{where} has no cell {name!r}: {error_text(error)}{line_of(error, where)}"
        ) from error
    if not (isinstance(cell, type) and issubclass(cell, Cell)):
        raise UsageError(f"{where} has no cell {name!r}; its cells: {', '.join(_cells(module)) or 'none'}.")
    return cell


def make_cell(text: str, units: int | None = None) -> Cell:
    """The cell with the settings in the parentheses, and with `units` of its own if any are given.

    Raises UsageError for settings that the cell does not have, that are no literals, or for units said twice.
    """
    cell, (where, _, settings) = find_cell(text), parts_of(text)
    known = {**ALL, **(_cells(_load(where)) if where else {})}
    arguments, named = read_settings(text, settings, EXAMPLE, lambda inner: _among(inner, known))
    if units is not None:
        parameters = signature_of(cell).parameters
        first = next(iter(parameters), "")
        # The first setting of graphnet's own cells is a number of units, or may be one.
        takes = "units" if "units" in parameters else first if cell in ALL.values() else ""
        if not takes:
            raise UsageError(
                f"{cell.__name__} has no setting units; leave out --units, and give its settings in parentheses: "
                f"{usage(cell)}"
            )
        if takes in named or (arguments and takes == first):
            raise UsageError(f"--units {units} and {quoted(text)} both say how many units; leave out --units")
        named[takes] = units
    return made(cell, arguments, named)


def own_cells(text: str | None) -> list[type[Cell]]:
    """What `load` needs to know besides graphnet's own cells: the class, and those beside it that it may use."""
    if not text:
        return []
    where, cell = parts_of(text).where, find_cell(text)
    beside = _cells(_load(where)).items() if where else ()
    return [*(other for name, other in beside if name not in ALL), cell]


def described(cell: type[Cell]) -> list[str]:
    """The lines of its docstring, the first of which is the formula; at least one."""
    words = cell.__doc__
    return (inspect.cleandoc(words).splitlines() if isinstance(words, str) else []) or ["(not described)"]


def own_line(error: BaseException) -> str:
    """(file:line) of the innermost frame in a module that a cell came from; empty if there is none."""
    files = [str(getattr(module, "__file__", "")) for module in _loaded.values()]
    return next((line for file in files if file and (line := line_of(error, file))), "")


def slug(text: str) -> str:
    """The cell and its settings as a part of a folder's name: RHN-depth-3."""
    _, name, settings = parts_of(text)
    return re.sub(r"\W+", "-", name + settings).strip("-")


def _among(name: str, known: Mapping[str, type[Cell]]) -> type[Cell]:
    if name in known:
        return known[name]
    if os.path.isfile(name) and not name.endswith(".safetensors"):
        raise UsageError(
            f"{name} is a file, and no cell: of a file of your own say which cell, my_cells.py:MyCell; a model file "
            "ends in .safetensors, a history in .jsonl."
        )
    kind = kind_of(name)
    if kind and (kind != "a folder" or "/" in name):  # a cell may be meant that is called nearly so
        raise UsageError(
            f"{name} is {kind}, and no cell; give a model file, the folder of a run, or the name of a cell "
            "(`graphnet-rnn cells` lists them)."
        )
    if "/" in name or "\\" in name or name.endswith(".safetensors"):
        raise UsageError(
            f"there is no file or folder {name!r} here; give a model file, the folder of a run, or the name of a cell "
            "(`graphnet-rnn cells` lists them)."
        )
    close = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise UsageError(
        f"there is no cell {quoted(name)}; graphnet has {', '.join(ALL)}.{hint} Your own: my_cells.py:MyCell"
    )


# -- files and modules -----------------------------------------------------------------------------


def _cells(module: ModuleType) -> dict[str, type[Cell]]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Cell) and value is not Cell
    }


_loaded: dict[str, ModuleType] = {}


def _load(where: str) -> ModuleType:
    """The module, which runs once in a command; what it imports is looked for beside it, too."""
    path = Path(where)
    if where.endswith(".py") and not path.is_file():
        kind = kind_of(path)
        raise UsageError(
            f"{where} is {kind}; name a file of Python code." if kind else f"there is no file {where}."
        )
    if not where.endswith(".py") and not all(part.isidentifier() for part in where.split(".")):
        raise UsageError(
            f"{quoted(where)} is neither a file of Python code, whose name ends in .py, nor the name of a module; "
            "write my_cells.py:MyCell or package.module:MyCell."
        )
    key = f"{path.resolve()} {path.stat().st_mtime_ns}" if where.endswith(".py") else where
    if key not in _loaded:
        # At the end of the path: a file of the user's that is called like a standard module must not hide it.
        folder = str(path.resolve().parent if where.endswith(".py") else Path.cwd())
        if folder not in sys.path:
            sys.path.append(folder)
        try:
            _loaded[key] = _run_file(path) if where.endswith(".py") else importlib.import_module(where)
        except (UsageError, KeyboardInterrupt):
            raise
        except SystemExit as error:
            raise UsageError(
                f"{where} ends the program when it is imported{line_of(error, where)}; put what shall only run as a "
                "program under if __name__ == '__main__':"
            ) from None
        except BaseException as error:  # whatever the user's file raises is told, with its line
            line = line_of(error, where)
            raise UsageError(f"{where} cannot be imported: {error_text(error)}{line}") from error
    return _loaded[key]


def _run_file(path: Path) -> ModuleType:
    # "my_cells.py" is a name that no import asks for, so that a file called random.py is not taken for the module.
    spec = importlib.util.spec_from_file_location(path.name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.name]
        raise
    return module
