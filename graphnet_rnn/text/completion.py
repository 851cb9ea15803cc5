"""Completion of a text under a condition: an ending, a regular expression, a length."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from graphnet.graph.display import ShowsItself
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.settings import amount, one_of, shown, text as text_of, whole_number
from graphnet_rnn.text.conditions import Condition
from graphnet_rnn.text.lanes import Lanes
from graphnet_rnn.text.search import Continuations, beam, exact, weighted

METHODS = ("exact", "weighted", "beam")


@dataclass(frozen=True)
class Completion:
    """One text that `complete` found.

    text: the characters after the start. nats: -ln p(text | start), without the condition. weight: its share among all
    that were found; 1 / count for exact samples.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> (found,) = rnn.complete(net, "ab", ending="cc", length=4).found
    >>> len(found.text), found.text.endswith("cc"), found.weight
    (4, True, 1.0)
    """

    text: str
    nats: float
    weight: float


@dataclass(frozen=True)
class Completions(ShowsItself):
    """Texts that `complete` found: the likeliest first with "beam", else in the order in which they were drawn.

    start: the given start. method: the method of search. found: a Completion for each text.
    log_p_condition: ln p(condition | start): with "exact" an upper bound, with "weighted" an unbiased estimate of p,
    with "beam" a lower bound. attempts: number of texts begun; with "beam" of prefixes read.
    proved: with "beam", True if no other text can be likelier than the first, as all dropped prefixes are less likely.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> found = rnn.complete(net, "ab", pattern="a*c", length=4, method="beam")
    >>> [each.text for each in found.found]
    ['aaac']
    """

    start: str
    method: str
    found: tuple[Completion, ...]
    log_p_condition: float
    attempts: int
    proved: bool = False

    @property
    def effective(self) -> float:
        """1 / Σ weight²: effective sample size of the weighted samples (Kong 1992)."""
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

    network: causal network with a vocabulary. start: text before the completion. unknown: character to read in place of
    characters of `start` that the vocabulary lacks; None (default): an error.
    length: number of characters, 80 by default. stop: a character, e.g. "\n"; the text then has up to `length`
    characters before the first `stop`, and p includes the stop. ending: text at the end. pattern: regular expression
    that must match the whole text before `ending`, see docs/evaluating_text_models.md; None: any text.
    method: "exact" (default), "weighted" or "beam", see below. count: number of texts, 1 by default. temperature:
    p^(1 / temperature) for each character, 1 by default. seed: of the random numbers. width: of the beam, 64 by
    default. attempts: maximum number of attempts of "exact".

    exact     Independent samples of this distribution. Characters that make the condition impossible are never drawn.
              Some attempts are rejected; bounds for each prefix make rejections rarer with every attempt.
    weighted  `count` samples without rejection, with importance weights. Weighted means are consistent as count grows;
              single samples are not distributed as above.
    beam      The `count` likeliest texts found by a beam of `width` prefixes; `proved` is True if no text is
              likelier than the first.

    Raises UsageError if no text can fulfil the condition, or none was accepted; DataError for unknown characters.
    Source: Sutskever 2013, 5.5.2, completes from the left alone; the bounds are those of Mansinghka et al. 2009.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=3, outputs=3)
    >>> net.vocabulary = rnn.data.Vocabulary("abc")
    >>> found = rnn.complete(net, "ab", ending="cc", length=4, count=2).found
    >>> [each.text.endswith("cc") for each in found]
    [True, True]
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
        raise UsageError(f"complete: a beam of width {width} cannot find {count} texts; use a larger width")
    if method == "exact" and count > attempts:
        raise UsageError(
            f"complete: {count} texts need at least as many attempts, but attempts is {attempts}"
        )
    lanes = Lanes(
        network, min(64, width if method == "beam" else count if method == "weighted" else 64), "complete"
    )
    vocabulary = lanes.vocabulary
    if stop is not None and (
        not isinstance(stop, str) or len(stop) != 1 or stop not in vocabulary.characters
    ):
        raise UsageError(f"complete: stop must be one character of the model's vocabulary, not {shown(stop)}")
    if strange := sorted(set(ending) - set(vocabulary.characters)):
        raise DataError(
            f"complete: the ending has characters that are not in the vocabulary of the model: "
            f"{' '.join(map(repr, strange[:8]))}; remove them"
        )
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
        f"condition with a probability of at most {math.exp(found.log_p_condition):.2g}. Increase attempts, "
        'reduce count, or use method="weighted" or "beam", which always find texts'
    )
