"""Desk, Document, and the model of the package: orders in their turn, and what is read, written and rescued."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import DataError, ModelFileError, SaveError, UsageError
from graphnet_rnn.writer import Desk, Document, Draft, View, document
from graphnet_rnn.writer.own_model import LARGEST, documentation, main, own_model
from tests.graphnet_rnn.writer.test_draft import network, require_as_read
from tests.tables import case


def test_what_a_writer_does() -> None:
    seen: list[View] = []
    with Desk(Draft(network(), temperature=0.0), seen.append) as desk:
        desk.type("ab c")
        view = desk.wait(300)
        assert (view.text, view.complete, view.changed) == ("ab c", True, True)
        assert view.suggestion
        desk.accept()
        after = desk.wait(300)
        assert after.text == "ab c" + view.suggestion
        assert after.accepted == ((4, len(after.text)),)
        desk.undo()
        assert desk.wait(300).text == "ab c"
        for degrees, temperature in ((3, 0.3), (-9, 0.0), (99, 2.0)):
            desk.warm(degrees)
            assert desk.wait(300).temperature == pytest.approx(temperature)
        desk.pause()
        desk.accept()
        paused = desk.wait(300)
        assert (paused.paused, paused.suggestion, paused.text) == (True, "", "ab c")
        desk.pause()
        assert desk.wait(300).suggestion
        desk.saved("ab c")
        assert not desk.wait(300).changed
        desk.replace("hgf")
        last = desk.wait(300)
        assert (last.text, last.changed) == ("hgf", False)
    assert not any(thread.name == "writer" for thread in threading.enumerate())
    grown = [view.suggestion for view in seen if view.text == "ab c"]
    assert any(b == a + b[-1:] and len(b) > 1 for a, b in pairwise(grown))  # letter by letter


def test_another_suggestion() -> None:
    with Desk(Draft(network(), temperature=1.5)) as desk:
        found = set()
        for _ in range(20):
            found.add(desk.wait(300).suggestion)
            desk.another()
        assert len(found) > 5
    with Desk(Draft(network(), temperature=0.0)) as desk:
        whole = desk.wait(300).suggestion
        desk.another()
        desk.accept()  # while it grows
        assert desk.wait(300).text in (whole, "")  # "": none was seen yet


def test_a_pasted_text_is_read_while_keys_come_and_only_text_is_written() -> None:
    text = "abcd efg\n" * 300
    with Desk(Draft(network())) as desk:
        desk.type(text)
        desk.type("hé")
        assert desk.wait(300).text == text + "hé"
        assert desk.view.unknown == 1
        require_as_read(desk.draft)
        desk.replace("")
        desk.type("a\r\nb\rc\x1b[31m\x00\x7f\x85\td\ud800é")
        assert desk.wait(300).text == "a\nb\nc[31m\td\ufffdé"


def test_it_learns_when_no_key_comes() -> None:
    with Desk(Draft(network(), learn=rnn.SGD(0.1), piece=4)) as desk:
        desk.type("abcdabcdab")
        assert desk.wait(300).lessons == 2
        for _ in range(3):
            desk.undo()
        assert desk.wait(300).lessons == 1


def test_what_fails_is_a_message_and_the_text_stays() -> None:
    """Also where a listener fails."""

    def fails(view: View) -> None:
        raise ValueError

    draft = Draft(network(), learn=rnn.SGD(0.1), piece=4)
    draft._slopes = lambda places: (np.nan, draft._theta)  # type: ignore[method-assign]
    with Desk(draft, fails) as desk:
        desk.type("abcd")
        assert "nothing was learned" in desk.wait(300).message
        desk.type("e")
        view = desk.wait(300)
        assert (view.text, view.message) == ("abcde", "")


def test_what_is_not_saved_is_written_beside_its_file(tmp_path: Path) -> None:
    document = Document(tmp_path / "x.txt")
    with Desk(Draft(network())) as desk:
        assert desk.rescue(document) is None
        desk.type("abc")
        (tmp_path / "x.txt.unsaved").write_text("of last time", encoding="utf-8")
        assert document.unsaved == tmp_path / "x.txt.unsaved"
        place = desk.rescue(document)
    assert place == tmp_path / "x.txt.unsaved-2"
    assert place.read_text(encoding="utf-8") == "abc"
    assert (tmp_path / "x.txt.unsaved").read_text(encoding="utf-8") == "of last time"


def test_what_was_pasted_and_not_read_yet_is_rescued_too(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("graphnet_rnn.writer.desk.WAIT", 0.05)
    text = "abc defg\n" * 50_000
    with Desk(Draft(network())) as desk:
        for written in ("ab", text):
            desk.type(written)
            desk.undo()
        desk.type("h")
        place = desk.rescue(Document(tmp_path / "novel.txt"))
    assert place is not None
    assert place.read_text(encoding="utf-8") == "a" + text[:-1] + "h"


def test_what_was_not_changed_is_saved_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    for content in (b"", b"a\nb\n", "日本 é".encode(), b"a\r\nb\r\n", b"a\r\nb\n", b"\xef\xbb\xbfa"):
        with case(content):
            path.write_bytes(content)
            own = Document(path)
            own.save(own.read())
            assert path.read_bytes() == content


def test_a_new_file_and_one_that_another_program_changes(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    own = Document(path)
    assert own.read() == ""
    own.save("a")
    own.save("ab")
    assert path.read_text(encoding="utf-8") == "ab"
    path.write_text("another's", encoding="utf-8")
    with pytest.raises(UsageError, match=r"x\.txt was changed by another program"):
        own.save("a")
    assert path.read_text(encoding="utf-8") == "another's"
    own.save("a", over=True)
    path.unlink()
    own.save("b")
    assert path.read_text(encoding="utf-8") == "b"


def test_what_cannot_be_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, nowhere = tmp_path / "bytes", tmp_path / "nowhere" / "x"
    there.write_bytes(b"ab\xff")
    for call, error, said in (
        (lambda: Document(there).read(), DataError, "bytes is no text in UTF-8: byte 2 is 0xff"),
        (lambda: Document(tmp_path).read(), DataError, "is a folder"),
        (lambda: Document(nowhere).read(), DataError, "there is no folder .*nowhere for x"),
        (lambda: Document(""), UsageError, "path must name a file"),
        (lambda: Document().save("a"), UsageError, "the text has no file yet"),
        (lambda: Document(nowhere).save("a"), SaveError, "nowhere"),
    ):
        with case(said), pytest.raises(error, match=said):
            call()
    monkeypatch.setattr(document, "LARGEST", 1)
    with pytest.raises(DataError, match="more than the 0 that one may write at; divide it"):
        Document(there).read()


def test_without_a_name_it_is_rescued_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = Document()
    assert own.unsaved is None
    assert own.rescue("a") == Path("writing.txt.unsaved")
    assert own.rescue("b") == Path("writing.txt.unsaved-2")
    assert own.unsaved is not None


def test_it_is_there_and_small_and_has_read_documentation(tmp_path: Path, monkeypatch: Any) -> None:
    """What is no model is not kept in its place."""
    path = own_model()
    assert path.stat().st_size <= LARGEST
    network = rnn.load(path)
    draft = Draft(network, temperature=0.0)
    draft.type("Return the ")
    assert draft.suggest().strip().isalpha()
    text = "Return a list of the names in the current scope. If an argument is given, the default is used."
    assert rnn.read(network, text, context="\n").bits < 3.0
    assert rnn.read(network, text[::-1], context="\n").bits > 3.5
    before = path.read_bytes()
    (tmp_path / "no.safetensors").write_bytes(b"x")
    monkeypatch.setattr(sys, "argv", ["own_model", "keep", str(tmp_path / "no.safetensors")])
    with pytest.raises(ModelFileError):
        main()
    assert path.read_bytes() == before


def test_the_text_is_that_of_the_running_python(tmp_path: Path) -> None:
    """The same in every process, whatever the order of its sets."""
    text = documentation()
    assert len(text) > 500_000
    assert set(text) <= {"\n", *map(chr, range(32, 127))}
    assert "Return" in text
    command = [sys.executable, "-m", "graphnet_rnn.writer.own_model", "text", str(tmp_path / "python.txt")]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "characters, " in ended.stdout
    assert (tmp_path / "python.txt").read_text(encoding="utf-8") == text


def test_a_letter_is_one_step_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much stands before it."""
    for context in ("", "def f(x):\n    "):
        draft, steps = Draft(rnn.load(own_model()), threads=1), []
        draft.type(context + "The ")

        def counted(*arguments: Any, step: Any = draft._step) -> Any:
            steps.append(1)
            return step(*arguments)

        monkeypatch.setattr(draft, "_step", counted)
        for _ in range(20):
            if not draft.grow():
                draft.forget_suggestion()
        assert len(steps) <= 20
