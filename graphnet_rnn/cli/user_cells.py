"""Cells by name: graphnet's own, `package.module:Cell`, or `file.py:Cell`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from pathlib import Path

from graphnet_rnn.cell import Cell
from graphnet_rnn.cells import ALL
from graphnet_rnn.errors import UsageError

__all__ = ["find_cell", "own_cells"]


def find_cell(name: str) -> type[Cell]:
    """The class; UsageError says in one sentence why there is none."""
    where, colon, attribute = name.rpartition(":")
    if not colon:
        if name in ALL:
            return ALL[name]
        close = difflib.get_close_matches(name, ALL, 1, 0.5)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(
            f"there is no cell {name!r}; graphnet has {', '.join(ALL)}.{hint} Your own: my_cells.py:MyCell"
        )
    module = _load(where)
    cell = getattr(module, attribute, None)
    if not (isinstance(cell, type) and issubclass(cell, Cell)):
        cells = [
            k
            for k, v in vars(module).items()
            if isinstance(v, type) and issubclass(v, Cell) and v is not Cell
        ]
        raise UsageError(f"{where} has no cell {attribute!r}; its cells: {', '.join(cells) or 'none'}.")
    return cell


def own_cells(name: str | None) -> list[type[Cell]]:
    """What `load` needs to know besides graphnet's own cells."""
    return [find_cell(name)] if name else []


def _load(where: str) -> object:
    try:
        if where.endswith(".py"):
            path = Path(where)
            if not path.is_file():
                raise UsageError(f"there is no file {where}.")
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(path.stem, module)
            spec.loader.exec_module(module)
            return module
        return importlib.import_module(where)
    except UsageError:
        raise
    except Exception as error:  # whatever the user's file raises is told, with its line
        line = _line_of(error, where)
        raise UsageError(f"{where} cannot be imported: {type(error).__name__}: {error}{line}") from error


def _line_of(error: BaseException, where: str) -> str:
    traceback, found = error.__traceback__, ""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.endswith(Path(where).name):
            found = f" ({where}:{traceback.tb_lineno})"
        traceback = traceback.tb_next
    return found
