"""check_op and check_graph catch each injected fault, and report missing or failing rules."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet import backends
from graphnet.backends.compiled import schedule
from graphnet.backends.numba import jobs, product_jobs
from graphnet.backends.numba.code import mathematics
from graphnet.backends.numba.code.reduction import ReductionCode
from graphnet.backends.numpy import NumpyBackend, NumpyProgram
from graphnet.errors import UsageError
from graphnet.graph.node import Array
from graphnet.ops import elementwise as e, shape
from graphnet.ops.index import ScatterAdd
from graphnet.ops.leaf import Constant, Fill, Parameter
from graphnet.plan import lowering
from graphnet.plan.instructions import Loop
from graphnet.testing import LawError, check_graph, check_op
from tests.graphnet.ops.op_cases import CASES, distinct
from tests.tables import case

#: The modules of which functions are replaced; `graphnet.passes.simplify` as an attribute is the function.
curvature, diff, laws, reduce = (
    sys.modules[f"graphnet.{name}"]
    for name in ("derivatives.curvature", "derivatives.gradient", "testing.laws", "ops.reduce")
)
simplify = sys.modules["graphnet.passes.simplify"]


@cache
def of_op(name: str) -> Callable[[], None]:
    """check_op on a case of the table."""
    found = next(each for each in CASES if each.id == name)
    return lambda: check_op(found.op, *found.arrays)


def graph(build, *values: Array, laws: Sequence[int] = range(1, 9)) -> Callable[[], None]:
    """check_graph on what `build` makes of one input for each value."""

    def check() -> None:
        leaves = [gn.input(v.shape, v.dtype) for v in values]
        check_graph(build(*leaves), leaves, values, laws)

    return check


x = np.array([[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]])
y = np.array([[1.5, 0.5, -1.0], [0.75, -0.5, 2.5]])
W = gn.constant(y.T / 2)
SOME = (1, 6, 7)
# fmt: off
two_consumers = graph(lambda a: gn.sum(gn.tanh(a) * gn.sin(a)), x)
net = graph(lambda a, W: [gn.tanh(gn.tanh(a @ W) @ W.T)], x, y.T)
chained_outputs = graph(lambda a: [h := gn.tanh(a), gn.sin(h)], x)
signed_zeros = graph(lambda a: [a / gn.fill(zero, a.shape, a.dtype) for zero in (0.0, -0.0)], x, laws=SOME)
of_integers = graph(lambda a: [a, gn.fill(1, (2,), "int64") + gn.fill(2, (2,), "int64")], x)
infinite = graph(lambda a: [a * 0.0], np.array([1.0, np.inf]), laws=SOME)
parameter_and_input = graph(lambda a, b: [a * gn.tanh(b)], x, y)
joined = graph(lambda a, b: gn.concatenate([a, b], 1)[:, 4], x, y)
large_logits = graph(lambda a: [gn.softmax(a), gn.log_softmax(a)], 1000 * x, laws=SOME)
two_results = graph(lambda a, b: [h := gn.tanh(a * b), gn.sum(gn.sin(h), 0), h @ W], x, y, laws=SOME)
square = np.sin(np.arange(400.0)).reshape(20, 20) / 3
many_products = graph(lambda a, b: [((((a.T @ b).T @ b).T @ b).T @ b).T @ b], square, square + 0.1, laws=(7,))
rows, thirds = np.cos(np.arange(63.0)), np.sin(np.arange(36.0)).reshape(12, 3)
# fmt: on


def where_backward_swapped(self, gy, y, c, *inputs):
    return [gn.fill(0, c.shape, gy.dtype), gn.where(c, 0, gy), gn.where(c, gy, 0)]


def scatter_overwrites(self, rows, index):
    shape = (*rows.shape[: self.axis], self.size, *rows.shape[self.axis + index.ndim :])
    result = np.zeros(shape, rows.dtype)
    result[(slice(None),) * self.axis + (index,)] = rows
    return result


def parameter_folds(node):
    if node.inputs and all(isinstance(source.op, (Constant, Fill, Parameter)) for source in node.inputs):
        return gn.constant(node.op.forward(*(source.op.forward() for source in node.inputs)))
    return node


def times_zero_is_zero(node):
    b = node.inputs[1]
    return b if isinstance(b.op, Fill) and b.op.number == 0 else None


def without_shift(piece, key):
    """The whole piece or its first elements, wherever the slice was."""
    return shape.Slice(tuple(0 if isinstance(k, int) else (0, k[1] - k[0], 1) for k in key))(piece)


def walks_on(*arguments):
    return diff.pull_back(*arguments[:5])  # less the last, the places where walks stop


def stored_in_each_other_s_place(nodes, of, loads, steps, stores, *a, **k):
    numbers = [number for number, _ in stores]
    return Loop(nodes, of, loads, steps, [*zip(numbers[::-1], [v for _, v in stores], strict=True)], *a, **k)


#: Kernels are made anew, not taken from memory.
FRESH = [(jobs, "text_of", lambda kernel: kernel.text()), (jobs, "_layouts", {})]


def dead_too_early(lives):
    """Memory is given away while the last reader runs."""
    ends = [max(life.first, life.last - 1) for life in lives]
    early = [
        life._replace(last=end, epoch=(life.first + 1, end)) for life, end in zip(lives, ends, strict=True)
    ]
    return schedule_give_places(early)


exp_forward, schedule_give_places = e.Exp.forward, schedule.give_places
exp_coefficients = mathematics._exp_coefficients


class RoundingProgram(NumpyProgram):
    """Gives its results to four digits."""

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.round(value, 4) for value in super().run(arrays)]


class RoundingBackend(NumpyBackend):
    """A back end that is not quite right."""

    def build(self, *arguments: Any) -> RoundingProgram:
        return RoundingProgram(arguments[0], *arguments[2:4])


class FailingProgram(NumpyProgram):
    """Gives NaN."""

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.full_like(value, np.nan) for value in super().run(arrays)]


class FailingBackend(NumpyBackend):
    """A back end that computes nothing."""

    def build(self, *arguments: Any) -> FailingProgram:
        return FailingProgram(arguments[0], *arguments[2:4])


#: What the fault is: the check, then (object or dict, name, wrong replacement) for each change.
# fmt: off
MUTANTS: dict[str, Any] = {
    # rules of ops
    "tanh: its second derivative is stopped": (
        of_op("tanh"), (e.Tanh, "partials", lambda s, y, *i: [gn.stop_gradient(1 - y * y)])),
    "tanh: its derivative is NaN": (of_op("tanh"), (e.Tanh, "partials", lambda s, y, *i: [gn.log(y * 0 - 1)])),
    "exp: said to be 0 at 0": (of_op("exp"), (e.Exp, "zero_if", "all")),
    "tanh: 1 - y for 1 - y²": (of_op("tanh"), (e.Tanh, "partials", lambda s, y, *i: [1 - y])),
    "subtract: rop adds": (of_op("subtract"), (e.Subtract, "rop", lambda s, ra, rb, *_: ra + rb)),
    "where: backward swapped": (of_op("where"), (e.Where, "backward", where_backward_swapped)),
    "slice: -1 as a stop": (of_op("slice-reversed"), (
        shape, "_numpy_key", lambda key: tuple(k if isinstance(k, int) else slice(*k) for k in key))),
    "scatter: overwrites": (of_op("take-repeated"), (ScatterAdd, "forward", scatter_overwrites)),
    # shapes and dtypes
    "exp: always float64": (of_op("exp"), (e.Exp, "forward", lambda s, a: exp_forward(s, a).astype("d"))),
    "transpose: shape": (of_op("transpose-2d"), (shape.Transpose, "infer", lambda s, a: (a.shape, a.dtype))),
    "partials widen": (of_op("sin"), (e.Sin, "partials", lambda s, y, a: [gn.cast(gn.cos(a), "float64")])),
    # derivatives of graphs
    "backward: last consumer wins": (two_consumers, (diff, "add", lambda *terms: terms[-1])),
    "Gauss-Newton: the full Hessian": (
        net, (laws, "gauss_newton_product", lambda cost, v, at=None: gn.hessian_product(cost, v))),
    "Gauss-Newton: no Hessian of the loss": (
        net, (curvature, "push_forward", lambda order, outputs, seeds: list(seeds.values()))),
    "Gauss-Newton: walks behind its places": (chained_outputs, (curvature, "pull_back", walks_on)),
    # passes
    "merge: 0.0 and -0.0": (signed_zeros, (Fill, "_key", lambda s: (s.number, s.of_shape, s.of_dtype))),
    "fold: a parameter": (parameter_and_input, (simplify, "_folded", parameter_folds)),
    "fold: ignores the dtype": (
        of_integers, (simplify, "fill", lambda n, shape, dtype: gn.fill(n, shape, "float64"))),
    "simplify: x · 0 = 0": (infinite, (simplify.RULES, e.Multiply, times_zero_is_zero)),
    "prune: first columns of the input": (joined, (shape, "_slice_or_whole", without_shift)),
    "expand: no shift by the maximum": (large_logits, (reduce, "shifted_node", lambda z, axis: z)),
    # plans
    "loops: values in each other's place": (two_results, (lowering, "Loop", stored_in_each_other_s_place)),
    "arena: memory is reused one step too early": (many_products, (schedule, "give_places", dead_too_early)),
    # back ends
    "exp: a shorter series": (graph(lambda a: [gn.exp(a)], x, laws=(7,)), (
        mathematics, "_exp_coefficients", lambda single, times: exp_coefficients(single, times)[:4]), *FRESH),
    "max of rows: the masked rest counts as 0": (
        graph(lambda a: [gn.max(a, 1)], rows.reshape(3, 21) - 3, laws=(7,)),
        (ReductionCode, "_combined_where", lambda s, fold, total, v, mask: s._combined(fold, total, v)),
        *FRESH),
    "product: a right operand is not packed in time": (
        graph(lambda a, b: [gn.tanh(a @ b) @ b], thirds, distinct(3, 3), laws=(7,)),
        (product_jobs.PackJob, "records", lambda s, *target: [])),
    "a back end that rounds": (net, (backends.AVAILABLE, "rounding", (__name__, "RoundingBackend"))),
    "a back end that gives NaN": (net, (backends.AVAILABLE, "failing", (__name__, "FailingBackend"))),
}
# fmt: on


@pytest.fixture(autouse=True)
def _without_a_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these faults is in the cuda back end, which would simulate large arrays for minutes."""
    for name in ("cuda", "cuda-tf32"):
        monkeypatch.delitem(backends.AVAILABLE, name)


