"""RBM, TRBM, RTRBM, RNN-RBM against enumeration, plain NumPy from the source's equations, and finite differences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.cell import initializers
from graphnet_rnn.errors import DataError, TrainingError, UsageError
from graphnet_rnn.models.energy import (
    RBM,
    RTRBM,
    TRBM,
    ContrastiveDivergence,
    EnergyModel,
    RecurrentRBM,
    Stack,
)
from graphnet_rnn.models.energy.annealing import gibbs
from graphnet_rnn.models.energy.units import sigmoid
from tests.graphnet_rnn.models.trained import train, train_stack
from tests.tables import case

LARGE = {"*": initializers.normal(0.8)}  # weights that matter


def rbm(visible: int = 4, hidden: int = 3, **how: Any) -> RBM:
    return RBM(visible, hidden, dtype="float64", initial=LARGE, **how)


def bits(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 2, shape)


def states(units: int) -> Array:
    """Every binary vector, by another way than the package's."""
    return np.array(list(itertools.product([0.0, 1.0], repeat=units)))


def joint(p: dict[str, Array], b_v: Array | None = None, b_h: Array | None = None) -> Array:
    """P(v, h) of a binary RBM from eq. 2.24, (2^visible, 2^hidden)."""
    b_v, b_h = p["b_v"] if b_v is None else b_v, p["b_h"] if b_h is None else b_h
    v, h = states(len(b_v)), states(len(b_h))
    e = np.exp(v @ p["W"] @ h.T + (v @ b_v)[:, None] + (h @ b_h)[None, :])
    return e / e.sum()


def finite_difference(f: Callable[[Array], float], theta: Array, step: float = 1e-5) -> Array:
    g = np.empty_like(theta)
    for i in range(theta.size):
        e = np.zeros_like(theta)
        e[i] = step
        g[i] = (f(theta + e) - f(theta - e)) / (2 * step)
    return g


def exact_gradient(model: EnergyModel, cost: gn.Node, inputs: list[gn.Node], *arrays: Array) -> Array:
    grads = gn.gradient(cost, list(model.parameters.values()))
    values = gn.compile(grads, inputs, backend="numpy")(*arrays)
    return np.concatenate([g.ravel() for g in values])


def at_theta(model: EnergyModel, f: Callable[[], float]) -> Callable[[Array], float]:
    """f as a function of the parameters; they are what they were afterwards."""

    def value(theta: Array) -> float:
        kept = model.theta.copy()
        model.theta = theta
        result = f()
        model.theta = kept
        return result

    return value


def test_conditionals_partition_and_probability_match_enumeration() -> None:
    for sizes in [(4, 3), (3, 5), (1, 1)]:
        with case(sizes):
            model = rbm(*sizes)
            p, P = model.values, joint(model.values)
            v, h = states(sizes[0]), states(sizes[1])
            assert np.allclose(model.infer(v), (P / P.sum(1, keepdims=True)) @ h, atol=1e-14)
            assert np.allclose(model.read_out(h), (P / P.sum(0)).T @ v, atol=1e-14)
            node = gn.input(v.shape, "float64")
            log_p, log_z = gn.compile([model.log_probability(node), model.exact_log_partition()], [node])(v)
            assert np.allclose(np.exp(log_p), P.sum(1), atol=1e-14)
            unnormalised = np.exp(v @ p["W"] @ h.T + (v @ p["b_v"])[:, None] + h @ p["b_h"])
            assert np.isclose(log_z, np.log(unnormalised.sum()), rtol=1e-13)
            assert np.isclose(model.log_likelihood(v), np.log(P.sum(1)).mean(), rtol=1e-13)


def test_gaussian_visibles_are_the_mixture_of_equation_2_33() -> None:
    for sigma in [1.0, 0.6]:
        with case(sigma):
            model = rbm(3, 4, visibles="gaussian", sigma=sigma)
            W, b_v, b_h = model.values.values()
            h = states(4)
            means = sigma**2 * (b_v + h @ W.T)
            weight = np.exp(h @ b_h + (means**2).sum(1) / (2 * sigma**2))
            weight /= weight.sum()
            v = np.random.default_rng(0).standard_normal((5, 3))
            distance = ((v[:, None] - means) ** 2).sum(2)
            density = np.exp(-distance / (2 * sigma**2)) / (2 * np.pi * sigma**2) ** 1.5
            node = gn.input(v.shape, "float64")
            (log_p,) = gn.compile([model.log_probability(node)], [node])(v)
            assert np.allclose(np.exp(log_p), density @ weight, rtol=1e-12)
            assert np.allclose(model.read_out(h), means, rtol=1e-13)
            posterior = density * weight
            assert np.allclose(model.infer(v), posterior @ h / posterior.sum(1, keepdims=True), rtol=1e-12)
            drawn = model.gibbs(np.zeros((20_000, 3)), steps=30)
            assert np.allclose(drawn.mean(0), weight @ means, atol=0.03)
            spread = sigma**2 * np.eye(3) + np.cov(means.T, aweights=weight, ddof=0)
            assert np.allclose(np.cov(drawn.T), spread, atol=0.06)


