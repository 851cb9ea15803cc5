"""check_op of ops that lack a rule, or whose rule fails: what can be held is, and what cannot is said."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.testing import LawError, check_op
from tests.tables import case

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
    def backward(self, gy: Node, y: Node, *inputs: Node) -> Sequence[Node]:
        return (gy[..., None] * 3 * Doubled()(inputs[0]),)


class Forward(Squares):
    """A tangent alone"""

    factor = 1.0
    backward = gn.Op.backward

    def rop(self, rx: Node, y: Node, *inputs: Node) -> Node:
        return gn.sum(rx * self.factor * Doubled()(inputs[0]), -1)


class WrongForward(Forward):
    factor = 1.1


def test_without_a_rule_the_others_are_held_and_what_is_left_out_is_said() -> None:
    left_out = "so laws {} of it are left out"
    for op, missing, wrong in (
        (Squares(), "has no rop, " + left_out.format("2, 4, 5") + "; backward is held against finite", ""),
        (Tripled(), "Tripled has no rop", "Tripled: law 3 .*finite difference of forward.*is wrong"),
        (Forward(), "Forward has no backward, " + left_out.format("3, 4, 5"), ""),
        (WrongForward(), "no backward", r"WrongForward: law 2 .* rop is wrong"),
        (Doubled(), "no backward and no rop, " + left_out.format("2, 3, 4, 5"), ""),
    ):
        found = pytest.raises(LawError, match=wrong) if wrong else contextlib.nullcontext()
        with case(op), pytest.warns(UserWarning, match=missing), found:
            check_op(op, X)
    with warnings.catch_warnings():  # nothing is said of what was not asked for
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
