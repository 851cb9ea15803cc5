"""Time lag of brackets against a plain loop over one text at a time; the text of brackets against its own count."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.data import bracket_text
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.running import run
from graphnet_rnn.text.sampling import choose
from tests.tables import case

from .small import network


def test_ratios_are_those_of_a_plain_loop() -> None:
    net = network("Th []ab.")
    assert net.vocabulary is not None
    characters = net.vocabulary.characters
    letters = [k for k, c in enumerate(characters) if c in "Thab "]
    lag = rnn.time_lag(net, steps=7, runs=2, smooth=3, seed=5)
    assert lag.log_ratios.shape == (2, 2, 7)
    for context, text in enumerate(("[[", "Th")):
        for trial in range(2):
            random = np.random.default_rng([5, context, trial])
            symbols = list(net.vocabulary.encode(text))
            for t in range(7):
                logits = run(net, np.array(symbols)[:, None])[0][-1, 0]
                ratio = (logits[characters.index("]")] - logits[characters.index("[")]) / np.log(10)
                assert lag.log_ratios[context, trial, t] == pytest.approx(ratio, abs=1e-4)
                symbols.append(letters[choose(logits[letters], 1.0, random)])
    whole = lag.log_ratios[:, :, :6].reshape(2, 2, 2, 3).mean(axis=3)
    np.testing.assert_allclose(lag.difference, whole[0].mean(axis=0) - whole[1].mean(axis=0))
    np.testing.assert_allclose(lag.error, np.sqrt(whole.var(axis=1, ddof=1).sum(axis=0) / 2))
    assert list(lag.steps) == [2, 5]


def test_how_long_it_lasts_is_where_the_difference_is_first_lost() -> None:
    ratios = np.zeros((2, 3, 40))
    ratios[0, :, :25] = 1
    assert rnn.TimeLag(("[[", "Th"), ratios, 5).memory == 25
    assert rnn.TimeLag(("[[", "Th"), ratios[:, :, :20], 5).memory == 20
    assert rnn.TimeLag(("Th", "[["), ratios[::-1], 5).memory == 0


def test_a_text_of_brackets_is_what_it_says() -> None:
    made = bracket_text(200_000, link=15, gap=30, depth=3, nested=0.2, stray=0.05, seed=1)
    assert 200_000 <= len(made.text) <= 200_001
    counts = np.zeros((2, 2))  # outside or in an outermost link; closing or opening
    opened: list[int] = []
    links = []
    for match in re.finditer(r"\[\[|\]\]", made.text):
        opens = match[0] == "[["
        if len(opened) < 2:
            counts[len(opened), int(opens)] += 1
        if opens:
            opened.append(match.start())
        elif opened:
            start = opened.pop()
            links.append((start, match.start() - start - 2, len(opened)))
    assert sorted(links) == sorted(map(tuple, made.links.tolist()))
    ratios = np.log10(counts[:, 0] / counts[:, 1])
    assert ratios[1] - ratios[0] == pytest.approx(made.difference, abs=0.1)
    assert made.difference == pytest.approx(-np.log10(0.2) - np.log10(0.05))
    assert bracket_text(1000, seed=3).text == bracket_text(1000, seed=3).text


def test_what_cannot_be_meant_is_said() -> None:
    for settings, part in (
        ({"contexts": ("[[",)}, "contexts must be two texts"),
        ({"brackets": ("[", "[")}, "brackets must be two different characters"),
        ({"smooth": 0}, "smooth must be a whole number >= 1"),
    ):
        with case(part), pytest.raises(UsageError, match=part):
            rnn.time_lag(network("Th []ab."), steps=7, **settings)  # type: ignore[arg-type]
