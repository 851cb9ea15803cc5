"""Errors in cells, data, files and training."""

from __future__ import annotations

from graphnet.errors import GraphnetError, UsageError

__all__ = ["CellError", "DataError", "ModelFileError", "SaveError", "TrainingError", "UsageError"]


class CellError(GraphnetError):
    """An inconsistent declaration of a cell."""


class DataError(GraphnetError, ValueError):
    """Invalid text or data."""


class ModelFileError(GraphnetError, ValueError):
    """A file that is no model, damaged, or of another version."""


class SaveError(GraphnetError, OSError):
    """A file could not be written; an existing file is unchanged."""


class TrainingError(GraphnetError, ArithmeticError):
    """Training cannot continue: the loss is not finite."""

    @classmethod
    def not_finite(
        cls, loss: float, length: float, at: str, found: str | None, remedy: str = ""
    ) -> TrainingError:
        """Returns the error of a step whose loss or gradient is not finite.

        length: the gradient's norm. at: description of the step. found: result of Objective.explain_non_finite, or
        None. remedy: advice, if not a smaller learning rate or clipping.
        """
        what = f"the loss is {loss:.6g} and the gradient's norm {length:.6g} at {at}"
        if found is not None and found.startswith("Input: "):
            return cls(f"{what}: an input is not finite. {found}")
        if found == "":
            found = "All nodes are finite, but a sum over all parameters is not (the gradient's norm, or l2)."
        return cls(
            f"{what}; {remedy or 'try a smaller learning rate or gradient clipping'}. {found or ''}".rstrip()
        )
