"""Sequences of symbols as a problem: expectation-maximisation of a hidden Markov model over all of them at once."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.models.hmm import HMM
from graphnet_rnn.optimizers import Optimizer
from graphnet_rnn.optimizers.expectation import ExpectationMaximization
from graphnet_rnn.training.problem import Problem
from graphnet_rnn.training.state import digest_of

__all__ = ["SymbolSequences"]


class _Likelihood:
    """-log p of the sequences, in nats per symbol, and where the bound that the present tables give is highest."""

    def __init__(self, model: HMM, symbols: Array) -> None:
        self.model, self.symbols = model, symbols

    def start(self) -> Array:
        return self.model.theta.copy()

    def place(self, vector: Array) -> Array:
        return vector.copy()

    def set(self, w: Array) -> None:
        self.model.theta = w

    def penalty(self, w: Array) -> float:
        return 0.0

    def explain_non_finite(self) -> None:
        """The tables are at fault: HMM's own errors say which symbol is impossible."""

    def gradient(self, w: Array) -> tuple[float, Array]:
        raise UsageError(
            "SymbolSequences: tables have no free gradient; use rnn.ExpectationMaximization(), or train the logits of "
            "hmm.unroll(..., tables='softmax') by rnn.minimize"
        )

    def maximized(self, w: Array, smoothing: float) -> tuple[float, Array]:
        """The loss at w, and the tables after one step of expectation-maximisation from there."""
        self.set(w)
        counts = self.model.counts(self.symbols)
        loss = float(-counts.log_likelihood.sum() / self.symbols.size)
        return loss, self.model.maximized(counts, smoothing)


class SymbolSequences(Problem):
    """An epoch is one step of expectation-maximisation on all sequences; rows are in bits for each symbol.

    model: an HMM. symbols: int64 (time, sequences), or (time,) for one. valid: sequences to judge by, of that form.
    Its optimizer is rnn.ExpectationMaximization. Raises UsageError, DataError.
    """

    measure: ClassVar[str] = "bits"
    unit: ClassVar[float] = math.log(2)
    unit_name: ClassVar[str] = "bits/symbol"
    item: ClassVar[str] = "symbol"
    model: HMM
    objective: _Likelihood

    def __init__(self, model: HMM, symbols: Any, valid: Any = None) -> None:
        if not isinstance(model, HMM):
            raise UsageError(f"SymbolSequences: model must be an HMM, not {model!r:.60}")
        model.bits(symbols)  # raises what is wrong with them
        self.model, self._symbols = model, np.asarray(symbols, np.int64)
        self._valid = None if valid is None else np.asarray(valid, np.int64)
        if self._valid is not None:
            model.bits(self._valid)
        self.objective = _Likelihood(model, self._symbols)
        self.items = int(self._symbols.size)

    def require_fit(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, ExpectationMaximization):
            raise UsageError(
                f"SymbolSequences: optimizer must be rnn.ExpectationMaximization(), not {optimizer!r:.60}; other "
                "optimizers train the logits of hmm.unroll(..., tables='softmax') by rnn.minimize"
            )

    def __len__(self) -> int:
        return 1

    def feed(self, epoch: int, step: int) -> _Likelihood:
        return self.objective

    def validate(self) -> float | None:
        return None if self._valid is None else self.model.bits(self._valid)

    def description(self) -> dict[str, Any]:
        return {"data": digest_of(self._symbols, *([] if self._valid is None else [self._valid]))}
