"""Predictors of the regret benchmark match their definitions on short texts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.experiments.regret import baselines, nets
from graphnet_rnn.experiments.regret.baselines import PredictorJob, run, table
from graphnet_rnn.experiments.regret.coders import bzip2_bits, ctw_bits, ppm_bits
from graphnet_rnn.experiments.regret.problem import SIZES, SYMBOLS, DrawnTexts
from graphnet_rnn.models.hmm import Counts
from tests.tables import case

Context = tuple[int, ...]


def texts(count: int, length: int = 30) -> Iterator[Array]:
    """Random ones, and one that repeats itself with mistakes."""
    for seed in range(3):
        generator = np.random.default_rng(seed)
        text = generator.integers(0, count, length)
        yield text
        yield np.where(generator.random(length) < 0.2, text, np.arange(length) % count)


def trees(letters: int, depth: int, root: Context = ()) -> Iterator[tuple[float, list[Context]]]:
    """Every tree of contexts below a root, by its leaves, with its prior: a half for each choice to split or not.

    A context is told from the last symbol back.
    """
    if len(root) == depth:
        yield 1.0, [root]
        return
    yield 0.5, [root]
    below = [list(trees(letters, depth, (*root, letter))) for letter in range(letters)]
    for chosen in itertools.product(*below):
        yield 0.5 * math.prod(prior for prior, _ in chosen), [leaf for _, leaves in chosen for leaf in leaves]


def krichevsky_trofimov(no: int, yes: int) -> float:
    """∫ θ^yes (1 - θ)^no dθ / (π √(θ (1 - θ)))"""
    return math.gamma(no + 0.5) * math.gamma(yes + 0.5) / math.gamma(no + yes + 1) / math.pi


def questions(symbol: int, low: int, high: int) -> Iterator[tuple[int, int]]:
    """(m, whether the symbol is m or more), the halves of the alphabet."""
    if high - low > 1:
        middle = (low + high) // 2
        yield middle, int(symbol >= middle)
        yield from questions(symbol, *((middle, high) if symbol >= middle else (low, middle)))


def ctw_probability(text: Array, count: int, depth: int) -> float:
    """Π over questions of Σ over trees of prior · Π over leaves of KT"""
    padded = [count] * depth + text.tolist()
    probability = 1.0
    for question in range(1, count):
        mixed = 0.0
        for prior, leaves in trees(count + 1, depth):
            answers: Counter[tuple[Context, int]] = Counter()
            for t, symbol in enumerate(text):
                context = tuple(reversed(padded[t : t + depth]))
                (leaf,) = (leaf for leaf in leaves if context[: len(leaf)] == leaf)
                answers.update((leaf, yes) for asked, yes in questions(symbol, 0, count) if asked == question)
            mixed += prior * math.prod(
                krichevsky_trofimov(answers[leaf, 0], answers[leaf, 1]) for leaf in leaves
            )
        probability *= mixed
    return probability


@pytest.mark.slow
@pytest.mark.parametrize(("count", "depth"), [(2, 0), (3, 1), (2, 2)])
def test_context_tree_weighting_is_a_mean_over_all_trees(count: int, depth: int) -> None:
    for text in texts(count):
        bits = ctw_bits(text, count, depth)
        for length in (1, 2, 7, 30):
            expected = -math.log2(ctw_probability(text[:length], count, depth))
            assert bits[:length].sum() == pytest.approx(expected, rel=1e-10)


def test_longer_contexts_add_no_bits_on_random_text() -> None:
    # Of a text without equal contexts of 5 symbols, deeper ones say nothing: only their prior is another.
    text = np.random.default_rng(0).integers(0, 20, 200)
    assert ctw_bits(text, 20, 5).sum() == pytest.approx(ctw_bits(text, 20, 40).sum(), abs=1)


def ppm_probabilities(text: Array, count: int, order: int, method: str) -> list[float]:
    """Of each symbol after those before it, with a dictionary of counts for every context."""
    padded = [count] * order + text.tolist()
    contexts: dict[Context, Counter[int]] = {}
    found = []
    for t, symbol in enumerate(text.tolist()):
        before = tuple(padded[t : t + order])
        suffixes = [before[start:] for start in range(order + 1)]  # the longest first
        p, left, tried = 1.0, set(range(count)), []
        for context in suffixes:
            counts = contexts.setdefault(context, Counter())
            tried.append(context)
            new = {s: c for s, c in counts.items() if s in left}
            n, u = sum(new.values()), len(new)
            if not u:
                continue
            known = set(new) == left
            if method == "C":
                whole, taken, escape = (n if known else n + u), 0.0, u
            else:
                whole, taken, escape = (n - u / 2 if known else n), 0.5, u / 2
            if symbol in new:
                p *= (new[symbol] - taken) / whole
                break
            p *= escape / whole
            left -= set(new)
        else:
            p /= len(left)
        for context in tried:
            contexts[context][symbol] += 1
        found.append(p)
    return found


def test_partial_matching() -> None:
    for method, (count, order) in itertools.product("CD", ((2, 1), (3, 0), (3, 2), (4, 3), (6, 5))):
        for text in texts(count, 60):
            expected = -np.log2(ppm_probabilities(text, count, order, method))
            found = ppm_bits(text, count, order, method)
            assert found == pytest.approx(expected, rel=1e-10, abs=1e-12), (method, count, order)


def test_probabilities_of_the_next_symbol_sum_to_one() -> None:
    for bits in (ctw_bits, ppm_bits, lambda x, count, order: ppm_bits(x, count, order, "D")):
        for text in texts(5):
            for length in (0, 1, 9, 29):
                last = [bits(np.append(text[:length], x), 5, 3)[-1] for x in range(5)]
                assert (2 ** -np.array(last)).sum() == pytest.approx(1, rel=1e-12)


def test_bzip2_bits_count_the_second_text_only() -> None:
    text, fresh = ("".join(map(str, np.random.default_rng(s).integers(0, 10, 3000))) for s in (0, 1))
    assert bzip2_bits(text, text) < 0.5 * bzip2_bits(text, fresh)
    assert 3000 * math.log2(10) < bzip2_bits(text, fresh) < 1.1 * 3000 * math.log2(10)


@pytest.mark.parametrize("task", SIZES)
def test_training_and_validation_texts_have_one_distribution(task: str) -> None:
    problem = DrawnTexts.of(task, 0)
    assert len(problem.vocabulary) == SYMBOLS[task]
    assert problem.train.text != problem.valid.text
    assert problem.train.text.count("\n") == SIZES[task] * (2 if task == "anbn" else 1)
    _, valid = problem.symbols
    assert problem.vocabulary.decode(valid) == problem.valid.text
    assert problem.regret(problem.valid.bits) == 0
    guessed = len(valid) * np.log2(SYMBOLS[task]) - problem.valid.total
    assert problem.smoothed_regret(np.full(len(valid), 1 / SYMBOLS[task])) == pytest.approx(guessed)


@pytest.mark.parametrize("method", baselines.METHODS)
def test_predictor_run_has_low_regret(method: str) -> None:
    """On lines of the alphabet, with a regret far below guessing."""
    job = PredictorJob("alphabet", 30, method, 3, seed=0, iterations=5)
    row = run(job)
    assert job.key == tuple(row[name] for name in job.KEY)
    valid = DrawnTexts.of("alphabet", 0, 30).valid
    assert row["true"] == valid.total
    assert 0 < row["regret"] < len(valid.text) * math.log2(67) - valid.total


def test_hidden_markov_models_are_evaluated_at_the_best_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Includes results before a state was lost."""
    row = run(PredictorJob("anbn", 2, "HMM", 4, seed=0, iterations=8))
    short = run(PredictorJob("anbn", 2, "HMM", 4, seed=0, iterations=row["best_step"]))
    assert row["steps"] == 8
    assert row["regret"] == short["regret"] == short["last"] <= row["last"]

    whole, counts, calls = run(PredictorJob("anbn", 2, "HMM", 4, seed=0, iterations=2)), rnn.HMM.counts, []

    def lost(hmm: rnn.HMM, symbols: Array) -> Counts:
        calls.append(symbols)
        if len(calls) > 2:
            raise TrainingError("it is lost")
        return counts(hmm, symbols)

    monkeypatch.setattr(rnn.HMM, "counts", lost)
    row = run(PredictorJob("anbn", 2, "HMM", 4, seed=0, iterations=8))
    assert (row["ended"], row["steps"], row["last"]) == ("it is lost", 2, whole["last"])