def test_annealed_estimate_matches_enumeration() -> None:
    """Within 0.01 nats with 2,000 chains for each RBM; exact for unconnected units."""
    for kind, visibles in itertools.product(["RBM", "RTRBM"], ["binary", "gaussian"]):
        with case(kind, visibles):
            model = getattr(rnn.energy, kind)(4, 3, visibles=visibles, dtype="float64")
            generator = np.random.default_rng(4)
            model.theta = 0.8 * generator.standard_normal(model.theta.size)
            shape = (6, 4) if kind == "RBM" else (3, 2, 4)
            v = generator.standard_normal(shape)
            v = bits(*shape).astype(float) if visibles == "binary" else v
            node = gn.input(shape, "float64")
            log_p = model.log_probability(node) if kind == "RBM" else model.log_probabilities(node)
            exact = gn.compile([log_p], [node])
            found = model.estimated_log_probabilities(v, temperatures=50, chains=2000)
            assert found.shape == exact(v)[0].shape
            assert np.abs(found - exact(v)[0]).max() < 0.02
            model.values["W"][...] = 0
            found = model.estimated_log_probabilities(v, temperatures=3, chains=1)
            assert np.allclose(found, exact(v)[0], rtol=1e-12)


def expected_divergence(model: RBM, v: Array, k: int) -> Array:
    """The expectation of the CD-k gradient, from the k-th power of the chain's transition matrix."""
    P, all_v = joint(model.values), states(model.visible)
    T = (P / P.sum(1, keepdims=True)) @ (P / P.sum(0)).T
    start = np.array([(v == row).all(1).mean() for row in all_v])
    W = model.values["W"]

    def mean_of_f(q: Array) -> Array:
        """Σ_v q(v) ∂F/∂θ (2.32 and below)"""
        h = sigmoid(all_v @ W + model.values["b_h"])
        return -np.concatenate([(all_v.T @ (q[:, None] * h)).ravel(), q @ all_v, q @ h])

    return mean_of_f(start) - mean_of_f(start @ np.linalg.matrix_power(T, k))


def divergences(model: EnergyModel, v: Array, k: int, calls: int) -> tuple[Array, Array]:
    """The mean of `calls` CD-k gradients, and its standard error."""
    objective = ContrastiveDivergence(model, k, backend="numpy")
    objective.feed(v)
    g = np.array([objective.gradient(model.theta.copy())[1] for _ in range(calls)])
    return g.mean(0), g.std(0, ddof=1) / np.sqrt(calls)


def test_contrastive_divergence_has_its_expectation_and_tends_to_the_exact_gradient() -> None:
    model = rbm(seed=3)
    v = np.repeat(states(4)[[3, 5, 6, 15]], 300, axis=0)
    node = gn.input(v.shape, "float64")
    exact = exact_gradient(model, -gn.mean(model.log_probability(node)), [node], v)
    bias = []
    for k in (1, 5, 50):
        expected = expected_divergence(model, v, k)
        mean, error = divergences(model, v, k, 60)
        assert np.all(np.abs(mean - expected) < 4.5 * error), k
        bias.append(np.linalg.norm(expected - exact))
    assert bias[0] > 0.05
    assert bias[0] > 3 * bias[1] > 3e3 * bias[2]
    assert np.linalg.norm(divergences(model, v, 1, 60)[0] - exact) > 0.8 * bias[0]


def test_gradient_depends_on_seed_and_draw_only() -> None:
    model, v = rbm(), bits(20, 4)
    first, again, other = (ContrastiveDivergence(model, 2, seed, backend="numpy") for seed in (1, 1, 2))
    for objective in (first, again, other):
        objective.feed(v)
    w = first.start()
    one, two = first.gradient(w)[1], first.gradient(w)[1]
    assert not np.array_equal(one, two)
    again.draw = 1
    assert np.array_equal(again.gradient(w)[1], two)
    assert not np.array_equal(other.gradient(w)[1], one)
    assert first.gradient(w)[0] >= 0


def test_compiled_and_numpy_back_ends_agree_and_shapes_may_change() -> None:
    model = RTRBM(4, 3, dtype="float64", initial=LARGE)
    numba, plain = (ContrastiveDivergence(model, 2, backend=b) for b in ("numba", "numpy"))
    for shape in ((3, 2, 4), (2, 5, 4), (3, 2, 4)):
        for objective in (numba, plain):
            objective.feed(bits(*shape))
        (loss, g), (loss_, g_) = (o.gradient(model.theta.copy()) for o in (numba, plain))
        assert loss == loss_
        assert np.allclose(g, g_, rtol=1e-12, atol=1e-13)
    assert len(numba._functions) == 2


def temporal(kind: type[Any] = RTRBM, **how: Any) -> Any:
    return kind(**{"visible": 3, "hidden": 4, "dtype": "float64", "initial": LARGE, **how})


