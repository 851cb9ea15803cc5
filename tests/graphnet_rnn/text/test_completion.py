"""Completions and word orders against enumeration, patterns against Python's, time lags against a loop."""

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
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.experiments.brackets.text import bracket_text
from graphnet_rnn.network.running import run
from graphnet_rnn.text.patterns import automaton, read_pattern
from graphnet_rnn.text.sampling import choose
from tests.tables import case


def network(characters: str, cell: rnn.Cell | None = None, seed: int = 0, scale: float = 1.0) -> rnn.Network:
    count = len(characters)
    net = rnn.Network([cell or rnn.LSTM(5)], inputs=count, outputs=count)
    net.vocabulary = rnn.data.Vocabulary("".join(sorted(characters)))
    net.theta = np.random.default_rng(seed).normal(0, scale, net.theta.shape).astype(np.float32)
    return net


def log_p(net: rnn.Network, before: str, text: str) -> float:
    """ln p(text | before), by one run over all of it."""
    symbols = net.vocabulary.encode(before + text)
    logits = run(net, symbols[:-1, None])[0][:, 0].astype(np.float64)
    rows = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    every = rows[np.arange(len(rows)), symbols[1:]]
    return float(every[len(before) - 1 :].sum())


NET = network("\nabc", seed=3)
COUNT = 2000
#: Settings of a condition, and the same said in Python's re.
CONDITIONS: list[tuple[dict[str, Any], str]] = [
    ({"length": 3}, r"(?s:.{3})"),
    ({"pattern": "(ab|c)*.*", "ending": "ca", "length": 4}, r"(?=.{4}$)(ab|c)*.*ca"),
    ({"pattern": "[ab]+c?", "length": 4, "stop": "\n"}, r"(?=.{0,4}\Z)[ab]+c?"),
    ({"ending": "b", "length": 2, "stop": "c"}, r"(?=.{0,2}\Z)[^c]*b"),
]


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


@pytest.mark.parametrize(("settings", "same"), CONDITIONS)
def test_completions_follow_the_conditional_distribution(settings: dict[str, Any], same: str) -> None:
    """Exact and weighted samples and the likeliest completion, against all texts."""
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

    found = rnn.complete(NET, "a", count=COUNT, method="weighted", **settings)
    share: Counter[str] = Counter()
    for each in found.found:
        share[each.text] += each.weight  # type: ignore[assignment]
    error = 5 / math.sqrt(found.effective)
    for text, p in texts.items():
        assert abs(share[text] - p / total) < error * math.sqrt(p / total) + 1e-3
    assert math.exp(found.log_p_condition) == pytest.approx(total, rel=0.1)

    best = sorted(texts, key=texts.__getitem__, reverse=True)[:3]
    found = rnn.complete(NET, "a", count=3, width=500, method="beam", **settings)
    assert [each.text for each in found.found] == best
    assert found.proved
    narrow = rnn.complete(NET, "a", width=1, method="beam", **settings)
    assert not narrow.proved or narrow.found[0].text == best[0]


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
def test_patterns_match_the_same_texts_as_python(count: int) -> None:
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


#: A pattern or a condition -> what is said.
REFUSED: dict[str, str] = {
    "(a": "a \\( is not closed", "a)": "no matching", "[ab": "missing", "*a": "no meaning",
    "a{3,2}": "in order", "a{9999}": "at most 1000", "a{x}": "a repetition must be", r"\q": "is not supported",
    "(?=a)": "only", "a**": "a repetition directly follows another", "[b-a]": "a range must go", "a\\": "missing",
    "(a|b)*a(a|b){15}": "more than 5,000 states", "(" * 3000: "nested too deeply",
    "ab": "no text of 20 characters that the model can write matches",
}  # fmt: skip


def test_invalid_or_unreachable_patterns_are_rejected() -> None:
    for pattern, part in REFUSED.items():
        with case(pattern[:20]), pytest.raises(UsageError, match=part):
            rnn.complete(NET, pattern=pattern, length=20)
    with pytest.raises(UsageError, match=r"of 64 attempts 0 were accepted, not 1: .* at most"):
        rnn.complete(network("abc", seed=1, scale=4.0), "a", ending="cabbcabcbacbcba", length=15, attempts=64)


