"""First-order optimisers. θ: parameters; g: the gradient (clipped, if asked); ε: the learning rate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from graphnet.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Differentiable, Optimizer, Report, State
from graphnet_rnn.optimizers.clipping import clip_by_norm, clip_by_value, norm

__all__ = ["SGD", "Adam", "FirstOrder", "Momentum", "Nesterov", "RMSprop"]


@dataclass(frozen=True)
class FirstOrder(Optimizer):
    """What they share: one gradient a step, clipped first by value, then by norm."""

    def step(
        self, objective: Differentiable, theta: Array, state: State, rate: float | None = None
    ) -> Report:
        loss, g = objective.gradient(self.evaluation_point(theta, state))
        length = norm(g)
        if self.clip_value is not None:
            g = clip_by_value(g, self.clip_value)
        if self.clip_norm is not None:
            g = clip_by_norm(g, self.clip_norm)
        # A step on a NaN would destroy the parameters, and with them the run.
        if np.isfinite(loss) and np.isfinite(length):
            self.update(theta, g, state, theta.dtype.type(self.rate if rate is None else rate))
        return Report(loss, length)

    def evaluation_point(self, theta: Array, state: State) -> Array:
        """Where the gradient is taken."""
        return theta

    @abstractmethod
    def update(self, theta: Array, g: Array, state: State, rate: float) -> None:
        """Changes θ and the state in place."""


@dataclass(frozen=True)
class SGD(FirstOrder):
    """θ ← θ - ε g"""

    rate: float = 0.1

    def init(self, theta: Array) -> State:
        return {}

    def update(self, theta: Array, g: Array, state: State, rate: float) -> None:
        theta -= rate * g


@dataclass(frozen=True)
class Momentum(FirstOrder):
    """v ← μ v - ε g(θ);  θ ← θ + v. Source: Polyak 1964; Sutskever 2013, 7.2."""

    rate: float = 0.1
    momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise UsageError(f"{type(self).__name__}: momentum must be in [0, 1), not {self.momentum!r}")

    def init(self, theta: Array) -> State:
        return {"v": np.zeros_like(theta)}

    def update(self, theta: Array, g: Array, state: State, rate: float) -> None:
        v = state["v"]
        v *= theta.dtype.type(self.momentum)
        v -= rate * g
        theta += v


@dataclass(frozen=True)
class Nesterov(Momentum):
    """v ← μ v - ε g(θ + μ v);  θ ← θ + v. Source: Nesterov 1983; Sutskever 2013, eqs 7.3-7.4."""

    def evaluation_point(self, theta: Array, state: State) -> Array:
        return theta + theta.dtype.type(self.momentum) * state["v"]


@dataclass(frozen=True)
class RMSprop(FirstOrder):
    """r ← ρ r + (1 - ρ) g²;  θ ← θ - ε g / √(r + δ). Source: Tieleman & Hinton 2012; Lynge 2016, 3.6.1.

    (Lynge's eq. 3.54 averages g where his source, and this, average g².)
    """

    rate: float = 2e-3
    decay: float = 0.95
    delta: float = 1e-8

    def init(self, theta: Array) -> State:
        return {"r": np.zeros_like(theta)}

    def update(self, theta: Array, g: Array, state: State, rate: float) -> None:
        r, real = state["r"], theta.dtype.type
        r *= real(self.decay)
        r += real(1 - self.decay) * g * g
        theta -= rate * g / np.sqrt(r + real(self.delta))


@dataclass(frozen=True)
class Adam(FirstOrder):
    """m ← β₁ m + (1-β₁) g;  v ← β₂ v + (1-β₂) g²;  θ ← θ - ε m̂ / (√v̂ + δ), m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ)

    Source: Kingma & Ba 2015, algorithm 1.
    """

    rate: float = 2e-3
    beta1: float = 0.9
    beta2: float = 0.999
    delta: float = 1e-8

    def init(self, theta: Array) -> State:
        return {"m": np.zeros_like(theta), "v": np.zeros_like(theta), "t": np.zeros(1, np.int64)}

    def update(self, theta: Array, g: Array, state: State, rate: float) -> None:
        m, v, real = state["m"], state["v"], theta.dtype.type
        state["t"] += 1
        t = int(state["t"][0])
        m *= real(self.beta1)
        m += real(1 - self.beta1) * g
        v *= real(self.beta2)
        v += real(1 - self.beta2) * g * g
        m_hat = m * real(1 / (1 - self.beta1**t))
        v_hat = v * real(1 / (1 - self.beta2**t))
        theta -= rate * m_hat / (np.sqrt(v_hat) + real(self.delta))
