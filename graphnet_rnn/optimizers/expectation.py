"""Expectation-maximization as an optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.base import Optimizer, Report, State
from graphnet_rnn.optimizers.vectors import norm
from graphnet_rnn.settings import Amount, shown


@dataclass(frozen=True)
class ExpectationMaximization(Optimizer):
    """θ ← argmax_θ' E[log p(x, z; θ') | x; θ]: for an HMM, each table becomes its normalized expected counts

    smoothing: added to each count, default 0. Without smoothing the likelihood never falls, and zero entries stay 0.

    The report's gradient norm is the length of the step. Source: Dempster, Laird & Rubin 1977; Baum et al. 1970.

    >>> hmm = rnn.HMM(states=2, symbols=3)
    >>> problem = rnn.SymbolSequences(hmm, np.array([0, 1, 2, 0, 1, 2, 0, 1]))
    >>> training = rnn.Training(rnn.ExpectationMaximization(smoothing=0.1), epochs=3)
    >>> rnn.Trainer(problem, training).run().epochs
    3
    """

    smoothing: Amount = 0.0

    def init(self, theta: Array, objective: Any = None) -> State:
        """Returns an empty state. theta: the parameters."""
        return {}

    def step(self, objective: Any, theta: Array, state: State, rate: float | None = None) -> Report:
        if not hasattr(objective, "maximized"):
            raise UsageError(
                "ExpectationMaximization needs the objective of an HMM, see rnn.SymbolSequences, not "
                f"{shown(objective, 50)}"
            )
        loss, found = objective.maximized(theta, self.smoothing)
        length = norm(found - theta)
        if np.isfinite(loss) and np.isfinite(length):
            theta[...] = found
        return Report(loss, length)
