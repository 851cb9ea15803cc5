"""Runs a tutorial as a script, with every check on trial, and every picture drawn: python rehearsal.py TUTORIAL

It prints as JSON how many things were shown, and the numbers of the exercises that were met.
"""

from __future__ import annotations

import ast
import bisect
import contextlib
import io
import json
import sys
import types
from pathlib import Path
from typing import Any


def rehearse(path: Path) -> dict[str, Any]:
    """Runs the file. The last expression of a cell is shown, as a notebook shows it: a picture must not fail."""
    sys.path[0] = str(path.parent)  # as for a script
    import matplotlib.pyplot as plt

    import exercises

    exercises.on_trial = True
    shown = []

    def show(value: Any) -> None:
        if value is None:
            return
        shown.append(value)
        assert " at 0x" not in repr(value), (
            f"a cell ends with {value!r}, which differs in each run; end it otherwise"
        )
        if hasattr(value, "_repr_mimebundle_"):
            bundle = value._repr_mimebundle_()
            assert {"image/svg+xml", "text/html"} & set(bundle), bundle["text/plain"]
        elif hasattr(value, "savefig"):
            value.savefig(io.BytesIO())

    sys.displayhook = show
    script = types.ModuleType("__main__")
    script.__file__ = str(path)
    sys.modules["__main__"] = script
    source = path.read_text(encoding="utf-8")
    starts = [i for i, line in enumerate(source.splitlines(), start=1) if line.startswith("# %%")]
    statements = ast.parse(source).body
    cells = [bisect.bisect(starts, statement.lineno) for statement in statements]
    with contextlib.redirect_stdout(io.StringIO()):
        for statement, cell, following in zip(statements, cells, [*cells[1:], None], strict=True):
            # As "single", an expression's value goes to the displayhook.
            last = isinstance(statement, ast.Expr) and cell != following
            code = ast.Interactive([statement]) if last else ast.Module([statement], [])
            exec(compile(code, str(path), "single" if last else "exec"), vars(script))
    for number in plt.get_fignums():  # a notebook shows them at the end of their cells
        plt.figure(number).savefig(io.BytesIO())
        shown.append(number)
    return {"shown": len(shown), "exercises": exercises.met}


if __name__ == "__main__":
    print(json.dumps(rehearse(Path(sys.argv[1]).resolve())))
