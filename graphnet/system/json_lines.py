"""Rows in a file of JSON lines: one way to add a row and one to read them, whatever stopped the one who wrote."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system.characters import in_brief
from graphnet.system.files import kind_of, lock_file, read_whole
from graphnet.system.json_text import read_json

__all__ = ["Row", "append_row", "keep_rows", "read_rows"]

Row = dict[str, Any]


def append_row(path: str | os.PathLike[str], row: Mapping[str, Any]) -> None:
    """Adds one line, whole; several processes may do so at the same time.

    A last line that was torn (by a kill, a full disk, a power cut) is cut off first: nobody can read it, and the new
    row would be glued to it. One that only lacks its end is ended. Raises OSError; nothing of the row is then in the
    file.
    """
    line = json.dumps(row).encode() + b"\n"
    with open(path, "a+b", buffering=0) as file:
        if not file.seekable():  # a pipe or a terminal holds no lines to heal
            _write(file, line)
            return
        with contextlib.suppress(OSError):  # where files have no locks a row is whole all the same
            lock_file(file.fileno(), wait=True)
        size = _healed(file)
        try:
            _write(file, line)
        except BaseException:
            file.truncate(size)
            raise


def read_rows(path: str | os.PathLike[str], error: type[GraphnetError], name: str | None = None) -> list[Row]:
    """The rows of a file, without a torn last line (see `append_row`); empty lines are none.

    An error of the given kind, in one sentence, names the file (or says `name`) and the line that is anything else, or
    why the file cannot be read.
    """
    name = str(path) if name is None else name
    try:
        content = read_whole(path)
    except OSError as problem:
        raise error(f"{name} cannot be read: {problem.strerror or problem}.") from None
    if not content and kind_of(path) == "a pipe":
        raise error(f"{name} is a pipe that nothing was written to.")
    return [row for row, _ in _rows(content, error, name)]


def keep_rows(path: str | os.PathLike[str], count: int, error: type[GraphnetError]) -> None:
    """Cuts a file after its first rows, so many; OSError if that cannot be done, else as `read_rows`."""
    with open(path, "r+b") as file:
        ends = [0, *(end for _, end in _rows(file.read(), error, str(path)))]
        file.truncate(ends[count])


def _rows(content: bytes, error: type[GraphnetError], name: str) -> Iterator[tuple[Row, int]]:
    """Each row, and where the next one begins."""
    end = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        end += len(line)
        if not line.strip() or (end == len(content) and _is_torn(line)):
            continue
        try:
            row = read_json(line)
        except ValueError as problem:
            raise error(f"{name}, line {number}, is not JSON: {problem}") from None
        if not isinstance(row, dict):
            raise error(
                f"{name}, line {number}, must be an object, not {in_brief(line.decode(errors='replace').strip(), 40)}"
            )
        yield row, end


def _is_torn(line: bytes) -> bool:
    """Whether it is the beginning of a row, or what a power cut may leave in its place, but no whole row."""
    if line.endswith(b"\n") or not line.startswith((b"{", b"\0")):  # whatever else this is, no row was begun
        return False
    try:
        read_json(line)
    except ValueError:
        return True
    return False


def _healed(file: io.FileIO) -> int:
    """The size of the file once its last line is whole."""
    size = file.seek(0, os.SEEK_END)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.seek(0)
            last = file.readall().rpartition(b"\n")[2]
            if _is_torn(last):
                size -= len(last)
                file.truncate(size)
            else:
                _write(file, b"\n")
                size += 1
    return size


def _write(file: io.FileIO, line: bytes) -> None:
    """One write, but for a disk that takes only a part of it."""
    while line:
        line = line[file.write(line) or 0 :]
