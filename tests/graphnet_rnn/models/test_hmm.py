"""Hidden Markov models against enumeration of all hidden paths and the textbook's recursions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.models.hmm import HMM
from tests.tables import case

RNG = np.random.default_rng


def model(states: int = 3, symbols: int = 4, seed: int = 1, piece: int = 4) -> HMM:
    """Tables without tiny entries; short pieces, so that sequences of the tests have several."""
    hmm = HMM(states, symbols, seed=seed, piece=piece)
    generator = RNG(seed)
    hmm.pi = generator.dirichlet(np.full(states, 3.0))
    hmm.A = generator.dirichlet(np.full(states, 3.0), states)
    hmm.B = generator.dirichlet(np.full(symbols, 3.0), states)
    return hmm


def text(time: int, batch: int | None = None, symbols: int = 4, seed: int = 0) -> Array:
    return RNG(seed).integers(0, symbols, time if batch is None else (time, batch))


def path_probability(hmm: HMM, path: tuple[int, ...], x: Array) -> float:
    p = hmm.pi[path[0]] * hmm.B[path[0], x[0]]
    for before, state, symbol in zip(path, path[1:], x[1:], strict=False):
        p *= hmm.A[before, state] * hmm.B[state, symbol]
    return float(p)


def all_paths(hmm: HMM, x: Array) -> dict[tuple[int, ...], float]:
    paths = itertools.product(range(hmm.states), repeat=len(x))
    return {path: path_probability(hmm, path, x) for path in paths}


def forward_backward(hmm: HMM, x: Array) -> tuple[Array, Array, Array]:
    """Rabiner 1989, eqs 19-27 and 37-38, unscaled; expected starts, moves and prints for one sequence."""
    pi, A, B, T = hmm.pi, hmm.A, hmm.B, len(x)
    alpha, beta = np.zeros((T, hmm.states)), np.ones((T, hmm.states))
    alpha[0] = pi * B[:, x[0]]
    for t in range(T - 1):
        alpha[t + 1] = (alpha[t] @ A) * B[:, x[t + 1]]
    for t in range(T - 2, -1, -1):
        beta[t] = A @ (B[:, x[t + 1]] * beta[t + 1])
    likelihood = alpha[-1].sum()
    gamma = alpha * beta / likelihood
    moves = np.zeros_like(A)
    for t in range(T - 1):
        moves += np.outer(alpha[t], B[:, x[t + 1]] * beta[t + 1]) * A / likelihood
    prints = np.zeros_like(B)
    for t in range(T):
        prints[:, x[t]] += gamma[t]
    return gamma[0], moves, prints


def test_likelihood_is_the_sum_over_all_paths() -> None:
    for states, piece in itertools.product([1, 2, 3], [1, 3, 128]):
        with case(states, piece):
            hmm, x = model(states, piece=piece), text(7, 2)
            expected = [math.log(sum(all_paths(hmm, x[:, lane]).values())) for lane in range(2)]
            assert hmm.log_likelihood(x) == pytest.approx(expected, rel=1e-13)
            assert hmm.log_likelihood(x[:, 1]) == pytest.approx(expected[1], rel=1e-13)
            assert hmm.bits(x) == pytest.approx(-sum(expected) / 14 / math.log(2), rel=1e-13)
            u = hmm.unroll(7, 2)
            (node,) = gn.compile([u.log_likelihood], [u.symbols])(x)
            assert node == pytest.approx(expected, rel=1e-13)


def test_log_probabilities_are_increments_of_the_likelihood() -> None:
    hmm, x = model(piece=2), text(5, 2)
    whole = np.array([hmm.log_likelihood(x[:t]) for t in range(1, 6)])
    assert hmm.log_probabilities(x) == pytest.approx(np.diff(whole, axis=0, prepend=0), rel=1e-12)
    assert hmm.log_probabilities(x[:, 1]) == pytest.approx(hmm.log_probabilities(x)[:, 1])


def test_prediction_is_a_quotient_of_likelihoods() -> None:
    hmm, x = model(), text(6, 2)
    more = np.array([hmm.log_likelihood(np.vstack([x, np.full((1, 2), k)])) for k in range(4)]).T
    assert hmm.predict(x) == pytest.approx(np.exp(more - hmm.log_likelihood(x)[:, None]), rel=1e-12)
    assert hmm.predict(x[:, 0]) == pytest.approx(hmm.predict(x)[0])
    assert hmm.predict([]) == pytest.approx(hmm.pi @ hmm.B)
    assert hmm.predict(np.zeros((0, 2), int)).shape == (2, 4)


def test_a_long_text_does_not_underflow() -> None:
    """10,000 symbols; a plain product would underflow after 400. The oracle adds logarithms."""
    hmm, x = model(piece=128), text(10_000)
    log_a = np.log(hmm.pi) + np.log(hmm.B[:, x[0]])
    for symbol in x[1:]:
        log_a = np.logaddexp.reduce(log_a[:, None] + np.log(hmm.A), axis=0) + np.log(hmm.B[:, symbol])
    expected = np.logaddexp.reduce(log_a)
    assert expected < -10_000
    assert hmm.log_likelihood(x) == pytest.approx(expected, rel=1e-12)
    counts = hmm.counts(x)
    assert [table.sum() for table in (counts.pi, counts.A, counts.B)] == pytest.approx([1, 9_999, 10_000])


def test_impossible_sequences_are_reported() -> None:
    hmm = model(2, 3)
    hmm.B = [[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]]
    x = np.array([[0, 1], [1, 1], [0, 2], [1, 0], [1, 0], [0, 0]])
    assert np.isneginf(hmm.log_likelihood(x)).tolist() == [False, True]
    assert np.isneginf(hmm.log_probabilities(x)[:, 1]).tolist() == [False, False, True, True, True, True]
    for method in (hmm.counts, hmm.fit, hmm.predict):
        with pytest.raises(DataError, match="the symbol at time 2 of sequence 1 has probability 0"):
            method(x)
    with pytest.raises(DataError, match="sequence 1 has probability 0 under this model"):
        hmm.viterbi(x)


def test_equals_the_linear_gated_network() -> None:
    """Ollivier 2013, eq. 10 with s(V) = V, and the linear output of 1.2.2, as nodes over τ alone."""
    for time in [1, 6]:
        with case(time):
            hmm, x = model(), text(time)
            tau = gn.constant(hmm.tau)
            assert hmm.tau[1, 2, 3] == pytest.approx(hmm.B[1, 3] * hmm.A[1, 2])
            w = hmm.B  # w_ix
            a = gn.constant(hmm.pi)
            log_likelihood: Any = 0.0
            for symbol in x:
                pi_t = (a @ w)[int(symbol)] / gn.sum(a)
                log_likelihood = log_likelihood + gn.log(pi_t)
                a = gn.sum(gn.reshape(a, (3, 1)) * tau[:, :, int(symbol)], axis=0)
            value, final = gn.compile([log_likelihood, a / gn.sum(a)], [])()
            u = hmm.unroll(time, 1)
            (state,) = gn.compile([u.final], [u.symbols])(x[:, None])
            assert value == pytest.approx(hmm.log_likelihood(x), rel=1e-12)
            assert state[0] == pytest.approx(final, rel=1e-12)


def test_counts_match_forward_backward() -> None:
    """Includes forbidden transitions; counts are means over paths."""
    free, sparse = model().A, [[0.0, 0.4, 0.6], [0.3, 0.7, 0.0], [0.5, 0.0, 0.5]]
    for piece, A in itertools.product([1, 4, 128], [free, sparse]):
        with case(piece, A):
            hmm, x = model(piece=piece), text(23, 3)
            hmm.A = A
            lanes = [forward_backward(hmm, lane) for lane in x.T]
            counts = hmm.counts(x)
            for found, wanted in zip((counts.pi, counts.A, counts.B), zip(*lanes, strict=True), strict=True):
                assert found == pytest.approx(sum(wanted), rel=1e-11)
            assert counts.log_likelihood == pytest.approx(hmm.log_likelihood(x))
    paths, moves = all_paths(hmm, text(6)), np.zeros((3, 3))
    for path, p in paths.items():
        np.add.at(moves, (path[:-1], path[1:]), p / sum(paths.values()))
    np.testing.assert_allclose(hmm.counts(text(6)).A, moves, rtol=1e-12)


def test_counts_are_not_negative_for_decaying_states() -> None:
    """Runs of a thousand symbols over a sparse graph; negative counts would give NaN."""
    drawn = rnn.tasks.anbn(RNG([1, 0]))
    x = np.array(["\nab".index(symbol) for symbol in drawn.text])
    hmm = HMM(45, 3, seed=1, frequencies=np.bincount(x), edges=3, graph_seed=1)
    for _ in range(6):
        counts = hmm.counts(x)
        assert min(table.min() for table in (counts.pi, counts.A, counts.B)) >= 0
        sums = [table.sum() for table in (counts.pi, counts.A, counts.B)]
        assert sums == pytest.approx([1, len(x) - 1, len(x)], rel=1e-9)
        hmm.theta = hmm.maximized(counts)


def test_every_step_improves_and_tolerance_stops() -> None:
    hmm, x = HMM(4, 4, seed=5), text(60, 3, seed=2)
    history = hmm.fit(x, iterations=200)
    assert len(history) == 201
    assert history[-1] == hmm.bits(x)
    assert all(before - after > -1e-12 for before, after in itertools.pairwise(history))
    assert history[0] - history[-1] > 0.1
    for table in (hmm.pi, hmm.A, hmm.B):
        assert table.sum(axis=-1) == pytest.approx(1)
        assert (table >= 0).all()
    short = HMM(4, 4, seed=5)
    stopped = short.fit(x, 200, tolerance=1e-3)
    assert 2 < len(stopped) < 150
    assert stopped == pytest.approx(history[: len(stopped)], rel=1e-14)
    assert stopped[-3] - stopped[-2] < 1e-3 <= stopped[-4] - stopped[-3]
    assert stopped[-1] == pytest.approx(short.bits(x), rel=1e-14), "those of the tables as they are left"


def test_one_step_by_hand() -> None:
    hmm, x = model(), text(11)
    _, moves, prints = forward_backward(hmm, x)
    hmm.fit(x, iterations=1, smoothing=0.25)
    for table, count in ((hmm.A, moves), (hmm.B, prints)):
        np.testing.assert_allclose(table, (count + 0.25) / (count + 0.25).sum(axis=1, keepdims=True))
    # A state that is never visited keeps its rows.
    hmm = model(2, 4)
    hmm.pi, hmm.A = [1.0, 0.0], [[1.0, 0.0], [0.3, 0.7]]
    B = hmm.B
    hmm.fit(text(20), 3)
    np.testing.assert_allclose(hmm.A, [[1.0, 0.0], [0.3, 0.7]])
    assert hmm.B[1] == pytest.approx(B[1])


def test_zeros_remain_only_without_smoothing() -> None:
    for smoothing in (0.0, 0.1):
        hmm = model()
        hmm.A = [[0.0, 0.4, 0.6], [0.3, 0.7, 0.0], [0.5, 0.0, 0.5]]
        hmm.fit(text(40), 5, smoothing=smoothing)
        assert [hmm.A[0, 0] == 0, hmm.A[1, 2] == 0, hmm.A[2, 1] == 0] == 3 * [smoothing == 0]


def test_lost_states_raise_an_error() -> None:
    """State 1 has probability 9^-700 when its only symbols begin."""
    hmm = HMM(2, 2)
    hmm.pi, hmm.A, hmm.B = [0.5, 0.5], np.eye(2), [[0.9, 0.1], [0.1, 0.9]]
    with pytest.raises(TrainingError, match="smoothing"):
        hmm.counts(np.repeat([0, 1], 700))


def test_logits_give_the_tables_and_train() -> None:
    hmm, x = model(), text(12, 2)
    u, objective = softmax_objective(hmm, x)
    before = objective.loss(objective.start())
    assert before / math.log(2) == pytest.approx(hmm.bits(x), rel=1e-13)
    found = rnn.minimize(objective, rnn.Adam(rate=0.05), steps=60)
    assert found.loss < before - 0.05
    assert hmm.bits(x) == pytest.approx(before / math.log(2)), "the model's own tables are untouched so far"
    hmm.adopt(u)
    assert hmm.bits(x) == pytest.approx(found.loss / math.log(2), rel=1e-12)


def test_gradient_of_logits_matches_expected_counts() -> None:
    """∂log p/∂logit_ij = count_ij - A_ij Σ_j count_ij (Bridle 1990): zero exactly at EM's fixed points."""
    hmm, x = model(), text(15)
    counts = hmm.counts(x)
    u = hmm.unroll(15, 1, tables="softmax")
    gradients = gn.gradient(gn.sum(u.log_likelihood), list(u.parameters.values()))
    g = gn.compile(gradients, [u.symbols])(x[:, None])
    for found, count, table in zip(g, (counts.pi, counts.A, counts.B), (hmm.pi, hmm.A, hmm.B), strict=True):
        assert found == pytest.approx(count - table * count.sum(axis=-1, keepdims=True), rel=1e-9, abs=1e-12)


