"""Templates: text with places named between %% and %%, as the pages have that need nothing but themselves."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["filled"]


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with its parts in their places, in one sweep: what a part holds is never taken for a place."""
    pieces = template.split("%%")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
