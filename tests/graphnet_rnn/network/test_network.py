"""Networks: parameters, parameter vector, settings, unrolling and scopes."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet_rnn.cell.initializers import constant, glorot, orthogonal, sparse
from graphnet_rnn.errors import GraphnetError, UsageError
from graphnet_rnn.network.losses import LOSSES
from tests.tables import case


def net(*cells: rnn.Cell, **settings: Any) -> rnn.Network:
    """A small network, of an Elman layer if none is given."""
    return rnn.Network(cells or [rnn.Elman(4)], **{"inputs": 5, "outputs": 3, **settings})


def test_names_and_order() -> None:
    network = net(rnn.Elman(4), rnn.LSTM(2), initial_state="learned")
    names = ["layer0.W_xh", "layer0.W_hh", "layer0.b_h"]
    names += [f"layer1.{kind}{gate}" for gate in "ifog" for kind in ("W_x", "W_h", "b_")]
    names += ["output.W_ho", "output.b_o", "initial.h0", "initial.h1", "initial.c1"]
    assert list(network.parameters) == names
    assert [node.name for node in network.parameters.values()] == names


def test_theta_shares_memory_both_ways() -> None:
    network = net()
    node, before = network.parameters["layer0.W_hh"], network.theta
    assert np.shares_memory(before, node.value)
    before[:] = np.arange(before.size)
    assert node.value.ravel().tolist() == list(range(5 * 4, 5 * 4 + 16))
    node.value[0, 0] = -1
    assert network.theta[20] == -1
    vector = np.ones(before.size)
    network.theta = vector  # a copy into the same memory
    vector[:] = 2
    assert network.theta is before
    assert (before == 1).all()
    with pytest.raises(UsageError, match=rf"theta has {before.size} numbers; an array of shape \[3\]"):
        network.theta = np.ones(3)


def test_seeds() -> None:
    a, b, c = (net(rnn.LSTM(4), seed=seed).theta for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_additional_weights_and_layers_do_not_change_others() -> None:
    pairs = (rnn.LSTM(4),), (rnn.LSTMPeephole(4),), (rnn.LSTM(4), rnn.LSTM(4))
    plain, peephole, two = (net(*cells).parameters for cells in pairs)
    for name in ("layer0.W_xi", "layer0.W_hi"):
        for other in (peephole, two):
            assert np.array_equal(plain[name].value, other[name].value)
    assert not np.array_equal(two["layer0.W_hi"].value, two["layer1.W_hi"].value)


def test_initializers_by_pattern() -> None:
    """The last matching pattern wins; other weights keep the initializers of the cell."""
    cell = rnn.LSTM(4, initial={"W_h*": orthogonal(), "W_hg": constant(7), "b_f": constant(3)})
    values = {name: node.value for name, node in net(cell, initial={"b_o": constant(2)}).parameters.items()}
    assert np.allclose(values["layer0.W_hi"].T @ values["layer0.W_hi"], np.eye(4), atol=1e-6)
    assert (values["layer0.W_hg"] == 7).all()
    assert (values["layer0.b_f"] == 3).all()
    assert (values["output.b_o"] == 2).all()
    assert np.array_equal(values["layer0.W_xi"], net(rnn.LSTM(4)).parameters["layer0.W_xi"].value)


def test_orthogonal_for_wide_and_tall_matrices() -> None:
    for shape in ((6, 3), (3, 6)):
        w = orthogonal(2.0)(np.random.default_rng(0), shape)
        assert np.allclose(w.T @ w if shape[0] > shape[1] else w @ w.T, 4 * np.eye(3))


def test_glorot_stays_within_its_limit_and_reaches_it() -> None:
    w = glorot()(np.random.default_rng(0), (30, 70))
    limit = np.sqrt(6 / 100)
    assert 0.99 * limit < np.abs(w).max() <= limit


def test_sparse_gives_each_unit_the_same_number_of_connections() -> None:
    w = sparse(4, 1.0)(np.random.default_rng(0), (20, 7))
    assert (np.count_nonzero(w, axis=0) == 4).all()
    assert (np.count_nonzero(sparse(15)(np.random.default_rng(0), (3, 2)), axis=0) == 3).all()


def test_first_states_of_learned_and_zero_initial_states() -> None:
    network = net(rnn.LSTM(4), initial_state="learned")
    network.parameters["initial.h0"].value[:] = 0.5
    h, c = network.first_states(3)
    assert h.shape == c.shape == (3, 4)
    assert (h == 0.5).all()
    assert not c.any()
    assert not np.shares_memory(h, network.theta)
    assert not any(state.any() for state in net(rnn.LSTM(4)).first_states(3))
    assert not any(state.any() for state in network.zero_states(3))


def test_invalid_settings_are_rejected() -> None:
    for settings, content in (
        ({"inputs": 0}, "inputs must be a whole number >= 1, not 0"),
        ({"outputs": 2.5}, "outputs must be a whole number >= 0, not 2.5"),
        ({"loss": "hinge"}, "loss must be 'softmax' or 'sigmoid' or 'squared' or 'ctc', not 'hinge'"),
        ({"reads": "tea leaves"}, "reads must be 'symbols' or 'vectors', not 'tea leaves'"),
        ({"initial_state": "given"}, "initial_state must be 'zero' or 'learned', not 'given'"),
        ({"dropout": 1.0}, "dropout, the share that is zeroed, must be in [0, 1), not 1.0"),
        ({"seed": -1}, "seed must be a whole number >= 0, not -1"),
        ({"dtype": "int64"}, "dtype must be float32 or float64, not int64"),
        ({"layers": []}, "layers is empty: give at least one cell"),
        ({"layers": [rnn.LSTM]}, "layers must hold cells, e.g. LSTM(128)"),
    ):
        with case(settings), pytest.raises(UsageError, match=re.escape(content)):
            rnn.Network(**{"layers": [rnn.Elman(4)], "inputs": 5, "outputs": 3, **settings})
    for arguments, content in (
        ({"time": 0}, "unroll: time must be a whole number >= 1, not 0"),
        ({"batch": -1}, "unroll: batch must be a whole number >= 1, not -1"),
        ({"unscored": 3}, "unroll: unscored must be in 0 ... 2, not 3"),
        ({"initial": "warm"}, "unroll: initial must be 'given', 'zero', 'learned'"),
        ({"initial": "learned"}, "for a network made with initial_state='learned'"),
    ):
        with case(arguments), pytest.raises(UsageError, match=re.escape(content)):
            net().unroll(**{"time": 3, "batch": 2, **arguments})


def test_wrong_input_raises_an_error() -> None:
    u = net(inputs=5).unroll(3, 2, initial="zero")
    function = gn.compile([u.logits], [u.inputs])
    shapes = (np.zeros((2, 3), np.int64), "x[3, 2]"), (np.zeros((3, 2)), "x[3, 2]")
    for array, content in (*shapes, (np.full((3, 2), 5), "5"), (np.full((3, 2), -1), "-1")):
        with case(content), pytest.raises(GraphnetError, match=re.escape(content)):
            function(array)


def test_scopes_reach_the_profile() -> None:
    network = net(rnn.LSTM(4), rnn.GRU(4))
    u = network.unroll(time=3, batch=2)
    nodes = [u.cost, *gn.gradient(u.cost, list(network.parameters.values()))]
    profile = gn.compile(nodes, [u.inputs, u.targets, *u.initial]).profile(repeats=1)
    assert {1, 2, 3} <= set(profile.by_time_step()) <= {1, 2, 3, None}
    assert {"LSTM", "GRU"} <= set(profile.by_cell()) <= {"LSTM", "GRU", None}
    assert {"layer0", "layer1", "output", "cost"} <= set(profile.by_scope("layer"))
    for totals in (profile.by_time_step(), profile.by_cell(), profile.by_op()):
        assert sum(totals.values()) == pytest.approx(profile.total)


def test_networks_round_trip_through_settings() -> None:
    for network in (
        net(rnn.LSTM(4), rnn.GRU(2), skip=True, dropout=0.3, initial_state="learned", seed=5),
        net(rnn.LSTMKrause(2), loss="sigmoid", dtype="float64"),
        net(rnn.LSTMPeephole(2), loss="squared", reads="symbols"),
    ):
        with case(network):
            settings = network.settings()
            layers = [rnn.cells.ALL[each.pop("cell")](**each) for each in map(dict, settings.pop("layers"))]
            again = rnn.Network(iter(layers), **settings)
            assert again.settings() == network.settings()
            assert list(again.parameters) == list(network.parameters)
            assert np.array_equal(again.theta, network.theta)
            assert again.theta.dtype == network.theta.dtype
    assert repr(rnn.Network(rnn.GRU(2), inputs=5, outputs=3)) == repr(net(rnn.GRU(2)))


def test_first_symbol_is_predicted_from_the_initial_states() -> None:
    """log Pr(x) = Σ_t log π_t(x_t) from t = 0 on (Ollivier 2013, (7)); later steps are unchanged."""
    graph = rnn.GLNN(4, edges=2, activation="sigmoid")
    cases = [rnn.Elman(3)], [graph], [rnn.LSTMSutskever(2), rnn.LSTM(3)], [rnn.HMMFilter(3)]
    for skip, layers in itertools.product([False, True], cases):
        with case(skip, layers):
            network = rnn.Network(layers, 4, 4, skip=skip, initial_state="learned", dtype="float64", seed=1)
            generator = np.random.default_rng(0)
            network.theta = 0.5 * generator.standard_normal(network.theta.size)
            x = generator.integers(0, 4, (6, 2))
            whole = network.unroll(5, 2, initial="learned", predict_first=True)
            rest = network.unroll(5, 2, initial="learned")
            (losses,) = gn.compile([whole.losses], [whole.inputs, whole.targets])(x[:-1], x)
            (later,) = gn.compile([rest.losses], [rest.inputs, rest.targets])(x[:-1], x[1:])
            np.testing.assert_allclose(losses[1:], later, rtol=1e-12)

            w = {name: node.value for name, node in network.parameters.items()}
            read = []
            for l, cell in enumerate(network.layers):
                first = [w[f"initial.{state.name}{l}"] for state in cell.states]
                of = {
                    "GLNN": lambda s: 1 / (1 + np.exp(-s[0])),
                    "LSTMSutskever": lambda s: np.concatenate(s[:2]),
                    "HMMFilter": lambda s: np.exp(s[0]) / np.exp(s[0]).sum(),
                }
                read.append(of.get(type(cell).__name__, lambda s: s[0])(first))
            names = [f"W_h{l}o" for l in range(len(read))] if skip else ["W_ho"]
            pairs = zip(read if skip else read[-1:], names, strict=True)
            o = sum(h @ w[f"output.{name}"] for h, name in pairs) + w["output.b_o"]
            np.testing.assert_allclose(losses[0], (np.log(np.exp(o).sum()) - o)[x[0]], rtol=1e-12)
            scored = network.unroll(5, 2, initial="learned", predict_first=True, unscored=1)
            (cost,) = gn.compile([scored.cost], [scored.inputs, scored.targets])(x[:-1], x)
            assert cost == pytest.approx(later.mean())


def test_predict_first_rejects_unsupported_networks() -> None:
    for layers, loss, words in (
        ([rnn.Elman(2), rnn.Dense(2)], "softmax", "Dense: the output y depends on the input"),
        ([rnn.Bidirectional(rnn.Elman(2))], "softmax", "this network reads later inputs"),
        ([rnn.Elman(2)], "ctc", "has the loss 'ctc'"),
    ):
        network, how = rnn.Network(layers, 3, 3, loss=loss), {"labels": 1} if loss == "ctc" else {}
        with case(words), pytest.raises(UsageError, match=words):
            network.unroll(3, 1, predict_first=True, **how)


SCALES = {
    "softmax": lambda o, t: np.log(np.exp(o).sum(-1)) - np.take_along_axis(o, t[..., None], -1)[..., 0],
    "sigmoid": lambda o, t: (np.log(1 + np.exp(o)) - t * o).sum(-1),
    "squared": lambda o, t: ((o - t) ** 2).sum(-1),
}


def test_loss_is_summed_over_outputs_and_averaged_over_steps() -> None:
    for loss, pool in itertools.product(LOSSES, [None, "mean"]):
        with case(loss, pool):
            network = net(loss=loss, pool=pool, reads="vectors", dtype="float64")
            u = network.unroll(4, 2, initial="zero")
            generator = np.random.default_rng(0)
            x, t = generator.standard_normal((4, 2, 5)), generator.integers(0, 2, u.targets.shape)
            o, losses, cost = gn.compile([u.logits, u.losses, u.cost], [u.inputs, u.targets])(x, t)
            expected = SCALES[loss](o, t)
            assert np.allclose(losses, expected, rtol=1e-12, atol=0)
            assert np.isclose(cost, expected.mean(), rtol=1e-12, atol=0)
