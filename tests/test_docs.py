"""The pages of docs/ that are made by programs are what the programs make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_of_architectures_is_current() -> None:
    result = subprocess.run(
        [sys.executable, "docs/architectures.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
