"""Norms of weights, and of gradients by distance, against products of Jacobians."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case as named

T, B, N, K = 7, 3, 4, 5


def network(*layers: rnn.Cell, **settings: object) -> rnn.Network:
    net = rnn.Network(list(layers), inputs=K, outputs=K, dtype="float64", **settings)  # type: ignore[arg-type]
    net.theta = np.random.default_rng(1).normal(0, 0.6, net.theta.size)
    return net


def text() -> tuple[np.ndarray, np.ndarray]:
    symbols = np.random.default_rng(2).integers(0, K, (T + 1, B))
    return symbols[:-1], symbols[1:]


def by_hand(net: rnn.Network) -> np.ndarray:
    """‖(p - e_t) W_hoᵀ Π diag(1 - h²) W_hhᵀ‖, case by case, with no derivative but that of tanh and of softmax."""
    w = {name: node.value for name, node in net.parameters.items()}
    inputs, targets = text()
    norms = np.zeros((T, B))
    for case in range(B):
        h, states = np.zeros(N), []
        for x in inputs[:, case]:
            h = np.tanh(w["layer0.W_xh"][x] + h @ w["layer0.W_hh"] + w["layer0.b_h"])
            states.append(h)
        o = h @ w["output.W_ho"] + w["output.b_o"]
        p = np.exp(o - o.max()) / np.exp(o - o.max()).sum()
        g = (p - np.eye(K)[targets[-1, case]]) @ w["output.W_ho"].T
        for k in range(T):
            norms[k, case] = np.sqrt((g**2).sum())
            jacobian = np.diag(1 - states[T - 1 - k] ** 2) @ w["layer0.W_hh"].T  # ∂h_t/∂h_{t-1}
            g = g @ jacobian
    return norms.mean(axis=1)


def test_elman_gradient_norms_match_products_of_jacobians() -> None:
    for backend in ["numba", "numpy"]:
        with named(backend):
            net = network(rnn.Elman(N))
            found = rnn.gradient_by_distance(net, *text(), backend=backend)
            assert list(found) == ["layer0.h"]
            np.testing.assert_allclose(found["layer0.h"], by_hand(net), rtol=1e-10)


def test_both_layers_against_finite_differences() -> None:
    """The gradient at step T - k has all paths to the last loss, also those through the layer above."""
    net = network(rnn.Elman(N), rnn.Elman(3))
    w = {name: node.value for name, node in net.parameters.items()}
    inputs, targets = text()

    def last_loss(case: int, at: int, layer: int, nudge: np.ndarray) -> float:
        below, above = np.zeros(N), np.zeros(3)
        for t, x in enumerate(inputs[:, case]):
            below = np.tanh(w["layer0.W_xh"][x] + below @ w["layer0.W_hh"] + w["layer0.b_h"])
            below = below + nudge if (t, layer) == (at, 0) else below
            above = np.tanh(below @ w["layer1.W_xh"] + above @ w["layer1.W_hh"] + w["layer1.b_h"])
            above = above + nudge if (t, layer) == (at, 1) else above
        o = above @ w["output.W_ho"] + w["output.b_o"]
        return float(np.log(np.exp(o).sum()) - o[targets[-1, case]])

    found = rnn.gradient_by_distance(net, inputs, targets)
    for (layer, width), k in itertools.product(enumerate((N, 3)), range(T)):
        norms = []
        for case in range(B):
            at = case, T - 1 - k, layer
            g = [last_loss(*at, n) - last_loss(*at, -n) for n in 1e-6 * np.eye(width)]
            norms.append(np.linalg.norm(g) / 2e-6)
        assert found[f"layer{layer}.h"][k] == pytest.approx(np.mean(norms), rel=1e-5)


def test_only_targets_of_the_last_step_count() -> None:
    net = rnn.Network([rnn.Elman(3)], 2, 2, loss="squared")
    x = np.random.default_rng(0).normal(size=(5, 1, 2))
    missing = x.copy()
    missing[:-1] = np.nan
    found, same = (rnn.gradient_by_distance(net, x, t)["layer0.h"] for t in (x, missing))
    np.testing.assert_array_equal(found, same)
    for wrong, said in ((x[1:], r"must be \[5, 1, 2\]"), (x * np.nan, "all must be finite")):
        with pytest.raises(DataError, match=said):
            rnn.gradient_by_distance(net, x, wrong)


def test_lstm_gradients_persist_in_the_cell_states() -> None:
    """With open forget gates, ∂L/∂c does not fade. ∂L/∂h falls to 0 at once: only outputs read h."""
    net = network(rnn.LSTM(3))
    net.parameters["layer0.b_f"].value[...] = 30
    for name in ("W_hi", "W_hf", "W_ho", "W_hg"):
        net.parameters[f"layer0.{name}"].value[...] = 0
    found = rnn.gradient_by_distance(net, *text())
    # Steps below the last differ in what h at the same step had to say: nothing, as nothing reads it.
    np.testing.assert_allclose(found["layer0.c"][1:], found["layer0.c"][1], rtol=1e-9)
    np.testing.assert_allclose(found["layer0.h"][1:], 0, atol=1e-15)


def test_delayed_states_are_the_states_of_earlier_steps() -> None:
    net = network(rnn.NARX(3, order=2))
    found = rnn.gradient_by_distance(net, *text())
    np.testing.assert_allclose(found["layer0.h2"][:-1], found["layer0.h1"][1:], rtol=1e-12)
    assert found["layer0.h1"].all()


def test_any_cell() -> None:
    for name in ["LSTM", "GRU", "RHN", "HyperLSTM", "MRNN", "LayerNormLSTM", "NARX", "StackedMRNN"]:
        with named(name):
            found = rnn.gradient_by_distance(network(rnn.cells.ALL[name](4)), *text(), backend="numpy")
            assert all(norms.shape == (T,) and np.isfinite(norms).all() for norms in found.values())
            assert any(norms[-1] > 0 for norms in found.values())
    net = rnn.Network([rnn.GRU(3)], inputs=2, outputs=1, loss="squared", initial_state="learned")
    x = np.random.default_rng(0).normal(size=(T, B, 2))
    assert rnn.gradient_by_distance(net, x, np.zeros((T, B, 1), "float32"))["layer0.h"].shape == (T,)


def test_networks_without_these_norms_are_rejected() -> None:
    norms, (x, t) = rnn.gradient_by_distance, text()
    ctc, gru = rnn.Network([rnn.GRU(3)], inputs=2, outputs=3, loss="ctc"), network(rnn.GRU(2))
    for call, error, names in (
        (
            lambda: norms(network(rnn.Bidirectional(rnn.GRU(2))), x, t),
            UsageError,
            "reads later inputs",
        ),
        (lambda: norms(network(rnn.Dense(2)), x, t), UsageError, "has no states"),
        (
            lambda: norms(ctc, np.zeros((T, B, 2)), np.zeros((B, 2), int)),
            UsageError,
            "each time step must have a loss",
        ),
        (
            lambda: norms(gru, np.full((T, B), K), t),
            DataError,
            "gradient_by_distance: inputs must be symbols",
        ),
        (lambda: norms(gru, x, t[:3]), DataError, r"targets must be \[7, 3\], not \[3, 3\]"),
    ):
        with named(names), pytest.raises(error, match=names):
            call()


def test_weight_norms() -> None:
    net = network(rnn.LSTM(3))
    norms = rnn.weight_norms(net)
    assert list(norms) == list(net.parameters)
    assert np.sqrt(sum(n**2 for n in norms.values())) == pytest.approx(np.linalg.norm(net.theta))
    assert norms["layer0.W_hf"] == pytest.approx(np.linalg.norm(net.parameters["layer0.W_hf"].value))
