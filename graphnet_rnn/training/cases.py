"""Sequences in the form of a network and its loss, with a weight for each target and a length for each case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.columns import coarse_step
from graphnet_rnn.data.sequences import (
    Sequences,
    changed,
    named_sequences,
    steps_of,
    weights_axis,
    zero_outside,
)
from graphnet_rnn.errors import DataError
from graphnet_rnn.network.losses import SEQUENCE_LOSSES, VALUE_LOSSES
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import checked_floats, inputs_and_lengths


def weighed(given: Sequences, kind: str) -> Sequences:
    """Adds lengths and weights to the Sequences of `fitting`; kind: weights of "cases", "steps" or "values".

    They are 0 after the end of a case; the steps of a case have equal weight.
    """
    w = np.ones(len(given), np.float32) if given.weights is None else given.weights
    if kind != "cases" and given.by_step:
        inside = given.inside()
        w = np.where(inside if w.ndim < 3 else inside[..., None], w, 0)
    if kind == "values" and w.ndim < given.targets.ndim:
        w = np.broadcast_to(w[..., None], given.targets.shape)
    return changed(given, lengths=steps_of(given), weights=w)


def filled(cases: Sequences, which: Array, size: int) -> Sequences:
    """Returns these cases, padded with cases of weight 0 to `size` cases."""
    missing = size - len(which)
    found = cases.chosen(np.concatenate([which, np.resize(which, missing)]))
    if missing:
        np.moveaxis(_weights(found), weights_axis(found), 0)[len(which) :] = 0
    return found


def of_time(cases: Sequences, time: int) -> Sequences:
    """Cuts or pads the arrays to `time` steps, enough for all cases."""

    def fitted(array: Array, of_steps: bool, like: Array) -> Array:
        if not of_steps or len(array) == time:
            return array
        return np.concatenate([array[:time], np.resize(like, (max(0, time - len(array)), *array.shape[1:]))])

    x, t, w = cases.inputs, cases.targets, _weights(cases)
    return changed(
        cases,
        inputs=fitted(x, True, np.zeros_like(x[:1])),
        targets=fitted(t, bool(cases.by_step), t[-1:]),
        weights=fitted(w, bool(weights_axis(cases)), np.zeros_like(w[:1])),
    )


def with_unused_targets_filled(cases: Sequences, unscored: int) -> Sequences:
    """Replaces targets that do not count by one that does: a loss may be infinite at 0, and 0 · inf is NaN."""
    there = cases.target_weights() > 0
    if cases.by_step:
        there[:unscored] = False
    t = cases.targets.copy()
    whole = t[there][:1] if there.any() else np.ones(1)
    for column, counts in zip(np.moveaxis(t, -1, 0), np.moveaxis(there, -1, 0), strict=True):
        column[~counts] = column[counts][0] if counts.any() else whole[0]
    return changed(cases, targets=t)


def shares(cases: Sequences, unscored: int) -> Array:
    """Returns the weights of the scored targets."""
    return _weights(cases)[unscored:] if weights_axis(cases) else _weights(cases)


def weight_of(cases: Sequences, unscored: int, which: Array | None = None) -> float:
    """Returns the total weight of these cases, or of all. A target of several values has the mean of their weights."""
    w = shares(cases, unscored)
    if which is not None:
        w = w.take(which, axis=weights_axis(cases))
    of_values = w.ndim == 2 + bool(cases.by_step)
    return float(w.sum(dtype=np.float64)) / (w.shape[-1] if of_values else 1)


def _weights(cases: Sequences) -> Array:
    assert cases.weights is not None
    return cases.weights


def judged_by_step(network: Network) -> bool:
    """True if each time step has a target, False if each case has."""
    return network.pool is None and network.loss not in SEQUENCE_LOSSES


def is_ragged(parts: Sequence[Sequences]) -> bool:
    """True if lengths are given, or if training and validation cases have different numbers of time steps."""
    return any(part.lengths is not None for part in parts) or len({part.time for part in parts}) > 1


def kind_of_weights(network: Network, parts: Sequence[Sequences]) -> str:
    """Returns the kind of the weights: "cases", "steps" or "values"."""
    by_step = judged_by_step(network)
    given = [part.weights.ndim for part in parts if part.weights is not None]
    if network.loss in VALUE_LOSSES and 2 + by_step in given:
        return "values"
    return "steps" if by_step and (is_ragged(parts) or 2 in given) else "cases"


def fitting(network: Network, given: Sequences) -> Sequences:
    """Converts Sequences to the form of the network and its loss. Raises DataError.

    Sets padding and targets of weight 0 to 0; drops lengths if all cases are full.
    """
    by_step = judged_by_step(network)
    series = given.series
    given = named_sequences("Arrays", given.inputs, given.targets, given.lengths, given.weights, by_step)
    t, w, lengths = given.targets, given.weights, given.lengths
    if lengths is not None and (lengths == given.time).all():
        lengths = None
    inside = given.inside()
    if lengths is not None and by_step:
        t = zero_outside(t, inside)
    x, _ = inputs_and_lengths("Arrays", network, given.inputs, lengths)
    _require_resolution("inputs", given.inputs, x, inside)
    if w is not None:
        w = checked_floats("Arrays: weights", w, network.dtype)
        largest = float(np.max(np.asarray(given.weights)))
        if 0 < largest < (least := np.finfo(network.dtype).tiny / np.finfo(network.dtype).eps):
            raise DataError(
                f"Arrays: the largest weight is {largest:.3g}; below {least:.3g}, {network.dtype} rounds weights. "
                "Multiply all weights by one number"
            )
        there = w > 0 if w.ndim > 1 or not by_step else (w > 0)[None]
        there = there.reshape(*there.shape, *[1] * (t.ndim - there.ndim))
        if t.dtype.kind == "u":
            t = t.astype(np.int64)
        if t.dtype.kind in "if":
            nothing = -1 if network.loss in SEQUENCE_LOSSES else 0
            t = np.where(there, t, np.array(nothing, t.dtype))
        if network.loss not in VALUE_LOSSES and t.dtype.kind == "f" and (t == np.floor(t)).all():
            t = t.astype(np.int64)  # classes as floats, since some were NaN
    exact, t = t, checked_targets(network, t, x.shape[:2])
    _require_resolution("targets", exact, t, given.target_weights() > 0)
    if network.loss in SEQUENCE_LOSSES:
        _require_spellable(t, np.full(len(t), len(x)) if lengths is None else lengths)
    return Sequences(x, t, lengths, w, by_step, series)


def _require_resolution(what: str, exact: Array, found: Array, there: Array) -> None:
    """Raises DataError for a column whose values the network's float32 rounds together."""
    if found.dtype != np.float32 or exact.dtype == np.float32:
        return
    for k in range(exact.shape[-1]):
        column = exact[..., k][there if there.ndim < exact.ndim else there[..., k]]
        if column.size and (step := coarse_step(column)):
            raise DataError(
                f"Arrays: float32 rounds column {k} of the {what}, from {column.min():.16g} to {column.max():.16g}, to "
                f"multiples of {step:g}; subtract the first value, or create the network with dtype='float64'"
            )


