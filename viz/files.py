"""Atomic writes of picture files."""

from __future__ import annotations

from pathlib import Path

from graphnet.system.files import write_whole
from viz.errors import DrawingError


def write_file(target: Path, contents: bytes) -> None:
    """Writes a file completely or not at all; raises DrawingError if the folder is missing or not writable."""
    try:
        if not target.parent.is_dir():
            raise FileNotFoundError(0, f"there is no folder {target.parent}")
        write_whole(target, contents, durable=False)
    except OSError as error:
        reason = error.strerror or str(error)
        raise DrawingError(
            f"path {str(target)!r} cannot be written ({reason}); name a file in an existing, writable folder."
        ) from None
