"""What can go wrong while drawing."""

from __future__ import annotations

__all__ = ["DrawingError"]


class DrawingError(Exception):
    """A picture that cannot be made or saved; the message names the argument and the remedy."""
