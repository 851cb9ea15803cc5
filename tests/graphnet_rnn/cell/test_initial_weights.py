"""Initial weights match their sources: distributions within five standard errors, constants exactly."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn import cells
from graphnet_rnn.cell import initializers
from graphnet_rnn.data import balanced_weights
from graphnet_rnn.errors import GraphnetError, UsageError
from tests.graphnet_rnn.cells.oracles import Array, oracle_of
from tests.tables import case

SYMBOLS = 40


def weights(cell: rnn.Cell, inputs: int = SYMBOLS, **network: Any) -> dict[str, Array]:
    """Initial weights of a network with this layer, by the cell's names, in float64."""
    net = rnn.Network([cell], inputs, inputs, dtype="float64", **network)
    nodes = {**net.parameters, **net.fixed}
    return {name.removeprefix("layer0."): node.value for name, node in nodes.items()}


def assert_normal(values: Array, scale: float) -> None:
    """N(0, scale²): mean, variance and fourth moment, which differs from a uniform distribution's."""
    z, n = values.ravel() / scale, values.size
    assert abs(z.mean()) < 5 / math.sqrt(n)
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / n)
    assert abs((z**4).mean() - 3) < 5 * math.sqrt(96 / n)  # of z⁴: variance 105 − 9


def test_krause_draws_all_weights_from_one_normal_distribution() -> None:
    for cell, scale in [
        (cells.LSTM1997(60), 0.1), (cells.LSTMKrause(60), 0.1),
        (cells.MultiplicativeLSTM(60, initial={"W_hm": initializers.normal(0.1)}), 0.1),
        (cells.MRNN(60), 0.05), (cells.StackedMRNN((60, 50, 40)), 0.05),
    ]:  # fmt: skip
        with case(cell, scale):
            drawn = {name: w for name, w in weights(cell).items() if not name.startswith("output.")}
            matrices = [w for w in drawn.values() if w.ndim == 2]
            for w in matrices:
                assert_normal(w, scale)
            assert not any(b.any() for b in drawn.values() if b.ndim < 2)
            values = np.concatenate([w.ravel() for w in matrices])
            assert len(np.unique(values)) == len(values)  # no two matrices are the same draw


def test_forget_gates_start_open() -> None:
    """Jozefowicz et al. 2015: by 1; Sutskever 2013, 2.8.3: "a large value (such as 5)"."""
    for cell, forget in [
        (cells.LSTMPeephole(7), 1.0),
        (cells.LayerNormLSTM(7), 1.0),
        (cells.LSTMSutskever(7), 5.0),
    ]:
        with case(cell, forget):
            biases = {name: w for name, w in weights(cell).items() if name.startswith("b_")}
            assert (biases.pop("b_f") == forget).all()
            assert not any(b.any() for b in biases.values())


def test_lstm_gate_biases_cover_all_time_scales() -> None:
    """f = σ(b_f) between σ(0) and σ(2), and i = 1 - f: Tallec & Ollivier 2018."""
    for cell in (cells.LSTM(200), cells.LSTMProjected(200, 9)):
        biases = {name: w for name, w in weights(cell).items() if name.startswith("b_")}
        forget, taken = biases.pop("b_f"), biases.pop("b_i")
        np.testing.assert_allclose(forget, (np.arange(200) + 0.5) / 100, rtol=1e-12)
        np.testing.assert_array_equal(taken, -forget)
        assert not any(b.any() for b in biases.values())


def output_bias(outputs: int, loss: str, initial: Any) -> Array:
    network = rnn.Network([rnn.GRU(3)], outputs, outputs, loss, dtype="float64", initial={"b_o": initial})
    return network.parameters["output.b_o"].value