def softmax_objective(hmm: HMM, x: Array, l2: float = 0.0) -> tuple[Any, rnn.Objective]:
    u = hmm.unroll(*x.shape, tables="softmax")
    objective = rnn.Objective(u.cost, u.parameters, [u.symbols], l2=l2)
    objective.feed(x)
    return u, objective


@pytest.mark.parametrize(
    ("optimizer", "l2"),
    [(rnn.Adam(rate=0.1), 0.0), (rnn.AdamW(rate=0.1, weight_decay=0.5), 0.0), (rnn.HessianFree(), 0.1)],
)
def test_forbidden_transitions_stay_forbidden(optimizer: rnn.Optimizer, l2: float) -> None:
    hmm = model(2, 4)
    hmm.A = [[0.0, 1.0], [0.4, 0.6]]
    u, objective = softmax_objective(hmm, text(10, 2), l2)
    logits = np.log(np.concatenate([hmm.pi, hmm.A[0, 1:], hmm.A[1], hmm.B.ravel()]))
    cost = softmax_objective(hmm, text(10, 2))[1].loss(objective.start())
    assert objective.loss(objective.start()) == pytest.approx(cost + l2 / 2 * np.sum(logits**2))
    rnn.minimize(objective, optimizer, steps=10)
    hmm.adopt(u)
    assert hmm.A[0].tolist() == [0, 1]
    assert hmm.A[1, 0] != 0.4


