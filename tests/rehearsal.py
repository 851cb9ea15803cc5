"""Runs a tutorial as a script, with every check on trial, and every picture drawn: python rehearsal.py TUTORIAL

It prints as JSON how many things were shown, and the numbers of the exercises that were met.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import types
from pathlib import Path
from typing import Any


def rehearse(path: Path) -> dict[str, Any]:
    """Runs the file. What stands alone on a line is shown, as a notebook shows it: a picture must not fail."""
    sys.path[0] = str(path.parent)  # as for a script
    import exercises

    exercises.on_trial = True
    shown = []

    def show(value: Any) -> None:
        if value is None:
            return
        shown.append(type(value).__name__)
        if hasattr(value, "_repr_mimebundle_"):
            bundle = value._repr_mimebundle_()
            assert {"image/svg+xml", "text/html"} & set(bundle), bundle["text/plain"]
        elif hasattr(value, "savefig"):
            value.savefig(io.BytesIO())

    sys.displayhook = show
    script = types.ModuleType("__main__")
    script.__file__ = str(path)
    sys.modules["__main__"] = script
    tree = ast.parse(path.read_text(encoding="utf-8"))
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(ast.Interactive(tree.body), str(path), "single"), vars(script))
    return {"shown": len(shown), "exercises": exercises.met}


if __name__ == "__main__":
    print(json.dumps(rehearse(Path(sys.argv[1]).resolve())))