def _require_spellable(labels: Array, lengths: Array) -> None:
    """Raises DataError for a case with too many labels, or with padding among them.

    Each label takes a step, and equal neighbors one more.
    """
    there = labels >= 0
    gaps = np.flatnonzero((there[:, 1:] & ~there[:, :-1]).any(axis=1))
    if len(gaps):
        raise DataError(
            f"Arrays: the targets of case {gaps[0]} have -1 before a label; -1 is padding, and only at the end"
        )
    needed = there.sum(axis=1) + ((labels[:, 1:] == labels[:, :-1]) & there[:, 1:]).sum(axis=1)
    odd = np.flatnonzero(needed > lengths)
    if len(odd):
        n = int(odd[0])
        raise DataError(
            f"Arrays: the labels of case {n} need {needed[n]} time steps (one each, and one between equal "
            f"neighbors); it has {lengths[n]}. Leave the case out"
        )


def checked_targets(network: Network, targets: Any, shape: Sequence[int]) -> Array:
    """Converts targets of the given (steps, cases) to the form of the network's loss. Raises DataError."""
    time, count = shape
    labels = network.loss in SEQUENCE_LOSSES
    symbols = labels or network.loss == "softmax"
    # Labels are padded with -1, and the last output is the blank.
    least, largest = (-1, network.outputs - 2) if labels else (0, network.outputs - 1)
    places = (count,) if network.pool is not None else (time, count)
    whole = places if symbols else (*places, network.outputs)
    wanted = f"({count}, labels)" if labels else f"({', '.join(map(str, whole))})"
    t = np.asarray(targets)
    if not (t.ndim == 2 and len(t) == count if labels else t.shape == whole):
        raise DataError(f"Arrays: targets must be {wanted} for these inputs, not {list(t.shape)}")
    if not symbols:
        remedy = "; give missing targets the weight 0: weights=~np.isnan(targets)"
        found = checked_floats("Arrays: targets", t, network.dtype, remedy)
        if network.loss == "sigmoid" and len(odd := np.argwhere((found < 0) | (found > 1))):
            at = tuple(odd[0].tolist())
            raise DataError(
                f"Arrays: targets of the loss 'sigmoid' must be in [0, 1]; got {found[at]:g} at {list(at)}. Scale "
                "them, or use loss='squared'"
            )
        return found
    must = f"Arrays: targets must be whole numbers in {least} ... {largest}, {wanted}"
    if t.dtype.kind not in "iub":
        raise DataError(f"{must}, not {t.dtype}")
    odd = np.argwhere((t < least) | (t > largest))
    if len(odd):
        at = tuple(odd[0].tolist())
        blank = labels and t[at] == network.outputs - 1
        remedy = "; the last output is the blank, so create the network with one more output" if blank else ""
        raise DataError(f"{must}, but at {list(at)} is {t[at]}{remedy}")
    return t.astype(np.int64)
