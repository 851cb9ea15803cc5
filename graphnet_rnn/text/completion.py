"""A text gone on with under a condition: a given ending, a regular expression, a length."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graphnet.graph.display import ShowsItself
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import amount, one_of, shown, whole_number
from graphnet_rnn.settings import text as text_of
from graphnet_rnn.text.conditions import Condition
from graphnet_rnn.text.lanes import Lanes
from graphnet_rnn.text.search import Continuations, beam, exact, weighted

__all__ = ["METHODS", "Completion", "Completions", "complete"]

METHODS = ("exact", "weighted", "beam")


@dataclass(frozen=True)
class Completion:
    """One text.

    nats: -ln p(text | start), without the condition. weight: its share of all that were found; 1 / count of exact ones.
    """

    text: str
    nats: float
    weight: float


@dataclass(frozen=True)
class Completions(ShowsItself):
    """What `complete` found, the likeliest first by beam, else in the order in which they were drawn.

    log_p_condition: about ln p(condition | start). "exact": p is at most that; "weighted": an estimate of p, right on
    average; "beam": it is at least that. attempts: texts that were begun; by beam, prefixes that were read.
    proved: of a beam, whether no other text can be likelier than the first: all that were left behind cost more.
    """

    start: str
    method: str
    found: tuple[Completion, ...]
    log_p_condition: float
    attempts: int
    proved: bool = False

    @property
    def effective(self) -> float:
        """1 / Σ weight²: as how many independent samples the weighted ones count (Kong 1992)."""
        return 1 / math.fsum(each.weight**2 for each in self.found)


def complete(
    network: Network,
    start: str = "",
    ending: str = "",
    pattern: str | None = None,
    length: int = 80,
    stop: str | None = None,
    method: str = "exact",
    count: int = 1,
    temperature: float = 1.0,
    seed: int = 0,
    width: int = 64,
    attempts: int = 10_000,
    unknown: str | None = None,
) -> Completions:
    r"""Texts from p(text | start, condition) = p(text | start) / Σ p(text' | start), text' over all that fulfil it

    The condition: the text is `length` characters long; or, with a character `stop` ("\n"), it ends before the first of
    these, has at most `length` characters, and p counts the stop, too. It ends in `ending`, and what stands before that
    matches the regular expression `pattern` as a whole (see docs/evaluating_text_models.md; None: any text).

    method "exact": independent samples of exactly this distribution. Characters from which the condition can no longer
    be met are never drawn; but how likely the model is to meet it is known only by trying, so some attempts are
    rejected, the fewer the more has been tried: bounds on it are kept for each prefix. "weighted": `count` samples
    without a rejection, with the importance weights that make up for that; means over them are right as count grows,
    single ones are not. "beam": the `count` likeliest that a beam of `width` prefixes finds; `proved` says whether the
    first is the likeliest of all. temperature: p^(1 / temperature) for each character. attempts: at most so many.
    Raises UsageError where no text can fulfil it, or none was accepted; DataError for characters unknown to the model.
    Source: Sutskever 2013, 5.5.2, completes from the left alone; the bounds are those of Mansinghka et al. 2009.
    """
    one_of("complete: method", method, METHODS)
    count, length = whole_number("complete: count", count), whole_number("complete: length", length)
    temperature = amount("complete: temperature", temperature, above_zero=True)
    width, attempts = whole_number("complete: width", width), whole_number("complete: attempts", attempts)
    generator = np.random.default_rng(whole_number("complete: seed", seed, least=0))
    text_of("complete: start", start)
    text_of("complete: ending", ending)
    if pattern is not None:
        text_of("complete: pattern", pattern)
    if method == "beam" and count > width:
        raise UsageError(f"complete: a beam of width {width} finds no {count} texts; give a larger width")
    if method == "exact" and count > attempts:
        raise UsageError(f"complete: {count} texts take at least as many attempts; {attempts} are allowed")
    lanes = Lanes(
        network, min(64, width if method == "beam" else count if method == "weighted" else 64), "complete"
    )
    vocabulary = lanes.vocabulary
    if stop is not None and (
        not isinstance(stop, str) or len(stop) != 1 or stop not in vocabulary.characters
    ):
        raise UsageError(f"complete: stop must be one character that the model knows, not {shown(stop)}")
    condition = Condition.of(vocabulary, pattern, ending, length, stop)
    place = lanes.start(vocabulary.encode(start, unknown))
    if method == "exact":
        found = exact(lanes, place, condition, count, temperature, generator, attempts)
        if len(found.texts) < count:
            raise _too_few(found, count)
    elif method == "weighted":
        found = weighted(lanes, place, condition, count, temperature, generator)
    else:
        found = beam(lanes, place, condition, count, temperature, width)
    return Completions(start, method, _completions(found, vocabulary.characters, stop), *found[3:])


def _completions(found: Continuations, characters: str, stop: str | None) -> tuple[Completion, ...]:
    weights = np.exp(found.log_weights - found.log_weights.max())
    weights /= weights.sum()
    return tuple(
        Completion("".join(characters[s] for s in (row if stop is None else row[:-1])), -log_p, weight)
        for row, log_p, weight in zip(found.texts, found.log_p.tolist(), weights.tolist(), strict=True)
    )


def _too_few(found: Continuations, count: int) -> UsageError:
    return UsageError(
        f"complete: of {found.attempts:,} attempts {len(found.texts)} were accepted, not {count}: the model meets the "
        f"condition with a probability of at most {math.exp(found.log_p_condition):.2g}. Allow more attempts, ask for "
        'less, or take method="weighted" or "beam", which always find something'
    )
