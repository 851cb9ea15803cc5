"""A program as bytes, and back: the length of the header, the header as JSON, and arrays, one behind the other.

What the bytes say is looked at before it is used: sizes before memory is taken for them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphnet.backends import contents
from graphnet.graph.node import Array
from graphnet.system.characters import in_brief

__all__ = ["packed", "unpacked"]

#: Bytes that tell how long the header is.
LENGTH = 8


def packed(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """header: what JSON can hold; it gets a list of the arrays."""
    held = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    listed = [[name, array.dtype.str, list(arrays[name].shape)] for name, array in held.items()]
    text = json.dumps({**header, "arrays": listed}).encode()
    return b"".join(
        [len(text).to_bytes(LENGTH, "little"), text, *(array.tobytes() for array in held.values())]
    )


def unpacked(content: bytes, start: int = 0) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays, from the byte `start` on. BackendError for what is none."""
    header, first = _header_of(content, start)
    return header, _arrays_of(header, content, first)


def _header_of(content: bytes, start: int) -> tuple[dict[str, Any], int]:
    """The header, and where it ends."""
    length = int.from_bytes(content[start : start + LENGTH], "little")
    end = start + LENGTH + length
    try:
        header = json.loads(content[start + LENGTH : end])  # of a large graph it is long
    except (ValueError, RecursionError) as error:
        contents.refuse(f"its header cannot be read ({error})")
    if not isinstance(header, dict) or end > len(content):
        contents.refuse("it has no header")
    return header, end


def _arrays_of(header: dict[str, Any], content: bytes, start: int) -> dict[str, Array]:
    """Copies of the arrays that fill the rest, so nothing is taken that is not there."""
    found: dict[str, Array] = {}
    for entry in contents.listed(contents.entry(header, "arrays"), "its arrays"):
        name, dtype, sizes = contents.listed(entry, "an array", 3)
        what = f"the array {in_brief(contents.text(name, 'the name of an array'), 40)}"
        kind, shape = contents.dtype(dtype, what), contents.shape(sizes, what)
        end = start + math.prod(shape) * kind.itemsize
        if end > len(content) or name in found:
            contents.refuse(f"{what} is not there")
        found[name] = np.frombuffer(bytearray(content[start:end]), kind).reshape(shape)
        start = end
    if start != len(content):
        contents.refuse(f"it has {len(content) - start} bytes too many")
    return found
