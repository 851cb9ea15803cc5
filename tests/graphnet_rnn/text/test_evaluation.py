"""Evaluation, reading and sampling against loops over single characters, and counts by hand."""

from __future__ import annotations

import math
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.data import Corpus, Vocabulary
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.text.reading import new_words
from graphnet_rnn.text.sampling import choose
from tests.tables import case

CHARACTERS = "\nabcd"


@cache
def network(kind: str = "zero") -> rnn.Network:
    """Two layers with random weights, large enough that context matters."""
    how: dict[str, Any] = {"dtype": "float64", "initial_state": kind, "dropout": 0.5}
    net = rnn.Network([rnn.LSTM(4), rnn.GRU(3)], inputs=5, outputs=5, **how)
    net.theta = np.random.default_rng(1).standard_normal(net.theta.size)
    net.vocabulary = Vocabulary(CHARACTERS)
    return net


@cache
def one_step(kind: str) -> gn.Function:
    u = network(kind).unroll(1, 1, training=False)
    return gn.compile([u.logits, *u.final], [u.inputs, *u.initial])


def text(length: int) -> Array:
    return np.random.default_rng(length).integers(0, 5, length)


def read_by_hand(symbols: Array, kind: str = "zero") -> Array:
    """The logits after each symbol, from a cold start, (length, 5)."""
    states = network(kind).first_states(1)
    rows = []
    for symbol in symbols:
        o, *states = one_step(kind)(np.full((1, 1), symbol), *states)
        rows.append(o[0, 0])
    return np.array(rows)


def brute_force(symbols: Array, lanes: int, context: int, kind: str) -> tuple[float, int, list[int]]:
    """Nats, right guesses and scored positions; each lane starts `context` characters before its part."""
    lead = max(1, context)
    block = math.ceil((len(symbols) - lead) / lanes)
    nats, correct, scored = 0.0, 0, []
    for lane in range(lanes):
        cold = lane * block
        logits = read_by_hand(symbols[cold : cold + lead + block - 1], kind)
        for position in range(cold + lead, min(cold + lead + block, len(symbols))):
            o = logits[position - 1 - cold]
            nats -= o[symbols[position]] - math.log(np.exp(o).sum())
            correct += int(np.argmax(o) == symbols[position])
            scored.append(position)
    return nats, correct, scored


@pytest.mark.parametrize("kind", ["zero", "learned"])
def test_evaluator_equals_a_loop(kind: str) -> None:
    """Every character after the context counts once; no state is carried between texts."""
    seen: list[tuple[int, int]] = []
    two = ((40, 1, 0), (40, 1, 7), (40, 3, 0), (41, 3, 5))
    for length, lanes, context in (*two, (23, 4, 1), (9, 8, 3), (9, 20, 3), (2, 1, 0), (6, 2, 5)):
        symbols = text(length)
        nats, correct, scored = brute_force(symbols, lanes, context, kind)
        assert scored == list(range(max(1, context), length))
        for time in (1, 4, 50):
            with case(length, lanes, context, time):
                evaluator = rnn.Evaluator(network(kind), lanes, time)
                found = evaluator(symbols, context)
                assert found.scored == len(scored)
                assert found.correct == correct
                assert found.nats == pytest.approx(nats, rel=1e-12)
                assert found.bits == pytest.approx(nats / len(scored) / math.log(2))
                assert found.accuracy == correct / len(scored)
                seen.clear()
                assert evaluator(symbols, context, lambda *progress: seen.append(progress)) == found
                assert [done for done, _ in seen] == sorted({done for done, _ in seen})
                assert seen[-1][0] == seen[-1][1]
                each, likeliest = evaluator.characters(symbols, context)
                assert len(each) == len(likeliest) == found.scored
                assert each.sum() == pytest.approx(nats, rel=1e-12)
                assert int((likeliest == symbols[max(1, context) :]).sum()) == correct


def test_invalid_texts_are_rejected() -> None:
    network = rnn.Network([rnn.Elman(4)], 3, 3, seed=1)
    evaluator, dynamic = rnn.Evaluator(network, lanes=1), rnn.online.DynamicEvaluation(network, None)
    for read in (evaluator, dynamic):
        for given, said in (
            ("abcab", "no vocabulary, so it cannot read a str"),
            (np.ones(4), r"float64 of shape \[4\]"),
            (np.ones((2, 2), np.int64), r"int64 of shape \[2, 2\]"),
            ([], "the text has 0 characters"),
            ([[1], [1, 2]], "must be one-dimensional, of whole numbers"),
            (np.arange(4), "symbols must be 0 ... 2; got 3"),
        ):
            with case(read, said), pytest.raises(DataError, match=said):
                read(given)
    network.vocabulary = Vocabulary("abc")
    for read in (evaluator, dynamic):
        assert read("abcab") == read(np.array([0, 1, 2, 0, 1]))


LOGITS = np.array([0.3, -1.0, 2.0, 1.9, 0.0])


