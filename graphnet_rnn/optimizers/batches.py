"""Batches of a step: their form, and how a large batch is cut into small ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.vectors import double
from graphnet_rnn.parallel.ranks import Ranks
from graphnet_rnn.settings import shown

#: The arrays of a batch, one for each input.
Batch: TypeAlias = Sequence[Any]


class WeightedBatches(list[Batch]):
    """Batches that processes share, and their weights in means. weights: default all 1."""

    def __init__(
        self, batches: Iterable[Batch], ranks: Ranks, weights: Sequence[float] | None = None
    ) -> None:
        super().__init__(batches)
        self.ranks = ranks
        self.weights = np.ones(len(self)) if weights is None else np.array(weights)
        if len(self) == 1 and self.weights[0]:
            self.weights = np.ones(1)  # the mean of one batch is its value, without rounding
        self.equal = weights is None or len(self) == 1

    @property
    def total(self) -> float:
        """Sum of the weights, 1 if it is 0."""
        return float(self.weights.sum()) or 1.0

    @property
    def alone(self) -> bool:
        """True if a mean is the value of one batch, and all processes compute it."""
        return self.ranks.size == len(self) == 1 and self.weights[0] != 0

    def own(self) -> Iterator[tuple[int, Batch]]:
        """Yields this process's batches, with their numbers."""
        for number in self.ranks.own(len(self)):
            yield number, self[number]

    def mean(self, own: Iterable[Array], like: Array, dtype: np.dtype[Any]) -> Array:
        """Returns the mean of one vector per batch, beside the vector `like`: float64, or `dtype` for one batch.

        own: those of this process's batches, of this dtype. The bits do not depend on the number of processes.
        """
        if self.alone:
            (vector,) = own
            return vector
        weights = self.weights[self.ranks.own(len(self))]
        terms = (_times(weight, double(vector)) for weight, vector in zip(weights, own, strict=True))
        found = beside(like, self.ranks.sum(len(self), terms, like.size)) / self.total
        return found.astype(dtype) if len(self) == 1 else found

    def mean_of_numbers(self, own: Sequence[float]) -> float:
        """Returns the mean of one number per batch."""
        weights = self.weights[self.ranks.own(len(self))]
        terms = (_times(weight, each) for weight, each in zip(weights, own, strict=True))
        return self.ranks.sum_numbers(len(self), terms) / self.total


def _times(weight: float, of: Any) -> Any:
    return of if weight == 1 else of * weight


def beside(like: Array, vector: Array) -> Array:
    """Copies the vector to the memory of the other; ranks exchange host vectors."""
    place = gn.backend_of(like)
    return vector if gn.backend_of(vector) == place else gn.place(vector, place)


def listed_batches(name: str, batches: Any, inputs: Sequence[Node]) -> list[Batch]:
    """Returns a list of tuples. Raises UsageError unless these are batches of one array for each input."""
    try:
        if isinstance(batches, Iterator) or any(isinstance(batch, Mapping) for batch in batches):
            raise TypeError  # an iterator can be read only once, a mapping has no order
        listed: list[Batch] = [tuple(batch) for batch in batches]
    except TypeError:
        raise UsageError(
            f"Objective.feed_batches: {name} must be batches, each a sequence of arrays, not {shown(batches)}"
        ) from None
    if not listed:
        raise UsageError(f"Objective.feed_batches: {name} needs at least one batch")
    for batch in listed:
        if len(batch) != len(inputs):
            wanted = ", ".join(node.describe() for node in inputs)
            raise UsageError(
                f"Objective.feed_batches: {name} must be a list of batches, each of {len(inputs)} arrays ({wanted}), "
                f"but one of them has {len(batch)}; a single batch is given as [(x, t)]"
            )
    return listed