def test_output_bias_predicts_frequencies() -> None:
    """softmax(b) = shares of the classes, counts + 1. σ(b) = shares of ones, counts + ½."""
    draw = np.random.default_rng(0)
    classes, bits = draw.integers(0, 5, (7, 9)), draw.random((40, 3)) * (draw.random((40, 3)) > 0.4)
    for missing in (False, True):
        w = 1.0 * (draw.random((40, 3)) > 0.2 * missing)
        bits[w == 0] = np.nan
        b = output_bias(6, "softmax", initializers.log_frequencies(classes))
        c = output_bias(3, "sigmoid", initializers.log_odds(bits, w if missing else None))
        shares = [(classes == k).sum() + 1 for k in range(6)]
        np.testing.assert_allclose(np.exp(b), np.array(shares) / 69, rtol=1e-12)
        ones, there = np.nansum(bits, axis=0), w.sum(axis=0)
        np.testing.assert_allclose(1 / (1 + np.exp(-c)), (ones + 0.5) / (there + 1), rtol=1e-12)
    balanced = output_bias(6, "softmax", initializers.log_frequencies(classes, balanced_weights(classes)))
    np.testing.assert_allclose(balanced[:5], balanced[0], rtol=1e-12)
    doubled = [0, 1, 1, 2, 2, 2], [0, 1, 1, 2, 2, 2, 1, 1]  # a class with weight 2 counts twice
    b, c = (np.exp(output_bias(3, "softmax", initializers.log_frequencies(*each))) for each in (
        (doubled[0], [1, 2, 2, 1, 1, 1]), (doubled[1],)))  # fmt: skip
    np.testing.assert_allclose((9 * b - 1) / 6, (11 * c - 1) / 8, rtol=1e-12)
    b = np.exp(output_bias(3, "softmax", initializers.log_frequencies([0, 1, 2, 2], [1, 1, 2, 0])))
    np.testing.assert_allclose(
        b, [1.75 / 6, 1.75 / 6, 2.5 / 6], rtol=1e-12
    )  # n is 3: the last target has no weight
    masked = np.ma.array([0, 1, 2], mask=[0, 0, 1])
    for make in (initializers.log_frequencies, initializers.log_odds):
        with pytest.raises(GraphnetError, match="whose mask would be lost"):
            make(masked)
        with pytest.raises(UsageError, match="targets must be an array"):
            make([[0, 1], [1]])
    with pytest.raises(UsageError, match=r"in \[0, 1\]"):
        output_bias(2, "sigmoid", initializers.log_odds(np.array([[2.0, 0.5]])))
    for wrong in ([0.5], [6], [-1], [None]):
        with case(wrong), pytest.raises(UsageError, match="log_frequencies: targets must be whole numbers"):
            output_bias(6, "softmax", initializers.log_frequencies(wrong))
    with pytest.raises(UsageError, match=r"log_odds: targets must be an array \(n, 4\) of numbers"):
        output_bias(4, "sigmoid", initializers.log_odds(bits))


def test_sutskever_lstm_is_sparse() -> None:
    """4.5: the nonzero entries are N(0, 0.01); as for his RNNs, 15 of them lead to each unit."""
    drawn = {name: w for name, w in weights(cells.LSTMSutskever(60)).items() if name.startswith("W_")}
    assert len(drawn) == 15
    for w in drawn.values():
        assert ((w != 0).sum(axis=0) == 15).all()
    assert_normal(np.concatenate([w[w != 0] for w in drawn.values()]), 0.1)


def test_hyper_lstm_starts_with_scales_of_a_tenth() -> None:
    """For any output of the small network (Ha, Dai & Le 2016, A.2.2). The dynamic biases start small."""
    w = weights(cells.HyperLSTM(30, hyper_units=20, embedding=4))
    a = np.random.default_rng(0).uniform(-1, 1, (5, 20))
    for k in "ifog":
        for s in "hx":
            scale = (a @ w[f"W_az{s}{k}"] + w[f"b_z{s}{k}"]) @ w[f"D_{s}{k}"]
            np.testing.assert_allclose(scale, 0.1, rtol=1e-12)
    assert_normal(np.concatenate([w[f"W_azb{k}"].ravel() for k in "ifog"]), 0.01)


def test_hyper_initially_scales_weights_by_nearly_1() -> None:
    """Weights are scaled by nearly, but not exactly, 1, so that the small network can learn."""
    for rank in [None, 1, 3]:
        with case(rank):
            w = weights(cells.Hyper(rnn.Elman(12), rnn.Elman(8), rank=rank))
            a = np.random.default_rng(0).uniform(-1, 1, 8)
            for name in ("xh", "hh"):
                if rank is None:
                    scale = a @ w[f"W_ap_{name}"] + w[f"b_p_{name}"]
                else:
                    u, v = ((a @ w[f"W_a{k}_{name}"] + w[f"b_{k}_{name}"]).reshape(rank, -1) for k in "uv")
                    scale = u.T @ v
                assert 0 < np.abs(scale - 1).max() < 0.2