def of_names(model: EnergyModel, gradient: Array) -> dict[str, Array]:
    """A flat gradient by parameter name."""
    ends = np.cumsum([node.size for node in model.parameters.values()])[:-1]
    pieces = zip(model.parameters.items(), np.split(gradient, ends), strict=True)
    return {name: piece.reshape(node.shape) for (name, node), piece in pieces}


def node_divergence(model: EnergyModel, v: Array, v_k: Array) -> dict[str, Array]:
    """The gradient of the mean divergence by nodes, for given ends of the chains, times time × batch: of the sum."""
    a, b = (gn.input(v.shape, "float64") for _ in range(2))
    g = exact_gradient(model, model.divergence(a, b), [a, b], v, v_k)
    return of_names(model, g * v.shape[0] * v.shape[1])


def test_gradient_includes_earlier_time_steps() -> None:
    """Against differences of the mean divergence for given ends of the chains: of an RTRBM through all earlier r
    (3.23-3.25), of a RecurrentRBM through its network.
    """
    v, v_k = bits(6, 3, 3, seed=1).astype(float), bits(6, 3, 3, seed=2).astype(float)
    a, b = (gn.input(v.shape, "float64") for _ in range(2))
    for model in (temporal(hidden=5), recurrent()):
        with case(model):
            cost = model.divergence(a, b)
            value = gn.compile([cost], [a, b], backend="numpy")
            expected = finite_difference(at_theta(model, lambda: value(v, v_k)[0]), model.theta.copy())
            found = exact_gradient(model, cost, [a, b], v, v_k)
            assert np.allclose(found, expected, rtol=1e-6, atol=1e-9)
            for name, g in of_names(model, found).items():
                assert np.abs(g).max() > 1e-3, name


def test_trbm_gradient_matches_equations_3_7_to_3_10() -> None:
    """No derivative goes through the past p; with two delays and every kind of connection."""
    model = temporal(TRBM, delays=2)
    p, T, B = model.values, 5, 2
    v, v_k = bits(T, B, 3, seed=1).astype(float), bits(T, B, 3, seed=2).astype(float)
    expected = {name: np.zeros_like(value) for name, value in p.items()}
    for b in range(B):
        seen = {t: v[t - 1, b] for t in range(1, T + 1)} | {0: p["v_0"], -1: p["v_-1"]}
        q = {0: p["h_0"], -1: p["h_-1"]}
        for t in range(1, T + 1):
            bias = p["b_h"] + sum(q[t - n] @ p[f"W'_{n}"] + seen[t - n] @ p[f"W_{n}"] for n in (1, 2))
            q[t] = sigmoid(seen[t] @ p["W"] + bias)  # 3.5
            h_k, end = sigmoid(v_k[t - 1, b] @ p["W"] + bias), v_k[t - 1, b]
            dh, dv = q[t] - h_k, seen[t] - end
            expected["W"] += np.outer(seen[t], q[t]) - np.outer(end, h_k)  # 3.7
            expected["b_v"] += dv
            expected["b_h"] += dh
            for n in (1, 2):
                expected[f"W_{n}"] += np.outer(seen[t - n], dh)  # 3.8
                expected[f"W'_{n}"] += np.outer(q[t - n], dh)  # 3.9
                expected[f"A_{n}"] += np.outer(seen[t - n], dv)  # 3.10
                if t - n <= 0:
                    expected[f"h_{t - n}"] += p[f"W'_{n}"] @ dh
                    expected[f"v_{t - n}"] += p[f"W_{n}"] @ dh + p[f"A_{n}"] @ dv
        assert np.allclose(model.infer(v)[:, b], [q[t] for t in range(1, T + 1)], atol=1e-14)
    for name, g in node_divergence(model, v, v_k).items():
        assert np.allclose(-g, expected[name], rtol=1e-10, atol=1e-12), name


def test_rtrbm_likelihood_is_enumerated_and_its_gradient_that_of_finite_differences() -> None:
    for how in (
        {}, {"visible": 5, "hidden": 2}, {"delays": 2, "connections": ("HH", "VV", "VH")}, {"connections": "VV"},
        {"visibles": "gaussian", "sigma": 0.7},
    ):  # fmt: skip
        with case(how):
            model = temporal(**how)
            T, B = 4, 2
            binary = model.visibles == "binary"
            v = bits(T, B, model.visible, seed=4) + (0.0 if binary else 0.3)
            node = gn.input(v.shape, "float64")
            log_p = model.log_probabilities(node)
            g = exact_gradient(model, gn.mean(gn.sum(log_p, axis=0)), [node], v)
            expected = finite_difference(at_theta(model, lambda: model.log_likelihood(v)), model.theta.copy())
            assert np.allclose(g, expected, rtol=1e-6, atol=1e-8)
            if binary:  # each frame's RBM by enumeration
                (found,) = gn.compile([log_p], [node], backend="numpy")(v)
                b_v, b_h = model.biases(v)
                for t, b in itertools.product(range(T), range(B)):
                    P = joint(model.values, b_v[t, b], b_h[t, b]).sum(1)
                    row = int((states(model.visible) == v[t, b]).all(1).argmax())
                    assert np.isclose(np.exp(found[t, b]), P[row], rtol=1e-12)


