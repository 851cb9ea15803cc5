"""What every optimiser is: settings, a state of arrays, and a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol

from graphnet.node import Array
from graphnet_rnn.errors import UsageError

__all__ = ["Curved", "Differentiable", "Optimizer", "Report", "State"]

#: All that a step changes besides the parameters: flat arrays by name. What is stored for resuming.
State = dict[str, Array]


class Differentiable(Protocol):
    """The part of an Objective that first-order optimisers use."""

    def gradient(self, w: Array) -> tuple[float, Array]: ...


class Curved(Differentiable, Protocol):
    """The part of an Objective that second-order optimisers use; each method may look at a batch of its own."""

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]: ...

    def loss(self, w: Array) -> float: ...


@dataclass(frozen=True)
class Report:
    """What a step saw: the loss before it, and the gradient's norm before clipping."""

    loss: float
    gradient_norm: float


@dataclass(frozen=True)
class Optimizer(ABC):
    """Settings alone: all that changes is in `state`, so a stored state resumes exactly."""

    rate: float = 1e-3
    clip_norm: float | None = None
    clip_value: float | None = None

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise UsageError(f"{type(self).__name__}: rate must be > 0, not {self.rate!r}")
        if math.isinf(self.rate):
            raise UsageError(f"{type(self).__name__}: rate must be finite")
        for name in ("clip_norm", "clip_value"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{type(self).__name__}: {name} must be > 0 or None, not {value!r}")

    @abstractmethod
    def init(self, theta: Array) -> State:
        """The state before the first step."""

    @abstractmethod
    def step(self, objective: Curved, theta: Array, state: State, rate: float | None = None) -> Report:
        """One step: changes `theta` and the arrays of `state` in place. rate: instead of the setting."""

    def rate_at(self, state: State) -> float:
        """The rate of the next step."""
        return self.rate

    def settings(self) -> dict[str, Any]:
        """The arguments that make this optimiser again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
