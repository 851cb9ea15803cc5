"""Cases: sequences as a network and its loss take them, with a weight for each target and a length for each case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.sequences import Sequences, zero_outside
from graphnet_rnn.errors import DataError
from graphnet_rnn.network.losses import SEQUENCE_LOSSES, VALUE_LOSSES
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import checked_floats, inputs_and_lengths

__all__ = ["Cases", "fitting", "judged_by_step", "kind_of_weights"]


@dataclass(frozen=True)
class Cases:
    """Cases that fit a network.

    x, t: inputs and targets. lengths: (cases,). w: weights of what `kind` says, 0 where a case has ended: "cases", the
    steps of which count alike, "steps" or "values". by_step: whether targets are of steps.
    """

    x: Array
    t: Array
    lengths: Array
    w: Array
    kind: str
    by_step: bool

    @classmethod
    def of(cls, given: Sequences, kind: str) -> Cases:
        """From what `fitting` gave."""
        lengths = np.full(len(given), given.time) if given.lengths is None else given.lengths
        w = np.ones(len(given), np.float32) if given.weights is None else given.weights
        by_step = bool(given.by_step)
        if kind != "cases" and by_step:
            inside = given.inside()
            w = np.where(inside, w, 0) if w.ndim < 3 else np.where(inside[..., None], w, 0)
        if kind == "values" and w.ndim < given.targets.ndim:
            w = np.broadcast_to(w[..., None], given.targets.shape)
        return cls(given.inputs, given.targets, lengths, w, kind, by_step)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def time(self) -> int:
        """How many steps the arrays have."""
        return len(self.x)

    @property
    def _axis(self) -> int:
        """That of the cases, in targets and in weights that are no cases' alone."""
        return int(self.by_step)

    def chosen(self, which: Array) -> Cases:
        """These cases alone."""
        w = self.w.take(which, axis=0 if self.kind == "cases" else self._axis)
        return replace(
            self, x=self.x.take(which, axis=1), t=self.t.take(which, axis=self._axis), lengths=self.lengths[which], w=w
        )  # fmt: skip

    def filled(self, which: Array, size: int) -> Cases:
        """These cases, and others of no weight, so that there are so many."""
        missing = size - len(which)
        found = self.chosen(np.concatenate([which, np.resize(which, missing)]))
        if missing:
            w = np.moveaxis(found.w, 0 if self.kind == "cases" else self._axis, 0)
            w[len(which) :] = 0
        return found

    def of_time(self, time: int) -> Cases:
        """The same in arrays of so many steps, which are enough for all."""

        def fitted(array: Array, of_steps: bool) -> Array:
            if not of_steps or len(array) == time:
                return array
            missing = max(0, time - len(array))
            return np.concatenate([array[:time], np.zeros((missing, *array.shape[1:]), array.dtype)])

        return replace(
            self,
            x=fitted(self.x, True),
            t=fitted(self.t, self.by_step),
            w=fitted(self.w, self.by_step and self.kind != "cases"),
        )

    def shares(self, unscored: int) -> Array:
        """The weights of what has targets."""
        return self.w[unscored:] if self.by_step and self.kind != "cases" else self.w

    def total(self, unscored: int) -> float:
        """The weight of all of it. A target of several values counts as much as the mean of their weights."""
        return self._sum(self.shares(unscored))

    def _sum(self, shares: Array) -> float:
        return float(shares.sum(dtype=np.float64)) / (shares.shape[-1] if self.kind == "values" else 1)

    def weight_of(self, which: Array, unscored: int) -> float:
        """That of these cases."""
        axis = 0 if self.kind == "cases" else self._axis
        return self._sum(self.shares(unscored).take(which, axis=axis))


def judged_by_step(network: Network) -> bool:
    """Whether there is a target for each step, not for a case as a whole."""
    return network.pool is None and network.loss not in SEQUENCE_LOSSES


def kind_of_weights(network: Network, parts: Sequence[Sequences]) -> str:
    """Of what the weights are, see Cases."""
    by_step = judged_by_step(network)
    given = [part.weights.ndim for part in parts if part.weights is not None]
    if network.loss in VALUE_LOSSES and 2 + by_step in given:
        return "values"
    ragged = any(part.lengths is not None for part in parts)
    return "steps" if by_step and (ragged or 2 in given) else "cases"