FREQUENCIES = np.array([9.0, 4, 3, 2, 1, 1, 0.5, 0.25])
UNITS = 30
GRAPHS = [cells.GraphRNN, cells.GNN, cells.GLNN, cells.GraphLSTM]


def test_random_edges_are_distinct_and_include_loops() -> None:
    """Ollivier 2013, 2: "d distinct edges from each unit i, always including a loop"; no more than units. Over 400
    seeds each edge that is no loop appears as often as any other, to five standard errors."""
    units, draws = 8, 400
    for make, edges in itertools.product(GRAPHS, [1, 3, 20]):
        with case(make, edges):
            for seed in range(10):
                cell = make(units, edges=edges, graph_seed=seed)
                pairs = list(zip(cell.sources.tolist(), cell.targets.tolist(), strict=True))
                assert len(set(pairs)) == len(pairs)
                assert {(i, i) for i in range(units)} <= set(pairs)
                assert (np.bincount(cell.sources, minlength=units) == min(edges, units)).all()
    counts = np.zeros((units, units))
    for seed in range(draws):
        cell = cells.GLNN(units, edges=3, graph_seed=seed)
        np.add.at(counts, (cell.sources, cell.targets), 1)
    p = (3 - 1) / (units - 1)
    others = counts[~np.eye(units, dtype=bool)] / draws
    assert np.abs(others - p).max() < 5 * math.sqrt(p * (1 - p) / draws)


def check_centred_reading(reading: Array, scale: Array, frequencies: Array) -> None:
    """reading_yj = scale_j (u_jy − Σ ν_y' u_jy'), u ~ U(0, 1), with mean 0 over the data."""
    share = frequencies / frequencies.sum()
    np.testing.assert_allclose(share @ reading, 0, atol=1e-15)
    u = reading / scale  # but for a shift of each unit
    assert np.ptp(u, axis=0).max() <= 1
    # E Var(u over y) = 1/12; the mean over the units has a standard error below that of as many uniform pairs
    variance = u.var(axis=0, ddof=1)
    assert abs(variance.mean() - 1 / 12) < 5 * variance.std() / math.sqrt(len(variance))
    assert len(np.unique(np.round(u[1:] - u[:1], 12))) == u[1:].size  # each unit draws its own


def test_graph_cells_start_as_integrators() -> None:
    """GraphRNN, (69): τ_ii = 1 − 1/i, ρ_jy = ½ (u_jy − Σ ν u), all else 0; a GNN is given the same for each symbol.
    GLNN, (31)–(33): τ_ii = −½, τ_0jy = β_j + μ_j/4 (u_jy − Σ ν u), μ_j = 1/(j + 1), β_j = −√(½ (½ − μ_j))."""
    unit = np.arange(1, 301)
    mu = 1 / (unit + 1)
    beta = -np.sqrt(0.5 * (0.5 - mu))
    for make, frequencies in itertools.product([cells.GraphRNN, cells.GNN, cells.GLNN], [FREQUENCIES, None]):
        with case(make, frequencies):
            cell = make(300, edges=4, frequencies=frequencies)
            w = weights(cell, len(FREQUENCIES))
            nu = FREQUENCIES if frequencies is not None else np.ones(len(FREQUENCIES))
            loops = cell.sources == cell.targets
            assert not w["tau"][..., ~loops].any()
            for tau in np.atleast_2d(w["tau"]):
                expected = -0.5 if make is cells.GLNN else 1 - 1 / unit[cell.sources[loops]]
                np.testing.assert_allclose(tau[loops], expected, rtol=1e-15)
            if make is cells.GLNN:
                check_centred_reading(w["tau_0"] - beta, mu / 4, nu)
            else:
                check_centred_reading(w["rho" if make is cells.GraphRNN else "tau_0"], np.array(0.5), nu)
            assert make is not cells.GraphRNN or not w["tau_0"].any()


