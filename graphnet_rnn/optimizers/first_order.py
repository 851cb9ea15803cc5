"""First-order optimisers. θ: parameters; g: the gradient (clipped, if asked); ε: the learning rate."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from graphnet.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Differentiable, Optimizer, Report, State
from graphnet_rnn.optimizers.clipping import clip_by_norm, clip_by_value
from graphnet_rnn.optimizers.schedules import StepSchedule, extremes, number_or_schedule
from graphnet_rnn.settings import amount, fraction, limit
from graphnet_rnn.vectors import norm

__all__ = ["SGD", "Adam", "FirstOrder", "Momentum", "Nesterov", "RMSprop"]


@dataclass(frozen=True)
class FirstOrder(Optimizer):
    """What they share: one gradient a step, clipped first by value, then by norm.

    rate: a number, or a StepSchedule. Where there is a schedule, the state holds the number of steps that were made,
    "step", so that it resumes exactly; without one it holds no count.
    """

    rate: float | StepSchedule = 1e-3
    clip_norm: float | None = None
    clip_value: float | None = None

    def __post_init__(self) -> None:
        own = type(self).__name__
        rate = number_or_schedule(f"{own}: rate", self.rate)
        for value in extremes(rate):
            if not value > 0:
                raise UsageError(f"{own}: rate must be > 0, not {value!r}")
            if math.isinf(value):
                raise UsageError(f"{own}: rate must be finite, not {value!r}")
        object.__setattr__(self, "rate", rate)
        for name in ("clip_norm", "clip_value"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, limit(f"{own}: {name}", value))

    def settings(self) -> dict[str, Any]:
        """The arguments that make this optimiser again, as JSON knows them: a schedule by its description."""
        return {
            name: value.description() if isinstance(value, StepSchedule) else value
            for name, value in super().settings().items()
        }

    def init(self, theta: Array) -> State:
        scheduled = any(isinstance(getattr(self, f.name), StepSchedule) for f in fields(self))
        return self.accumulators(theta) | ({"step": np.zeros(1, np.int64)} if scheduled else {})

    def accumulators(self, theta: Array) -> State:
        """The arrays of the state before the first step, but for the count of steps."""
        return {}

    def rate_at(self, state: State) -> float:
        """ε of the next step."""
        return self._now(self.rate, state)

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
            self.update(theta, g, state, theta.dtype.type(self.rate_at(state) if rate is None else rate))
            if "step" in state:
                state["step"] += 1
        return Report(loss, length)

    @abstractmethod
    def update(self, theta: Array, g: Array, state: State, rate: float) -> None:
        """Changes θ and the state, but for the count of steps, in place."""

    def _now(self, setting: float | StepSchedule, state: State) -> float:
        """The setting at the next step."""
        if not isinstance(setting, StepSchedule):
            return setting
        if "step" not in state:
            raise UsageError(
                f"{type(self).__name__}: the state has no count of steps, which {setting!r:.60} needs; it is of an "
                "optimizer without a schedule. Make it with `init` of this one."
            )
        return setting.at(int(state["step"][0]))


@dataclass(frozen=True)
class SGD(FirstOrder):
    """θ ← θ - ε g"""

    rate: float | StepSchedule = 0.1

    def update(self, theta: Array, g: Array, state: State, rate: float) -> None:
        theta -= rate * g


@dataclass(frozen=True)
class Momentum(FirstOrder):
    """v ← μ v - ε g(θ);  θ ← θ + v. Source: Polyak 1964; Sutskever 2013, 7.2.

    momentum: μ, a number or a StepSchedule.
    """

    rate: float | StepSchedule = 0.1
    momentum: float | StepSchedule = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        momentum = number_or_schedule(f"{type(self).__name__}: momentum", self.momentum)
        for value in extremes(momentum):
            if not 0 <= value < 1:
                raise UsageError(f"{type(self).__name__}: momentum must be in [0, 1), not {value!r}")
        object.__setattr__(self, "momentum", momentum)

    def accumulators(self, theta: Array) -> State:
        return {"v": np.zeros_like(theta)}

    def momentum_at(self, state: State) -> float:
        """μ of the next step."""
        return self._now(self.momentum, state)

    def update(self, theta: Array, g: Array, state: State, rate: float) -> None:
        v = state["v"]
        v *= theta.dtype.type(self.momentum_at(state))
        v -= rate * g
        theta += v


@dataclass(frozen=True)
class Nesterov(Momentum):
    """v ← μ v - ε g(θ + μ v);  θ ← θ + v. Source: Nesterov 1983; Sutskever 2013, eqs 7.11-7.13."""

    def evaluation_point(self, theta: Array, state: State) -> Array:
        return theta + theta.dtype.type(self.momentum_at(state)) * state["v"]


@dataclass(frozen=True)
class RMSprop(FirstOrder):
    """r ← ρ r + (1 - ρ) g²;  θ ← θ - ε g / √(r + δ). Source: Tieleman & Hinton 2012; Lynge 2016, 3.6.1.

    (Lynge's eq. 3.54 averages g where his source, and this, average g².)
    """

    rate: float | StepSchedule = 2e-3
    decay: float = 0.95
    delta: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "decay", fraction("RMSprop: decay", self.decay))
        object.__setattr__(self, "delta", amount("RMSprop: delta", self.delta))

    def accumulators(self, theta: Array) -> State:
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

    rate: float | StepSchedule = 2e-3
    beta1: float = 0.9
    beta2: float = 0.999
    delta: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("beta1", "beta2"):
            object.__setattr__(self, name, fraction(f"Adam: {name}", getattr(self, name)))
        object.__setattr__(self, "delta", amount("Adam: delta", self.delta))

    def accumulators(self, theta: Array) -> State:
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
