"""The README's own code runs, in its order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every python block, one after another in one namespace, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 3
    namespace: dict[str, object] = {"__name__": "readme"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README block {number}", "exec"), namespace)
    assert "simplify" in capsys.readouterr().out
    assert (tmp_path / "lstm.svg").read_text(encoding="utf-8").count("<svg") == 1


def test_files_that_the_readme_names_are_there() -> None:
    """Links and folders exist."""
    text = README.read_text(encoding="utf-8")
    named = re.findall(r"\]\(([\w/.]+)\)", text) + re.findall(r"^\| `([\w/]+)` \|", text, flags=re.MULTILINE)
    assert len(named) > 6
    missing = [name for name in named if not (README.parent / name).exists()]
    assert not missing
