"""RecurrentNADE: frames of bits that depend on each other and on the frames before, with an exact likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.cell import initializers
from graphnet_rnn.cell.initializers import Initializer
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.model import Model, seed_of
from graphnet_rnn.models.energy.units import sigmoid
from graphnet_rnn.models.frames import before, require_network_of_frames
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import Runner, inputs_and_lengths
from graphnet_rnn.settings import shown, whole_number, yes_or_no


def conditional_logits(v: Node, b: Node, c: Node, W: Node, V: Node) -> Node:
    """o_i = b_i + σ(a_i) · V_i,  a_1 = c,  a_{i+1} = a_i + v_i W_i:  P(v_i = 1 | v_1 ... v_{i-1}) = σ(o_i)

    v, b: (rows, bits). c: (rows, hidden). W, V: (bits, hidden). Result: (rows, bits). o_i depends on no later bit, so
    -log P(v) = Σ_i sigmoid_cross_entropy(o_i, v_i) in nats, exactly; its curvature is that of this loss at o.
    Source: Larochelle & Murray 2011, eqs 3-5; biases of each row: Boulanger-Lewandowski, Bengio & Vincent 2012.
    """
    bits = gn.transpose(v)
    return _logits(b, c, W, V, lambda i, o: bits[i], gn.sigmoid, gn)


def _logits(
    b: Any, c: Any, W: Any, V: Any, bit: Callable[[int, Any], Any], squash: Callable[[Any], Any], of: Any
) -> Any:
    """The equations for nodes or arrays: `of` is gn or np; bit(i, o_i) returns v_i, (rows,)."""
    a, logits = c, []
    for i in range(W.shape[0]):
        o = b[:, i] + of.sum(squash(a) * V[i], axis=1)
        logits.append(o)
        a = a + bit(i, o)[:, None] * W[i]
    return of.stack(logits, axis=1)


class RecurrentNADE(Model):
    """P(v_1 ... v_T) = Π_t Π_i P(v_ti | v_t1 ... v_t,i-1, h_t),  h_t of a network that has read v_1 ... v_{t-1}

    network: causal, with outputs=0; its inputs are the bits of a frame, and zeros before the first frame. hidden: units
    of the NADE, 100 by default; 0 for bits that are independent given the past (a logistic output). seed: of the
    initial parameters, 0 by default. initial: initializers by patterns of names (W_hb W_hc b c W V). values: parameters
    by name instead of initial ones.
    b_t = b + h_t W_hb and c_t = c + h_t W_hc are the biases of `conditional_logits`, whose result is o_t. Unlike that
    of an RBM on the same h_t (RNN-RBM), the likelihood of the dependent bits is exact.
    Raises UsageError, DataError.
    Source: Boulanger-Lewandowski, Bengio & Vincent 2012, RNN-NADE; Larochelle & Murray 2011, NADE.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=5, outputs=0, reads="vectors")
    >>> model = rnn.RecurrentNADE(net, hidden=3)
    >>> frames = model.sample(time=2)
    >>> frames.shape, model.log_probabilities(frames).shape
    ((2, 1, 5), (2, 1))
    >>> model.predict(frames).shape
    (2, 1, 5)
    >>> v = gn.input((2, 1, 5), name="v")
    >>> losses, _ = model.unroll(v)
    >>> found = gn.compile(losses, [v], backend="numpy")(frames)
    >>> np.allclose(found, -model.log_probabilities(frames), atol=1e-5)
    True
    >>> arrays = {"v": np.ones((6, 20, 5)), "lengths": np.full(20, 6)}
    >>> problem = rnn.GraphCases(model, arrays, graph=model.cases(time=6), backend="numpy")
    >>> rnn.Trainer(problem, rnn.Training(epochs=1)).run().steps
    1
    """

    def __init__(
        self,
        network: Network,
        hidden: int = 100,
        seed: int = 0,
        initial: Mapping[str, Initializer] | None = None,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        self.network = require_network_of_frames("RecurrentNADE", network)
        self.hidden = whole_number("RecurrentNADE: hidden", hidden, least=0)
        self.seed, self.bits = seed_of("RecurrentNADE", seed), network.inputs
        self.declare_parameters(self._declared(), self.seed, network.dtype, initial, values)
        self._runner: Runner | None = None

    def _declared(self) -> dict[str, tuple[tuple[int, ...], Initializer | None]]:
        units, bits, hidden = self.network.layers[-1].output_width, self.bits, self.hidden
        declared: dict[str, tuple[tuple[int, ...], Initializer | None]] = {
            "W_hb": ((units, bits), None),
            "b": ((bits,), initializers.zeros()),
        }
        if hidden:
            declared |= {
                "W_hc": ((units, hidden), None),
                "c": ((hidden,), initializers.zeros()),
                "W": ((bits, hidden), initializers.normal(0.1)),
                "V": ((bits, hidden), initializers.normal(0.1)),
            }
        return declared

    # -- nodes ---------------------------------------------------------------------------------

    def unroll(self, v: Node, lengths: bool | str | Node = False, **how: Any) -> tuple[Node, Node | None]:
        """-log P(v_t | v_1 ... v_{t-1}) in nats, (time, batch), 0 in the padding, for frames (time, batch, bits)

        v: node (time, batch, bits). lengths, how: as in Network.unroll, which unrolls the network over the frames
        before. Also returns the node of the lengths, or None. Raises UsageError.
        """
        if not isinstance(v, Node) or v.ndim != 3 or v.shape[2] != self.bits:
            what = f"{v.describe()} (made at {v.origin})" if isinstance(v, Node) else shown(v)
            raise UsageError(f"RecurrentNADE.unroll: v must be a node (time, batch, {self.bits}), not {what}")
        time, batch, bits = v.shape
        u = self.network.unroll(
            time,
            batch,
            initial=self.network.initial_state,
            lengths=lengths,
            inputs=before(v, gn),
            name="past",
            **how,
        )
        with gn.scope(layer="output"):
            h = gn.reshape(u.hidden[-1], (time * batch, u.hidden[-1].shape[2]))
            rows = gn.reshape(v if u.ends is None else u.ends.cut(v), (time * batch, bits))
            o = self._of_past(rows, h)
        with gn.scope(layer="cost"):
            losses = gn.reshape(gn.sum(gn.sigmoid_cross_entropy(o, rows), axis=1), (time, batch))
            return (losses if u.ends is None else u.ends.cut(losses)), u.lengths

    def _of_past(self, rows: Node, h: Node) -> Node:
        p = self.parameters
        b = h @ p["W_hb"] + p["b"]
        return conditional_logits(rows, b, h @ p["W_hc"] + p["c"], p["W"], p["V"]) if self.hidden else b

    def cases(self, time: int) -> Callable[..., Node]:
        """Function for rnn.GraphCases: -log P of each sequence of up to `time` frames, in nats

        Its arrays are "v" (time, cases, bits), 0 or 1, and "lengths" (cases,).
        """
        return _Cases(self, whole_number("RecurrentNADE: time", time))

    def __graph__(self) -> gn.Graph:
        """-log P of two frames of a sequence, for drawing; with many bits a long chain."""
        v = gn.input((2, 1, self.bits), self.network.dtype, name="v")
        losses, _ = self.unroll(v, training=False)
        return gn.Graph([gn.label(losses, "−log P")], [v])

    # -- arrays --------------------------------------------------------------------------------

    def log_probabilities(self, v: Any, lengths: Any = None) -> Array:
        """log P(v_t | v_1 ... v_{t-1}) in nats, (time, batch), 0 in the padding.

        v: bits (time, batch, bits). lengths: (batch,); None: all time steps.
        """
        x, ends = self._checked("log_probabilities", v, lengths)
        b, c = self._biases(x, ends)
        rows = x.reshape(-1, self.bits)
        o = self._chosen(b, c, lambda i, _: rows[:, i]).astype(np.float64)
        found = -(np.maximum(o, 0) - o * rows + np.log1p(np.exp(-np.abs(o)))).sum(axis=1).reshape(x.shape[:2])
        return found if ends is None else np.where(np.arange(len(x))[:, None] < ends, found, 0)

    def predict(self, v: Any, lengths: Any = None, drawn: bool = False, seed: int = 0) -> Array:
        """Predicts a frame for each t from v_1 ... v_{t-1}: bits (time, batch, bits).

        v: bits (time, batch, bits); frame t is not used for its own prediction. lengths: (batch,); None: all time
        steps. drawn: True draws each bit, False (default) takes the likelier value bit by bit. seed: of the random
        numbers.
        """
        x, ends = self._checked("predict", v, lengths)
        generator = np.random.default_rng(whole_number("RecurrentNADE.predict: seed", seed, least=0))
        drawn = yes_or_no("RecurrentNADE.predict: drawn", drawn)
        return self._frames(*self._biases(x, ends), generator if drawn else None).reshape(x.shape)

    def sample(self, time: int, batch: int = 1, warm_up: Any = None, seed: int = 0) -> Array:
        """Draws `time` new frames of each sequence, (time, batch, bits).

        batch: number of sequences, 1 by default. warm_up: frames to read first, (steps, batch, bits); not part of the
        result. seed: of the random numbers.
        """
        time = whole_number("RecurrentNADE.sample: time", time)
        batch = whole_number("RecurrentNADE.sample: batch", batch)
        generator = np.random.default_rng(whole_number("RecurrentNADE.sample: seed", seed, least=0))
        read = np.zeros((1, batch, self.bits), self.network.dtype)
        if warm_up is not None:
            x, _ = self._checked("sample: warm_up", warm_up, None)
            if x.shape[1] != batch:
                raise UsageError(
                    f"RecurrentNADE.sample: warm_up holds {x.shape[1]} sequences, but batch is {batch}"
                )
            read = np.concatenate([read, x])
        states, found = None, np.empty((time, batch, self.bits), self.network.dtype)
        for t in range(time):
            h, states = self._run(read, states)
            found[t] = self._frames(*self._of_states(h[-1]), generator)
            read = found[t : t + 1]
        return found

    def _checked(self, who: str, v: Any, lengths: Any) -> tuple[Array, Array | None]:
        who = f"RecurrentNADE.{who}"
        x, ends = inputs_and_lengths(who, self.network, v, lengths)
        _require_bits(who, x)
        return x, ends

    def _run(
        self, x: Array, states: list[Array] | None, lengths: Array | None = None
    ) -> tuple[Array, list[Array]]:
        self._runner = self._runner or Runner(self.network)
        return self._runner(x, states, lengths)

    def _biases(self, x: Array, ends: Array | None) -> tuple[Array, Array | None]:
        h, _ = self._run(before(x, np), None, ends)
        return self._of_states(h.reshape(-1, h.shape[2]))

    def _of_states(self, h: Array) -> tuple[Array, Array | None]:
        p = {name: node.value for name, node in self.parameters.items()}
        return h @ p["W_hb"] + p["b"], h @ p["W_hc"] + p["c"] if self.hidden else None

    def _chosen(self, b: Array, c: Array | None, bit: Callable[[int, Array], Array]) -> Array:
        if c is None:
            for i in range(self.bits):
                bit(i, b[:, i])
            return b
        W, V = self.parameters["W"].value, self.parameters["V"].value
        found: Array = _logits(b, c, W, V, bit, sigmoid, np)
        return found

    def _frames(self, b: Array, c: Array | None, generator: np.random.Generator | None) -> Array:
        found = np.zeros_like(b)

        def bit(i: int, o: Array) -> Array:
            half = 0.5 if generator is None else generator.random(len(o), dtype=o.dtype.type)
            found[:, i] = sigmoid(o) > half
            return found[:, i]

        self._chosen(b, c, bit)
        return found

    def __repr__(self) -> str:
        return (
            f"RecurrentNADE({shown(self.network, 200)}, hidden={self.hidden}): {self.theta.size:,} parameters"
        )


def _require_bits(who: str, v: Array) -> None:
    if not ((v == 0) | (v == 1)).all():
        raise DataError(f"{who}: v must be bits, 0 or 1, but go from {v.min():g} to {v.max():g}")


class _Cases:
    """-log P of each sequence, for GraphCases."""

    def __init__(self, model: RecurrentNADE, time: int) -> None:
        self.model, self.time = model, time

    def __call__(self, batch: int, **how: Any) -> Node:
        v = gn.input((self.time, batch, self.model.bits), self.model.network.dtype, name="v")
        losses, _ = self.model.unroll(v, lengths=True, **how)
        return gn.sum(losses, axis=0)

    def check(self, arrays: Mapping[str, Array]) -> None:
        there = np.arange(self.time)[:, None] < arrays["lengths"]
        _require_bits("RecurrentNADE.cases", arrays["v"][there])
