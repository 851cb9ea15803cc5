"""Three searches for texts that fulfil a condition: rejection with adaptive bounds, importance weights, beam search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.data.predicted import log_softmax
from graphnet_rnn.text.conditions import Condition
from graphnet_rnn.text.lanes import Lanes, Place

#: Number of attempts in parallel, with the same bounds.
SIDE_BY_SIDE = 64


class Continuations(NamedTuple):
    """Rows of symbols, ln p and ln weight of each, and the other fields of Completions."""

    texts: list[list[int]]
    log_p: Array
    log_weights: Array
    log_p_condition: float
    attempts: int
    proved: bool = False


@dataclass
class _Node:
    """A prefix. bound: upper bound of the probability that the text after it fulfils the condition."""

    bound: float = 1.0
    children: dict[int, _Node] = field(default_factory=dict)


@dataclass
class _Attempt:
    nodes: list[_Node]
    ahead: list[Array] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)
    log_p: float = 0.0


def exact(
    lanes: Lanes,
    place: Place,
    condition: Condition,
    count: int,
    temperature: float,
    generator: np.random.Generator,
    most: int,
) -> Continuations:
    """Independent samples of p(text | condition), by rejection; each rejected attempt tightens the bounds.

    At a prefix x with bound B(x) >= p(condition | x), a symbol c is drawn with probability p(c | x) B(xc) / B(x), and
    the attempt is rejected with the remaining probability. Along a text these factors multiply to p(text) / B(empty),
    so accepted texts have the right distribution for any bounds. Bounds are updated only when all attempts begun
    together have ended, so that early ends are not preferred.
    Source: Mansinghka, Roy, Jonas and Tenenbaum 2009 (adaptive sequential rejection).
    """
    root = _Node()
    accepted: list[_Attempt] = []
    begun = 0
    while len(accepted) < count and begun < most:
        many = min(SIDE_BY_SIDE, most - begun)
        begun += many
        round_ = [_Attempt([root]) for _ in range(many)]
        accepted += _drawn(lanes, place, condition, temperature, generator, round_)
        for attempt in round_:
            _renew(attempt)
    texts = accepted[:count]
    return Continuations(
        [each.symbols for each in texts],
        np.array([each.log_p for each in texts]),
        np.zeros(len(texts)),
        math.log(root.bound) if root.bound > 0 else -math.inf,
        begun,
    )


def _drawn(
    lanes: Lanes,
    place: Place,
    condition: Condition,
    temperature: float,
    generator: np.random.Generator,
    attempts: list[_Attempt],
) -> list[_Attempt]:
    accepted = np.zeros(len(attempts), bool)
    active = np.arange(len(attempts))
    states = np.zeros(len(attempts), np.int64)
    now = place.rows(np.zeros(len(attempts), np.int64))
    for left in range(condition.steps, 0, -1):
        p = _probabilities(now, temperature)
        ahead = np.where(condition.allowed(states, left), p, 0.0)
        symbols = [_draw(attempts[k], row, generator) for k, row in zip(active, ahead, strict=True)]
        going = np.array([symbol is not None for symbol in symbols], bool)
        drawn = np.array([symbol for symbol in symbols if symbol is not None], np.int64)
        active = active[going]
        for k, row, symbol in zip(active, p[going], drawn, strict=True):
            attempts[k].log_p += math.log(row[symbol])
        states = condition.table[states[going], drawn]
        ended = condition.ended(states, left - 1)
        accepted[active[ended]] = True
        rows = np.flatnonzero(going)[~ended]
        active, states, drawn = (each[~ended] for each in (active, states, drawn))
        if not len(active):
            break
        now = lanes.step(now.rows(rows), drawn)
    return [attempts[k] for k in np.flatnonzero(accepted)]


def _draw(attempt: _Attempt, ahead: Array, generator: np.random.Generator) -> int | None:
    node = attempt.nodes[-1]
    attempt.ahead.append(ahead)
    cumulative = np.cumsum(_bounded(node, ahead))
    symbol = int(np.searchsorted(cumulative, generator.random() * node.bound, side="right"))
    if symbol >= len(cumulative):
        return None
    attempt.nodes.append(node.children.setdefault(symbol, _Node()))
    attempt.symbols.append(symbol)
    return symbol


def _bounded(node: _Node, ahead: Array) -> Array:
    """p(c | x) B(xc) for each symbol c."""
    bounded = ahead.copy()
    for symbol, child in node.children.items():
        bounded[symbol] *= child.bound
    return bounded


def _renew(attempt: _Attempt) -> None:
    """B(x) <- min(B(x), Σ_c p(c | x) B(xc)) along the path, from the last prefix to the first."""
    for node, ahead in zip(attempt.nodes[len(attempt.ahead) - 1 :: -1], attempt.ahead[::-1], strict=True):
        node.bound = min(node.bound, float(_bounded(node, ahead).sum()))


def weighted(
    lanes: Lanes,
    place: Place,
    condition: Condition,
    count: int,
    temperature: float,
    generator: np.random.Generator,
) -> Continuations:
    """Texts drawn by p(c | x) among the symbols from which the end can be reached; weight Π_t (sum of these p)."""
    texts: list[list[int]] = [[] for _ in range(count)]
    log_p, log_weights = np.zeros(count), np.zeros(count)
    active, states = np.arange(count), np.zeros(count, np.int64)
    now = place.rows(np.zeros(count, np.int64))
    for left in range(condition.steps, 0, -1):
        every = _log_p(now, temperature)
        log_allowed = np.where(condition.allowed(states, left), every, -np.inf)
        highest = log_allowed.max(axis=1)
        p = np.exp(log_allowed - highest[:, None])
        cumulative = np.cumsum(p, axis=1)
        total = cumulative[:, -1]
        rows = np.arange(len(active))
        symbols = (cumulative <= (generator.random(len(active)) * total)[:, None]).sum(axis=1)
        log_p[active] += every[rows, symbols]
        log_weights[active] += highest + np.log(total)
        for k, symbol in zip(active, symbols, strict=True):
            texts[k].append(int(symbol))
        states = condition.table[states, symbols]
        going = ~condition.ended(states, left - 1)
        active, states = active[going], states[going]
        if not len(active):
            break
        now = lanes.step(now.rows(going), symbols[going])
    return Continuations(texts, log_p, log_weights, _log_sum(log_weights) - math.log(count), count)


def beam(
    lanes: Lanes, place: Place, condition: Condition, count: int, temperature: float, width: int
) -> Continuations:
    """The likeliest texts, from the `width` likeliest prefixes of each length that can be completed."""
    done: list[tuple[float, list[int]]] = []
    texts: list[list[int]] = [[]]
    scores, states, now = np.zeros(1), np.zeros(1, np.int64), place
    left_behind, read = -math.inf, 1
    for left in range(condition.steps, 0, -1):
        log_p = np.where(condition.allowed(states, left), _log_p(now, temperature), -np.inf) + scores[:, None]
        rows, symbols = np.nonzero(np.isfinite(log_p))
        scores, states = log_p[rows, symbols], condition.table[states[rows], symbols]
        # Complete texts do not count for the width of the beam.
        ended = condition.ended(states, left - 1)
        done += [(float(scores[k]), [*texts[rows[k]], int(symbols[k])]) for k in np.flatnonzero(ended)]
        done = sorted(done, key=lambda each: -each[0])[:count]
        going = np.flatnonzero(~ended)
        going = going[np.argsort(-scores[going], kind="stable")]
        if len(going) > width:
            left_behind = max(left_behind, float(scores[going[width]]))
            going = going[:width]
        if len(done) == count:  # a less likely prefix cannot become a better text
            going = going[scores[going] > done[-1][0]]
        if not len(going):
            break
        read += len(going)
        texts = [[*texts[rows[k]], int(symbols[k])] for k in going]
        scores, states = scores[going], states[going]
        now = lanes.step(now.rows(rows[going]), symbols[going])
    found = np.array([score for score, _ in done])
    proved = left_behind <= found[0]
    return Continuations([text for _, text in done], found, found, _log_sum(found), read, proved)


def _log_p(place: Place, temperature: float) -> Array:
    return place.log_p if temperature == 1 else log_softmax(place.log_p / temperature)


def _probabilities(place: Place, temperature: float) -> Array:
    return np.exp(_log_p(place, temperature))


def _log_sum(values: Array) -> float:
    highest = values.max()
    return float(highest + np.log(np.exp(values - highest).sum()))