def test_rtrbm_probabilities_of_all_sequences_add_up_to_one() -> None:
    model = temporal(visible=2)
    every = np.array(list(itertools.product(states(2), repeat=3))).transpose(1, 0, 2)
    node = gn.input(every.shape, "float64")
    (log_p,) = gn.compile([gn.sum(model.log_probabilities(node), axis=0)], [node])(every)
    assert np.isclose(np.exp(log_p).sum(), 1, rtol=1e-12)


def recurrent(visible: int = 3, hidden: int = 4, **how: Any) -> RecurrentRBM:
    """On an Elman network of five units, with weights that matter."""
    network = rnn.Network([rnn.Elman(5)], visible, 0, reads="vectors", dtype="float64")
    model = RecurrentRBM(network, hidden, initial=LARGE, **how)
    network.theta = np.random.default_rng(3).normal(0, 0.8, network.theta.size)
    return model


def test_biases_of_a_recurrent_rbm_follow_the_network() -> None:
    """Against a loop: Boulanger-Lewandowski, Bengio & Vincent 2012, section 4, zeros before the first frame."""
    model = recurrent()
    p, v = model.values, bits(6, 2, 3, seed=1).astype(float)
    W_xh, W_hh, b_h = (p[f"network.layer0.{name}"] for name in ("W_xh", "W_hh", "b_h"))
    found, frame, u = model.biases(v), np.zeros((2, 3)), np.zeros((2, 5))
    a = gn.input(v.shape, "float64")
    nodes = gn.compile(list(model.machine(a)[1:]), [a], backend="numpy")(v)
    past = model._past(2)
    for t in range(6):
        u = np.tanh(frame @ W_xh + u @ W_hh + b_h)
        expected = p["b_v"] + u @ p["W_uv"], p["b_h"] + u @ p["W_uh"]
        for by_arrays, by_nodes, by_step, right in zip(
            found, nodes, model._biases_after(past), expected, strict=True
        ):
            for each in (by_arrays[t], by_nodes[t], by_step):
                np.testing.assert_allclose(each, right, rtol=1e-12)
        np.testing.assert_allclose(model.infer(v)[t], sigmoid(v[t] @ p["W"] + expected[1]), rtol=1e-12)
        frame = v[t]
        model._push(past, frame, np.empty(0))


def test_recurrent_rbm_is_a_distribution_with_its_gradient() -> None:
    model = recurrent(visible=2, hidden=3)
    every = np.array(list(itertools.product(states(2), repeat=3))).transpose(1, 0, 2)
    node = gn.input(every.shape, "float64")
    total = gn.sum(model.log_probabilities(node), axis=0)
    (log_p,) = gn.compile([total], [node])(every)
    assert np.isclose(np.exp(log_p).sum(), 1, rtol=1e-12)
    estimated = model.estimated_log_probabilities(every, temperatures=300, chains=200).sum(axis=0)
    np.testing.assert_allclose(estimated, log_p, atol=0.05)
    found = exact_gradient(model, gn.mean(total), [node], every)
    expected = finite_difference(at_theta(model, lambda: model.log_likelihood(every)), model.theta.copy())
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    drawn = model.sample(3, batch=20_000, gibbs_steps=20)
    codes = (drawn.transpose(1, 0, 2).reshape(-1, 6) @ 2.0 ** np.arange(5, -1, -1)).astype(int)
    frequencies = np.bincount(codes, minlength=64) / 20_000
    assert np.abs(frequencies - np.exp(log_p)).sum() < 0.06


def test_recurrent_rbm_learns_a_moving_bar() -> None:
    frames = np.array([np.roll([1.0, 1, 0, 0, 0, 0], t) for t in range(12)])[:, None]
    v = np.concatenate([np.roll(frames, shift, axis=2) for shift in range(6)], axis=1)
    network = rnn.Network([rnn.GRU(20)], 6, 0, reads="vectors")
    model = RecurrentRBM(network, 20, initial={"W*": initializers.normal(0.1)})
    problem = rnn.EnergyCases(model, np.tile(v, (1, 20, 1)), 60, gibbs_steps=5, valid=0.0)
    settings = rnn.Training(rnn.Adam(0.01), epochs=100, stopping=None, schedule=rnn.Constant())
    rnn.Trainer(problem, settings).run()
    predicted = model.predict(v)
    assert np.square(predicted[1:] - v[1:]).mean() < 0.02
    np.testing.assert_array_equal(model.sample(5, batch=6, warm_up=v[:7]).round(), v[7:])