def test_sparse_graph_allows_no_other_transitions() -> None:
    """Ollivier 2013, note 16: so many edges from each state, one to itself; the same graph as the cells'."""
    hmm = HMM(6, 4, seed=2, edges=3, graph_seed=5)
    cell = rnn.GLNN(6, edges=3, graph_seed=5)
    edges = np.zeros((6, 6), bool)
    edges[cell.sources, cell.targets] = True
    assert np.array_equal(hmm.A > 0, edges)
    assert hmm.A.sum(axis=1) == pytest.approx(np.ones(6))
    x = text(30, 4)
    found = hmm.fit(x, iterations=8, smoothing=0.1)
    assert found[-1] < found[0]
    assert np.array_equal(hmm.A > 0, edges), "smoothing makes no edges"
    u, objective = softmax_objective(hmm, x)
    rnn.minimize(objective, rnn.HessianFree(), steps=3)
    hmm.adopt(u)
    assert np.array_equal(hmm.A > 0, edges)
    assert (HMM(3, 2, edges=9).A > 0).all()


def test_edge_probabilities_are_drawn_from_the_jeffreys_prior() -> None:
    """Dirichlet(½, ..., ½) over the edges of a state: each share has the mean 1/d and the variance (d-1)/d²/(d/2+1)."""
    tables = [HMM(400, 1, seed=seed, edges=4, graph_seed=1).A for seed in range(8)]
    shares = np.concatenate([A[A > 0].reshape(400, 4) for A in tables])
    assert shares.mean(axis=0) == pytest.approx([0.25] * 4, abs=0.02)
    assert shares.var(axis=0) == pytest.approx([3 / 16 / 3] * 4, rel=0.08)


