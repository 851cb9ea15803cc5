"""Initial weights are what the sources say: distributions to five standard errors, the rest exactly."""

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
from tests.graphnet_rnn.cells.oracles import Array, oracle_of
from tests.tables import case

SYMBOLS = 40


def weights(cell: rnn.Cell, inputs: int = SYMBOLS, **network: Any) -> dict[str, Array]:
    """Of a network of this one layer, by the cell's names for them; in float64."""
    net = rnn.Network([cell], inputs, inputs, dtype="float64", **network)
    nodes = {**net.parameters, **net.fixed}
    return {name.removeprefix("layer0."): node.value for name, node in nodes.items()}


def assert_normal(values: Array, scale: float) -> None:
    """N(0, scale²): mean, variance, and the fourth moment, which tells it from a uniform distribution."""
    z, n = values.ravel() / scale, values.size
    assert abs(z.mean()) < 5 / math.sqrt(n)
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / n)
    assert abs((z**4).mean() - 3) < 5 * math.sqrt(96 / n)  # of z⁴: variance 105 − 9


def assert_uniform(values: Array, low: float, high: float) -> None:
    """U(low, high): all within, mean and variance."""
    assert values.min() >= low
    assert values.max() <= high
    z, n = (values.ravel() - (low + high) / 2) / (high - low), values.size
    assert abs(z.mean()) < 5 * math.sqrt(1 / 12 / n)
    assert abs((z**2).mean() - 1 / 12) < 5 * math.sqrt(1 / 180 / n)  # of z²: variance 1/80 − 1/144


# ---- Krause 2015, 4.2–4.5 ----------------------------------------------------------------------------------


def test_krause_draws_all_weights_from_one_normal_distribution() -> None:
    cases = [
        (cells.LSTM1997(60), 0.1),
        (cells.LSTMKrause(60), 0.1),
        (cells.MultiplicativeLSTM(60), 0.1),
        (cells.MRNN(60), 0.05),
        (cells.StackedMRNN((60, 50, 40)), 0.05),
    ]
    for cell, scale in cases:
        with case(cell, scale):
            drawn = {name: w for name, w in weights(cell).items() if not name.startswith("output.")}
            matrices = {name: w for name, w in drawn.items() if w.ndim == 2}
            for w in matrices.values():
                assert_normal(w, scale)
            assert all(
                not w.any() for name, w in drawn.items() if name not in matrices
            )  # biases, where there are any
            values = np.concatenate([w.ravel() for w in matrices.values()])
            assert len(np.unique(values)) == len(values)  # no two matrices are the same draw


# ---- LSTMs -------------------------------------------------------------------------------------------------


def test_forget_gates_start_open() -> None:
    cases = [
        (cells.LSTM(7), 1.0),  # Gers et al. 2000 want it open; 1 is Jozefowicz et al. 2015
        (cells.LayerNormLSTM(7), 1.0),
        (cells.LSTMSutskever(7), 5.0),  # Sutskever 2013, 2.8.3: "a large value (such as 5)"
    ]
    for cell, forget in cases:
        with case(cell, forget):
            biases = {name: w for name, w in weights(cell).items() if name.startswith("b_")}
            assert (biases.pop("b_f") == forget).all()
            assert all(not b.any() for b in biases.values())


def test_sutskever_lstm_is_sparse() -> None:
    """4.5: the nonzero entries are N(0, 0.01); as for his RNNs, 15 of them lead to each unit."""
    drawn = {name: w for name, w in weights(cells.LSTMSutskever(60)).items() if name.startswith("W_")}
    assert len(drawn) == 15
    for w in drawn.values():
        assert ((w != 0).sum(axis=0) == 15).all()
    assert_normal(np.concatenate([w[w != 0] for w in drawn.values()]), 0.1)


def test_hyper_lstm_starts_with_scales_of_a_tenth() -> None:
    """Whatever the small net says: Ha, Dai & Le 2016, A.2.2; the dynamic biases start small."""
    w = weights(cells.HyperLSTM(30, hyper_units=20, embedding=4))
    a = np.random.default_rng(0).uniform(-1, 1, (5, 20))
    for k in "ifog":
        for s in "hx":
            scale = (a @ w[f"W_az{s}{k}"] + w[f"b_z{s}{k}"]) @ w[f"D_{s}{k}"]
            np.testing.assert_allclose(scale, 0.1, rtol=1e-12)
    assert_normal(np.concatenate([w[f"W_azb{k}"].ravel() for k in "ifog"]), 0.01)


