"""Contrastive divergence as an objective over one flat vector, which optimizers can follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model import ModelObjective
from graphnet_rnn.models.energy.annealing import gibbs
from graphnet_rnn.models.energy.model import EnergyModel, as_generator
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import shown, whole_number


# Chains that start at the previous frame, as in `predict`, are no better: after 2,000 updates on bouncing balls,
# the error of the next frame is 0.0159 instead of 0.0161.
class ContrastiveDivergence(ModelObjective):
    """g = ∂/∂θ mean [F(v) - F(v_k)], v_k constant: the end of a Gibbs chain of k steps that starts at the data v.

    -g estimates the gradient of the mean log probability of a case (for sequences: of a frame of each); the error falls
    as k grows. The mean is over cases, for sequences over time steps as well (Sutskever 2013, 3.11.3).
    The loss that `gradient` returns is the mean squared error of the first step's reconstruction, per visible unit. It
    shows progress, but g is not its gradient, as log Z is intractable.
    With a Trainer use rnn.EnergyCases. Without: theta = objective.start(), then feed and optimizer.step repeatedly, and
    model.theta = theta at the end (an optimizer may evaluate other points than theta). Each call of `gradient` runs new
    chains, which depend only on (seed, draw): these two integers resume a run.

    Hessian-free optimizers use `loss` and `curvature` with the chains of the last gradient. Within a step the loss is
    EnergyModel.divergence with a reference: an estimate of -log P(v) up to a constant, log Z at the point where the
    chains were drawn. So ρ and the line search of a step are meaningful, but losses of two steps cannot be compared.
    With one chain for each RBM this loss has no minimum, so a model of sequences needs about ten `chains` for each
    frame; the cases of an RBM share theirs.
    model: an RBM, TRBM, RTRBM or RecurrentRBM. gibbs_steps: k, 1 by default. chains: number of chains for each case, 1
    by default. Both may be changed at any time. seed: of the chains' random numbers. backend, threads: see gn.compile;
    one function is compiled for each shape of data.
    Source: Hinton 2002; Sutskever 2013, 2.7, 3.2.2, 3.9; Geyer & Thompson 1992 (the loss).

    >>> objective = rnn.energy.ContrastiveDivergence(rnn.energy.RBM(4, 3), gibbs_steps=2, backend="numpy")
    >>> objective.feed(np.eye(4))
    >>> error, g = objective.gradient(objective.start())
    >>> g.shape, objective.draw
    ((19,), 1)
    >>> w = objective.start()
    >>> round(objective.loss(w), 1), objective.curvature(w)(g).shape
    (-2.1, (19,))
    """

    def __init__(
        self,
        model: EnergyModel,
        gibbs_steps: int = 1,
        seed: int = 0,
        backend: str = "numba",
        threads: int | None = None,
        chains: int = 1,
    ) -> None:
        if not isinstance(model, EnergyModel):
            raise UsageError(
                f"ContrastiveDivergence takes an RBM, TRBM, RTRBM or RecurrentRBM, not {shown(model)}"
            )
        self.model: EnergyModel = model
        self.gibbs_steps = whole_number("ContrastiveDivergence: gibbs_steps", gibbs_steps)
        self.chains = whole_number("ContrastiveDivergence: chains", chains)
        self.seed = whole_number("ContrastiveDivergence: seed", seed, least=0)
        #: Number of gradients computed.
        self.draw = 0
        self._how: dict[str, Any] = {"backend": backend, "threads": threads}
        self._functions: dict[tuple[str, tuple[int, ...]], gn.Function] = {}
        self._objectives: dict[tuple[int, ...], Objective] = {}
        self._data: Array | None = None
        #: Ends of the last gradient's chains, and the parameters with which they were drawn.
        self._held: tuple[Array, Array] | None = None
        #: Objective with these chains.
        self._fed: Objective | None = None

    @property
    def parameters(self) -> list[Node]:
        """Parameters of the model, in the order of the vector."""
        return list(self.model.parameters.values())

    def feed(self, data: Any) -> None:
        """Copies the data: (cases, visible), for a temporal model (time, batch, visible). Raises DataError."""
        self._data, self._held, self._fed = np.array(self.model.check_data("data", data)), None, None

    def gradient(self, w: Array) -> tuple[float, Array]:
        """Returns the reconstruction error at w, and g, from new chains. Sets the model's parameters to w."""
        if self._data is None:
            raise UsageError("ContrastiveDivergence.gradient: there are no data; call feed(data) first")
        steps = whole_number("ContrastiveDivergence: gibbs_steps", self.gibbs_steps)
        chains = whole_number("ContrastiveDivergence: chains", self.chains)
        model, v = self.model, self._data
        model.theta = w
        generator = as_generator("ContrastiveDivergence", self.seed, self.draw)
        self.draw += 1
        start = v if chains == 1 else np.broadcast_to(v, (chains, *v.shape))
        chain = gibbs(start, model.values["W"], *model.biases(v), model.units, steps, generator)
        arrays = self._function("gradient", chain.v.shape)(v, chain.v)
        self._held, self._fed = (chain.v, np.array(w)), None
        with np.errstate(over="ignore", invalid="ignore"):
            loss = float(np.mean(np.square(v - chain.first_mean), dtype=np.float64))
        return loss, np.concatenate([g.ravel() for g in arrays])

    def loss(self, w: Array) -> float:
        """mean [F(v) + log (1/M) Σ_m exp(F_k(v_m) - F(v_m))] at w, v_m the chains of the last gradient

        An estimate of -log P(v), less log Z at that gradient; mean over cases, in nats.
        """
        return self._objective("loss").loss(w)

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        """v ↦ (G(w) + structural · G_s(w)) v: G = Jᵀ C J, C the covariance of v, h, v hᵀ over the chains of the last
        gradient

        J: of the biases and W. G_s: of the hidden units of an RTRBM, see Objective.curvature; divided by the number of
        steps, as the loss is a mean over time and G_s a sum.
        """
        return self._objective("curvature").curvature(w, structural)

    def _objective(self, method: str) -> Objective:
        if self._held is None or self._data is None:
            raise UsageError(
                f"ContrastiveDivergence.{method}: there are no chains yet; call gradient(w) first, which draws them"
            )
        (v_k, drawn_at), v = self._held, self._data
        if v_k.ndim == v.ndim > 2:
            raise UsageError(
                f"ContrastiveDivergence.{method}: with one chain in the RBM of a frame the curvature of log Z "
                "is unknown and the loss has no minimum; use chains=10, or a first-order optimizer"
            )
        if self._fed is None:
            self.model.theta = drawn_at
            (reference,) = self._function("energies", v_k.shape)(v, v_k)
            if v_k.shape not in self._objectives:
                self._objectives[v_k.shape] = self._objective_for(v_k.shape)
            self._fed = self._objectives[v_k.shape]
            self._fed.feed(v, v_k, reference)
        return self._fed

    def _objective_for(self, ends: tuple[int, ...]) -> Objective:
        v, v_k = self._inputs(ends)
        reference = gn.input(ends[:-1], self.model.dtype, name="F_k")
        cost, axes = self.model.divergence(v, v_k, reference), len(self.model.axes)
        steps = v.shape[0] if axes == 3 else 1
        return Objective(
            cost, self.model.parameters, [v, v_k, reference], structure_scale=1 / steps, **self._how
        )

    def _inputs(self, ends: tuple[int, ...]) -> list[gn.Node]:
        shape = ends[-len(self.model.axes) :]
        return [
            gn.input(shape, self.model.dtype, name="v"),
            gn.input(ends, self.model.dtype, name="v_k"),
        ]

    def _function(self, kind: str, ends: tuple[int, ...]) -> gn.Function:
        if (kind, ends) not in self._functions:
            v, v_k = self._inputs(ends)
            if kind == "energies":
                nodes = [self.model.energies(v, v_k)]
            else:
                several = v_k.ndim > v.ndim
                reference = gn.stop_gradient(self.model.energies(v, v_k)) if several else None
                cost = self.model.divergence(v, v_k, reference)
                nodes = gn.gradient(cost, list(self.model.parameters.values()))
            self._functions[kind, ends] = gn.compile(nodes, [v, v_k], **self._how)
        return self._functions[kind, ends]
