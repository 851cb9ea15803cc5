"""check_op of ops that lack a rule, or whose rule fails: what can be held is, and what cannot is said."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.testing import LawError, check_op

X = np.random.default_rng(0).standard_normal((2, 3))


class Doubled(gn.Rowwise):
    """y[t] = 2 x[t], without derivatives"""

    signature = "... t -> ... t"

    @staticmethod
    def kernel(y: Array, x: Array) -> None:
        for t in range(x.shape[0]):
            y[t] = 2 * x[t]


class Squares(gn.Rowwise):
    """y = Σ_t x[t]², whose backward is made of an op without rules"""

    signature = "... t -> ..."

    @staticmethod
    def kernel(y: Array, x: Array) -> None:
        total = 0.0
        for t in range(x.shape[0]):
            total += x[t] * x[t]
        y[()] = total

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return (gy[..., None] * Doubled()(inputs[0]),)


class Tripled(Squares):
    """Three times the gradient"""

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return (gy[..., None] * 3 * Doubled()(inputs[0]),)


class Forward(Squares):
    """A tangent alone"""

    factor = 1.0
    backward = gn.Op.backward

    def rop(self, rx: Node, y: Node, *inputs: Node) -> Node:
        return gn.sum(rx * self.factor * Doubled()(inputs[0]), -1)


class WrongForward(Forward):
    """A wrong tangent"""

    factor = 1.1


class Array2(gn.Op):
    """y = Σ_t x[t]² as a rule in NumPy, called between native code"""

    signature = "n t -> n"

    def forward(self, x: Array) -> Any:
        return (x * x).sum(1)

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return (gy[:, None] * 2 * inputs[0],)


@pytest.mark.parametrize("op", [Squares(), Array2()])
def test_without_rop_the_gradient_is_held_against_differences(op: gn.Op) -> None:
    said = r"has no rop, so laws 2, 4, 5 of it are left out; backward is held against finite differences"
    with pytest.warns(UserWarning, match=said):
        check_op(op, X)


def test_without_rop_a_wrong_gradient_is_found() -> None:
    with (
        pytest.warns(UserWarning, match="Tripled has no rop"),
        pytest.raises(LawError, match=r"Tripled: law 3 .*finite difference of forward.*is wrong"),
    ):
        check_op(Tripled(), X)


def test_without_backward_the_tangent_is_held() -> None:
    with pytest.warns(UserWarning, match=r"Forward has no backward, so laws 3, 4, 5 of it are left out$"):
        check_op(Forward(), X)
    with (
        pytest.warns(UserWarning, match="no backward"),
        pytest.raises(LawError, match=r"WrongForward: law 2 .* rop is wrong"),
    ):
        check_op(WrongForward(), X)


def test_without_rules_the_value_is_held() -> None:
    with pytest.warns(UserWarning, match=r"no backward and no rop, so laws 2, 3, 4, 5 of it are left out$"):
        check_op(Doubled(), X)


def test_nothing_is_said_of_what_was_not_asked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_op(Squares(), X, laws=(1, 3, 7))


class Failing(Doubled):
    """A rule that fails where there is nothing, in a line of its own"""

    zero_if = "all"

    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return (self(gy),)

    def rop(self, rx: Node, y: Node, *inputs: Node) -> Node:
        factors = np.ones(inputs[0].shape[-1:])
        factors[0] = 1
        return self(rx) * gn.constant(factors)


def test_an_exception_in_a_rule_is_told_with_its_line() -> None:
    line = Failing.rop.__code__.co_firstlineno + 2
    with pytest.raises(LawError, match="Failing: law 2: IndexError: index 0 is out of bounds") as caught:
        check_op(Failing(), X)
    assert f"test_rules.py:{line}\n" in str(caught.value)
    assert isinstance(caught.value.__cause__, IndexError)
