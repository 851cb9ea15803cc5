"""Where a node comes from, in words."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from graphnet.graph.provenance import Origin

CELL = "/tmp/ipykernel_8123/1938475.py"


def notebook(shell: Any) -> SimpleNamespace:
    """What `import IPython` gives where this shell runs."""
    return SimpleNamespace(get_ipython=lambda: shell)


def test_a_cell_of_a_notebook_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is a number in a temporary folder, different in every run."""
    names = {CELL: ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", notebook(shell))  # type: ignore[arg-type]
    assert str(Origin(CELL, 2)) == "In[3]:2"
    assert str(Origin("cells.py", 2)) == "cells.py:2"


def test_other_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython imported where it does not run, and a version that names no cells."""
    for shell in (None, SimpleNamespace(), SimpleNamespace(compile=compile)):
        monkeypatch.setitem(sys.modules, "IPython", notebook(shell))  # type: ignore[arg-type]
        assert str(Origin("cells.py", 2)) == "cells.py:2"
        monkeypatch.delitem(sys.modules, "IPython")
        assert str(Origin("cells.py", 2)) == "cells.py:2"
