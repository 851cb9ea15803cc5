"""User-defined ops work with passes, back ends, files and pictures; optional declarations improve them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet import passes
from graphnet.errors import BackendError, DifferentiationError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops.leaf import zeros
from graphnet.ops.shape import Slice
from graphnet.plan import lower
from graphnet.plan.instructions import Host, Loop
from tests.graphnet.backends.conftest import require_close
from tests.tables import case

GENERATOR = np.random.default_rng(3)


@dataclass(frozen=True, eq=False)
class RunningSum(gn.Op):
    """y[..., t, ...] = Σ_{s ≤ t} x[..., s, ...] along an axis, or Σ_{s ≥ t}"""

    axis: int = 0
    from_end: bool = False

    def infer(self, *inputs):
        return inputs[0].shape, inputs[0].dtype

    def forward(self, x):
        if self.from_end:
            return np.flip(np.flip(x, self.axis).cumsum(self.axis, dtype=x.dtype), self.axis)
        return x.cumsum(self.axis, dtype=x.dtype)

    def backward(self, gy, y, x):
        return (type(self)(self.axis, not self.from_end)(gy),)

    def rop(self, rx, y, x):
        return self(rx)


class SayingSum(RunningSum):
    """y[..., t, ...] = Σ_{s ≤ t} x[..., s, ...] along an axis, or Σ_{s ≥ t}: of what a triangle lets through"""

    def expanded(self, y, x):
        size = y.shape[self.axis]
        triangle = np.tri(size, dtype=bool)
        others = (1,) * (x.ndim - self.axis - 1)
        read = gn.constant((triangle.T if self.from_end else triangle).reshape(size, size, *others))
        rows = gn.reshape(x, (*x.shape[: self.axis], 1, *x.shape[self.axis :]))
        return gn.cast(gn.sum(gn.where(read, rows, gn.fill(0, (), x.dtype)), self.axis + 1), x.dtype)

    def row_offset(self, y, x):
        return 0 if self.axis > 0 else None


@dataclass(frozen=True, eq=False)
class Flip(gn.Op):
    """y[i] = x[n - 1 - i] along the first axis: looks at the same memory"""

    zero_if = "all"
    moves = True

    def infer(self, *inputs):
        return inputs[0].shape, inputs[0].dtype

    def view(self, x):
        rows, *others = x.shape
        return x.sliced(((rows - 1, -1, -1), *((0, size, 1) for size in others)))

    def rows(self, some, of, y, x):
        count = y.shape[0]
        found = of(x, range(count - some.stop, count - some.start))
        return None if found is None else self(found)

    def sliced(self, key, y, x):
        first, *rest = key
        return Slice((y.shape[0] - 1 - first, *rest))(x) if isinstance(first, int) else None

    def forward(self, x):
        return x[::-1]

    def backward(self, gy, y, x):
        return (self(gy),)

    def rop(self, rx, y, x):
        return self(rx)


@pytest.mark.cuda
def test_all_laws() -> None:
    for op, shape in (
        (RunningSum(0), (4, 3)), (RunningSum(1), (2, 3, 2)), (RunningSum(0), (0, 3)), (SayingSum(0), (4, 3)),
        (SayingSum(1), (2, 3, 2)), (SayingSum(2), (2, 3, 4)), (Flip(), (4, 3)), (Flip(), (1,)),
    ):  # fmt: skip
        with case(op, shape):
            gn.testing.check_op(op, GENERATOR.standard_normal(shape), narrow=True)


def recurrent(kind: type[RunningSum], steps: int = 40) -> tuple[list[Node], list[Node], list[Array]]:
    """Running sums of each state, of the stack of all along its units and along time, and of a weight."""
    x = gn.input((steps, 6, 4), "float64", name="x")
    W, U = (gn.parameter(np.random.default_rng(i).standard_normal((4, 4)) / 3, name="WU"[i]) for i in (0, 1))
    h, states = gn.constant(np.zeros((6, 4))), []
    for t in range(steps):
        h = gn.tanh(x[t] @ W + kind(1)(h) @ U / 4)
        states.append(h)
    stacked = kind(2, from_end=True)(gn.stack(states))
    late = gn.sin(kind(0)(gn.stack(states[::2])) / steps)
    cost = gn.mean(gn.sum(stacked * stacked, 0)) + gn.mean(late) + gn.mean(kind(0)(W) ** 2)
    v = {W: np.ones(W.shape), U: np.ones(U.shape)}
    nodes = [cost, *gn.gradient(cost, [W, U]), *gn.hessian_product(cost, v)]
    return nodes, [x], [np.random.default_rng(2).standard_normal(x.shape)]


@pytest.mark.parametrize("kind", [RunningSum, SayingSum])
def test_custom_ops_in_a_recurrent_net_in_any_order(kind: type[RunningSum]) -> None:
    nodes, inputs, arrays = recurrent(kind)
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())(*arrays)
    for settings in ({}, {"memory": "sqrt"}, {"check": True}, {"threads": 1}):
        with case(settings):
            require_close(gn.compile(nodes, inputs, **settings)(*arrays), expected, rtol=1e-11, atol=1e-13)
    nodes, inputs, arrays = recurrent(kind, 6)
    gn.testing.require_same_in_any_order(Graph(nodes, inputs), arrays)


def test_only_expanding_ops_are_native_and_stored(tmp_path: Path) -> None:
    nodes, inputs, _ = recurrent(RunningSum, 3)
    function = gn.compile(nodes, inputs)
    assert any(isinstance(step, Host) for step in lower(function.graph).instructions)
    nodes, inputs, arrays = recurrent(SayingSum, 3)
    function = gn.compile(nodes, inputs)
    assert not any(isinstance(step, Host) for step in lower(function.graph).instructions)
    function.save(tmp_path / "function")
    require_close(gn.load_function(tmp_path / "function")(*arrays), function(*arrays))


def test_an_op_with_declared_rows_is_freed_segment_by_segment() -> None:
    """With recomputation, a stack of all time steps under it is never whole."""
    peaks = {}
    for kind in (RunningSum, SayingSum):
        x, W = gn.input((200, 32, 4), name="x"), gn.parameter(np.eye(4, dtype="float32"))
        h, states = gn.fill(0, (32, 4), "float32"), []
        for t in range(200):
            h = gn.tanh((x[t] + h) @ W)
            states.append(h)
        cost = gn.sum(gn.exp(gn.sin(kind(2)(gn.stack(states)))))
        function = gn.compile([cost, *gn.gradient(cost, [W])], [x], backend="numpy", memory="sqrt")
        peaks[kind] = function.memory.peak
    assert peaks[SayingSum] < 0.7 * peaks[RunningSum]


def test_custom_views_are_free_and_slices_move_through() -> None:
    x, value = gn.input((5, 3), "float64"), np.arange(15.0).reshape(5, 3) / 9
    function = gn.compile([Flip()(gn.tanh(x)) * 2, Flip()(gn.exp(x))[1]])
    instructions = lower(function.graph).instructions
    assert len(instructions) <= 3 and {type(step) for step in instructions} == {Loop}  # noqa: PT018
    (loop,) = [step for step in instructions if any("tanh" in inner.kernel for inner in step.steps)]
    assert loop.nodes[0].op.name == "Tanh"
    found, row = function(value)
    np.testing.assert_allclose(found, 2 * np.tanh(value)[::-1], rtol=1e-13)
    np.testing.assert_allclose(row, np.exp(value)[3], rtol=1e-13)
    (row,) = passes.prune(Graph([Flip()(x)[1]])).outputs
    assert [node.op.name for node in Graph([row]).order] == ["Input", "Slice"]


class Backwards(gn.Op):
    """y[i] = x_flat[n - 1 - i]: a view of what lies in its order"""

    def infer(self, *inputs):
        return (inputs[0].size,), inputs[0].dtype

    def view(self, x):
        flat = x.reshaped((math.prod(x.shape),))
        return None if flat is None else flat.sliced(((flat.shape[0] - 1, -1, -1),))

    def forward(self, x):
        return x.reshape(-1)[::-1]


def test_custom_views_of_non_contiguous_arrays() -> None:
    x = gn.input((5, 3), "float64")
    nodes = [Backwards()(gn.exp(x).T) + 1, Backwards()(x[:, 1:])]
    found = gn.compile(nodes)(value := np.arange(15.0).reshape(5, 3) / 9)
    np.testing.assert_allclose(found[0], np.exp(value).T.reshape(-1)[::-1] + 1, rtol=1e-13)
    np.testing.assert_array_equal(found[1], value[:, 1:].reshape(-1)[::-1])


class Frozen(gn.Op):
    """y = x², a constant to every derivative"""

    signature = "... -> ..."
    stops_gradient = True

    def forward(self, x):
        return x * x

    def backward(self, gy, y, x):
        return (zeros(x.shape, x.dtype),)

    def rop(self, rx, y, x):
        return zeros(y.shape, y.dtype)


class OwnProduct(gn.Op):
    """c[n, m] = Σ_k a[n, k] b[k, m]"""

    signature = "n k, k m -> n m"
    zero_if = "any"
    is_product = True

    def forward(self, a, b):
        return a @ b

    def backward(self, gc, c, a, b):
        return self(gc, b.T), self(a.T, gc)

    def rop(self, ra, rb, c, a, b):
        return self(ra, b) + self(a, rb)


def test_passes_and_derivatives_use_declared_properties() -> None:
    x, W = gn.input((5, 3), "float64"), gn.parameter(GENERATOR.standard_normal((3, 3)))
    values = GENERATOR.standard_normal((5, 3))
    moved = Graph([Flip()(gn.tanh(x)) + Flip()(gn.sin(x))])
    assert [node.op.name for node in passes.simplify(moved).order].count("Flip") == 1
    gn.testing.check_op(Frozen(), values)
    cost = gn.sum(gn.squared_error(x @ W, 0)) + gn.sum(Frozen()(W))
    gn.gauss_newton_product(cost, {W: np.ones((3, 3))})  # no way around what the loss judges
    gn.testing.check_op(OwnProduct(), values, W.value)
    products = [OwnProduct()(f(x), W) for f in (gn.tanh, gn.sin, gn.cos)]
    names = [node.op.name for node in passes.optimize(Graph(products))[0].order]
    assert (names.count("OwnProduct"), names.count("MatMul")) == (0, 1)


def saying(base: type[gn.Op], **said: Any) -> type[gn.Op]:
    return type(base.__name__, (base,), {"__doc__": base.__doc__, **said})


def product(op: Any, y: Node, x: Node) -> Node:
    """With a triangle of ones and zeros; 0 · ∞ is NaN."""
    triangle = np.tri(y.shape[0], dtype=y.dtype)
    return gn.constant(triangle.T if op.from_end else triangle) @ x


LIES: dict[str, tuple[gn.Op, str]] = {
    "rows that depend on others": (saying(SayingSum, row_offset=lambda op, y, x: 0)(0), "rows"),
    "an offset": (saying(SayingSum, row_offset=lambda op, y, x: 1)(1), r"row_offset.*row i \+ 1"),
    "rows that are not there": (
        saying(Flip, rows=lambda op, some, of, y, x: of(x, range(some.start + 1, some.stop + 1)))(), "reads range"),
    "rows as they lie": (saying(Flip, rows=lambda op, some, of, y, x: of(x, some))(), r"not true .*`rows`"),
    "axes that depend": (saying(SayingSum, aligned_axes=lambda op, axis, y, x: (axis,))(1), r"of axis 1 is \[1\]"),
    "longer": (saying(SayingSum, aligned_axes=lambda op, axis, y, x: (1 - axis,))(1), "`aligned_axes`.*as long as"),
    "axes of fewer inputs": (saying(SayingSum, aligned_axes=lambda op, axis, y, x: ())(1), "one entry for each"),
    "another value": (saying(SayingSum, expanded=lambda op, y, x: x + x)(1), "is equal to the result of forward"),
    "another shape": (saying(SayingSum, expanded=lambda op, y, x: x[0])(1), r"`expanded` has shape \[3, 2\]"),
    "a slice as it lies": (saying(Flip, sliced=lambda op, key, y, x: x[key[0]])(), "`sliced` by"),
    "memory as it lies": (saying(Flip, view=lambda op, x: x)(), "by `view`"),
    "elements that are not there": (saying(SayingSum, moves=True)(1), "moves = True"),
    "a sum of sums": (saying(RunningSum, zero_if="all", forward=lambda op, x: x * abs(x))(), 'zero_if = "all"'),
    "other elements": (saying(RunningSum, is_elementwise=True)(), "is_elementwise = True"),
    "no factors": (saying(RunningSum, is_product=True)(), "is_product = True"),
    "no codes": (saying(RunningSum, is_one_hot=True)(), "is_one_hot = True"),
    "no join": (saying(RunningSum, joins_along=0)(), "joins_along = 0"),
    "a derivative": (saying(RunningSum, stops_gradient=True)(), "stops_gradient = True"),
    "another number": (saying(RunningSum, everywhere=1)(), "everywhere = 1"),
}  # fmt: skip


def test_wrong_results_of_forward_are_rejected() -> None:
    x = gn.input((3, 4), "float64", name="x")
    given = np.ones((3, 4))
    for result in (lambda x: None, lambda x: x[0], lambda x: x[None], lambda x: x + 1j):
        op = saying(RunningSum, forward=lambda op, x, result=result: result(x))()
        for backend in ("numpy", "numba"):
            function = gn.compile([op(x)], [x], backend=backend)
            with pytest.raises(BackendError, match=r"RunningSum.forward returned .* RunningSum\[3, 4\]"):
                function(given)

    k = gn.input((2,), "int8", name="k")
    op = saying(RunningSum, forward=lambda op, x: np.array([100, 500]))()
    with pytest.raises(BackendError, match=r"RunningSum.forward returned int64 .* which is int8"):
        gn.compile([op(k)], [k])(np.ones(2, "int8"))


class Half(gn.Elementwise):
    """y = 1.5 x"""

    kernel, domain = "x * 1.5", "number"

    def forward(self, x):
        return x * 1.5


def test_invalid_elementwise_ops_are_rejected() -> None:
    x = gn.input((3,), "float64", name="x")
    with pytest.raises(
        DifferentiationError, match=r"Half has no partials, .* Give the op a `partials` method"
    ):
        gn.gradient(gn.sum(Half()(x)), [x])
    i = gn.input((3,), "int64", name="i")
    for kernel, problem in {
        "x * 1.5": "has the number 1.5",
        "x / 2": "divides",
        "sqrt(x)": "calls sqrt",
    }.items():
        op = saying(Half, kernel=kernel)()
        with case(kernel), pytest.raises(BackendError, match=f"{problem}, but computes with int64"):
            gn.compile([op(i)], [i])
    with pytest.raises(gn.UsageError, match=r"Elementwise: the kernel 'x \+ y' reads y, but arity is 1"):
        saying(gn.Elementwise, kernel="x + y", forward=lambda op, x: x)()(x)
    for name, value in (("kernel", None), ("domain", "floats"), ("arity", "2"), ("arity", True)):
        with pytest.raises(gn.UsageError, match=rf"Half.{name} must be .* not {value!r}"):
            saying(Half, **{name: value})()(x)


def test_wrong_declarations_fail_the_laws() -> None:
    for lie, (op, message) in LIES.items():
        with case(lie), pytest.raises(gn.testing.LawError, match=f"{op.name}: .*{message}"):
            gn.testing.check_op(op, GENERATOR.standard_normal((4, 3, 2)), laws=())
    x = GENERATOR.standard_normal((4, 3))
    with pytest.raises(gn.testing.LawError, match=r"law 9 \(back end \w+ = numpy, with inf in .* input 1"):
        gn.testing.check_op(saying(RunningSum, expanded=product)(), x)
    widened = saying(RunningSum, forward=lambda op, x: np.cumsum(x, op.axis))()
    with pytest.raises(gn.testing.LawError, match=r"(?s)law 1: .*forward returned int64 .*bool.*`prepare`"):
        gn.testing.check_op(widened, x, laws=(1,), narrow=True)
    rules = {
        "forward": lambda op, x, y: x - y,
        "partials": lambda op, z, x, y: [gn.fill(s, z.shape, z.dtype) for s in (1, -1)],
    }
    difference = saying(gn.Elementwise, kernel="x - y", arity=2, commutes=True, **rules)
    with pytest.raises(gn.testing.LawError, match="it declares `commutes = True`"):
        gn.testing.check_op(difference(), x, x + 1)
