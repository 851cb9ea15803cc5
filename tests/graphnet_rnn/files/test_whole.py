"""What the system has against a file is told in one sentence, with the remedy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphnet_rnn.errors import SaveError
from graphnet_rnn.files.whole import append_line, cut, sync, write_atomically
from tests.tables import case

WRITERS: dict[str, Callable[[Path], Any]] = {
    "append": lambda path: append_line(path, {"a": 1}),
    "cut": lambda path: cut(path, 0),
    "sync": sync,
    "write": lambda path: write_atomically(path, b"a"),
}


def sentence(write: Callable[[Path], Any], path: Path) -> str:
    with pytest.raises(SaveError) as caught:
        write(path)
    return str(caught.value)


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        with case(name):
            (tmp_path / "history").mkdir(exist_ok=True)
            said = sentence(write, tmp_path / "history")
            assert said.startswith(f"{tmp_path / 'history'} could not be written: ")
            assert said.endswith(
                "What was saved before is untouched; see that there is room, and that it may be written to."
            )
            assert ".." not in said
            assert said.count("\n") == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes by name")
def test_a_pipe_in_the_way(tmp_path: Path) -> None:
    """Of which Python says "File or stream is not seekable.", with its own full stop."""
    for name in ("cut", "sync", "write"):
        with case(name):
            (tmp_path / "history").unlink(missing_ok=True)
            os.mkfifo(tmp_path / "history")
            said = sentence(WRITERS[name], tmp_path / "history")
            assert ".." not in said
            assert said.endswith("may be written to.")
