"""What can go wrong while drawing."""

from __future__ import annotations

from graphnet.errors import GraphnetError

__all__ = ["DrawingError", "LayoutTimeoutError"]


class DrawingError(GraphnetError):
    """A picture that cannot be made or saved; the message names the argument and the remedy."""


class LayoutTimeoutError(DrawingError):
    """Graphviz takes longer to lay out a picture than it may."""
