"""Test cases of ops, one per line: the op, its input arrays, and special properties.

Floats are away from kinks, where no derivative exists. `check_op` itself tries sizes 0 and 1, broadcasting and float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import graphnet as gn
from graphnet.graph.dtypes import FLOAT32, FLOAT64, INT64
from graphnet.graph.node import Array, Node, Op
from graphnet.ops import elementwise as e, shape as s
from graphnet.ops.broadcast import BroadcastTo, Sum
from graphnet.ops.index import OneHot, ScatterAdd, Take
from graphnet.ops.leaf import After, Label, StopGradient
from graphnet.ops.linear import BatchMatMul, MatMul, ScaledMatMul
from graphnet.ops.loss import SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError, SymbolCrossEntropy
from graphnet.ops.reduce import ArgMax, CumSum, LogSoftmax, LogSumExp, Max, Min, Softmax
from graphnet.ops.surrogate import Surrogate
from graphnet.testing.laws import LAWS, OF_GRAPHS


class Case(NamedTuple):
    """An op, or a function from nodes to a node, with example arrays; id: the name of the test. laws: that it obeys."""

    op: Op | Callable[..., Node]
    arrays: tuple[Array, ...]
    id: str
    laws: tuple[int, ...] = tuple(LAWS)


#: Ops without inputs: no derivative passes them, so the laws have nothing to hold.
LEAVES = ("Input", "Parameter", "Constant", "Fill", "Zeros", "Random")

_generator = np.random.default_rng(20160615)
normal = _generator.standard_normal


def away(*shape: int) -> Array:
    """Numbers of either sign, at least 0.3 from zero."""
    x = normal(shape)
    return np.where(x >= 0, x + 0.3, x - 0.3)


def positive(*shape: int) -> Array:
    return _generator.uniform(0.5, 2.0, shape)


def distinct(*shape: int) -> Array:
    """Numbers that differ by at least 0.25 from each other, in random order: a maximum without ties."""
    count = int(np.prod(shape))
    return (_generator.permutation(count) - count / 2).reshape(shape) * 0.25


def between(*shape: int) -> Array:
    """Numbers a quarter from a whole one, or further, of either sign: where a staircase is flat."""
    return _generator.integers(-4, 4, shape) + _generator.uniform(0.3, 0.4, shape)


def distribution(*shape: int) -> Array:
    x = _generator.uniform(0.1, 1.0, shape)
    return x / x.sum(axis=-1, keepdims=True)


def symbols(size: int, *shape: int, dtype: str = "int64") -> Array:
    return _generator.integers(0, size, shape).astype(dtype)


def ints(*values: Any) -> Array:
    return np.array(values, "int64")


#: What is true of numbers: all but zeros.
TRUTHS = np.array([0.0, -0.0, 1e-320, -2.5, 7.0])
MASK = np.array([[True, False, True], [False, True, True]])


def sliced(*key: Any) -> Callable[[Node], Node]:
    return lambda x: x[key]


def along(axis: int) -> Callable[[Node, Node], Node]:
    return lambda x, indices: gn.take_along_axis(x, indices, axis)


def summing(subscripts: str) -> Callable[..., Node]:
    return lambda *nodes: gn.einsum(subscripts, *nodes)


CASES: tuple[Case, ...] = (
    # leaf: the two that have an input
    Case(Label(), (normal((2, 3)),), "label"),
    Case(Surrogate(lambda z, t: gn.sum((z - t) ** 2, 1), 1), (normal(2), normal((2, 3)), normal((2, 3))), "surrogate"),
    Case(StopGradient(), (normal((2, 3)),), "stop_gradient"),
    Case(lambda x: gn.tanh(x) * gn.stop_gradient(x * gn.stop_gradient(x)), (normal(3),), "stop_gradient-twice"),
    Case(After(), (normal((2, 3)), normal(4), ints(1, 2)), "after"),
    Case(lambda x: x * gn.stop_gradient(gn.fill(2, (), x.dtype)), (normal(3),), "stop_gradient-constant"),
    # shape
    Case(s.Reshape((6,)), (normal((2, 3)),), "reshape-flat"),
    Case(s.Reshape((3, 1, 2)), (normal((2, 3)),), "reshape-3d"),
    Case(s.Reshape(()), (normal((1, 1)),), "reshape-scalar"),
    Case(s.Reshape((0, 5)), (normal((3, 0)),), "reshape-empty"),
    Case(lambda x: gn.reshape(gn.transpose(x), (-1, 2)), (normal((2, 3)),), "reshape-of-transpose"),
    Case(s.Transpose((1, 0)), (normal((2, 3)),), "transpose-2d"),
    Case(s.Transpose((2, 0, 1)), (normal((2, 3, 4)),), "transpose-3d"),
    Case(s.Transpose((1, 0)), (normal((0, 3)),), "transpose-empty"),
    Case(s.Slice(((0, 2, 1), 1)), (normal((3, 4)),), "slice-rule"),
    Case(sliced(0), (normal((3, 2)),), "slice-int"),
    Case(sliced(-1, -1), (normal((3, 2)),), "slice-last"),
    Case(sliced(slice(None, None, -1)), (normal((4, 2)),), "slice-reversed"),
    Case(sliced(slice(3, 0, -2), slice(1, None)), (normal((5, 3)),), "slice-down-by-2"),
    Case(sliced(slice(-10, None, -1)), (normal((3, 2)),), "slice-down-from-nowhere"),
    Case(sliced(slice(2, 1)), (normal(4),), "slice-nothing"),
    Case(sliced(Ellipsis, None, 1), (normal((2, 3)),), "slice-ellipsis-new-axis"),
    Case(s.Pad((4,), ((1, 3, 1),)), (normal(2),), "pad"),
    Case(s.Pad((3, 4), (1, (3, -1, -2))), (normal(2),), "pad-row-downwards"),
    Case(s.Pad((3,), (2,)), (normal(()),), "pad-one"),
    Case(lambda x: gn.pad(x, ((1, 2), (0, 1))), (normal((2, 3)),), "pad-both-axes"),
    Case(lambda x: gn.pad(x, ((1, 0), (0, 2), (1, 1)), 7), (normal((2, 1, 2)),), "pad-by-a-number"),
    Case(s.Concatenate(0), (normal((2, 3)), normal((1, 3))), "concatenate"),
    Case(s.Concatenate(1), (normal((2, 1)), normal((2, 0)), normal((2, 3))), "concatenate-with-empty"),
    Case(s.Concatenate(0), (normal(2),), "concatenate-one"),
    Case(lambda x: gn.concatenate([x, x, 2 * x], -1), (normal((2, 2)),), "concatenate-shared"),
    Case(s.Stack(0), (normal(3), normal(3)), "stack"),
    Case(s.Stack(1), (normal((2, 3)), normal((2, 3)), normal((2, 3))), "stack-inside"),
    Case(s.Stack(0), (normal(()), normal(())), "stack-scalars"),
    # broadcast
    Case(BroadcastTo((3,)), (normal(()),), "broadcast-scalar"),
    Case(BroadcastTo((2, 3)), (normal(1),), "broadcast-(1,)"),
    Case(BroadcastTo((2, 0)), (normal(0),), "broadcast-(0,)"),
    Case(BroadcastTo((0, 3)), (normal((1, 3)),), "broadcast-1-to-0"),
    Case(BroadcastTo((2, 3, 4)), (normal((3, 1)),), "broadcast-both-ways"),
    Case(Sum((0,)), (normal((2, 3)),), "sum-rows"),
    Case(Sum((1,)), (normal((2, 3)),), "sum-columns"),
    Case(Sum((0, 2)), (normal((2, 3, 4)),), "sum-two-axes"),
    Case(Sum((0, 1)), (normal((2, 3)),), "sum-all"),
    Case(Sum((0,)), (normal((0, 3)),), "sum-of-nothing"),
    Case(lambda x: gn.mean(x, (0, -1), keepdims=True), (normal((2, 3, 4)),), "mean-keepdims"),
    # elementwise: arithmetic
    Case(e.Add(), (normal((2, 3)),), "add-1"),
    Case(e.Add(), (normal((2, 3)), normal((2, 3))), "add-2"),
    Case(e.Add(), (normal((2, 3)), normal((2, 3)), normal((2, 3))), "add-3"),
    Case(e.Add(), (normal((2, 1)), normal(3), normal(())), "add-broadcast"),
    Case(e.Subtract(), (normal((2, 3)), normal((2, 3))), "subtract"),
    Case(e.Multiply(), (normal((2, 3)), normal((2, 3))), "multiply"),
    Case(e.Divide(), (normal((2, 3)), away(2, 3)), "divide"),
    Case(e.Mod(), (between(2, 3), np.array([[1.5, -1.5, 2.5], [-0.75, 7.0, -7.0]])), "mod"),
    Case(e.Mod(), (ints(7, -7, 7, -7, 0, 6), ints(3, 3, -3, -3, 3, -1)), "mod-integers"),
    Case(e.Negative(), (normal((2, 3)),), "negative"),
    Case(e.Power(2), (normal((2, 3)),), "power-2"),
    Case(e.Power(3), (normal((2, 3)),), "power-3"),
    Case(e.Power(0.5), (positive(2, 3),), "power-half"),
    Case(e.Power(-1), (away(2, 3),), "power-minus-1"),
    Case(e.PowerOf(), (positive(2, 3), normal((2, 3))), "power-of"),
    # elementwise: functions
    Case(e.Tanh(), (normal((2, 3)),), "tanh"),
    Case(e.Sigmoid(), (normal((2, 3)),), "sigmoid"),
    Case(e.Exp(), (normal((2, 3)),), "exp"),
    Case(e.Log(), (positive(2, 3),), "log"),
    Case(e.ReLU(), (away(2, 3),), "relu"),
    Case(e.Softplus(), (normal((2, 3)),), "softplus"),
    Case(e.Sqrt(), (positive(2, 3),), "sqrt"),
    Case(e.Sin(), (normal((2, 3)),), "sin"),
    Case(e.Cos(), (normal((2, 3)),), "cos"),
    Case(e.Erf(), (normal((2, 3)),), "erf"),
    Case(e.Erf(), (away(2, 3) * 3,), "erf-far"),
    Case(e.Floor(), (between(2, 3),), "floor"),
    Case(e.Ceil(), (between(2, 3),), "ceil"),
    Case(e.Round(), (between(2, 3),), "round"),
    Case(e.Absolute(), (away(2, 3),), "absolute"),
    Case(e.Sign(), (away(2, 3),), "sign"),
    # elementwise: choices, comparisons, casts
    Case(e.Maximum(), (distinct(2, 3), distinct(2, 3) + 0.1), "maximum"),
    Case(e.Minimum(), (distinct(2, 3), distinct(2, 3) + 0.1), "minimum"),
    Case(e.Where(), (MASK, normal((2, 3)), normal((2, 3))), "where"),
    Case(lambda x: gn.clip(x, -0.6, 0.6), (distinct(3, 3) + 0.07,), "clip"),
    Case(e.Less(), (distinct(2, 3), distinct(2, 3) + 0.1), "less"),
    Case(e.LessEqual(), (ints(1, 2, 3), ints(3, 2, 1)), "less_equal"),
    Case(e.Greater(), (distinct(2, 3), distinct(2, 3) + 0.1), "greater"),
    Case(e.GreaterEqual(), (ints(1, 2, 3), ints(3, 2, 1)), "greater_equal"),
    Case(e.Equal(), (ints(1, 2, 3), ints(3, 2, 1)), "equal"),
    Case(e.LogicalAnd(), (MASK, MASK[::-1]), "logical_and"),
    Case(e.LogicalOr(), (MASK, MASK[::-1]), "logical_or"),
    Case(e.LogicalNot(), (MASK,), "logical_not"),
    Case(e.LogicalAnd(), (TRUTHS, ints(0, 1, 2, 0, 3)), "logical_and-of-numbers"),
    Case(e.LogicalOr(), (TRUTHS, ints(0, 1, 2, 0, 3)), "logical_or-of-numbers"),
    Case(e.LogicalNot(), (TRUTHS,), "logical_not-of-numbers"),
    Case(e.Cast(FLOAT64), (normal((2, 3)),), "cast-float"),
    Case(e.Cast(INT64), (away(2, 3) * 3,), "cast-to-integer"),
    Case(e.Cast(FLOAT32), (MASK,), "cast-from-bool"),
    Case(lambda x: gn.cast(gn.cast(x, "float64") ** 2, "float32"), (normal(3),), "cast-there-and-back"),
    # linear
    Case(MatMul(), (normal((2, 3)), normal((3, 4))), "matmul"),
    Case(MatMul(), (ints([1, 2]), ints([3], [4])), "matmul-integers"),
    Case(BatchMatMul(), (normal((2, 3, 4)), normal((2, 4, 5))), "batch-matmul"),
    Case(ScaledMatMul(), (normal((3, 4)), normal((4, 2)), normal((3, 2, 4)), normal((3, 2, 2))), "scaled-matmul"),
    Case(gn.matmul, (normal(3), normal(3)), "matmul-inner-product"),
    Case(gn.matmul, (normal(3), normal((3, 2))), "matmul-row"),
    Case(gn.matmul, (normal((2, 3, 4)), normal(4)), "matmul-batch-by-vector"),
    Case(gn.matmul, (normal((2, 1, 2, 3)), normal((4, 3, 2))), "matmul-broadcast-batches"),
    Case(summing("ij,jk->ki"), (normal((2, 3)), normal((3, 4))), "einsum-product"),
    Case(summing("bij,bjk,bk->bi"), (normal((2, 3, 2)), normal((2, 2, 4)), normal((2, 4))), "einsum-batch"),
    Case(summing("iji,...j->...i"), (normal((3, 2, 3)), normal((2, 2))), "einsum-diagonal"),
    Case(summing("ij,ij"), (normal((2, 1)), normal((2, 3))), "einsum-size-1"),
    Case(summing("ik,k,l->i"), (ints([1, 2], [3, 4]), ints(5, 6), ints(1, 2, 3)), "einsum-integers"),
    # index
    Case(Take(0), (normal((4, 2)), ints(2, 0, 2, 2)), "take-repeated"),
    Case(Take(0), (normal((4, 2)), symbols(4, 2, 3, dtype="uint8")), "take-2d-index"),
    Case(Take(1), (normal((2, 4, 3)), ints(3, 3, 1)), "take-axis-1"),
    Case(Take(0), (normal((4, 2)), ints()), "take-nothing"),
    Case(Take(1), (normal((2, 3)), np.array(2)), "take-scalar-index"),
    Case(ScatterAdd(4, 0), (normal((3, 2)), ints(1, 1, 3)), "scatter-repeated"),
    Case(ScatterAdd(3, 1), (normal((2, 2, 2)), ints([0, 2], [2, 2])[:, 0]), "scatter-axis-1"),
    Case(ScatterAdd(3, 0), (normal((2, 2, 4)), ints([0, 2], [2, 0])), "scatter-2d-index"),
    Case(ScatterAdd(3, 1), (normal((2, 2, 2, 4)), ints([0, 2], [2, 0])), "scatter-2d-index-axis-1"),
    Case(Take(1), (normal((2, 4, 3)), ints([3, 3], [1, 0])), "take-2d-index-axis-1"),
    Case(ScatterAdd(3, 0), (normal((0, 2)), ints()), "scatter-nothing"),
    Case(along(1), (normal((2, 4, 3)), symbols(4, 2, 2, 3)), "take_along_axis"),
    Case(along(-1), (normal((3, 4)), ints([3], [0], [3])), "take_along_axis-one-of-each-row"),
    Case(along(0), (normal((3, 1)), symbols(3, 2, 4, dtype="uint8")), "take_along_axis-broadcast-x"),
    Case(along(1), (normal((2, 3, 2)), symbols(3, 1, 4, 1)), "take_along_axis-broadcast-indices"),
    Case(along(0), (normal(4), ints(1, 1, 3)), "take_along_axis-vector"),
    Case(along(1), (normal((2, 3)), symbols(3, 2, 0)), "take_along_axis-nothing"),
    Case(OneHot(4, FLOAT32), (symbols(4, 3),), "one_hot"),
    Case(OneHot(3, FLOAT64), (symbols(3, 2, 2, dtype="int32"),), "one_hot-2d"),
    # A pass looks the row up, and multiplies nothing by zero.
    Case(lambda i, W: gn.one_hot(i, 4, "float64") @ W, (symbols(4, 3), normal((4, 2))), "one_hot-product", OF_GRAPHS),
    # reduce
    Case(Max((0,)), (distinct(3, 4),), "max-rows"),
    Case(Max((0, 2)), (distinct(2, 3, 2),), "max-two-axes"),
    Case(Max((0, 1)), (distinct(2, 3),), "max-all"),
    Case(Min((1,)), (distinct(3, 4),), "min-columns"),
    Case(Min((0, 1)), (distinct(2, 3),), "min-all"),
    Case(ArgMax(0), (distinct(3, 4),), "argmax"),
    Case(ArgMax(1), (ints([1, 3, 3], [2, 2, 0]),), "argmax-ties"),
    Case(CumSum(0), (normal((5, 3)),), "cumsum"),
    Case(CumSum(1, reverse=True), (normal((2, 4, 2)),), "cumsum-reverse"),
    Case(CumSum(1), (normal((2, 0)),), "cumsum-of-nothing"),
    Case(lambda x: gn.cumsum(x, -1), (normal((2, 9)),), "cumsum-last-axis"),
    Case(lambda x: gn.cumsum(x, 0, reverse=True), (ints(3, -1, 2),), "cumsum-integers"),
    Case(Softmax(1), (normal((2, 3)),), "softmax"),
    Case(Softmax(0), (normal((3, 2, 2)),), "softmax-axis-0"),
    Case(Softmax(1), (normal((0, 3)),), "softmax-no-rows"),
    Case(LogSoftmax(1), (normal((2, 3)),), "log_softmax"),
    Case(LogSoftmax(0), (normal((3, 2)),), "log_softmax-axis-0"),
    Case(LogSumExp(1), (normal((2, 3)),), "logsumexp"),
    Case(LogSumExp(0), (normal(3),), "logsumexp-vector"),
    # loss
    Case(SoftmaxCrossEntropy(), (normal((2, 3)), distribution(2, 3)), "softmax_cross_entropy"),
    Case(SoftmaxCrossEntropy(), (normal((2, 2, 3)), normal((2, 2, 3))), "softmax_cross_entropy-any-target"),
    Case(SymbolCrossEntropy(), (normal((4, 3)), symbols(3, 4)), "symbol_cross_entropy"),
    Case(SymbolCrossEntropy(), (normal(3), np.array(1)), "symbol_cross_entropy-one-case"),
    Case(SigmoidCrossEntropy(), (away(2, 3), positive(2, 3) / 2), "sigmoid_cross_entropy"),
    Case(SquaredError(), (normal((2, 3)), normal((2, 3))), "squared_error"),
)  # fmt: skip


#: The cases of each op, by what their ids begin with.
BY_OP: dict[str, list[Case]] = {}
for _case in CASES:
    BY_OP.setdefault(_case.id.partition("-")[0], []).append(_case)
