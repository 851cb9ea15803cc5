"""check_network passes a sound network and catches a fault in any of the three products."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.ops.elementwise import Sigmoid
from graphnet.testing import LawError
from graphnet_rnn.errors import UsageError
from graphnet_rnn.testing import check_network


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


@pytest.mark.parametrize(("rule", "word"), [("backward", "gradient"), ("rop", "R-operator")])
def test_a_wrong_rule_is_caught(rule: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that is 1 % off."""
    right = getattr(Sigmoid, rule)

    def wrong(self: Sigmoid, *arguments: gn.Node) -> object:
        result = right(self, *arguments)
        return [1.01 * g for g in result] if rule == "backward" else 1.01 * result

    monkeypatch.setattr(Sigmoid, rule, wrong)
    with pytest.raises(LawError, match=word):
        check_network(network())


def test_a_wrong_product_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The full Hessian in place of G."""
    monkeypatch.setattr(gn, "gauss_newton_product", gn.hessian_product)
    with pytest.raises(LawError, match="Gauss-Newton"):
        check_network(network())


def test_other_losses_are_refused() -> None:
    with pytest.raises(UsageError, match="reads symbols"):
        check_network(rnn.Network([rnn.Elman(3)], 2, 2, loss="squared"))
