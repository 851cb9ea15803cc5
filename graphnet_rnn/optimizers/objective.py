"""Objective: a cost as a function of one flat vector, the interface to optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.derivatives.gradient import require_scalar
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.batches import (
    Batch,
    WeightedBatches,
    beside,
    cases_of,
    divided_batch,
    listed_batches,
    require_single,
)
from graphnet_rnn.optimizers.compiled_cost import CompiledCost, shape_of
from graphnet_rnn.optimizers.objective_arguments import (
    checked_nodes,
    checked_pairs,
    checked_parameters,
    checked_vector,
    checked_weights,
    require_connected,
)
from graphnet_rnn.optimizers.parameter_vector import ParameterVector
from graphnet_rnn.parallel.mpi import as_ranks
from graphnet_rnn.parallel.ranks import Ranks, summed
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.metrics import Metric, asked_for
from graphnet_rnn.settings import amount, limit, shown, whole_number, yes_or_no


class Objective:
    """C(w), its gradient and its Gauss-Newton products, w the concatenated parameters, on one batch or several.

    On several batches (`feed_batches`), C is the mean of the cost. They are processed one after the other, so memory
    does not grow with their number.

    cost: a scalar node.
    parameters: Parameter nodes, or a mapping of these, such as net.parameters, whose keys are the names for groups.
    inputs: Input nodes; `feed` sets their values.
    also: nodes to compute along with the gradient, such as the final states of a network; read their values from
    `also_values` afterwards.
    clip_values: limit on each derivative at every node, see gn.gradient; default None.
    backend, threads: see gn.compile. With backend="cuda" vectors and batches stay on the GPU; if you pass host vectors,
    results are host vectors.
    random: source of dropout masks and noise, as given to `unroll`; `redraw` draws anew. Default None, nothing random.
    memory: memory limit of the gradient and curvature, see gn.compile.
    at: nodes at which the network is linearized for the curvature, by default the inputs of its losses; see
    gn.gauss_newton_product and gn.with_surrogate.
    structure: pairs (a, h = e(a)) of hidden units for structural damping; by default each tanh and σ of cells in the
    cost.
    structure_scale: factor on structural damping, a mean over cases: 1 / steps if the cost is a mean over steps, not a
    sum; or a node (cases,) with the weight of each case in a sum. Default 1.
    l2: adds ½ l2 |w|² to C(w), default 0. (For some weights only, add `gn.sum(gn.squared_error(W, 0))` to the cost.)
    l2_in_curvature: True (default) adds its Hessian l2 I to the curvature.
    single: the objective of one case, with the same cost and parameters, for `squared_gradients`. Default None.
    parallel: "mpi", or rnn.parallel.Ranks: processes that share the batches of `feed_batches`. Feed all batches to each
    process; it computes its own, and all processes get the same bits, whatever their number. Default None, one process.

    Functions are compiled at first use. An Objective is not thread-safe: its methods set the parameters to w, and it
    stores the batches.
    Raises UsageError for invalid parameters or inputs, and for a cost that does not depend on them, or on other inputs;
    its methods raise UsageError for vectors and arrays of other shapes; DifferentiationError for a cost that is no
    scalar.
    Source of batches: Martens 2010, 4.4; Sutskever 2013, algorithm 5; Krause 2015, 3.3.5.2.

    >>> w, x = gn.parameter(np.array([2.0, 3.0]), name="w"), gn.input((2,), "float64", name="x")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w * x, 0.0)), [w], [x])
    >>> objective.compile()
    >>> objective.feed(np.array([1.0, 2.0]))
    >>> objective.gradient(objective.start())
    (40.0, array([ 4., 24.]))
    >>> theta = objective.place(np.array([1.0, 1.0]))
    >>> objective.loss(theta), objective.gradient_loss(theta), objective.curvature(theta)(theta).tolist()
    (5.0, 5.0, [2.0, 8.0])
    >>> objective.feed_batches([[np.array([1.0, 2.0])], [np.array([0.0, 0.0])]])
    >>> objective.gradient(theta)  # the mean of two batches
    (2.5, array([1., 4.]))
    >>> objective.redraw()
    >>> objective.set(theta)
    >>> objective.feed(np.array([np.inf, 2.0]))
    >>> objective.explain_non_finite().splitlines()[0]
    'Input: x[2] holds an infinity.'

    >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=5, batch=1, initial="zero")
    >>> objective = rnn.Objective(u.cost, u.network.parameters, [u.inputs, u.targets])
    >>> objective.feed(np.zeros((5, 1), int), np.ones((5, 1), int))
    >>> metric = rnn.riemannian.OuterProduct("quasi-diagonal")
    >>> loss, gradient, numbers = objective.metric(objective.start(), metric)
    >>> gradient.shape, numbers.shape, objective.metric_size(metric)
    ((32,), (63,), 63)
    >>> solve = objective.metric_solver(metric, "all", numbers, damping=1.0)
    >>> step = -solve(gradient)
    >>> step.shape, float(step @ gradient) < 0
    ((32,), True)
    """

    def __init__(
        self,
        cost: Node,
        parameters: Sequence[Node] | Mapping[str, Node],
        inputs: Sequence[Node] = (),
        also: Sequence[Node] = (),
        clip_values: float | None = None,
        backend: str = "numba",
        threads: int | None = None,
        random: gn.RandomSource | None = None,
        memory: str | int | None = None,
        at: Sequence[Node] | None = None,
        structure: Sequence[tuple[Node, Node]] | None = None,
        structure_scale: float | Node = 1.0,
        l2: float = 0.0,
        l2_in_curvature: bool = True,
        single: Objective | None = None,
        parallel: Ranks | str | None = None,
    ) -> None:
        self.parameters = checked_parameters(parameters)
        #: Names of the parameters for groups: keys of the mapping, or names of the nodes.
        self.names = (
            list(parameters)
            if isinstance(parameters, Mapping)
            else [node.name or "" for node in self.parameters]
        )
        self.l2 = amount("Objective: l2", l2)
        self.l2_in_curvature = yes_or_no("Objective: l2_in_curvature", l2_in_curvature)
        self.clip_values = None if clip_values is None else limit("Objective: clip_values", clip_values)
        self.random = random
        self.backend = backend
        self.threads = None if threads is None else whole_number("Objective: threads", threads)
        self.ranks = as_ranks("Objective", parallel)
        self._how: dict[str, Any] = {"backend": backend, "threads": self.threads, "memory": memory}
        self._flat = ParameterVector(self.parameters, backend)
        self._costs: dict[tuple[tuple[int, ...], ...], CompiledCost] = {}
        self.add_size(cost, inputs, also, at, structure, structure_scale)
        self.cost, self.inputs = cost, self._first.inputs
        self._require_single(single)
        self.single = single
        # A cost without inputs needs no feed.
        one = WeightedBatches([] if self.inputs else [()], self.ranks)
        self.gradient_batches = self.curvature_batches = self.loss_batches = one
        #: Values of `also`, by number of the gradient's batch, for the batches of this process.
        self.also_by_batch: dict[int, tuple[Array, ...]] = {}

    def __repr__(self) -> str:
        fed = ", ".join(str(node.name or node.describe()) for node in self.inputs)
        return f"Objective(cost {self.cost.describe()}, {self.size:,} parameters, inputs {fed or 'none'})"

    def add_size(
        self,
        cost: Node,
        inputs: Sequence[Node],
        also: Sequence[Node] = (),
        at: Sequence[Node] | None = None,
        structure: Sequence[tuple[Node, Node]] | None = None,
        structure_scale: float | Node = 1.0,
    ) -> None:
        """Adds the same cost for batches of another size: each batch uses the cost whose inputs have its shapes.

        Arguments: see Objective.
        Raises UsageError as Objective, and for a size that it has.

        >>> net = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2)
        >>> short, long = (net.unroll(time, batch=1, initial="zero") for time in (2, 5))
        >>> objective = rnn.Objective(short.cost, net.parameters, [short.inputs, short.targets])
        >>> objective.add_size(long.cost, [long.inputs, long.targets])
        >>> objective.feed_batches([np.zeros((2, time, 1), int) for time in (2, 5)])
        >>> objective.gradient(objective.start())[1].size
        32
        """
        require_scalar("Objective", cost)
        new = CompiledCost(
            cost,
            self._flat,
            checked_nodes("inputs", inputs),
            checked_nodes("also", also),
            None if at is None else checked_nodes("at", at),
            None if structure is None else checked_pairs(structure),
            structure_scale
            if isinstance(structure_scale, Node)
            else amount("Objective: structure_scale", structure_scale),
            self.clip_values,
            self._how,
        )
        require_connected(new.cost, new.also, new.inputs, self.parameters)
        first = next(iter(self._costs.values()), new)
        if (len(new.inputs), len(new.also)) != (len(first.inputs), len(first.also)):
            raise UsageError(
                f"Objective.add_size: inputs and also must be {len(first.inputs)} and {len(first.also)} nodes, as "
                f"those of the first size, not {len(new.inputs)} and {len(new.also)}"
            )
        if new.shapes in self._costs:
            raise UsageError(
                f"Objective.add_size: the sizes of inputs must differ, but there is a cost of {_shown(new.shapes)}"
            )
        self._costs[new.shapes] = new

    def _require_single(self, single: Any) -> None:
        if single is None:
            return
        if not isinstance(single, Objective):
            raise UsageError(f"Objective: single must be an Objective, not {shown(single)}")
        if single.ranks.size > 1:
            raise UsageError("Objective: single must not be shared by processes; leave out its `parallel`")
        ours, its = ([list(node.shape) for node in o.parameters] for o in (self, single))
        if ours != its:
            raise UsageError(
                f"Objective: single= must have the same parameters; its shapes are {its}, those of the objective {ours}"
            )
        require_single(self.inputs, single.inputs)

    # -- the vector --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return self._flat.size

    @property
    def slices(self) -> list[slice]:
        """Position of each parameter in the vector."""
        return self._flat.slices

    def start(self) -> Array:
        """Returns the present parameters as a new vector, in the back end's memory."""
        return self.place(np.concatenate([node.value.ravel() for node in self.parameters]))

    def _vector(self, method: str, w: Any) -> Array:
        return checked_vector(f"Objective.{method}", w, self.size)

    def place(self, vector: Array) -> Array:
        """Copies a vector to the back end's memory."""
        return self._flat.place(vector)

    def set(self, w: Array) -> None:
        """Sets the parameters to the values of the vector."""
        self._flat.set(self._vector("set", w))

    # -- the batches -------------------------------------------------------------------------

    def feed(self, *arrays: Any) -> None:
        """Sets the arrays of `inputs`, for loss, gradient and curvature until the next feed.

        arrays: one for each input. They are copied, so later changes by the caller have no effect. Floats are converted
        to the dtype of the input, other arrays only if no value can change.
        Raises UsageError for a wrong number of arrays, other shapes, or incompatible dtypes.
        """
        if len(arrays) != len(self.inputs):
            raise UsageError(
                f"Objective.feed: {len(self.inputs)} arrays are needed, {len(arrays)} were given"
            )
        one = WeightedBatches([self._of(arrays).placed(arrays)], self.ranks)
        self.gradient_batches = self.curvature_batches = self.loss_batches = one

    def feed_batches(
        self,
        gradient: Sequence[Batch],
        curvature: Sequence[Batch] | None = None,
        loss: Sequence[Batch] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Sets several batches, until the next feed: gradient, curvature and loss are means over their own.

        gradient: batches of the gradient, each a sequence of arrays as for `feed`.
        curvature: by default the gradient's first batch with a weight above 0.
        loss: batches for the reduction ratio and line searches; by default those of the curvature.
        weights: weight of each gradient batch in the mean, e.g. the sum of its cases' weights; default all 1. The
        batches of the curvature and the loss must then be among the gradient's. If all are 0, only the l2 penalty
        remains.
        Raises UsageError for batches or weights that do not fit.
        """
        placed: dict[int, Batch] = {}
        originals: list[list[Batch]] = []  # alive, so that their ids stay unique
        weight_of: dict[int, float] = {}

        def listed(name: str, batches: Sequence[Batch]) -> WeightedBatches:
            """Copies each batch of this rank to the back end's memory, once even if it is used twice."""
            found = listed_batches(name, batches, self.inputs)
            originals.append(list(batches))
            ids = [id(batch) for batch in originals[-1]]
            own = None
            if weights is not None and name == "gradient":
                own = checked_weights(weights, len(ids))
                weight_of.update(zip(ids, own, strict=True))
            elif weights is not None:
                if not weight_of.keys() >= set(ids):
                    raise UsageError(
                        f"Objective.feed_batches: with weights, the batches of the {name} must be objects from the "
                        "list of the gradient's batches"
                    )
                own = [weight_of[i] for i in ids]
            for number in self.ranks.own(len(found)):
                if ids[number] not in placed:
                    placed[ids[number]] = self._of(found[number]).placed(found[number])
                found[number] = placed[ids[number]]
            return WeightedBatches(found, self.ranks, own)

        of_gradient = listed("gradient", gradient)
        if curvature is None:
            first = int(np.argmax(of_gradient.weights > 0))
            curvature = originals[0][first : first + 1]
        of_curvature = listed("curvature", curvature)
        of_loss = of_curvature if loss is None else listed("loss", loss)
        self.gradient_batches, self.curvature_batches, self.loss_batches = of_gradient, of_curvature, of_loss

    def divided(self, *arrays: Any) -> list[Batch]:
        """Cuts a large batch into batches of the inputs' size, along the axis on which they differ.

        arrays: one for each input.

        If the cost is a mean over the cases of a batch, the mean over these batches is the mean over all cases. The
        order of summation depends on the size of `inputs` only, not on the number of processes.
        Raises UsageError unless the arrays are a whole multiple of the inputs, on one axis.

        >>> w, x = gn.parameter(np.zeros(2), name="w"), gn.input((5, 2), "float64", name="x")
        >>> objective = rnn.Objective(gn.mean(gn.squared_error(w, x)), [w], [x])
        >>> objective.feed_batches(objective.divided(np.ones((20, 2))))  # four batches of five cases
        >>> objective.loss(objective.start())
        1.0
        """
        return divided_batch(arrays, self.inputs)

    def _of(self, batch: Batch) -> CompiledCost:
        """Returns the cost for batches of this size."""
        if len(self._costs) == 1:
            return self._first
        shapes = tuple(map(shape_of, batch, self.inputs))
        if shapes not in self._costs:
            there = "; ".join(map(_shown, self._costs))
            raise UsageError(
                f"Objective.feed: no cost has inputs of these sizes, {_shown(shapes)}; there are {there}"
            )
        return self._costs[shapes]

    @property
    def _first(self) -> CompiledCost:
        return next(iter(self._costs.values()))

    @property
    def _present(self) -> CompiledCost:
        """The cost of the gradient's first batch."""
        return self._of(self.gradient_batches[0]) if self.gradient_batches else self._first

    @property
    def also_values(self) -> tuple[Array, ...]:
        """Values of `also` on the batch of the last gradient; of several batches, see `also_by_batch`."""
        return self.also_by_batch.get(0, ())

    def redraw(self) -> None:
        """Draws new dropout masks and noise; they stay fixed until then."""
        if self.random is not None:
            self.random.redraw()
            self.forget()

    def forget(self) -> None:
        """Drops the cached forward pass of the curvature, because the arrays have changed.

        >>> w, x = gn.parameter(np.array([2.0]), name="w"), gn.parameter(np.array([1.0]), name="x")
        >>> objective = rnn.Objective(gn.sum(gn.squared_error(w * x, 0.0)), [w])
        >>> product = objective.curvature(objective.start())
        >>> first = product(np.ones(1)).item()
        >>> x.value = np.array([3.0])
        >>> objective.forget()
        >>> first, product(np.ones(1)).item()
        (2.0, 18.0)
        """
        for cost in self._costs.values():
            cost.forget()

    # -- what optimizers call ----------------------------------------------------------------

    def loss(self, w: Array) -> float:
        """C(w), on the batches of the loss"""
        return self._loss(self.loss_batches, self._vector("loss", w))

    def gradient_loss(self, w: Array) -> float:
        """C(w), on the batches of the gradient"""
        if self.gradient_batches is self.loss_batches:
            return self.loss(w)
        return self._loss(self.gradient_batches, self._vector("gradient_loss", w))

    def _loss(self, batches: WeightedBatches, w: Array) -> float:
        losses = [self._of(batch).loss(w, batch) for _, batch in self._fed(batches).own()]
        return batches.mean_of_numbers(losses) + self.penalty(w)

    def penalty(self, w: Array) -> float:
        """½ l2 |w|², the part of C(w) that is not the cost

        >>> w = gn.parameter(np.array([1.0, 2.0]), name="w")
        >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, 1.0)), [w], l2=0.1)
        >>> objective.penalty(np.array([3.0, 4.0])), objective.loss(np.array([3.0, 4.0]))
        (1.25, 14.25)
        """
        w = self._vector("penalty", w)
        return 0.5 * self.l2 * float(np.sum(np.square(w, dtype=np.float64))) if self.l2 else 0.0

    def gradient(self, w: Array) -> tuple[float, Array]:
        """C(w) and ∇C(w), in the dtype of the parameters"""
        w, batches = self._vector("gradient", w), self._fed(self.gradient_batches)
        losses, self.also_by_batch = list[float](), {}

        def gradients() -> Iterator[Array]:
            for number, batch in batches.own():
                loss, g, self.also_by_batch[number] = self._of(batch).gradient(w, batch)
                losses.append(loss)
                yield g

        return self._with_penalty(losses, batches.mean(gradients(), w, self._flat.dtype), w)

    def _with_penalty(self, losses: list[float], g: Array, w: Array) -> tuple[float, Array]:
        g = g.astype(self._flat.dtype, copy=False)
        return (
            self.gradient_batches.mean_of_numbers(losses) + self.penalty(w),
            g + g.dtype.type(self.l2) * w if self.l2 else g,
        )

    def squared_gradients(self, w: Array) -> Array:
        """The mean of ∇C(w)² over the single cases of the curvature's batches. Source: Martens 2010, 4.7.

        >>> w, x, one = gn.parameter(np.zeros(2)), gn.input((5, 2), "float64"), gn.input((1, 2), "float64")
        >>> single = rnn.Objective(gn.mean(gn.squared_error(w, one)), [w], [one])
        >>> objective = rnn.Objective(gn.mean(gn.squared_error(w, x)), [w], [x], single=single)
        >>> objective.feed(np.ones((5, 2)))
        >>> objective.squared_gradients(objective.start()).tolist()
        [1.0, 1.0]
        """
        w, single = self._vector("squared_gradients", w), self.single
        if single is None:
            raise UsageError("Objective: squared gradients need single=, the objective of one case")

        def squares(batch: Batch) -> Array:
            def each() -> Iterator[Array]:
                for case in cases:
                    single.feed(*case)
                    yield np.square(single.gradient(w)[1], dtype=np.float64)

            cases = cases_of(batch, self._of(batch).inputs, single.inputs)
            return summed(each(), 0, len(cases)) / len(cases)

        batches = self._fed(self.curvature_batches)
        return batches.mean((squares(batch) for _, batch in batches.own()), w, np.dtype(float))

    @property
    def units(self) -> int:
        """Number of hidden units of the cost: columns of pre-activations, except those of the output and states."""
        return self._present.units

    def compile(self) -> None:
        """Compiles the gradient now instead of at its first call; raises the errors of gn.compile."""
        for cost in self._costs.values():
            cost.compile()

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        """v ↦ (G(w) + structural · G_s(w)) v, G the Gauss-Newton matrix of the cost, and G_s that of the hidden units.

        G_s: of the loss that matches each hidden unit's nonlinearity, summed over time, averaged over cases, times
        structure_scale. The batches are those fed now. Further products on the same batch reuse the forward pass.
        """
        if structural and not self.structure:
            raise UsageError(
                "Objective.curvature: structural damping needs hidden units to damp, but the cost "
                f"{self.cost.describe()} (made at {self.cost.origin}) holds no tanh and no σ of a cell, or "
                "structure=() was given; give structure=[(a, h), ...]"
            )
        at, batches = self._vector("curvature", w).copy(), self._fed(self.curvature_batches)
        products: dict[CompiledCost, Callable[[Array, Batch], Array]] = {}
        added = self.l2 if self.l2_in_curvature else 0.0

        def each(v: Array) -> Iterator[Array]:
            for _, batch in batches.own():
                cost = self._of(batch)
                if cost not in products:
                    products[cost] = cost.curvature(at, structural)
                yield products[cost](v, batch)

        def product(v: Array) -> Array:
            v = self._vector("curvature", v)
            bend = batches.mean(each(v), v, self._flat.dtype)
            return bend + bend.dtype.type(added) * v if added else bend

        return product

    @property
    def structure(self) -> list[tuple[Node, Node]]:
        """Pairs (a, h = e(a)) of the hidden units for structural damping."""
        return self._present.structure

    def explain_non_finite(self) -> str:
        """Describes the first node with a NaN or infinity on the gradient's batches, in the cost, then in its gradient;
        "" if none.
        """
        batches = self._fed(self.gradient_batches)
        found = (self._of(batch).explain_non_finite(batch) for _, batch in batches.own())
        return next(filter(None, batches.ranks.gather(next(filter(None, found), ""))), "")

    # -- metrics -----------------------------------------------------------------------------

    def metric(
        self, w: Array, metric: Metric, part: str = "all", draw: int = 0
    ) -> tuple[float, Array, Array]:
        """Computes C(w), ∇C(w) and the numbers of the metric, on the gradient's batches.

        The numbers are sums over the batches; pass them to `metric_solver`.
        metric: see rnn.riemannian.
        part: the parameters to use, see OverCost; the gradient by all others is 0.
        draw: seed of the metric's random numbers, if it uses any.

        l2 is part of C and ∇C, but not of the metric.
        """
        w, metric = self._vector("metric", w), asked_for("Objective.metric", metric, part)
        batches, losses = self._fed(self.gradient_batches), list[float]()
        first = whole_number("Objective.metric: draw", draw, least=0) * len(batches)
        if batches.alone:
            (batch,) = batches
            loss, g, also, numbers = self._of(batch).metric(w, batch, metric, part, first, 1.0)
            self.also_by_batch = {0: also}
            return *self._with_penalty([loss], g, w), numbers
        relative, self.also_by_batch = self._relative(w), {}

        def parts() -> Iterator[Array]:
            """Slopes and numbers end to end, so that there is one sum."""
            for number, batch in batches.own():
                loss, g, self.also_by_batch[number], found = self._of(batch).metric(
                    w, batch, metric, part, first + number, relative[number]
                )
                losses.append(loss)
                weight = batches.weights[number]
                counted = found if weight else np.zeros_like(found)
                yield np.concatenate([weight * np.asarray(g, np.float64), counted])

        total = batches.ranks.sum(len(batches), parts(), self.size + self.metric_size(metric, part))
        slopes = (total[: self.size] / batches.total).astype(self._flat.dtype)
        return *self._with_penalty(losses, beside(w, slopes), w), total[self.size :]

    def _relative(self, w: Array) -> list[float]:
        """Returns the factor that converts each batch's scale to that of all batches together; 0 for a batch of weight
        0.

        C = Σ W_b C_b / Σ W_b, so ∂C/∂loss = W_b g / Σ W_b, and the sum of all cases is C Σ (∂C/∂loss) / Σ (∂C/∂loss)².
        """
        batches = self.gradient_batches
        if batches.equal:
            return [1.0] * len(batches)
        shares = batches.weights / batches.total
        own = [self._of(batch).loss_sums(w, batch) for _, batch in batches.own()]
        sums = np.array([each for of_rank in batches.ranks.gather(own) for each in of_rank])
        with np.errstate(invalid="ignore"):  # without weights, or without those of a batch
            scale = (shares * sums[:, 0]).sum() / (shares**2 * sums[:, 1]).sum()
            return np.nan_to_num(shares * scale * sums[:, 1] / sums[:, 0]).tolist()

    def metric_size(self, metric: Metric, part: str = "all") -> int:
        """Returns the number of numbers of the metric. metric, part: as in `metric`."""
        return self._present.over(asked_for("Objective.metric_size", metric, part), part).size

    def metric_solver(self, metric: Metric, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        """Returns g ↦ (M + damping)⁻¹ g in float64, g a gradient of the cost; a descent step is its negative.

        metric, part: as in `metric`. numbers: the metric's numbers from there. damping: default 0.
        Raises TrainingError for a singular metric; it names the units.
        """
        own = "Objective.metric_solver"
        solver = self._present.over(asked_for(own, metric, part), part).flat_solver(own, numbers, damping)
        return Solver(lambda g: solver(np.asarray(self._vector("metric_solver", g))), solver.condition)

    def _fed(self, batches: WeightedBatches) -> WeightedBatches:
        """Returns the batches. Raises UsageError if nothing was fed."""
        if not batches:
            raise UsageError(
                f"Objective: {len(self.inputs)} inputs have no arrays yet; call feed(...) with one for each of "
                f"{', '.join(node.describe() for node in self.inputs)}"
            )
        return batches


def _shown(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
