"""Evaluation and sampling against a loop that reads one character at a time."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.data import Vocabulary
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.text.sampling import choose
from tests.tables import case

CHARACTERS = "\nabcd"


@cache
def network(kind: str = "zero") -> rnn.Network:
    """Two layers with random weights, large enough that context matters."""
    net = rnn.Network(
        [rnn.LSTM(4), rnn.GRU(3)], inputs=5, outputs=5, dtype="float64", initial_state=kind, dropout=0.5
    )
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
    for length, lanes, context in (
        (40, 1, 0),
        (40, 1, 7),
        (40, 3, 0),
        (41, 3, 5),
        (23, 4, 1),
        (9, 8, 3),
        (9, 20, 3),
        (2, 1, 0),
        (6, 2, 5),
    ):
        for time in (1, 4, 50):
            with case(length, lanes, context, time):
                symbols = text(length)
                nats, correct, scored = brute_force(symbols, lanes, context, kind)
                assert scored == list(range(max(1, context), length)), (
                    "every character after the context, once"
                )
                found = rnn.Evaluator(network(kind), lanes, time)(symbols, context)
                assert found.scored == len(scored)
                assert found.correct == correct
                assert found.nats == pytest.approx(nats, rel=1e-12)
                assert found.bits == pytest.approx(nats / len(scored) / math.log(2))
                assert found.accuracy == correct / len(scored)


def test_evaluation_twice_is_the_same() -> None:
    """Nothing is carried over from one text to the next."""
    evaluator = rnn.Evaluator(network(), 2, 5)
    first = evaluator(text(30), 3)
    evaluator(text(17), 0)
    assert evaluator(text(30), 3) == first


def test_progress_counts_up_to_the_total() -> None:
    seen: list[tuple[int, int]] = []
    rnn.Evaluator(network(), 2, 5)(text(30), 3, lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == seen[-1][1]


def test_nothing_to_score() -> None:
    for length, context in ((0, 0), (1, 0), (5, 5), (5, 9)):
        with (
            case(length, context),
            pytest.raises(DataError, match=f"the text has {length} characters; with {context} of context"),
        ):
            rnn.Evaluator(network(), 2, 5)(text(length), context)


def test_a_text_may_be_a_str_and_must_be_symbols() -> None:
    network = rnn.Network([rnn.Elman(4)], 3, 3, seed=1)
    evaluator, dynamic = rnn.Evaluator(network, lanes=1), rnn.online.DynamicEvaluation(network, None)
    for read in (evaluator, dynamic):
        with pytest.raises(DataError, match="no vocabulary, so it cannot read a str"):
            read("abcab")
        with pytest.raises(DataError, match=r"not float64 of shape \[4\]"):
            read(np.ones(4))
        with pytest.raises(DataError, match=r"not int64 of shape \[2, 2\]"):
            read(np.ones((2, 2), np.int64))
        with pytest.raises(DataError, match="the text has 0 characters"):
            read([])
        with pytest.raises(DataError, match="a text must be a str or a row of symbols"):
            read([[1], [1, 2]])
        with pytest.raises(DataError, match="symbols from 0 to 3, but the network reads 0 to 2"):
            read(np.arange(4))
    network.vocabulary = Vocabulary("abc")
    for read in (evaluator, dynamic):
        assert read("abcab") == read(np.array([0, 1, 2, 0, 1]))


def test_impossible_evaluation() -> None:
    with pytest.raises(UsageError, match="context must be a whole number >= 0, not -1"):
        rnn.Evaluator(network())(text(30), -1)
    with pytest.raises(UsageError, match="lanes must be a whole number >= 1, not 0"):
        rnn.Evaluator(network(), lanes=0)
    with pytest.raises(UsageError, match="time must be a whole number >= 1, not 0"):
        rnn.Evaluator(network(), time=0)
    with pytest.raises(UsageError, match="only a network that reads symbols and predicts them"):
        rnn.Evaluator(rnn.Network([rnn.Elman(2)], inputs=2, outputs=2, loss="squared"))


# -- choosing ------------------------------------------------------------------------------------

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


def test_temperature_limits() -> None:
    assert frequencies(0.0, 50)[2] == 1, "zero: always the likeliest"
    for tiny in (1e-3, 1e-310):
        assert frequencies(tiny, 50)[2] == 1
    for huge in (1e9, math.inf):
        assert np.abs(frequencies(huge) - 0.2).max() < 4 * math.sqrt(0.2 * 0.8 / 4000)


def test_equal_logits_share_even_at_a_tiny_temperature() -> None:
    generator = np.random.default_rng(0)
    drawn = {choose(np.array([5.0, 5.0, 1.0]), 1e-310, generator) for _ in range(50)}
    assert drawn == {0, 1}


def test_impossible_temperature() -> None:
    for temperature in (-1.0, -1e-9, math.nan):
        with case(temperature), pytest.raises(UsageError, match="temperature must be >= 0"):
            choose(LOGITS, temperature, np.random.default_rng(0))


def test_impossible_symbol_is_never_drawn() -> None:
    """Not even where the random number is exactly 0."""

    class Zero(np.random.Generator):
        def random(self, *arguments: Any) -> float:  # type: ignore[override]
            return 0.0

    assert choose(np.array([-1e4, 0.0]), 1.0, Zero(np.random.PCG64(0))) == 1


def test_large_logits_do_not_overflow() -> None:
    assert choose(np.array([1e4, -1e4]), 1e-2, np.random.default_rng(0)) == 0


# -- sampling ------------------------------------------------------------------------------------


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
            sampler.read("abca")
            assert "".join(sampler.sample(12, temperature=0)) == greedy("abca", 12, kind)
            sampler.reset()
            assert "".join(sampler.sample(12, temperature=0)) == greedy("\n", 12, kind), (
                "a cold start reads a newline"
            )


def test_warm_up_in_pieces() -> None:
    whole, pieces = rnn.Sampler(network()), rnn.Sampler(network())
    whole.read("abcdab")
    pieces.read("abc")
    pieces.read("")
    pieces.read("dab")
    assert np.array_equal(whole.logits, pieces.logits)
    assert np.allclose(whole.logits, read_by_hand(np.array([1, 2, 3, 4, 1, 2]))[-1], atol=1e-12)


def test_seeds() -> None:
    def sample(seed: int) -> str:
        return "".join(rnn.Sampler(network()).sample(60, seed=seed))

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)
    assert set(sample(1)) <= set(CHARACTERS)


def test_cold_start_without_a_newline_reads_the_first_symbol() -> None:
    net = rnn.Network([rnn.Elman(3)], inputs=2, outputs=2)
    net.vocabulary = Vocabulary("xy")
    cold, warm = rnn.Sampler(net), rnn.Sampler(net)
    warm.read("x")
    assert list(cold.sample(20)) == list(warm.sample(20))


def test_unseen_warm_up() -> None:
    with pytest.raises(DataError, match=re.escape("has not seen in training: 'q'")):
        rnn.Sampler(network()).read("aqa")


def test_impossible_sample_is_told_at_once() -> None:
    """Not only when the first character is asked for."""
    for arguments, content in (
        ({"length": -1}, "length must be a whole number >= 0, not -1"),
        ({"length": 5, "temperature": -1}, "temperature must be >= 0"),
        ({"length": 5, "seed": -1}, "seed must be a whole number >= 0, not -1"),
    ):
        with case(arguments, content), pytest.raises(UsageError, match=re.escape(content)):
            rnn.Sampler(network()).sample(**arguments)


def test_one_output_for_a_text_is_nothing_to_draw_from() -> None:
    for reader in (rnn.Sampler, rnn.Lanes):
        with case(reader):
            classifier = rnn.Network([rnn.Elman(3)], inputs=2, outputs=2, pool="mean")
            classifier.vocabulary = rnn.data.Vocabulary("ab")
            with pytest.raises(
                UsageError, match=f"{reader.__name__}: a network with an output at each step is needed"
            ):
                reader(classifier)


def test_network_without_vocabulary() -> None:
    with pytest.raises(UsageError, match="this network has no vocabulary"):
        rnn.Sampler(rnn.Network([rnn.Elman(3)], inputs=2, outputs=2))
