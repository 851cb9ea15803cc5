"""Scaling: standardized inputs and outputs (mean 0, standard deviation 1), whatever the units of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.columns import Columns, indicators_of, moments
from graphnet_rnn.data.sequences import Sequences
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import amount, listed, number, shown, yes_or_no

#: Means and standard deviations, one number for each column.
Pair: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Scaling:
    """x' = (x - m) / s,  o = m + s o': a network reads x' instead of its inputs x, and its output layer computes o'

    inputs, outputs: means m and standard deviations s, one number for each column; default None, not scaled.
    `Scaling.of` measures both.

    Inputs, targets and predictions stay in the units of the data. The loss compares o' with (t - m) / s, so all outputs
    have equal weight. Raises UsageError.

    >>> x = np.array([[[0.0]], [[10.0]]])  # (time, cases, width)
    >>> rnn.data.Scaling.of(rnn.data.Sequences(x, 2 * x))
    Scaling(inputs=((5.0,), (5.0,)), outputs=((10.0,), (10.0,)))
    >>> rnn.data.Scaling.of(rnn.data.Sequences(x, 2 * x)).plain()
    [[[5.0], [5.0]], [[10.0], [10.0]]]
    """

    inputs: Pair | None = None
    outputs: Pair | None = None

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _checked(f"Scaling: {name}", given))

    @classmethod
    def of(cls, data: Sequences, columns: Columns | None = None, masked: bool = False) -> Scaling:
        """Measures means and standard deviations over all time steps of all cases; of targets, only where the weight is
        above 0

        data: the training data, rnn.data.Sequences. columns: those of its table, so that empty cells are left out.
        masked: True for inputs from rnn.data.with_missing, so that missing values are left out.

        Rounded to nine digits. Symbols, classes, columns of zeros and ones, and labels padded with -1 are not scaled.
        For labels of equal lengths, use Scaling(found.inputs). NaN and infinity are ignored. The deviation is set to 1
        if it is less than a millionth of the mean, below the resolution of float32. Raises UsageError for other data.
        """
        if not isinstance(data, Sequences):
            raise UsageError(
                f"Scaling.of: data must be an rnn.data.Sequences, e.g. rnn.data.Sequences(x, t), not {shown(data)}"
            )
        x, t = data.inputs, data.targets
        if not isinstance(columns, Columns | None):
            raise UsageError(f"Scaling.of: columns must be those of a Table, not {shown(columns)}")
        measured = (
            np.broadcast_to(data.inside()[..., None], x.shape).copy() if x.ndim == 3 else np.array(False)
        )
        if columns is not None and x.ndim == 3:
            for k, empty in indicators_of(columns).items():
                measured[..., k] &= x[..., empty] == 0
        if yes_or_no("Scaling.of: masked", masked):
            width = x.shape[-1] // 2
            if x.ndim != 3 or x.shape[-1] % 2 or not np.isin(x[..., width:], (0, 1)).all():
                raise UsageError(
                    "Scaling.of: masked needs inputs from rnn.data.with_missing, values and then masks"
                )
            measured[..., :width] &= x[..., width:] == 1
        numbers = t.ndim == 3 if data.by_step else t.ndim == 2 and not _are_labels(t)
        return cls(
            _measured(x, measured) if x.ndim == 3 else None,
            _measured(t, data.target_weights() > 0) if numbers else None,
        )

    def plain(self) -> list[list[list[float]] | None]:
        """Returns lists for JSON."""
        both = (self.inputs, self.outputs)
        return [None if each is None else [list(numbers) for numbers in each] for each in both]


def as_scaling(given: Any) -> Scaling | None:
    """Converts the `scaling` argument of Network, or its stored form, to a Scaling. Raises UsageError."""
    if given is None or isinstance(given, Scaling):
        return given
    if isinstance(given, (list, tuple)) and len(given) == 2:
        return Scaling(*given)
    raise UsageError(f"Network: scaling must be an rnn.data.Scaling, or None, not {shown(given)}")


def _checked(name: str, given: Any) -> Pair:
    both = listed(name, given, "two lists")
    if len(both) != 2:
        raise UsageError(f"{name} must be a pair (means, deviations), not {shown(given)}")
    means = tuple(number(f"{name}: a mean", each) for each in listed(name, both[0], "means"))
    deviations = tuple(
        amount(f"{name}: a deviation", each, above_zero=True) for each in listed(name, both[1], "deviations")
    )
    if len(means) != len(deviations):
        raise UsageError(
            f"{name} must have as many deviations as means; got {len(means)} means and {len(deviations)} deviations"
        )
    return means, deviations


def _are_labels(targets: Array) -> bool:
    """True for integers with -1 at the ends of rows, as padding of label sequences."""
    if targets.dtype.kind not in "iu" or targets.shape[1] < 2 or targets.min(initial=0) != -1:
        return False
    return bool((np.diff((targets >= 0).astype(np.int8), axis=1) <= 0).all())


def _measured(values: Array, there: Array) -> Pair | None:
    """Mean and deviation of each column where the mask is True; None if no column is scaled."""
    if values.dtype.kind not in "biuf":
        return None
    means, deviations = [], []
    for k in range(values.shape[-1]):
        column = values[..., k][there[..., k]].astype(np.float64)
        column = column[np.isfinite(column)]
        mean, deviation = 0.0, 1.0
        if not np.isin(column, (0, 1)).all():
            mean, deviation = map(_rounded, moments(column))
        means.append(mean)
        deviations.append(deviation if deviation > 1e-6 * abs(mean) else 1.0)
    return (tuple(means), tuple(deviations)) if any(means) or set(deviations) != {1.0} else None


def _rounded(value: float) -> float:
    """Rounds to nine digits, so that sums on another processor give the same number."""
    return float(f"{value:.9g}")
