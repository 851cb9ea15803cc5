"""SymbolSequences: expectation-maximization of a hidden Markov model on sequences of symbols."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from graphnet_rnn.errors import UsageError
from graphnet_rnn.models.hmm import HMM
from graphnet_rnn.models.hmm_likelihood import Likelihood
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.expectation import ExpectationMaximization
from graphnet_rnn.parallel.ranks import Ranks
from graphnet_rnn.settings import shown, whole_number
from graphnet_rnn.training.problem import Problem
from graphnet_rnn.training.state import digest_of


class SymbolSequences(Problem):
    """Expectation-maximization of an HMM; an epoch is one step on all sequences. History rows are in bits per symbol.

    model: an rnn.HMM.
    symbols: int64 (time, sequences), or (time,) for one.
    valid: validation sequences of the same form; default None.
    shares: number of parts of the sequences that processes may share; default 1.

    The optimizer must be rnn.ExpectationMaximization. Raises UsageError, DataError.

    >>> symbols = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    >>> problem = rnn.SymbolSequences(rnn.HMM(states=3, symbols=3), symbols)
    >>> outcome = rnn.Trainer(problem, rnn.Training(rnn.ExpectationMaximization(), epochs=3)).run()
    >>> outcome.steps
    3
    """

    measure: ClassVar[str] = "bits"
    unit: ClassVar[float] = math.log(2)
    unit_name: ClassVar[str] = "bits/symbol"
    item: ClassVar[str] = "symbol"
    model: HMM
    objective: Likelihood

    def __init__(self, model: HMM, symbols: Any, valid: Any = None, shares: int = 1) -> None:
        if not isinstance(model, HMM):
            raise UsageError(f"SymbolSequences: model must be an HMM, not {shown(model)}")
        model.bits(symbols)  # raises an error for invalid symbols
        self.model, self._symbols = model, np.asarray(symbols, np.int64)
        self._valid = None if valid is None else np.asarray(valid, np.int64)
        if self._valid is not None:
            model.bits(self._valid)
        sequences = self._symbols.shape[1] if self._symbols.ndim == 2 else 1
        self.shares = whole_number("SymbolSequences: shares", shares, most=sequences)
        self.objective = Likelihood(model, self._symbols, self.shares)
        self.items = int(self._symbols.size)

    def require_fit(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, ExpectationMaximization):
            raise UsageError(
                f"SymbolSequences: optimizer must be rnn.ExpectationMaximization(), not {shown(optimizer)}; to use "
                "another, minimize hmm.unroll(..., tables='softmax') by rnn.minimize"
            )

    def share(self, ranks: Ranks) -> None:
        """Shares each step among the processes of `ranks`. Raises UsageError if there are too few parts."""
        if ranks.size > self.shares:
            raise UsageError(
                f"SymbolSequences: {ranks.size} processes need at least as many shares; got {self.shares}. Increase "
                "shares, or start fewer processes"
            )
        self.objective.ranks = ranks

    def __len__(self) -> int:
        return 1

    def feed(self, epoch: int, step: int) -> Likelihood:
        return self.objective

    def validate(self) -> float | None:
        return None if self._valid is None else self.model.bits(self._valid)

    def description(self) -> dict[str, Any]:
        data = digest_of(self._symbols, *([] if self._valid is None else [self._valid]))
        return {"data": data, "shares": self.shares}
