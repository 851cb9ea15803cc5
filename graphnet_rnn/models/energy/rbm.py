"""RBM: the restricted Boltzmann machine."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.cell import initializers
from graphnet_rnn.cell.initializers import Initializer
from graphnet_rnn.errors import UsageError
from graphnet_rnn.models.energy import equations
from graphnet_rnn.models.energy.annealing import gibbs
from graphnet_rnn.models.energy.model import EnergyModel, as_generator
from graphnet_rnn.models.energy.units import draw_bits, sigmoid
from graphnet_rnn.settings import whole_number, yes_or_no


class RBM(EnergyModel):
    """P(v, h) = exp(v W hᵀ + v·b_v + h·b_h) / Z, h binary; with Gaussian visible units times exp(-|v|²/2σ²).

    visible, hidden: numbers of units. visibles: "binary" (default; data in [0, 1], values between are probabilities) or
    "gaussian" (real data with standard deviation sigma). initial: initializers by parameter name (W, b_v, b_h); W ~
    N(0, 0.01²) and biases 0 by default. seed, dtype, values: see EnergyModel.
    `free_energy`, `exact_log_partition` and `log_probability` return nodes; the other methods use arrays, with cases as
    rows.
    Raises UsageError for invalid settings and DataError for invalid data.
    Source: Smolensky 1986; Hinton 2002; Sutskever 2013, 2.7, eqs 2.24-2.33.

    >>> model = rnn.energy.RBM(visible=4, hidden=3)
    >>> v = np.array([[1, 0, 1, 0]])
    >>> model.infer(v).shape, model.reconstruct(v).shape
    ((1, 3), (1, 4))
    >>> round(model.log_likelihood(v), 1)  # nats; near 4 log(1/2), as the weights are small
    -2.8
    >>> model.sample(cases=2, gibbs_steps=10).shape
    (2, 4)
    >>> model.gibbs(v, steps=5).shape, model.flipped().visible
    ((1, 4), 3)
    >>> x = gn.input((1, 4), name="v")
    >>> nodes = [model.free_energy(x), model.log_probability(x), model.exact_log_partition()]
    >>> energy, log_p, log_z = gn.compile(nodes, [x], backend="numpy")(v.astype("float32"))
    >>> bool(np.isclose(-energy[0] - log_z, log_p[0], atol=1e-5))
    True
    """

    def declare(self) -> dict[str, tuple[tuple[int, ...], Initializer]]:
        return {
            "W": ((self.visible, self.hidden), initializers.normal(0.01)),
            "b_v": ((self.visible,), initializers.zeros()),
            "b_h": ((self.hidden,), initializers.zeros()),
        }

    # -- nodes -------------------------------------------------------------------------------

    def free_energy(self, v: Node) -> Node:
        """F(v) = -v·b_v - Σ_i softplus(v W + b_h)_i (+ |v|²/2σ² if Gaussian); (cases, visible) to (cases), nats."""
        return self.energies(v, v)

    def exact_log_partition(self) -> Node:
        """log Z by enumeration, a scalar, nats. UsageError if the model is too large. Source: eq. 2.25."""
        p = self.parameters
        return equations.log_partition("RBM", p["W"], p["b_v"], p["b_h"], self.units)

    def log_probability(self, v: Node) -> Node:
        """log P(v) = -F(v) - log Z; (cases, visible) to (cases), nats (of a density if Gaussian).

        Its curvature in Gauss-Newton products is that of -log Z, the covariance of v, h and v hᵀ.
        """
        place = list(self.machine(v))

        def concave(W: Node, b_v: Node, b_h: Node) -> Node:
            return gn.broadcast_to(-equations.log_partition("RBM", W, b_v, b_h, self.units), v.shape[:1])

        return gn.with_surrogate(-self.free_energy(v) - self.exact_log_partition(), concave, place)

    def machine(self, v: Node) -> tuple[Node, Node, Node]:
        p = self.parameters
        return p["W"], p["b_v"], p["b_h"]

    def __graph__(self) -> gn.Graph:
        """The free energy of a case, for drawing."""
        v = gn.input((1, self.visible), self.dtype, name="v")
        return gn.Graph([gn.label(self.free_energy(v), "F")], [v])

    # -- arrays ------------------------------------------------------------------------------

    def log_likelihood(self, v: Any) -> float:
        """Mean over cases of log P(v), exact, in nats (eq. 2.32). UsageError if the model is too large."""
        data = self.check_data("v", v, exact=True)
        node = gn.input(data.shape, self.dtype, name="v")
        (value,) = gn.compile([gn.mean(self.log_probability(node))], [node], backend="numpy")(data)
        return float(value)

    def biases(self, v: Array) -> tuple[Array, Array]:
        return self.values["b_v"], self.values["b_h"]

    def infer(self, v: Any) -> Array:
        """P(h=1|v) = σ(v W + b_h); (cases, hidden). Source: eq. 2.26."""
        data, p = self.check_data("v", v), self.sound_values()
        with np.errstate(over="ignore"):  # ±inf has the right σ
            return sigmoid(data @ p["W"] + p["b_h"])

    def read_out(self, h: Any, v: Any = None) -> Array:
        """E[v|h] = σ(h Wᵀ + b_v), or σ²(h Wᵀ + b_v) if Gaussian; (cases, visible). Source: eqs 2.27, 2.33."""
        states, p = self.check_hidden("h", h), self.sound_values()
        return self.units.mean(states @ p["W"].T + p["b_v"])

    def activities(self, v: Array, generator: np.random.Generator) -> Array:
        """h ~ P(h|v): draws of the aggregated posterior (eq. 2.34); generator: source of the random numbers."""
        return draw_bits(self.infer(v), generator)

    def gibbs(self, v: Any, steps: int = 1, seed: int = 0) -> Array:
        """v after `steps` times h ~ P(h|v), v ~ P(v|h), starting at the given rows."""
        data, p = self.check_data("v", v), self.sound_values()
        count = whole_number("RBM.gibbs: steps", steps)
        return gibbs(data, p["W"], p["b_v"], p["b_h"], self.units, count, as_generator("RBM.gibbs", seed)).v

    def sample(
        self, cases: int, gibbs_steps: int = 1000, start: Any = None, means: bool = False, seed: int = 0
    ) -> Array:
        """(cases, visible): ends of independent chains of `gibbs_steps` steps, one for each case.

        start: initial v, (cases, visible); random by default. means: True returns E[v|h] of the last step instead of a
        draw.
        """
        shape = (whole_number("RBM.sample: cases", cases), self.visible)
        steps = whole_number("RBM.sample: gibbs_steps", gibbs_steps)
        means, generator = yes_or_no("RBM.sample: means", means), as_generator("RBM.sample", seed)
        if start is None:
            v = self.units.draw_start(shape, self.dtype, generator)
        else:
            v = self.check_data("start", start)
            if v.shape != shape:
                raise UsageError(
                    f"RBM.sample: start must have {cases} rows, one for each case, not {v.shape[0]}"
                )
        p = self.sound_values()
        chain = gibbs(v, p["W"], p["b_v"], p["b_h"], self.units, steps, generator)
        return chain.mean if means else chain.v

    def flipped(self) -> RBM:
        """Returns the RBM with visible and hidden units exchanged, as a start for a second layer that loses nothing.

        Its visible units have the distribution of this model's hidden units. UsageError for Gaussian units.
        Source: Hinton, Osindero & Teh 2006; Sutskever 2013, 2.7.1.
        """
        if self.visibles != "binary":
            raise UsageError(
                "RBM.flipped: the visible units must be binary, not Gaussian, since they become hidden units"
            )
        result = RBM(self.hidden, self.visible, seed=self.seed, dtype=self.dtype)
        p = self.values
        for name, array in (("W", p["W"].T), ("b_v", p["b_h"]), ("b_h", p["b_v"])):
            result.values[name][...] = array
        return result
