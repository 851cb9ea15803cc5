"""The model that comes with the package: it is there, small, and writes Python's documentation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import ModelFileError
from graphnet_rnn.writer import Draft
from graphnet_rnn.writer.own_model import LARGEST, documentation, main, own_model


def test_it_is_there_and_small_and_has_read_documentation() -> None:
    path = own_model()
    assert path.stat().st_size <= LARGEST
    network = rnn.load(path)
    draft = Draft(network, temperature=0.0)
    draft.type("Return the ")
    assert draft.suggest().strip().isalpha()
    text = "Return a list of the names in the current scope. If an argument is given, the default is used."
    assert rnn.read(network, text, context="\n").bits < 3.0
    assert rnn.read(network, text[::-1], context="\n").bits > 3.5


def test_the_text_is_that_of_the_running_python(tmp_path: Path) -> None:
    """The same in every process, whatever the order of its sets."""
    text = documentation()
    assert len(text) > 500_000
    assert set(text) <= {"\n", *map(chr, range(32, 127))}
    assert "Return" in text
    command = [sys.executable, "-m", "graphnet_rnn.writer.own_model", "text", str(tmp_path / "python.txt")]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "characters, " in ended.stdout
    assert (tmp_path / "python.txt").read_text(encoding="utf-8") == text


def test_what_is_no_model_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no.safetensors").write_bytes(b"x")
    monkeypatch.setattr(sys, "argv", ["own_model", "keep", str(tmp_path / "no.safetensors")])
    before = own_model().read_bytes()
    with pytest.raises(ModelFileError):
        main()
    assert own_model().read_bytes() == before


def test_a_letter_is_one_step_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much stands before it."""
    for context in ("", "def f(x):\n    "):
        draft = Draft(rnn.load(own_model()), threads=1)
        draft.type(context + "The ")
        steps, step = [0], draft._step

        def counted(*arguments: Any, steps: list[int] = steps, step: Any = step) -> Any:
            steps[0] += 1
            return step(*arguments)

        monkeypatch.setattr(draft, "_step", counted)
        for _ in range(20):
            if not draft.grow():
                draft.forget_suggestion()
        assert steps[0] <= 20
