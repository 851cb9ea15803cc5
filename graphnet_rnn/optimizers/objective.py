"""Objective: a cost as a function of one flat vector, the interface to optimizers."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.backends import load_backend
from graphnet.call.arguments import as_input
from graphnet.derivatives.gradient import require_scalar
from graphnet.graph.dtypes import held_as
from graphnet.graph.graph import ancestors, substitute
from graphnet.graph.node import Array, Node
from graphnet.system.process import cached_property
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.structure import hidden_units
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.losses import Losses
from graphnet_rnn.riemannian.metrics import Metric, asked_for
from graphnet_rnn.riemannian.over_cost import OverCost, hidden_unit_count
from graphnet_rnn.settings import amount, limit, shown, whole_number, yes_or_no


class Objective:
    """C(w), its gradient and its Gauss-Newton products, w the concatenated parameters.

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

    Functions are compiled at first use. An Objective is not thread-safe: its methods set the parameters to w, and it
    stores the batch.
    Raises UsageError for invalid parameters or inputs, and for a cost that does not depend on them, or on other inputs;
    its methods raise UsageError for vectors and arrays of other shapes; DifferentiationError for a cost that is no
    scalar.

    >>> w, x = gn.parameter(np.array([2.0, 3.0]), name="w"), gn.input((2,), "float64", name="x")
    >>> objective = rnn.Objective(gn.sum(gn.squared_error(w * x, 0.0)), [w], [x])
    >>> objective.compile()
    >>> objective.feed(np.array([1.0, 2.0]))
    >>> objective.gradient(objective.start())
    (40.0, array([ 4., 24.]))
    >>> theta = objective.place(np.array([1.0, 1.0]))
    >>> objective.loss(theta), objective.gradient_loss(theta), objective.curvature(theta)(theta).tolist()
    (5.0, 5.0, [2.0, 8.0])
    >>> objective.redraw()
    >>> objective.set(theta)
    >>> objective.feed_placed(objective.placed([np.array([np.inf, 2.0])]))
    >>> objective.explain_non_finite().splitlines()[0]
    'Input: x[2] holds an infinity.'
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
    ) -> None:
        require_scalar("Objective", cost)
        self.cost = cost
        self.l2 = amount("Objective: l2", l2)
        self.l2_in_curvature = yes_or_no("Objective: l2_in_curvature", l2_in_curvature)
        self._listed = None if structure is None else _pairs(structure)
        self.structure_scale = (
            structure_scale
            if isinstance(structure_scale, Node)
            else amount("Objective: structure_scale", structure_scale)
        )
        self.at = None if at is None else _nodes("at", at)
        self.parameters = _parameters(parameters)
        #: Names of the parameters for groups: keys of the mapping, or names of the nodes.
        self.names = (
            list(parameters)
            if isinstance(parameters, Mapping)
            else [node.name or "" for node in self.parameters]
        )
        self.inputs, self.also = _nodes("inputs", inputs), _nodes("also", also)
        for node in self.inputs:
            if not node.op.is_input:
                raise UsageError(
                    f"Objective: inputs must be nodes from gn.input, but {node.describe()} (made at "
                    f"{node.origin}) is a {node.op.name}"
                )
        self.clip_values = None if clip_values is None else limit("Objective: clip_values", clip_values)
        self.random = random
        self._backend = backend
        self.threads = None if threads is None else whole_number("Objective: threads", threads)
        self._how: dict[str, Any] = {"backend": backend, "threads": self.threads, "memory": memory}
        self.fed: tuple[Any, ...] = ()
        self.also_values: tuple[Array, ...] = ()
        self._functions: dict[str, gn.Function] = {}
        self._over: dict[str, OverCost] = {}
        #: Product and batch whose forward pass the curvature's function has cached.
        self._linearised: tuple[Any, ...] = ()
        self._require_connected()

    def __repr__(self) -> str:
        fed = ", ".join(str(node.name or node.describe()) for node in self.inputs)
        return f"Objective(cost {self.cost.describe()}, {self.size:,} parameters, inputs {fed or 'none'})"

    def _require_connected(self) -> None:
        reached = set(ancestors([self.cost, *self.also]))
        cost = f"the cost {self.cost.describe()} (made at {self.cost.origin})"
        if reached.isdisjoint(self.parameters):
            names = ", ".join(node.describe() for node in self.parameters[:3])
            raise UsageError(
                f"Objective: {cost} depends on none of the parameters, {names}"
                f"{', ...' if len(self.parameters) > 3 else ''}; pass the parameters of the network that computes it"
            )
        missing = [n for n in reached.difference(self.inputs) if n.op.is_input]
        if missing:
            names = ", ".join(
                f"{n.describe()} (made at {n.origin})" for n in sorted(missing, key=lambda n: n.serial)
            )
            raise UsageError(
                f"Objective: {cost} depends on {names}; list it in inputs, and feed it "
                "(first states of a network are 0 after net.unroll(..., initial='zero'))"
            )

    # -- the vector --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return self._ends[-1]

    @cached_property
    def slices(self) -> list[slice]:
        """Position of each parameter in the vector."""
        return flat_parts(self.parameters)

    def start(self) -> Array:
        """Returns the present parameters as a new vector, in the back end's memory."""
        return self.place(np.concatenate([node.value.ravel() for node in self.parameters]))

    def _vector(self, method: str, w: Any) -> Array:
        try:
            vector: Array = w if hasattr(w, "shape") and not isinstance(w, Node) else np.asarray(w)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"Objective.{method}: the vector cannot be converted to an array: {error}"
            ) from None
        if vector.shape != (self.size,):
            raise UsageError(
                f"Objective.{method}: the vector has shape {list(vector.shape)}, but there are {self.size:,} parameters"
            )
        if vector.dtype.kind not in "fiu":
            raise UsageError(f"Objective.{method}: the vector must be of real numbers, not {vector.dtype}")
        return vector

    def place(self, vector: Array) -> Array:
        """Copies a vector to the back end's memory."""
        return gn.place(vector, self._backend)

    def set(self, w: Array) -> None:
        """Sets the parameters to the values of the vector."""
        vector = np.asarray(self._vector("set", w))
        for end, node in zip(self._ends, self.parameters, strict=True):
            node.value[...] = vector[end - node.size : end].reshape(node.shape)

    # -- the batch ---------------------------------------------------------------------------

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
        self.feed_placed(self.placed(arrays))

    def placed(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Copies the arrays, one for each of `inputs`, to the back end's memory, for `feed_placed`."""
        return tuple(self._placed(array, node) for array, node in zip(arrays, self.inputs, strict=True))

    def _placed(self, array: Any, node: Node) -> Any:
        _require_shape(array, node)
        if self._apart and hasattr(array, "shape") and not isinstance(array, (np.ndarray, np.generic)):
            # An array of that memory, or of another library: its dtype is checked where it is read.
            return gn.place(array, self._backend) if gn.backend_of(array) == self._backend else array
        try:
            if isinstance(array, np.ndarray) and array.dtype.kind == node.dtype.kind == "f":
                array = held_as(array, node.dtype, f"{node.describe()} (made at {node.origin})")
            return gn.place(as_input(node, array), self._backend)
        except gn.DtypeError as error:
            raise UsageError(f"Objective.feed: {error}") from None

    def feed_placed(self, arrays: tuple[Any, ...]) -> None:
        """Feeds the arrays of `placed` without copying them, for batches that are fed repeatedly."""
        self.fed = arrays

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
        self._linearised = ()

    # -- what optimizers call ----------------------------------------------------------------

    def loss(self, w: Array) -> float:
        """C(w)"""
        w = self._vector("loss", w)
        (value,) = self._call("loss", lambda: [self.cost], w)
        return float(value) + self.penalty(w)

    def penalty(self, w: Array) -> float:
        """½ l2 |w|², the part of C(w) that is not the cost

        >>> w = gn.parameter(np.array([1.0, 2.0]), name="w")
        >>> objective = rnn.Objective(gn.sum(gn.squared_error(w, 1.0)), [w], l2=0.1)
        >>> objective.penalty(np.array([3.0, 4.0])), objective.loss(np.array([3.0, 4.0]))
        (1.25, 14.25)
        """
        w = self._vector("penalty", w)
        return 0.5 * self.l2 * float(np.sum(np.square(w, dtype=np.float64))) if self.l2 else 0.0

    def gradient_loss(self, w: Array) -> float:
        """C(w) on the data of `gradient`; in a BatchedObjective, `loss` may use other batches."""
        return self.loss(w)

    def gradient(self, w: Array) -> tuple[float, Array]:
        """C(w) and ∇C(w)"""
        w = self._vector("gradient", w)
        value, *arrays = self._call("gradient", self._gradient_nodes, w)
        g, self.also_values = self._whole(arrays)
        return float(value) + self.penalty(w), g + g.dtype.type(self.l2) * w if self.l2 else g

    def metric(
        self, w: Array, metric: Metric, part: str = "all", draw: int = 0, relative: float = 1.0
    ) -> tuple[float, Array, Array]:
        """Computes C(w), ∇C(w) and the numbers of the metric, on the present batch, in one function.

        The numbers add up over batches; pass them to `metric_solver`.
        metric: see rnn.riemannian.
        part: the parameters to use, see OverCost; the gradient by all others is 0.
        draw: seed of the metric's random numbers, if it uses any.
        relative: factor on the scale that turns C into a sum over cases, for batches of unequal weights.

        l2 is part of C and ∇C, but not of the metric.

        >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=5, batch=1, initial="zero")
        >>> objective = rnn.Objective(u.cost, u.network.parameters, [u.inputs, u.targets])
        >>> objective.feed(np.zeros((5, 1), int), np.ones((5, 1), int))
        >>> metric = rnn.riemannian.OuterProduct("quasi-diagonal")
        >>> loss, gradient, numbers = objective.metric(objective.start(), metric)
        >>> gradient.shape, numbers.shape
        ((32,), (63,))
        """
        w = self._vector("metric", w)
        over = self._measure("metric", metric, part)
        over.random.draw = whole_number("Objective.metric: draw", draw, least=0)

        def nodes() -> list[Node]:
            slopes = dict(zip(over.weights, gn.gradient(self.cost, over.weights), strict=True))
            zero = [gn.fill(0, p.shape, p.dtype) if p not in slopes else slopes[p] for p in self.parameters]
            return [self.cost, *self._flat(zero), *self.also, *over.nodes()]

        factor = np.array(amount("Objective.metric: relative", relative), self.cost.dtype)
        value, *arrays = self._call(f"metric {over.metric} {part}", nodes, w, [self._relative], [factor])
        g, others = self._whole(arrays)
        self.also_values, measured = others[: len(self.also)], others[len(self.also) :]
        g = g + g.dtype.type(self.l2) * w if self.l2 else g
        numbers = np.concatenate([np.asarray(array) for array in measured]).astype(np.float64, copy=False)
        return float(value) + self.penalty(w), g, numbers

    def metric_size(self, metric: Metric, part: str = "all") -> int:
        """Returns the number of numbers of the metric. metric, part: as in `metric`.

        >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=5, batch=1, initial="zero")
        >>> objective = rnn.Objective(u.cost, u.network.parameters, [u.inputs, u.targets])
        >>> objective.metric_size(rnn.riemannian.OuterProduct("diagonal"))
        42
        """
        return self._measure("metric_size", metric, part).size

    def metric_solver(self, metric: Metric, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        """Returns g ↦ (M + damping)⁻¹ g in float64, g a gradient of the cost; a descent step is its negative.

        metric, part: as in `metric`. numbers: the metric's numbers from there, or their sum over batches. damping:
        default 0.
        Raises TrainingError for a singular metric; it names the units.

        >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=5, batch=1, initial="zero")
        >>> objective = rnn.Objective(u.cost, u.network.parameters, [u.inputs, u.targets])
        >>> objective.feed(np.zeros((5, 1), int), np.ones((5, 1), int))
        >>> metric = rnn.riemannian.OuterProduct("quasi-diagonal")
        >>> loss, gradient, numbers = objective.metric(objective.start(), metric)
        >>> solve = objective.metric_solver(metric, "all", numbers, damping=1.0)
        >>> step = -solve(gradient)
        >>> step.shape, float(step @ gradient) < 0
        ((32,), True)
        """
        solver = self._measure("metric_solver", metric, part).flat_solver(
            "Objective.metric_solver", numbers, damping
        )
        return Solver(lambda g: solver(np.asarray(self._vector("metric_solver", g))), solver.condition)

    def _measure(self, method: str, metric: Metric, part: str) -> OverCost:
        metric = asked_for(f"Objective.{method}", metric, part)
        key = f"{metric} {part}"
        if key not in self._over:
            self._over[key] = OverCost(metric, self.cost, self.parameters, part, relative=self._relative)
        return self._over[key]

    @cached_property
    def _relative(self) -> Node:
        return gn.input((), self.cost.dtype, name="relative")

    def loss_sums(self, w: Array) -> tuple[float, float]:
        """Σ g and Σ g², g the derivatives of C(w) by the losses of single cases: 1 and 1/N for a mean over N cases.

        >>> w, x = gn.parameter(np.zeros(1), name="w"), gn.input((4, 1), "float64", name="x")
        >>> objective = rnn.Objective(gn.mean(gn.squared_error(w, x)), [w], [x])
        >>> objective.feed(np.ones((4, 1)))
        >>> objective.loss_sums(objective.start())
        (1.0, 0.25)
        """
        first, second = self._call("loss sums", lambda: Losses(self.cost).sums, self._vector("loss_sums", w))
        return float(first), float(second)

    @cached_property
    def units(self) -> int:
        """Number of hidden units of the cost: columns of pre-activations, except those of the output and states."""
        return hidden_unit_count(self.cost, self.parameters)

    def compile(self) -> None:
        """Compiles the gradient now instead of at its first call; raises the errors of gn.compile."""
        self._function("gradient", self._gradient_nodes)

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        """v ↦ (G(w) + structural · G_s(w)) v, G the Gauss-Newton matrix of the cost, and G_s that of the hidden units.

        G_s: of the loss that matches each hidden unit's nonlinearity, summed over time, averaged over cases, times
        structure_scale. Further products on the same batch reuse the forward pass.
        """
        if structural and not self.structure:
            raise UsageError(
                "Objective.curvature: structural damping needs hidden units to damp, but the cost "
                f"{self.cost.describe()} (made at {self.cost.origin}) holds no tanh and no σ of a cell, or "
                "structure=() was given; give structure=[(a, h), ...]"
            )
        at = self._vector("curvature", w).copy()
        scale = 1.0 if isinstance(self.structure_scale, Node) else self.structure_scale
        weight = np.array(structural * scale, self.cost.dtype)
        # Without structural damping, hidden units are no part of the function.
        damps = bool(structural or self._listed)
        damped, inputs = ([weight], [self._weight]) if damps else ([], [])
        name = "damped curvature" if damps else "curvature"

        def product(v: Array) -> Array:
            v = self._vector("curvature", v)
            here = (product, *self.fed)
            if len(here) == len(self._linearised) and all(map(operator.is_, here, self._linearised)):
                if not self._apart:
                    self.set(at)
                arrays = self._functions[name].again(*self._directed(v), *damped)
            else:
                self._linearised = ()
                arrays = self._call(
                    name,
                    partial(self._curvature_nodes, damps),
                    at,
                    [*self._directions, *inputs],
                    [*self._directed(v), *damped],
                )
                self._linearised = here
            bend, _ = self._whole(arrays)
            return bend + bend.dtype.type(added) * v if added else bend

        added = self.l2 if self.l2_in_curvature else 0.0
        return product

    @cached_property
    def _directions(self) -> list[Node]:
        if self._apart:
            return [gn.input((self.size,), self._dtype, name="v", varying=True)]
        return [
            gn.input(node.shape, node.dtype, name=f"v_{node.name}", varying=True) for node in self.parameters
        ]

    @cached_property
    def _weight(self) -> Node:
        return gn.input((), self.cost.dtype, name="μ", varying=True)

    @cached_property
    def structure(self) -> list[tuple[Node, Node]]:
        """Pairs (a, h = e(a)) of the hidden units for structural damping."""
        return hidden_units(self.cost) if self._listed is None else self._listed

    def _gradient_nodes(self) -> list[Node]:
        return [
            self.cost,
            *self._flat(gn.gradient(self.cost, self.parameters, self.clip_values)),
            *self.also,
        ]

    def _curvature_nodes(self, damps: bool) -> list[Node]:
        pieces = self._cut(self._directions[0]) if self._apart else self._directions
        damping = [(a, h, self._weight * self._share(a)) for a, h in self.structure] if damps else ()
        directions = dict(zip(self.parameters, pieces, strict=True))
        return self._flat(gn.gauss_newton_product(self.cost, directions, self.at, damping))

    def _share(self, a: Node) -> Node | float:
        if not isinstance(self.structure_scale, Node):
            return 1 / a.shape[0]
        (cases,) = self.structure_scale.shape
        if a.shape[:1] != (cases,):
            raise UsageError(
                f"structural damping: the first axis of {a.describe()} (made at {a.origin}) must be the {cases} "
                "cases, so that each is weighted like its loss; put cases first in the cell's equations"
            )
        return gn.reshape(self.structure_scale, (cases,) + (1,) * (a.ndim - 1))

    # -- functions ---------------------------------------------------------------------------
    # On the host, parameters are read in place, and vectors in parts of their shapes. A separate device memory gets
    # each vector as a whole, so a vector that is there already is not copied.

    @cached_property
    def _apart(self) -> bool:
        return load_backend(self._backend).apart

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.result_type(*(node.dtype for node in self.parameters))

    @cached_property
    def _theta(self) -> Node:
        return gn.input((self.size,), self._dtype, name="theta", weights=True)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(node.size for node in self.parameters))

    def _cut(self, vector: Node) -> list[Node]:
        return [
            gn.cast(gn.reshape(vector[end - node.size : end], node.shape), node.dtype)
            for end, node in zip(self._ends, self.parameters, strict=True)
        ]

    def _split(self, vector: Array) -> list[Array]:
        pieces = np.split(vector, self._ends[:-1])
        return [p.reshape(n.shape).astype(n.dtype) for p, n in zip(pieces, self.parameters, strict=True)]

    def _directed(self, v: Array) -> list[Array]:
        """Converts a direction to arguments of the functions."""
        return [v.astype(self._dtype, copy=False)] if self._apart else self._split(np.asarray(v))

    def _flat(self, nodes: Sequence[Node]) -> list[Node]:
        """Converts one node for each parameter to outputs of a function."""
        if not self._apart:
            return list(nodes)
        return [gn.concatenate([gn.cast(gn.reshape(node, (node.size,)), self._dtype) for node in nodes])]

    def _whole(self, arrays: Sequence[Array]) -> tuple[Array, tuple[Array, ...]]:
        if self._apart:
            return arrays[0], tuple(arrays[1:])
        count = len(self.parameters)
        return np.concatenate([a.ravel() for a in arrays[:count]]), tuple(arrays[count:])

    def _call(
        self,
        name: str,
        outputs: Callable[[], list[Node]],
        w: Array,
        more_inputs: Sequence[Node] = (),
        more: Sequence[Any] = (),
    ) -> tuple[Array, ...]:
        if len(self.fed) != len(self.inputs):
            raise UsageError(
                f"Objective: {len(self.inputs)} inputs have no arrays yet; call feed(...) with one for each of "
                f"{', '.join(node.describe() for node in self.inputs)}"
            )
        function = self._function(name, outputs, more_inputs)
        if self._apart:
            return function(*self.fed, *more, w.astype(self._dtype, copy=False))
        self.set(w)
        return function(*self.fed, *more)

    def _function(
        self, name: str, outputs: Callable[[], list[Node]], more_inputs: Sequence[Node] = ()
    ) -> gn.Function:
        if name not in self._functions:
            nodes, inputs = outputs(), [*self.inputs, *more_inputs]
            if self._apart:
                nodes = substitute(nodes, dict(zip(self.parameters, self._cut(self._theta), strict=True)))
                inputs.append(self._theta)
            self._functions[name] = gn.compile(nodes, inputs, **self._how)
        return self._functions[name]

    def explain_non_finite(self) -> str:
        """Describes the first node with a NaN or infinity on the present batch, in the cost, then in its gradient; ""
        if none.
        """
        try:
            for outputs in ([self.cost], gn.gradient(self.cost, self.parameters, self.clip_values)):
                gn.compile(outputs, self.inputs, check=True, **self._how)(*self.fed)
        except gn.NonFiniteError as error:
            return str(error)
        return ""


def flat_parts(parameters: Sequence[Node]) -> list[slice]:
    """Returns the position of each parameter in the concatenated vector."""
    ends = accumulate(node.size for node in parameters)
    return [slice(end - node.size, end) for end, node in zip(ends, parameters, strict=True)]


def _require_shape(array: Any, node: Node) -> None:
    try:
        shape = array.shape if hasattr(array, "shape") else np.shape(array)
    except ValueError as error:
        raise UsageError(
            f"Objective.feed: the value for {node.describe()} cannot be converted to an array: {error}"
        ) from None
    if shape != node.shape:
        raise UsageError(
            f"Objective.feed: {node.describe()} (made at {node.origin}) is {node.dtype} of shape {list(node.shape)}, "
            f"not of shape {list(shape)}"
        )


def _nodes(argument: str, given: Any) -> list[Node]:
    if isinstance(given, Node):
        raise UsageError(f"Objective: {argument} must be a list of nodes; write [{given.name or '...'}]")
    try:
        listed = list(given)
    except TypeError:
        raise UsageError(f"Objective: {argument} must be a list of nodes, not {shown(given)}") from None
    for node in listed:
        if not isinstance(node, Node):
            raise UsageError(f"Objective: {argument} must be a list of nodes, but holds {shown(node)}")
    if argument in ("parameters", "inputs"):
        for node, count in Counter(listed).items():
            if count > 1:
                raise UsageError(
                    f"Objective: {argument} lists {node.describe()} (made at {node.origin}) twice"
                )
    return listed


def _parameters(given: Any) -> list[Node]:
    listed = _nodes("parameters", given.values() if isinstance(given, Mapping) else given)
    if not listed:
        raise UsageError("Objective: `parameters` is empty: give at least one")
    for node in listed:
        if not node.op.is_parameter:
            raise UsageError(
                f"Objective: parameters must be nodes from gn.parameter, but {node.describe()} (made at "
                f"{node.origin}) is a {node.op.name}"
            )
    return listed


def _pairs(structure: Any) -> list[tuple[Node, Node]]:
    try:
        listed = [(a, h) for a, h in structure]
    except (TypeError, ValueError):
        listed = [(None, None)]
    if not all(isinstance(node, Node) for pair in listed for node in pair):
        raise UsageError(
            f"Objective: structure must be pairs of nodes (a, h = e(a)), such as u.structure, not {shown(structure)}"
        )
    for (a, h), count in Counter(listed).items():
        if count > 1:
            raise UsageError(
                f"Objective: structure lists {a.describe()} and {h.describe()} (made at {h.origin}) twice, so they "
                "would be damped twice"
            )
    return listed