def test_glnn_starts_at_its_fixed_point() -> None:
    """The learned V⁰ is tanh⁻¹(β / α): V changes only by reading (71), and α s'(V⁰) = μ (75)."""
    cell = cells.GLNN(UNITS, edges=3, frequencies=FREQUENCIES)
    w = weights(cell, len(FREQUENCIES), initial_state="learned")
    mu = 1 / (np.arange(1, UNITS + 1) + 1)
    v = w["initial.V0"]
    np.testing.assert_allclose(np.tanh(v), -np.sqrt(0.5 * (0.5 - mu)) / 0.5, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(0.5 * (1 - np.tanh(v) ** 2), mu, rtol=1e-12)
    _, moved = oracle_of(cell, len(FREQUENCIES)).step(w, FREQUENCIES[None] / FREQUENCIES.sum(), v[None])
    np.testing.assert_allclose(moved[0], v, rtol=1e-12, atol=1e-14)


def test_graph_lstm_starts_uniform() -> None:
    """Ollivier 2013, 4: all weights in [−0.1, 0.1]."""
    w = weights(cells.GraphLSTM(60, edges=4), len(FREQUENCIES))
    for name, value in w.items():
        if not name.startswith("output."):
            assert np.abs(value).max() <= 0.1
            assert value.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.25)


def test_sigmoid_and_tanh_start_as_equivalent_nets() -> None:
    """Ollivier 2013, 1.2.1: tanh and σ are related by an affine transform of V and a; so are the nets at first."""
    for make in [cells.GraphRNN, cells.GNN, cells.GLNN]:
        with case(make):
            x, found = np.random.default_rng(0).integers(0, len(FREQUENCIES), (25, 3)), {}
            for activation in ("tanh", "sigmoid"):
                cell = make(UNITS, edges=3, frequencies=FREQUENCIES, activation=activation)
                n = len(FREQUENCIES)
                net = rnn.Network([cell], n, 2, initial_state="learned", dtype="float64", seed=3)
                u = net.unroll(25, 3, initial="learned")
                found[activation] = gn.compile([*u.hidden, u.initial[0]], [u.inputs])(x)
            ours, theirs = found["sigmoid"], found["tanh"]
            np.testing.assert_allclose(ours[0], (1 + theirs[0]) / 2, rtol=1e-12, atol=1e-14)
            assert np.ptp(theirs[0], axis=0).max() > 0.05
            if make is cells.GLNN:  # whose state is V
                np.testing.assert_allclose(ours[1], 2 * theirs[1], rtol=1e-13)


def test_linear_units_start_as_integrators() -> None:
    """(74): an input from n steps ago has the weight (1 − μ_j)ⁿ, μ_j = 1/(j + 1), or 1/j in a GraphRNN."""
    for make, reading, start in [(cells.GraphRNN, "rho", "a0"), (cells.GLNN, "tau_0", "V0")]:
        with case(make):
            cell = make(UNITS, edges=3, frequencies=FREQUENCIES, activation="linear")
            w = weights(cell, len(FREQUENCIES), initial_state="learned")
            mu = 1 / (np.arange(1, UNITS + 1) + (make is cells.GLNN))
            step, state = oracle_of(cell, len(FREQUENCIES)).step, w[f"initial.{start}"][None]
            assert not state.any()
            expected = np.zeros(UNITS)
            for symbol in (3, 0, 5, 1):
                state = step(w, np.eye(len(FREQUENCIES))[symbol][None], state)[1]
                expected = (1 - mu) * expected + w[reading][symbol]
                np.testing.assert_allclose(state[0], expected, rtol=1e-12, atol=1e-15)


def test_reservoir() -> None:
    for units, radius, density, scale in [(100, 0.95, 0.1, 1.0), (60, 1.2, 0.25, 0.3), (40, 0.5, 1.0, 2.0)]:
        with case(units, radius):
            cell = cells.EchoState(units, radius=radius, density=density, input_scale=scale)
            net = rnn.Network([cell], SYMBOLS, 3, dtype="float64")
            assert set(net.parameters) == {"output.W_ho", "output.b_o"}  # all that training can reach
            w = {name.removeprefix("layer0."): node.value for name, node in net.fixed.items()}
            assert np.abs(np.linalg.eigvals(w["W_hh"])).max() == pytest.approx(radius, rel=1e-10)
            assert ((w["W_hh"] != 0).sum(axis=0) == round(density * units)).all()
            entries = w["W_hh"][w["W_hh"] != 0]
            assert_normal(entries, entries.std())
            for values in (w["W_xh"], w["b_h"]):  # U(-scale, scale): all within, mean and variance
                z, n = values.ravel() / scale, values.size
                assert np.abs(z).max() <= 1
                assert abs(z.mean()) < 5 * math.sqrt(1 / 3 / n)
                assert abs((z**2).mean() - 1 / 3) < 5 * math.sqrt(4 / 45 / n)  # of z²: variance 1/5 − 1/9


