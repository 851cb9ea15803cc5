"""Networks: their parameters, their one vector, their settings, their unrolling and its scopes."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.cell.initializers import constant, glorot, orthogonal, sparse
from graphnet_rnn.errors import GraphnetError, UsageError
from graphnet_rnn.network.losses import LOSSES
from tests.tables import case


def net(*cells: rnn.Cell, **settings: Any) -> rnn.Network:
    """A small network, of an Elman layer if none is given."""
    return rnn.Network(cells or [rnn.Elman(4)], **{"inputs": 5, "outputs": 3, **settings})


# -- parameters ----------------------------------------------------------------------------------


def test_names_and_order() -> None:
    network = net(rnn.Elman(4), rnn.LSTM(2), initial_state="learned")
    names = ["layer0.W_xh", "layer0.W_hh", "layer0.b_h"]
    names += [f"layer1.{kind}{gate}" for gate in "ifog" for kind in ("W_x", "W_h", "b_")]
    names += ["output.W_ho", "output.b_o", "initial.h0", "initial.h1", "initial.c1"]
    assert list(network.parameters) == names
    assert [node.name for node in network.parameters.values()] == names


def test_theta_shares_memory_both_ways() -> None:
    network = net()
    node = network.parameters["layer0.W_hh"]
    assert np.shares_memory(network.theta, node.value)
    network.theta[:] = np.arange(network.theta.size)
    assert node.value.ravel().tolist() == list(range(5 * 4, 5 * 4 + 16))
    node.value[0, 0] = -1
    assert network.theta[20] == -1


def test_theta_setter_copies_into_the_same_memory() -> None:
    network = net()
    before, vector = network.theta, np.ones(network.theta.size)
    network.theta = vector
    assert network.theta is before
    assert (network.parameters["output.W_ho"].value == 1).all()
    vector[:] = 2
    assert (network.theta == 1).all()
    with pytest.raises(
        UsageError, match=re.escape(f"theta has {before.size} numbers; an array of shape [3]")
    ):
        network.theta = np.ones(3)


# -- initial weights -----------------------------------------------------------------------------


def test_seeds() -> None:
    a, b, c = (net(rnn.LSTM(4), seed=seed).theta for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_layers_of_one_kind_start_differently() -> None:
    network = net(rnn.Elman(5), rnn.Elman(5))
    assert not np.array_equal(
        network.parameters["layer0.W_hh"].value, network.parameters["layer1.W_hh"].value
    )


def test_one_more_weight_leaves_the_others() -> None:
    plain, peephole = net(rnn.LSTM(4)), net(rnn.LSTMPeephole(4))
    assert np.array_equal(plain.parameters["layer0.W_xi"].value, peephole.parameters["layer0.W_xi"].value)


def test_one_more_layer_leaves_the_weights_of_the_others() -> None:
    one, two = net(rnn.GRU(4)), net(rnn.GRU(4), rnn.GRU(4))
    for name, node in one.parameters.items():
        if name.startswith("layer0"):
            assert np.array_equal(node.value, two.parameters[name].value), name


def test_initializers_by_pattern() -> None:
    """The last pattern that fits wins; the rest keep the cell's own."""
    cell = rnn.LSTM(4, initial={"W_h*": orthogonal(), "W_hg": constant(7), "b_f": constant(3)})
    values = {name: node.value for name, node in net(cell, initial={"b_o": constant(2)}).parameters.items()}
    assert np.allclose(values["layer0.W_hi"].T @ values["layer0.W_hi"], np.eye(4), atol=1e-6)
    assert (values["layer0.W_hg"] == 7).all()
    assert (values["layer0.b_f"] == 3).all()
    assert (values["output.b_o"] == 2).all()
    assert np.array_equal(values["layer0.W_xi"], net(rnn.LSTM(4)).parameters["layer0.W_xi"].value)


def test_orthogonal_both_ways_round() -> None:
    for shape in ((6, 3), (3, 6)):
        w = orthogonal(2.0)(np.random.default_rng(0), shape)
        product = w.T @ w if shape[0] > shape[1] else w @ w.T
        assert np.allclose(product, 4 * np.eye(3))


def test_glorot_stays_within_its_limit_and_reaches_it() -> None:
    w = glorot()(np.random.default_rng(0), (30, 70))
    limit = np.sqrt(6 / 100)
    assert 0.99 * limit < np.abs(w).max() <= limit


