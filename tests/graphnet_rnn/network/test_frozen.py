"""A Runner with frozen weights matches the network until `refresh`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from tests.graphnet_rnn.cells.test_oracles import CELLS, DIFFERENT
from tests.tables import case, some_quick

GENERATOR = np.random.default_rng(0)


def network(cell: rnn.Cell, **settings: object) -> rnn.Network:
    how = {"reads": "vectors", "loss": "squared", "dtype": "float64", **settings}
    net = rnn.Network([cell], inputs=3, outputs=2, **how)
    net.theta[:] = GENERATOR.uniform(-0.5, 0.5, net.theta.size)
    return net


def steps(runner: rnn.Runner, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The outputs of single steps that hand their states on."""
    states, found = None, []
    for column in x:
        o, states = runner(column[None], states)
        found.append(o)
    assert states is not None
    return np.concatenate(found), states


@pytest.mark.parametrize("name", some_quick([name for name in CELLS if CELLS[name](4).causal], DIFFERENT))
def test_steps_of_every_cell_match_run(name: str) -> None:
    net = network(CELLS[name](4))
    x = GENERATOR.standard_normal((6, 2, 3))
    wanted, last = rnn.run(net, x)
    found, states = steps(rnn.Runner(net, frozen=True), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    for a, b in zip(states, last, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_networks_that_need_all_steps_reject_states() -> None:
    """Single steps would give other results; the whole sequence in one call matches the graph."""
    cases = [
        ([rnn.Bidirectional(rnn.GRU(3))], None, r"Bidirectional.* reads later inputs"),
        ([rnn.Residual(rnn.Bidirectional(rnn.GRU(2)))], "last", "reads later inputs"),
        ([rnn.GRU(3)], "mean", "pool='mean' is taken over all steps"),
        ([rnn.GRU(3)], "max", "pool='max' is taken over all steps"),
        ([rnn.cells.Dense(3)], "mean", "pool='mean' is taken over all steps"),
    ]
    for (layers, pool, said), frozen in itertools.product(cases, [True, False]):
        with case(layers, pool, frozen):
            net = rnn.Network(layers, 3, 2, reads="vectors", loss="squared", pool=pool)
            runner, x = rnn.Runner(net, frozen=frozen), GENERATOR.standard_normal((6, 2, 3)).astype("float32")
            u = net.unroll(6, 2, initial="zero", training=False)
            wanted = gn.compile([u.logits], [u.inputs])(x)[0]
            np.testing.assert_allclose(runner(x)[0], wanted, rtol=1e-5, atol=1e-6)
            with pytest.raises(rnn.errors.UsageError, match=said + ".*pass the whole sequence"):
                steps(runner, x)
            np.testing.assert_allclose(runner(x)[0], wanted, rtol=1e-5, atol=1e-6)


def test_last_pooling_over_several_calls() -> None:
    """pool="last" of a causal network: each call gives the output for the sequence so far."""
    net, x = network(rnn.GRU(4), pool="last"), GENERATOR.standard_normal((6, 2, 3))
    runner, states = rnn.Runner(net, frozen=True), None
    for t in range(6):
        o, states = runner(x[t : t + 1], states)
        np.testing.assert_allclose(o, rnn.run(net, x[: t + 1])[0], rtol=1e-10)


def test_weights_change_only_after_refresh() -> None:
    net = network(rnn.LSTM(5))
    x = GENERATOR.standard_normal((1, 1, 3))
    runner = rnn.Runner(net, frozen=True)
    before, _ = runner(x)
    net.theta[:] *= -2
    runner.refresh()
    after, _ = runner(x)
    np.testing.assert_array_equal(after, rnn.run(net, x)[0])
    assert not np.allclose(before, after)
    net.theta[0] = np.nan
    runner.refresh()
    with pytest.raises(rnn.errors.UsageError, match="is nan"):
        runner(x)


def test_lengths_pieces_and_batches_share_a_runner() -> None:
    net = network(rnn.GRU(4))
    runner = rnn.Runner(net, frozen=True)
    for turn, (time, batch) in itertools.product(range(2), ((1, 1), (230, 2), (3, 1), (101, 3))):
        x = GENERATOR.standard_normal((time, batch, 3))
        lengths = GENERATOR.integers(1, time + 1, batch) if turn else None
        wanted, last = rnn.run(net, x, lengths=lengths)
        found, states = runner(x, lengths=lengths)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        np.testing.assert_allclose(states[0], last[0], rtol=1e-12)


def test_failed_calls_leave_the_runner_unchanged() -> None:
    runner = rnn.Runner(rnn.Network([rnn.Elman(4)], inputs=3, outputs=3), frozen=True)
    wanted, _ = runner(np.array([[1]]))
    with pytest.raises(GraphnetError):
        runner(np.array([[7]]))
    np.testing.assert_array_equal(runner(np.array([[1]]))[0], wanted)