def two_frames(model: Any, drawn: bool) -> Array:
    """P(v_1, v_2) by enumeration: h_1 summed out (TRBM, eq. 3.14) or put at its mean (RTRBM, eq. 3.16)."""
    p, v, h = model.values, states(2), states(model.hidden)
    first = p["b_h"] + p["h_0"] @ p["W'_1"]
    P_1 = joint(p, b_h=first)
    result = np.zeros((4, 4))
    for i in range(4):
        if drawn:
            for j, state in enumerate(h):
                result[i] += P_1[i, j] * joint(p, b_h=p["b_h"] + state @ p["W'_1"]).sum(1)
        else:
            r = sigmoid(v[i] @ p["W"] + first)
            result[i] = P_1[i].sum() * joint(p, b_h=p["b_h"] + r @ p["W'_1"]).sum(1)
    return result


def undecided(kind: type[Any]) -> Any:
    """A model whose h_1 is often in doubt, and matters for v_2: drawn or not is then no small difference."""
    model = kind(2, 2, connections=["HH"], dtype="float64")
    p = model.values
    p["W"][...], p["W'_1"][...] = [[3, 0.5], [0, 3]], [[8, 0], [0, 8]]
    p["b_v"][...], p["b_h"][...], p["h_0"][...] = -1.5, -4, 0.5
    return model


def test_samples_have_the_probabilities_of_their_model() -> None:
    for kind, mean_field, drawn in [(TRBM, None, True), (TRBM, True, False), (RTRBM, None, False)]:
        with case(kind, mean_field):
            model = undecided(kind)
            exact, other = two_frames(model, drawn), two_frames(model, not drawn)
            assert np.isclose(exact.sum(), 1)
            assert np.abs(exact - other).sum() > 0.1  # so that the test tells the two models apart
            n = 20_000
            frames = model.sample(2, batch=n, gibbs_steps=15, mean_field=mean_field)
            codes = (2 * frames[..., 0] + frames[..., 1]).astype(int)
            found = np.bincount(4 * codes[0] + codes[1], minlength=16).reshape(4, 4) / n
            assert np.abs(found - exact).sum() < 0.03
            # After a warm-up
            p, frame = model.values, np.array([1.0, 0.0])
            again = model.sample(1, n, np.tile(frame, (1, n, 1)), gibbs_steps=15, mean_field=mean_field)[0]
            r = sigmoid(frame @ p["W"] + p["b_h"] + p["h_0"] @ p["W'_1"])
            weights = np.prod(np.where(states(2) == 1, r, 1 - r), axis=1) if drawn else [1.0]
            pasts = states(2) if drawn else [r]
            each = [joint(p, b_h=p["b_h"] + h @ p["W'_1"]).sum(1) for h in pasts]
            expected = np.asarray(weights) @ each
            found = np.bincount((2 * again[:, 0] + again[:, 1]).astype(int), minlength=4) / n
            assert np.abs(found - expected).sum() < 0.03


def test_predictions_are_the_expectations_of_the_next_frame() -> None:
    model = temporal(seed=3, connections=("HH", "VV"))
    v = bits(4, 2, 3, seed=5).astype(float)
    biases = [zip(*each, strict=True) for each in zip(*model.biases(v), strict=True)]
    expected = [[joint(model.values, *each).sum(1) @ states(3) for each in frame] for frame in biases]
    assert np.allclose(model.predict(v, gibbs_steps=15, chains=2000), expected, atol=0.02)
    changed = v.copy()
    changed[2] = 1 - changed[2]
    same = model.predict(v, gibbs_steps=1) == model.predict(changed, gibbs_steps=1)
    assert same[:3].all()  # frame t is not looked at
    assert not same[3].all()


def test_frames_read_out_with_connections_between_visible_units() -> None:
    model = temporal(TRBM)
    p, v, h = model.values, bits(4, 2, 3).astype(float), bits(4, 2, 4, seed=1).astype(float)
    before = np.concatenate([np.broadcast_to(p["v_0"], (1, 2, 3)), v[:-1]])
    expected = sigmoid(h @ p["W"].T + p["b_v"] + before @ p["A_1"])
    assert np.allclose(model.read_out(h, v), expected, atol=1e-14)
    assert np.allclose(model.reconstruct(v), model.read_out(model.infer(v), v))
    one = model.emit(h[:1], warm_up=v[:2], means=True)
    assert np.allclose(one[0], sigmoid(h[0] @ p["W"].T + p["b_v"] + v[1] @ p["A_1"]), atol=1e-14)
    assert set(np.unique(model.emit(h))) <= {0.0, 1.0}


def bars_and_stripes() -> Array:
    """The 14 pictures of 3 × 3 pixels whose rows, or whose columns, are each one colour."""
    return np.unique([each(s, 3) for s in states(3) for each in (np.repeat, np.tile)], axis=0)


def denoising(model: Any, data: Array) -> float:
    """The error of noisy data as the model makes them again, as a share of the noise."""
    noisy = np.where(np.random.default_rng(0).random((40, *data.shape)) < 0.08, 1 - data, data)
    noisy = noisy.reshape(-1, *data.shape[1:])
    clean = np.tile(data, (40, *[1] * (data.ndim - 1)))
    return float(np.mean((model.reconstruct(noisy) - clean) ** 2) / np.mean((noisy - clean) ** 2))