def test_hyper_starts_almost_as_the_cell_itself() -> None:
    """Every weight is scaled by nearly 1, and never by exactly that: else the small net would learn nothing."""
    for rank in [None, 1, 3]:
        with case(rank):
            cell = cells.Hyper(rnn.Elman(12), rnn.Elman(8), rank=rank)
            w = weights(cell)
            a = np.random.default_rng(0).uniform(-1, 1, 8)
            for name in ("xh", "hh"):
                if rank is None:
                    scale = a @ w[f"W_ap_{name}"] + w[f"b_p_{name}"]
                else:
                    u, v = ((a @ w[f"W_a{k}_{name}"] + w[f"b_{k}_{name}"]).reshape(rank, -1) for k in "uv")
                    scale = u.T @ v
                assert 0 < np.abs(scale - 1).max() < 0.2


# ---- sparse random graphs: Ollivier 2013 -------------------------------------------------------------------

FREQUENCIES = np.array([9.0, 4, 3, 2, 1, 1, 0.5, 0.25])
UNITS = 30
GRAPHS = [cells.GraphRNN, cells.GNN, cells.GLNN, cells.GraphLSTM]


def test_each_unit_sends_distinct_edges_and_always_one_to_itself() -> None:
    """Ollivier 2013, 2: "d distinct edges from each unit i, always including a loop"; no more than units."""
    for make, edges in itertools.product(GRAPHS, [1, 3, 7, 12, 20]):
        with case(make, edges):
            units = 12
            for seed in range(20):
                cell = make(units, edges=edges, graph_seed=seed)
                pairs = list(zip(cell.sources.tolist(), cell.targets.tolist(), strict=True))
                assert len(set(pairs)) == len(pairs) == units * min(edges, units)
                assert all((i, i) in pairs for i in range(units))
                assert (np.bincount(cell.sources, minlength=units) == min(edges, units)).all()


def test_the_graph_is_random() -> None:
    """Over 400 seeds each edge that is no loop appears as often as any other, to five standard errors."""
    units, edges, draws = 8, 3, 400
    counts = np.zeros((units, units))
    for seed in range(draws):
        cell = cells.GLNN(units, edges=edges, graph_seed=seed)
        np.add.at(counts, (cell.sources, cell.targets), 1)
    p = (edges - 1) / (units - 1)
    others = counts[~np.eye(units, dtype=bool)] / draws
    assert np.abs(others - p).max() < 5 * math.sqrt(p * (1 - p) / draws)
    again = cells.GLNN(units, edges=edges, graph_seed=7)
    np.testing.assert_array_equal(again.targets, cells.GLNN(units, edges=edges, graph_seed=7).targets)


def check_centred_reading(reading: Array, scale: Array, frequencies: Array) -> None:
    """reading_yj = scale_j (u_jy − Σ ν_y' u_jy'), u ~ U(0, 1): 0 in the mean over the data, and so spread."""
    share = frequencies / frequencies.sum()
    np.testing.assert_allclose(share @ reading, 0, atol=1e-15)
    u = reading / scale  # but for a shift of each unit
    assert np.ptp(u, axis=0).max() <= 1
    # E Var(u over y) = 1/12; the mean over the units has a standard error below that of as many uniform pairs
    variance = u.var(axis=0, ddof=1)
    assert abs(variance.mean() - 1 / 12) < 5 * variance.std() / math.sqrt(len(variance))
    assert len(np.unique(np.round(u[1:] - u[:1], 12))) == u[1:].size  # each unit draws its own


def test_graph_rnn_starts_as_integrators() -> None:
    """(69): τ_ii = 1 − 1/i, ρ_jy = ½ (u_jy − Σ ν u), all else 0; a GNN is given the same for each symbol."""
    for make, frequencies in itertools.product([cells.GraphRNN, cells.GNN], [FREQUENCIES, None]):
        with case(make, frequencies):
            cell = make(300, edges=4, frequencies=frequencies)
            w = weights(cell, len(FREQUENCIES))
            unit = np.arange(1, 301)
            loops = cell.sources == cell.targets
            for tau in np.atleast_2d(w["tau"]):
                np.testing.assert_allclose(tau[loops], 1 - 1 / unit[cell.sources[loops]], rtol=1e-15)
                assert not tau[~loops].any()
            if make is cells.GraphRNN:
                assert not w["tau_0"].any()
            reading = w["rho"] if make is cells.GraphRNN else w["tau_0"]
            check_centred_reading(
                reading, np.array(0.5), FREQUENCIES if frequencies is not None else np.ones(len(FREQUENCIES))
            )


