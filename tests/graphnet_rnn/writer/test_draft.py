"""Draft: what is read, suggested, undone and learned, against reading the whole text anew."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.writer import Draft, draft
from tests.tables import case

LETTERS = "\n abcdefgh"


def network(cell: Any = rnn.LSTM, **settings: Any) -> rnn.Network:
    net = rnn.Network([cell(12)], len(LETTERS), len(LETTERS), seed=2, dtype="float64", **settings)
    net.vocabulary = rnn.data.Vocabulary(LETTERS)
    net.theta = 3 * net.theta
    return net


def expected_nats(net: rnn.Network, text: str) -> list[float | None]:
    """By reading all of it from the start, without the characters that the model does not know."""
    known = "".join(c for c in text if c in LETTERS)
    if not known:
        return [None] * len(text)
    nats = iter(rnn.read(net, known, context="\n").nats)
    return [next(nats) if c in LETTERS else None for c in text]


def require_as_read(d: Draft) -> None:
    expected = expected_nats(d.network, d.text)
    as_array = [np.array(nats, float) for nats in (d.nats, expected)]  # None is nan
    np.testing.assert_allclose(*as_array, rtol=1e-9)
    known = [n for n in expected if n is not None]
    assert d.bits == pytest.approx(np.mean(known) / math.log(2)) if known else math.isnan(d.bits)
    assert d.unknown == sum(c not in LETTERS for c in d.text)


@pytest.mark.parametrize(
    ("cell", "initial", "seed"),
    [
        (rnn.LSTM, "zero", 0), (rnn.GRU, "learned", 0),
        *(pytest.param(rnn.LSTM, "learned", k, marks=pytest.mark.slow) for k in (1, 2)),
    ],
)  # fmt: skip
def test_any_order_of_orders(cell: Any, initial: str, seed: int) -> None:
    """Typing, accepting, other suggestions, undoing: always as if the text had been read from its start."""
    draws = np.random.default_rng(seed)
    d = Draft(network(cell, initial_state=initial), seed=1)
    for _ in range(300):
        match draws.integers(0, 7):
            case 0 | 1:
                d.type("".join(draws.choice([*LETTERS, "é🙂"], draws.integers(1, 4))))
            case 2:
                d.suggest()
                d.accept()
            case 3:
                d.grow()
                d.type(d.suggestion[:1])  # along the suggestion
            case 4:
                d.forget_suggestion()
            case 5:
                d.temperature = float(draws.choice([0.0, 0.5, 1.5]))
            case _:
                for _ in range(draws.integers(1, 6)):
                    d.undo()
    assert len(d.text) > 40
    require_as_read(d)


def test_a_suggestion_ends_before_white_space() -> None:
    d = Draft(network(), temperature=1.0)
    for _ in range(40):
        found = d.suggest()
        assert d.complete
        assert 1 <= len(found) <= draft.LONGEST
        assert not any(c.isspace() for c in found.strip())
        assert found == found.rstrip() or not found.strip()
        d.accept()
    assert " " in d.text or "\n" in d.text


def test_at_temperature_0_it_is_the_likeliest() -> None:
    d = Draft(network(), temperature=0.0)
    d.type("ab c")
    first = d.suggest()
    d.forget_suggestion()
    assert d.suggest() == first
    assert first
    before = "\nab c"
    symbols = d.network.vocabulary.encode(before + first)[:-1]
    outputs, _ = rnn.run(d.network, np.asarray(symbols)[:, None])
    likeliest = outputs[len(before) - 1 :, 0].argmax(axis=1)
    assert d.network.vocabulary.decode(likeliest) == first


def test_typing_what_is_suggested_goes_along_it() -> None:
    d = Draft(network(), temperature=0.7, seed=5)
    while len(d.suggest()) < 3:
        d.forget_suggestion()
    whole = d.suggestion
    d.type(whole[0])
    assert d.suggestion == whole[1:]
    assert d.complete
    d.type("h" if whole[1] != "h" else "g")
    assert d.suggestion == ""


def test_undo_takes_back_suggestions_as_a_whole_and_reads_nothing_anew(monkeypatch: Any) -> None:
    d = Draft(network())
    d.type("ab ")
    d.suggest()
    accepted = d.accept()
    d.type("cd")
    monkeypatch.setattr(d, "_step", None)
    assert [d.undo() for _ in range(4)] == ["d", "c", accepted, " "]
    assert d.text == "ab"
    assert d.accepted == []
    monkeypatch.undo()
    d.type("x")
    assert [d.undo() for _ in range(4)] == ["x", "b", "a", ""]


def test_states_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "STATES", 1)
    d, text = Draft(network()), "abcd efg\n" * 60
    d.type(text)
    assert len(d._marks) <= 4 * draft.KEPT + 1
    for _ in range(len(text) - 7):
        d.undo()
    d.type("hh")
    assert d.text == "abcd efhh"
    require_as_read(d)


def test_of_a_long_text_the_model_reads_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "CONTEXT", 30)
    text = "abcd éfg\n" * 20
    d = Draft(network())
    d.replace(text)
    assert (d.text, d.unknown) == (text, 20)
    assert d.nats[:150] == [None] * 150
    known = expected_nats(d.network, text[150:])
    np.testing.assert_allclose(np.array(d.nats[150:], float), np.array(known, float), rtol=1e-9)
    for _ in range(100):
        d.undo()
    d.type("ab")
    assert d.text == text[:80] + "ab"
    assert d.unknown == text[:80].count("é")
    assert d.nats[-1] == pytest.approx(expected_nats(d.network, text[54:80] + "ab")[-1])
    # What was not read before is judged, too, now that it is read.
    assert len([n for n, c in zip(d.nats, d.text, strict=True) if n is not None or c == "é"]) >= 30
    assert d.bits == pytest.approx(np.mean([n for n in d.nats if n is not None]) / math.log(2))
    d.replace("")
    assert (d.text, d.nats, d.unknown) == ("", [], 0)
    assert math.isnan(d.bits)


# -- learning ------------------------------------------------------------------------------------


def test_it_learns_as_dynamic_evaluation_does() -> None:
    """The same weights after the same pieces, the first of which begins with the end of a line."""
    net, text = network(), "abc dafe\nhhga bc" * 4
    d = Draft(net, learn=rnn.SGD(0.5), piece=8)
    for character in text:
        d.type(character)
        d.learn()
    assert d.lessons == 8
    twin = network()
    dynamic = rnn.online.DynamicEvaluation(twin, rnn.SGD(0.5), time=8)
    found = dynamic("\n" + text)
    scored = [n for n in d.nats if n is not None]
    assert sum(scored) == pytest.approx(found.nats, rel=1e-9)
    assert sum(scored) < 0.9 * sum(n or 0 for n in expected_nats(twin, text))


def test_what_comes_next_is_predicted_by_what_was_learned() -> None:
    """Whatever stands between the piece and the end of the text, and whatever was taken back there."""

    def nats(before: str, after: str, undone: int = 0) -> float:
        d = Draft(network(), learn=rnn.SGD(0.5), piece=8)
        d.type(before)
        assert d.learn()
        for _ in range(undone):
            d.undo()
        d.type(after)
        assert d.lessons == 1
        return next(n for n in reversed(d.nats) if n is not None)

    assert nats("abc dafeé", "b") == nats("abc dafe", "éb") == nats("abc dafe", "b")
    assert nats("abc dafehhga", "b", undone=3) == nats("abc dafeh", "b")


def test_undo_takes_back_what_was_learned() -> None:
    net = network()
    start = net.theta.copy()
    d = Draft(net, learn=rnn.Momentum(0.1), piece=5)
    weights = [start]
    for character in "abcdéefg abcé d":
        d.type(character)
        if d.learn():
            weights.append(net.theta.copy())
    assert len(weights) == 3
    assert all((a != b).any() for a, b in pairwise(weights))
    state = {name: a.copy() for name, a in d._state.items()}
    for _ in range(5):
        d.undo()
    assert d.lessons == 1
    np.testing.assert_array_equal(net.theta, weights[1])
    for character in "abcé d"[1:]:
        d.type(character)
    d.learn()
    np.testing.assert_array_equal(net.theta, weights[2])
    for name, held in state.items():
        np.testing.assert_array_equal(d._state[name], held)
    while len(d.text) > d._lessons[-1].end:
        d.undo()
    assert d.lessons == 2  # of a text that ends where a lesson does
    while d.undo():
        pass
    np.testing.assert_array_equal(net.theta, start)


def test_weights_before_lessons_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "WEIGHTS", 1)
    d = Draft(network(), learn=rnn.SGD(0.1), piece=3)
    for character in "abcabcabc":
        d.type(character)
        d.learn()
    assert d.lessons == 3
    before = d.network.theta.copy()
    for _ in range(9):
        d.undo()
    assert d.lessons == 2  # what was learned earlier stays
    assert (d.network.theta != before).any()
    d.type("abc")
    assert d.can_learn


@pytest.mark.parametrize("broken", [np.nan, 1e308])
def test_a_lesson_that_breaks_the_weights_is_left_out(broken: float) -> None:
    """NaN is seen by the step; 1e308, times a rate of 10, in the weights."""
    net = network()
    start = net.theta.copy()
    d = Draft(net, learn=rnn.SGD(10.0), piece=3)
    d._slopes = lambda places: (1.0, np.full(start.shape, broken))  # type: ignore[method-assign]
    d.type("abcd")
    with pytest.raises(TrainingError, match="nothing was learned from this piece: try a smaller rate"):
        d.learn()
    np.testing.assert_array_equal(net.theta, start)
    assert not d.can_learn
    d.type("ef")
    require_as_read(d)


def test_what_cannot_be_written_with() -> None:
    for net, how, said in (
        (rnn.Network([rnn.Elman(3)], 3, 3), {}, "Draft: this network has no vocabulary"),
        (network(), {"temperature": -1}, "temperature must be >= 0"),
        (network(), {"learn": rnn.HessianFree()}, "Draft: optimizer must be one of first order"),
    ):
        with case(said), pytest.raises(UsageError, match=said):
            Draft(net, **how)
