"""The laws bite: each planted fault, one of a kind that happens, is caught by check_op or check_graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet import backends
from graphnet.backends.compiled import schedule
from graphnet.backends.numba import jobs, mathematics, product_jobs
from graphnet.backends.numba.operands import OperandCode
from graphnet.backends.numba.reduction import ReductionCode
from graphnet.backends.numpy import NumpyBackend, NumpyProgram
from graphnet.graph.node import Array, ByIdentity, Op
from graphnet.ops import elementwise as e
from graphnet.ops import shape
from graphnet.ops.broadcast import BroadcastTo
from graphnet.ops.index import OneHot, ScatterAdd, Take
from graphnet.ops.leaf import Constant, Fill, Parameter
from graphnet.ops.linear import MatMul
from graphnet.ops.reduce import Max
from graphnet.plan import lowering, placement
from graphnet.plan.instructions import Loop
from graphnet.testing import LawError, check_graph, check_op
from tests.graphnet.ops.op_cases import CASES, distinct

#: The modules of which functions are replaced; `graphnet.passes.fold` as an attribute is the function.
curvature, diff, laws, reduce = (
    sys.modules[f"graphnet.{name}"]
    for name in ("derivatives.curvature", "derivatives.gradient", "testing.laws", "ops.reduce")
)
batch, fold, joining, products, recompute, simplify = (
    sys.modules[f"graphnet.passes.{name}"]
    for name in ("batch", "fold", "joining", "products", "recompute", "simplify")
)  # fmt: skip


@cache
def case(name: str) -> Callable[[], None]:
    """check_op on a case of the table."""
    found = next(case for case in CASES if case.id == name)
    return lambda: check_op(found.op, *found.arrays)


def graph(build, *values: Array, laws: Sequence[int] = range(1, 9)) -> Callable[[], None]:
    """check_graph on what `build` makes of one input for each value."""

    def check() -> None:
        leaves = [gn.input(v.shape, v.dtype) for v in values]
        check_graph(build(*leaves), leaves, values, laws)

    return check


x = np.array([[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]])
y = np.array([[1.5, 0.5, -1.0], [0.75, -0.5, 2.5]])
W, twice = gn.constant(y.T / 2), gn.constant(np.sin(np.arange(12.0)).reshape(6, 2))
SOME = (1, 6, 7)
# fmt: off
two_consumers = graph(lambda a: gn.sum(gn.tanh(a) * gn.sin(a)), x)
two_inputs = graph(lambda a, b: [gn.tanh(a) - gn.tanh(b)], x, y)
net = graph(lambda a, W: [gn.tanh(gn.tanh(a @ W) @ W.T)], x, y.T)
chained_outputs = graph(lambda a: [h := gn.tanh(a), gn.sin(h)], x)
constants = graph(lambda a: [a * gn.constant(y), a * gn.constant(y + 1)], x)
signed_zeros = graph(lambda a: [a / gn.fill(zero, a.shape, a.dtype) for zero in (0.0, -0.0)], x, laws=SOME)
of_integers = graph(lambda a: [a, gn.fill(1, (2,), "int64") + gn.fill(2, (2,), "int64")], x)
infinite = graph(lambda a: [a * 0.0], np.array([1.0, np.inf]), laws=SOME)
transposed_twice = graph(lambda a: [gn.transpose(gn.transpose(a, (1, 2, 0)), (0, 2, 1))], distinct(2, 2, 2))
parameter_and_input = graph(lambda a, b: [a * gn.tanh(b)], x, y)
joined = graph(lambda a, b: gn.concatenate([a, b], 1)[:, 4], x, y)
stacked = graph(lambda a, b: gn.stack([a, b, a * b], 1)[:, 1], x, y)
outer_products = graph(lambda a, b: [gn.add(a.T @ b, (a * b).T @ gn.sin(a), b.T @ a)], x, y)
shared_weight = graph(lambda a, b: [gn.sin(a @ W) - b @ W], x, y, laws=SOME)
time_reversed = graph(lambda a, b: [gn.stack([a[1], a[0]]) * b], x, y, laws=SOME)
two_functions = graph(lambda a: [gn.stack([gn.sin(a[0]), gn.cos(a[1])])], x, laws=SOME)
large_logits = graph(lambda a: [gn.softmax(a), gn.log_softmax(a)], 1000 * x, laws=SOME)
two_results = graph(lambda a, b: [h := gn.tanh(a * b), gn.sum(gn.sin(h), 0), h @ W], x, y, laws=SOME)
side_by_side = graph(lambda a, b: [gn.concatenate([gn.tanh(a), gn.sin(b)], 1) @ twice], x, y, laws=SOME)
chain = graph(lambda a, b: [gn.concatenate([gn.tanh(a @ W), gn.sin(b @ W)]) @ W.T], x, y, laws=SOME)
# As long as three blocks, whatever a block is.
three_blocks = np.sin(np.arange(30.0 * product_jobs.BLOCK_K)).reshape(10, -1)
square = np.sin(np.arange(400.0)).reshape(20, 20) / 3
many_products = graph(lambda a, b: [((((a.T @ b).T @ b).T @ b).T @ b).T @ b], square, square + 0.1, laws=(7,))
parts = graph(lambda a: gn.sum(gn.tanh(a[0]) * a[1]), x)
rows, thirds = np.cos(np.arange(63.0)), np.sin(np.arange(36.0)).reshape(12, 3)
# fmt: on


def one_hot_product() -> None:
    index, W = gn.input((3,), "int64"), gn.input((4, 2), "float64")
    check_graph(gn.one_hot(index, 4, "float64") @ W, [index, W], [np.array([3, 0, 3]), distinct(4, 2)])


def recomputed() -> None:
    """A loop of 24 steps with a loss at each: the same gradient from 0.6 of the memory."""
    x = gn.input((24, 4, 6), "float64")
    U = gn.parameter(np.cos(np.arange(36.0)).reshape(6, 6) / 4)
    s, states = gn.fill(0.0, (4, 6), "float64"), []
    for row in x:
        s = gn.tanh(s @ U + row)
        states.append(s)
    cost = gn.mean(gn.exp(gn.stack(states)[3:] * x[3:]))
    outputs = [cost, *gn.gradient(cost, [U])]
    plain, less = (gn.compile(outputs, [x], backend="numpy", memory=memory) for memory in (None, "sqrt"))
    array = np.sin(np.arange(x.size)).reshape(x.shape)
    for a, b in zip(less(array), plain(array), strict=True):
        if not np.allclose(a, b, rtol=1e-10, atol=1e-12):
            raise LawError("recomputation changes the result")
    if less.memory.peak > 0.6 * plain.memory.peak:
        raise LawError("recomputation saves little")


def where_backward_swapped(self, gy, y, c, *inputs):
    return [gn.fill(0, c.shape, gy.dtype), gn.where(c, 0, gy), gn.where(c, gy, 0)]


def backward_of_the_first_row(self, gy, y, a):
    return [gy[(*(0 for _ in range(len(self.to) - a.ndim)), *(slice(0, n) for n in a.shape))]]


def scatter_overwrites(self, rows, index):
    shape = (*rows.shape[: self.axis], self.size, *rows.shape[self.axis + index.ndim :])
    result = np.zeros(shape, rows.dtype)
    result[(slice(None),) * self.axis + (index,)] = rows
    return result


def concatenate_backward_reversed(self, gy, y, *inputs):
    pieces = shape_concatenate_backward(self, gy, y, *inputs)
    return list(reversed(pieces)) if len({p.shape for p in pieces}) == 1 else list(pieces)


def parameter_folds(node):
    if node.inputs and all(isinstance(source.op, (Constant, Fill, Parameter)) for source in node.inputs):
        return gn.constant(node.op.forward(*(source.op.forward() for source in node.inputs)))
    return node


def times_zero_is_zero(node):
    b = node.inputs[1]
    return b if isinstance(b.op, Fill) and b.op.number == 0 else None


def transposes_composed_backwards(node):
    (a,) = node.inputs
    if isinstance(a.op, shape.Transpose):
        return gn.transpose(a.inputs[0], tuple(node.op.axes[axis] for axis in a.op.axes))
    return None


def first_column_lookup(node):
    a, b = node.inputs
    return Take(0)(b[::-1], a.inputs[0]) if isinstance(a.op, OneHot) else None


def slices_in_order_of_use(t):
    return gn.stack([p.inputs[0] for p in t]) if isinstance(t[0].op, shape.Pad) else None


def without_shift(piece, key):
    """The whole piece or its first elements, wherever the slice was."""
    return shape.Slice(tuple(0 if isinstance(k, int) else (0, k[1] - k[0], 1) for k in key))(piece)


def walks_on(*arguments):
    return diff.pull_back(*arguments[:5])  # less the last, the places where walks stop


def joined_against_the_order(nodes, axis):
    return gn.concatenate(list(nodes)[::-1], axis)


class RightFactorsReversed(joining.Joins):
    """[a_1 | a_2] [b_2; b_1]."""

    def __call__(self, nodes, axis):
        is_transposed = isinstance(nodes[0].op, shape.Transpose)
        return super().__call__(list(nodes) if axis or is_transposed else list(nodes)[::-1], axis)


def parts_off_by_one(product, members, axis):
    parts = split(product, members, axis)
    return [*parts[1:], parts[0]]


def whatever_was_sliced(nodes, axis):
    """The source of slices, in whatever order they were cut."""
    return nodes[0].inputs[0] if isinstance(nodes[0].op, shape.Slice) else None


def first_function_for_all(pieces, *rest):
    first = pieces[0]
    if isinstance(first.op, e.Elementwise):
        pieces = [first.op(*p.inputs) if len(p.inputs) == len(first.inputs) else p for p in pieces]
        rest = (rest[0], rest[1] | set(pieces), rest[2])
    return batch_whole(pieces, *rest)


def stored_in_each_other_s_place(nodes, of, loads, steps, stores, *a, **k):
    numbers = [number for number, _ in stores]
    return Loop(nodes, of, loads, steps, [*zip(numbers[::-1], [v for _, v in stores], strict=True)], *a, **k)


#: Kernels are made anew, not taken from memory.
FRESH = [(jobs, "text_of", lambda kernel: kernel.text()), (jobs, "_layouts", {})]


def max_of_short_rows() -> None:
    """Law 7 in float32, of which three are less than a vector on any machine; check_graph takes float64."""
    values = np.array([[-3, -5, -4], [-2, -3, -4]], "float32")  # what lies behind the first row is more
    a = gn.input(values.shape)
    (found,) = gn.compile([gn.max(a, 1)], [a])(values)
    if found.tolist() != [-3, -2]:
        raise LawError(f"law 7: {found}")


def without_accumulation(self, *arguments):
    return product_multiply(self, *arguments[:-1], False)


def dead_too_early(lives):
    """Memory is given away while the last reader runs."""
    ends = [max(life.first, life.last - 1) for life in lives]
    early = [
        life._replace(last=end, epoch=(life.first + 1, end)) for life, end in zip(lives, ends, strict=True)
    ]
    return schedule_give_places(early)


shape_concatenate_backward = shape.Concatenate.backward
exp_forward = e.Exp.forward
split, batch_whole, schedule_give_places = shape.split, batch._whole, schedule.give_places
placement_regions, reduced_across = placement.regions, ReductionCode._across
exp_coefficients, product_multiply = mathematics._exp_coefficients, product_jobs.BlockedProductJob.multiply


class RoundingProgram(NumpyProgram):
    """Gives its results to four digits."""

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.round(value, 4) for value in super().run(arrays)]


class RoundingBackend(NumpyBackend):
    """A back end that is not quite right."""

    def build(self, *arguments: Any) -> RoundingProgram:
        return RoundingProgram(arguments[0], *arguments[2:4])


#: What the fault is: the check, then (object or dict, name, wrong replacement) for each change.
# fmt: off
MUTANTS: dict[str, Any] = {
    # rules of ops
    "tanh: its second derivative is stopped": (
        case("tanh"), (e.Tanh, "partials", lambda s, y, *i: [gn.stop_gradient(1 - y * y)])),
    "exp: said to be 0 at 0": (case("exp"), (e.Exp, "zero_if", "all")),
    "tanh: 1 - y for 1 - y²": (case("tanh"), (e.Tanh, "partials", lambda s, y, *i: [1 - y])),
    "subtract: rop adds": (case("subtract"), (e.Subtract, "rop", lambda s, ra, rb, *_: ra + rb)),
    "where: backward swapped": (case("where"), (e.Where, "backward", where_backward_swapped)),
    "broadcast: no sum": (case("broadcast-both-ways"), (BroadcastTo, "backward", backward_of_the_first_row)),
    "concatenate: parts reversed": (
        case("concatenate-shared"), (shape.Concatenate, "backward", concatenate_backward_reversed)),
    "slice: -1 as a stop": (case("slice-reversed"), (
        shape, "_numpy_key", lambda key: tuple(k if isinstance(k, int) else slice(*k) for k in key))),
    "scatter: overwrites": (case("take-repeated"), (ScatterAdd, "forward", scatter_overwrites)),
    # shapes and dtypes
    "exp: always float64": (case("exp"), (e.Exp, "forward", lambda s, a: exp_forward(s, a).astype("d"))),
    "transpose: shape": (case("transpose-2d"), (shape.Transpose, "infer", lambda s, a: (a.shape, a.dtype))),
    "partials widen": (case("sin"), (e.Sin, "partials", lambda s, y, a: [gn.cast(gn.cos(a), "float64")])),
    # derivatives of graphs
    "backward: last consumer wins": (two_consumers, (diff, "add", lambda *terms: terms[-1])),
    "Gauss-Newton: the full Hessian": (
        net, (laws, "gauss_newton_product", lambda cost, v, at=None: gn.hessian_product(cost, v))),
    "Gauss-Newton: no Hessian of the loss": (
        net, (curvature, "push_forward", lambda order, outputs, seeds: list(seeds.values()))),
    "Gauss-Newton: walks behind its places": (chained_outputs, (curvature, "pull_back", walks_on)),
    # passes
    "merge: two inputs of one shape": (
        two_inputs, (ByIdentity, "__eq__", Op.__eq__), (ByIdentity, "__hash__", Op.__hash__)),
    "merge: constants by shape": (constants, (Constant, "_key", lambda s: (s.value.shape,))),
    "merge: 0.0 and -0.0": (signed_zeros, (Fill, "_key", lambda s: (s.number, s.of_shape, s.of_dtype))),
    "fold: a parameter": (parameter_and_input, (fold, "_replace", parameter_folds)),
    "fold: ignores the dtype": (
        of_integers, (fold, "fill", lambda n, shape, dtype: gn.fill(n, shape, "float64"))),
    "simplify: x · 0 = 0": (infinite, (simplify.RULES, e.Multiply, times_zero_is_zero)),
    "simplify: x - y = y - x": (
        two_inputs, (simplify.RULES, e.Subtract, lambda n: n.inputs[1] + -n.inputs[0])),
    "simplify: transposes in the wrong order": (
        transposed_twice, (simplify.RULES, shape.Transpose, transposes_composed_backwards)),
    "simplify: wrong row of a lookup": (one_hot_product, (simplify.RULES, MatMul, first_column_lookup)),
    "simplify: slices joined in order of use": (parts, (simplify, "_sum_of_pads", slices_in_order_of_use)),
    "prune: next input of a stack": (
        stacked, (shape.Stack, "sliced", lambda s, key, y, *inputs: inputs[key[s.axis] - 1])),
    "prune: first columns of the input": (joined, (shape, "_slice_or_whole", without_shift)),
    "joins: against the order": (shared_weight, (joining, "concatenate", joined_against_the_order)),
    "stack: parts off by one, in rows": (shared_weight, (products, "split", parts_off_by_one)),
    "stack sums: right factors reversed": (outer_products, (products, "Joins", RightFactorsReversed)),
    "batch: slices in any order": (time_reversed, (batch, "common_slice", whatever_was_sliced)),
    "batch: the first input's function for all": (two_functions, (batch, "_whole", first_function_for_all)),
    "expand: no shift by the maximum": (large_logits, (reduce, "shifted_node", lambda z, axis: z)),
    # plans
    "loops: values in each other's place": (two_results, (lowering, "Loop", stored_in_each_other_s_place)),
    "placement: regions of the next input": (
        side_by_side, (placement, "regions", lambda join, view: [*placement_regions(join, view)][::-1])),
    "placement: the links of a chain in one place": (chain, (placement, "_size", lambda link: 0)),
    # recomputation
    "recompute: nothing waits": (recomputed, (recompute._Builder, "_waiting", lambda s, x: x)),
    "recompute: sums are added up at the end": (
        recomputed, (recompute, "WIDE", 99), (recompute._Stages, "_is_collected", lambda s, node: False)),
    "unstack: a chunk backwards": (recomputed, (
        shape.Stack, "rows", lambda op, some, of, y, *inputs: op(*inputs[some.start : some.stop][::-1]))),
    "unstack: a slice of a stack begins at 0": (
        recomputed, (shape.Slice, "rows", lambda op, some, of, y, x: of(x, some))),
    "arena: memory is reused one step too early": (many_products, (schedule, "give_places", dead_too_early)),
    # back ends
    "exp: a shorter series": (graph(lambda a: [gn.exp(a)], x, laws=(7,)), (
        mathematics, "_exp_coefficients", lambda single, times: exp_coefficients(single, times)[:4]), *FRESH),
    "sigmoid: a tanh": (graph(lambda a: [gn.sigmoid(a)], x, laws=(7,)), (
        mathematics.FUNCTIONS, "sigmoid", mathematics.hyperbolic_tangent), *FRESH),
    "max of rows: the masked rest counts as 0": (
        graph(lambda a: [gn.max(a, 1)], rows.reshape(3, 21) - 3, laws=(7,)),
        (ReductionCode, "_combined_where", lambda s, fold, total, v, mask: s._combined(fold, total, v)),
        *FRESH),
    "max of short rows: what lies behind counts": (
        max_of_short_rows, (OperandCode, "_short_mask", lambda s: None), *FRESH),
    "reductions of rows side by side: results go to their neighbours": (
        graph(lambda a: [gn.sum(a, 1)], rows.reshape(7, 9), laws=(7,)),
        (ReductionCode, "_across", lambda s, fold, totals: reduced_across(s, fold, totals[::-1])), *FRESH),
    "fuse reductions: a maximum is a sum": (
        graph(lambda a: [gn.max(gn.tanh(a), 1)], x, laws=(7,)), (Max, "how", "sum"), *FRESH),
    "loops: lookups by different indices share one": (
        graph(lambda a: [gn.take(a, [0, 1]) * gn.take(a, [1, 0])], x, laws=(7,)),
        (Loop, "twins", property(lambda self: [-1, *[0] * (len(self.loads) - 1)])), *FRESH),
    "product: a transposed operand read as it lies": (
        graph(lambda a, b: [a.T @ b], x, y, laws=(7,)), (product_jobs, "_unit", lambda view: "k")),
    "product in blocks: each overwrites the one before": (
        graph(lambda a: [a @ gn.sin(a.T)], three_blocks, laws=(7,)),
        (product_jobs.BlockedProductJob, "multiply", without_accumulation)),
    "product: a right operand is not packed in time": (
        graph(lambda a, b: [gn.tanh(a @ b) @ b], thirds, distinct(3, 3), laws=(7,)),
        (product_jobs.PackJob, "records", lambda s, *target: [])),
    "a back end that rounds": (net, (backends.AVAILABLE, "rounding", (__name__, "RoundingBackend"))),
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
    with pytest.raises(LawError):
        check()


#: Checks that the code as it is has passed.
RIGHT: set[Callable[[], None]] = set()
