"""The model that comes with the package: it is there, small, and writes Python's documentation."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import graphnet_rnn as rnn
from graphnet_rnn.writer import Draft
from graphnet_rnn.writer.own_model import LARGEST, documentation, own_model


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


def test_the_text_is_that_of_the_running_python() -> None:
    text = documentation()
    assert len(text) > 500_000
    assert set(text) <= {"\n", *map(chr, range(32, 127))}
    assert "Return" in text
    assert documentation() == text


def test_the_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "graphnet_rnn.writer.own_model"]
    ended = subprocess.run(
        [*command, "text", str(tmp_path / "python.txt")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert "characters, " in ended.stdout
    (tmp_path / "no.safetensors").write_bytes(b"x")
    refused = subprocess.run(
        [*command, "keep", str(tmp_path / "no.safetensors")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode != 0


@pytest.mark.parametrize("context", ["", "def f(x):\n    "])
def test_a_draft_of_it_is_quick(context: str) -> None:
    """Twenty letters of a suggestion, far below what a person waits for; generous for a busy machine."""

    draft = Draft(rnn.load(own_model()), threads=1)
    draft.type(context + "The ")
    begun = time.perf_counter()
    for _ in range(20):
        if not draft.grow():
            draft.forget_suggestion()
    assert time.perf_counter() - begun < 2.0
