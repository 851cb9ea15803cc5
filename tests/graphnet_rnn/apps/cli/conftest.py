"""A folder to work in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.graphnet_rnn.apps.cli.bad_invocations import TEXT


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a text in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path
