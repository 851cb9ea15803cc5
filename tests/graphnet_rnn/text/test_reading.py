"""Reading: probabilities, guesses and costs against the evaluator and against counts by hand."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.data import Corpus, Vocabulary
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.text.reading import new_words

TEXT = "a cab a bad cab\na dab bad a cabbad" * 6


@cache
def network() -> rnn.Network:
    vocabulary = Vocabulary.of(TEXT)
    net = rnn.Network([rnn.LSTM(5)], len(vocabulary), len(vocabulary), dtype="float64", dropout=0.0)
    net.theta = np.random.default_rng(3).normal(size=net.theta.size)
    net.vocabulary = vocabulary
    return net


def probabilities_by_hand(text: str) -> list[np.ndarray]:
    """Of every character after each one of the text, from zero states."""
    logits, _ = rnn.run(network(), network().vocabulary.encode(text)[:, None])  # type: ignore[union-attr]
    o = np.exp(logits[:, 0] - logits[:, 0].max(axis=1, keepdims=True))
    return list(o / o.sum(axis=1, keepdims=True))


def test_a_cold_start_predicts_all_but_the_first_character() -> None:
    text = TEXT[:60]
    reading = rnn.read(network(), text)
    p = probabilities_by_hand(text)
    characters = network().vocabulary.characters  # type: ignore[union-attr]
    assert reading.probabilities[0] is None
    assert reading.guesses[0] == text[0]
    for t in range(1, len(text)):
        assert reading.probabilities[t] == pytest.approx(p[t - 1][characters.index(text[t])], rel=1e-9)
        assert reading.guesses[t] == characters[int(np.argmax(p[t - 1]))]
    right = sum(g == c for g, c in zip(reading.guesses[1:], text[1:], strict=True))
    assert reading.accuracy == right / 59
    known = [q for q in reading.probabilities if q is not None]
    assert reading.bits == pytest.approx(-np.mean(np.log2(known)))


def test_a_warm_start_is_the_end_of_a_longer_reading() -> None:
    whole, warm = rnn.read(network(), TEXT[:100]), rnn.read(network(), TEXT[40:100], TEXT[:40])
    assert warm.context == 40
    assert warm.text == TEXT[40:100]
    assert None not in warm.nats
    np.testing.assert_allclose(warm.nats, whole.nats[40:], rtol=1e-9)
    assert warm.guesses == whole.guesses[40:]


def test_one_character_from_a_cold_start_is_not_predicted() -> None:
    reading = rnn.read(network(), "a")
    assert reading.nats == (None,)
    assert math.isnan(reading.bits)
    assert math.isnan(reading.accuracy)
    assert len(rnn.read(network(), "a", "b").nats) == 1


def test_what_cannot_be_read_is_said() -> None:
    with pytest.raises(DataError, match="has not seen in training: 'x'"):
        rnn.read(network(), "ax")
    assert rnn.read(network(), "ax", unknown="b").text == "ax"
    with pytest.raises(DataError, match="nothing to score"):
        rnn.read(network(), "")
    with pytest.raises(UsageError, match="read: this network has no vocabulary"):
        rnn.read(rnn.Network([rnn.GRU(2)], 3, 3), "a")


def test_characters_are_what_the_evaluation_sums() -> None:
    symbols = network().vocabulary.encode(TEXT)  # type: ignore[union-attr]
    for lanes, context in ((1, 0), (3, 7), (50, 2)):
        evaluator = rnn.Evaluator(network(), lanes, time=11)
        nats, likeliest = evaluator.characters(symbols, context)
        result = evaluator(symbols, context)
        assert len(nats) == len(likeliest) == result.scored
        assert nats.sum() == pytest.approx(result.nats, rel=1e-12)
        assert int((likeliest == symbols[max(1, context) :]).sum()) == result.correct


# -- over a whole text ---------------------------------------------------------------------------


def test_costs_of_pieces_are_means_of_a_reading() -> None:
    costs = rnn.cost_over_text(network(), TEXT, characters=25, context=1, lanes=1)
    nats = rnn.read(network(), TEXT).nats
    assert costs.length == len(TEXT)
    assert costs.parts == ()
    assert len(costs.bits) == math.ceil(len(TEXT) / 25)
    for i, bits in enumerate(costs.bits):
        piece = [n for n in nats[25 * i : 25 * i + 25] if n is not None]
        assert bits == pytest.approx(np.mean(piece) / math.log(2))


def test_states_are_carried_over_the_parts_of_a_corpus() -> None:
    corpus = Corpus.split(TEXT)
    costs = rnn.cost_over_text(network(), corpus, characters=20, context=1, lanes=1)
    ends = np.cumsum([len(corpus.train), len(corpus.valid)])
    assert costs.parts == (("training", 0), ("validation", ends[0]), ("test", ends[1]))
    assert costs.bits == rnn.cost_over_text(network(), TEXT, characters=20, context=1, lanes=1).bits
    no_test = Corpus(corpus.train, corpus.valid, corpus.test[:0], corpus.vocabulary)
    assert [name for name, _ in rnn.cost_over_text(network(), no_test).parts] == ["training", "validation"]


def test_pieces_without_a_scored_character_have_no_cost() -> None:
    costs = rnn.cost_over_text(network(), TEXT, characters=10, context=25, lanes=2)
    assert [math.isnan(b) for b in costs.bits[:4]] == [True, True, False, False]


def test_new_words_are_counted_where_they_begin() -> None:
    text = "int a; int b_1 = a;\nThe the_cat, the. naïve Ω a"
    words = ["int", "a", "b_1", "The", "the_cat", "the", "naïve", "Ω"]
    assert list(new_words(text)) == [0, 4, 11, 20, 24, 33, 38, 44]
    assert all(text[i:].startswith(word) for i, word in zip(new_words(text), words, strict=True))
    assert new_words("").size == new_words(".,;").size == 0
    costs = rnn.cost_over_text(network(), TEXT, characters=5)
    assert sum(costs.new_words) == len(new_words(TEXT))
    assert costs.new_words[:2] == (2, 1)  # "a cab| a ba|"


def test_impossible_costs() -> None:
    with pytest.raises(UsageError, match="cost_over_text: characters must be a whole number >= 1, not 0"):
        rnn.cost_over_text(network(), TEXT, characters=0)
    with pytest.raises(DataError, match="nothing to score"):
        rnn.cost_over_text(network(), "a", characters=5)
    with pytest.raises(UsageError, match="no vocabulary"):
        rnn.cost_over_text(rnn.Network([rnn.GRU(2)], 3, 3), TEXT)
