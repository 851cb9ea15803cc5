"""What can go wrong around a network: in its declaration, its data, its files."""

from __future__ import annotations

from graphnet.errors import GraphnetError, UsageError

__all__ = ["CellError", "DataError", "ModelFileError", "SaveError", "TrainingError", "UsageError"]


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
    def not_finite(
        cls, loss: float, length: float, at: str, found: str | None, remedy: str = ""
    ) -> TrainingError:
        """The error of a step whose loss or gradient is not finite.

        length: the gradient's norm. at: which step it was. found: what Objective.explain_non_finite says; None where it
        was not asked. remedy: what to try, if not a smaller rate or clipping.
        """
        what = f"the loss is {loss:.6g} and the gradient's norm {length:.6g} at {at}"
        if found is not None and found.startswith("Input: "):
            return cls(f"{what}: what was fed is not finite. {found}")
        if found == "":
            found = "No node makes it: a sum over all parameters does (the gradient's norm, or l2)."
        return cls(f"{what}; {remedy or 'try a smaller rate or clipping'}. {found or ''}".rstrip())