def frequencies(temperature: float, draws: int = 4000) -> Array:
    generator = np.random.default_rng(0)
    counts = np.bincount([choose(LOGITS, temperature, generator) for _ in range(draws)], minlength=5)
    return counts / draws


def test_choose_draws_from_the_softmax() -> None:
    for temperature in (0.3, 1.0, 2.5):
        with case(temperature):
            p = np.exp(LOGITS / temperature)
            p /= p.sum()
            deviation = np.sqrt(p * (1 - p) / 4000)
            assert (np.abs(frequencies(temperature) - p) < 4 * deviation + 1e-12).all()
    for tiny in (0.0, 1e-3, 1e-310):
        assert frequencies(tiny, 50)[2] == 1, "zero: always the likeliest"
    for huge in (1e9, math.inf):
        assert np.abs(frequencies(huge) - 0.2).max() < 4 * math.sqrt(0.2 * 0.8 / 4000)
    generator = np.random.default_rng(0)
    assert {choose(np.array([5.0, 5.0, 1.0]), 1e-310, generator) for _ in range(50)} == {0, 1}
    assert choose(np.array([1e4, -1e4]), 1e-2, generator) == 0, "nothing overflows"
    zero = mock.Mock(random=mock.Mock(return_value=0.0))
    assert choose(np.array([-1e4, 0.0]), 1.0, zero) == 1, "what is impossible is not drawn by an exact 0"


def greedy(warm_up: str, length: int, kind: str = "zero") -> str:
    """The likeliest continuation, every character read again from the start at each step."""
    symbols = [CHARACTERS.index(c) for c in warm_up]
    for _ in range(length):
        symbols.append(int(np.argmax(read_by_hand(np.array(symbols), kind)[-1])))
    return "".join(CHARACTERS[s] for s in symbols[len(warm_up) :])


def test_greedy_sample_equals_reading_by_hand() -> None:
    for kind in ("zero", "learned"):
        with case(kind):
            sampler = rnn.Sampler(network(kind))
            for piece in ("ab", "", "ca"):
                sampler.read(piece)
            assert np.allclose(sampler.logits, read_by_hand(np.array([1, 2, 3, 1]), kind)[-1], atol=1e-12)
            assert "".join(sampler.sample(12, temperature=0)) == greedy("abca", 12, kind)
            sampler.reset()
            cold = "".join(sampler.sample(12, temperature=0))
            assert cold == greedy("\n", 12, kind), "it reads a newline"


def test_cold_start_without_a_newline_reads_the_first_symbol() -> None:
    net = rnn.Network([rnn.Elman(3)], inputs=2, outputs=2)
    net.vocabulary = Vocabulary("xy")
    cold, warm, other = (rnn.Sampler(net) for _ in range(3))
    warm.read("x")
    drawn = list(cold.sample(60))
    assert drawn == list(warm.sample(60))
    assert drawn != list(other.sample(60, seed=1))
    assert set(drawn) <= set("xy")


TEXT = "a cab a bad cab\na dab bad a cabbad" * 6


@cache
def reader() -> rnn.Network:
    vocabulary = Vocabulary.of(TEXT)
    net = rnn.Network([rnn.LSTM(5)], len(vocabulary), len(vocabulary), dtype="float64", dropout=0.0)
    net.theta = np.random.default_rng(3).normal(size=net.theta.size)
    net.vocabulary = vocabulary
    return net


def test_cold_start_predicts_all_but_the_first_character() -> None:
    """From zero states, in one run over the text."""
    text, characters = TEXT[:60], reader().vocabulary.characters
    reading = rnn.read(reader(), text)
    o = rnn.run(reader(), reader().vocabulary.encode(text)[:, None])[0][:, 0]
    p = np.exp(o) / np.exp(o).sum(axis=1, keepdims=True)
    assert reading.probabilities[0] is None
    assert reading.guesses[0] == text[0]
    for t in range(1, len(text)):
        assert reading.probabilities[t] == pytest.approx(p[t - 1][characters.index(text[t])], rel=1e-9)
        assert reading.guesses[t] == characters[int(np.argmax(p[t - 1]))]
    right = sum(g == c for g, c in zip(reading.guesses[1:], text[1:], strict=True))
    assert reading.accuracy == right / 59
    assert reading.bits == pytest.approx(-np.mean(np.log2(reading.probabilities[1:])))
    reading = rnn.read(reader(), "a")
    assert reading.nats == (None,)
    assert math.isnan(reading.bits)
    assert math.isnan(reading.accuracy)
    assert len(rnn.read(reader(), "a", "b").nats) == 1


def test_costs_of_pieces_are_means_over_characters() -> None:
    costs = rnn.cost_over_text(reader(), TEXT, characters=25, context=1, lanes=1)
    nats = rnn.read(reader(), TEXT).nats
    assert costs.length == len(TEXT)
    assert costs.parts == ()
    assert len(costs.bits) == math.ceil(len(TEXT) / 25)
    for i, bits in enumerate(costs.bits):
        piece = [n for n in nats[25 * i : 25 * i + 25] if n is not None]
        assert bits == pytest.approx(np.mean(piece) / math.log(2))
    costs = rnn.cost_over_text(reader(), TEXT, characters=10, context=25, lanes=2)
    assert [math.isnan(b) for b in costs.bits[:4]] == [True, True, False, False], "those without a scored one"