def fitting(network: Network, given: Sequences) -> Sequences:
    """Sequences as the network and its loss take them; DataError for what does not fit.

    What is behind the end of a case, and targets of no weight, are 0 then; lengths that are all of them are left out.
    """
    t, w, lengths = given.targets, given.weights, given.lengths
    if lengths is not None and (lengths == given.time).all():
        lengths = None
    inside = given.inside()
    if lengths is not None and judged_by_step(network) and t.shape[:2] == inside.shape:
        t = zero_outside(t, inside)
    x, _ = inputs_and_lengths("Arrays", network, given.inputs, lengths)
    if w is not None:
        w = checked_floats("Arrays: weights", w, network.dtype)
        if w.min() < 0 or not w.any():
            raise DataError(f"Arrays: weights must be at least 0, and not all 0; the least is {w.min():g}")
        there = w > 0 if w.ndim > 1 or not given.by_step else (w > 0)[None]
        there = there.reshape(*there.shape, *[1] * (t.ndim - there.ndim))
        if t.dtype.kind == "u":
            t = t.astype(np.int64)
        if t.dtype.kind in "if":
            nothing = -1 if network.loss in SEQUENCE_LOSSES else 0
            t = np.where(there, t, np.array(nothing, t.dtype))
        if network.loss not in VALUE_LOSSES and t.dtype.kind == "f" and (t == np.floor(t)).all():
            t = t.astype(np.int64)  # classes as floats, of which some were NaN
    t = checked_targets(network, t, x.shape[:2])
    if network.loss in SEQUENCE_LOSSES:
        _require_spellable(t, np.full(len(t), len(x)) if lengths is None else lengths)
    return Sequences(x, t, lengths, w, judged_by_step(network))


def _require_spellable(labels: Array, lengths: Array) -> None:
    """DataError for a case with more labels than steps: a label takes one, and one more between equal ones."""
    there = labels >= 0
    needed = there.sum(axis=1) + ((labels[:, 1:] == labels[:, :-1]) & there[:, 1:]).sum(axis=1)
    odd = np.flatnonzero(needed > lengths)
    if len(odd):
        n = int(odd[0])
        raise DataError(
            f"Arrays: the labels of case {n} take {int(needed[n])} steps (one each, and one between two that are "
            f"equal), but it has {int(lengths[n])}, so nothing spells them; leave the case out"
        )


def checked_targets(network: Network, targets: Any, shape: Sequence[int]) -> Array:
    """The targets of so many (steps, cases) as the network's loss takes them; DataError for what does not fit."""
    time, count = shape
    labels = network.loss in SEQUENCE_LOSSES
    symbols = labels or network.loss == "softmax"
    # -1 stands behind the last label, and the last output is the blank.
    least, largest = (-1, network.outputs - 2) if labels else (0, network.outputs - 1)
    places = (count,) if network.pool is not None else (time, count)
    whole = places if symbols else (*places, network.outputs)
    wanted = f"({count}, labels)" if labels else f"({', '.join(map(str, whole))})"
    t = np.asarray(targets)
    if not (t.ndim == 2 and len(t) == count if labels else t.shape == whole):
        remedy = ""
        if not labels and network.pool is None and t.shape == whole[1:]:
            remedy = '; one target of each case is for a network with pool="last", "mean" or "max"'
        elif not labels and network.pool is not None and t.shape == (time, *whole):
            remedy = "; targets of each step are for a network without pool"
        raise DataError(f"Arrays: targets must be {wanted} for these inputs, not {list(t.shape)}{remedy}")
    if not symbols:
        remedy = "; where a target is missing, give it the weight 0, weights=~np.isnan(targets)"
        found = checked_floats("Arrays: targets", t, network.dtype, remedy)
        if network.loss == "sigmoid" and len(odd := np.argwhere((found < 0) | (found > 1))):
            at = tuple(int(i) for i in odd[0])
            raise DataError(
                f"Arrays: targets of the loss 'sigmoid' must be in [0, 1], but at {list(at)} is {found[at]:g}; "
                "scale them, or take loss='squared'"
            )
        return found
    if t.dtype.kind not in "iu":
        raise DataError(
            f"Arrays: targets must be whole numbers in {least} ... {largest}, {wanted}, not {t.dtype}"
        )
    odd = np.argwhere((t < least) | (t > largest))
    if len(odd):
        at = tuple(int(i) for i in odd[0])
        blank = labels and t[at] == network.outputs - 1
        remedy = "; the last output is the blank, so make the network with one output more" if blank else ""
        raise DataError(
            f"Arrays: targets must be whole numbers in {least} ... {largest}, {wanted}, but at {list(at)} is {t[at]}"
            + remedy
        )
    return t.astype(np.int64)
