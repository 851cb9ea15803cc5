"""CompiledCost: the compiled functions of a cost, for batches of one size."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.call.arguments import as_input
from graphnet.graph.dtypes import held_as
from graphnet.graph.graph import substitute
from graphnet.graph.node import Array, Node
from graphnet.system.process import cached_property
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.batches import Batch
from graphnet_rnn.optimizers.parameter_vector import ParameterVector
from graphnet_rnn.optimizers.structure import hidden_units
from graphnet_rnn.riemannian.losses import Losses
from graphnet_rnn.riemannian.metrics import Metric
from graphnet_rnn.riemannian.over_cost import OverCost, hidden_unit_count


class CompiledCost:
    """Loss, gradient, curvature and metrics of a cost on one batch, each compiled at first use.

    Vectors and batches are in the back end's memory (`placed`). inputs, also, at, structure, structure_scale,
    clip_values: see Objective. how: arguments of gn.compile.
    """

    def __init__(
        self,
        cost: Node,
        flat: ParameterVector,
        inputs: list[Node],
        also: list[Node],
        at: list[Node] | None,
        structure: list[tuple[Node, Node]] | None,
        structure_scale: float | Node,
        clip_values: float | None,
        how: Mapping[str, Any],
    ) -> None:
        self.cost, self.flat, self.inputs, self.also = cost, flat, inputs, also
        self._at, self._listed, self._structure_scale = at, structure, structure_scale
        self._clip_values, self._how = clip_values, how
        self._functions: dict[str, gn.Function] = {}
        self._over: dict[str, OverCost] = {}
        #: Product and batch whose forward pass the curvature's function has cached.
        self._linearised: tuple[Any, ...] = ()

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the inputs."""
        return tuple(node.shape for node in self.inputs)

    @cached_property
    def structure(self) -> list[tuple[Node, Node]]:
        """Pairs (a, h = e(a)) of the hidden units for structural damping."""
        return hidden_units(self.cost) if self._listed is None else self._listed

    @cached_property
    def units(self) -> int:
        """Number of hidden units."""
        return hidden_unit_count(self.cost, self.flat.nodes)

    def placed(self, arrays: Batch) -> Batch:
        """Copies the arrays, one for each input, to the back end's memory."""
        return tuple(self._placed(array, node) for array, node in zip(arrays, self.inputs, strict=True))

    def _placed(self, array: Any, node: Node) -> Any:
        if shape_of(array, node) != node.shape:
            raise UsageError(
                f"Objective.feed: {node.describe()} (made at {node.origin}) is {node.dtype} of shape "
                f"{list(node.shape)}, not of shape {list(shape_of(array, node))}"
            )
        if self.flat.apart and hasattr(array, "shape") and not isinstance(array, (np.ndarray, np.generic)):
            # An array of that memory, or of another library: its dtype is checked where it is read.
            return self.flat.place(array) if gn.backend_of(array) == self.flat.backend else array
        try:
            if isinstance(array, np.ndarray) and array.dtype.kind == node.dtype.kind == "f":
                array = held_as(array, node.dtype, f"{node.describe()} (made at {node.origin})")
            return self.flat.place(as_input(node, array))
        except gn.DtypeError as error:
            raise UsageError(f"Objective.feed: {error}") from None

    def forget(self) -> None:
        """Drops the cached forward pass of the curvature."""
        self._linearised = ()

    # -- values --------------------------------------------------------------------------------

    def loss(self, w: Array, batch: Batch) -> float:
        """C(w)"""
        (value,) = self._call("loss", lambda: [self.cost], w, batch)
        return float(value)

    def gradient(self, w: Array, batch: Batch) -> tuple[float, Array, tuple[Array, ...]]:
        """C(w), ∇C(w) and the values of `also`"""
        value, *arrays = self._call("gradient", self._gradient_nodes, w, batch)
        return float(value), *self.flat.whole(arrays)

    def compile(self) -> None:
        """Compiles the gradient."""
        self._function("gradient", self._gradient_nodes)

    def loss_sums(self, w: Array, batch: Batch) -> tuple[float, float]:
        """Σ g and Σ g², g the derivatives of C(w) by the losses of single cases: 1 and 1/N for a mean over N cases."""
        first, second = self._call("loss sums", lambda: Losses(self.cost).sums, w, batch)
        return float(first), float(second)

    def metric(
        self, w: Array, batch: Batch, metric: Metric, part: str, draw: int, relative: float
    ) -> tuple[float, Array, tuple[Array, ...], Array]:
        """C(w), ∇C(w), the values of `also`, and the numbers of the metric in float64, by one function

        relative: factor on the scale that turns C into a sum over cases, for batches of unequal weights.
        """
        over = self.over(metric, part)
        over.random.draw = draw

        def nodes() -> list[Node]:
            slopes = dict(zip(over.weights, gn.gradient(self.cost, over.weights), strict=True))
            zero = [gn.fill(0, p.shape, p.dtype) if p not in slopes else slopes[p] for p in self.flat.nodes]
            return [self.cost, *self.flat.outputs(zero), *self.also, *over.nodes()]

        factor = np.array(relative, self.cost.dtype)
        name = f"metric {over.metric} {part}"
        value, *arrays = self._call(name, nodes, w, batch, [self._relative], [factor])
        g, others = self.flat.whole(arrays)
        also, measured = others[: len(self.also)], others[len(self.also) :]
        numbers = np.concatenate([np.asarray(array) for array in measured]).astype(np.float64, copy=False)
        return float(value), g, also, numbers

    def over(self, metric: Metric, part: str) -> OverCost:
        """Returns the metric over this cost."""
        key = f"{metric} {part}"
        if key not in self._over:
            self._over[key] = OverCost(metric, self.cost, self.flat.nodes, part, relative=self._relative)
        return self._over[key]

    @cached_property
    def _relative(self) -> Node:
        return gn.input((), self.cost.dtype, name="relative")

    def curvature(self, w: Array, structural: float) -> Callable[[Array, Batch], Array]:
        """(v, batch) ↦ (G(w) + structural · G_s(w)) v; more products on the same batch reuse the forward pass."""
        scale = 1.0 if isinstance(self._structure_scale, Node) else self._structure_scale
        # Without structural damping, hidden units are no part of the function.
        damps = bool(structural or self._listed)
        damped, inputs = (
            ([np.array(structural * scale, self.cost.dtype)], [self._weight]) if damps else ([], [])
        )
        name = "damped curvature" if damps else "curvature"

        def product(v: Array, batch: Batch) -> Array:
            here, arguments = (product, *batch), [*self.flat.arguments(v), *damped]
            if len(here) == len(self._linearised) and all(map(operator.is_, here, self._linearised)):
                if not self.flat.apart:
                    self.flat.set(w)
                arrays = self._functions[name].again(*arguments)
            else:
                self._linearised = ()
                nodes = partial(self._curvature_nodes, damps)
                arrays = self._call(name, nodes, w, batch, [*self.flat.directions, *inputs], arguments)
                self._linearised = here
            return self.flat.whole(arrays)[0]

        return product

    @cached_property
    def _weight(self) -> Node:
        return gn.input((), self.cost.dtype, name="μ", varying=True)

    def explain_non_finite(self, batch: Batch) -> str:
        """Describes the first node with a NaN or infinity, in the cost, then in its gradient; "" if none."""
        try:
            for outputs in ([self.cost], gn.gradient(self.cost, self.flat.nodes, self._clip_values)):
                gn.compile(outputs, self.inputs, check=True, **self._how)(*batch)
        except gn.NonFiniteError as error:
            return str(error)
        return ""

    # -- functions -----------------------------------------------------------------------------

    def _gradient_nodes(self) -> list[Node]:
        slopes = gn.gradient(self.cost, self.flat.nodes, self._clip_values)
        return [self.cost, *self.flat.outputs(slopes), *self.also]

    def _curvature_nodes(self, damps: bool) -> list[Node]:
        directions = self.flat.directions
        pieces = self.flat.cut(directions[0]) if self.flat.apart else directions
        damping = [(a, h, self._weight * self._share(a)) for a, h in self.structure] if damps else ()
        of = dict(zip(self.flat.nodes, pieces, strict=True))
        return self.flat.outputs(gn.gauss_newton_product(self.cost, of, self._at, damping))

    def _share(self, a: Node) -> Node | float:
        if not isinstance(self._structure_scale, Node):
            return 1 / a.shape[0]
        (cases,) = self._structure_scale.shape
        if a.shape[:1] != (cases,):
            raise UsageError(
                f"structural damping: the first axis of {a.describe()} (made at {a.origin}) must be the {cases} "
                "cases, so that each is weighted like its loss; put cases first in the cell's equations"
            )
        return gn.reshape(self._structure_scale, (cases,) + (1,) * (a.ndim - 1))

    def _call(
        self,
        name: str,
        outputs: Callable[[], list[Node]],
        w: Array,
        batch: Batch,
        more_inputs: Sequence[Node] = (),
        more: Sequence[Any] = (),
    ) -> tuple[Array, ...]:
        function = self._function(name, outputs, more_inputs)
        if self.flat.apart:
            return function(*batch, *more, w.astype(self.flat.dtype, copy=False))
        self.flat.set(w)
        return function(*batch, *more)

    def _function(
        self, name: str, outputs: Callable[[], list[Node]], more_inputs: Sequence[Node] = ()
    ) -> gn.Function:
        if name not in self._functions:
            nodes, inputs = outputs(), [*self.inputs, *more_inputs]
            if self.flat.apart:
                theta = self.flat.theta
                nodes = substitute(nodes, dict(zip(self.flat.nodes, self.flat.cut(theta), strict=True)))
                inputs.append(theta)
            self._functions[name] = gn.compile(nodes, inputs, **self._how)
        return self._functions[name]


def shape_of(array: Any, node: Node) -> tuple[int, ...]:
    """Returns the shape of an array for this input."""
    try:
        return tuple(array.shape) if hasattr(array, "shape") else np.shape(array)
    except ValueError as error:
        raise UsageError(
            f"Objective.feed: the value for {node.describe()} cannot be converted to an array: {error}"
        ) from None
