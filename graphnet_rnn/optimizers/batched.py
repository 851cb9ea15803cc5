"""BatchedObjective: gradient, curvature and loss of an objective, each averaged over its own batches.

Batches are numbered. Sums depend on the numbers only, so several processes may share the batches with identical
results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.by_size import ObjectiveBySize
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.optimizers.vectors import double
from graphnet_rnn.parallel.mpi import as_ranks
from graphnet_rnn.parallel.ranks import Ranks, summed
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.metrics import Metric
from graphnet_rnn.settings import amount, shown, whole_number

#: The arrays of a batch, as Objective.feed takes them.
Batch = Sequence[Any]


class BatchedObjective:
    """An objective whose gradient, curvature and loss are means over several batches, each over its own.

    objective: the Objective of one batch (or an ObjectiveBySize for several sizes); it processes one batch after the
    other, so memory does not grow with their number.
    single: the same cost with the same parameters, for batches of one case; `squared_gradients` uses it case by case.
    Default None.
    parallel: "mpi", or rnn.parallel.Ranks: processes that share the batches. Feed all batches to each process; it
    computes its own, and all processes get identical sums, whatever their number. Default None, one process.

        objective.feed(gradient=ten_batches, curvature=ten_batches[:1])

    A single Objective cannot be shared by processes: make it of a part of the batch, and cut the batch with `divided`.
    Raises UsageError for other objectives, and if the inputs of `single` are not of one case.

    Source: Martens 2010, 4.4; Sutskever 2013, algorithm 5; Krause 2015, 3.3.5.2.

    >>> w, x = gn.parameter(np.zeros(2), name="w"), gn.input((5, 2), "float64", name="x")
    >>> case = gn.input((1, 2), "float64", name="case")
    >>> costs = {node: gn.mean(gn.squared_error(w, node)) for node in (x, case)}
    >>> batch, single = (rnn.Objective(cost, [w], [node]) for node, cost in costs.items())
    >>> objective = rnn.BatchedObjective(batch, single=single)
    >>> objective.feed(objective.divided(np.ones((20, 2))))  # four batches of five cases
    >>> theta = objective.start()
    >>> loss, gradient = objective.gradient(theta)
    >>> loss, objective.loss(theta), objective.gradient_loss(theta), objective.penalty(theta)
    (1.0, 1.0, 1.0, 0.0)
    >>> objective.curvature(theta)(gradient).tolist(), objective.squared_gradients(theta).tolist()
    ([-1.0, -1.0], [1.0, 1.0])
    >>> metric = rnn.riemannian.OuterProduct()
    >>> loss, gradient, numbers = objective.metric(theta, metric)
    >>> numbers.size == objective.metric_size(metric)
    True
    >>> objective.metric_solver(metric, "all", numbers)(gradient).round(3).tolist()
    [-0.976, -0.976]
    >>> objective.redraw()
    >>> objective.set(objective.place(np.array([np.nan, 0.0])))
    >>> objective.explain_non_finite().splitlines()[0]
    'Parameter: w[2] holds NaN.'
    """

    def __init__(
        self,
        objective: Objective | ObjectiveBySize,
        single: Objective | None = None,
        parallel: Ranks | str | None = None,
    ) -> None:
        for name, given in (("objective", objective), ("single", single)):
            allowed = (Objective, type(None)) if name == "single" else (Objective, ObjectiveBySize)
            if not isinstance(given, allowed):
                raise UsageError(f"BatchedObjective: {name} must be an Objective, not {shown(given)}")
        if single is not None:
            _require_single(cast(Objective, objective), single)
        # An ObjectiveBySize behaves like each of its objectives; `feed` selects one.
        self.objective, self.single = cast(Objective, objective), single
        self.ranks = as_ranks("BatchedObjective", parallel)
        self.gradient_batches: list[Batch] = []
        self.curvature_batches: list[Batch] = []
        self.loss_batches: list[Batch] = []
        self._weights: dict[str, Array] = {}
        self._weighted = False
        #: Values of the objective's `also`, by number of the batch, for this rank's batches.
        self.also_values: dict[int, tuple[Array, ...]] = {}

    def feed(
        self,
        gradient: Sequence[Batch],
        curvature: Sequence[Batch] | None = None,
        loss: Sequence[Batch] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Sets the batches, until the next feed.

        gradient: batches of the gradient, each a sequence of arrays.
        curvature: by default the gradient's first batch with a weight above 0.
        loss: batches for the reduction ratio and line searches; by default those of the curvature.
        weights: weight of each gradient batch in the mean, e.g. the sum of its cases' weights; default all 1. The
        batches of the curvature and the loss must then be among the gradient's. If all are 0, loss and gradient are 0.
        Raises UsageError for batches or weights that do not fit.
        """
        placed: dict[int, Batch] = {}
        if weights is not None and len(weights) != len(gradient):
            raise UsageError(
                f"BatchedObjective.feed: weights must be one number for each of the {len(gradient)} batches of the "
                f"gradient, not {len(weights)}"
            )
        for weight in () if weights is None else weights:
            amount("BatchedObjective.feed: a weight", weight)
        weight_of = {} if weights is None else dict(zip(map(id, gradient), map(float, weights), strict=True))
        originals: list[list[Batch]] = []
        self.also_values = {}

        def listed(name: str, batches: Sequence[Batch]) -> list[Batch]:
            """Copies each batch of this rank to the back end's memory, once even if it is used twice."""
            found = _listed(name, batches, self.objective.inputs)
            originals.append(list(batches))  # keeps them alive, so that their ids stay unique
            for number in self.ranks.own(len(found)):
                given = id(originals[-1][number])
                if given not in placed:
                    placed[given] = self.objective.placed(found[number])
                found[number] = placed[given]
            return found

        self.gradient_batches = listed("gradient", gradient)
        if curvature is None:
            first = 0 if weights is None else int(np.argmax(np.asarray(weights) > 0))
            curvature = gradient[first : first + 1]
        self.curvature_batches = listed("curvature", curvature)
        self.loss_batches = self.curvature_batches if loss is None else listed("loss", loss)
        self._weighted = weights is not None
        of_loss = curvature if loss is None else loss
        if weights is not None and not weight_of.keys() >= {id(batch) for batch in (*curvature, *of_loss)}:
            raise UsageError(
                "BatchedObjective.feed: with weights, the batches of the curvature and the loss must be "
                "objects from the list of the gradient's batches"
            )
        self._weights = {
            name: np.array([weight_of.get(id(batch), 1.0) for batch in batches])
            for name, batches in (("gradient", gradient), ("curvature", curvature), ("loss", of_loss))
        }

    def divided(self, *arrays: Any) -> list[Batch]:
        """Cuts a large batch into batches of the objective's size, along the axis on which they differ.

        arrays: one for each input of the objective.

        If the cost is a mean over the cases of a batch, the mean over these batches is the mean over all cases. The
        order of summation depends on the objective's size only, not on the number of processes:

            objective.feed(objective.divided(x, t))

        Raises UsageError unless the arrays are a whole multiple of the inputs, on one axis.
        """
        inputs = self.objective.inputs
        if len(arrays) != len(inputs):
            raise UsageError(
                f"BatchedObjective.divided: {len(inputs)} arrays are needed, one for each input, not {len(arrays)}"
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
                "BatchedObjective.divided: all arrays must have the same number of cases, but they make "
                f"{' and '.join(map(str, sorted(counts)))} batches"
            )
        count = max(counts, default=1)
        cut = {(axis, node.shape[axis]) for axis, node in zip(axes, inputs, strict=True) if axis is not None}
        for axis, node in zip(axes, inputs, strict=True) if count > 1 else ():
            if axis is None and any(node.shape[i : i + 1] == (size,) for i, size in cut):
                raise UsageError(
                    f"BatchedObjective.divided: the array for {node.describe()} has the cases of one batch, but the "
                    f"others make {count} batches"
                )
        parts = [
            [array] * count if axis is None else np.split(array, count, axis)
            for array, axis in zip(given, axes, strict=True)
        ]
        return list(zip(*parts, strict=True))

    @property
    def size(self) -> int:
        return self.objective.size

    @property
    def threads(self) -> int | None:
        """Maximum number of threads."""
        return self.objective.threads

    def start(self) -> Array:
        """See Objective.start."""
        return self.objective.start()

    def place(self, vector: Array) -> Array:
        """See Objective.place; vector: one number for each parameter."""
        return self.objective.place(vector)

    def set(self, w: Array) -> None:
        """See Objective.set; w: one number for each parameter."""
        self.objective.set(w)

    def penalty(self, w: Array) -> float:
        """See Objective.penalty."""
        return self.objective.penalty(w)

    def gradient(self, w: Array) -> tuple[float, Array]:
        """The means of C(w) and of ∇C(w) over the gradient's batches"""
        losses = list[float]()

        def gradients() -> Iterator[Array]:
            for number in self._fed(self.gradient_batches):
                found, g = self.objective.gradient(w)
                losses.append(found)
                self.also_values[number] = self.objective.also_values
                yield g

        total = self._mean("gradient", gradients(), w)
        return self._mean_of_numbers("gradient", losses), total.astype(w.dtype)

    def gradient_loss(self, w: Array) -> float:
        """The mean of C(w) over the gradient's batches"""
        return self._mean_of_numbers(
            "gradient", [self.objective.loss(w) for _ in self._fed(self.gradient_batches)]
        )

    def metric(
        self, w: Array, metric: Metric, part: str = "all", draw: int = 0
    ) -> tuple[float, Array, Array]:
        """Returns the means of C(w) and ∇C(w), and the sum of the metric, over the gradient's batches.

        metric, part, draw: see Objective.metric.
        """
        batches, losses = self.gradient_batches, list[float]()
        count, weights = len(batches), self._weights_of("gradient")
        first = whole_number("BatchedObjective.metric: draw", draw, least=0) * count
        relative = self._relative(w)

        def parts() -> Iterator[Array]:
            """Slopes and numbers end to end, so that there is one sum."""
            for number in self._fed(batches):
                loss, g, found = self.objective.metric(w, metric, part, first + number, relative[number])
                losses.append(loss)
                self.also_values[number] = self.objective.also_values
                counted = found if weights[number] else np.zeros_like(found)
                yield np.concatenate([_times(weights[number], np.asarray(g, np.float64)), counted])

        total = self.ranks.sum(count, parts(), self.size + self.metric_size(metric, part))
        slopes = (total[: self.size] / _total(weights)).astype(w.dtype)
        return self._mean_of_numbers("gradient", losses), _beside(w, slopes), total[self.size :]

    def _relative(self, w: Array) -> list[float]:
        """Returns the factor that converts each batch's scale to that of all batches together; 0 for a batch of weight
        0.

        C = Σ W_b C_b / Σ W_b, so ∂C/∂loss = W_b g / Σ W_b, and the sum of all cases is C Σ (∂C/∂loss) / Σ (∂C/∂loss)².
        """
        weights = self._weights_of("gradient")
        if not self._weighted:
            return [1.0] * len(weights)
        shares = weights / _total(weights)
        own = [self.objective.loss_sums(w) for _ in self._fed(self.gradient_batches)]
        sums = np.array([each for of_rank in self.ranks.gather(own) for each in of_rank])
        with np.errstate(invalid="ignore"):  # without weights, or without those of a batch
            scale = (shares * sums[:, 0]).sum() / (shares**2 * sums[:, 1]).sum()
            return np.nan_to_num(shares * scale * sums[:, 1] / sums[:, 0]).tolist()

    def metric_size(self, metric: Metric, part: str = "all") -> int:
        """See Objective.metric_size: metric, part."""
        return self.objective.metric_size(metric, part)

    def metric_solver(self, metric: Metric, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        """See Objective.metric_solver: metric, part, numbers, damping."""
        return self.objective.metric_solver(metric, part, numbers, damping)

    @property
    def parameters(self) -> list[Node]:
        """See Objective."""
        return self.objective.parameters

    @property
    def names(self) -> list[str]:
        """See Objective."""
        return self.objective.names

    @property
    def slices(self) -> list[slice]:
        """See Objective.slices."""
        return self.objective.slices

    @property
    def units(self) -> int:
        """See Objective.units."""
        return self.objective.units

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        """v ↦ the mean of the curvature's products over its batches

        w: the parameters. structural: weight of structural damping, default 0; see Objective.curvature.
        """
        batches, weights = list(self.curvature_batches), self._weights_of("curvature")
        single = self.objective.curvature(w, structural)

        def product(v: Array) -> Array:
            return self._mean("curvature", (single(v) for _ in self._fed(batches)), v, weights)

        return product

    def loss(self, w: Array) -> float:
        """The mean of C(w) over the batches of the loss"""
        return self._mean_of_numbers("loss", [self.objective.loss(w) for _ in self._fed(self.loss_batches)])

    def squared_gradients(self, w: Array) -> Array:
        """The mean of ∇C(w)² over the single cases of the curvature's batches. Source: Martens 2010, 4.7."""
        if self.single is None:
            raise UsageError("BatchedObjective: squared gradients need single=, the objective of one case")

        def squares(single: Objective, batch: Batch) -> Array:
            def each() -> Iterator[Array]:
                for case in cases:
                    single.feed(*case)
                    yield np.square(single.gradient(w)[1], dtype=np.float64)

            cases = list(_cases(batch, self.objective, single))
            return summed(each(), 0, len(cases)) / len(cases)

        batches = self.curvature_batches
        return self._mean(
            "curvature", (squares(self.single, batches[k]) for k in self.ranks.own(len(batches))), w
        )

    def redraw(self) -> None:
        """See Objective.redraw."""
        self.objective.redraw()

    def explain_non_finite(self) -> str:
        """See Objective.explain_non_finite; for the first of the gradient's batches with a NaN or infinity."""
        self._weights_of("gradient")
        found = (self.objective.explain_non_finite() for _ in self._fed(self.gradient_batches))
        return next(filter(None, self.ranks.gather(next(filter(None, found), ""))), "")

    # -- batches of this rank, and sums over those of all ---------------------------------------

    def _fed(self, batches: Sequence[Batch]) -> Iterator[int]:
        for number in self.ranks.own(len(batches)):
            self.objective.feed_placed(tuple(batches[number]))
            yield number

    def _mean(self, kind: str, own: Iterable[Array], like: Array, weights: Array | None = None) -> Array:
        """Returns the mean of one vector per batch, summed in float64. weights: by default those of the last feed."""
        weights = self._weights_of(kind) if weights is None else weights
        numbers = self.ranks.own(len(weights))
        terms = (_times(weights[number], double(vector)) for number, vector in zip(numbers, own, strict=True))
        return _beside(like, self.ranks.sum(len(weights), terms, like.size)) / _total(weights)

    def _weights_of(self, kind: str) -> Array:
        if not self._weights:
            raise UsageError("BatchedObjective: call feed(...) with at least one batch first")
        return self._weights[kind]

    def _mean_of_numbers(self, kind: str, own: Iterable[float]) -> float:
        weights = self._weights_of(kind)
        numbers = self.ranks.own(len(weights))
        terms = (_times(weights[number], each) for number, each in zip(numbers, own, strict=True))
        return self.ranks.sum_numbers(len(weights), terms) / _total(weights)


def _times(weight: float, of: Any) -> Any:
    return of if weight == 1 else of * weight


def _total(weights: Array) -> float:
    """Returns the sum of the weights, 1 if it is 0."""
    return float(weights.sum()) or 1.0


def _beside(like: Array, vector: Array) -> Array:
    """Copies the vector to the memory of the other; ranks exchange host vectors."""
    place = gn.backend_of(like)
    return vector if gn.backend_of(vector) == place else gn.place(vector, place)


def _listed(name: str, batches: Any, inputs: Sequence[Node]) -> list[Batch]:
    try:
        if isinstance(batches, Iterator) or any(isinstance(batch, Mapping) for batch in batches):
            raise TypeError  # an iterator can be read only once, a mapping has no order
        listed: list[Batch] = [tuple(batch) for batch in batches]
    except TypeError:
        raise UsageError(
            f"BatchedObjective.feed: {name} must be batches, each a sequence of arrays, not {shown(batches)}"
        ) from None
    if not listed:
        raise UsageError(f"BatchedObjective.feed: {name} needs at least one batch")
    for batch in listed:
        if len(batch) != len(inputs):
            wanted = ", ".join(node.describe() for node in inputs)
            raise UsageError(
                f"BatchedObjective.feed: {name} must be a list of batches, each of {len(inputs)} arrays ({wanted}), "
                f"but one of them has {len(batch)}; a single batch is given as [(x, t)]"
            )
    return listed


def _require_single(whole: Objective, single: Objective) -> None:
    ours, its = ([list(node.shape) for node in o.parameters] for o in (whole, single))
    if ours != its:
        raise UsageError(
            f"BatchedObjective: single= must have the same parameters; its shapes are {its}, those of the "
            f"objective {ours}"
        )
    if len(whole.inputs) != len(single.inputs):
        raise UsageError(
            f"BatchedObjective: single= must have the same number of inputs; it has {len(single.inputs)}, the "
            "objective "
            f"{len(whole.inputs)}"
        )
    axes = [_case_axis(w.shape, s.shape) for w, s in zip(whole.inputs, single.inputs, strict=True)]
    # Where no input is smaller, both must be of one case, so that each has an axis of 1. (Not every axis of 1 is one of
    # cases, so this finds most mistakes, but not all.)
    if not any(axis is not None for axis in axes) and any(1 not in w.shape for w in whole.inputs):
        raise UsageError(
            "BatchedObjective: single= must be the objective of one case, but its inputs are as large as those of a "
            f"batch: {', '.join(node.describe() for node in single.inputs)}"
        )


def _cases(batch: Batch, whole: Objective, single: Objective) -> Iterator[Batch]:
    """Yields the cases of a batch, along the axis on which the two objectives' inputs differ."""
    axes = [_case_axis(w.shape, s.shape) for w, s in zip(whole.inputs, single.inputs, strict=True)]
    count = {np.shape(array)[axis] for array, axis in zip(batch, axes, strict=True) if axis is not None}
    for i in range(max(count, default=1)):
        yield [
            array if axis is None else np.take(np.asarray(array), [i], axis)
            for array, axis in zip(batch, axes, strict=True)
        ]


def _cut_axis(array: Array, node: Node) -> int | None:
    """Returns the axis on which the array is a multiple of the input's size; None if the sizes are equal."""
    differ = [i for i, (a, n) in enumerate(zip(array.shape, node.shape, strict=False)) if a != n]
    if (
        array.ndim != len(node.shape)
        or len(differ) > 1
        or any(not node.shape[i] or array.shape[i] % node.shape[i] or not array.shape[i] for i in differ)
    ):
        raise UsageError(
            f"BatchedObjective.divided: an array of shape {list(array.shape)} must be a whole number of batches of "
            f"{node.describe()}, along one axis"
        )
    return differ[0] if differ else None


def _case_axis(whole: tuple[int, ...], single: tuple[int, ...]) -> int | None:
    differ = [i for i, (a, b) in enumerate(zip(whole, single, strict=False)) if a != b]
    if len(whole) != len(single) or len(differ) > 1 or any(single[i] != 1 for i in differ):
        raise UsageError(
            f"BatchedObjective: single= must be the objective of one case; its input is {list(single)}, that of a "
            f"batch {list(whole)}"
        )
    return differ[0] if differ else None
