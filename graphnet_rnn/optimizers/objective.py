"""Objective: a cost as a function of one flat vector, which is all that an optimizer sees."""

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
from graphnet.graph.graph import ancestors, substitute
from graphnet.graph.node import Array, Node
from graphnet.system.process import cached_property
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.structure import hidden_units
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.metrics import Metric, OverCost, asked_for, hidden_unit_count
from graphnet_rnn.riemannian.moduli import Outputs
from graphnet_rnn.settings import amount, limit, whole_number, yes_or_no

__all__ = ["Objective", "flat_parts"]


class Objective:
    """C(w), its gradient and its Gauss-Newton products, w the parameters laid end to end.

    cost: a scalar node. parameters: Parameter nodes, or a mapping of these, as net.parameters. inputs: Input nodes,
    given values by `feed`.
    also: nodes to compute along with the gradient (the carried states of a network, for instance); their
    values are in `also_values` afterwards. clip_values: see gn.gradient.
    memory: what the gradient and the curvature may keep, see gn.compile. at: where the net is linearised for the
    curvature, by default where its losses say that it ends, see gn.gauss_newton_product and gn.with_surrogate.
    structure: pairs (a, h = e(a)) of hidden units, whose change structural damping penalises; by default each tanh and
    σ that cells have put into the cost. structure_scale: a factor on the mean over cases of this, 1 / steps where the
    cost is a mean over steps and not their sum; or a node (cases,): by how much each case counts in a sum over them.
    l2: adds ½ l2 |w|² to C(w); l2_in_curvature: whether its Hessian l2 I is part of the curvature, too. (For some of
    the weights only, add `gn.sum(gn.squared_error(W, 0))` to the cost.)
    Functions are compiled when they are first used. backend="cuda": the vector, the batch and all that is made of them
    stay on the GPU; vectors of the host are taken, too, and then the results come back there.
    It is for one thread at a time: the parameters themselves take the values of w, and it keeps the batch.
    Raises UsageError for parameters or inputs that are none, or that the cost does not read, or not alone, and, in its
    methods, for vectors of another size than all parameters together, and arrays of other shapes than the inputs;
    DifferentiationError for a cost that is no scalar.
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
        self.inputs, self.also = _nodes("inputs", inputs), _nodes("also", also)
        for node in self.inputs:
            if not node.op.is_input:
                raise UsageError(
                    f"Objective: inputs lists {node.describe()} (made at {node.origin}), which is a {node.op.name}; "
                    "only what gn.input makes is fed"
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
        #: What the curvature's function has the forward pass of: a product made by `curvature`, and a batch's arrays.
        self._linearised: tuple[Any, ...] = ()
        self._require_connected()

    def __repr__(self) -> str:
        fed = ", ".join(str(node.name or node.describe()) for node in self.inputs)
        return f"Objective(cost {self.cost.describe()}, {self.size:,} parameters, inputs {fed or 'none'})"

    def _require_connected(self) -> None:
        """UsageError unless the cost reads some of the parameters, and no input but those that are fed."""
        reached = set(ancestors([self.cost, *self.also]))
        cost = f"the cost {self.cost.describe()} (made at {self.cost.origin})"
        if reached.isdisjoint(self.parameters):
            names = ", ".join(node.describe() for node in self.parameters[:3])
            raise UsageError(
                f"Objective: {cost} depends on none of the parameters, {names}"
                f"{', ...' if len(self.parameters) > 3 else ''}; are they another network's?"
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

    @cached_property
    def size(self) -> int:
        return sum(node.size for node in self.parameters)

    @cached_property
    def slices(self) -> list[slice]:
        """Where each parameter lies in the vector."""
        return flat_parts(self.parameters)

    def start(self) -> Array:
        """The present parameters as a new flat vector, where the back end computes."""
        return self.place(np.concatenate([node.value.ravel() for node in self.parameters]))

    def _vector(self, method: str, w: Any) -> Array:
        """The vector; UsageError where it has not a real number for each parameter."""
        try:
            vector: Array = w if hasattr(w, "shape") and not isinstance(w, Node) else np.asarray(w)
        except (TypeError, ValueError) as error:
            raise UsageError(f"Objective.{method}: the vector is no array: {error}") from None
        if vector.shape != (self.size,):
            raise UsageError(
                f"Objective.{method}: the vector has shape {list(vector.shape)}, but there are {self.size:,} parameters"
            )
        if vector.dtype.kind not in "fiu":
            raise UsageError(f"Objective.{method}: the vector must be of real numbers, not {vector.dtype}")
        return vector

    def place(self, vector: Array) -> Array:
        """A copy of the vector where the back end computes."""
        return gn.place(vector, self._backend)

    def set(self, w: Array) -> None:
        """Gives the parameters the values of the vector."""
        vector = np.asarray(self._vector("set", w))
        for end, node in zip(self._ends, self.parameters, strict=True):
            node.value[...] = vector[end - node.size : end].reshape(node.shape)

    # -- the batch ---------------------------------------------------------------------------

    def feed(self, *arrays: Any) -> None:
        """Sets the arrays for `inputs`: loss, gradient and curvature see these until the next feed.

        They are copied (which takes a small part of a gradient's time), so that what the caller writes into them later
        changes nothing. As by a compiled function, an array is converted only where no value can change.
        Raises UsageError for another number of arrays, other shapes, and dtypes that do not fit.
        """
        if len(arrays) != len(self.inputs):
            raise UsageError(
                f"Objective.feed: {len(self.inputs)} arrays are needed, {len(arrays)} were given"
            )
        self.feed_placed(self.placed(arrays))

    def placed(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Copies of the arrays, one for each of `inputs`, where the back end computes: what `feed_placed` takes."""
        return tuple(self._placed(array, node) for array, node in zip(arrays, self.inputs, strict=True))

    def _placed(self, array: Any, node: Node) -> Any:
        _require_shape(array, node)
        if self._apart and hasattr(array, "shape") and not isinstance(array, (np.ndarray, np.generic)):
            # It lies there already, or is another library's: its dtype is judged where it is read.
            return gn.place(array, self._backend) if gn.backend_of(array) == self._backend else array
        try:
            return gn.place(as_input(node, array), self._backend)
        except gn.DtypeError as error:
            raise UsageError(f"Objective.feed: {error}") from None

    def feed_placed(self, arrays: tuple[Any, ...]) -> None:
        """Sets what `placed` has given, without copying it: for batches that are fed in turns."""
        self.fed = arrays

    def redraw(self) -> None:
        """New dropout masks and noise; until then all calls see one function."""
        if self.random is not None:
            self.random.redraw()
            self.forget()

    def forget(self) -> None:
        """The next product of a curvature computes the forward pass anew: something that it saw has changed."""
        self._linearised = ()

    # -- what optimizers call ----------------------------------------------------------------

    def loss(self, w: Array) -> float:
        """C(w)"""
        w = self._vector("loss", w)
        (value,) = self._call("loss", lambda: [self.cost], w)
        return float(value) + self.penalty(w)

    def penalty(self, w: Array) -> float:
        """½ l2 |w|², the part of C(w) that is not the cost"""
        w = self._vector("penalty", w)
        return 0.5 * self.l2 * float(np.sum(np.square(w, dtype=np.float64))) if self.l2 else 0.0

    def gradient_loss(self, w: Array) -> float:
        """C(w), on what `gradient` sees: in a BatchedObjective, `loss` may be on other batches."""
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
        """C(w), ∇C(w) and the numbers that the metric is there, on the present batch, by one function.

        The numbers add up over batches, and `metric_solver` takes them. part: of which parameters, see OverCost; the
        gradient of the cost by all others is 0. draw: which random numbers a metric takes that draws some. l2 is part
        of C and ∇C, and none of the metric. relative: a factor on the scale that makes a sum over cases of C, where
        this is one of several batches of unlike weights.
        """
        w = self._vector("metric", w)
        over = self._measure("metric", metric, part)
        over.random.draw = whole_number("Objective.metric: draw", draw, least=0)

        def nodes() -> list[Node]:
            slopes = dict(zip(over.weights, gn.gradient(self.cost, over.weights), strict=True))
            zero = [gn.fill(0, p.shape, p.dtype) if p not in slopes else slopes[p] for p in self.parameters]
            return [self.cost, *self._flat(zero), *self.also, *over.nodes()]

        factor = np.array(relative, self.cost.dtype)
        value, *arrays = self._call(f"metric {over.metric} {part}", nodes, w, [self._relative], [factor])
        g, others = self._whole(arrays)
        self.also_values, measured = others[: len(self.also)], others[len(self.also) :]
        g = g + g.dtype.type(self.l2) * w if self.l2 else g
        numbers = np.concatenate([np.asarray(array) for array in measured]).astype(np.float64, copy=False)
        return float(value) + self.penalty(w), g, numbers

    def metric_size(self, metric: Metric, part: str = "all") -> int:
        """How many numbers the metric is."""
        return self._measure("metric_size", metric, part).size

    def metric_solver(self, metric: Metric, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        """g ↦ (M + damping)⁻¹ g in float64, g a gradient of the cost: the step of least cost is its negative.

        Raises TrainingError for a metric that is singular, with the units.
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
        """Σ g and Σ g², g the slopes of C(w) by the losses of single cases: 1 and 1/N of a mean over N of them."""
        first, second = self._call("loss sums", lambda: Outputs(self.cost).sums, self._vector("loss_sums", w))
        return float(first), float(second)

    @cached_property
    def units(self) -> int:
        """How many hidden units the cost has: columns of pre-activations, those of the output and states aside."""
        return hidden_unit_count(self.cost, self.parameters)

    def compile(self) -> None:
        """Makes the function of `gradient` now, not at its first call; raises what gn.compile raises."""
        self._function("gradient", self._gradient_nodes)

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        """v ↦ (G(w) + structural · G_s(w)) v, G the Gauss-Newton matrix of the cost, and G_s that of the hidden units.

        G_s: of the loss that matches each hidden unit's nonlinearity, summed over time, the mean over cases, times
        structure_scale. Further products on the same batch do not compute the forward pass again.
        """
        if structural and not self.structure:
            raise UsageError(
                "Objective.curvature: structural damping needs hidden units to damp, but the cost "
                f"{self.cost.describe()} (made at {self.cost.origin}) holds no tanh and no σ of a cell, or "
                "structure=() says that there are none; give structure=[(a, h), ...]"
            )
        at = self._vector("curvature", w).copy()
        scale = 1.0 if isinstance(self.structure_scale, Node) else self.structure_scale
        weight = np.array(structural * scale, self.cost.dtype)
        # Hidden units that nobody has asked for are no part of the function.
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
        """(a, h = e(a)) for each hidden unit whose change structural damping penalises."""
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
        """How much each case of a pre-activation (cases, ...) counts in structural damping."""
        if not isinstance(self.structure_scale, Node):
            return 1 / a.shape[0]
        (cases,) = self.structure_scale.shape
        if a.shape[:1] != (cases,):
            raise UsageError(
                f"structural damping: {a.describe()} (made at {a.origin}) has no first axis of the {cases} cases, so "
                "they cannot count as much as their losses; put cases first in the cell's equations"
            )
        return gn.reshape(self.structure_scale, (cases,) + (1,) * (a.ndim - 1))

    # -- functions ---------------------------------------------------------------------------
    # On the host the parameters are read where they are, and vectors come in pieces of their shapes. A memory apart is
    # given each vector as a whole, so nothing is copied that is there already.

    @cached_property
    def _apart(self) -> bool:
        return load_backend(self._backend).apart

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.result_type(*(node.dtype for node in self.parameters))

    @cached_property
    def _theta(self) -> Node:
        """The parameters as one input, where memory is apart."""
        return gn.input((self.size,), self._dtype, name="theta", weights=True)

    @cached_property
    def _ends(self) -> list[int]:
        """Where each parameter ends in the vector."""
        return list(accumulate(node.size for node in self.parameters))

    def _cut(self, vector: Node) -> list[Node]:
        """The parameters' parts of a node."""
        return [
            gn.cast(gn.reshape(vector[end - node.size : end], node.shape), node.dtype)
            for end, node in zip(self._ends, self.parameters, strict=True)
        ]

    def _split(self, vector: Array) -> list[Array]:
        """The parameters' parts of an array."""
        pieces = np.split(vector, self._ends[:-1])
        return [p.reshape(n.shape).astype(n.dtype) for p, n in zip(pieces, self.parameters, strict=True)]

    def _directed(self, v: Array) -> list[Array]:
        """A direction as functions take it."""
        return [v.astype(self._dtype, copy=False)] if self._apart else self._split(np.asarray(v))

    def _flat(self, nodes: Sequence[Node]) -> list[Node]:
        """One node for each parameter, as functions give them."""
        if not self._apart:
            return list(nodes)
        return [gn.concatenate([gn.cast(gn.reshape(node, (node.size,)), self._dtype) for node in nodes])]

    def _whole(self, arrays: Sequence[Array]) -> tuple[Array, tuple[Array, ...]]:
        """The vector of what `_flat` gave, and what comes after it."""
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
        """What the function of this name gives at w."""
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
        """The function of this name, made of these outputs when it is first asked for."""
        if name not in self._functions:
            nodes, inputs = outputs(), [*self.inputs, *more_inputs]
            if self._apart:
                nodes = substitute(nodes, dict(zip(self.parameters, self._cut(self._theta), strict=True)))
                inputs.append(self._theta)
            self._functions[name] = gn.compile(nodes, inputs, **self._how)
        return self._functions[name]

    def explain_non_finite(self) -> str:
        """The first node that makes a NaN or an infinity on the present batch, in words; empty if none.

        Looks in the cost first, then in its gradient.
        """
        try:
            for outputs in ([self.cost], gn.gradient(self.cost, self.parameters, self.clip_values)):
                gn.compile(outputs, self.inputs, check=True, **self._how)(*self.fed)
        except gn.NonFiniteError as error:
            return str(error)
        return ""


def flat_parts(parameters: Sequence[Node]) -> list[slice]:
    """Where each parameter lies in a vector of all of them."""
    ends = accumulate(node.size for node in parameters)
    return [slice(end - node.size, end) for end, node in zip(ends, parameters, strict=True)]


def _require_shape(array: Any, node: Node) -> None:
    """UsageError unless the array has the input's shape."""
    try:
        shape = array.shape if hasattr(array, "shape") else np.shape(array)
    except ValueError as error:
        raise UsageError(
            f"Objective.feed: what was given for {node.describe()} is no array: {error}"
        ) from None
    if shape != node.shape:
        raise UsageError(
            f"Objective.feed: {node.describe()} (made at {node.origin}) is {node.dtype} of shape {list(node.shape)}, "
            f"but was given an array of shape {list(shape)}"
        )


def _nodes(argument: str, given: Any) -> list[Node]:
    """The nodes of a list; UsageError for what is none."""
    if isinstance(given, Node):
        raise UsageError(f"Objective: {argument} must be a list of nodes; write [{given.name or '...'}]")
    try:
        listed = list(given)
    except TypeError:
        raise UsageError(f"Objective: {argument} must be a list of nodes, not {given!r:.60}") from None
    for node in listed:
        if not isinstance(node, Node):
            raise UsageError(f"Objective: {argument} must be a list of nodes, but holds {node!r:.60}")
    if argument in ("parameters", "inputs"):
        for node, count in Counter(listed).items():
            if count > 1:
                raise UsageError(
                    f"Objective: {argument} lists {node.describe()} (made at {node.origin}) twice"
                )
    return listed


def _parameters(given: Any) -> list[Node]:
    """The parameters, in order; UsageError for what is none, and for one that is listed twice."""
    listed = _nodes("parameters", given.values() if isinstance(given, Mapping) else given)
    if not listed:
        raise UsageError("Objective: `parameters` is empty: there is nothing to change")
    for node in listed:
        if not node.op.is_parameter:
            raise UsageError(
                f"Objective: parameters lists {node.describe()} (made at {node.origin}), which is a {node.op.name}; "
                "make what training changes with gn.parameter"
            )
    return listed


def _pairs(structure: Any) -> list[tuple[Node, Node]]:
    """The pairs of structural damping; UsageError for what is none."""
    try:
        listed = [(a, h) for a, h in structure]
    except (TypeError, ValueError):
        listed = [(None, None)]
    if not all(isinstance(node, Node) for pair in listed for node in pair):
        raise UsageError(
            f"Objective: structure must be pairs of nodes (a, h = e(a)), as u.structure, not {structure!r:.60}"
        )
    for (a, h), count in Counter(listed).items():
        if count > 1:
            raise UsageError(
                f"Objective: structure lists {a.describe()} and {h.describe()} (made at {h.origin}) twice, so they "
                "would be damped twice"
            )
    return listed
