"""Completions against all texts of a small alphabet, one by one; patterns against Python's re."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import UsageError
from graphnet_rnn.text.patterns import automaton, read_pattern
from tests.tables import case

from .small import log_p, network

NET = network("\nabc", seed=3)
COUNT = 2000
#: Settings of a condition, and the same said in Python's re.
CONDITIONS: list[tuple[dict[str, Any], str]] = [
    ({"length": 3}, r"(?s:.{3})"),
    ({"pattern": "(ab|c)*.*", "ending": "ca", "length": 4}, r"(?=.{4}$)(ab|c)*.*ca"),
    ({"pattern": "[ab]+c?", "length": 4, "stop": "\n"}, r"(?=.{0,4}\Z)[ab]+c?"),
    ({"ending": "b", "length": 2, "stop": "c"}, r"(?=.{0,2}\Z)[^c]*b"),
]
CASES = pytest.mark.parametrize(("settings", "same"), CONDITIONS, ids=[str(c[0]) for c in CONDITIONS])


def every_text(settings: dict[str, Any], same: str) -> dict[str, float]:
    """p(text | "a") of each text that fulfils the condition."""
    stop = settings.get("stop", "")
    found = {}
    for length in range(settings["length"] + 1) if stop else [settings["length"]]:
        for letters in itertools.product(set("\nabc") - {stop}, repeat=length):
            text = "".join(letters)
            if re.fullmatch(same, text, re.DOTALL if stop == "c" else 0):
                found[text] = math.exp(log_p(NET, "a", text + stop))
    return found


@CASES
def test_exact_samples_have_the_conditioned_distribution(settings: dict[str, Any], same: str) -> None:
    texts = every_text(settings, same)
    total = math.fsum(texts.values())
    found = rnn.complete(NET, "a", count=COUNT, attempts=10**6, **settings)
    counts = Counter(each.text for each in found.found)
    assert set(counts) <= set(texts)
    chi_square = sum((counts[t] - COUNT * p / total) ** 2 / (COUNT * p / total) for t, p in texts.items())
    freedom = len(texts) - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)  # mean and deviation of chi square
    for each in found.found[:50]:
        assert math.exp(-each.nats) == pytest.approx(texts[each.text], rel=1e-4)
    # All texts have been met, so the bound has come down to what it bounds.
    assert math.exp(found.log_p_condition) == pytest.approx(total, rel=0.02)
    assert math.exp(found.log_p_condition) >= total * (1 - 1e-5)


@CASES
def test_weights_make_up_for_how_samples_were_drawn(settings: dict[str, Any], same: str) -> None:
    texts = every_text(settings, same)
    total = math.fsum(texts.values())
    found = rnn.complete(NET, "a", count=COUNT, method="weighted", **settings)
    share: Counter[str] = Counter()
    for each in found.found:
        share[each.text] += each.weight  # type: ignore[assignment]
    error = 5 / math.sqrt(found.effective)
    assert all(
        abs(share[text] - p / total) < error * math.sqrt(p / total) + 1e-3 for text, p in texts.items()
    )
    assert math.exp(found.log_p_condition) == pytest.approx(total, rel=0.1)


@CASES
def test_a_wide_beam_finds_the_likeliest_and_proves_it(settings: dict[str, Any], same: str) -> None:
    texts = every_text(settings, same)
    best = sorted(texts, key=texts.__getitem__, reverse=True)[:3]
    found = rnn.complete(NET, "a", count=3, width=500, method="beam", **settings)
    assert [each.text for each in found.found] == best
    assert found.proved
    narrow = rnn.complete(NET, "a", width=1, method="beam", **settings)
    assert not narrow.proved or narrow.found[0].text == best[0]


def test_what_cannot_be_met_is_said() -> None:
    with pytest.raises(UsageError, match="no text of 3 characters that the model can write matches"):
        rnn.complete(NET, pattern="ab", length=3)
    with pytest.raises(UsageError, match=r"of 64 attempts 0 were accepted, not 1: .* at most"):
        rnn.complete(network("abc", seed=1, scale=4.0), "a", ending="cabbcabcbacbcba", length=15, attempts=64)


def random_pattern(draw: random.Random, depth: int) -> str:
    kind = draw.random()
    if depth == 0 or kind < 0.3:
        return draw.choice(["a", "b", "c", ".", "[ab]", "[^a]", "[a-b]", r"\w", r"[^\n\s]"])
    if kind < 0.55:
        return random_pattern(draw, depth - 1) + random_pattern(draw, depth - 1)
    if kind < 0.75:
        return f"({random_pattern(draw, depth - 1)}|{random_pattern(draw, depth - 1)})"
    return f"(?:{random_pattern(draw, depth - 1)}){draw.choice(['*', '+', '?', '{2}', '{1,}', '{0,2}', '{1,3}'])}"


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_patterns_match_what_those_of_python_do(count: int) -> None:
    draw = random.Random(0)
    texts = ["".join(t) for n in range(5) for t in itertools.product("\nabc", repeat=n)]
    vocabulary = rnn.data.Vocabulary("\nabc")
    for _ in range(count):
        pattern = random_pattern(draw, 3)
        made, right = automaton(read_pattern(pattern, vocabulary), 4, pattern), re.compile(pattern)
        for text in texts:
            state = 0
            for symbol in vocabulary.encode(text):
                state = made.table[state, symbol]
            assert made.accepts[state] == bool(right.fullmatch(text)), (pattern, text)


def test_a_pattern_that_cannot_be_read_is_said() -> None:
    for pattern, part in (
        ("(a", "a \\( is not closed"),
        ("a)", "closes nothing"),
        ("[ab", "missing"),
        ("*a", "stands for nothing"),
        ("a{3,2}", "counts go up"),
        ("a{9999}", "not beyond 1000"),
        ("a{x}", "a count is"),
        (r"\q", "is not known"),
        ("(?=a)", "only"),
        ("a**", "one count follows another"),
        ("[b-a]", "a range goes"),
        ("a\\", "missing"),
        ("(a|b)*a(a|b){15}", "more than 5,000 states"),
        ("(" * 3000, "nested too deeply"),
    ):
        with case(pattern[:20]), pytest.raises(UsageError, match=part):
            rnn.complete(NET, pattern=pattern, length=20)


def test_lanes_of_any_number_read_as_one_run_does() -> None:
    for cell in (rnn.LSTM(4), rnn.GRU(3), rnn.MultiplicativeLSTM(3)):
        net = network("abc ", cell)
        assert net.vocabulary is not None
        lanes = rnn.Lanes(net, 4)
        texts = ["ab", "", "cab a", "b", "cc ", "a"]
        start = lanes.start(net.vocabulary.encode("ca"))
        now = lanes.rows(start, np.zeros(6, np.int64))
        total, after = lanes.read(now, [net.vocabulary.encode(text) for text in texts])
        more, _ = lanes.read(after, [net.vocabulary.encode("b")] * 6)
        for text, first, second in zip(texts, total, more, strict=True):
            assert first == pytest.approx(log_p(net, "ca", text) if text else 0.0, abs=1e-5)
            assert first + second == pytest.approx(log_p(net, "ca", text + "b"), abs=1e-5)
