"""The laws bite: each planted fault, one of a kind that happens, is caught by check_op or check_graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphnet as gn
from graphnet import backends
from graphnet.backends.compiled import schedule
from graphnet.backends.numba import jobs, mathematics, product_jobs
from graphnet.backends.numba.operands import OperandCode
from graphnet.backends.numba.reduction import ReductionCode
from graphnet.backends.numpy import NumpyBackend, NumpyProgram
from graphnet.graph.node import Array, ByIdentity, Node, Op
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

ALL_LAWS = (1, 2, 3, 4, 5, 6, 7, 8)

Patch = tuple[Any, Any, Any]


class Mutant(NamedTuple):
    """A fault: what it is, (object or dict, name, wrong replacement) for each change, and the check."""

    fault: str
    patches: Sequence[Patch]
    check: Callable[[], None]


@cache
def case(name: str) -> Callable[[], None]:
    """check_op on a case of the table."""
    found = next(case for case in CASES if case.id == name)
    return lambda: check_op(found.op, *found.arrays)


def graph(build: Callable[..., Any], *values: Array, laws: Sequence[int] = ALL_LAWS) -> Callable[[], None]:
    """check_graph on what `build` makes of one input for each value."""

    def check() -> None:
        leaves = [gn.input(v.shape, v.dtype) for v in values]
        check_graph(build(*leaves), leaves, values, laws)

    return check


# -- the graphs ---------------------------------------------------------------------------------

x = np.array([[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]])
y = np.array([[1.5, 0.5, -1.0], [0.75, -0.5, 2.5]])
W, twice = gn.constant(y.T / 2), gn.constant(np.sin(np.arange(12.0)).reshape(6, 2))
two_consumers = graph(lambda a: gn.sum(gn.tanh(a) * gn.sin(a)), x)
two_inputs = graph(lambda a, b: [gn.tanh(a) - gn.tanh(b)], x, y)
net = graph(lambda a, W: [gn.tanh(gn.tanh(a @ W) @ W.T)], x, y.T)
chained_outputs = graph(lambda a: [h := gn.tanh(a), gn.sin(h)], x)
constants = graph(lambda a: [a * gn.constant(y), a * gn.constant(y + 1)], x)
signed_zeros = graph(
    lambda a: [a / gn.fill(zero, a.shape, a.dtype) for zero in (0.0, -0.0)], x, laws=(1, 6, 7)
)
of_integers = graph(lambda a: [a, gn.fill(1, (2,), "int64") + gn.fill(2, (2,), "int64")], x)
infinite = graph(lambda a: [a * 0.0], np.array([1.0, np.inf]), laws=(1, 6, 7))
transposed_twice = graph(lambda a: [gn.transpose(gn.transpose(a, (1, 2, 0)), (0, 2, 1))], distinct(2, 2, 2))
parameter_and_input = graph(lambda a, b: [a * gn.tanh(b)], x, y)
joined = graph(lambda a, b: gn.concatenate([a, b], 1)[:, 4], x, y)
stacked = graph(lambda a, b: gn.stack([a, b, a * b], 1)[:, 1], x, y)
outer_products = graph(lambda a, b: [gn.add(a.T @ b, (a * b).T @ gn.sin(a), b.T @ a)], x, y)
shared_weight = graph(lambda a, b: [gn.sin(a @ W) - b @ W], x, y, laws=(1, 6, 7))
gates = graph(lambda a, b: [gn.sin(a @ W) * (a @ gn.cos(W)), b], x, y, laws=(1, 6, 7))
time_reversed = graph(lambda a, b: [gn.stack([a[1], a[0]]) * b], x, y, laws=(1, 6, 7))
two_functions = graph(lambda a: [gn.stack([gn.sin(a[0]), gn.cos(a[1])])], x, laws=(1, 6, 7))
large_logits = graph(lambda a: [gn.softmax(a), gn.log_softmax(a)], 1000 * x, laws=(1, 6, 7))
two_results = graph(lambda a, b: [h := gn.tanh(a * b), gn.sum(gn.sin(h), 0), h @ W], x, y, laws=(1, 6, 7))
side_by_side = graph(lambda a, b: [gn.concatenate([gn.tanh(a), gn.sin(b)], 1) @ twice], x, y, laws=(1, 6, 7))
one_after_another = graph(
    lambda a, b: [gn.concatenate([gn.tanh(a @ W), gn.sin(b @ W)]) @ W.T], x, y, laws=(1, 6, 7)
)
# As long as three blocks, whatever a block is.
long_product = graph(
    lambda a: [a @ gn.sin(a.T)], np.sin(np.arange(30.0 * product_jobs.BLOCK_K)).reshape(10, -1), laws=(7,)
)
square = np.sin(np.arange(400.0)).reshape(20, 20) / 3
many_products = graph(lambda a, b: [((((a.T @ b).T @ b).T @ b).T @ b).T @ b], square, square + 0.1, laws=(7,))
parts = graph(lambda a: gn.sum(gn.tanh(a[0]) * a[1]), x)


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


# -- the wrong replacements -----------------------------------------------------------------------


def where_backward_swapped(self: e.Where, gy: Node, y: Node, *inputs: Node) -> list[Node]:
    c = inputs[0]
    return [gn.fill(0, c.shape, gy.dtype), gn.where(c, 0, gy), gn.where(c, gy, 0)]


def broadcast_backward_first_row(self: BroadcastTo, gy: Node, y: Node, *inputs: Node) -> list[Node]:
    index = tuple(0 for _ in range(len(self.to) - inputs[0].ndim))
    kept = [slice(0, n) for n in inputs[0].shape]
    return [gy[(*index, *kept)]]


def scatter_overwrites(self: ScatterAdd, *arrays: Array) -> Array:
    rows, index = arrays
    result = np.zeros(
        (*rows.shape[: self.axis], self.size, *rows.shape[self.axis + index.ndim :]), rows.dtype
    )
    result[(slice(None),) * self.axis + (index,)] = rows
    return result


def concatenate_backward_reversed(self: shape.Concatenate, gy: Node, y: Node, *inputs: Node) -> list[Node]:
    pieces = shape_concatenate_backward(self, gy, y, *inputs)
    return list(reversed(pieces)) if len({p.shape for p in pieces}) == 1 else list(pieces)


def parameter_folds(node: Node) -> Node:
    if node.inputs and all(isinstance(source.op, (Constant, Fill, Parameter)) for source in node.inputs):
        return gn.constant(node.op.forward(*(source.op.forward() for source in node.inputs)))
    return node


def times_zero_is_zero(node: Node) -> Node | None:
    b = node.inputs[1]
    return b if isinstance(b.op, Fill) and b.op.number == 0 else None


def transposes_composed_backwards(node: Node) -> Node | None:
    (a,) = node.inputs
    if not isinstance(a.op, shape.Transpose):
        return None
    return gn.transpose(a.inputs[0], tuple(node.op.axes[axis] for axis in a.op.axes))


def first_column_lookup(node: Node) -> Node | None:
    a, b = node.inputs
    return Take(0)(b[::-1], a.inputs[0]) if isinstance(a.op, OneHot) else None


def without_shift(piece: Node, key: tuple[Any, ...]) -> Node:
    """The whole piece or its first elements, wherever the slice was."""
    return shape.Slice(tuple(0 if isinstance(k, int) else (0, k[1] - k[0], 1) for k in key))(piece)


def stack_off_by_one(stack: shape.Stack, key: tuple[Any, ...], y: Node, *inputs: Node) -> Node:
    return inputs[key[stack.axis] - 1]


def full_hessian(cost: Node, tangents: dict[Node, Any], at: Any = None) -> list[Node]:
    return gn.hessian_product(cost, tangents)


def without_loss_hessian(order: Any, outputs: Sequence[Node], seeds: dict[Node, Node]) -> list[Node]:
    return list(seeds.values())


def walks_on(*arguments: Any) -> list[Node]:
    return diff.pull_back(*arguments[:5])  # less the last, the places where walks stop


def joined_against_the_order(nodes: Sequence[Node], axis: int) -> Node:
    return gn.concatenate(list(nodes)[::-1], axis)


class RightFactorsReversed(joining.Joins):
    """[a_1 | a_2] [b_2; b_1]."""

    def __call__(self, nodes: Sequence[Node], axis: int) -> Node:
        is_transposed = isinstance(nodes[0].op, shape.Transpose)
        return super().__call__(list(nodes) if axis or is_transposed else list(nodes)[::-1], axis)


def parts_off_by_one(product: Node, members: Sequence[Node], axis: int) -> list[Node]:
    parts = split(product, members, axis)
    return [*parts[1:], parts[0]]


def whatever_was_sliced(nodes: Sequence[Node], axis: int) -> Node | None:
    """The source of slices, in whatever order they were cut."""
    first = nodes[0]
    return first.inputs[0] if isinstance(first.op, shape.Slice) else None


def first_function_for_all(pieces: Sequence[Node], *rest: Any) -> Node | None:
    first = pieces[0]
    if isinstance(first.op, e.Elementwise):
        pieces = [first.op(*p.inputs) if len(p.inputs) == len(first.inputs) else p for p in pieces]
        rest = (rest[0], rest[1] | set(pieces), rest[2])
    return batch_whole(pieces, *rest)


def stored_in_each_other_s_place(
    nodes: Any, of: Any, loads: Any, steps: Any, stores: Any, *a: Any, **k: Any
) -> Loop:
    numbers = [number for number, _ in stores]
    return Loop(
        nodes, of, loads, steps, list(zip(numbers[::-1], [v for _, v in stores], strict=True)), *a, **k
    )


def fresh_kernels() -> list[tuple[Any, str, Any]]:
    """Kernels are made anew, not taken from memory."""
    return [(jobs, "text_of", lambda kernel: kernel.text()), (jobs, "_layouts", {})]


def max_of_short_rows() -> None:
    """Law 7 in float32, of which three are less than a vector on any machine; check_graph takes float64."""
    values = np.array([[-3, -5, -4], [-2, -3, -4]], "float32")  # what lies behind the first row is more
    a = gn.input(values.shape)
    (found,) = gn.compile([gn.max(a, 1)], [a])(values)
    if found.tolist() != [-3, -2]:
        raise LawError(f"law 7: {found}")


def without_accumulation(self: Any, *arguments: Any) -> Any:
    return product_multiply(self, *arguments[:-1], False)


def dead_too_early(lives: Sequence[Any]) -> int:
    """Memory is given away while the last reader runs."""
    early = [(life.first, max(life.first, life.last - 1)) for life in lives]
    return schedule_give_places(
        [life._replace(last=e[1], epoch=(e[0] + 1, e[1])) for life, e in zip(lives, early, strict=True)]
    )


shape_concatenate_backward = shape.Concatenate.backward
exp_forward = e.Exp.forward
split, batch_whole, schedule_give_places = shape.split, batch._whole, schedule.give_places
placement_regions = placement.regions
exp_coefficients, product_multiply = mathematics._exp_coefficients, product_jobs.BlockedProductJob.multiply


class RoundingProgram(NumpyProgram):
    """Gives its results to four digits."""

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.round(value, 4) for value in super().run(arrays)]


class RoundingBackend(NumpyBackend):
    """A back end that is not quite right."""

    def build(self, *arguments: Any) -> RoundingProgram:
        return RoundingProgram(arguments[0], *arguments[2:4])


MUTANTS: tuple[Mutant, ...] = (
    # rules of ops
    Mutant(
        "tanh: its second derivative is stopped",
        [(e.Tanh, "partials", lambda s, y, *i: [gn.stop_gradient(1 - y * y)])],
        case("tanh"),
    ),
    Mutant("exp: said to be 0 at 0", [(e.Exp, "zero_if", "all")], case("exp")),
    Mutant("tanh: 1 - y for 1 - y²", [(e.Tanh, "partials", lambda s, y, *i: [1 - y])], case("tanh")),
    Mutant("subtract: rop adds", [(e.Subtract, "rop", lambda s, ra, rb, *_: ra + rb)], case("subtract")),
    Mutant("where: backward swapped", [(e.Where, "backward", where_backward_swapped)], case("where")),
    Mutant(
        "broadcast: no sum",
        [(BroadcastTo, "backward", broadcast_backward_first_row)],
        case("broadcast-both-ways"),
    ),
    Mutant(
        "concatenate: parts reversed",
        [(shape.Concatenate, "backward", concatenate_backward_reversed)],
        case("concatenate-shared"),
    ),
    Mutant(
        "slice: -1 as a stop",
        [(shape, "_numpy_key", lambda key: tuple(k if isinstance(k, int) else slice(*k) for k in key))],
        case("slice-reversed"),
    ),
    Mutant("scatter: overwrites", [(ScatterAdd, "forward", scatter_overwrites)], case("take-repeated")),
    # shapes and dtypes
    Mutant(
        "exp: always float64",
        [(e.Exp, "forward", lambda s, a: exp_forward(s, a).astype("float64"))],
        case("exp"),
    ),
    Mutant(
        "transpose: shape not permuted",
        [(shape.Transpose, "infer", lambda s, a: (a.shape, a.dtype))],
        case("transpose-2d"),
    ),
    Mutant(
        "partials widen", [(e.Sin, "partials", lambda s, y, a: [gn.cast(gn.cos(a), "float64")])], case("sin")
    ),
    # derivatives of graphs
    Mutant("backward: last consumer wins", [(diff, "add", lambda *terms: terms[-1])], two_consumers),
    Mutant("Gauss-Newton: the full Hessian", [(laws, "gauss_newton_product", full_hessian)], net),
    Mutant("Gauss-Newton: no Hessian of the loss", [(curvature, "push_forward", without_loss_hessian)], net),
    Mutant("Gauss-Newton: walks behind its places", [(curvature, "pull_back", walks_on)], chained_outputs),
    # passes
    Mutant(
        "merge: two inputs of one shape",
        [(ByIdentity, "__eq__", Op.__eq__), (ByIdentity, "__hash__", Op.__hash__)],
        two_inputs,
    ),
    Mutant("merge: constants by shape", [(Constant, "_key", lambda s: (s.value.shape,))], constants),
    Mutant(
        "merge: 0.0 and -0.0", [(Fill, "_key", lambda s: (s.number, s.of_shape, s.of_dtype))], signed_zeros
    ),
    Mutant("fold: a parameter", [(fold, "_replace", parameter_folds)], parameter_and_input),
    Mutant(
        "fold: ignores the dtype",
        [(fold, "fill", lambda n, shape, dtype: gn.fill(n, shape, "float64"))],
        of_integers,
    ),
    Mutant("simplify: x · 0 = 0", [(simplify.RULES, e.Multiply, times_zero_is_zero)], infinite),
    Mutant(
        "simplify: x - y = y - x",
        [(simplify.RULES, e.Subtract, lambda n: n.inputs[1] + -n.inputs[0])],
        two_inputs,
    ),
    Mutant(
        "simplify: transposes in the wrong order",
        [(simplify.RULES, shape.Transpose, transposes_composed_backwards)],
        transposed_twice,
    ),
    Mutant(
        "simplify: wrong row of a lookup", [(simplify.RULES, MatMul, first_column_lookup)], one_hot_product
    ),
    Mutant(
        "simplify: slices joined in order of use",
        [
            (
                simplify,
                "_sum_of_pads",
                lambda t: gn.stack([p.inputs[0] for p in t]) if isinstance(t[0].op, shape.Pad) else None,
            )
        ],
        parts,
    ),
    Mutant("prune: next input of a stack", [(shape.Stack, "sliced", stack_off_by_one)], stacked),
    Mutant("prune: first columns of the input", [(shape, "_slice_or_whole", without_shift)], joined),
    Mutant(
        "joins: against the order",
        [(joining, "concatenate", joined_against_the_order)],
        shared_weight,
    ),
    Mutant("stack: parts off by one, in rows", [(products, "split", parts_off_by_one)], shared_weight),
    Mutant(
        "stack sums: right factors against the order",
        [(products, "Joins", RightFactorsReversed)],
        outer_products,
    ),
    Mutant("batch: slices in any order", [(batch, "common_slice", whatever_was_sliced)], time_reversed),
    Mutant(
        "batch: the first input's function for all",
        [(batch, "_whole", first_function_for_all)],
        two_functions,
    ),
    Mutant(
        "expand: no shift by the maximum",
        [(reduce, "shifted_node", lambda z, axis: z)],
        large_logits,
    ),
    # plans
    Mutant(
        "loops: values in each other's place", [(lowering, "Loop", stored_in_each_other_s_place)], two_results
    ),
    Mutant(
        "placement: regions of the next input",
        [(placement, "regions", lambda join, view: [*placement_regions(join, view)][::-1])],
        side_by_side,
    ),
    Mutant(
        "placement: the links of a chain in one place",
        [(placement, "_size", lambda link: 0)],
        one_after_another,
    ),
    # recomputation
    Mutant(
        "recompute: nothing waits",
        [(recompute._Builder, "_waiting", lambda s, x: x)],
        recomputed,
    ),
    Mutant(
        "recompute: sums are added up at the end",
        [(recompute, "WIDE", 99), (recompute._Stages, "_is_collected", lambda s, node: False)],
        recomputed,
    ),
    Mutant(
        "unstack: a chunk backwards",
        [(shape.Stack, "rows", lambda op, some, of, y, *inputs: op(*inputs[some.start : some.stop][::-1]))],
        recomputed,
    ),
    Mutant(
        "unstack: a slice of a stack begins at 0",
        [(shape.Slice, "rows", lambda op, some, of, y, x: of(x, some))],
        recomputed,
    ),
    Mutant(
        "arena: memory is reused one step too early",
        [(schedule, "give_places", dead_too_early)],
        many_products,
    ),
    # back ends
    Mutant(
        "exp: a shorter series",
        [
            (mathematics, "_exp_coefficients", lambda single, times: exp_coefficients(single, times)[:4]),
            *fresh_kernels(),
        ],
        graph(lambda a: [gn.exp(a)], x, laws=(7,)),
    ),
    Mutant(
        "sigmoid: a tanh",
        [(mathematics.FUNCTIONS, "sigmoid", mathematics.hyperbolic_tangent), *fresh_kernels()],
        graph(lambda a: [gn.sigmoid(a)], x, laws=(7,)),
    ),
    Mutant(
        "max of rows: the masked rest counts as 0",
        [
            (
                ReductionCode,
                "_combined_where",
                lambda s, fold, total, v, mask: s._combined(fold, total, v),
            ),
            *fresh_kernels(),
        ],
        graph(lambda a: [gn.max(a, 1)], np.cos(np.arange(63.0)).reshape(3, 21) - 3, laws=(7,)),
    ),
    Mutant(
        "max of short rows: what lies behind counts",
        [(OperandCode, "_short_mask", lambda s: None), *fresh_kernels()],
        max_of_short_rows,
    ),
    Mutant(
        "reductions of rows side by side: results go to their neighbours",
        [
            (
                ReductionCode,
                "_across",
                lambda s, fold, totals, right=ReductionCode._across: right(s, fold, totals[::-1]),
            ),
            *fresh_kernels(),
        ],
        graph(lambda a: [gn.sum(a, 1)], np.cos(np.arange(63.0)).reshape(7, 9), laws=(7,)),
    ),
    Mutant(
        "fuse reductions: a maximum is a sum",
        [(Max, "how", "sum"), *fresh_kernels()],
        graph(lambda a: [gn.max(gn.tanh(a), 1)], x, laws=(7,)),
    ),
    Mutant(
        "loops: lookups by different indices share one",
        [
            (Loop, "twins", property(lambda self: [-1, *[0] * (len(self.loads) - 1)])),
            *fresh_kernels(),
        ],
        graph(lambda a: [gn.take(a, [0, 1]) * gn.take(a, [1, 0])], x, laws=(7,)),
    ),
    Mutant(
        "product: a transposed operand read as it lies",
        [(product_jobs, "_unit", lambda view: "k")],
        graph(lambda a, b: [a.T @ b], x, y, laws=(7,)),
    ),
    Mutant(
        "product in blocks: each overwrites the one before",
        [(product_jobs.BlockedProductJob, "multiply", without_accumulation)],
        long_product,
    ),
    Mutant(
        "product: a right operand is not packed in time",
        [(product_jobs.PackJob, "records", lambda s, *target: [])],
        graph(
            lambda a, b: [gn.tanh(a @ b) @ b],
            np.sin(np.arange(36.0)).reshape(12, 3),
            distinct(3, 3),
            laws=(7,),
        ),
    ),
    Mutant("a back end that rounds", [(backends.AVAILABLE, "rounding", (__name__, "RoundingBackend"))], net),
)


@pytest.fixture(autouse=True)
def _without_a_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these faults is in the cuda back end, which would simulate large arrays for minutes."""
    for name in ("cuda", "cuda-tf32"):
        monkeypatch.delitem(backends.AVAILABLE, name)


@cache
def right_code_passes(check: Callable[[], None]) -> bool:
    check()
    return True


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.fault for mutant in MUTANTS])
def test_fault_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert right_code_passes(mutant.check)
    for target, name, wrong in mutant.patches:
        if isinstance(target, dict):
            monkeypatch.setitem(target, name, wrong)
        else:
            monkeypatch.setattr(target, name, wrong)
    with pytest.raises(LawError):
        mutant.check()
