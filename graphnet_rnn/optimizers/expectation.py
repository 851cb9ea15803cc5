"""Expectation-maximisation as an optimizer: of objectives that know where their bound is highest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Optimizer, Report, State
from graphnet_rnn.optimizers.vectors import norm
from graphnet_rnn.settings import Amount

__all__ = ["ExpectationMaximization"]


@dataclass(frozen=True)
class ExpectationMaximization(Optimizer):
    """θ ← argmax_θ' E[log p(x, z; θ') | x; θ]: for an HMM, every table becomes its expected counts, normalised

    smoothing: added to each count. Without it the likelihood never falls, and an entry that is 0 stays 0.
    The report's gradient norm is the length of the step. Source: Dempster, Laird & Rubin 1977; Baum et al. 1970.
    """

    smoothing: Amount = 0.0

    def init(self, theta: Array, objective: Any = None) -> State:
        return {}

    def step(self, objective: Any, theta: Array, state: State, rate: float | None = None) -> Report:
        if not hasattr(objective, "maximized"):
            raise UsageError(
                f"ExpectationMaximization asks an objective where its bound is highest, which {objective!r:.50} does "
                "not know; it is for an HMM, see rnn.SymbolSequences"
            )
        loss, found = objective.maximized(theta, self.smoothing)
        length = norm(found - theta)
        if np.isfinite(loss) and np.isfinite(length):
            theta[...] = found
        return Report(loss, length)
