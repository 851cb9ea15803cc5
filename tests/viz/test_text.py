"""Coloured text: colours, guesses below, and control characters."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

import viz
from graphnet_rnn.text.reading import Reading
from viz import coloured, coloured_html

COLOUR = re.compile(r"\x1b\[30;48;2;(\d+);(\d+);(\d+)m")


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[\d;]*m", "", text).split("\n")


def test_low_is_red_and_high_is_green():
    (red, green) = ([int(v) for v in match] for match in COLOUR.findall(coloured("ab", [0.0, 1.0])))
    assert red[0] > red[1] + 50
    assert green[1] > green[0] + 50


def test_wrong_guesses_are_printed_beneath():
    for text, guesses, width, lines in (
        ("hello", "hullo", 80, ["hello", " u"]), ("hello", list("hello"), 80, ["hello"]),
        ("hello", None, 80, ["hello"]), ("ab\ncd", "xb\ncd", 80, ["ab⏎", "x", "cd"]),
        ("abcdef", None, 4, ["abcd", "ef"]), ("abc", ["a", " ", "c"], 80, ["abc", " ␣"]), ("", "", 80, [""]),
    ):  # fmt: skip
        assert plain(coloured(text, np.full(len(text), 0.5, "float32"), guesses, width)) == lines


def test_wide_characters_keep_guesses_in_their_columns():
    assert plain(coloured("漢ab", [1.0] * 3, "xab")) == ["漢ab", "x"]
    assert plain(coloured("漢ab", [1.0] * 3, "漢xb")) == ["漢ab", "  x"]
    assert plain(coloured("a漢", [1.0] * 2, "漢x")) == ["a漢", "…x"]


def test_control_characters_never_reach_the_terminal():
    shown = "".join(plain(coloured("a\x1b[2Jb\r\x00\u202e\x7f", [1.0] * 10, "\x1b" * 10)))
    assert not re.search(r"[\x00-\x1f\x7f\u202e]", shown)


def test_pictures_of_any_characters_are_valid_xml():
    """Noncharacters, surrogates and control characters are not allowed in XML."""
    odd = "".join(
        map(chr, [*range(0x20), *range(0x7F, 0xA0), 0xD800, 0xDFFF, 0xFDD0, 0xFFFE, 0xFFFF, 0x10FFFF])
    )
    text = odd + "a"
    found = Reading(text, (1.0,) * len(text), odd[::-1] + "b")
    for page in (viz.reading(found), viz.samples({"odd": text})):
        assert ElementTree.fromstring(page.svg.encode()).tag.endswith("svg")


def test_html_is_escaped_and_shows_probabilities():
    page = coloured_html("<&a", [0.0, 0.25, 1.0], "<>a")
    assert "&lt;</span>" in page
    assert "&amp;</span>" in page
    assert " &gt;</span>" in page
    assert 'title="p = 0.25"' in page
    assert page.startswith("<pre")
