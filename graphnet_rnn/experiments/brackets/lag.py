"""Time lag: memory of a model for an open bracket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphnet.graph.display import ShowsItself
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import listed, shown, text as text_of, whole_number
from graphnet_rnn.text.lanes import Lanes, Place
from graphnet_rnn.text.sampling import choose


@dataclass(frozen=True, eq=False)
class TimeLag(ShowsItself):
    """log₁₀ p(closing) / p(opening) along samples of a model after each of two contexts.

    contexts: the one that opens a bracket, and the control. log_ratios: (2, runs, steps). smooth: steps to average.

    >>> lag = rnn.tasks.TimeLag(("[[", "Th"), np.zeros((2, 3, 8)), smooth=2)
    >>> lag.steps.tolist(), lag.difference.tolist()
    ([1.5, 3.5, 5.5, 7.5], [0.0, 0.0, 0.0, 0.0])
    """

    contexts: tuple[str, str]
    log_ratios: Array
    smooth: int

    @property
    def steps(self) -> Array:
        """Middle of each group of `smooth` steps, (points,); the first step is 1. The last group may have fewer."""
        starts, counts = self._groups
        return starts + (counts + 1) / 2

    @property
    def difference(self) -> Array:
        """Mean over runs and `smooth` steps after the first context, minus that after the control, (points,)"""
        with_open, control = self._smoothed.mean(axis=1)
        return np.asarray(with_open - control)

    @property
    def error(self) -> Array:
        """Standard error of `difference` over runs; NaN for one run."""
        runs = self._smoothed.shape[1]
        if runs < 2:
            return np.full(self._smoothed.shape[2], np.nan)
        return np.asarray(np.sqrt((self._smoothed.var(axis=1, ddof=1) / runs).sum(axis=0)))

    @property
    def memory(self) -> int:
        """Steps until the difference first falls below two standard errors; all steps if it never does.

        For one run, whose error is unknown, steps until it first falls to 0.
        """
        lost = np.flatnonzero(~(self.difference > 2 * np.nan_to_num(self.error)))
        return int(self._groups[0][lost[0]]) if lost.size else self.log_ratios.shape[2]

    @property
    def _groups(self) -> tuple[Array, Array]:
        """First step of each group, from 0, and its number of steps."""
        starts = np.arange(0, self.log_ratios.shape[2], self.smooth)
        return starts, np.diff(starts, append=self.log_ratios.shape[2])

    @property
    def _smoothed(self) -> Array:
        starts, counts = self._groups
        return np.asarray(np.add.reduceat(self.log_ratios, starts, axis=2) / counts)


def time_lag(
    network: Network,
    contexts: Sequence[str] = ("[[", "Th"),
    brackets: Sequence[str] = ("[", "]"),
    steps: int = 1000,
    runs: int = 10,
    smooth: int = 10,
    seed: int = 0,
    warm_up: str = "",
) -> TimeLag:
    """log₁₀ p(']') / p('[') at each of `steps` steps after "[[", and after "Th", in `runs` runs of each

    The model reads a context from a cold start (or after `warm_up`), and then samples only letters and spaces, by their
    relative probabilities; p is over all characters.
    network: network trained on text. contexts: context that opens a bracket, and control context; ("[[", "Th") by
    default. brackets: opening and closing bracket of the ratio; ("[", "]") by default. steps: characters of a run; 1000
    by default. runs: runs of each context; 10 by default. smooth: steps to average for a point; 10 by default. seed:
    seed of the runs; 0 by default. warm_up: text before both contexts, e.g. for a model that was trained on one long
    text; none by default.
    Raises UsageError, DataError for a context or bracket that the model does not know.
    Source: Krause 2015, 5.2.4 (10 runs of 1,000 steps, smoothed by 10).

    >>> network = rnn.Network([rnn.GRU(4)], inputs=4, outputs=4)
    >>> network.vocabulary = rnn.data.Vocabulary("[]ab")
    >>> rnn.tasks.time_lag(network, ("[[", "ab"), steps=6, runs=2, smooth=2).log_ratios.shape
    (2, 2, 6)
    """
    pair = tuple(
        text_of("time_lag: contexts", each) for each in listed("time_lag: contexts", contexts, "two texts")
    )
    signs = tuple(
        text_of("time_lag: brackets", each) for each in listed("time_lag: brackets", brackets, "two texts")
    )
    if len(pair) != 2 or not all(pair):
        raise UsageError(
            f"time_lag: contexts must be two texts, one with an open bracket and one without, not {shown(pair)}"
        )
    if len(signs) != 2 or any(len(sign) != 1 for sign in signs) or signs[0] == signs[1]:
        raise UsageError(f"time_lag: brackets must be two different characters, not {shown(signs)}")
    steps, runs = whole_number("time_lag: steps", steps), whole_number("time_lag: runs", runs)
    smooth = min(whole_number("time_lag: smooth", smooth), steps)
    seed = whole_number("time_lag: seed", seed, least=0)
    lanes = Lanes(network, 2 * runs, "time_lag")
    opening, closing = lanes.vocabulary.encode(signs[0] + signs[1])
    characters = lanes.vocabulary.characters
    letters = np.array([k for k, c in enumerate(characters) if c.isalpha() or c == " "], np.int64)
    if not letters.size:
        raise UsageError(
            "time_lag: the vocabulary of the network must have letters or a space, to continue the text"
        )
    before = text_of("time_lag: warm_up", warm_up)
    starts = [lanes.start(lanes.vocabulary.encode(before + context)) for context in pair]
    place = Place(
        np.concatenate([start.log_p for start in starts]),
        tuple(np.concatenate(each) for each in zip(*(start.states for start in starts), strict=True)),
    ).rows(np.repeat([0, 1], runs))
    generators = [np.random.default_rng([seed, context, run]) for context in (0, 1) for run in range(runs)]
    ratios = np.empty((2 * runs, steps))
    for t in range(steps):
        ratios[:, t] = (place.log_p[:, closing] - place.log_p[:, opening]) / np.log(10)
        drawn = [choose(row[letters], 1.0, each) for row, each in zip(place.log_p, generators, strict=True)]
        place = lanes.step(place, letters[drawn])
    return TimeLag((pair[0], pair[1]), ratios.reshape(2, runs, steps), smooth)
