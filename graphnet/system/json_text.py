"""JSON from files: how much memory it will take is seen before it is read."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["read_json"]

#: Lists and objects, and values, of a text at most: a few bytes of each become some hundred in memory.
NESTED, VALUES = 1 << 17, 1 << 20


def read_json(text: str | bytes) -> Any:
    """The value. ValueError for what is no JSON, is nested too deep to be read, or has more parts than any of ours."""
    content = text if isinstance(text, bytes) else text.encode()
    nested, values = content.count(b"[") + content.count(b"{"), content.count(b",")
    if nested > NESTED or values > VALUES:
        raise ValueError(f"it has {nested:,} lists and objects with {values:,} values, more than are read")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
