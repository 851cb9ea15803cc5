"""LongSequence: the exact gradient of one long sequence, computed segment by segment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.running import array_of, checked_floats
from graphnet_rnn.optimizers.parameter_vector import flat_parts
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.losses import Carry
from graphnet_rnn.riemannian.metrics import Metric, asked_for
from graphnet_rnn.riemannian.over_cost import OverCost, hidden_unit_count
from graphnet_rnn.settings import shown, whole_number, yes_or_no


class LongSequence:
    """C = Σ w L / Σ w over all T steps of one sequence (or a few in parallel), for any T

    L is the loss of a step, and w its weight, 1 by default: then C is the mean.

    Memory holds one segment of `time` steps, and the states between segments: the forward pass stores the states, the
    backward pass carries the gradient from each segment to the one before. Gradients are those of all T steps, not
    truncated, and so are metrics.

    network: without dropout, with a loss of each time step.
    time: time steps of a segment, default 500.
    batch: number of parallel sequences, default 1.
    predict_first: True to predict the first symbol before any input, see Network.unroll; default False.
    backend, threads: see gn.compile.

    The initial states are the network's, zero or learned. Optimizers that use the loss, the gradient or a metric can
    minimize it; Hessian-free optimization needs the curvature, which is not available. Raises UsageError for a network
    or arrays that do not fit.

    >>> net = rnn.Network([rnn.Elman(4)], inputs=2, outputs=2)
    >>> objective = rnn.LongSequence(net, time=50)
    >>> x = np.arange(201)[:, np.newaxis] % 2  # (T, batch)
    >>> objective.feed(x[:-1], x[1:])
    >>> loss, gradient = objective.gradient(objective.start())
    >>> gradient.shape == (objective.size,)
    True
    >>> w = objective.start()
    >>> bool(np.isclose(objective.loss(w), objective.losses(w).mean()))
    True
    >>> even = np.arange(200)[:, np.newaxis] % 2 == 0
    >>> objective.feed(x[:-1], x[1:], weights=even)  # only the steps 0, 2, ... count
    >>> bool(np.isclose(objective.loss(w), objective.losses(w)[even].mean()))
    True
    >>> metric = rnn.riemannian.OuterProduct()
    >>> loss, gradient, numbers = objective.metric(w, metric)
    >>> numbers.shape == (objective.metric_size(metric),)
    True
    >>> step = objective.metric_solver(metric, "all", numbers, damping=0.1)(gradient)
    >>> objective.set(objective.place(w - 0.1 * step))
    >>> try:
    ...     objective.curvature(w)
    ... except rnn.errors.UsageError as error:
    ...     print(str(error)[:30])
    LongSequence has no curvature
    >>> objective.penalty(w), objective.redraw(), objective.explain_non_finite()  # no l2, no dropout
    (0.0, None, '')
    """

    def __init__(
        self,
        network: Network,
        time: int = 500,
        batch: int = 1,
        predict_first: bool = False,
        backend: str = "numba",
        threads: int | None = None,
    ) -> None:
        require_network("LongSequence", network)
        if network.dropout or network.recurrent_dropout:
            raise UsageError(
                "LongSequence: the network must not have dropout, which makes the cost random; create it without"
            )
        if not network.causal or network.loss == "ctc":
            raise UsageError(
                "LongSequence: the network must be causal, and have a loss at each time step; for others use "
                "rnn.Objective(..., memory='sqrt')"
            )
        network.require_each_step("LongSequence")
        self.network = network
        self.time = whole_number("LongSequence: time", time)
        self.batch = whole_number("LongSequence: batch", batch)
        self.predict_first = yes_or_no("LongSequence: predict_first", predict_first)
        self.backend = backend
        self.threads = None if threads is None else whole_number("LongSequence: threads", threads)
        self.parameters = list(network.parameters.values())
        self.names = list(network.parameters)
        self._kinds: dict[tuple[bool, int], _Piece] = {}
        #: Each segment with its inputs, targets and weights.
        self._fed: list[tuple[_Piece, Array, Array, Array]] = []
        self._total = 0.0

    # -- the vector ----------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(node.size for node in self.parameters)

    @property
    def slices(self) -> list[slice]:
        """Position of each parameter in the vector."""
        return flat_parts(self.parameters)

    @property
    def units(self) -> int:
        """See Objective.units."""
        first = self._first
        return hidden_unit_count(first.cost, self.parameters)

    def start(self) -> Array:
        """Returns the present parameters as a new vector."""
        return self.network.theta.copy()

    def place(self, vector: Array) -> Array:
        """Copies a vector."""
        return np.array(vector, self.network.dtype)

    def set(self, w: Array) -> None:
        """Sets the parameters to the values of the vector `w`."""
        self.network.theta = w

    def penalty(self, w: Array) -> float:
        """Returns 0 for any `w`: there is no l2."""
        return 0.0

    # -- the sequence --------------------------------------------------------------------------

    def feed(self, x: Any, t: Any, weights: Any = None) -> None:
        """Sets the inputs x, (T, batch, ...), and the targets t, (T, batch, ...), one more with predict_first.

        weights: one of each target, (targets, batch), at least 0; default None, all 1. A target of weight 0 may be NaN.
        x and t are not copied, since they may be larger than memory: do not change them until the next feed. Raises
        UsageError or DataError for arrays that do not fit.
        """
        x, t = array_of("LongSequence.feed: x", x), array_of("LongSequence.feed: t", t)
        more = int(self.predict_first)
        if x.ndim < 2 or t.ndim < 2 or x.shape[1] != self.batch or t.shape[1] != self.batch:
            raise UsageError(
                f"LongSequence.feed: arrays must be (T, {self.batch}, ...), not {list(x.shape)} and {list(t.shape)}"
            )
        if len(x) < 1 or len(t) != len(x) + more:
            raise UsageError(
                f"LongSequence.feed: {len(x)} inputs need {len(x) + more} targets, at least one; got {len(t)}"
            )
        w = None if weights is None else self._checked_weights(weights, len(t))
        self._fed, self._total = [], len(t) * self.batch if w is None else float(w.sum(dtype=np.float64))
        for start in range(0, len(x), self.time):
            rows = slice(start, min(start + self.time, len(x)))
            judged = slice(0 if start == 0 else start + more, rows.stop + more)
            piece = self._piece(start == 0, rows.stop - rows.start)
            self._fed.append((piece, x[rows], t[judged], piece.ones if w is None else w[judged]))

    def _checked_weights(self, weights: Any, count: int) -> Array:
        """Weights of the summed cost: scaled by Σ w / Σ w², which is 1 for weights 0 and 1."""
        what = "LongSequence.feed: weights"
        w = checked_floats(what, array_of(what, weights), np.float64)
        if w.shape != (count, self.batch) or not (w >= 0).all() or not w.any():
            raise UsageError(
                f"{what} must be an array ({count}, {self.batch}) of numbers at least 0, and not all 0, not "
                f"{shown(weights)}"
            )
        w /= w.max()
        return np.asarray(w * (w.sum() / (w**2).sum()), self.network.dtype)

    def _piece(self, first: bool, length: int) -> _Piece:
        """Returns the compiled segment; the first differs if states are learned, or with predict_first."""
        differs = first and (self.predict_first or self.network.initial_state == "learned")
        key = differs, length
        if key not in self._kinds:
            self._kinds[key] = _Piece(self, differs, length)
        return self._kinds[key]

    @property
    def _first(self) -> _Piece:
        if not self._fed:
            raise UsageError("LongSequence: call feed(x, t) first")
        return self._fed[0][0]

    # -- what optimizers call ------------------------------------------------------------------

    def loss(self, w: Array) -> float:
        """C(w)"""
        return self._mean(losses for losses, _ in self._forwards(w))

    def losses(self, w: Array) -> Array:
        """Returns the losses at the parameters `w`, (T, batch), one more with predict_first; without their weights."""
        return np.concatenate([losses for losses, _ in self._forwards(w)])

    def gradient(self, w: Array) -> tuple[float, Array]:
        """C(w) and ∇C(w)"""
        loss, g, _ = self._backwards(w, None, "all", 0)
        return loss, g

    def metric(
        self, w: Array, metric: Metric, part: str = "all", draw: int = 0
    ) -> tuple[float, Array, Array]:
        """Returns C(w), ∇C(w) and the numbers of the metric over all T steps.

        metric, part, draw: see Objective.metric. Raises UsageError for metrics that cannot be carried between segments.
        """
        draw = whole_number("LongSequence.metric: draw", draw, least=0)
        return self._backwards(w, self._metric("metric", metric, part), part, draw)

    def metric_size(self, metric: Metric, part: str = "all") -> int:
        """Returns the number of numbers of the metric. metric, part: see Objective.metric."""
        return self._first.measure(self._metric("metric_size", metric, part), part).over.size

    def metric_solver(self, metric: Metric, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        """See Objective.metric_solver: metric, part, numbers, damping."""
        over = self._first.measure(self._metric("metric_solver", metric, part), part).over
        found: Solver = over.flat_solver("LongSequence.metric_solver", numbers, damping)
        return found

    def redraw(self) -> None:
        """Nothing is drawn."""

    def explain_non_finite(self) -> str:
        """Names the first of x and t that holds NaN or infinity, with its time step; "" if none."""
        for name, place in (("x", 1), ("t", 2)):
            start = 0
            for piece, x, t, weights in self._fed:
                array = x if place == 1 else piece.targets(t, weights)
                if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
                    step = start + int(np.argwhere(~finite)[0][0])
                    return f"{name} holds NaN or infinity at time step {step}"
                start += len(array)
        return ""

    def curvature(self, w: Array, structural: float = 0.0) -> NoReturn:
        """Raises UsageError: the curvature at `w`, with `structural` damping or without, is not available."""
        raise UsageError(
            "LongSequence has no curvature for Hessian-free optimization; use an optimizer that reads gradients or a "
            "metric, or rnn.Objective(..., memory='sqrt')"
        )

    # -- pieces --------------------------------------------------------------------------------

    def _metric(self, method: str, metric: Metric, part: str) -> Metric:
        metric = asked_for(f"LongSequence.{method}", metric, part)
        if not metric.by_pieces:
            raise UsageError(
                f"LongSequence.{method}: {metric} needs derivatives across segments; use "
                "Backpropagated(estimate='probe'), OuterProduct() or Kronecker()"
            )
        return metric

    def _mean(self, pieces: Iterable[Array]) -> float:
        """Weighted mean of the losses of all segments."""
        fed = zip(pieces, self._fed, strict=True)
        return sum(float((w * losses).sum(dtype=np.float64)) for losses, (*_, w) in fed) / self._total

    def _forwards(self, w: Array) -> Iterator[tuple[Array, list[Array]]]:
        states = self._first.first_states()
        self.set(w)
        for piece, x, t, weights in self._fed:
            before = states
            losses, *states = piece.forward(x, piece.targets(t, weights), *before)
            yield losses, before

    def _backwards(self, w: Array, metric: Metric | None, part: str, draw: int) -> tuple[float, Array, Array]:
        kept = list(self._forwards(w))
        widths = [width for _, width in self.network.state_names()]
        slopes, random = (
            [np.zeros((self.batch, width), self.network.dtype) for width in widths] for _ in range(2)
        )
        whole = self._first.measure(metric, part).over
        g, numbers = np.zeros(self.size), np.zeros(0 if metric is None else whole.size)
        for number, ((piece, x, t, weights), (_, states)) in reversed(
            list(enumerate(zip(self._fed, kept, strict=True)))
        ):
            measure = piece.measure(metric, part)
            measure.over.random.draw = draw * len(self._fed) + number
            more, slopes, random, found = measure(
                x, piece.targets(t, weights), weights, states, slopes, random
            )
            g += more
            if metric is not None:
                numbers += measure.over.placed(found, whole)
        if metric is not None:
            whole.rescale(numbers, self._total)
        loss = self._mean(losses for losses, _ in kept)
        return loss, (g / self._total).astype(w.dtype), numbers


class _Piece:
    """The compiled functions of a segment: forward, and backward with the gradient carried to its end."""

    def __init__(self, owner: LongSequence, differs: bool, length: int) -> None:
        network = owner.network
        self.owner, self.learned = owner, differs and network.initial_state == "learned"
        initial = "learned" if self.learned else "given"
        self.u = network.unroll(
            length,
            owner.batch,
            training=False,
            initial=initial,
            predict_first=differs and owner.predict_first,
        )
        losses = self.u.losses
        self.weights, self.ones = (
            gn.input(losses.shape, losses.dtype, name="w"),
            np.ones(losses.shape, losses.dtype),
        )
        self.cost = gn.sum(self.weights * losses)
        #: x, t, and the states before, if they are given; and how functions are compiled.
        self.fed = [self.u.inputs, self.u.targets, *([] if self.learned else self.u.initial)]
        self.how: dict[str, Any] = {"backend": owner.backend, "threads": owner.threads}
        self.forward: Callable[..., Any] = gn.compile([self.u.losses, *self.u.final], self.fed, **self.how)
        self._measures: dict[str, _Measure] = {}

    def targets(self, t: Array, weights: Array) -> Array:
        """The targets, with 0 for those of weight 0 that may be NaN."""
        if weights is self.ones or t.dtype.kind != "f" or weights.all():
            return t
        return np.where((weights == 0).reshape(weights.shape + (1,) * (t.ndim - 2)), 0, t).astype(t.dtype)

    def first_states(self) -> list[Array]:
        """Returns zero states for the start of the sequence; learned states are in the graph."""
        return [] if self.learned else self.owner.network.zero_states(self.owner.batch)

    def measure(self, metric: Metric | None, part: str) -> _Measure:
        key = f"{metric} {part}"
        if key not in self._measures:
            self._measures[key] = _Measure.of(self, metric, part)
        return self._measures[key]


@dataclass
class _Measure:
    over: Any
    function: Callable[..., Any]
    parameters: list[Node]
    given: int
    weights: list[Node] = field(default_factory=list)

    @classmethod
    def of(cls, piece: _Piece, metric: Metric | None, part: str) -> _Measure:
        u, parameters = piece.u, piece.owner.parameters
        x, t, *states = piece.fed
        shapes = [(node.shape, node.dtype) for node in u.final]
        slopes, random = ([gn.input(s, d, name=name) for s, d in shapes] for name in ("slope", "random"))
        carry = Carry(_summed(u.final, slopes), _summed(u.final, random), states)
        over: OverCost | _Nothing = _Nothing(parameters)
        if metric is not None:
            over = OverCost(metric, piece.cost, parameters, part, carry)
        wanted = over.weights
        g = gn.backward({piece.cost: 1.0, **carry.slopes}, [*wanted, *states])
        back = carry.random_back or [gn.fill(0, s, d) for s, d in shapes[: len(states)]]
        outputs = [*g, *back, *over.nodes()]
        function = gn.compile(outputs, [x, t, piece.weights, *states, *slopes, *random], **piece.how)
        return cls(over, function, parameters, len(states), list(wanted))

    def __call__(
        self, x: Array, t: Array, w: Array, states: list[Array], slopes: list[Array], random: list[Array]
    ) -> tuple[Array, list[Array], list[Array], Array]:
        """Returns the gradient of the summed cost, the gradient for the segment before, and the metric's numbers."""
        found = self.function(x, t, w, *states, *slopes, *random)
        count, n = len(self.weights), self.given
        by_weight = dict(zip(self.weights, found[:count], strict=True))
        whole = [
            np.asarray(by_weight[p], np.float64).ravel() if p in by_weight else np.zeros(p.size)
            for p in self.parameters
        ]
        rest = [np.asarray(each) for each in found[count + 2 * n :]]
        numbers = np.concatenate(rest).astype(np.float64) if rest else np.zeros(0)
        return (
            np.concatenate(whole),
            list(found[count : count + n]),
            list(found[count + n : count + 2 * n]),
            numbers,
        )


def _summed(nodes: Sequence[Node], cotangents: Sequence[Node]) -> dict[Node, Node]:
    """Cotangents by node; their sum for a node that is several states."""
    found: dict[Node, Node] = {}
    for node, each in zip(nodes, cotangents, strict=True):
        found[node] = found[node] + each if node in found else each
    return found


class _Nothing:
    def __init__(self, weights: list[Node]) -> None:
        self.weights = weights
        self.random = gn.RandomSource(0)

    def nodes(self) -> list[Node]:
        return []
