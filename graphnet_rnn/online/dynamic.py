"""DynamicEvaluation: a model that continues to learn from the test text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.model import ModelObjective
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.optimizers.base import State
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.step import guarded_step
from graphnet_rnn.settings import MANY, fraction, shown, whole_number
from graphnet_rnn.text.evaluation import Evaluation, as_symbols

REMEDY = "the adapted weights diverged; try a smaller learning rate, or clip_norm"


class DynamicEvaluation:
    """Scores each piece of a text, then learns from it: θ ← θ - ε g + λ (θ₀ - θ), g = ∇ of the piece's mean loss

    The text is read once, in order, in one lane. Each piece is scored before the weights learn from it, so the score
    measures prediction. Gradients go back to the start of the piece; states are carried on. At the end the network gets
    its original weights back.
    network: causal network that predicts the next symbol. optimizer: first-order optimizer whose step replaces -ε g;
    None for no adaptation, which gives the result of Evaluator with one lane. With Nesterov a piece is read at the
    point to which momentum moves the weights. time: characters of a piece. decay: λ, in [0, 1), strength of the pull to
    the trained weights θ₀. backend, threads: see gn.compile. No dropout.
    Raises UsageError for a network that does not predict the next symbol.
    Source: Mikolov et al. 2010; Krause et al. 2018, without their scaling by root mean squares.

    >>> network = rnn.Network([rnn.Elman(3)], inputs=2, outputs=2)
    >>> text = np.arange(60) % 2  # 0 1 0 1 ...
    >>> evaluate = rnn.online.DynamicEvaluation(network, rnn.SGD(0.5), time=5, backend="numpy")
    >>> fixed = rnn.online.DynamicEvaluation(network, None, time=5, backend="numpy")
    >>> evaluate(text).nats < fixed(text).nats  # the weights adapt to the text
    True
    """

    def __init__(
        self,
        network: Network,
        optimizer: FirstOrder | None,
        time: int = 20,
        decay: float = 0.0,
        threads: int | None = None,
        backend: str = "numba",
    ) -> None:
        require_network("DynamicEvaluation", network)
        if not network.predicts_symbols:
            raise UsageError(
                "DynamicEvaluation: the network must read and predict symbols, the characters of a text"
            )
        network.require_causal("DynamicEvaluation")
        self.network, self.time = network, whole_number("DynamicEvaluation: time", time)
        self.optimizer = None if optimizer is None else first_order("DynamicEvaluation", optimizer)
        self.decay = fraction("DynamicEvaluation: decay", decay)
        u = network.unroll(self.time, 1, training=False)
        gradients = [] if optimizer is None else gn.gradient(u.cost, list(network.parameters.values()))
        self._states = len(u.final)
        self._function = gn.compile(
            [u.losses, gn.argmax(u.logits), *u.final, *gradients],
            [u.inputs, u.targets, *u.initial],
            threads=threads,
            backend=backend,
        )

    def __call__(
        self, symbols: Array | str, context: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> Evaluation:
        """Reads the whole text and scores all characters except the first `context` (at least one).

        symbols: a row of symbols, or a str. context: number of characters at the start that are not scored; the weights
        adapt to them, too. progress: called with (characters read, total).
        Raises DataError if nothing is left to score; TrainingError if the adapted weights give a loss that is not
        finite.
        """
        symbols = as_symbols(self.network, symbols)
        lead = max(1, whole_number("context", context, least=0))
        scored = len(symbols) - lead
        if scored < 1:
            raise DataError(
                f"the text has {len(symbols)} characters; a context of {context} leaves none to score. "
                "Give a longer text or a smaller context."
            )
        self.network.require_finite("DynamicEvaluation")
        trained = self.network.theta.copy()
        try:
            return self._read(symbols, lead, scored, trained, progress)
        finally:
            self.network.theta = trained

    def _read(
        self,
        symbols: Array,
        lead: int,
        scored: int,
        trained: Array,
        progress: Callable[[int, int], None] | None,
    ) -> Evaluation:
        theta, steps = trained.copy(), len(symbols) - 1
        state: State = {} if self.optimizer is None else self.optimizer.init(theta)
        states = self.network.first_states(1)
        nats, correct = 0.0, 0
        for start in range(0, steps, self.time):
            position = np.arange(start, start + self.time)
            counts = (position >= lead - 1) & (position < steps)
            # The last piece is padded with its last character; the weights do not learn from it.
            inputs, targets = symbols[np.minimum(position, steps)], symbols[np.minimum(position + 1, steps)]
            if self.optimizer is not None:
                self.network.theta = self.optimizer.evaluation_point(theta, state)
            losses, guesses, *rest = self._function(inputs[:, None], targets[:, None], *states)
            states, gradients = rest[: self._states], rest[self._states :]
            nats += float(losses[counts, 0].sum(dtype=np.float64))
            correct += int((guesses[counts, 0] == targets[counts]).sum())
            if self.optimizer is not None:
                if not np.isfinite(losses).all():
                    raise TrainingError(
                        f"{shown(self.optimizer, MANY)} diverged: at character {start} of the text the loss "
                        "is no longer finite. Try a smaller learning rate, or clip_norm."
                    )
                if start + self.time < steps:
                    drawn_back = theta.dtype.type(self.decay) * (trained - theta)
                    given = KnownGradient(
                        self.network, float(losses.mean()), np.concatenate([g.ravel() for g in gradients])
                    )
                    guarded_step(
                        self.optimizer, given, theta, state, f"character {start} of the text", remedy=REMEDY
                    )
                    theta += drawn_back
            if progress is not None:
                progress(min(start + self.time, steps), steps)
        return Evaluation(nats, correct, scored)


class KnownGradient(ModelObjective):
    """Objective with a loss and a gradient that are computed already."""

    def __init__(self, network: Network, loss: float, gradient: Array) -> None:
        self.model, self.found = network, (loss, gradient)

    def gradient(self, w: Array) -> tuple[float, Array]:
        """Returns the stored loss and gradient; w is the point where they were computed."""
        return self.found


def first_order(who: str, optimizer: Any) -> FirstOrder:
    """Returns the optimizer; UsageError, prefixed with `who`, if a step needs more than one gradient."""
    if not isinstance(optimizer, FirstOrder):
        raise UsageError(
            f"{who}: optimizer must be a first-order optimizer, e.g. rnn.Adam(rate=0.001), not {shown(optimizer)}; "
            "others evaluate a batch more than once."
        )
    return optimizer
