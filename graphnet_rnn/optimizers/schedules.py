"""How the learning rate changes from epoch to epoch: a factor on the optimiser's own rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from graphnet_rnn.errors import UsageError

__all__ = ["ConstantRate", "DelayedDecay", "Schedule"]


class Schedule(Protocol):
    """epoch (0, 1, ...) -> factor"""

    def factor(self, epoch: int) -> float: ...


@dataclass(frozen=True)
class ConstantRate:
    """ε_e = ε"""

    def factor(self, epoch: int) -> float:
        return 1.0


@dataclass(frozen=True)
class DelayedDecay:
    """ε_e = ε for the first `after` epochs, then × `decay` at every further one.

    The defaults, 10 and 0.95, are Lynge's (2016, 3.6.1, after Karpathy, Johnson & Li 2015).
    """

    after: int = 10
    decay: float = 0.95

    def __post_init__(self) -> None:
        if self.after < 0 or not 0 < self.decay <= 1:
            raise UsageError(
                f"DelayedDecay needs after >= 0 and decay in (0, 1], not {self.after}, {self.decay}"
            )

    def factor(self, epoch: int) -> float:
        return float(self.decay ** max(0, epoch - self.after + 1))
