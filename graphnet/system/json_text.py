"""JSON from files, of which it is seen how much memory it will take before it is read; and JSON into pages."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

__all__ = ["json_for_script", "read_json"]

#: Lists and objects, and values, of a text at most: a few bytes of each become some hundred in memory.
NESTED, VALUES = 1 << 17, 1 << 20
#: Of characters (surrogates), which no file can hold but as an escape.
_HALVES = re.compile("[\ud800-\udfff]")


def read_json(text: str | bytes) -> Any:
    """The value. ValueError for what is no JSON, is nested too deep to be read, or has more parts than any of ours."""
    content = text if isinstance(text, bytes) else text.encode()
    nested, values = content.count(b"[") + content.count(b"{"), content.count(b",")
    if nested > NESTED or values > VALUES:
        raise ValueError(f"it has {nested:,} lists and objects with {values:,} values, more than are read")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except UnicodeDecodeError:
        raise ValueError("it is no UTF-8") from None
    except ValueError:  # Python reads no number of more digits
        raise ValueError(f"it has a number of more than {sys.get_int_max_str_digits():,} digits") from None


def json_for_script(value: Any) -> str:
    """JSON that may stand in a script element: no name in it can end the element. ValueError for NaN and infinities."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text.replace("<", "\\u003c"))
