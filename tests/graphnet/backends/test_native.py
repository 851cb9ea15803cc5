"""Every public op runs without Python where it is compiled, so that every function of such ops can be stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet import passes
from graphnet.errors import BackendError
from graphnet.graph.dtypes import INT64, is_float
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node, Op
from graphnet.ops.elementwise import Power
from graphnet.ops.loss import SoftmaxCrossEntropy, SymbolCrossEntropy
from graphnet.plan.instructions import Host
from graphnet.plan.lowering import lower
from tests.graphnet.backends.conftest import OPS, require_same
from tests.graphnet.ops.op_cases import Case
from tests.tables import case

#: The dtypes that take the place of floats: whole numbers with and without a sign, short and long; truths.
DTYPES = ("int8", "int32", "int64", "uint8", "uint16", "uint64", "bool")

each_op = pytest.mark.parametrize("op", OPS)


def hosts(nodes: Sequence[Node], inputs: Sequence[Node]) -> list[str]:
    """The ops whose Python rule is left, for a back end with caches and for one without."""
    found = set()
    for has in ({"loops", "caches"}, {"loops"}):
        graph, _ = passes.optimize(Graph(nodes, inputs), has=has)
        found |= {i.node.describe() for i in lower(graph).instructions if isinstance(i, Host)}
    return sorted(found)


def with_derivatives(case_of_op: Case) -> tuple[list[Node], list[Node]]:
    inputs = [gn.input(a.shape, a.dtype) for a in case_of_op.arrays]
    y = case_of_op.op(*inputs)
    floats = [x for x in inputs if is_float(x.dtype)]
    if not floats or not is_float(y.dtype):
        return [y], inputs
    ones = {x: np.ones(x.shape, x.dtype) for x in (y, *floats)}
    return [y, *gn.backward({y: ones[y]}, floats), *gn.rop([y], {x: ones[x] for x in floats})], inputs


@each_op
def test_no_op_needs_python(op: str) -> None:
    """Also for whole numbers, where it takes them; and it computes what NumPy does, also where these wrap."""
    for case_of_op in OPS[op]:
        with case(case_of_op.id):
            found = hosts(*with_derivatives(case_of_op))
            assert not found, (
                f"Python computes {found}, and no file can hold it: give the op `expanded` (or a `kernel`)"
            )
        if isinstance(case_of_op.op, (Power, SoftmaxCrossEntropy, SymbolCrossEntropy)):
            continue  # its public function casts what it is given
        for dtype in DTYPES:
            with case(case_of_op.id, dtype):
                require_whole_numbers(case_of_op, dtype)


def require_whole_numbers(case_of_op: Case, dtype: str) -> None:
    arrays = [(100 * abs(a)).astype(dtype) if a.dtype.kind == "f" else a for a in case_of_op.arrays]
    if dtype[0] == "i":
        arrays = [-a if a.dtype == dtype and i % 2 else a for i, a in enumerate(arrays)]
    inputs = [gn.input(a.shape, a.dtype) for a in arrays]
    try:
        y = case_of_op.op(*inputs)
        gn.compile(y, inputs, backend="numpy", passes=())(*arrays)
    except gn.GraphnetError:
        return  # the op takes no such numbers
    assert hosts([y], inputs) == []
    require_same([y], inputs, arrays, rtol=1e-6 if y.dtype == "float32" else 1e-13)


def long_case(dtype: str) -> tuple[list[Node], list[Node], list[Array]]:
    """Products, sums, choices and lookups of more numbers than vectors, panels and chunks hold."""
    generator = np.random.default_rng(0)
    info = np.iinfo(dtype)
    arrays: list[Any] = [
        generator.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        for shape in ((37, 70), (70, 45), (5, 37, 3), (37, 70))
    ]
    arrays.append(generator.integers(0, 5, (6, 2)))
    inputs = [gn.input(a.shape, a.dtype) for a in arrays]
    a, b, c, d, i = inputs
    nodes = [
        a @ b, b.T @ a.T, gn.sum(a, 0), gn.sum(a, 1), gn.max(a, 0), gn.min(a, 1), gn.max(a), gn.argmax(a),
        gn.argmax(a.T), gn.maximum(a, d), gn.minimum(a, d), a < d, gn.where(a >= d, a, d), gn.cast(a, "float64"),
        gn.cast(a, "float32"), gn.scatter_add(a.T, gn.constant(np.arange(70) % 9), 9),
        gn.take(c, i), gn.take(c, i[0]), gn.scatter_add(c, gn.constant(np.arange(5) % 2), 3),
        gn.scatter_add(a, gn.constant(np.arange(70) % 9), 9, 1), gn.sign(a), gn.absolute(a), a + d, a * d, a**3,
        *(gn.cast(a, other) for other in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "bool")),
    ]  # fmt: skip
    return nodes, inputs, arrays


def test_whole_numbers_of_every_size() -> None:
    for dtype in DTYPES[:-1]:
        nodes, inputs, arrays = long_case(dtype)
        assert hosts(nodes, inputs) == []
        for threads in (1, 2):
            with case(dtype, threads):
                require_same(nodes, inputs, arrays, threads=threads)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_whole_numbers_on_cuda(dtype: str) -> None:
    generator = np.random.default_rng(0)
    info = np.iinfo(dtype)
    x, y = (generator.integers(info.min, info.max, (5, 5), dtype=dtype, endpoint=True) for _ in range(2))
    index = np.array([3, 0, 3])
    inputs = [gn.input(a.shape, a.dtype) for a in (x, y, index)]
    a, b, i = inputs
    nodes = [
        a @ b, gn.sum(a, 0), gn.max(a, 1), gn.min(a), gn.argmax(a), gn.maximum(a, b), a < b, gn.absolute(a), gn.sign(a),
        gn.take(gn.reshape(a, (5, 5, 1)), i), gn.scatter_add(b[:3], i, 4), a**3, -a if dtype[0] == "i" else a,
        gn.cast(a, "float64"), gn.cast(a, "int8"), gn.cast(a, "uint8"), gn.cast(a, "bool"), a > b,
    ]  # fmt: skip
    found = gn.compile(nodes, inputs, backend="cuda")(x, y, index)
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())(x, y, index)
    for node, one, other in zip(nodes, found, expected, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=repr(node))


def test_argmax_takes_the_first_nan_or_the_first_maximum() -> None:
    x = np.array([[1, 3, 3], [np.nan, 9, np.nan], [9, np.nan, np.inf], [-np.inf] * 3])
    for array in (x, np.array([[False, True, True], [False, False, False]])):
        node = gn.input(array.shape, array.dtype)
        require_same([gn.argmax(node), gn.argmax(node, 0)], [node], [array])


# -- what a stored function may hold ---------------------------------------------------------------------------


def greedy(steps: int) -> tuple[list[Node], list[Node], list[Array]]:
    """A decoder that reads what it has just said: argmax, looked up in a table of three axes."""
    generator = np.random.default_rng(1)
    table, W, U = (gn.parameter(generator.standard_normal(s)) for s in ((7, 2, 3), (6, 6), (6, 7)))
    h, symbol = gn.input((4, 6), "float64"), gn.input((4,), "int64")
    said, state, last = [], h, symbol
    for _ in range(steps):
        state = gn.tanh(state @ W + gn.reshape(gn.take(table, last), (4, 6)))
        last = gn.argmax(state @ U)
        said.append(last)
    return [gn.stack(said), state], [h, symbol], [generator.standard_normal((4, 6)), np.array([0, 6, 3, 3])]


def test_a_greedy_decoder_is_stored_and_runs_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, inputs, arrays = greedy(12)
    assert len(np.unique(gn.compile(nodes, inputs, backend="numpy")(*arrays)[0])) > 2
    nodes[0] = gn.cast(nodes[0], "int32")
    function = gn.compile(nodes, inputs)
    function.save(tmp_path / "decoder")
    expected = function(*arrays)
    monkeypatch.setattr("graphnet.backends.compiled.program.call_forward", None)
    for found, right in zip(gn.load_function(tmp_path / "decoder")(*arrays), expected, strict=True):
        np.testing.assert_array_equal(found, right)
    require_same(nodes, inputs, arrays, rtol=1e-12)


class Reversed(Op):
    """y = x, backwards"""

    signature = "n -> n"

    def forward(self, x: Array) -> Array:
        return x[::-1].copy()


class Cubed(gn.Elementwise):
    """y = x³, without an expression"""

    def forward(self, x: Array) -> Array:
        return x**3


def test_what_cannot_be_stored_says_what_to_do(tmp_path: Path) -> None:
    x = gn.input((3,), "float64", name="x")
    for build, settings, remedy in (
        (Reversed(), {}, "Give the op `expanded`"),
        (Cubed(), {}, "Give the op a `kernel`"),
        (gn.softmax, {"passes": ()}, "passes=gn.passes.DEFAULT"),
    ):
        function = gn.compile(build(x), [x], **settings)
        with pytest.raises(BackendError, match=rf"made at .*test_native.py.*{remedy}"):
            function.save(tmp_path / "function")


def test_indices_of_a_table_of_three_axes_are_checked() -> None:
    table, index = gn.input((4, 2, 3), "float64"), gn.input((2,), INT64)
    for node in (gn.take(table, index), gn.scatter_add(table[:2], index, 4)):
        for wrong in (4, -1):
            with pytest.raises(gn.GraphnetError, match=f"index {wrong} is out of range"):
                gn.compile(node, [table, index])(np.zeros((4, 2, 3)), np.array([0, wrong]))
