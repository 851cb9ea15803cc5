"""TRBM and RTRBM: an RBM at every time step, whose biases depend on the past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.cell import initializers
from graphnet_rnn.cell.initializers import Initializer
from graphnet_rnn.cell.tracing import require_equations
from graphnet_rnn.errors import UsageError
from graphnet_rnn.models.energy import equations
from graphnet_rnn.models.energy.sequence import SequenceRBM
from graphnet_rnn.models.energy.units import draw_bits, sigmoid
from graphnet_rnn.settings import listed, whole_number

#: Directed connections from the past: hidden to hidden, visible to visible, visible to hidden.
CONNECTIONS = ("HH", "VV", "VH")


class TemporalRBM(SequenceRBM):
    """Base of TRBM and RTRBM: parameters, and biases from the past.

    B_v,t = b_v + Σ_n v_{t-n} A_n,   B_h,t = b_h + Σ_n h_{t-n} W'_n + Σ_n v_{t-n} W_n,   n = 1 ... delays

    Parameters: W, b_v, b_h; W'_n if "HH", A_n if "VV", W_n if "VH" is among the connections; h_0, h_-1, ... and
    v_0, v_-1, ...: learned values before the first step. Data: (time, batch, visible).
    Source: Sutskever 2013, eqs 3.1-3.2.
    """

    #: Default connections.
    usual: ClassVar[tuple[str, ...]] = CONNECTIONS

    def __init__(
        self,
        visible: int,
        hidden: int,
        visibles: str = "binary",
        delays: int = 1,
        connections: Iterable[str] | None = None,
        sigma: float = 1.0,
        seed: int = 0,
        dtype: Any = "float32",
        initial: Mapping[str, Initializer] | None = None,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        owner = type(self).__name__
        self.delays = whole_number(f"{owner}: delays", delays)
        if values is not None and self.delays > len(values):
            raise UsageError(
                f"{owner}: weights for {self.delays:,} delays are missing; there are {len(values)}"
            )
        require_equations(f"{owner}: delays", self.delays)
        given = self.usual if connections is None else connections
        given = [given] if isinstance(given, str) else listed(f"{owner}: connections", given, "names")
        if not given or any(name not in CONNECTIONS for name in given):
            raise UsageError(
                f"{owner}: connections must be one or more of {', '.join(CONNECTIONS)} (from hidden to hidden, visible "
                f"to visible, visible to hidden units), not {connections!r}. Without any, use RBM."
            )
        self.connections = tuple(name for name in CONNECTIONS if name in given)
        super().__init__(visible, hidden, visibles, sigma, seed, dtype, initial, values)

    def declare(self) -> dict[str, tuple[tuple[int, ...], Initializer]]:
        V, H = self.visible, self.hidden
        small = initializers.normal(0.005)  # Sutskever 2013, 3.11.3
        declared: dict[str, tuple[tuple[int, ...], Initializer]] = {
            "W": ((V, H), initializers.normal(0.01)),
            "b_v": ((V,), small),
            "b_h": ((H,), small),
        }
        for name, prefix, shape in (("HH", "W'", (H, H)), ("VV", "A", (V, V)), ("VH", "W", (V, H))):
            if name in self.connections:
                declared |= {f"{prefix}_{n}": (shape, small) for n in range(1, self.delays + 1)}
        if "HH" in self.connections:
            declared |= {f"h_{1 - n}": ((H,), small) for n in range(1, self.delays + 1)}
        if "VV" in self.connections or "VH" in self.connections:
            declared |= {f"v_{1 - n}": ((V,), small) for n in range(1, self.delays + 1)}
        return declared

    # -- equations, of nodes or of arrays ------------------------------------------------------

    def _biases(self, p: Mapping[str, Any], past: _Past) -> tuple[Any, Any]:
        """B_v,t and B_h,t. p: the parameters, as nodes or arrays like the past. Source: eq. 3.2."""
        b_v, b_h = p["b_v"], p["b_h"]
        for n in range(1, self.delays + 1):
            if "VV" in self.connections:
                b_v = b_v + past.v[n - 1] @ p[f"A_{n}"]
            if "HH" in self.connections:
                b_h = b_h + past.h[n - 1] @ p[f"W'_{n}"]
            if "VH" in self.connections:
                b_h = b_h + past.v[n - 1] @ p[f"W_{n}"]
        return b_v, b_h

    def _before(self, p: Mapping[str, Any], batch: int) -> _Past:
        spread = gn.broadcast_to if isinstance(p["W"], Node) else np.broadcast_to
        v, h = ([p.get(f"{x}_{1 - n}") for n in range(1, self.delays + 1)] for x in "vh")
        return _Past(
            [x if x is None else spread(x, (batch, self.visible)) for x in v],
            [x if x is None else spread(x, (batch, self.hidden)) for x in h],
        )

    def _past(self, batch: int) -> _Past:
        return self._before(self.values, batch)

    def _biases_after(self, past: _Past) -> tuple[Array, Array]:
        return self._biases(self.values, past)

    def _push(self, past: _Past, v: Array, h: Array) -> None:
        past.push(v, h)

    # -- nodes -------------------------------------------------------------------------------

    def unroll(self, v: Node) -> tuple[Node, Node, Node]:
        """B_v, B_h and the inferred hidden states p, all (time, batch, ·), for data v (time, batch, visible).

        p_t = σ(v_t W + B_h,t) (eqs 3.5, 3.20). In a recurrent model derivatives pass through the p of the past, else
        the past is data (eqs 3.7-3.10). B_v and B_h are the vectors b_v and b_h if no connection reaches them.
        """
        p = self.parameters
        past = self._before(p, v.shape[1])
        steps: list[tuple[Node, Node, Node]] = []
        for t in range(v.shape[0]):
            with gn.scope(time=t):
                b_v, b_h = self._biases(p, past)
                with gn.scope(cell=type(self).__name__):
                    h = gn.sigmoid(v[t] @ p["W"] + b_h)
                steps.append((b_v, b_h, h))
                past.push(v[t], h if self.recurrent else gn.stop_gradient(h))
        all_b_v, all_b_h, all_h = zip(*steps, strict=True)
        return (
            gn.stack(all_b_v, axis=0) if "VV" in self.connections else p["b_v"],
            gn.stack(all_b_h, axis=0) if self.connections != ("VV",) else p["b_h"],
            gn.stack(all_h, axis=0),
        )

    def machine(self, v: Node) -> tuple[Node, Node, Node]:
        b_v, b_h, _ = self.unroll(v)
        return self.parameters["W"], b_v, b_h

    def __graph__(self) -> gn.Graph:
        """The free energy of a frame after the h_0 of the past, and its hidden units, for drawing."""
        v = gn.input((1, 1, self.visible), self.dtype, name="v_t")
        b_v, b_h, h = self.unroll(v)
        free_energy = equations.free_energy(v, self.parameters["W"], b_v, b_h, self.units)
        return gn.Graph([gn.label(free_energy, "F_t"), gn.label(h, "h_t")], [v])

    # -- arrays ------------------------------------------------------------------------------

    def _filter(self, v: Array, past: _Past) -> tuple[Array, Array, Array]:
        """B_v, B_h and p of every step, (time, batch, ·); moves the past to after the last step."""
        p = self.values
        time, batch = v.shape[:2]
        b_v, b_h = np.empty_like(v), np.empty((time, batch, self.hidden), self.dtype)
        h = np.empty_like(b_h)
        # A diverged model gives infinities, which the optimizers and `train` report; no warning here.
        with np.errstate(over="ignore", invalid="ignore"):
            read = (v.reshape(time * batch, -1) @ p["W"]).reshape(h.shape)  # of all steps: W is read once
            for t in range(time):
                b_v[t], b_h[t] = self._biases(p, past)
                h[t] = sigmoid(read[t] + b_h[t])
                past.push(v[t], h[t])
        return b_v, b_h, h

    def _draw_past(self, past: _Past, read: int, generator: np.random.Generator) -> None:
        # The values before the first frame are parameters, not probabilities.
        last = min(self.delays, read)
        past.h[:last] = [draw_bits(h, generator) for h in past.h[:last]]


class _Past:
    """The last `delays` frames and hidden states, newest first."""

    def __init__(self, v: Sequence[Any], h: Sequence[Any]) -> None:
        self.v, self.h = list(v), list(h)

    def push(self, v: Any, h: Any) -> None:
        self.v, self.h = [v, *self.v[:-1]], [h, *self.h[:-1]]


class TRBM(TemporalRBM):
    """P(v, h) = Π_t P(v_t, h_t | past), each an RBM with biases B_v,t and B_h,t; h_t binary and sampled.

    Inference is approximate filtering. Each step is learned as a separate RBM with the inferred past as data, so no
    derivative goes back in time. delays: m, number of steps that connections reach back, 1 by default. connections: of
    "HH", "VV", "VH", all by default; the source's TRBM-HH lacks "HH", the simplified TRBM (eq. 3.14) has only "HH". See
    TemporalRBM for parameters and data, RBM for visible, hidden, visibles and sigma, EnergyModel for seed, dtype,
    initial and values; W ~ N(0, 0.01²), all else ~ N(0, 0.005²). (The
    source starts from a W that an RBM has learned on single frames: set `values["W"][...]`.)
    Source: Sutskever & Hinton 2007; Sutskever 2013, 3.2, eqs 3.1-3.11.

    >>> model = rnn.energy.TRBM(visible=4, hidden=3, connections=["HH", "VH"])
    >>> model.infer(np.zeros((5, 2, 4))).shape  # (time, batch, hidden)
    (5, 2, 3)
    >>> model.sample(time=3, batch=2).shape
    (3, 2, 4)
    """


class RTRBM(TemporalRBM):
    """P(v) = Π_t P(v_t | r_{t-1}),  r_t = σ(v_t W + b_h + r_{t-1} W'_1),  P(v_t, h_t | r_{t-1}) an RBM

    with biases b_v and b_h + r_{t-1} W'_1; r_0 is the parameter h_0 (the paper of 2008 has a bias b_init in place of
    b_h + r_0 W'_1). r_t is real and not sampled, so inference is exact, and learning follows the gradient of log P
    through time, up to the error of contrastive divergence.
    delays, connections: as in TRBM, but only "HH" by default, as in the source. W starts at N(0, 0.01²): on small data
    that is a plateau, which initial={"W*": rnn.initializers.normal(0.3)} leaves sooner.
    visible, hidden, visibles, sigma: see RBM. seed, dtype, values: see EnergyModel.
    (rnn.RTRBMFilter is r_t as a layer of a network.)
    Source: Sutskever, Hinton & Taylor 2008; Sutskever 2013, 3.7-3.10, eqs 3.16-3.25.

    >>> model = rnn.energy.RTRBM(visible=4, hidden=3)
    >>> model.infer(np.zeros((5, 2, 4))).shape  # r: (time, batch, hidden)
    (5, 2, 3)
    >>> round(model.log_likelihood(np.zeros((1, 2, 4))), 1)  # nats; near 4 log(1/2), as the weights are small
    -2.8
    """

    recurrent: ClassVar[bool] = True
    usual: ClassVar[tuple[str, ...]] = ("HH",)

    def log_likelihood(self, v: Any) -> float:
        """Mean over sequences of log P(v_1 ... v_T), exact, in nats (eq. 3.22).

        Raises UsageError if the model is too large to enumerate.
        """
        return self._log_likelihood(v)