def shifting_bar(time: int, batch: int, seed: int, width: int = 6) -> Array:
    """A bar of two pixels that goes left or right around a ring, one pixel a step: one frame does not say where."""
    generator = np.random.default_rng(seed)
    place, direction = generator.integers(0, width, batch), generator.choice([-1, 1], batch)
    at = (place + direction * np.arange(time)[:, None])[..., None]
    pixel = np.arange(width)
    return (((pixel - at) % width) < 2).astype("float32")


def test_validation_of_an_upper_model_is_that_of_draws() -> None:
    """As its training data: a model that knows nothing reconstructs tosses of a coin with an error of 0.25."""
    lower, upper = RBM(6, 8), RBM(8, 4, seed=1)
    problem = rnn.EnergyCases(upper, bits(400, 6), 20, below=[lower], valid=0.5)
    assert problem.validate() == pytest.approx(0.25, abs=0.01)
    assert problem.validate() == problem.validate()


def test_rbm_learns_bars_and_stripes() -> None:
    data = bars_and_stripes()
    assert data.shape == (14, 9)
    before = RBM(9, 12).log_likelihood(data)
    model = RBM(9, 12, initial={"W": initializers.normal(0.1)})
    losses = [r.loss for r in train(model, data, rnn.Momentum(0.1), 1500, gibbs_steps=5, seed=1)]
    assert before < -6  # 9 log 2 = 6.24
    assert model.log_likelihood(data) > -3.4  # no model has more than -log 14 = -2.64
    assert np.mean(losses[-50:]) < 0.5 * np.mean(losses[:50])
    drawn = model.sample(2000, gibbs_steps=300)
    assert (drawn[:, None] == data).all(2).any(1).mean() > 0.8  # 14 of 512 pictures: 0.03 by chance
    assert denoising(model, data) < 0.6


@pytest.fixture(scope="module")
def trained_rtrbm() -> RTRBM:
    model = RTRBM(6, 20, initial={"W": initializers.normal(0.1)})
    train(
        model, shifting_bar(12, 100, seed=0), rnn.Adam(0.01), 900, batch=20,
        gibbs_steps=lambda n: 1 if n < 400 else 5, schedule=rnn.Stepwise({0: 1.0, 600: 0.4}),
    )  # fmt: skip
    return model


def test_chains_of_stacked_frames_match_chains_of_rows() -> None:
    """For any axes, also if each chain has its own biases; the data are unchanged."""
    model = temporal(kind=TRBM)
    v = bits(3, 2, model.visible)
    (b_v, b_h), W = model.biases(v), model.values["W"]
    for start in (v, np.broadcast_to(v, (4, *v.shape))):
        before = start.copy()
        found = gibbs(start, W, b_v, b_h, model.units, 3, np.random.default_rng(1))
        assert found.v.shape == found.mean.shape == found.first_mean.shape == start.shape
        assert np.array_equal(start, before)
        generator, x = np.random.default_rng(1), start
        for step in range(3):
            drawn = generator.random((*x.shape[:-1], model.hidden), W.dtype.type)
            h = (drawn < sigmoid(x @ W + b_h)).astype(W.dtype)
            mean = sigmoid(h @ W.T + b_v)
            x = (generator.random(x.shape, W.dtype.type) < mean).astype(W.dtype)
            if step == 0:
                np.testing.assert_allclose(found.first_mean, mean, rtol=1e-6)
        np.testing.assert_array_equal(found.v, x)


def test_rtrbm_predicts_a_shifting_bar(trained_rtrbm: RTRBM) -> None:
    """The direction is not visible in one frame, so r must carry it."""
    v = shifting_bar(12, 50, seed=1)

    def error(model: Any) -> float:
        return float(np.mean((model.predict(v, chains=5) - v)[2:] ** 2))

    copied = float(np.mean((v[1:-1] - v[2:]) ** 2))  # 1/3
    mean = float(np.mean((v.mean() - v[2:]) ** 2))  # 2/9
    two_ways = 4 / 6 * 0.25  # the best without the direction: four of six pixels on with probability 1/2
    assert error(RTRBM(6, 20)) > 0.9 * mean
    assert error(trained_rtrbm) < 0.1 * two_ways < 0.1 * min(copied, mean)
    # It goes on where a warm-up ends.
    v = shifting_bar(10, 50, seed=2)
    future = trained_rtrbm.sample(4, 50, warm_up=v[:6])
    assert np.mean(future != v[6:]) < 0.05 < np.mean(v[5] != v[7])
    free = trained_rtrbm.sample(6, 200)
    assert abs(free[3:].sum(2).mean() - 2) < 0.3  # bars of two pixels


