"""HTML page in one file: template, styles, scripts and data."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

from graphnet.system.text import filled, json_for_script
from viz.style import DARK, LIGHT, Style

#: Files in the order of the script; later ones use earlier ones.
SCRIPTS = (
    "model.js", "markup.js", "heat.js", "view.js", "wires.js", "layered.js", "layout.js",
    "draw.js", "changes.js", "steps.js", "panel.js", "keys.js", "main.js",
)  # fmt: skip

_CHOICES = (("light", LIGHT), ("dark", DARK))


def page(data: Mapping[str, Any], title: str, theme: Style | None) -> str:
    """HTML text. theme: None follows the setting of the reader's system, light or dark."""
    parts = {
        "title": escape(title),
        "colours": _colours(theme),
        "styles": _asset("page.css"),
        "data": json_for_script(data),
        "scripts": "\n".join(_asset(name) for name in SCRIPTS),
    }
    return filled(_asset("page.html"), parts)


def _asset(name: str) -> str:
    return resources.files("viz.explorer").joinpath("assets", name).read_text(encoding="utf-8")


def _colours(theme: Style | None) -> str:
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
    return "".join(c for c in text if c not in "{};<>")