def test_glnn_starts_as_leaky_integrators() -> None:
    """(31)–(33): τ_ii = −½, τ_0jy = β_j + μ_j/4 (u_jy − Σ ν u), μ_j = 1/(j + 1), β_j = −√(½ (½ − μ_j))."""
    for frequencies in [FREQUENCIES, None]:
        with case(frequencies):
            cell = cells.GLNN(300, edges=4, frequencies=frequencies)
            w = weights(cell, len(FREQUENCIES))
            mu = 1 / (np.arange(1, 301) + 1)
            beta = -np.sqrt(0.5 * (0.5 - mu))
            loops = cell.sources == cell.targets
            assert (w["tau"][:, loops] == -0.5).all()
            assert not w["tau"][:, ~loops].any()
            nu = FREQUENCIES if frequencies is not None else np.ones(len(FREQUENCIES))
            check_centred_reading(w["tau_0"] - beta, mu / 4, nu)


def test_glnn_starts_at_its_fixed_point() -> None:
    """V⁰ = tanh⁻¹(β / α), where learned: there V does not move (71) but for the reading, and α s'(V⁰) = μ (75)."""
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
    own = {name: value for name, value in w.items() if not name.startswith("output.")}
    for value in own.values():
        assert np.abs(value).max() <= 0.1
        assert value.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.25)
    assert own["tau_i"].shape == (240,)


def test_sigmoid_starts_as_the_same_net() -> None:
    """Ollivier 2013, 1.2.1: tanh and σ are related by an affine transform of V and a; so are the nets at first."""
    for make in [cells.GraphRNN, cells.GNN, cells.GLNN]:
        with case(make):
            x, found = np.random.default_rng(0).integers(0, len(FREQUENCIES), (25, 3)), {}
            for activation in ("tanh", "sigmoid"):
                cell = make(UNITS, edges=3, frequencies=FREQUENCIES, activation=activation)
                net = rnn.Network(
                    [cell], len(FREQUENCIES), 2, initial_state="learned", dtype="float64", seed=3
                )
                u = net.unroll(25, 3, initial="learned")
                found[activation] = gn.compile([*u.hidden, u.initial[0]], [u.inputs])(x)
            ours, theirs = found["sigmoid"], found["tanh"]
            np.testing.assert_allclose(ours[0], (1 + theirs[0]) / 2, rtol=1e-12, atol=1e-14)
            assert np.ptp(theirs[0], axis=0).max() > 0.05
            if make is cells.GLNN:  # whose state is V
                np.testing.assert_allclose(ours[1], 2 * theirs[1], rtol=1e-13)


def test_linear_units_start_as_integrators() -> None:
    """(74): what was read n steps ago counts (1 − μ_j)ⁿ, μ_j = 1/(j + 1), or 1/j in a GraphRNN."""
    for make in [cells.GraphRNN, cells.GLNN]:
        with case(make):
            cell = make(UNITS, edges=3, frequencies=FREQUENCIES, activation="linear")
            w = weights(cell, len(FREQUENCIES), initial_state="learned")
            mu = 1 / (np.arange(1, UNITS + 1) + (make is cells.GLNN))
            step, reading = (
                oracle_of(cell, len(FREQUENCIES)).step,
                w["rho" if make is cells.GraphRNN else "tau_0"],
            )
            state = w["initial.V0" if make is cells.GLNN else "initial.a0"][None]
            assert not state.any()
            expected = np.zeros(UNITS)
            for symbol in (3, 0, 5, 1):
                state = step(w, np.eye(len(FREQUENCIES))[symbol][None], state)[1]
                expected = (1 - mu) * expected + reading[symbol]
                np.testing.assert_allclose(state[0], expected, rtol=1e-12, atol=1e-15)


def test_writing_weights_of_eq_30_are_asked_of_the_network() -> None:
    """w_0y = log ν_y, w_iy = 0: at first, symbols are predicted by their frequencies."""
    share = FREQUENCIES / FREQUENCIES.sum()
    net = rnn.Network(
        [cells.GLNN(UNITS, edges=3, frequencies=FREQUENCIES)],
        len(FREQUENCIES),
        len(FREQUENCIES),
        initial={"W_ho": initializers.zeros(), "b_o": initializers.array(np.log(share))},
        dtype="float64",
    )
    u = net.unroll(time=3, batch=1, initial="zero")
    (losses,) = gn.compile([u.losses], [u.inputs, u.targets])(
        np.array([[0], [5], [2]]), np.array([[1], [0], [7]])
    )
    np.testing.assert_allclose(losses[:, 0], -np.log(share[[1, 0, 7]]), rtol=1e-14)