def test_trbm_learns_from_one_frame_and_its_past() -> None:
    v = shifting_bar(12, 100, seed=0)
    model = TRBM(6, 12, delays=2)
    errors = []
    for updates in (1, 300):
        train(model, v, rnn.Adam(0.01), updates, batch=20)
        errors.append(np.mean((model.predict(v) - v)[2:] ** 2))
    assert errors[1] < 0.3 * errors[0]
    noisy = np.where(np.random.default_rng(0).random(v.shape) < 0.05, 1 - v, v)
    assert np.mean((model.reconstruct(noisy) - v) ** 2) < 0.8 * np.mean((noisy - v) ** 2)


def test_stack_with_flipped_copy_matches_the_first_model() -> None:
    """2.7.1: with these weights, the augmented model equals the first one."""
    model = rbm(2, 3)
    drawn = Stack([model, model.flipped()]).sample(20_000, gibbs_steps=30)
    found = np.bincount((2 * drawn[:, 0] + drawn[:, 1]).astype(int), minlength=4) / 20_000
    assert np.allclose(found, joint(model.values).sum(1), atol=0.015)


def test_stack_of_rbms_learns_layer_by_layer() -> None:
    data = bars_and_stripes()
    first = RBM(9, 12, initial={"W": initializers.normal(0.1)})
    top = RBM(12, 12, seed=1, initial={"W": initializers.normal(0.1)})
    stack = Stack([first, top])
    many = np.tile(data, (20, 1))
    train_stack(stack, many, rnn.Momentum(0.1), 500, gibbs_steps=2)
    h = stack.activities(many, level=1)
    assert set(np.unique(h)) == {0.0, 1.0}
    fixed, after = first.theta.copy(), top.log_likelihood(h)
    assert after > -5 > -8 > RBM(12, 12).log_likelihood(h)
    train(top, many, rnn.Momentum(0.02), 50, below=[first], gibbs_steps=5)
    assert np.array_equal(first.theta, fixed)
    assert not np.isclose(top.log_likelihood(h), after, atol=1e-6)
    assert denoising(stack, data) < 0.7
    drawn = stack.sample(500, gibbs_steps=200)
    assert (drawn[:, None] == data).all(2).any(1).mean() > 0.5
    means = stack.sample(5, gibbs_steps=3, means=True)
    assert np.all((means > 0) & (means < 1))
    assert [h.shape for h in stack.infer(data)] == [(14, 12), (14, 12)]


def test_stack_of_sequences(trained_rtrbm: RTRBM) -> None:
    for kind in [TRBM, RTRBM]:
        with case(kind):
            v = shifting_bar(10, 60, seed=3)
            stack = Stack([trained_rtrbm, kind(20, 15)])
            kept = trained_rtrbm.theta.copy()
            reports = train(stack.layers[1], v, rnn.Adam(0.01), 150, below=[trained_rtrbm], batch=20)
            assert np.array_equal(trained_rtrbm.theta, kept)
            assert np.mean([r.loss for r in reports[-10:]]) < 0.5 * reports[0].loss
            assert np.array_equal(stack.activities(v, 1), trained_rtrbm.infer(v))
            assert np.mean((stack.reconstruct(v) - v) ** 2) < 0.1
            future = stack.sample_sequences(3, 60, warm_up=v[:7])
            assert future.shape == (3, 60, 6)
            assert np.mean(future[0] != v[7]) < 0.25
            means = stack.sample_sequences(2, 4, means=True)
            assert np.all((means > 0) & (means < 1))
            assert set(np.unique(stack.sample_sequences(2, 4))) <= {0.0, 1.0}
            single = Stack([trained_rtrbm])
            assert np.array_equal(single.sample_sequences(2, 3, seed=4), trained_rtrbm.sample(2, 3, seed=4))


def test_stack_passes_the_warm_up_to_the_lower_model() -> None:
    """The lower layer repeats the previous frame, for any hidden states."""
    lower, upper = TRBM(3, 4, connections=["VV"], dtype="float64"), TRBM(4, 2, dtype="float64")
    lower.values["A_1"][...], lower.values["b_v"][...] = 60 * np.eye(3), -30
    warm_up = bits(2, 50, 3, seed=1)
    future = Stack([lower, upper]).sample_sequences(3, 50, warm_up=warm_up)
    assert np.array_equal(future, np.tile(warm_up[-1], (3, 1, 1)))
    assert np.array_equal(lower.sample(3, 50, warm_up=warm_up), future)


def of_frames(**how: Any) -> rnn.Network:
    return rnn.Network([rnn.Elman(3)], 2, 0, reads="vectors", **how)