def test_viterbi_is_the_best_path() -> None:
    for seed in range(5):
        with case(seed):
            hmm, x = model(seed=seed), text(7, 3, seed=seed)
            found = hmm.viterbi(x)
            for lane in range(3):
                paths = all_paths(hmm, x[:, lane])
                assert tuple(found[:, lane]) == max(paths, key=paths.__getitem__)
                assert np.array_equal(hmm.viterbi(x[:, lane]), found[:, lane])


def test_samples_follow_the_model() -> None:
    """Frequencies of all strings of three symbols, in 20,000 samples, against their probabilities."""
    hmm = model(2, 3)
    drawn = hmm.sample(3, seed=4, batch=20_000)
    strings = np.array(list(itertools.product(range(3), repeat=3)))
    expected = np.exp(hmm.log_likelihood(strings.T))
    found = np.bincount(np.ravel_multi_index(tuple(drawn), (3, 3, 3)), minlength=27) / 20_000
    assert found == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 20_000))
    assert (np.abs(found - expected) < 5 * np.sqrt(expected / 20_000)).all()


def test_initial_tables() -> None:
    hmm = HMM(3, 4, seed=7, frequencies=[0, 1, 2, 997])
    assert (hmm.B[:, 0] == 0).all()
    assert (hmm.B[:, 3] > hmm.B[:, 1]).all()
    for name in ("pi", "A", "B"):
        assert np.array_equal(getattr(HMM(3, 4, seed=7), name), getattr(HMM(3, 4, seed=7), name))
        assert not np.array_equal(getattr(HMM(3, 4, seed=7), name), getattr(HMM(3, 4, seed=8), name))
    hmm.A[0, 0] = 5  # a copy
    assert hmm.A[0].sum() == pytest.approx(1)


