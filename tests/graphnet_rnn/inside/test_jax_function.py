"""A network inside JAX has the outputs and gradients that it has here."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.errors import DtypeError
from graphnet_rnn.errors import UsageError
from graphnet_rnn.inside import jax_function
from tests.graphnet_rnn.inside.cases import network_and_gradients

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("cell", rnn.cells.ALL.values(), ids=list(rnn.cells.ALL))
def test_gradients_are_ours(cell: type[rnn.Cell]) -> None:
    net, x, ours = network_and_gradients(cell)
    with jax.enable_x64(True):
        function, parameters = jax_function(net)
        outputs, _ = jax.jit(function)(parameters, x)
        np.testing.assert_allclose(outputs, ours[0], rtol=1e-9, atol=1e-12)
        gradients = jax.jit(jax.grad(lambda p: (function(p, x)[0] ** 2).sum()))(parameters)
        for name, right in zip(net.parameters, ours[1:], strict=True):
            np.testing.assert_allclose(gradients[name], right, rtol=1e-8, atol=1e-10, err_msg=name)


def test_states_are_handed_on() -> None:
    function, parameters = jax_function(rnn.Network([rnn.LSTM(3), rnn.GRU(2)], 3, 2, loss="squared"))
    x = np.random.default_rng(0).standard_normal((6, 2, 3)).astype("float32")
    outputs, states = function(parameters, x)
    first, between = function(parameters, x[:2])
    second, after = function(parameters, x[2:], *between)
    np.testing.assert_allclose(np.concatenate([first, second]), outputs, rtol=1e-5, atol=1e-6)
    for found, right in zip(after, states, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    by_states = jax.grad(lambda states: function(parameters, x[2:], *states)[0].sum())(between)
    assert all(np.abs(gradient).max() > 0 for gradient in by_states)


def test_what_does_not_fit_is_told() -> None:
    net = rnn.Network([rnn.GRU(3)], 2, 1, loss="squared")
    function, parameters = jax_function(net)
    with pytest.raises(UsageError, match=r"x must have axes \(time, batch, \.\.\.\), not the shape \[4\]"):
        function(parameters, np.zeros(4, "float32"))
    with pytest.raises(UsageError, match="parameters lacks '"):
        function({}, np.zeros((4, 1, 2), "float32"))
    with pytest.raises(DtypeError, match=r"is float32, not int32"):
        function(parameters, np.zeros((4, 1, 2), "int32"))
    with pytest.raises(UsageError, match=r"draw with jax\.random between functions"):
        jax_function(rnn.Network([rnn.GRU(3), rnn.GRU(3)], 2, 2, loss="squared", dropout=0.5))
