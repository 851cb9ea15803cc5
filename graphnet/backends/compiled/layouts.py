"""Layouts: what loops that differ in their places alone share. A back end makes it once for all time steps."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

__all__ = ["remembered"]

Layout = TypeVar("Layout")
#: So many layouts are remembered, far more than a program has.
REMEMBERED = 1024


def remembered(layouts: dict[Hashable, Layout], key: Hashable, layout: Layout) -> Layout:
    """The layout, which the table holds from now on; key: `Loop.form`, and all else that it depends on."""
    if len(layouts) >= REMEMBERED:
        layouts.clear()
    layouts[key] = layout
    return layout
