"""Exceptions.

Every error names the node or argument, the place where the user made it, the shapes or values involved, and the
remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphnet.graph.node import Node


class GraphnetError(Exception):
    """Base of all errors that graphnet raises deliberately."""


class ShapeError(GraphnetError, ValueError):
    """Shapes do not fit an op, a function's argument or a parameter."""


class DtypeError(GraphnetError, TypeError):
    """Dtypes do not fit, or their promotion would be surprising."""


class UsageError(GraphnetError, ValueError):
    """An argument or setting is invalid."""


class ValueAccessError(GraphnetError, TypeError):
    """A symbolic node was used where a number or an array is needed, or the reverse."""


class DifferentiationError(GraphnetError, ValueError):
    """A derivative does not exist or cannot be computed."""


class NonFiniteError(GraphnetError, ArithmeticError):
    """A node made a NaN or an infinity from finite inputs (`compile(..., check=True)`)."""


class NotEnoughMemoryError(GraphnetError, MemoryError):
    """The memory needed exceeds the memory available; nothing has been allocated yet."""


class BackendError(GraphnetError, RuntimeError):
    """A back end is unknown, not installed, or failed at a node."""


def table_of_inputs(inputs: Sequence[Node], signature: str | None = None) -> str:
    """Returns the lines below an error's first: the signature, then each input with its origin."""
    rows = [("signature", signature, "")] if signature else []
    for position, node in enumerate(inputs, start=1):
        rows.append((f"input {position}", node.describe(), f"made at {node.origin}"))
    width = max((len(text or "") for _, text, _ in rows), default=0)
    return "".join(f"\n    {label:<10} {text:<{width}}   {place}".rstrip() for label, text, place in rows)
