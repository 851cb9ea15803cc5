"""Every public op is compiled without Python code, so functions of these ops can be stored."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import graphnet as gn
from graphnet import passes
from graphnet.graph.dtypes import is_float
from graphnet.graph.node import Op
from graphnet.ops.elementwise import Power
from graphnet.ops.loss import SoftmaxCrossEntropy, SymbolCrossEntropy
from graphnet.plan.instructions import Host
from graphnet.plan.lowering import lower
from tests.graphnet.backends.conftest import require_same
from tests.graphnet.ops.op_cases import BY_OP
from tests.tables import case

#: The dtypes that take the place of floats: whole numbers with and without a sign, short and long; truths.
DTYPES = ("int8", "int32", "int64", "uint8", "uint16", "uint64", "bool")


def hosts(nodes, inputs) -> set[str]:
    """The ops whose Python rule is left, for a back end with caches and for one without."""
    graph = gn.Graph(nodes, inputs)
    graphs = [passes.optimize(graph, has=has)[0] for has in ({"loops", "caches"}, {"loops"})]
    return {i.node.describe() for graph in graphs for i in lower(graph).instructions if isinstance(i, Host)}


def with_derivatives(case_of_op):
    inputs = [gn.input(a.shape, a.dtype) for a in case_of_op.arrays]
    y = case_of_op.op(*inputs)
    floats = [x for x in inputs if is_float(x.dtype)]
    if not floats or not is_float(y.dtype):
        return [y], inputs
    ones = {x: np.ones(x.shape, x.dtype) for x in (y, *floats)}
    return [y, *gn.backward({y: ones[y]}, floats), *gn.rop([y], {x: ones[x] for x in floats})], inputs


@pytest.mark.parametrize("op", BY_OP)
def test_no_op_needs_python(op: str) -> None:
    """Includes integers, which wrap as in NumPy."""
    for case_of_op in BY_OP[op]:
        with case(case_of_op.id):
            found = hosts(*with_derivatives(case_of_op))
            remedy = "and no file can hold it: give the op `expanded` (or a `kernel`)"
            assert not found, f"Python computes {found}, {remedy}"
        if isinstance(case_of_op.op, (Power, SoftmaxCrossEntropy, SymbolCrossEntropy)):
            continue  # its public function casts what it is given
        for dtype in DTYPES:
            with case(case_of_op.id, dtype):
                require_whole_numbers(case_of_op, dtype)


def require_whole_numbers(case_of_op, dtype: str) -> None:
    arrays = [(100 * abs(a)).astype(dtype) if a.dtype.kind == "f" else a for a in case_of_op.arrays]
    if dtype[0] == "i":
        arrays = [-a if a.dtype == dtype and i % 2 else a for i, a in enumerate(arrays)]
    inputs = [gn.input(a.shape, a.dtype) for a in arrays]
    try:
        y = case_of_op.op(*inputs)
        gn.compile(y, inputs, backend="numpy", passes=())(*arrays)
    except gn.GraphnetError:
        return  # the op takes no such numbers
    assert not hosts([y], inputs)
    require_same([y], inputs, arrays, rtol=1e-6 if y.dtype == "float32" else 1e-13)


def whole_numbers(dtype: str, n: int, m: int, k: int, powers=(3,)):
    """Products, sums, choices and lookups: as NumPy's, also where they wrap around."""
    generator = np.random.default_rng(0)
    info, shapes = np.iinfo(dtype), ((n, m), (m, k), (5, n, 3), (n, m))
    arrays = [generator.integers(info.min, info.max, shape, dtype=dtype, endpoint=True) for shape in shapes]
    arrays.append(generator.integers(0, 5, (6, 2)))
    inputs = a, b, c, d, i = [gn.input(a.shape, a.dtype) for a in arrays]
    places = gn.constant(np.arange(m) % 9)
    nodes = [
        a @ b, b.T @ a.T, gn.sum(a, 0), gn.sum(a, 1), gn.max(a, 0), gn.min(a, 1), gn.max(a), gn.argmax(a),
        gn.argmax(a.T), gn.maximum(a, d), gn.minimum(a, d), a < d, gn.where(a >= d, a, d), gn.cast(a, "float64"),
        gn.cast(a, "float32"), gn.scatter_add(a.T, places, 9), gn.scatter_add(a, places, 9, 1), gn.take(c, i),
        gn.take(c, i[0]), gn.scatter_add(c, gn.constant(np.arange(5) % 2), 3), gn.sign(a), gn.absolute(a),
        -a if dtype[0] == "i" else a, a + d, a - d, a * d, a > d, a <= d, gn.equal(a, d),
        *(a**power for power in powers),
        *(gn.cast(a, other) for other in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "bool")),
    ]  # fmt: skip
    return nodes, inputs, arrays


def test_whole_numbers_of_every_size_and_the_first_nan_or_maximum() -> None:
    """Arrays are larger than vectors, panels and chunks."""
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        nodes, inputs, arrays = whole_numbers(dtype, 37, 70, 45, powers=(1, 2, 3, 7, 8, 9, 13, 31, 64, 100))
        assert not hosts(nodes, inputs)
        for threads in (1, 2):
            with case(dtype, threads):
                require_same(nodes, inputs, arrays, threads=threads)
    x = np.array([[1, 3, 3], [np.nan, 9, np.nan], [9, np.nan, np.inf], [-np.inf] * 3])
    for array in (x, np.array([[False, True, True], [False, False, False]])):
        node = gn.input(array.shape, array.dtype)
        require_same([gn.argmax(node), gn.argmax(node, 0)], [node], [array])


@pytest.mark.cuda
def test_whole_numbers_on_cuda() -> None:
    for dtype in ("int8", "uint64"):
        with case(dtype):
            require_same(*whole_numbers(dtype, 5, 5, 3), backend="cuda")


class Reversed(Op):
    """y = x, backwards"""

    signature = "n -> n"

    def forward(self, x):
        return x[::-1].copy()


class Cubed(gn.Elementwise):
    """y = x³, without an expression"""

    def forward(self, x):
        return x**3


def test_storing_errors_name_a_remedy(tmp_path) -> None:
    x = gn.input((3,), "float64", name="x")
    for build, settings, remedy in (
        (Reversed(), {}, "Define `expanded` on the op"),
        (Cubed(), {}, "Define `kernel` on the op"),
        (gn.softmax, {"passes": ()}, "passes=gn.passes.DEFAULT"),
    ):
        function = gn.compile(build(x), [x], **settings)
        with pytest.raises(gn.BackendError, match=f"test_native.py.*{remedy}"):
            function.save(tmp_path / "function")


def test_results_of_earlier_calls_do_not_change() -> None:
    """Large results: the array of an earlier call is used again only if nothing refers to it any more."""
    x = gn.input((200, 100), "float32")
    function = gn.compile([x * 2.0, gn.sum(x)], [x])
    ones = np.ones((200, 100), np.float32)
    first = function(ones)[0]
    row, second = function(2 * ones)[0][3], function(3 * ones)[0]
    view = memoryview(function(4 * ones)[0])
    for _ in range(3):
        function(5 * ones)
    assert (first == 2).all()
    assert (row == 4).all()
    assert (second == 6).all()
    assert (np.asarray(view) == 8).all()
    kept = weakref.ref(function(ones)[0])
    assert function(ones)[0] is kept()
    function(ones)[0].shape = (100, 200)
    assert function(ones)[0].shape == (200, 100)
    function(ones)[0].flags.writeable = False
    assert function(ones)[0].flags.writeable
