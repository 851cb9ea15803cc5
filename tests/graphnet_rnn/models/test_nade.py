"""RecurrentNADE: likelihood by enumeration and loops; derivatives, products and samples."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.models.nade import conditional_logits
from tests.tables import case


def made(bits: int = 4, hidden: int = 3, units: int = 2, scale: float = 1.0, **net: Any) -> rnn.RecurrentNADE:
    network = rnn.Network([rnn.GRU(units)], bits, 0, reads="vectors", dtype="float64", **net)
    model = rnn.RecurrentNADE(network, hidden)
    model.theta = scale * np.random.default_rng(3).standard_normal(model.theta.size)
    return model


def some_bits(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).random(shape) < 0.4).astype(np.float64)


def losses_of(model: rnn.RecurrentNADE, v: Array, lengths: Array | None = None) -> Array:
    """By the nodes."""
    node = gn.input(v.shape, "float64", name="v")
    losses, ends = model.unroll(node, lengths=lengths is not None, training=False)
    given = [] if lengths is None else [lengths]
    (found,) = gn.compile([losses], [node, *([] if ends is None else [ends])])(v, *given)
    return np.asarray(found)


def by_a_loop(model: rnn.RecurrentNADE, v: Array) -> Array:
    """-log P(v_t | past), (time,), of one sequence (time, bits): one bit after the other, each written out."""
    p = {name: node.value for name, node in model.parameters.items()}
    before = np.concatenate([np.zeros((1, v.shape[1])), v[:-1]])
    h, _ = rnn.Runner(model.network, read_by_output=True)(before[:, None])
    found = np.zeros(len(v))
    for t, frame in enumerate(v):
        b = p["b"] + h[t, 0] @ p["W_hb"]
        for i, bit in enumerate(frame):
            o = b[i]
            if model.hidden:
                a = p["c"] + h[t, 0] @ p["W_hc"]
                for j in range(i):
                    a = a + frame[j] * p["W"][j]
                o = o + p["V"][i] @ (1 / (1 + np.exp(-a)))
            share = 1 / (1 + np.exp(-o))
            found[t] -= np.log(share if bit else 1 - share)
    return found


def test_loss_matches_a_loop_over_bits() -> None:
    for bits, hidden in itertools.product([1, 4], [0, 1, 3]):
        with case(bits, hidden):
            model, v = made(bits, hidden), some_bits(5, 3, bits)
            wanted = np.stack([by_a_loop(model, v[:, n]) for n in range(3)], axis=1)
            np.testing.assert_allclose(losses_of(model, v), wanted, rtol=1e-10)
            np.testing.assert_allclose(model.log_probabilities(v), -wanted, rtol=1e-10)


def test_skip_connections_reach_the_last_layer_only() -> None:
    network = rnn.Network([rnn.GRU(2), rnn.GRU(3)], 4, 0, reads="vectors", dtype="float64", skip=True)
    model, v = rnn.RecurrentNADE(network, 3), some_bits(5, 2, 4)
    np.testing.assert_allclose(model.log_probabilities(v), -losses_of(model, v), rtol=1e-10)


def test_probabilities_of_all_frames_add_up_to_one() -> None:
    """Includes probabilities after a past."""
    for bits, hidden in itertools.product([1, 5], [0, 3]):
        with case(bits, hidden):
            model = made(bits, hidden)
            every = np.array(list(itertools.product([0.0, 1.0], repeat=bits)))
            past = np.broadcast_to(some_bits(2, 1, bits), (2, len(every), bits))
            found = -losses_of(model, np.concatenate([past, every[None]]))
            np.testing.assert_allclose(np.exp(found[-1]).sum(), 1, rtol=1e-12)
            first = -losses_of(model, every[None])
            np.testing.assert_allclose(np.exp(first).sum(), 1, rtol=1e-12)
            assert np.abs(first[0] - found[-1]).max() > 1e-3


def test_nade_without_hidden_units_has_logistic_outputs() -> None:
    model, v = made(4, 0), some_bits(6, 3, 4)
    same = rnn.Network([rnn.GRU(2)], 4, 4, loss="sigmoid", dtype="float64")
    for name, node in same.parameters.items():
        renamed = {"output.W_ho": "W_hb", "output.b_o": "b"}.get(name, f"network.{name}")
        node.value[...] = model.parameters[renamed].value
    u = same.unroll(6, 3, initial="zero", training=False)
    before = np.concatenate([np.zeros((1, 3, 4)), v[:-1]])
    (wanted,) = gn.compile([u.losses], [u.inputs, u.targets])(before, v)
    np.testing.assert_allclose(losses_of(model, v), wanted, rtol=1e-10)


def test_bits_depend_on_previous_bits_only() -> None:
    generator = np.random.default_rng(1)
    b, c, W, V = (gn.constant(generator.standard_normal(s)) for s in ((1, 5), (1, 3), (5, 3), (5, 3)))
    node = gn.input((1, 5), "float64", name="v")
    logits = gn.compile([conditional_logits(node, b, c, W, V)], [node])
    v = some_bits(1, 5)
    for i in range(5):
        other = v.copy()
        other[0, i] = 1 - other[0, i]
        moved = np.flatnonzero(logits(v)[0] != logits(other)[0])
        np.testing.assert_array_equal(moved, np.arange(i + 1, 5))


def objective(model: rnn.RecurrentNADE) -> rnn.Objective:
    cost = gn.mean(model.cases(4)(3, training=False))
    found = rnn.Objective(cost, model.parameters, gn.Graph(cost).inputs)
    found.feed(some_bits(4, 3, model.bits, seed=2), np.array([4, 1, 3]))
    return found


def test_gradient_and_curvature_match_finite_differences() -> None:
    """Gv = Jᵀ σ(o)(1 - σ(o)) J v / 3, J of the conditional logits, found by differences of a function of arrays."""
    model = made(3, 2, units=2, scale=0.7)
    cost = objective(model)
    theta = cost.start()
    _, g = cost.gradient(theta)
    steps = 1e-5 * np.eye(len(theta))
    slope = [(cost.loss(theta + e) - cost.loss(theta - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(g, slope, atol=1e-8)

    v, lengths = some_bits(4, 3, 3, seed=2), np.array([4, 1, 3])
    inside = np.arange(4)[:, None] < lengths

    def logits(w: Array) -> Array:
        """Recovered from the loss of each bit: log P of the frames with it and without it, bit by bit."""
        model.theta = w
        found = []
        for i in range(3):
            # P(v_i = 1 | v_<i): frames that agree before i, summed over what follows.
            sums = []
            for value in (1.0, 0.0):
                total = 0.0
                for rest in itertools.product([0.0, 1.0], repeat=2 - i):
                    each = []
                    for t in range(4):
                        other = v[: t + 1].copy()
                        other[t, :, i], other[t, :, i + 1 :] = value, rest
                        each.append(model.log_probabilities(other)[t])
                    total = total + np.exp(np.array(each))
                sums.append(total)
            found.append(np.log(sums[0]) - np.log(sums[1]))
        return np.stack(found, axis=-1)[inside].ravel()

    J = np.stack([(logits(theta + e) - logits(theta - e)) / 2e-5 for e in steps]).T
    share = 1 / (1 + np.exp(-logits(theta)))
    G = J.T @ (J * (share * (1 - share))[:, None]) / 3
    model.theta = theta
    product = cost.curvature(theta)
    found = np.stack([product(e) for e in np.eye(len(theta))])
    np.testing.assert_allclose(found, G, atol=2e-7)
    assert np.linalg.eigvalsh((found + found.T) / 2).min() > -1e-10


def test_padded_cases_match_single_cases() -> None:
    model, lengths = made(4, 3, initial_state="learned"), np.array([2, 5, 1])
    v = some_bits(5, 3, 4)
    found = losses_of(model, v, lengths)
    padding = np.where(np.arange(5)[:, None, None] < lengths[:, None], v, np.nan)
    arrays = model.log_probabilities(padding, lengths)
    np.testing.assert_array_equal(
        model.predict(padding, lengths), model.predict(np.nan_to_num(padding), lengths)
    )
    for n, length in enumerate(lengths):
        alone = losses_of(model, v[:length, n : n + 1])[:, 0]
        np.testing.assert_allclose(found[:length, n], alone, rtol=1e-12)
        assert not found[length:, n].any()
        np.testing.assert_allclose(arrays[:length, n], -alone, rtol=1e-10)
        assert not arrays[length:, n].any()


def test_frames_are_drawn_from_the_distribution() -> None:
    """Frequencies of all 8 frames after a past, by `predict` and `sample`, within 5 deviations."""
    model, count = made(3, 2), 4000
    every = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    past = np.broadcast_to(some_bits(2, 1, 3), (2, count, 3))
    log_p = model.log_probabilities(np.concatenate([past[:, :8], every[None]]))[-1]
    p = np.exp(log_p)
    longer = np.concatenate([past, np.ones((1, count, 3))])
    predicted = model.predict(longer, drawn=True)[-1]
    for frames in (predicted, model.sample(1, count, warm_up=past)[0]):
        shares = [(frames == frame).all(axis=1).mean() for frame in every]
        assert (np.abs(shares - p) < 5 * np.sqrt(p * (1 - p) / count)).all(), (shares, p)
    assert not np.array_equal(predicted, model.predict(longer, drawn=True, seed=1)[-1])


def test_predict_takes_the_likelier_value_of_each_bit() -> None:
    model, v = made(4, 3), some_bits(3, 2, 4)
    found = model.predict(v)
    for t, n, i in itertools.product(range(3), range(2), range(4)):
        both = []
        for value in (0.0, 1.0):
            rests = itertools.product([0.0, 1.0], repeat=3 - i)
            frames = np.array([[*found[t, n, :i], value, *rest] for rest in rests])
            pieces = np.concatenate([np.repeat(v[:t, n, None], len(frames), axis=1), frames[None]])
            both.append(np.exp(model.log_probabilities(pieces)[-1]).sum())
        assert found[t, n, i] == (both[1] > both[0])


def test_nade_learns_correlated_bits() -> None:
    """Two equal bits, each 1 in 0.4 of the frames: 0.67 nats, instead of twice that for independent bits."""
    one = some_bits(6, 40, 1, seed=5)
    v = np.concatenate([one, one], axis=2)
    reached = {}
    for hidden in (0, 4):
        network = rnn.Network([rnn.Elman(2)], 2, 0, reads="vectors")
        model = rnn.RecurrentNADE(network, hidden)
        arrays = {"v": v, "lengths": np.full(40, 6)}
        problem = rnn.GraphCases(model, arrays, batch=40, graph=model.cases(6), valid=None)
        settings = rnn.Training(rnn.Adam(0.1), epochs=120, stopping=None)
        reached[hidden] = rnn.Trainer(problem, settings, folder=None).run().best / 6
    assert reached[4] < 0.85
    assert reached[0] > 1.2


def test_invalid_arguments_are_rejected() -> None:
    model = made()
    two_ways = rnn.Network([rnn.Bidirectional(rnn.GRU(2))], 4, 0, reads="vectors")
    frames = {"v": np.array([[[0] * 4] * 3, [[127] * 4] * 3]), "lengths": np.array([1, 1, 2])}
    padding = rnn.GraphCases(model, {**frames, "lengths": np.ones(3, int)}, graph=model.cases(2), valid=None)
    assert len(padding) == 1
    for call, error, names in (
        (lambda: rnn.RecurrentNADE(rnn.Network([rnn.GRU(2)], 4, 4)), UsageError, "network must read vectors"),
        (lambda: rnn.RecurrentNADE(two_ways), UsageError, "reads later inputs"),
        (lambda: made(hidden=-1), UsageError, "RecurrentNADE: hidden"),
        (lambda: model.predict(np.full((2, 1, 4), 0.5)), DataError, "RecurrentNADE.predict: v must be bits"),
        (lambda: model.log_probabilities(np.zeros((2, 4))), DataError, "must be"),
        (lambda: model.unroll(gn.input((2, 1, 3), "float64")), UsageError, r"\(time, batch, 4\), not .*test_nade.py"),
        (lambda: model.unroll(some_bits(2, 1, 4)), UsageError, "v must be a node"),
        (lambda: rnn.GraphCases(model, frames, graph=model.cases(2)), DataError, "v must be bits, .* 0 to 127"),
        (lambda: model.sample(1, warm_up=np.zeros((1, 2, 4))), UsageError, "holds 2 sequences, but batch is 1"),
    ):  # fmt: skip
        with case(names), pytest.raises(error, match=names):
            call()
