"""JSON that would take more memory than any of ours is refused before it is read."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest

from graphnet.system.json_text import NESTED, VALUES, read_json


@pytest.mark.parametrize("value", [None, 1, "a", [1, [2.5]], {"a": {"b": [True]}}, "[{,", list(range(1000))])
@pytest.mark.parametrize("kind", [str, bytes])
def test_what_is_ours_is_read(value: Any, kind: type) -> None:
    text = json.dumps(value)
    assert read_json(text if kind is str else text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1000 + "]" * 1000,
        "[" + "[]," * (NESTED + 1) + "1]",
        "[" + "{}," * (NESTED + 1) + "1]",
        "1," * (VALUES + 1),
    ],
    ids=["deep", "lists", "objects", "values"],
)
def test_what_is_not_is_refused_at_once(text: str) -> None:
    tracemalloc.start()
    begun = time.perf_counter()
    with pytest.raises(ValueError, match=r"nested too deep|more than are read"):
        read_json(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8e6 + 2 * len(text)
    assert time.perf_counter() - begun < 5


def test_no_json() -> None:
    for text in ("", "{", b"\xff", "[1,]"):
        with pytest.raises(ValueError):  # noqa: PT011 (json's own words)
            read_json(text)
