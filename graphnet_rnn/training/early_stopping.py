"""When to stop training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from graphnet_rnn.settings import Count, Fraction, require_kinds

__all__ = ["EarlyStopping"]


@dataclass(frozen=True)
class EarlyStopping:
    """Go on while C_t ≤ C_{t-N} (1 - τ)^N, C_t the validation cost after epoch t. Source: Lynge 2016, 4.2.1.

    memory: N epochs. tolerance: τ, the mean decrease that each of them must have brought.
    patience: instead of that, stop when so many epochs in a row have brought no new best.
    """

    memory: Count = 10
    tolerance: Fraction = 5e-5
    patience: Count | None = None

    def __post_init__(self) -> None:
        require_kinds(self)

    def should_stop(self, costs: Sequence[float]) -> bool:
        """costs: the validation cost after each epoch so far."""
        if self.patience is not None:
            best, since = math.inf, 0
            for cost in costs:
                best, since = (cost, 0) if cost < best else (best, since + 1)
            return since >= self.patience
        if len(costs) <= self.memory:
            return False
        return not costs[-1] <= costs[-1 - self.memory] * (1 - self.tolerance) ** self.memory