def divided_batch(arrays: Sequence[Any], inputs: Sequence[Node]) -> list[Batch]:
    """Cuts a large batch into batches of the inputs' size, see Objective.divided."""
    if len(arrays) != len(inputs):
        raise UsageError(
            f"Objective.divided: {len(inputs)} arrays are needed, one for each input, not {len(arrays)}"
        )
    given = [np.asarray(array) for array in arrays]
    axes = [_cut_axis(array, node) for array, node in zip(given, inputs, strict=True)]
    counts = {
        array.shape[axis] // node.shape[axis]
        for array, axis, node in zip(given, axes, inputs, strict=True)
        if axis is not None
    }
    if len(counts) > 1:
        raise UsageError(
            "Objective.divided: all arrays must have the same number of cases, but they make "
            f"{' and '.join(map(str, sorted(counts)))} batches"
        )
    count = max(counts, default=1)
    cut = {(axis, node.shape[axis]) for axis, node in zip(axes, inputs, strict=True) if axis is not None}
    for axis, node in zip(axes, inputs, strict=True) if count > 1 else ():
        if axis is None and any(node.shape[i : i + 1] == (size,) for i, size in cut):
            raise UsageError(
                f"Objective.divided: the array for {node.describe()} has the cases of one batch, but the others make "
                f"{count} batches"
            )
    parts = [
        [array] * count if axis is None else np.split(array, count, axis)
        for array, axis in zip(given, axes, strict=True)
    ]
    return list(zip(*parts, strict=True))


def _cut_axis(array: Array, node: Node) -> int | None:
    """Returns the axis on which the array is a multiple of the input's size; None if the sizes are equal."""
    differ = [i for i, (a, n) in enumerate(zip(array.shape, node.shape, strict=False)) if a != n]
    if (
        array.ndim != len(node.shape)
        or len(differ) > 1
        or any(not node.shape[i] or array.shape[i] % node.shape[i] or not array.shape[i] for i in differ)
    ):
        raise UsageError(
            f"Objective.divided: an array of shape {list(array.shape)} must be a whole number of batches of "
            f"{node.describe()}, along one axis"
        )
    return differ[0] if differ else None


# -- single cases ------------------------------------------------------------------------------


def require_single(inputs: Sequence[Node], single: Sequence[Node]) -> None:
    """Raises UsageError unless the inputs `single` are those of one case of the others."""
    if len(inputs) != len(single):
        raise UsageError(
            f"Objective: single= must have the same number of inputs; it has {len(single)}, the objective {len(inputs)}"
        )
    axes = [_case_axis(w, s) for w, s in zip(inputs, single, strict=True)]
    # Where no input is smaller, both must be of one case, so that each has an axis of 1. (Not every axis of 1 is one of
    # cases, so this finds most mistakes, but not all.)
    if not any(axis is not None for axis in axes) and any(1 not in w.shape for w in inputs):
        raise UsageError(
            "Objective: single= must be the objective of one case, but its inputs are as large as those of a batch: "
            f"{', '.join(node.describe() for node in single)}"
        )


def cases_of(batch: Batch, inputs: Sequence[Node], single: Sequence[Node]) -> list[Batch]:
    """Returns the cases of a batch, along the axis on which the inputs differ."""
    axes = [_case_axis(w, s) for w, s in zip(inputs, single, strict=True)]
    count = {np.shape(array)[axis] for array, axis in zip(batch, axes, strict=True) if axis is not None}
    return [
        [
            array if axis is None else np.take(np.asarray(array), [i], axis)
            for array, axis in zip(batch, axes, strict=True)
        ]
        for i in range(max(count, default=1))
    ]


def _case_axis(whole: Node, single: Node) -> int | None:
    differ = [i for i, (a, b) in enumerate(zip(whole.shape, single.shape, strict=False)) if a != b]
    if len(whole.shape) != len(single.shape) or len(differ) > 1 or any(single.shape[i] != 1 for i in differ):
        raise UsageError(
            f"Objective: single= must be the objective of one case; its input is {list(single.shape)}, that of a "
            f"batch {list(whole.shape)}"
        )
    return differ[0] if differ else None