def refused() -> list[tuple[Any, type[Exception], str]]:
    hmm = model()
    sparse = HMM(6, 4, edges=3)
    symbols = [
        ([0, 4], "whole numbers in 0 ... 3, not int64 from 0 to 4"), ([], "and not empty"),
        ([0.0, 1.0], "must be symbols, .*, not float64"), ("text", r"\(time, batch\) or \(time,\)"),
        (np.zeros((3, 0), int), "and not empty"), ([[1, 2], [3]], "sequences must be equally long"),
    ]  # fmt: skip
    unknown = model()
    unknown.theta = np.full(unknown.theta.shape, math.nan)
    ones = {"pi": np.ones(1), "A": np.ones((1, 1)), "B": np.ones((1, 2)) / 2}
    methods = hmm.log_likelihood, hmm.log_probabilities, hmm.bits, hmm.fit, hmm.viterbi, hmm.counts
    return [
        *((lambda m=method, x=x: m(x), DataError, says) for method in methods for x, says in symbols),
        (lambda: unknown.viterbi([0]), UsageError, "pi is nan"),
        (lambda: unknown.sample(2), UsageError, "pi is nan"),
        (lambda: HMM(0, 3), UsageError, "states must be a whole number >= 1, not 0"),
        (lambda: HMM(2, 2.5), UsageError, "symbols must be a whole number >= 1, not 2.5"),
        (lambda: HMM(2, 3, frequencies=[1, 2]), UsageError, r"frequencies must be 3 numbers >= 0.*\[1, 2\]"),
        (lambda: HMM(2, 3, frequencies=[0, 0, 0]), UsageError, "not all 0"),
        (lambda: setattr(hmm, "pi", [0.5, 0.6, 0]), UsageError, "each row with the sum 1.*sums are 1.1"),
        (lambda: setattr(hmm, "pi", [1.5, -0.5, 0]), UsageError, "smallest entry is -0.5"),
        (lambda: setattr(hmm, "A", [[1, 0]]), UsageError, r"A must have the shape \[3, 3\], not \[1, 2\]"),
        (lambda: setattr(hmm, "B", "no"), UsageError, "B must be an array of numbers"),
        (lambda: HMM(1, 2, values={**ones, "B": np.array([[1.5, -0.5]])}), UsageError, "B .* smallest entry is -0.5"),
        (lambda: HMM(1, 2, values={**ones, "pi": np.array([math.nan])}), UsageError, "pi must hold probabilities"),
        (lambda: HMM(1, 2, values={**ones, "B": [[1, 0]]}), UsageError, "B is missing, or its shape"),
        (lambda: setattr(sparse, "A", np.full((6, 6), 1 / 6)), UsageError, "A must be 0 where"),
        (lambda: hmm.fit([0, 1], smoothing=-1), UsageError, "smoothing must be a finite number >= 0, not -1"),
        (lambda: hmm.fit([0, 1], tolerance=math.nan), UsageError, "tolerance must be a finite number"),
        (lambda: hmm.fit([0, 1], iterations=0), UsageError, "iterations must be"),
        (lambda: hmm.sample(0), UsageError, "length must be"),
        (lambda: hmm.sample(3, batch=0), UsageError, "batch must be"),
        (lambda: hmm.unroll(3, 1, tables="logits"), UsageError, "tables must be .*, not 'logits'"),
        (lambda: hmm.unroll(3, 1, initial="zero"), UsageError, "initial must be 'pi' or 'given'"),
        (lambda: hmm.adopt(hmm.unroll(3, 1)), UsageError, "tables='softmax'"),
        (lambda: hmm.adopt(model(2).unroll(3, 1, tables="softmax")), UsageError, r"no logits for .* pi \[3\]"),
    ]  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    for call, error, names in refused():
        with case(names), pytest.raises(error, match=names):
            call()