@pytest.mark.parametrize("fault", MUTANTS)
def test_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, *patches = MUTANTS[fault]
    if check not in RIGHT:
        check()
        RIGHT.add(check)
    for target, name, wrong in patches:
        if isinstance(target, dict):
            monkeypatch.setitem(target, name, wrong)
        else:
            monkeypatch.setattr(target, name, wrong)
    # The pass itself is refused if it changes a dtype.
    with pytest.raises(UsageError if fault == "fold: ignores the dtype" else LawError):
        check()


#: Checks that the code as it is has passed.
RIGHT: set[Callable[[], None]] = set()


class Doubled(gn.Rowwise):
    """y[t] = 2 x[t], without derivatives"""

    signature = "... t -> ... t"

    @staticmethod
    def kernel(y, x):
        for t in range(x.shape[0]):
            y[t] = 2 * x[t]


class Squares(gn.Rowwise):
    """y = Σ_t x[t]², whose backward is made of an op without rules"""

    signature = "... t -> ..."

    @staticmethod
    def kernel(y, x):
        total = 0.0
        for t in range(x.shape[0]):
            total += x[t] * x[t]
        y[()] = total

    def backward(self, gy, y, *inputs):
        return (gy[..., None] * Doubled()(inputs[0]),)


class Tripled(Squares):
    def backward(self, gy, y, *inputs):
        return (gy[..., None] * 3 * Doubled()(inputs[0]),)


