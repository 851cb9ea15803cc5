"""Document: what is read and written, what is refused, and nothing of another program is written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphnet_rnn.errors import DataError, SaveError, UsageError
from graphnet_rnn.writer import Document, document
from tests.tables import case


def test_what_was_not_changed_is_saved_as_it_was(tmp_path: Path) -> None:
    for content in (b"", b"a\nb\n", "日本 é".encode(), b"a\r\nb\r\n", b"a\r\nb\n", b"\xef\xbb\xbfa"):
        with case(content):
            path = tmp_path / "x.txt"
            path.write_bytes(content)
            own = Document(path)
            own.save(own.read())
            assert path.read_bytes() == content


def test_a_new_file(tmp_path: Path) -> None:
    own = Document(tmp_path / "x.txt")
    assert own.read() == ""
    own.save("a")
    own.save("ab")
    assert (tmp_path / "x.txt").read_text(encoding="utf-8") == "ab"


def test_another_program_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    own = Document(path)
    own.read()
    path.write_text("another's", encoding="utf-8")
    with pytest.raises(UsageError, match=r"x\.txt was changed by another program"):
        own.save("a")
    assert path.read_text(encoding="utf-8") == "another's"
    own.save("a", over=True)
    path.unlink()
    own.save("b")
    assert path.read_text(encoding="utf-8") == "b"


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bytes").write_bytes(b"ab\xff")
    with pytest.raises(DataError, match=r"bytes is no text in UTF-8: byte 2 is 0xff"):
        Document(tmp_path / "bytes").read()
    with pytest.raises(DataError, match="is a folder"):
        Document(tmp_path).read()
    with pytest.raises(DataError, match=r"there is no folder .*nowhere for x"):
        Document(tmp_path / "nowhere" / "x").read()
    monkeypatch.setattr(document, "LARGEST", 1)
    with pytest.raises(DataError, match="more than the 0 that one may write at; divide it"):
        Document(tmp_path / "bytes").read()
    with pytest.raises(UsageError, match="path must name a file"):
        Document("")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the text has no file yet"):
        Document().save("a")
    with pytest.raises(SaveError):
        Document(tmp_path / "nowhere" / "x").save("a")


def test_without_a_name_it_is_rescued_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = Document()
    assert own.unsaved is None
    assert own.rescue("a") == Path("writing.txt.unsaved")
    assert own.rescue("b") == Path("writing.txt.unsaved-2")
    assert own.unsaved is not None
