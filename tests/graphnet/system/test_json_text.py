"""JSON that would take more memory than any of ours is refused before it is read."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from graphnet.system.json_text import NESTED, VALUES, read_json


def test_what_is_ours_is_read() -> None:
    for value in (None, 1, "a", [1, [2.5]], {"a": {"b": [True]}}, "[{,", list(range(1000))):
        text = json.dumps(value)
        assert read_json(text) == read_json(text.encode()) == value


def test_what_is_not_is_refused_in_little_memory() -> None:
    for text in (
        "[" * 1000 + "]" * 1000,
        "[" + "[]," * (NESTED + 1) + "1]",
        "[" + "{}," * (NESTED + 1) + "1]",
        "1," * (VALUES + 1),
    ):
        tracemalloc.start()
        with pytest.raises(ValueError, match=r"nested too deep|more than are read"):
            read_json(text)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8e6 + 2 * len(text), text[:9]


def test_no_json() -> None:
    for text in ("", "{", b"\xff", "[1,]"):
        with pytest.raises(ValueError):  # noqa: PT011 (json's own words)
            read_json(text)
