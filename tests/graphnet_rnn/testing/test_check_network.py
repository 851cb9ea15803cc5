"""check_network accepts a correct network and finds a fault in any of the three products."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.ops.elementwise import Sigmoid
from graphnet.testing import LawError
from graphnet_rnn.errors import UsageError
from graphnet_rnn.testing import check_network
from tests.tables import case


def network() -> rnn.Network:
    """Two layers with weights of trained size."""
    net = rnn.Network([rnn.LSTM(12), rnn.GRU(9)], 7, 7, skip=True, initial_state="learned")
    net.theta = 0.5 * np.random.default_rng(0).standard_normal(net.theta.shape)
    return net


def test_reports_three_products() -> None:
    found: dict[str, str] = {}
    net = network()
    before = net.theta.copy()
    check_network(net, found.__setitem__)
    assert list(found) == ["gradient", "R-operator", "Gauss-Newton"]
    assert np.array_equal(net.theta, before)
    with pytest.raises(UsageError, match="reads symbols"):
        check_network(rnn.Network([rnn.Elman(3)], 2, 2, loss="squared"))


def test_wrong_rules_and_products_are_caught() -> None:
    """Rules with 1 % error, and the full Hessian instead of G."""
    backward, rop = Sigmoid.backward, Sigmoid.rop
    for what, where, name, wrong in (
        ("gradient", Sigmoid, "backward", lambda self, *given: [1.01 * g for g in backward(self, *given)]),
        ("R-operator", Sigmoid, "rop", lambda self, *given: 1.01 * rop(self, *given)),
        ("Gauss-Newton", gn, "gauss_newton_product", gn.hessian_product),
    ):
        with case(what), pytest.MonkeyPatch.context() as planted:
            planted.setattr(where, name, wrong)
            with pytest.raises(LawError, match=what):
                check_network(network())