def test_lanes_match_single_runs() -> None:
    for cell in (rnn.LSTM(4), rnn.GRU(3), rnn.MultiplicativeLSTM(3)):
        net = network("abc ", cell)
        encode, lanes = net.vocabulary.encode, rnn.Lanes(net, 4)
        texts = ["ab", "", "cab a", "b", "cc ", "a"]
        now = lanes.rows(lanes.start(encode("ca")), np.zeros(6, np.int64))
        total, after = lanes.read(now, [encode(text) for text in texts])
        more, _ = lanes.read(after, [encode("b")] * 6)
        for text, first, second in zip(texts, total, more, strict=True):
            assert first == pytest.approx(log_p(net, "ca", text) if text else 0.0, abs=1e-5)
            assert first + second == pytest.approx(log_p(net, "ca", text + "b"), abs=1e-5)


TEXT = "the cat sat on the mat and the rat sat on the cat and a cat ate a rat " * 3


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_debag_finds_the_likeliest_order(seed: int) -> None:
    net = network("".join(set(TEXT)), rnn.Elman(4), seed=seed)
    lanes = rnn.Lanes(net, 16)
    for bag in rnn.tasks.draw_bags(TEXT, 2, words=4, context=1, seed=seed):
        start = " ".join(bag.before) + " "
        after = " " + " ".join(bag.after)
        orders = set(itertools.permutations(bag.words))
        costs = {order: log_p(net, start, " ".join(order) + after) for order in orders}
        assert bag.orders == len(costs)
        for beam in (1, 20):
            found = rnn.tasks.debag(lanes, bag, beam)
            assert found.log_p == pytest.approx(max(costs.values()), abs=1e-4)
            assert costs[found.words] == pytest.approx(max(costs.values()), abs=1e-4)
            assert found.true_log_p == pytest.approx(costs[bag.words], abs=1e-4)
            assert found.correct == (found.words == bag.words)


def test_bags_contain_passages_of_the_text() -> None:
    words = TEXT.split()
    bags, model = rnn.tasks.draw_bags(TEXT, 10, words=5, context=1), rnn.NGrams(TEXT, 6)
    for bag in bags:
        passage = [*bag.before, *bag.words, *bag.after]
        assert len(passage) == 7
        assert any(words[k : k + 7] == passage for k in range(len(words)))
    assert sum(rnn.tasks.debag(model, bag).correct for bag in bags) > 5, (
        "n-grams know the order of their text"
    )
    for call, error, said in (
        (lambda: rnn.tasks.draw_bags("one two"), DataError, "has 0 passages of 11, not 500"),
        (lambda: rnn.NGrams(TEXT, 40), UsageError, "must be at most 17 with 12 different characters, not 40"),
        (lambda: rnn.NGrams("abc", 5), DataError, "too few to count"),
        *(
            (lambda w=w: rnn.NGrams("abc" * 9, 3).probability(np.array(w)), DataError, said)
            for w, said in (
                ([[0, 1, 7]], "symbols in 0 ... 2, .*, not .*7"),
                ([[0, 1, -1]], "symbols"),
                ([[0.9, 1.9, 2]], "symbols"),
                ([[0, 1]], r"must be \(n, 3\), not \[1, 2\]"),
                ([0, 1, 2], r"must be \(n, 3\), not \[3\]"),
            )
        ),
    ):
        with case(said), pytest.raises(error, match=said):
            call()


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


