"""Orders of words against all of them, one by one; n-grams against counts by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

from .small import log_p, network

TEXT = "the cat sat on the mat and the rat sat on the cat and a cat ate a rat " * 3


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_the_order_found_is_the_likeliest_of_all(seed: int) -> None:
    net = network("".join(set(TEXT)), rnn.Elman(4), seed=seed)
    lanes = rnn.Lanes(net, 16)
    for bag in rnn.draw_bags(TEXT, 2, words=4, context=1, seed=seed):
        start = " ".join(bag.before) + " "
        after = " " + " ".join(bag.after)
        orders = set(itertools.permutations(bag.words))
        costs = {order: log_p(net, start, " ".join(order) + after) for order in orders}
        assert bag.orders == len(costs)
        for beam in (1, 20):
            found = rnn.debag(lanes, bag, beam)
            assert found.log_p == pytest.approx(max(costs.values()), abs=1e-4)
            assert costs[found.words] == pytest.approx(max(costs.values()), abs=1e-4)
            assert found.true_log_p == pytest.approx(costs[bag.words], abs=1e-4)
            assert found.correct == (found.words == bag.words)


def test_bags_are_passages_of_the_text() -> None:
    words = TEXT.split()
    for bag in rnn.draw_bags(TEXT, 10, words=5, context=1):
        passage = [*bag.before, *bag.words, *bag.after]
        assert len(passage) == 7
        assert any(words[k : k + 7] == passage for k in range(len(words)))
    with pytest.raises(DataError, match="has 0 passages of 11, not 500"):
        rnn.draw_bags("one two")


def test_n_grams_put_the_words_of_their_text_into_order() -> None:
    model = rnn.NGrams(TEXT, 6)
    answers = [rnn.debag(model, bag) for bag in rnn.draw_bags(TEXT, 10, words=4)]
    assert sum(each.correct for each in answers) > 5  # chance is one in 24 or so


def test_counts_by_hand() -> None:
    # abab a c: ab 2, ba 2, ac 1. Once: ac; twice: ab, ba: D2 = 1 / (1 + 4). Before a: b; before b: a; before c: a.
    model = rnn.NGrams("ababac", 2)
    unigram_discount = 1.0  # each is met after one other character alone: n1 = 3, n2 = 0
    single = dict.fromkeys("abc", (1 - unigram_discount) / 3 + unigram_discount * 3 / 3 / 3)
    d = 1 / 5
    after_a = {"a": 0.0, "b": 2 - d, "c": 1 - d}
    right = {c: after_a[c] / 3 + d * 2 / 3 * single[c] for c in "abc"}
    for symbol, c in enumerate("abc"):
        assert model.probability(np.array([[0, symbol]]))[0] == pytest.approx(right[c])
        assert model.probability(np.array([[-1, symbol]]))[0] == pytest.approx(single[c])
        # After c nothing was ever seen.
        assert model.probability(np.array([[2, symbol]]))[0] == pytest.approx(single[c])


def test_probabilities_sum_to_one_and_texts_cost_their_sum() -> None:
    for order in (1, 2, 4):
        with case(order):
            model = rnn.NGrams(TEXT, order)
            count = len(model.vocabulary)
            for before in ("", "c", "the ", "xq" if count > 50 else "tt t"):
                place = model.start(model.vocabulary.encode(before))
                total, _ = model.read(
                    model.rows(place, np.zeros(count, np.int64)), [np.array([k]) for k in range(count)]
                )
                assert np.exp(total).sum() == pytest.approx(1.0)
            start = model.start(model.vocabulary.encode("a "))
            whole, _ = model.read(start, [model.vocabulary.encode("cat sat")])
            first, after = model.read(start, [model.vocabulary.encode("cat ")])
            second, _ = model.read(after, [model.vocabulary.encode("sat")])
            assert whole[0] == pytest.approx(first[0] + second[0])
            assert math.isfinite(whole[0])


def test_what_cannot_be_counted_is_said() -> None:
    with pytest.raises(UsageError, match="order must be at most 17 with 12 different characters, not 40"):
        rnn.NGrams(TEXT, 40)
    with pytest.raises(DataError, match="too few to count"):
        rnn.NGrams("abc", 5)
