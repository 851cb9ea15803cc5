"""What stands for characters that a terminal would obey, or that no picture may hold."""

from __future__ import annotations

import io
import unicodedata

from graphnet.system.characters import in_brief, on_one_line, shown_on, visible


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ODD = "a\x1b]0;owned\x07\x9b\r\u202e\ud800\ufffe\uffff\U0010ffff"


def test_each_has_something_that_is_seen() -> None:
    for character, shown in (
        ("a", "a"), ("φ", "φ"), ("\n", "⏎"), ("\x1b", "␛"), ("\x00", "␀"), ("\x7f", "�"), ("\x9b", "�"),
        ("\u202e", "�"), ("\ud800", "�"), ("\ufdd0", "�"), ("\ufffe", "�"), ("\uffff", "�"), ("\U0001fffe", "�"),
    ):  # fmt: skip
        assert visible(character) == shown


def test_all_of_them_are_xml() -> None:
    shown = {visible(chr(code)) for code in range(0x110000)}
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") or c in "\ufffe\uffff"]


def test_a_terminal_gets_what_can_be_seen_and_a_pipe_the_text() -> None:
    joined = "two\n\tlines می\u200cشود φ"
    assert shown_on(io.StringIO(), ODD) == ODD
    assert shown_on(Terminal(), ODD) == "a␛]0;owned␇�␍�����"
    assert shown_on(Terminal(), joined) == joined


def test_a_name_within_a_sentence_is_on_one_line_and_short() -> None:
    assert on_one_line("two lines φ") == "two lines φ"
    assert on_one_line("two\nlines\x1b") == r"two\nlines\x1b"
    for words in ("x" * 10_000_000, "\x1b" * 1000, "\n" * 61):
        assert in_brief(words).endswith(" ...")
        assert len(in_brief(words)) == 60
        assert in_brief(words).isprintable()
    assert in_brief("fc.weight") == "fc.weight"
