"""Scaling: a network's own numbers have mean 0 and deviation 1, whatever the units of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.sequences import Sequences
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import amount, listed, number, shown

__all__ = ["Scaling"]

#: Means and deviations, a number for each column.
Pair: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]

#: The least deviation whose square float32 holds, and a bit more.
LEAST = 1e-18


@dataclass(frozen=True)
class Scaling:
    """x' = (x - m) / s,  o = m + s o': a network reads x' of its inputs x, and predicts o of its output layer's o'

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

        To nine digits. Symbols, classes and labels are left as they are, and so is a column of zeros and ones. The
        deviation of a column that varies by less than a millionth of its mean, or than 1e-18, is 1: float32 could
        not tell its values apart. What is not finite is left out.
        """
        if not isinstance(data, Sequences):
            raise UsageError(
                f"Scaling.of: an rnn.data.Sequences is needed, e.g. rnn.data.Sequences(x, t), not {shown(data)}"
            )
        x, t = data.inputs, data.targets
        # Whole numbers of cases may be labels.
        numbers = t.ndim == 3 if data.by_step else t.ndim == 2 and t.dtype.kind == "f"
        return cls(
            _measured(x, data.inside()) if x.ndim == 3 else None,
            _measured(t, data.target_weights() > 0) if numbers else None,
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


def _measured(values: Array, there: Array) -> Pair | None:
    """Of the values (..., columns) that are there, (...) or (..., columns); None where all stay as they are."""
    if values.dtype.kind not in "biuf":
        return None
    means, deviations = [], []
    for k in range(values.shape[-1]):
        column = values[..., k][there[..., k] if there.ndim == values.ndim else there].astype(np.float64)
        column = column[np.isfinite(column)]
        mean, deviation = 0.0, 1.0
        if not np.isin(column, (0, 1)).all():
            with np.errstate(over="ignore", invalid="ignore"):
                mean, deviation = _rounded(column.mean()), _rounded(column.std())
        if not math.isfinite(deviation):
            mean, deviation = 0.0, 1.0
        means.append(mean)
        deviations.append(deviation if deviation > max(1e-6 * abs(mean), LEAST) else 1.0)
    return (tuple(means), tuple(deviations)) if any(means) or set(deviations) != {1.0} else None


def _rounded(value: np.floating[Any]) -> float:
    """To nine digits, so that another processor's sums make the same."""
    return float(f"{value:.9g}")
