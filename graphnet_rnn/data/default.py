"""The text that needs no download: the source code of Python's own standard library."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from graphnet_rnn.errors import DataError
from graphnet_rnn.settings import whole_number

__all__ = ["standard_library_text"]


def standard_library_text(characters: int = 1_000_000) -> str:
    """The first `characters` of the library's top-level modules, in the order of their names.

    Source code, like the Linux kernel of Lynge (2016, 2.2); it differs a little between Python versions.
    """
    characters = whole_number("standard_library_text: characters", characters)
    folder = Path(sysconfig.get_paths()["stdlib"])
    pieces: list[str] = []
    length = 0
    for file in sorted(folder.glob("*.py")):
        piece = file.read_text(encoding="utf-8", errors="ignore")
        pieces.append(piece)
        length += len(piece)
        if length >= characters:
            break
    if not length:
        raise DataError(
            f"this Python has no library sources in {folder}; name a text: graphnet-rnn train TEXT."
        )
    return "".join(pieces)[:characters]
