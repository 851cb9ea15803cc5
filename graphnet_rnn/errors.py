"""What can go wrong around a network: in its declaration, its data, its files."""

from __future__ import annotations

import math

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

    @classmethod
    def not_finite(cls, loss: float, length: float, at: str, found: str, remedy: str = "") -> TrainingError:
        """The error of a step whose loss or gradient is not finite.

        length: the gradient's norm. at: which step it was. found: what Objective.explain_non_finite says. remedy: what
        to try, if not a smaller rate or clipping.
        """
        said = f"the loss is {loss:.6g} and the gradient's norm {length:.6g} at {at}"
        if found.startswith("Input"):
            return cls(f"{said}: the data are not finite. {found}")
        if not found and math.isfinite(loss) and math.isinf(length):
            found = "None of its numbers is infinite by itself: the sum of their squares is."
        return cls(f"{said}; {remedy or 'try a smaller rate or clipping'}. {found}".rstrip())