def test_states_are_carried_over_the_parts_of_a_corpus() -> None:
    corpus = Corpus.split(TEXT)
    costs = rnn.cost_over_text(reader(), corpus, characters=20, context=1, lanes=1)
    ends = np.cumsum([len(corpus.train), len(corpus.valid)])
    assert costs.parts == (("training", 0), ("validation", ends[0]), ("test", ends[1]))
    nats, _ = rnn.Evaluator(reader(), 1).characters(corpus.vocabulary.encode(TEXT), context=1)
    parts = np.split(nats / np.log(2), ends - (len(TEXT) - len(nats)))
    np.testing.assert_allclose(costs.means, [part.mean() for part in parts], rtol=1e-12)
    assert costs.bits == rnn.cost_over_text(reader(), TEXT, characters=20, context=1, lanes=1).bits
    no_test = Corpus(corpus.train, corpus.valid, corpus.test[:0], corpus.vocabulary)
    assert [name for name, _ in rnn.cost_over_text(reader(), no_test).parts] == ["training", "validation"]


def test_new_words_are_counted_at_their_first_character() -> None:
    text = "int a; int b_1 = a;\nThe the_cat, the. naïve Ω a"
    words = ["int", "a", "b_1", "The", "the_cat", "the", "naïve", "Ω"]
    assert list(new_words(text)) == [0, 4, 11, 20, 24, 33, 38, 44]
    assert all(text[i:].startswith(word) for i, word in zip(new_words(text), words, strict=True))
    assert new_words("").size == new_words(".,;").size == 0
    costs = rnn.cost_over_text(reader(), TEXT, characters=5)
    assert sum(costs.new_words) == len(new_words(TEXT))
    assert costs.new_words[:2] == (2, 1)  # "a cab| a ba|"


BARE = rnn.Network([rnn.Elman(4)], 3, 3, seed=1)
NUMBERS = rnn.Network([rnn.Elman(2)], inputs=2, outputs=2, loss="squared")
POOLED = rnn.Network([rnn.Elman(3)], inputs=2, outputs=2, pool="mean")
POOLED.vocabulary = Vocabulary("ab")


#: what -> (the call, the error, what it names)
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no text": (lambda: rnn.Evaluator(network())([], 0), DataError, "the text has 0 characters; a context of 0"),
    "context alone": (lambda: rnn.Evaluator(network())(text(5), 9), DataError, "has 5 characters; a context of 9"),
    "no context": (lambda: rnn.Evaluator(network())(text(30), -1), UsageError, "context must be a whole"),
    "no lanes": (lambda: rnn.Evaluator(network(), lanes=0), UsageError, "lanes must be a whole number >="),
    "no time": (lambda: rnn.Evaluator(network(), time=0), UsageError, "time must be a whole number >= 1"),
    "no symbols": (lambda: rnn.Evaluator(NUMBERS), UsageError, "the network must read symbols and"),
    "cold": (lambda: choose(LOGITS, -1e-9, np.random.default_rng(0)), UsageError, "temperature must be >="),
    "unseen": (lambda: rnn.Sampler(network()).read("aqa"), DataError, "are not in the vocabulary of the model:"),
    # Told at once, and not only when the first character is asked for.
    "length": (lambda: rnn.Sampler(network()).sample(-1), UsageError, "length must be a whole number >="),
    "temperature": (lambda: rnn.Sampler(network()).sample(5, -1), UsageError, "temperature must be >="),
    "seed": (lambda: rnn.Sampler(network()).sample(5, seed=-1), UsageError, "seed must be a whole number"),
    "pooled": (lambda: rnn.Sampler(POOLED), UsageError, "Sampler: the network must have an output at each time step"),
    "pooled lanes": (lambda: rnn.Lanes(POOLED), UsageError, "Lanes: the network must have an output at each time step"),
    "read, unseen": (lambda: rnn.read(reader(), "ax"), DataError, "are not in the vocabulary of the model: 'x'"),
    "read nothing": (lambda: rnn.read(reader(), ""), DataError, "leaves none to score"),
    "read, no vocabulary": (lambda: rnn.read(BARE, "a"), UsageError, "read: the network must have a vocabulary"),
    "costs of none": (lambda: rnn.cost_over_text(reader(), TEXT, characters=0), UsageError, "characters mu"),
    "one character": (lambda: rnn.cost_over_text(reader(), "a", characters=5), DataError, "leaves none"),
    "costs of no vocabulary": (lambda: rnn.cost_over_text(BARE, TEXT), UsageError, "must have a vocabulary"),
    "no vocabulary": (lambda: rnn.Sampler(BARE), UsageError, "the network must have a vocabulary"),
}  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    assert rnn.read(reader(), "ax", unknown="b").text == "ax"
    for what, (call, error, said) in REFUSED.items():
        with case(what), pytest.raises(error, match=said):
            call()
