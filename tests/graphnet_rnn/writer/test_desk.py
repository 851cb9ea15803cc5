"""Desk: orders are carried out in turn, suggestions grow meanwhile, and nothing ends the thread."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.writer import Desk, Document, Draft, View
from tests.graphnet_rnn.writer.test_draft import LETTERS, network, require_as_read


def test_what_a_writer_does() -> None:
    seen: list[View] = []
    with Desk(Draft(network(), temperature=0.0), seen.append) as desk:
        desk.type("ab c")
        view = desk.wait(300)
        assert view.text == "ab c"
        assert view.complete
        assert view.suggestion
        assert view.changed
        desk.accept()
        after = desk.wait(300)
        assert after.text == "ab c" + view.suggestion
        assert after.accepted == ((4, len(after.text)),)
        desk.undo()
        assert desk.wait(300).text == "ab c"
        desk.warm(3)
        assert desk.wait(300).temperature == pytest.approx(0.3)
        desk.warm(-9)
        assert desk.wait(300).temperature == 0.0
        desk.warm(99)
        assert desk.wait(300).temperature == 2.0
        desk.pause()
        paused = desk.wait(300)
        assert paused.paused
        assert paused.suggestion == ""
        desk.accept()
        assert desk.wait(300).text == "ab c"
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


def test_tab_takes_what_was_seen_to_its_end() -> None:
    with Desk(Draft(network(), temperature=0.0)) as desk:
        whole = desk.wait(300).suggestion
        desk.another()
        desk.accept()  # while it grows
        view = desk.wait(300)
        assert view.text in (whole, "")  # "": none was seen yet


def test_a_pasted_text_is_read_while_keys_come() -> None:
    text = "abcd efg\n" * 300
    with Desk(Draft(network())) as desk:
        desk.type(text)
        desk.type("hé")
        assert desk.wait(300).text == text + "hé"
        assert desk.view.unknown == 1
        require_as_read(desk.draft)


def test_it_learns_when_no_key_comes() -> None:
    with Desk(Draft(network(), learn=rnn.SGD(0.1), piece=4)) as desk:
        desk.type("abcdabcdab")
        assert desk.wait(300).lessons == 2
        desk.undo()
        desk.undo()
        desk.undo()
        assert desk.wait(300).lessons == 1


def test_what_fails_is_a_message_and_the_text_stays() -> None:
    draft = Draft(network(), learn=rnn.SGD(0.1), piece=4)
    draft._slopes = lambda places: (np.nan, draft._theta)  # type: ignore[method-assign]
    with Desk(draft) as desk:
        desk.type("abcd")
        assert "nothing was learned" in desk.wait(300).message
        desk.type("e")
        view = desk.wait(300)
        assert view.text == "abcde"
        assert view.message == ""


def test_a_listener_that_fails_does_not_end_it() -> None:
    def fails(view: View) -> None:
        raise ValueError

    with Desk(Draft(network()), fails) as desk:
        desk.type(LETTERS)
        assert desk.wait(300).text == LETTERS


def test_only_text_is_written() -> None:
    with Desk(Draft(network())) as desk:
        desk.type("a\r\nb\rc\x1b[31m\x00\x7f\x85\td\ud800é")
        assert desk.wait(300).text == "a\nb\nc[31m\td\ufffdé"
        desk.wait(300).text.encode()


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


def test_what_was_pasted_and_not_read_yet_is_rescued_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphnet_rnn.writer.desk.WAIT", 0.05)
    text = "abc defg\n" * 50_000
    with Desk(Draft(network())) as desk:
        desk.type("ab")
        desk.undo()
        desk.type(text)
        desk.undo()
        desk.type("h")
        place = desk.rescue(Document(tmp_path / "novel.txt"))
    assert place is not None
    assert place.read_text(encoding="utf-8") == "a" + text[:-1] + "h"
