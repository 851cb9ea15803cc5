"""SequenceRBM: an RBM at every time step, whose biases depend on the past."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.models.energy import equations
from graphnet_rnn.models.energy.annealing import gibbs
from graphnet_rnn.models.energy.model import EnergyModel, as_generator
from graphnet_rnn.models.energy.units import draw_bits, sigmoid
from graphnet_rnn.settings import whole_number, yes_no_or_none, yes_or_no


class SequenceRBM(EnergyModel):
    """P(v_t, h_t | past): an RBM with weights W and biases B_v,t and B_h,t.

    Base of TRBM, RTRBM and RecurrentRBM: inference, prediction, sampling. Data: (time, batch, visible).
    """

    axes: ClassVar[tuple[str, ...]] = ("time", "batch", "visible")
    case_axis: ClassVar[int] = 1
    #: True if later steps read the real vector σ(v_t W + B_h,t) as h_t, so that gradients pass through it.
    recurrent: ClassVar[bool] = False

    # -- what a subclass defines ---------------------------------------------------------------

    @abstractmethod
    def _past(self, batch: int) -> Any:
        """The past before the first frame."""

    @abstractmethod
    def _biases_after(self, past: Any) -> tuple[Array, Array]:
        """B_v and B_h of the next step, (batch, ·) or vectors."""

    @abstractmethod
    def _push(self, past: Any, v: Array, h: Array) -> None:
        """Adds a frame and its hidden units to the past."""

    @abstractmethod
    def _filter(self, v: Array, past: Any) -> tuple[Array, Array, Array]:
        """B_v, B_h and p of every step, (time, batch, ·); moves the past to after the last step."""

    # -- nodes ---------------------------------------------------------------------------------

    def log_probabilities(self, v: Node) -> Node:
        """log P(v_t | past) with the hidden past as inferred; (time, batch, visible) to (time, batch), nats.

        log Z_t is enumerated: UsageError if the model is too large. For an RTRBM or RecurrentRBM the result is exact:
        summed over time it is log P of the sequence (eq. 3.22). For a TRBM it is the objective of learning (3.2.2), and
        exact only without "HH". Its curvature in Gauss-Newton products is that of -log Z_t, with respect to W and the
        biases of step t: the covariance of v, h and v hᵀ in the RBM of that step. Source: Sutskever 2013, eqs 3.15,
        3.18.
        """
        place, owner = self.machine(v), type(self).__name__

        def log_z(W: Node, b_v: Node, b_h: Node) -> Node:
            return equations.log_partition(owner, W, b_v, b_h, self.units)

        log_probability = -equations.free_energy(v, *place, self.units) - log_z(*place)
        return gn.with_surrogate(log_probability, lambda *place: -log_z(*place), place)

    # -- arrays --------------------------------------------------------------------------------

    def biases(self, v: Array) -> tuple[Array, Array]:
        return self._filter(v, self._past(v.shape[1]))[:2]

    def infer(self, v: Any) -> Array:
        """p_t = σ(v_t W + B_h,t), the hidden past replaced by its p; (time, batch, hidden). Reads no future frame.

        Approximate filtering in a TRBM (eq. 3.5), exact inference in an RTRBM (algorithm 4) and a RecurrentRBM.
        """
        data = self.check_data("v", v)
        self.sound_values()
        return self._filter(data, self._past(data.shape[1]))[2]

    def read_out(self, h: Any, v: Any) -> Array:
        """E[v_t | h_t, v_{t-1} ...] with the past frames of the given v; (time, batch, visible). Source: 3.3."""
        data, states, p = self.check_data("v", v), self.check_hidden("h", h), self.sound_values()
        if data.shape[:2] != states.shape[:2]:
            raise DataError(
                f"{type(self).__name__}.read_out: h and v must have the same numbers of steps and sequences, not "
                f"{list(states.shape[:2])} and {list(data.shape[:2])}"
            )
        b_v, _ = self.biases(data)
        return self.units.mean(states @ p["W"].T + b_v)

    def activities(self, v: Array, generator: np.random.Generator) -> Array:
        """Training data of a model above: h_t ~ P(h_t | v_t, past) (TRBM, RecurrentRBM), or r_t itself (RTRBM)."""
        p = self.infer(v)
        return p if self.recurrent else draw_bits(p, generator)

    def predict(self, v: Any, gibbs_steps: int = 25, chains: int = 10, seed: int = 0) -> Array:
        """E[v_t | v_1 ... v_{t-1}] for every t, estimated; (time, batch, visible), laid out as v itself.

        Chains of `gibbs_steps` steps in the RBM of step t start at frame t-1 (the first at random); the means of their
        last steps are averaged over `chains`. Frame t is not used. (One chain shows one of several possible futures:
        sharper than the mean of all, and worse than it if the future is another.)
        """
        owner = f"{type(self).__name__}.predict"
        data, p = self.check_data("v", v), self.sound_values()
        steps = whole_number(f"{owner}: gibbs_steps", gibbs_steps)
        count = whole_number(f"{owner}: chains", chains)
        generator = as_generator(owner, seed)
        b_v, b_h = self.biases(data)
        total = np.zeros_like(data)
        for _ in range(count):
            first = self.units.draw_start((1, *data.shape[1:]), self.dtype, generator)
            start = np.concatenate([first, data[:-1]])
            total += gibbs(start, p["W"], b_v, b_h, self.units, steps, generator).mean
        return total / self.dtype.type(count)

    def sample(
        self,
        time: int,
        batch: int = 1,
        warm_up: Any = None,
        gibbs_steps: int = 25,
        means: bool = False,
        mean_field: bool | None = None,
        seed: int = 0,
    ) -> Array:
        """`time` new frames of each sequence, (time, batch, visible), after those of `warm_up` (not repeated).

        warm_up: (steps, batch, visible), read as by `infer`. gibbs_steps: of the chain for each frame; it starts at the
        frame before (the first at random). means: True returns E[v_t|h] of the last step, as videos show it; later
        steps still read draws. mean_field: True passes on σ(v_t W + B_h,t) itself, False a draw from it; None: as the
        model is defined (TRBM: algorithm 2, draws; RTRBM: algorithm 3, itself). True shows a TRBM with less noise
        (3.11); a RecurrentRBM passes neither on. Source: Sutskever 2013, 3.6-3.7.
        """
        owner = f"{type(self).__name__}.sample"
        time, batch = whole_number(f"{owner}: time", time), whole_number(f"{owner}: batch", batch)
        steps = whole_number(f"{owner}: gibbs_steps", gibbs_steps)
        means = yes_or_no(f"{owner}: means", means)
        mean_field = yes_no_or_none(f"{owner}: mean_field", mean_field)
        if self.recurrent and mean_field is False:
            raise UsageError(
                f"{owner}: the hidden states of an RTRBM are not drawn; use TRBM, or mean_field=None"
            )
        draws = not (self.recurrent if mean_field is None else mean_field)
        generator = as_generator(owner, seed)
        past, v = self._warmed(owner, warm_up, batch, generator)
        if draws and warm_up is not None:
            self._draw_past(past, len(warm_up), generator)
        W, result = self.values["W"], np.empty((time, batch, self.visible), self.dtype)
        for t in range(time):
            b_v, b_h = self._biases_after(past)
            chain = gibbs(v, W, b_v, b_h, self.units, steps, generator)
            v, result[t] = chain.v, chain.mean if means else chain.v
            h = sigmoid(v @ W + b_h)
            self._push(past, v, draw_bits(h, generator) if draws else h)
        return result

    def _draw_past(self, past: Any, read: int, generator: np.random.Generator) -> None:
        """Replaces the means of the hidden units in the past by draws, after `read` frames."""

    def _warmed(
        self, owner: str, warm_up: Any, batch: int, generator: np.random.Generator
    ) -> tuple[Any, Array]:
        """The past after the frames of `warm_up`, and the last of them (a random one without any)."""
        self.sound_values()
        past = self._past(batch)
        if warm_up is None:
            return past, self.units.draw_start((batch, self.visible), self.dtype, generator)
        frames = self.check_data("warm_up", warm_up)
        if frames.shape[1] != batch:
            raise UsageError(f"{owner}: warm_up holds {frames.shape[1]} sequences, but batch is {batch}")
        self._filter(frames, past)
        return past, frames[-1]

    def emit(
        self, h: Any, warm_up: Any = None, means: bool = False, generator: np.random.Generator | None = None
    ) -> Array:
        """Frames for hidden states of a model above: v_t ~ P(v_t | h_t, v_{t-1} ...), (time, batch, visible).

        warm_up: the frames before. Exact without directed connections from hidden units; with them it ignores the
        information of h_{t+1} about v_t, as inference does (3.4.1). means: True for E[v_t|h_t]; generator: needed for
        draws.
        """
        owner = f"{type(self).__name__}.emit"
        means = yes_or_no(f"{owner}: means", means)
        states, p = self.check_hidden("h", h), self.sound_values()
        generator = np.random.default_rng(0) if generator is None else generator
        batch = states.shape[1]
        past, _ = self._warmed(owner, warm_up, batch, generator)
        result = np.empty((*states.shape[:2], self.visible), self.dtype)
        for t, h_t in enumerate(states):
            b_v, _ = self._biases_after(past)
            mean = self.units.mean(h_t @ p["W"].T + b_v)
            v = self.units.draw(mean, generator)
            result[t] = mean if means else v
            self._push(past, v, h_t)
        return result

    def _log_likelihood(self, v: Any) -> float:
        """Mean over sequences of log P(v_1 ... v_T), by `log_probabilities`."""
        data = self.check_data("v", v, exact=True)
        node = gn.input(data.shape, self.dtype, name="v")
        total = gn.sum(self.log_probabilities(node), axis=0)
        (value,) = gn.compile([gn.mean(total)], [node], backend="numpy")(data)
        return float(value)
