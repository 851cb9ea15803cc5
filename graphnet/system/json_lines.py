"""Appending and reading rows of JSON-lines files, also after the writer was interrupted."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system.files import kind_of, lock_file, opened, read_whole
from graphnet.system.memory import require_memory
from graphnet.system.text import in_brief, read_json

Row = dict[str, Any]


def append_row(path: str | os.PathLike[str], row: Mapping[str, Any]) -> None:
    """Appends one complete line; several processes may do so at the same time.

    A last line that was torn (by a kill, a full disk, a power cut) is removed first, since the new row would continue
    it. A complete last line without a newline gets one. Raises OSError; no part of the row is then in the file.
    """
    line = json.dumps(row).encode() + b"\n"
    with open(path, "a+b", buffering=0) as file:
        if not file.seekable():  # a pipe or a terminal has no lines to repair
            _write(file, line)
            return
        with contextlib.suppress(OSError):  # without locks, a row is still written at once
            lock_file(file.fileno(), wait=True)
        size = _healed(file)
        try:
            _write(file, line)
        except BaseException:
            file.truncate(size)
            raise


def read_rows(path: str | os.PathLike[str], error: type[GraphnetError], name: str | None = None) -> list[Row]:
    """The rows of a file, without a torn last line (see `append_row`); empty lines are none.

    Raises `error`, in one sentence, with the file (or `name`) and the invalid line, or the reason why the file
    cannot be read.
    """
    name = str(path) if name is None else name
    try:
        content = read_whole(path)
    except OSError as problem:
        raise error(f"{name} cannot be read: {problem.strerror or problem}.") from None
    if not content and kind_of(path) == "a pipe":
        raise error(f"{name} is a pipe without data.")
    return list(_rows(content, error, name))


class Tail:
    """Rows that are appended to a file as it grows; all rows again after the file was truncated.

    The writer may truncate the file and write beyond the old end before the next look, so the last row that was read
    is compared with the file. error: type of exception for a file that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], error: type[GraphnetError]) -> None:
        self._path, self._error = path, error
        self._end, self._lines, self._last = 0, 0, b""

    def rows(self, *marks: bytes) -> Iterator[tuple[bool, Row]]:
        """New rows that contain one of the marks; True for the first row after reading from the start of the file."""
        new = self._new()
        new = new[: new.rfind(b"\n") + 1]  # a row that is being written is read later
        anew, before = not self._end, self._lines
        lines = new.splitlines(keepends=True)
        self._end, self._lines = self._end + len(new), before + len(lines)
        self._last = lines[-1] if lines else self._last
        for number, line in enumerate(lines, start=before + 1):
            if any(mark in line for mark in marks):
                yield anew, _row(line, self._error, str(self._path), number)
                anew = False

    def _new(self) -> bytes:
        try:
            with opened(self._path) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise self._error(f"{self._path} is not a regular file")
                file.seek(self._end - len(self._last))
                if file.read(len(self._last)) != self._last:
                    self._end, self._lines, self._last = 0, 0, b""
                require_memory(
                    status.st_size - self._end, f"reading {self._path}", "it is not the file of a run"
                )
                file.seek(self._end)
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as problem:
            raise self._error(f"{self._path} cannot be read: {problem.strerror or problem}") from None


def _rows(content: bytes, error: type[GraphnetError], name: str) -> Iterator[Row]:
    end = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        end += len(line)
        if line.strip() and not (end == len(content) and _is_torn(line)):
            yield _row(line, error, name, number)


def _row(line: bytes, error: type[GraphnetError], name: str, number: int) -> Row:
    try:
        row = read_json(line)
    except ValueError as problem:
        raise error(f"{name}, line {number}, is not JSON: {problem}") from None
    if not isinstance(row, dict):
        raise error(
            f"{name}, line {number}, must be an object, not {in_brief(line.decode(errors='replace').strip(), 40)}"
        )
    return row


def _is_torn(line: bytes) -> bool:
    """True for an incomplete row, or for zero bytes that a power failure may leave."""
    if line.endswith(b"\n") or not line.startswith((b"{", b"\0")):  # this is not the beginning of a row
        return False
    try:
        read_json(line)
    except ValueError:
        return True
    return False


def _healed(file: io.FileIO) -> int:
    """Repairs the last line; returns the size of the file."""
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
    while line:
        line = line[file.write(line) or 0 :]