REFUSED = {
    "no radius": (lambda: initializers.reservoir(radius=0.0), "radius .*not 0.0"),
    "no density": (lambda: initializers.reservoir(density=0.0), r"density must be in \(0, 1\], not 0.0"),
    "no connections": (lambda: initializers.reservoir(connections=0), "connections .*>= 1, not 0"),
    "no square": (
        lambda: initializers.reservoir()(None, (2, 5)),
        r"W must be a square matrix.*not of shape \[2, 5\]",
    ),
    "nothing kept": (lambda: initializers.thinned(initializers.normal(0.1), 0.0), "kept .*not 0.0"),
}


def test_invalid_initial_weights_are_rejected() -> None:
    for name, (make, content) in REFUSED.items():
        with case(name), pytest.raises(rnn.errors.UsageError, match=content):
            make()


def test_thinned() -> None:
    """Krause 2015, 4.2: each weight of W_hh is 0 with probability 0.9, else N(0, 0.1²), independently."""
    cell = rnn.Elman(200, initial={"W_hh": initializers.thinned(initializers.normal(0.1), 0.1)})
    w = weights(cell)["W_hh"]
    kept, n = w != 0, w.size
    assert abs(kept.mean() - 0.1) < 5 * math.sqrt(0.09 / n)
    assert_normal(w[kept], 0.1)
    # By chance, not so many for each unit: the number of a column is binomial.
    assert abs(kept.sum(axis=0).var() / (200 * 0.09) - 1) < 5 * math.sqrt(2 / 200)
    assert initializers.thinned(initializers.normal(0.1), 1.0)(np.random.default_rng(0), (30, 40)).all()


def test_echo_state_weights() -> None:
    """Sutskever 2013, 7.4.1."""
    for name, scale in [("addition", 0.02), ("multiplication", 0.02), ("memory-5", 0.3), ("memory-20", 0.3)]:
        with case(name, scale):
            task = rnn.tasks.TASKS[name](30)
            network = rnn.tasks.elman(task, 120, initial=rnn.tasks.echo_state_weights(task))
            w = {key.split(".")[1]: node.value.astype(float) for key, node in network.parameters.items()}
            assert np.abs(np.linalg.eigvals(w["W_hh"])).max() == pytest.approx(1.2, rel=1e-3)  # float32
            assert ((w["W_hh"] != 0).sum(axis=0) == 15).all()
            assert_normal(w["W_xh"], scale)  # few inputs: each unit reads all of them
            assert ((w["W_ho"] != 0).sum(axis=0) == 15).all()
            assert not any(w[bias].any() for bias in ("b_h", "b_o"))


def test_autoencoders_start_sparse() -> None:
    """Sutskever 2013, 7.3.1: 15 connections ~ N(0, 1); with tanh units × 0.25, and biases of -0.5."""
    for activation in ["sigmoid", "tanh"]:
        network = rnn.tasks.autoencoder((60, 50, 40, 8), activation)
        drawn: dict[bool, list[Array]] = {False: [], True: []}
        for key, node in network.parameters.items():
            layer = key.partition(".")[0]
            shrunk = activation == "tanh" and layer in ("layer0", "layer1", "layer3", "layer4")
            with case(activation, key):
                if node.ndim == 1:
                    assert (node.value == (-0.5 if shrunk else 0)).all()
                else:
                    assert ((node.value != 0).sum(axis=0) == min(15, len(node.value))).all()
                    drawn[shrunk].append(node.value[node.value != 0].astype(float))
        assert_normal(np.concatenate(drawn[False]), 1.0)
        if activation == "tanh":
            assert_normal(np.concatenate(drawn[True]), 0.25)
