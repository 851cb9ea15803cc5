"""Scaling: a network's own numbers have mean 0 and deviation 1, whatever the units of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.sequences import Sequences
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.settings import amount, listed, number, shown

__all__ = ["Scaling"]

#: Means and deviations, a number for each column.
Pair: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Scaling:
    """x' = (x - m) / s is what a network reads;  o = m + s o' is what it predicts, o' being its last layer's

    inputs, outputs: the means m and the deviations s, a number for each input, or output; None: as they are. Inputs,
    targets and predictions are in the units of the data, and the loss is that of o' and (t - m) / s, so that all
    outputs count alike. `Scaling.of` measures them. Raises UsageError.
    """

    inputs: Pair | None = None
    outputs: Pair | None = None

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _checked(f"Scaling: {name}", given))

    @classmethod
    def of(cls, data: Sequences) -> Scaling:
        """Means and deviations over all steps of all cases; of targets, over those whose weight is above 0

        To nine digits. Symbols, classes and labels are left as they are, and so is a column of zeros and ones. Raises
        DataError.
        """
        if not isinstance(data, Sequences):
            raise UsageError(
                f"Scaling.of: an rnn.data.Sequences is needed, e.g. rnn.data.Sequences(x, t), not {shown(data)}"
            )
        x, t, there = data.inputs, data.targets, data.inside()
        if not data.by_step:
            there = np.ones(len(t), bool)
        if data.weights is not None:
            counts = data.weights > 0
            there = there & counts if counts.ndim <= there.ndim else there[..., None] & counts
        return cls(
            _measured("inputs", x, data.inside()) if x.ndim == 3 else None,
            _measured("targets", t, there)
            if t.ndim == 2 + bool(data.by_step) and t.dtype.kind == "f"
            else None,
        )

    def plain(self) -> list[list[list[float]] | None]:
        """As JSON has it."""
        both = (self.inputs, self.outputs)
        return [None if each is None else [list(numbers) for numbers in each] for each in both]


def as_scaling(given: Any) -> Scaling | None:
    """What `Network(scaling=)` takes: a Scaling, or what a file has of one. UsageError for anything else."""
    if given is None or isinstance(given, Scaling):
        return given
    if isinstance(given, (list, tuple)) and len(given) == 2:
        return Scaling(*given)
    raise UsageError(f"Network: scaling must be an rnn.data.Scaling, or None, not {shown(given)}")


def _checked(name: str, given: Any) -> Pair:
    both = listed(name, given, "two lists")
    if len(both) != 2:
        raise UsageError(f"{name} must be means and deviations, not {shown(given)}")
    means = tuple(number(f"{name}: a mean", each) for each in listed(name, both[0], "means"))
    deviations = tuple(
        amount(f"{name}: a deviation", each, above_zero=True) for each in listed(name, both[1], "deviations")
    )
    if len(means) != len(deviations):
        raise UsageError(f"{name} has {len(means)} means, but {len(deviations)} deviations")
    return means, deviations


def _measured(what: str, values: Array, there: Array) -> Pair | None:
    """Of the values (..., columns) that are there, (...) or (..., columns); None where all stay as they are."""
    means, deviations = [], []
    for k in range(values.shape[-1]):
        column = values[..., k][there[..., k] if there.ndim == values.ndim else there].astype(np.float64)
        as_it_is = np.isin(column, (0, 1)).all()
        mean, deviation = (0.0, 1.0) if as_it_is else (_rounded(column.mean()), _rounded(column.std()))
        if not np.isfinite(mean) or not np.isfinite(deviation):
            raise DataError(
                f"Scaling.of: column {k} of the {what} has no finite mean; give what is missing the weight 0, e.g. "
                "weights=~np.isnan(targets)"
            )
        means.append(mean)
        deviations.append(
            deviation if deviation > abs(mean) * 1e-9 else 1.0
        )  # of a column that is always the same
    return (tuple(means), tuple(deviations)) if any(means) or set(deviations) != {1.0} else None


def _rounded(value: np.floating[Any]) -> float:
    """To nine digits, so that another processor's sums make the same."""
    return float(f"{value:.9g}")