def test_sparse_gives_each_unit_so_many_connections() -> None:
    w = sparse(4, 1.0)(np.random.default_rng(0), (20, 7))
    assert (np.count_nonzero(w, axis=0) == 4).all()
    assert (np.count_nonzero(sparse(15)(np.random.default_rng(0), (3, 2)), axis=0) == 3).all()


# -- initial states ------------------------------------------------------------------------------


def run(u: rnn.Unrolled, nodes: list[gn.Node], *states: Array) -> tuple[Array, ...]:
    """The nodes' values on fixed symbols."""
    symbols = np.arange(u.time * u.batch).reshape(u.time, u.batch) % 3
    return gn.compile(nodes, [u.inputs, u.targets, *(u.initial if states else [])])(symbols, symbols, *states)


def test_given_is_the_default_and_equals_learned_when_fed_the_same() -> None:
    network = net(rnn.GRU(4), initial_state="learned")
    network.parameters["initial.h0"].value[:] = [0.1, -0.2, 0.3, 0.4]
    given, learned = network.unroll(3, 2), network.unroll(3, 2, initial="learned")
    assert all(node.op.is_input for node in given.initial)
    assert np.array_equal(
        run(given, [given.logits], *network.first_states(2))[0], run(learned, [learned.logits])[0]
    )


def test_first_states() -> None:
    network = net(rnn.LSTM(4), initial_state="learned")
    network.parameters["initial.h0"].value[:] = 0.5
    h, c = network.first_states(3)
    assert h.shape == c.shape == (3, 4)
    assert (h == 0.5).all()
    assert not c.any()
    assert not np.shares_memory(h, network.theta)
    assert not any(state.any() for state in net(rnn.LSTM(4)).first_states(3))
    assert not any(state.any() for state in network.zero_states(3))


# -- what cannot be meant ------------------------------------------------------------------------


def test_impossible_settings() -> None:
    cases = [
        ({"inputs": 0}, "inputs must be a whole number >= 1, not 0"),
        ({"outputs": 2.5}, "outputs must be a whole number >= 0, not 2.5"),
        ({"loss": "hinge"}, "loss must be 'softmax' or 'sigmoid' or 'squared' or 'ctc', not 'hinge'"),
        ({"reads": "tea leaves"}, "reads must be 'symbols' or 'vectors', not 'tea leaves'"),
        ({"initial_state": "given"}, "initial_state must be 'zero' or 'learned', not 'given'"),
        ({"dropout": 1.0}, "dropout, the share that is zeroed, must be in [0, 1), not 1.0"),
        ({"seed": -1}, "seed must be a whole number >= 0, not -1"),
        ({"dtype": "int64"}, "dtype must be float32 or float64, not int64"),
        ({"layers": []}, "layers is empty: give at least one cell"),
        ({"layers": [3]}, "layers must hold cells, e.g. rnn.LSTM(128), not 3"),
        ({"layers": [rnn.LSTM]}, "layers must hold cells, e.g. LSTM(128)"),
    ]
    for settings, content in cases:
        with case(settings, content), pytest.raises(UsageError, match=re.escape(content)):
            rnn.Network(**{"layers": [rnn.Elman(4)], "inputs": 5, "outputs": 3, **settings})


def test_layers_may_be_one_cell_or_any_iterable() -> None:
    one, many = net(rnn.GRU(2)), rnn.Network(iter([rnn.GRU(2)]), inputs=5, outputs=3)
    assert repr(rnn.Network(rnn.GRU(2), inputs=5, outputs=3)) == repr(one) == repr(many)


def test_impossible_unrolling() -> None:
    cases = [
        ({"time": 0}, "unroll: time must be a whole number >= 1, not 0"),
        ({"batch": -1}, "unroll: batch must be a whole number >= 1, not -1"),
        ({"unscored": 3}, "unroll: unscored must be in 0 ... 2, not 3"),
        ({"initial": "warm"}, "unroll: initial must be 'given', 'zero', 'learned'"),
        ({"initial": "learned"}, "for a network made with initial_state='learned'"),
    ]
    for arguments, content in cases:
        with case(arguments, content), pytest.raises(UsageError, match=re.escape(content)):
            net().unroll(**{"time": 3, "batch": 2, **arguments})