def test_probabilities_match_loops_over_the_formula() -> None:
    random = np.random.default_rng(3)
    for order, _ in itertools.product((2, 3, 4), range(20)):
        text = "".join(random.choice(list("abc"), int(random.integers(order + 1, 12)))) + "abc"
        places = range(len(text))
        counts: list[dict[str, int]] = []
        for n in range(1, order):
            grams = {text[k : k + n] for k in places[: len(text) - n + 1]}
            befores = {g: len({text[k - 1] for k in places[1:] if text.startswith(g, k)}) for g in grams}
            counts.append({g: count for g, count in befores.items() if count})
        counts.append(dict(Counter(text[k : k + order] for k in places[: len(text) - order + 1])))

        def p(c: str, h: str) -> float:
            if len(h) == 0:
                lower, found = 1 / 3, counts[0]
            else:
                lower, found = p(c, h[1:]), counts[len(h)]
            once, twice = ([*found.values()].count(k) for k in (1, 2))
            discount = once / (once + 2 * twice) if once else 0.5
            total = sum(found.get(h + x, 0) for x in "abc")
            kinds = sum(h + x in found for x in "abc")
            return (
                max(found.get(h + c, 0) - discount, 0) / total + discount * kinds / total * lower
                if total
                else lower
            )

        model = rnn.NGrams(text, order)
        for gram in itertools.product("abc", repeat=order):
            with case(text, gram):
                window = model.vocabulary.encode("".join(gram))[None]
                assert model.probability(window)[0] == pytest.approx(p(gram[-1], "".join(gram[:-1])))


def test_probabilities_sum_to_one_and_costs_add_up() -> None:
    for order in (1, 2, 4):
        with case(order):
            model = rnn.NGrams(TEXT, order)
            count, encode = len(model.vocabulary), model.vocabulary.encode
            for before in ("", "c", "the ", "tt t"):
                places = model.rows(model.start(encode(before)), np.zeros(count, np.int64))
                total, _ = model.read(places, [np.array([k]) for k in range(count)])
                assert np.exp(total).sum() == pytest.approx(1.0)
            start = model.start(encode("a "))
            whole, _ = model.read(start, [encode("cat sat")])
            first, after = model.read(start, [encode("cat ")])
            second, _ = model.read(after, [encode("sat")])
            assert whole[0] == pytest.approx(first[0] + second[0])
            assert math.isfinite(whole[0])


def test_ratios_match_a_plain_loop() -> None:
    net = network("Th []ab.")
    characters = net.vocabulary.characters
    letters = [k for k, c in enumerate(characters) if c in "Thab "]
    lag = rnn.tasks.time_lag(net, steps=7, runs=2, smooth=3, seed=5)
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
    groups = (lag.log_ratios[:, :, start : start + 3].mean(axis=2) for start in (0, 3, 6))
    whole = np.stack([*groups], axis=2)
    np.testing.assert_allclose(lag.difference, whole[0].mean(axis=0) - whole[1].mean(axis=0))
    np.testing.assert_allclose(lag.error, np.sqrt(whole.var(axis=1, ddof=1).sum(axis=0) / 2))
    assert list(lag.steps) == [2, 5, 7]
    ratios = np.zeros((2, 3, 40))
    ratios[0, :, :25] = 1
    for given, memory in ((ratios, 25), (ratios[:, :, :20], 20), (ratios[::-1], 0)):
        assert rnn.tasks.TimeLag(("[[", "Th"), given, 5).memory == memory, (
            "where the difference is first lost"
        )
    for settings, part in (
        ({"contexts": ("[[",)}, "contexts must be two texts"),
        ({"brackets": ("[", "[")}, "brackets must be two different characters"),
        ({"smooth": 0}, "smooth must be a whole number >= 1"),
    ):
        with case(part), pytest.raises(UsageError, match=part):
            rnn.tasks.time_lag(net, steps=7, **settings)  # type: ignore[arg-type]


def test_bracket_text_follows_its_parameters() -> None:
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


def test_outputs_must_be_characters() -> None:
    for loss, outputs in (("softmax", 5), ("squared", 2), ("softmax", 0)):
        net = rnn.Network([rnn.GRU(3)], 2, outputs, loss, reads="symbols")
        net.vocabulary = rnn.data.Vocabulary("xy")
        with case(loss, outputs):
            for use in (lambda net=net: rnn.Sampler(net), lambda net=net: rnn.complete(net, "x", length=3)):
                with pytest.raises(UsageError, match="an output for each of the 2 characters"):
                    use()
