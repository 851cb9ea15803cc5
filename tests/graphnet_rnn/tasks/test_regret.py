"""Smoothing and regret by hand, and on models whose regret follows from the law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.tasks import Drawn, alphabet, anbn, distant_xor, regret, smoothed
from tests.tables import case

RNG = np.random.default_rng


def test_smoothing_by_hand() -> None:
    """Half at first, then a third, then a quarter of the uniform distribution."""
    pi = [[1.0, 0.0, 0.0, 0.0], [0.7, 0.3, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]]
    expected = [
        [5 / 8, 1 / 8, 1 / 8, 1 / 8],
        [1.4 / 3 + 1 / 12, 0.6 / 3 + 1 / 12, 1 / 12, 1 / 12],
        [0.3 / 4 + 1 / 16, 0.6 / 4 + 1 / 16, 0.9 / 4 + 1 / 16, 1.2 / 4 + 1 / 16],
    ]
    assert smoothed(pi, 4) == pytest.approx(np.array(expected), rel=1e-15)


def test_smoothing_is_the_same_for_what_came_and_piece_by_piece() -> None:
    pi, x = RNG(0).dirichlet(np.ones(5), (50, 3)), RNG(1).integers(0, 5, (50, 3, 1))
    mixed = smoothed(pi, 5)
    assert mixed.sum(axis=2) == pytest.approx(np.ones((50, 3)))
    came = smoothed(np.take_along_axis(pi, x, 2)[..., 0], 5)
    assert np.array_equal(came, np.take_along_axis(mixed, x, 2)[..., 0])
    assert np.array_equal(np.concatenate([smoothed(pi[:20], 5), smoothed(pi[20:], 5, first=20)]), mixed)


def test_what_smoothing_costs() -> None:
    """At most log₂(T + 1) bits in all; and of what had no probability, log₂((t + 2) symbols)."""
    p = RNG(0).random(1000)
    more = np.log2(p / smoothed(p, 7))
    assert more.sum() < math.log2(1001)
    assert np.log2(1 / (1 - 1 / (np.arange(1000) + 2))).sum() == pytest.approx(math.log2(1001))
    assert -np.log2(smoothed(np.zeros(9), 7)) == pytest.approx(np.log2((np.arange(9) + 2) * 7))


def test_regret_by_hand() -> None:
    drawn = Drawn("abcd", np.array([1.0, 2.0, 0.0, 0.5]), np.array([True, False, True, True]))
    assert regret([1.5, 9.0, 1.0, 0.0], drawn).tolist() == [0.5, 0.5, 1.5, 1.0]
    assert regret([1.5, math.inf, 1.0, 0.0], drawn)[-1] == 1.0  # what is not scored may be impossible
    assert regret([1.5, 0.0, math.inf, 0.0], drawn)[-1] == math.inf


def test_the_true_model_has_none_and_a_coin_one_bit_a_line() -> None:
    for drawn in (alphabet(RNG(0), 20), distant_xor(RNG(0), 20, 30)):
        assert not regret(drawn.bits, drawn).any()
    drawn = distant_xor(RNG(0), 30, 20)
    assert regret(np.ones(len(drawn.text)), drawn)[-1] == 30


def test_of_two_blocks_without_memory() -> None:
    """Ollivier 2013, section 4: a model that does not know that lines are equally long pays for the second what it
    pays for the first: with the law of the first, 10 bits a block."""
    drawn = anbn(RNG(0))
    lines = drawn.text.splitlines(keepends=True)
    bits = drawn.bits.copy()
    start = 0
    for number, line in enumerate(lines):
        if number % 2:
            bits[start : start + len(line)] = bits[start - len(line) : start]
        start += len(line)
    curve = regret(bits, drawn)
    assert curve[-1] == pytest.approx(100)
    assert curve[len(lines[0]) - 1] == 0
    assert curve[2 * len(lines[0]) - 1] == pytest.approx(10)


ABC = Drawn("abc", np.zeros(3), np.ones(3, bool))
REFUSED = {
    "too few": (lambda: regret([1.0], ABC), DataError, r"each of the text's 3 symbols, not the shape \[1\]"),
    "negative": (lambda: regret([0.0, -1.0, 0.0], ABC), DataError, "those of symbol 1 are -1"),
    "nan": (lambda: regret([0.0, 1.0, math.nan], ABC), DataError, "those of symbol 2 are nan"),
    "no probability": (lambda: smoothed([1.1], 3), DataError, r"smoothed: probabilities .*\[0, 1\]"),
    "nan probability": (lambda: smoothed([math.nan], 3), DataError, r"smoothed: probabilities .*\[0, 1\]"),
    "no array": (lambda: smoothed(0.5, 3), DataError, r"smoothed: probabilities .*\[0, 1\]"),
    "no symbols": (lambda: smoothed([0.5], 0), UsageError, "smoothed: symbols .*>= 1, not 0"),
    "first": (lambda: smoothed([0.5], 3, first=-1), UsageError, "smoothed: first .*>= 0, not -1"),
}


def test_what_cannot_be_meant_is_refused() -> None:
    for name, (call, error, part) in REFUSED.items():
        with case(name), pytest.raises(error, match=part):
            call()