def test_wrong_input_is_told() -> None:
    cases = [
        (np.zeros((2, 3), np.int64), "x[3, 2]"),
        (np.zeros((3, 2)), "x[3, 2]"),
        (np.full((3, 2), 5), "5"),
        (np.full((3, 2), -1), "-1"),
    ]
    for array, content in cases:
        with case(array, content):
            u = net(inputs=5).unroll(3, 2, initial="zero")
            with pytest.raises(GraphnetError, match=re.escape(content)):
                gn.compile([u.logits], [u.inputs])(array)


# -- scopes and settings -------------------------------------------------------------------------


def test_scopes_reach_the_profile() -> None:
    network = net(rnn.LSTM(4), rnn.GRU(4))
    u = network.unroll(time=3, batch=2)
    function = gn.compile(
        [u.cost, *gn.gradient(u.cost, list(network.parameters.values()))], [u.inputs, u.targets, *u.initial]
    )
    profile = function.profile(repeats=1)
    assert {1, 2, 3} <= set(profile.by_time_step()) <= {1, 2, 3, None}
    assert {"LSTM", "GRU"} <= set(profile.by_cell()) <= {"LSTM", "GRU", None}
    assert {"layer0", "layer1", "output", "cost"} <= set(profile.by_scope("layer"))
    for totals in (profile.by_time_step(), profile.by_cell(), profile.by_op()):
        assert sum(totals.values()) == pytest.approx(profile.total)


def test_settings_make_the_network_again() -> None:
    cases = [
        net(rnn.Elman(4)),
        net(rnn.LSTM(4), rnn.GRU(2), skip=True, dropout=0.3, initial_state="learned", seed=5),
        net(rnn.LSTMKrause(2), loss="sigmoid", dtype="float64"),
        net(rnn.LSTMPeephole(2), loss="squared", reads="symbols"),
    ]
    for network in cases:
        with case(network):
            settings = network.settings()
            layers = [
                rnn.cells.ALL[entry.pop("cell")](**entry) for entry in map(dict, settings.pop("layers"))
            ]
            again = rnn.Network(layers, **settings)
            assert again.settings() == network.settings()
            assert list(again.parameters) == list(network.parameters)
            assert np.array_equal(again.theta, network.theta)
            assert again.theta.dtype == network.theta.dtype


# -- the first symbol --------------------------------------------------------------------------------------------------


def test_the_first_symbol_is_predicted_by_the_first_states() -> None:
    """log Pr(x) = Σ_t log π_t(x_t) from t = 0 on (Ollivier 2013, (7)): what follows is what it is without."""
    cases = [
        [rnn.Elman(3)],
        [rnn.GLNN(4, edges=2, activation="sigmoid")],
        [rnn.LSTMSutskever(2), rnn.LSTM(3)],
        [rnn.HMMFilter(3)],
    ]
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
            assert gn.compile([scored.cost], [scored.inputs, scored.targets])(x[:-1], x)[0] == pytest.approx(
                later.mean()
            )


def test_the_first_symbol_needs_states_to_read() -> None:
    cases = [
        (
            lambda: rnn.Network([rnn.Elman(2), rnn.Dense(2)], 3, 3),
            "Dense: its output y depends on what it reads",
        ),
        (lambda: rnn.Network([rnn.Bidirectional(rnn.Elman(2))], 3, 3), "this one reads later inputs"),
    ]
    for make, words in cases:
        with case(make, words):
            with pytest.raises(UsageError, match=words):
                make().unroll(3, 1, predict_first=True)
            with pytest.raises(UsageError, match="has the loss 'ctc'"):
                rnn.Network([rnn.Elman(2)], 3, 3, loss="ctc").unroll(3, 1, labels=1, predict_first=True)


# -- the scale of each loss, as the docstring of Network says it ------------------------------------

SCALES = {
    "softmax": lambda o, t: np.log(np.exp(o).sum(-1)) - np.take_along_axis(o, t[..., None], -1)[..., 0],
    "sigmoid": lambda o, t: (np.log(1 + np.exp(o)) - t * o).sum(-1),
    "squared": lambda o, t: ((o - t) ** 2).sum(-1),
}


def test_a_loss_is_summed_over_outputs_and_the_cost_is_the_mean() -> None:
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
