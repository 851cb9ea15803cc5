"""The pages of docs/ that are made by programs are what the programs make."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("program", ["architectures", "gallery"])
def test_pages_are_what_their_programs_write(program: str) -> None:
    result = subprocess.run(
        [sys.executable, f"docs/{program}.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_training_on_arrays_runs_as_it_stands() -> None:
    text = (ROOT / "docs" / "training_on_arrays.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert np.shape(names["outputs"]) == (30, 64, 1)
    assert names["result"].loss < 0.01  # type: ignore[attr-defined]


def test_training_with_curvature_runs_as_it_stands() -> None:
    text = (ROOT / "docs" / "second_order.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    exec(blocks[0], names)
    assert np.allclose(names["result"].theta, 1, atol=1e-6)
    assert names["result"].reason == "tolerance"
    exec(blocks[1], names)
    assert names["result"].loss < 0.3 * names["result"].reports[0].before
