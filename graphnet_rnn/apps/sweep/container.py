"""Container: the data of a sweep, in its own folder by their content: whoever shares the folder has all it takes.

data/0a1b2c3d4e5f6071-book.txt    the first 16 digits of the SHA-256 of what is in it, and what it was called
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from graphnet_rnn.errors import DataError
from graphnet_rnn.files.whole import read_bytes, write_atomically

__all__ = ["Container"]

#: Of a digest, those that a name begins with.
DIGITS = 16


class Container:
    """Files by their content, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, file: str) -> str:
        """Where a copy of the file is kept: made, unless one of this content is there.

        Of a file that lies here already, whether it is what it was: DataError if it is not, or cannot be read.
        """
        kept, content = self._place(file)
        if not kept.exists():
            write_atomically(kept, content)
        return str(kept)

    def place(self, file: str) -> str:
        """Where `put` keeps it; nothing is written."""
        return str(self._place(file)[0])

    def _place(self, file: str) -> tuple[Path, bytes]:
        path = Path(file)
        content = read_bytes(path, DataError)
        if not content:
            raise DataError(f"{path} is empty")
        digest = hashlib.sha256(content).hexdigest()[:DIGITS]
        if path.parent.resolve() == self.folder.resolve():
            if not path.name.startswith(f"{digest}-"):
                raise DataError(f"{path} is not what it was when the sweep began; put it back, or sweep anew")
            return path, content
        there = sorted(self.folder.glob(f"{digest}-*"))
        if there:
            return self._place(str(there[0]))
        return self.folder / f"{digest}-{path.name}", content