def test_table_has_the_best_setting_over_all_seeds() -> None:
    runs = ((1, 0, 900.0), (1, 1, 9000.0), (2, 0, 1000.0), (2, 1, 2000.0), (3, 0, 1.0))
    what = {"task": "music", "size": 2700, "method": "CTW", "seconds": 1.0}
    rows = [{**what, "setting": depth, "seed": seed, "regret": regret} for depth, seed, regret in runs]
    assert (
        table(rows).splitlines()[-1].startswith("| music | 2,700 | CTW | 2 | 1,500.0 | 1,000.0, 2,000.0 | ")
    )


def test_network_run_respects_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances by one second per step. Rows have the run's key and the minimum of its curve."""
    monkeypatch.setattr(nets, "PIECE", 20)
    for net, method in (("GLNN", "RUOP"), ("LSTM", "Adam")):
        with case(net, method):
            seconds = itertools.count()
            monkeypatch.setattr(nets, "time", SimpleNamespace(process_time=lambda: next(seconds)))
            job = nets.NetJob("anbn", 2, net, method, 4, 2, 0, 3.0)
            row = nets.run(job)
            assert tuple(row[name] for name in job.KEY) == job.key
            assert row["regret"] == pytest.approx(min(regret for _, _, regret in row["curve"]), abs=0.01)
            assert np.isfinite(row["regret"])
            assert (row["steps"], len(row["curve"])) == (2, 3)


def test_every_net_is_created_and_glnn_predicts_frequencies_first() -> None:
    """Eq. 30: before the first step, GLNN predicts the frequency of each symbol."""
    problem = DrawnTexts.of("anbn", 0, 2)
    train, valid = problem.symbols
    nu = np.bincount(train, minlength=len(problem.vocabulary)) + 1.0
    for name in nets.NETS:
        job = nets.NetJob("anbn", 2, name, "Adam", 4, 2, 0, 0.0)
        net = nets.network(job, train, len(problem.vocabulary))
        assert net.theta.size
        if name == "GLNN":
            found = nets.text_objective(net, valid).losses(net.theta)[:, 0]
            np.testing.assert_allclose(found, -np.log(nu / nu.sum())[valid], rtol=1e-4)
    for method in nets.METHODS.values():
        assert isinstance(method(), rnn.optimizers.Optimizer)