class Forward(Squares):
    """A tangent alone"""

    factor = 1.0
    backward = gn.Op.backward

    def rop(self, rx, y, *inputs):
        return gn.sum(rx * self.factor * Doubled()(inputs[0]), -1)


class WrongForward(Forward):
    factor = 1.1


def test_missing_rules_are_reported_and_the_others_are_checked() -> None:
    left_out = "so laws {} are not checked"
    for op, missing, wrong in (
        (Squares(), "has no rop, " + left_out.format("2, 4, 5") + "; backward is compared with finite", ""),
        (Tripled(), "Tripled has no rop", "Tripled: law 3 .*finite difference of forward.*is wrong"),
        (Forward(), "Forward has no backward, " + left_out.format("3, 4, 5"), ""),
        (WrongForward(), "no backward", r"WrongForward: law 2 .* rop is wrong"),
        (Doubled(), "no backward and no rop, " + left_out.format("2, 3, 4, 5"), ""),
    ):
        found = pytest.raises(LawError, match=wrong) if wrong else contextlib.nullcontext()
        with case(op), pytest.warns(UserWarning, match=missing), found:
            check_op(op, x)
    with warnings.catch_warnings():  # nothing is said of what was not asked for
        warnings.simplefilter("error")
        check_op(Squares(), x, laws=(1, 3, 7))


class Failing(Doubled):
    """A rule that fails where there is nothing, in a line of its own"""

    zero_if = "all"

    def backward(self, gy, y, *inputs):
        return (self(gy),)

    def rop(self, rx, y, *inputs):
        factors = np.ones(inputs[0].shape[-1:])
        factors[0] = 1
        return self(rx) * gn.constant(factors)


def test_an_exception_in_a_rule_is_reported_with_its_line() -> None:
    line = Failing.rop.__code__.co_firstlineno + 2
    with pytest.raises(LawError, match="Failing: law 2: IndexError: index 0 is out of bounds") as caught:
        check_op(Failing(), x)
    assert f"test_mutants.py:{line}\n" in str(caught.value)
    assert isinstance(caught.value.__cause__, IndexError)


def test_a_wrong_derivative_of_rop_is_found() -> None:
    """The value of rop is correct, but its derivative lacks a term."""

    class Square(gn.Op):
        signature = "... n -> ... n"

        def forward(self, x: Array) -> Array:
            return np.asarray(x * x)

        def backward(self, gy, y, x):
            return (2 * x * gy,)

        def rop(self, rx, y, x):
            return 2 * gn.stop_gradient(x) * rx

    with pytest.raises(LawError, match=r"law 5 \(gradient of rop = Hv\)"):
        check_op(Square(), np.array([0.3, -0.5]))
