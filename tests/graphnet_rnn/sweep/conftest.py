"""A text to sweep over, and what stands in for the processes of runs."""

from __future__ import annotations

import subprocess
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from graphnet_rnn.sweep import baker, oven
from tests.graphnet_rnn.sweep.inside import Endless, Inside, Killed, Stub

TEXT = "the cat sat on the mat, and the rat sat on the hat.\n" * 20


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Stub]], None]:
    """`take(Inside)`: from now on runs are made so; all are looked at often."""
    for module in (baker, oven):
        monkeypatch.setattr(module, "LOOK", 0.02)
    Endless.all, Killed.count = [], 0

    def take(kind: type[Stub]) -> None:
        others = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE", "TimeoutExpired")}
        monkeypatch.setattr(baker, "subprocess", types.SimpleNamespace(Popen=kind, **others))

    return take


@pytest.fixture
def inside(take: Callable[[type[Stub]], None]) -> None:
    """Runs train in this process."""
    take(Inside)
