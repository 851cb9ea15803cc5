"""Contrastive divergence as an objective over one flat vector, which every first-order optimiser can follow."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphnet as gn
from graphnet.node import Array
from graphnet_rnn.energy.gibbs import gibbs
from graphnet_rnn.energy.model import EnergyModel, as_generator
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import whole_number

__all__ = ["ContrastiveDivergence"]


class ContrastiveDivergence:
    """g = ∂/∂θ mean [F(v) - F(v_k)], v_k constant: the end of a Gibbs chain of k steps that starts at the data v.

    -g estimates the gradient of the mean log probability of a case (for sequences: of a frame of each); the error
    falls as k grows. The mean is over cases, for sequences over time steps as well (Sutskever 2013, 3.11.3).
    The loss is the mean squared error of the first step's reconstruction, per visible unit: it says whether
    learning goes on, but is not what g is the gradient of (log Z, which would be needed, is intractable).
    `train` is the loop around it; by hand: theta = objective.start(), feed and optimizer.step as often as wanted, and
    model.theta = theta at the end (an optimizer may look elsewhere than at theta). Each call of `gradient` runs
    new chains. They depend on (seed, draw) alone: two integers resume a run.
    gibbs_steps: k; it may be changed at any time. backend, threads: see gn.compile; one function is compiled for
    each shape of data. Source: Hinton 2002; Sutskever 2013, 2.7, 3.2.2, 3.9.
    """

    def __init__(
        self,
        model: EnergyModel,
        gibbs_steps: int = 1,
        seed: int = 0,
        backend: str = "numba",
        threads: int | None = None,
    ) -> None:
        if not isinstance(model, EnergyModel):
            raise UsageError(f"ContrastiveDivergence takes an RBM, TRBM or RTRBM, not {model!r:.60}")
        self.model = model
        self.gibbs_steps = whole_number("ContrastiveDivergence: gibbs_steps", gibbs_steps)
        self.seed = whole_number("ContrastiveDivergence: seed", seed, least=0)
        #: How many gradients were computed.
        self.draw = 0
        self._how: dict[str, Any] = {"backend": backend, "threads": threads}
        self._functions: dict[tuple[int, ...], gn.Function] = {}
        self._data: Array | None = None

    @property
    def size(self) -> int:
        return self.model.theta.size

    def start(self) -> Array:
        """The present parameters as a new flat vector."""
        return self.model.theta.copy()

    def set(self, w: Array) -> None:
        """Gives the model's parameters the values of the vector."""
        self.model.theta = w

    def place(self, vector: Array) -> Array:
        """A copy of the vector."""
        return vector.copy()

    def penalty(self, w: Array) -> float:
        """0: nothing is added to the cost."""
        return 0.0

    def explain_non_finite(self) -> None:
        """Nothing is known of where it came from: the chain is drawn."""

    def feed(self, data: Any) -> None:
        """Sets the data: (cases, visible), for a temporal model (time, batch, visible). Raises DataError."""
        self._data = self.model.check_data("data", data)

    def gradient(self, w: Array) -> tuple[float, Array]:
        """The reconstruction error at w, and g. The model's parameters are w afterwards."""
        if self._data is None:
            raise UsageError("ContrastiveDivergence.gradient: there are no data; call feed(data) first")
        steps = whole_number("ContrastiveDivergence: gibbs_steps", self.gibbs_steps)
        model, v = self.model, self._data
        model.theta = w
        generator = as_generator("ContrastiveDivergence", self.seed, self.draw)
        self.draw += 1
        chain = gibbs(v, model.values["W"], *model.biases(v), model.units, steps, generator)
        arrays = self._function(v.shape)(v, chain.v)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = float(np.mean(np.square(v - chain.first_mean), dtype=np.float64))
        return loss, np.concatenate([g.ravel() for g in arrays])

    def _function(self, shape: tuple[int, ...]) -> gn.Function:
        if shape not in self._functions:
            v = gn.input(shape, self.model.dtype, name="v")
            v_k = gn.input(shape, self.model.dtype, name="v_k")
            cost = self.model.divergence(v, v_k)
            nodes = gn.gradient(cost, list(self.model.parameters.values()))
            self._functions[shape] = gn.compile(nodes, [v, v_k], **self._how)
        return self._functions[shape]
