"""What can go wrong around a network: in its declaration, its data, its files."""

from __future__ import annotations

from graphnet.errors import GraphnetError

__all__ = ["CellError", "DataError", "ModelFileError", "SaveError", "TrainingError", "UsageError"]


class UsageError(GraphnetError, ValueError):
    """A setting that cannot be meant."""


class CellError(GraphnetError):
    """A cell whose declaration does not hold together."""


class DataError(GraphnetError, ValueError):
    """A text or data set that cannot be used as asked."""


class ModelFileError(GraphnetError, ValueError):
    """A file that is no model, is damaged, or is of another version."""


class SaveError(GraphnetError, OSError):
    """A file could not be written; what was there before is untouched."""


class TrainingError(GraphnetError, ArithmeticError):
    """Training cannot go on: the loss is no longer a finite number."""
