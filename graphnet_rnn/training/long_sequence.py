"""LongSequence: the cost of one long sequence, differentiated exactly, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.optimizers.objective import flat_parts
from graphnet_rnn.riemannian.blocks import Solver
from graphnet_rnn.riemannian.metrics import Metric, OverCost, asked_for, hidden_unit_count
from graphnet_rnn.riemannian.moduli import Carry
from graphnet_rnn.settings import whole_number, yes_or_no

__all__ = ["LongSequence"]


class LongSequence:
    """C = the mean of the losses over all T steps of one sequence (of a few side by side), however large T is

    Memory is that of a piece of `time` steps, and of the states between pieces: forwards they are computed and kept,
    backwards each piece gives what it makes of the slopes at its end to the piece before. So gradients are those of all
    T steps, not truncated ones, and so are metrics, whose slopes and random signs are carried back, too.
    network: without dropout, and with a loss of each step. time: steps of a piece; batch: how many sequences.
    predict_first: see Network.unroll. The initial states are the network's, zero or learned.

        objective = rnn.LongSequence(network, time=500)
        objective.feed(x, t)                     # (T, batch), and (T, batch), or one more with predict_first
        rnn.minimize(objective, rnn.Riemannian("qdruop"), steps=100)

    Every optimizer that asks for the loss, the gradient or a metric can have it; Hessian-free asks for curvature, which
    it has not. Raises UsageError for a network or arrays that do not fit.
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
            raise UsageError("LongSequence: a network with dropout has no one cost; make it without")
        if not network.causal or network.loss == "ctc":
            raise UsageError(
                "LongSequence: the network must read no later input, and have a loss of each step; train it by "
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
        self._kinds: dict[tuple[bool, int], _Piece] = {}
        self._fed: list[tuple[_Piece, Array, Array]] = []
        self._count = 0

    # -- the vector ----------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return sum(node.size for node in self.parameters)

    @property
    def slices(self) -> list[slice]:
        """Where each parameter lies in the vector."""
        return flat_parts(self.parameters)

    @property
    def units(self) -> int:
        """See Objective.units."""
        first = self._first
        return hidden_unit_count(first.cost, self.parameters)

    def start(self) -> Array:
        """The present parameters as a new vector."""
        return self.network.theta.copy()

    def place(self, vector: Array) -> Array:
        """A copy of the vector."""
        return np.array(vector, self.network.dtype)

    def set(self, w: Array) -> None:
        """Gives the parameters the values of the vector."""
        self.network.theta = w

    def penalty(self, w: Array) -> float:
        """0: there is no weight decay."""
        return 0.0

    # -- the sequence --------------------------------------------------------------------------

    def feed(self, x: Any, t: Any) -> None:
        """Sets what is read, (T, batch, ...), and what is to be said, (T, batch, ...), one more with predict_first.

        Both are read where they lie, as they may be larger than memory: leave them as they are until the next feed.
        """
        x, t = np.asarray(x), np.asarray(t)
        more = int(self.predict_first)
        if x.ndim < 2 or t.ndim < 2 or x.shape[1] != self.batch or t.shape[1] != self.batch:
            raise UsageError(
                f"LongSequence.feed: arrays must be (T, {self.batch}, ...), not {list(x.shape)} and {list(t.shape)}"
            )
        if len(x) < 1 or len(t) != len(x) + more:
            raise UsageError(
                f"LongSequence.feed: {len(x)} inputs go with {len(x) + more} targets, not {len(t)}"
            )
        self._fed, self._count = [], len(t) * self.batch
        for start in range(0, len(x), self.time):
            rows = slice(start, min(start + self.time, len(x)))
            judged = slice(0 if start == 0 else start + more, rows.stop + more)
            piece = self._piece(start == 0, rows.stop - rows.start)
            self._fed.append((piece, x[rows], t[judged]))

    def _piece(self, first: bool, length: int) -> _Piece:
        """The first is another one where it begins with learned states, or says something before it reads."""
        differs = first and (self.predict_first or self.network.initial_state == "learned")
        key = differs, length
        if key not in self._kinds:
            self._kinds[key] = _Piece(self, differs, length)
        return self._kinds[key]

    @property
    def _first(self) -> _Piece:
        if not self._fed:
            raise UsageError("LongSequence: feed it a sequence first")
        return self._fed[0][0]

    # -- what optimizers call ------------------------------------------------------------------

    def loss(self, w: Array) -> float:
        """C(w)"""
        return sum(float(losses.sum(dtype=np.float64)) for losses, _ in self._forwards(w)) / self._count

    def losses(self, w: Array) -> Array:
        """The loss of each step and sequence, (T, batch), one more with predict_first."""
        return np.concatenate([losses for losses, _ in self._forwards(w)])

    def gradient(self, w: Array) -> tuple[float, Array]:
        """C(w) and ∇C(w)"""
        loss, g, _ = self._backwards(w, None, "all", 0)
        return loss, g

    def metric(
        self, w: Array, metric: Metric, part: str = "all", draw: int = 0
    ) -> tuple[float, Array, Array]:
        """C(w), ∇C(w) and the numbers of the metric, see Objective.metric; those of all T steps.

        Raises UsageError for metrics that need more than a piece and what is carried to it.
        """
        draw = whole_number("LongSequence.metric: draw", draw, least=0)
        return self._backwards(w, self._metric("metric", metric, part), part, draw)

    def metric_size(self, metric: Metric, part: str = "all") -> int:
        """How many numbers the metric is."""
        return self._first.measure(self._metric("metric_size", metric, part), part).over.size

    def metric_solver(self, metric: Metric, part: str, numbers: Array, damping: float = 0.0) -> Solver:
        """See Objective.metric_solver."""
        over = self._first.measure(self._metric("metric_solver", metric, part), part).over
        found: Solver = over.flat_solver("LongSequence.metric_solver", numbers, damping)
        return found

    def redraw(self) -> None:
        """Nothing is drawn."""

    def explain_non_finite(self) -> None:
        """In which piece a number broke is not looked for."""

    # -- pieces --------------------------------------------------------------------------------

    def _metric(self, method: str, metric: Metric, part: str) -> Metric:
        metric = asked_for(f"LongSequence.{method}", metric, part)
        if not metric.by_pieces:
            raise UsageError(
                f"LongSequence.{method}: {metric} needs derivatives from step to step beyond a piece; take "
                "Backpropagated(estimate='probe'), OuterProduct() or Kronecker()"
            )
        return metric

    def _forwards(self, w: Array) -> Iterator[tuple[Array, list[Array]]]:
        """The losses of each piece, and the states before it."""
        states = self._first.first_states()
        self.set(w)
        for piece, x, t in self._fed:
            before = states
            losses, *states = piece.forward(x, t, *before)
            yield losses, before

    def _backwards(self, w: Array, metric: Metric | None, part: str, draw: int) -> tuple[float, Array, Array]:
        kept = list(self._forwards(w))
        widths = [width for _, width in self.network.state_names()]
        slopes, random = (
            [np.zeros((self.batch, width), self.network.dtype) for width in widths] for _ in range(2)
        )
        whole = self._first.measure(metric, part).over
        g, numbers = np.zeros(self.size), np.zeros(0 if metric is None else whole.size)
        for number, ((piece, x, t), (_, states)) in reversed(
            list(enumerate(zip(self._fed, kept, strict=True)))
        ):
            measure = piece.measure(metric, part)
            measure.over.random.draw = draw * len(self._fed) + number
            more, slopes, random, found = measure(x, t, states, slopes, random)
            g += more
            if metric is not None:
                numbers += measure.over.placed(found, whole, t.shape[0] * self.batch)
        if metric is not None:
            whole.rescale(numbers, self._count)
        loss = sum(float(losses.sum(dtype=np.float64)) for losses, _ in kept) / self._count
        return loss, (g / self._count).astype(w.dtype), numbers


class _Piece:
    """The graph of a piece: what it computes forwards, and backwards with what is carried to its end."""

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
        self.cost = gn.sum(self.u.losses)
        #: x, t, and the states before, if they are given; and how functions are compiled.
        self.fed = [self.u.inputs, self.u.targets, *([] if self.learned else self.u.initial)]
        self.how: dict[str, Any] = {"backend": owner.backend, "threads": owner.threads}
        self.forward: Callable[..., Any] = gn.compile([self.u.losses, *self.u.final], self.fed, **self.how)
        self._measures: dict[str, _Measure] = {}

    def first_states(self) -> list[Array]:
        """What begins the sequence; learned states are in the graph."""
        return [] if self.learned else self.owner.network.zero_states(self.owner.batch)

    def measure(self, metric: Metric | None, part: str) -> _Measure:
        key = f"{metric} {part}"
        if key not in self._measures:
            self._measures[key] = _Measure.of(self, metric, part)
        return self._measures[key]


@dataclass
class _Measure:
    """A piece's gradient, and a metric of it, as one function."""

    over: Any
    function: Callable[..., Any]
    parameters: list[Node]
    given: int
    weights: list[Node] = field(default_factory=list)

    @classmethod
    def of(cls, piece: _Piece, metric: Metric | None, part: str) -> _Measure:
        u, parameters = piece.u, piece.owner.parameters
        states = piece.fed[2:]
        shapes = [(node.shape, node.dtype) for node in u.final]
        slopes, random = ([gn.input(s, d, name=name) for s, d in shapes] for name in ("slope", "random"))
        carry = Carry(
            dict(zip(u.final, slopes, strict=True)), dict(zip(u.final, random, strict=True)), states
        )
        over: OverCost | _Nothing = _Nothing(parameters)
        if metric is not None:
            over = OverCost(metric, piece.cost, parameters, part, carry)
        wanted = over.weights
        g = gn.backward({piece.cost: 1.0, **carry.slopes}, [*wanted, *states])
        back = carry.random_back or [gn.fill(0, s, d) for s, d in shapes[: len(states)]]
        outputs = [*g, *back, *over.nodes()]
        function = gn.compile(outputs, [*piece.fed, *slopes, *random], **piece.how)
        return cls(over, function, parameters, len(states), list(wanted))

    def __call__(
        self, x: Array, t: Array, states: list[Array], slopes: list[Array], random: list[Array]
    ) -> tuple[Array, list[Array], list[Array], Array]:
        """The gradient of the summed cost, what is carried to the piece before, and the numbers of the metric."""
        found = self.function(x, t, *states, *slopes, *random)
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


class _Nothing:
    """No metric: nothing is measured."""

    def __init__(self, weights: list[Node]) -> None:
        self.weights = weights
        self.random = gn.RandomSource(0)

    def nodes(self) -> list[Node]:
        return []