def test_invalid_arguments_are_rejected() -> None:
    calls: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (UsageError, "RBM: visible must be a whole number >= 1, not 0", lambda: RBM(0, 3)),
        (UsageError, "RBM: visibles must be 'binary' or 'gaussian'", lambda: RBM(4, 3, "real")),
        (UsageError, "RBM: sigma must be a finite number > 0", lambda: RBM(4, 3, "gaussian", sigma=0)),
        (UsageError, "sigma must be from 1e-15 to 1e15", lambda: RBM(4, 3, "gaussian", sigma=1e-30)),
        (UsageError, "does not apply to binary units", lambda: RBM(4, 3, sigma=0.5)),
        (UsageError, "connections must be one or more of", lambda: TRBM(4, 3, connections=["HV"])),
        (UsageError, "Without any, use RBM", lambda: RTRBM(4, 3, connections=())),
        (UsageError, "sums 1 x 2^25 x 30 numbers", lambda: RBM(30, 25).exact_log_partition()),
        (UsageError, "the visible units must be binary, not Gaussian", lambda: RBM(4, 3, "gaussian").flipped()),
        (DataError, "the data go from -1 to 1", lambda: rbm().infer(bits(2, 4) * 2 - 1)),
        (DataError, "data must be 0 or 1", lambda: rbm().log_likelihood(np.full((2, 4), 0.5))),
        (DataError, "RBM: v must have shape (cases, 4)", lambda: rbm().infer(bits(2, 5))),
        (DataError, "v at [1, 2] is nan; all must be finite", lambda: rbm().infer([[1] * 4, [0, 0, np.nan, 0]])),
        (DataError, "batch is 4, but", lambda: rnn.EnergyCases(temporal(), bits(5, 3, 3), 4)),
        (UsageError, "on top of 5 hidden", lambda: rnn.EnergyCases(rbm(), bits(9, 4), 4, below=[RBM(4, 5)])),
        (UsageError, "below must be a list", lambda: rnn.EnergyCases(rbm(), bits(9, 4), 4, below=RBM(4, 4))),  # type: ignore[arg-type]
        (UsageError, "hidden states of an RTRBM are not drawn", lambda: temporal().sample(1, mean_field=False)),
        (UsageError, "call feed(data) first", lambda: ContrastiveDivergence(rbm()).gradient(np.zeros(19))),
        (UsageError, "takes an RBM, TRBM, RTRBM or RecurrentRBM, not", lambda: ContrastiveDivergence(RBM)),  # type: ignore[arg-type]
        (UsageError, "must be first-order or Hessian-free", lambda: train(rbm(), bits(2, 4), rnn.LBFGS(), 1)),
        (UsageError, "must not have dropout", lambda: RecurrentRBM(of_frames(dropout=0.5))),
        (UsageError, "have no output of its own", lambda: RecurrentRBM(rnn.Network([rnn.Elman(3)], 2, 2))),
        (UsageError, "layers is empty", lambda: Stack([])),
        (UsageError, "on top of 3 hidden units", lambda: Stack([RBM(4, 3), RBM(4, 2)])),
        (UsageError, "gaussian visible units", lambda: Stack([RBM(4, 3), RBM(3, 2, "gaussian")])),
        (UsageError, "must be all RBMs, or all", lambda: Stack([RBM(4, 3), RTRBM(3, 2)])),
        (UsageError, "use Stack.sample_sequences", lambda: Stack([RTRBM(4, 3)]).sample(1)),
        (UsageError, "number of layers, 1, not 1", lambda: Stack([RBM(4, 3)]).activities(bits(2, 4), 1)),
    ]  # fmt: skip
    for error, text, call in calls:
        with case(text), pytest.raises(error, match=re.escape(text)):
            call()


def test_diverging_training_is_reported() -> None:
    said = r"the loss is .*; try a smaller rate, clipping .* for Gaussian units"
    gaussian = [kind(3, 4, "gaussian") for kind in (RBM, RTRBM, TRBM)]
    for model, rate in [*((each, 1e4) for each in gaussian), (TRBM(3, 4), 1e36)]:
        with case(model, rate):
            v = np.random.default_rng(0).random((20, 3) if isinstance(model, RBM) else (4, 5, 3))
            data = v if model.visibles == "binary" else 1000 * v
            with pytest.raises(TrainingError, match=said):
                train(model, data, rnn.SGD(rate), 200)
            model.infer(data)  # no warning, though W is very large


def test_nan_parameters_raise_an_error() -> None:
    methods = "infer", "reconstruct", "sample", "predict", "gibbs", "emit"
    for model, method in itertools.product((rbm(), temporal()), methods):
        if hasattr(model, method):
            model.values["b_h"][1] = np.nan
            v = bits(2, 4) if isinstance(model, RBM) else bits(2, 5, 4 if method == "emit" else 3)
            with case(model, method), pytest.raises(UsageError, match="the parameter b_h is nan"):
                getattr(model, method)(4 if method == "sample" else v)


def test_values_between_0_and_1_count_as_probabilities() -> None:
    """Learning uses the energy at the mean for grey pixels, and for activities of an RTRBM."""
    model, grey = rbm(), np.random.default_rng(0).random((3, 4))
    p = model.values
    expected = -grey @ p["b_v"] - np.log1p(np.exp(grey @ p["W"] + p["b_h"])).sum(1)
    node = gn.input((3, 4), "float64")
    (found,) = gn.compile([model.free_energy(node)], [node])(grey)
    assert np.allclose(found, expected)
    assert len(train(model, grey, rnn.SGD(), 2)) == 2
