"""GraphCases: a problem of arrays for your own graph, such as composed networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.model import Model
from graphnet_rnn.network.composed import takes_what_is_asked
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import array_of, checked_floats
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import Count, is_number, setting, shown
from graphnet_rnn.training.batches_of_cases import (
    BatchesOfCases,
    digest_of_graph,
    divided,
    have_steps,
    losses_of_cases,
    measures_of_cases,
    seed_of,
)
from graphnet_rnn.training.state import digest_of

#: Result of `graph`: an Unrolled, losses (batch,), or losses and metrics (batch,) by name.
Graph = Unrolled | Node | tuple[Node, Mapping[str, Node]]


@dataclass(eq=False, repr=False)
class GraphCases(BatchesOfCases):
    """C = Σ_n w_n L_n / Σ_n w_n over the cases n of a batch, L the losses of your own graph

    model: the model to train, made by rnn.composed or an rnn.Model.
    arrays: all cases of each input of the graph, by the input's name. The case axis is the axis whose size is the
    batch; an input without a case axis is shared by all cases.
    batch: cases of a batch, default 32 (all, if there are fewer). Every epoch uses each case once, in a new random
    order; the last batch is padded with cases of weight 0.
    graph: function graph(batch, **how) that returns an Unrolled (its losses are summed over the steps of a case), or
    losses (batch,), or (losses, {name: values (batch,)}) with metrics to average over the validation cases. how:
    "training" and "random", to pass on to `unroll`. Default model.unroll. A method `check(arrays)` of the function, if
    it has one, is called with the arrays of training and of validation, and raises DataError.
    valid: validation cases, arrays of the same names, or the fraction of the cases to hold out, the last ones; default
    0.1; None for none.
    weights: weights of the cases, (cases,); default None, all 1.
    gradient_batches, curvature_batches: as in Arrays.
    clip_values, l2, threads, memory, backend: see Objective.

    Metrics of an Unrolled: "accuracy" of classes and bits, "mae" of numbers, averaged over the steps of a
    case, and "exact", the fraction of cases with the right class at every step.
    History rows have the unit of the losses. Raises UsageError, DataError.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=2, outputs=2)
    >>> arrays = {"x": np.zeros((5, 40), int), "t": np.ones((5, 40), int)}  # (time, cases)
    >>> graph = lambda batch, **how: net.unroll(5, batch, initial="zero", **how)
    >>> problem = rnn.GraphCases(net, arrays, graph=graph, batch=12)
    >>> len(problem), list(problem.metrics())
    (3, ['accuracy', 'exact'])
    """

    objective: Objective = field(init=False)

    model: Model
    arrays: InitVar[Mapping[str, Any]] = (
        field()
    )  # without field(), the default would be the method of Problem
    batch: Count = setting(32, "cases of a batch")
    _: KW_ONLY
    graph: Callable[..., Graph] | None = None
    valid: InitVar[float | Mapping[str, Any] | None] = 0.1
    weights: InitVar[Any] = None
    gradient_batches: Count = setting(1, "batches of a step")
    curvature_batches: Count = setting(1, "number of these batches for the curvature")

    def __post_init__(self, arrays: Any, valid: Any, weights: Any) -> None:
        if not isinstance(self.model, Model):
            raise UsageError(f"GraphCases: model must be a Model, not {shown(self.model)}")
        self._graph: Callable[..., Graph] = self._given_graph()
        self._check_sizes()
        self._random = gn.RandomSource(seed_of(self.model))
        # The axis of cases is the one whose size differs between batches.
        one, other = (_read(self._graph(n, training=False, random=self._random), n) for n in (2, 3))
        self._axes = {name: _axis(name, node, other[1][name]) for name, node in one[1].items()}
        self._inputs = one[1]
        self._measured_names = tuple(one[2])
        self._train, count = self._fitting("arrays", arrays)
        self._weights = _checked_weights(weights, count)
        self._valid: dict[str, Array] | None = None
        self._valid_weights = np.ones(0)
        if isinstance(valid, Mapping):
            self._valid, kept = self._fitting("valid", valid)
            self._valid_weights = np.ones(kept)
        elif valid is not None:
            if not is_number(valid):
                raise UsageError(
                    "GraphCases: valid must be a fraction of the cases, or arrays by name, as for training, not "
                    f"{shown(valid)}"
                )
            first, last = divided("GraphCases", valid, count)
            if len(last):
                self._valid = self._chosen(self._train, last)
                self._valid_weights = self._weights[last]
                self._train, self._weights = self._chosen(self._train, first), self._weights[first]
        if not self._weights.any() or (self._valid is not None and not self._valid_weights.any()):
            raise DataError(
                "GraphCases: at least one training case and one validation case must have a weight above 0"
            )
        self.batch = min(self.batch, self._count)
        self._begin(seed_of(self.model))
        cost, inputs, _ = self._weighed(training=True)
        *_, w = inputs
        settings = self.objective_settings()
        self._digest = digest_of_graph(cost)
        self.objective = Objective(cost, inputs=inputs, random=self._random, structure_scale=w, **settings)
        self._judge: gn.Function | None = None

    def _given_graph(self) -> Callable[..., Graph]:
        if self.graph is not None:
            if not callable(self.graph):
                raise UsageError(
                    f"GraphCases: graph must be a function of the batch, not {shown(self.graph)}"
                )
            return self.graph
        if isinstance(self.model, Network):
            raise UsageError(
                "GraphCases: give graph; or use rnn.Arrays to train a single Network on inputs and targets"
            )
        unroll = getattr(self.model, "unroll", None)
        if not callable(unroll) or not takes_what_is_asked(unroll):
            name = type(self.model).__name__
            raise UsageError(
                f"GraphCases: {name} has no unroll(batch, **how); give graph, or use rnn.composed"
            )
        return unroll

    # -- arrays --------------------------------------------------------------------------------

    @property
    def _count(self) -> int:
        return len(self._weights)

    def _fitting(self, argument: str, given: Any) -> tuple[dict[str, Array], int]:
        if not isinstance(given, Mapping) or set(given) != set(self._axes):
            names = ", ".join(map(str, given)) if isinstance(given, Mapping) else shown(given)
            read = ", ".join(self._axes)
            raise DataError(
                f"GraphCases: {argument} must map each input of the graph ({read}) to an array; got {names}"
            )
        found, counts = {}, {}
        for name, node in self._inputs.items():
            array, axis = array_of(f"GraphCases: {argument}: {name}", given[name]), self._axes[name]
            shape = list(node.shape)
            if axis is not None:
                shape[axis] = array.shape[axis] if array.ndim == node.ndim else 0
                counts[name] = shape[axis]
            if list(array.shape) != shape:
                wanted = ", ".join("cases" if i == axis else str(size) for i, size in enumerate(node.shape))
                raise DataError(
                    f"GraphCases: {argument}: {name} must be ({wanted}), for {_told(node)}, not {list(array.shape)}"
                )
            if is_float(node.dtype):
                found[name] = checked_floats(f"GraphCases: {argument}: {name}", array, node.dtype)
                continue
            if array.dtype.kind not in ("iub" if node.dtype.kind == "b" else "iu"):
                raise DataError(
                    f"GraphCases: {argument}: {name} must be {node.dtype}, for {_told(node)}, not {array.dtype}"
                )
            found[name] = array.astype(node.dtype)
            if (found[name] != array).any():
                which = tuple(int(i) for i in np.argwhere(found[name] != array)[0])
                raise DataError(
                    f"GraphCases: {argument}: {name} at {list(which)} is {array[which]}, which {node.dtype} cannot hold"
                )
        if not counts or len(set(counts.values())) > 1 or not all(counts.values()):
            of_each = ", ".join(f"{name} {n}" for name, n in counts.items())
            raise DataError(
                f"GraphCases: all arrays of {argument} must have the same number of cases, at least one; got "
                f"{of_each}"
            )
        if callable(check := getattr(self._graph, "check", None)):
            check(found)
        return found, next(iter(counts.values()))

    def _chosen(self, arrays: Mapping[str, Array], which: Array) -> dict[str, Array]:
        axes = self._axes.items()
        return {n: arrays[n] if axis is None else arrays[n].take(which, axis=axis) for n, axis in axes}

    def _filled(
        self, arrays: Mapping[str, Array], weights: Array, which: Array
    ) -> tuple[dict[str, Array], Array]:
        """Returns these cases, padded with cases of weight 0, and their weights."""
        missing = self.batch - len(which)
        w = np.concatenate([weights[which], np.zeros(missing)])
        return self._chosen(arrays, np.concatenate([which, np.resize(which, missing)])), w

    def _weight_of(self, which: Array) -> float:
        return float(self._weights[which].sum())

    def _arrays_of(self, which: Array, scale: float) -> tuple[Any, ...]:
        return self._fed(*self._filled(self._train, self._weights, which), scale)

    def _fed(self, arrays: Mapping[str, Array], w: Array, scale: float) -> tuple[Any, ...]:
        return (*arrays.values(), (w * scale).astype(self._dtype))

    # -- graphs --------------------------------------------------------------------------------

    def _weighed(self, training: bool) -> tuple[Node, list[Node], list[Node]]:
        """Returns C, the inputs (weights last), and the weight of the cases with metrics, with the weighted metrics."""
        given = self._graph(self.batch, training=training, random=self._random)
        losses, inputs, measured = _read(given, self.batch)
        there = have_steps(given) if isinstance(given, Unrolled) else None
        self._dtype = losses.dtype
        with gn.scope(layer="cost"):
            w = gn.input((self.batch,), losses.dtype, name="w")
            of_metrics = w if there is None else w * there
            # A case without a weight may have the metric NaN.
            values = [gn.cast(value, losses.dtype) for value in measured.values()]
            sums = [gn.sum(gn.where(gn.greater(of_metrics, 0), of_metrics * value, 0)) for value in values]
            return (
                gn.sum(w * losses),
                [*(inputs[name] for name in self._axes), w],
                [gn.sum(of_metrics), *sums],
            )

    # -- interface to a Trainer ----------------------------------------------------------------

    def validate(self) -> float | None:
        if self._valid is None:
            return None
        if self._judge is None:
            cost, inputs, measured = self._weighed(training=False)
            self._judge = gn.compile([cost, *measured], inputs, backend=self.backend, threads=self.threads)
        found = np.zeros(2 + len(self._measured_names))
        scale = 1 / self._valid_weights.sum()
        for which in self._packed(np.arange(len(self._valid_weights))):
            arrays, w = self._filled(self._valid, self._valid_weights, which)
            found += np.array(self._judge(*self._fed(arrays, w, scale)), np.float64)
        self._validated.keep((found[2:] / found[1] if found[1] else np.full_like(found[2:], np.nan)).tolist())
        return float(found[0])

    def metrics(self) -> Mapping[str, Callable[[], float]]:
        """Metrics of the graph, averaged over the validation cases."""
        return self._measured(() if self._valid is None else self._measured_names)

    def description(self) -> dict[str, Any]:
        kept = [*self._train.values(), self._weights, *(self._valid or {}).values(), self._valid_weights]
        return {**super().description(), "data": digest_of(*kept), "graph": self._digest}


def _read(given: Any, batch: int) -> tuple[Node, dict[str, Node], dict[str, Node]]:
    if isinstance(given, Unrolled):
        given.network.require_output("GraphCases: graph")
        given = losses_of_cases(given), measures_of_cases(given)
    losses, measured = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    if not isinstance(losses, Node) or losses.shape != (batch,) or not is_float(losses.dtype):
        what = _told(losses) if isinstance(losses, Node) else shown(losses)
        raise UsageError(
            f"GraphCases: graph must return an Unrolled, the losses of the cases ({batch},), or (losses, metrics by "
            f"name), not {what}; sum losses of time steps by gn.sum(losses, axis=0)"
        )
    if not isinstance(measured, Mapping) or not all(isinstance(node, Node) for node in measured.values()):
        raise UsageError(
            f"GraphCases: the metrics that graph returns must be nodes by name, not {shown(measured)}"
        )
    for name, node in measured.items():
        if node.shape != (batch,):
            raise UsageError(
                f"GraphCases: the metric {name} must have one value for each case, ({batch},), not {_told(node)}"
            )
    return losses, _inputs(losses, measured), dict(measured)


def _inputs(losses: Node, measured: Mapping[str, Node]) -> dict[str, Node]:
    read = [node for node in ancestors([losses]) if node.op.is_input]
    found: dict[str, Node] = {}
    for node in sorted(read, key=lambda node: node.serial):
        name = node.name or ""
        if not name:
            raise UsageError(f"GraphCases: the input {_told(node)} has no name; use gn.input(..., name=...)")
        if name in found:
            raise UsageError(
                f"GraphCases: two inputs have the name {name!r} (made at {found[name].origin} and {node.origin}); "
                "rename one, e.g. network.unroll(..., inputs='word')"
            )
        found[name] = node
    for name, value in measured.items():
        for node in ancestors([value]):
            if node.op.is_input and node not in read:
                raise UsageError(
                    f"GraphCases: the metric {name} depends on {_told(node)}, but the losses do not; use only "
                    "inputs of the losses"
                )
    return found


def _told(node: Node) -> str:
    return f"{node.describe()} (made at {node.origin})"


def _axis(name: str, one: Node, other: Node) -> int | None:
    """Returns the case axis, on which batches of two sizes differ."""
    differ = [i for i, (a, b) in enumerate(zip(one.shape, other.shape, strict=False)) if a != b]
    if one.ndim != other.ndim or len(differ) > 1 or (differ and one.shape[differ[0]] != 2):
        raise UsageError(
            f"GraphCases: {name} must have exactly one axis of cases; its shape is {list(one.shape)} for 2 cases "
            f"and {list(other.shape)} for 3 (made at {one.origin})"
        )
    return differ[0] if differ else None


def _checked_weights(weights: Any, count: int) -> Array:
    if weights is None:
        return np.ones(count)
    w = checked_floats("GraphCases: weights", array_of("GraphCases: weights", weights), np.float64)
    if w.shape != (count,) or w.min() < 0:
        raise DataError(f"GraphCases: weights must be ({count},), at least 0, not {list(w.shape)}")
    return w