# ---- echo-state networks: Jaeger & Haas 2004; Sutskever 2013, 2.8.4 ----------------------------------------


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
            assert_uniform(w["W_xh"], -scale, scale)
            assert_uniform(w["b_h"], -scale, scale)


def test_reservoir_of_so_many_connections() -> None:
    """Sutskever 2013, 7.4.1: 15 incoming weights to each unit from a unit Gaussian, the largest |eigenvalue| 1.2."""
    for radius in [1.1, 1.2]:
        with case(radius):
            w = initializers.reservoir(radius, connections=15)(np.random.default_rng(3), (100, 100))
            assert ((w != 0).sum(axis=0) == 15).all()
            assert np.abs(np.linalg.eigvals(w)).max() == pytest.approx(radius, rel=1e-10)
            entries = w[w != 0]
            assert_normal(entries, entries.std())
            # A circular law: before it is rescaled the radius is near √15, so the weights are near N(0, (1.2 / √15)²).
            assert entries.std() == pytest.approx(radius / math.sqrt(15), rel=0.15)
            same = initializers.reservoir(radius, density=0.15)(np.random.default_rng(3), (100, 100))
            np.testing.assert_array_equal(w, same)


def test_reservoirs_that_cannot_be() -> None:
    for arguments, content in (
        ({"radius": 0.0}, "radius must be a finite number > 0, not 0.0"),
        ({"radius": math.inf}, "radius must be a finite number > 0, not inf"),
        ({"density": 0.0}, r"density must be in \(0, 1\], not 0.0"),
        ({"connections": 0}, "reservoir: connections must be a whole number >= 1, not 0"),
        ({"connections": 1.5}, "reservoir: connections must be a whole number >= 1, not 1.5"),
    ):
        with pytest.raises(rnn.errors.UsageError, match=content):
            initializers.reservoir(**arguments)  # type: ignore[arg-type]
    with pytest.raises(rnn.errors.UsageError, match=r"W must be square.*not \[2, 5\]"):
        initializers.reservoir()(np.random.default_rng(0), (2, 5))


def test_thinned() -> None:
    """Krause 2015, 4.2: each weight of W_hh is 0 with probability 0.9, else N(0, 0.1²), independently."""
    cell = rnn.Elman(200, initial={"W_hh": initializers.thinned(initializers.normal(0.1), 0.1)})
    w = weights(cell)["W_hh"]
    kept, n = w != 0, w.size
    assert abs(kept.mean() - 0.1) < 5 * math.sqrt(0.09 / n)
    assert_normal(w[kept], 0.1)
    # By chance, not so many for each unit: the number of a column is binomial.
    of_units = kept.sum(axis=0)
    variance = 200 * 0.09
    assert abs(of_units.var() / variance - 1) < 5 * math.sqrt(2 / 200)
    dense = initializers.thinned(initializers.normal(0.1), 1.0)(np.random.default_rng(0), (30, 40))
    assert dense.all()
    for kept_share in (0.0, 1.1, math.nan):
        with pytest.raises(rnn.errors.UsageError, match=r"thinned: kept must be in \(0, 1\]"):
            initializers.thinned(initializers.normal(0.1), kept_share)


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
            assert not w["b_h"].any()
            assert not w["b_o"].any()


def test_autoencoders_start_sparse() -> None:
    """Sutskever 2013, 7.3.1: 15 connections ~ N(0, 1); with tanh units × 0.25, and biases of -0.5."""
    for activation in ["sigmoid", "tanh"]:
        with case(activation):
            network = rnn.tasks.autoencoder((60, 50, 40, 8), activation)
            layers: dict[str, dict[str, Array]] = {}
            for key, node in network.parameters.items():
                layer, name = key.split(".")
                layers.setdefault(layer, {})[name] = node.value
            assert len(layers) == 6
            tanh = {f"layer{l}" for l in (0, 1, 3, 4)} if activation == "tanh" else set()
            for shrunk in (True, False):
                drawn = []
                for layer, arrays in layers.items():
                    if (layer in tanh) == shrunk:
                        matrix, bias = (next(a for a in arrays.values() if a.ndim == d) for d in (2, 1))
                        assert ((matrix != 0).sum(axis=0) == min(15, len(matrix))).all()
                        assert (bias == (-0.5 if shrunk else 0)).all()
                        drawn.append(matrix[matrix != 0])
                if drawn:
                    assert_normal(np.concatenate(drawn).astype(float), 0.25 if shrunk else 1.0)
