"""What the system has against a file is told in one sentence, with the remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphnet_rnn.errors import SaveError
from graphnet_rnn.files.whole import append_line, cut, sync, write_atomically
from tests.tables import case

WRITERS = {
    "append": lambda path: append_line(path, {"a": 1}),
    "cut": lambda path: cut(path, 0),
    "sync": sync,
    "write": lambda path: write_atomically(path, b"a"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes by name")
def test_a_folder_or_a_pipe_in_the_way(tmp_path: Path) -> None:
    """Of a pipe Python says "File or stream is not seekable.", with its own full stop."""
    path = tmp_path / "history"
    for make, names in ((Path.mkdir, WRITERS), (os.mkfifo, ("cut", "sync", "write"))):
        for name in names:
            make(path)
            with case(make, name), pytest.raises(SaveError) as caught:
                WRITERS[name](path)
            said = str(caught.value)
            assert said.startswith(f"{path} could not be written: ")
            assert said.endswith("see that there is room, and that it may be written to.")
            assert ".." not in said
            assert "\n" not in said
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
