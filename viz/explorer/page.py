"""Page: the template, the styles, the scripts and the data, as one HTML file that needs nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

from viz.style import DARK, LIGHT, Style

__all__ = ["SCRIPTS", "page"]

#: In this order they are one script; each may use what those above it define.
SCRIPTS = (
    "model.js", "markup.js", "heat.js", "view.js", "wires.js", "layered.js", "layout.js",
    "draw.js", "steps.js", "panel.js", "keys.js", "main.js",
)  # fmt: skip


#: Of characters (surrogates), which no file can hold but as an escape.
_HALVES = re.compile("[\ud800-\udfff]")
_CHOICES = (("light", LIGHT), ("dark", DARK))


def page(data: Mapping[str, Any], title: str, theme: Style | None) -> str:
    """The page. theme: None follows what the reader's system prefers, light or dark."""
    parts = {
        "title": escape(title),
        "colours": _colours(theme),
        "styles": _asset("page.css"),
        "data": _as_json(data),
        "scripts": "\n".join(_asset(name) for name in SCRIPTS),
    }
    # In one sweep: what a part holds is never taken for a place to fill.
    pieces = _asset("page.html").split("%%")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _asset(name: str) -> str:
    return resources.files("viz.explorer").joinpath("assets", name).read_text(encoding="utf-8")


def _as_json(data: Mapping[str, Any]) -> str:
    """JSON that may stand in a script element: no name in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text.replace("<", "\\u003c"))


def _colours(theme: Style | None) -> str:
    """The legend as variables of CSS: viz.Style is the one place where colours are set.

    The reader may ask for light or dark, whatever the page begins with.
    """
    rules = [f":root {{ {_variables(theme or LIGHT)} }}"]
    if theme is None:
        rules.append(f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}")
    rules += [f":root[data-theme={name}] {{ {_variables(colours)} }}" for name, colours in _CHOICES]
    return "\n".join(rules)


def _variables(theme: Style) -> str:
    lines = []
    for name, value in vars(theme).items():
        text = ", ".join(value) if isinstance(value, tuple) else str(value)
        if isinstance(value, (str, tuple)):
            lines.append(f"--{name.replace('_', '-')}: {_safe(text)};")
    return " ".join(lines)


def _safe(text: str) -> str:
    """Nothing that would end the declaration or the element."""
    return "".join(c for c in text if c not in "{};<>")
