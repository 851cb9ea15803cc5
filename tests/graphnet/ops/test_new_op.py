"""A new op is one class: passes, back ends, files and pictures take it as it is, and more so the more it says.

No module of graphnet or viz names the ops of this file. The first has its three rules and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import viz
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Dtype, Key, Node, RowsOf, S, Shape
from graphnet.ops.shape import Slice
from graphnet.plan import lower
from graphnet.plan.instructions import Host, Loop
from tests.tables import case

GENERATOR = np.random.default_rng(3)


@dataclass(frozen=True, eq=False)
class RunningSum(gn.Op):
    """y[..., t, ...] = Σ_{s ≤ t} x[..., s, ...] along an axis, or Σ_{s ≥ t}"""

    axis: int = 0
    from_end: bool = False

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, inputs[0].dtype

    def forward(self, x: Array) -> Array:
        if self.from_end:
            return np.flip(np.flip(x, self.axis).cumsum(self.axis, dtype=x.dtype), self.axis)
        return x.cumsum(self.axis, dtype=x.dtype)

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (type(self)(self.axis, not self.from_end)(gy),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


class SayingSum(RunningSum):
    """y[..., t, ...] = Σ_{s ≤ t} x[..., s, ...] along an axis, or Σ_{s ≥ t}: of what a triangle lets through"""

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        x, size = inputs[0], y.shape[self.axis]
        triangle = np.tri(size, dtype=bool)
        others = (1,) * (x.ndim - self.axis - 1)
        read = gn.constant((triangle.T if self.from_end else triangle).reshape(size, size, *others))
        rows = gn.reshape(x, (*x.shape[: self.axis], 1, *x.shape[self.axis :]))
        return gn.cast(gn.sum(gn.where(read, rows, gn.fill(0, (), x.dtype)), self.axis + 1), x.dtype)

    def row_offset(self, y: Node, *inputs: Node) -> int | None:
        return 0 if self.axis > 0 else None


@dataclass(frozen=True, eq=False)
class Flip(gn.Op):
    """y[i] = x[n - 1 - i] along the first axis: looks at the same memory"""

    zero_if = "all"
    moves = True

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return inputs[0].shape, inputs[0].dtype

    def view(self, x: S) -> S | None:
        rows, *others = x.shape
        return x.sliced(((rows - 1, -1, -1), *((0, size, 1) for size in others)))

    def rows(self, some: range, of: RowsOf, y: Node, *inputs: Node) -> Node | None:
        count = y.shape[0]
        found = of(inputs[0], range(count - some.stop, count - some.start))
        return None if found is None else self(found)

    def sliced(self, key: Key, y: Node, *inputs: Node) -> Node | None:
        first, *rest = key
        return Slice((y.shape[0] - 1 - first, *rest))(inputs[0]) if isinstance(first, int) else None

    def forward(self, x: Array) -> Array:
        return x[::-1]

    def backward(self, gy: Node, y: Node, x: Node) -> Sequence[Node]:
        return (self(gy),)

    def rop(self, rx: Node, y: Node, x: Node) -> Node:
        return self(rx)


NEW_OPS: tuple[tuple[gn.Op, Array], ...] = (
    (RunningSum(0), GENERATOR.standard_normal((4, 3))),
    (RunningSum(1), GENERATOR.standard_normal((2, 3, 2))),
    (RunningSum(0), GENERATOR.standard_normal((0, 3))),
    (SayingSum(0), GENERATOR.standard_normal((4, 3))),
    (SayingSum(1), GENERATOR.standard_normal((2, 3, 2))),
    (SayingSum(2), GENERATOR.standard_normal((2, 3, 4))),
    (Flip(), GENERATOR.standard_normal((4, 3))),
    (Flip(), GENERATOR.standard_normal(1)),
)
kinds = pytest.mark.parametrize("kind", [RunningSum, SayingSum])


@pytest.mark.cuda
@pytest.mark.parametrize("kind", [RunningSum, SayingSum, Flip])
def test_all_laws(kind: type[gn.Op]) -> None:
    for op, x in NEW_OPS:
        if type(op) is kind:
            with case(op, x.shape):
                gn.testing.check_op(op, x, narrow=True)


class ProductSum(RunningSum):
    """y[t] = Σ_{s ≤ t} x[s], or Σ_{s ≥ t}: a product with a triangle of ones and zeros, and 0 · ∞ is NaN"""

    def expanded(self, y: Node, *inputs: Node) -> Node | None:
        triangle = np.tri(y.shape[0], dtype=y.dtype)
        return gn.constant(triangle.T if self.from_end else triangle) @ inputs[0]


def test_a_product_with_zeros_is_not_the_same_sum() -> None:
    with pytest.raises(gn.testing.LawError, match=r"law 9 \(back end \w+ = numpy, with inf in .* input 1"):
        gn.testing.check_op(ProductSum(), GENERATOR.standard_normal((4, 3)))


class WidenedSum(RunningSum):
    """y[t] = Σ_{s ≤ t} x[s], of int8 as int64, which `infer` does not say"""

    def forward(self, x: Array) -> Array:
        return np.cumsum(x, self.axis)


def test_a_dtype_that_is_not_what_was_inferred() -> None:
    with pytest.raises(
        gn.testing.LawError, match=r"(?s)law 1: forward gave int64\[.*int8\[.*let `prepare` cast it"
    ):
        gn.testing.check_op(WidenedSum(), GENERATOR.standard_normal((4, 3)), laws=(1,), narrow=True)


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


@kinds
def test_within_a_recurrent_net(kind: type[RunningSum]) -> None:
    for settings in ({}, {"memory": "sqrt"}, {"check": True}, {"threads": 1}):
        with case(settings):
            nodes, inputs, arrays = recurrent(kind)
            expected = gn.compile(nodes, inputs, backend="numpy", passes=())(*arrays)
            for found, right in zip(gn.compile(nodes, inputs, **settings)(*arrays), expected, strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-13)


@kinds
def test_any_order_of_cores_gives_the_same_bits(kind: type[RunningSum]) -> None:
    nodes, inputs, arrays = recurrent(kind, 6)
    gn.testing.require_same_in_any_order(Graph(nodes, inputs), arrays)


def test_an_op_with_rules_alone_is_called_in_between_and_only_a_file_refuses_it(tmp_path: Path) -> None:
    nodes, inputs, _ = recurrent(RunningSum, 3)
    function = gn.compile(nodes, inputs)
    assert any(isinstance(step, Host) for step in lower(function.graph).instructions)
    with pytest.raises(gn.BackendError, match=r"RunningSum.*Give the op `expanded`"):
        function.save(tmp_path / "function")


def test_an_op_that_expands_is_native_and_stored(tmp_path: Path) -> None:
    nodes, inputs, arrays = recurrent(SayingSum, 3)
    function = gn.compile(nodes, inputs)
    assert not any(isinstance(step, Host) for step in lower(function.graph).instructions)
    function.save(tmp_path / "function")
    for found, right in zip(gn.load_function(tmp_path / "function")(*arrays), function(*arrays), strict=True):
        assert found.tobytes() == right.tobytes()


def test_an_op_that_says_its_rows_is_dropped_segment_by_segment() -> None:
    """With recomputation, a stack of all time steps under it is never whole."""
    whole, by_rows = (
        gn.compile(*recurrent_loss(kind), backend="numpy", memory="sqrt").memory.peak
        for kind in (RunningSum, SayingSum)
    )
    assert by_rows < 0.7 * whole


def recurrent_loss(kind: type[RunningSum]) -> tuple[list[Node], list[Node]]:
    x = gn.input((200, 32, 4), name="x")
    W = gn.parameter(np.eye(4, dtype="float32"))
    h, states = gn.fill(0, (32, 4), "float32"), []
    for t in range(200):
        h = gn.tanh((x[t] + h) @ W)
        states.append(h)
    cost = gn.sum(gn.exp(gn.sin(kind(2)(gn.stack(states)))))
    return [cost, *gn.gradient(cost, [W])], [x]


def test_a_view_costs_nothing() -> None:
    x = gn.input((5, 3), "float64")
    function = gn.compile([Flip()(gn.tanh(x)) * 2, Flip()(gn.exp(x))[1]])
    instructions = lower(function.graph).instructions
    assert [type(step) for step in instructions] == [Loop] * len(instructions)
    (loop,) = [step for step in instructions if any("tanh" in inner.kernel for inner in step.steps)]
    assert len(instructions) <= 3
    assert loop.nodes[0].op.name == "Tanh"
    value = np.arange(15.0).reshape(5, 3) / 9
    found, row = function(value)
    np.testing.assert_allclose(found, 2 * np.tanh(value)[::-1], rtol=1e-13)
    np.testing.assert_allclose(row, np.exp(value)[3], rtol=1e-13)


class Backwards(gn.Op):
    """y[i] = x_flat[n - 1 - i]: a view of what lies in its order"""

    def infer(self, *inputs: Node) -> tuple[Shape, Dtype]:
        return (inputs[0].size,), inputs[0].dtype

    def view(self, x: S) -> S | None:
        flat = x.reshaped((math.prod(x.shape),))
        return None if flat is None else flat.sliced(((flat.shape[0] - 1, -1, -1),))

    def forward(self, x: Array) -> Array:
        return x.reshape(-1)[::-1]


def test_a_view_of_what_lies_otherwise_is_one_of_a_copy() -> None:
    x = gn.input((5, 3), "float64")
    nodes = [Backwards()(gn.exp(x).T) + 1, Backwards()(x[:, 1:])]
    found = gn.compile(nodes)(value := np.arange(15.0).reshape(5, 3) / 9)
    np.testing.assert_allclose(found[0], np.exp(value).T.reshape(-1)[::-1] + 1, rtol=1e-13)
    np.testing.assert_array_equal(found[1], value[:, 1:].reshape(-1)[::-1])


def test_a_slice_moves_through_it() -> None:
    x = gn.input((5, 3), "float64")
    (row,) = passes.prune(Graph([Flip()(x)[1]])).outputs
    assert [node.op.name for node in Graph([row]).order] == ["Input", "Slice"]


@kinds
def test_pictures(kind: type[RunningSum], tmp_path: Path) -> None:
    nodes, _, _ = recurrent(kind, 2)
    for style in ("full", "compact"):
        assert kind.__name__ in viz.draw(nodes, style=style).dot
    assert kind.__name__ in viz.mirror(nodes[0], closed=False).dot
    viz.explore(nodes, tmp_path / "page.html")
    assert kind.__name__ in (tmp_path / "page.html").read_text(encoding="utf-8")


# -- what is said wrongly is caught ------------------------------------------------------------------------------


def saying(base: type[gn.Op], **said: Any) -> type[gn.Op]:
    return type(base.__name__, (base,), {"__doc__": base.__doc__, **said})


LIES: dict[str, tuple[gn.Op, str]] = {
    "rows that depend on others": (
        saying(SayingSum, row_offset=lambda op, y, x: 0)(0),
        r"rows",
    ),
    "an offset": (saying(SayingSum, row_offset=lambda op, y, x: 1)(1), r"row_offset.*row i \+ 1"),
    "rows that are not there": (
        saying(Flip, rows=lambda op, some, of, y, x: of(x, range(some.start + 1, some.stop + 1)))(),
        r"`rows` wants range",
    ),
    "rows as they lie": (saying(Flip, rows=lambda op, some, of, y, x: of(x, some))(), r"`rows`.*is not so"),
    "axes that depend on other places": (
        saying(SayingSum, aligned_axes=lambda op, axis, y, x: (axis,))(1),
        r"`aligned_axes` of axis 1 is \[1\]",
    ),
    "axes of another length": (
        saying(SayingSum, aligned_axes=lambda op, axis, y, x: (1 - axis,))(1),
        r"`aligned_axes`.*as long as",
    ),
    "axes of fewer inputs": (
        saying(SayingSum, aligned_axes=lambda op, axis, y, x: ())(1),
        r"one entry for each",
    ),
    "another value": (
        saying(SayingSum, expanded=lambda op, y, x: x + x)(1),
        r"`expanded` is what forward gives",
    ),
    "another shape": (saying(SayingSum, expanded=lambda op, y, x: x[0])(1), r"`expanded` has shape \[3, 2\]"),
    "a slice as it lies": (saying(Flip, sliced=lambda op, key, y, x: x[key[0]])(), r"`sliced` by"),
    "memory as it lies": (saying(Flip, view=lambda op, x: x)(), r"`view` says"),
    "elements that are not there": (saying(SayingSum, moves=True)(1), r"moves = True"),
}


def test_what_is_said_wrongly_is_caught() -> None:
    for lie, (op, message) in LIES.items():
        with case(lie), pytest.raises(gn.testing.LawError, match=f"{op.name}: .*{message}"):
            gn.testing.check_op(op, GENERATOR.standard_normal((4, 3, 2)), laws=())


def test_inputs_that_may_not_change_places() -> None:
    class Difference(gn.Elementwise):
        """z = x - y"""

        kernel, arity, commutes = "x - y", 2, True

        def forward(self, *arrays: Array) -> Array:
            return arrays[0] - arrays[1]

        def partials(self, *nodes: Node) -> list[Node]:
            return [gn.fill(1, n.shape, n.dtype) * s for n, s in zip(nodes[1:], (1, -1), strict=True)]

    with pytest.raises(gn.testing.LawError, match=r"Difference: it says `commutes = True`"):
        gn.testing.check_op(Difference(), GENERATOR.standard_normal(3), GENERATOR.standard_normal(3))


def test_a_repeated_stack_is_recomputed_as_often_as_it_is_repeated() -> None:
    """Rows of what repeats a stack along a new first axis are not those of the stack."""
    x = gn.input((40, 4), "float64")
    W = gn.parameter(np.random.default_rng(0).standard_normal((4, 4)) / 2)
    h, states = gn.constant(np.zeros(4)), []
    for t in range(40):
        h = gn.tanh(h @ W + x[t])
        states.append(h)
    repeated = gn.sin(gn.broadcast_to(gn.sin(gn.stack(states)), (3, 40, 4)))
    cost = gn.sum(gn.sum(repeated, 0) ** 2)
    nodes, value = [cost, *gn.gradient(cost, [W])], np.random.default_rng(1).standard_normal((40, 4))
    expected = gn.compile(nodes, [x], backend="numpy", passes=())(value)
    for found, right in zip(gn.compile(nodes, [x], memory="sqrt")(value), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)
