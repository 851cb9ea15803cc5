"""Files: read with a clear word on what is wrong, written wholly or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.files import read_whole, write_whole
from graphnet_rnn.errors import SaveError

__all__ = ["append_line", "read_bytes", "write_atomically"]


def read_bytes(path: str | Path, error: type[GraphnetError]) -> bytes:
    """The file's content; an error of the given kind, in one sentence, where it cannot be read."""
    try:
        return read_whole(path)
    except FileNotFoundError:
        raise error(f"there is no file {path}.") from None
    except IsADirectoryError:
        raise error(f"{path} is a folder; name a file in it.") from None
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror}.") from None


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes the file wholly, durably, or not at all (see graphnet.files); SaveError leaves the old one as it was."""
    target = Path(path)
    if target.exists() and not target.is_file():
        raise SaveError(f"{target} is a folder or a device, not a file; name another.")
    try:
        write_whole(target, content)
    except OSError as error:
        raise SaveError(
            f"{target} could not be written: {error.strerror or error}. What was saved before is untouched."
        ) from None


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """One more line of JSON; SaveError if that cannot be, e.g. because the disk is full."""
    try:
        with open(path, "ab") as stream:
            stream.write(json.dumps(row).encode() + b"\n")
    except OSError as error:
        raise SaveError(f"{path} could not be written: {error.strerror}.") from None
