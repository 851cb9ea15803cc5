"""JSON lines files with truncated rows and concurrent writers, and oversized JSON."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest

import graphnet
from graphnet.errors import GraphnetError
from graphnet.system import json_lines
from graphnet.system.files import lock_file
from graphnet.system.json_lines import Tail, append_row, read_rows
from graphnet.system.text import NESTED, VALUES, read_json
from tests.tables import usual_recursion

ROWS = [{"event": "step", "step": i, "é": [1.5, None, "a\u2028b\n"]} for i in range(3)]


class Refused(GraphnetError):
    pass


def written(path: Path) -> bytes:
    for row in ROWS:
        append_row(path, row)
    return path.read_bytes()


def test_truncated_rows_are_ignored_and_removed(tmp_path: Path) -> None:
    """Rows truncated at any byte: readers ignore them, and the next writer removes them."""
    whole = written(tmp_path / "whole")
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    path = tmp_path / "torn"
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        there = ROWS[: sum(end <= size + 1 for end in ends)]
        assert read_rows(path, Refused) == there
        append_row(path, {"new": 1})
        assert path.read_bytes() == b"".join(json.dumps(row).encode() + b"\n" for row in [*there, {"new": 1}])


def test_rows_with_zero_bytes_are_treated_as_torn(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    for zeros in (b"\0" * 40, b'{"event\0\0\0'):
        path.write_bytes(b'{"a": 1}\n' + zeros)
        assert read_rows(path, Refused) == [{"a": 1}]
        append_row(path, {"b": 2})
        assert path.read_bytes() == b'{"a": 1}\n{"b": 2}\n'
    path.write_bytes(b"It was the best of times")  # a text that is none of ours
    append_row(path, {"a": 1})
    assert path.read_bytes() == b'It was the best of times\n{"a": 1}\n'


def test_other_damage_raises_errors_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    for content, said in (
        (b'{"a": 1}\n{"b": \n{"c": 3}\n', "line 2, is not JSON"),
        (b'{"a": 1}{"b": 2}\n', "line 1, is not JSON"),
        (b'{"a": 1}\n{"b": 2\n', "line 2, is not JSON"),  # it has its end, so it was not torn
        (b'{"a": 1}\n\n[1]\n', r"line 3, must be an object, not \[1\]"),
        (b"\xff\xfe{}", "line 1, is not JSON"),
        (b"[" * 100_000 + b"\n", "line 1, is not JSON"),
    ):
        path.write_bytes(content)
        with pytest.raises(Refused, match=rf"^{path}, {said}") as caught:
            read_rows(path, Refused)
        assert "\n" not in str(caught.value)
    for missing in (tmp_path, tmp_path / "none"):
        with pytest.raises(Refused, match=r"^my rows cannot be read: \w"):
            read_rows(missing, Refused, "my rows")


def test_tail_returns_new_rows(tmp_path: Path) -> None:
    """Rows are returned one by one, and all rows again if the file was truncated."""
    path = tmp_path / "rows"
    tail = Tail(path, Refused)
    assert list(tail.rows(b"a")) == []
    for row in ({"a": 1}, {"b": 2}, {"a": 3}):
        append_row(path, row)
    assert list(tail.rows(b"a")) == [(True, {"a": 1}), (False, {"a": 3})]
    with path.open("ab") as file:
        file.write(b'{"a": 4')
    assert list(tail.rows(b"a")) == []
    append_row(path, {"a": 5})
    assert list(tail.rows(b"a")) == [(False, {"a": 5})]
    path.write_bytes(b"".join(b'{"a": %d}\n' % k for k in range(6, 15)))
    assert [row["a"] for _, row in tail.rows(b"a")] == list(range(6, 15))
    assert list(tail.rows(b"a")) == []
    path.write_bytes(b"".join(b'{"a": %d}\n' % k for k in range(20, 40)))  # longer than before, and another
    assert [row["a"] for _, row in tail.rows(b"a")] == list(range(20, 40))
    with path.open("ab") as file:
        file.write(b"a\n")
    with pytest.raises(Refused, match=rf"^{path}, line 21, is not JSON"):
        list(tail.rows(b"a"))


def test_full_disk_leaves_no_partial_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows"
    before = written(path)

    def half(file: io.FileIO, line: bytes) -> None:
        file.write(line[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(json_lines, "_write", half)
    with pytest.raises(OSError, match="No space left"):
        append_row(path, {"a": 1})
    assert path.read_bytes() == before


def test_pipes_are_written_to() -> None:
    reader, writer = os.pipe()
    append_row(f"/dev/fd/{writer}", {"a": 1})
    assert os.read(reader, 100) == b'{"a": 1}\n'


def test_rows_being_written_by_another_thread_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    with path.open("ab", buffering=0) as other:
        lock_file(other.fileno())
        other.write(b'{"first": ')
        second = threading.Thread(target=append_row, args=(path, {"second": 2}))
        second.start()
        second.join(0.05)  # whether it has come to the lock or not, it has not ended
        assert second.is_alive()
        other.write(b"1}\n")
    second.join()
    assert path.read_bytes() == b'{"first": 1}\n{"second": 2}\n'


ADD = """
import sys
from graphnet.system.json_lines import append_row
for i in range(100):
    append_row(sys.argv[1], {"who": int(sys.argv[2]), "row": i, "fill": "x" * (i * 40)})
"""


def test_rows_of_several_processes_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    env = {**os.environ, "PYTHONPATH": str(Path(graphnet.__file__).parents[1])}
    add = [sys.executable, "-c", ADD, str(path)]
    writers = [subprocess.Popen([*add, str(who)], env=env) for who in range(2)]
    assert [writer.wait() for writer in writers] == [0] * 2
    rows = read_rows(path, Refused)
    for who in range(2):
        assert [row["row"] for row in rows if row["who"] == who] == list(range(100))


def test_valid_json_is_read() -> None:
    for value in (None, 1, "a", [1, [2.5]], {"a": {"b": [True]}}, "[{,", list(range(1000))):
        text = json.dumps(value)
        assert read_json(text) == read_json(text.encode()) == value
    for text in ("", "{", b"\xff", "[1,]"):
        with pytest.raises(ValueError):  # noqa: PT011 (json's own words)
            read_json(text)


def test_oversized_json_is_rejected_in_little_memory() -> None:
    many = NESTED + 1
    for text in ("[" * 1000 + "]" * 1000, f"[{'[],' * many}1]", f"[{'{},' * many}1]", "1," * (VALUES + 1)):
        tracemalloc.start()
        with usual_recursion(), pytest.raises(ValueError, match=r"nested too deeply|more than are allowed"):
            read_json(text)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8e6 + 2 * len(text), text[:9]
