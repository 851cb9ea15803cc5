"""Products of the numba back end against float64 or long double, for all ways in which operands and results lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.numba import product_jobs
from graphnet.backends.numba.product_jobs import BLOCK_K
from graphnet.graph.node import Array, Node
from tests.graphnet.backends.conftest import require_same
from tests.tables import case

TOLERANCE = {"float32": 2e-6, "float64": 1e-14}
both = pytest.mark.parametrize("dtype", ["float32", "float64"])


def matrix(n: int, m: int, dtype: str = "float64") -> Array:
    return np.random.default_rng(100 * n + m).uniform(-1, 1, (n, m)).astype(dtype)


def require_product(found: Array, a: Array, b: Array) -> None:
    """Each element to rounding, relative to Σ |a| |b|: what any order of summation keeps."""
    right = a.astype(np.float64) @ b.astype(np.float64)
    bound = abs(a).astype(np.float64) @ abs(b).astype(np.float64)
    assert found.shape == right.shape
    assert found.dtype == a.dtype
    wrong = ~(abs(found - right) <= TOLERANCE[found.dtype.name] * bound + 1e-300)
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size} are wrong, first at {np.argwhere(wrong)[0]}"


SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 48, 49, 100)
#: Every size occurs as M, N and K at least four times, beside other sizes each time.
SHAPES = sorted(
    {
        (SIZES[i], SIZES[(i * 5 + shift) % 14], SIZES[(i * 3 + 4 * shift + 1) % 14])
        for i in range(14)
        for shift in range(4)
    }
)


@both
def test_products_of_all_sizes(dtype: str) -> None:
    """a b, with b an input: never packed before; several independent products in one function."""
    for some in (SHAPES[:20], SHAPES[20:40], SHAPES[40:]):
        arrays = [x for M, K, N in some for x in (matrix(M, K, dtype), matrix(K, N, dtype))]
        leaves = [gn.input(x.shape, dtype) for x in arrays]
        products = [a @ b for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
        for found, a, b in zip(gn.compile(products, leaves)(*arrays), arrays[::2], arrays[1::2], strict=True):
            require_product(found, a, b)


@both
def test_products_with_a_parameter(dtype: str) -> None:
    """W is packed once for all; its value may change between runs."""
    sizes = [(1, 1), (3, 17), (9, 48), (33, 49), (100, 31), (16, 100)]
    for rows, (inner, columns) in itertools.product((1, 2, 7, 8, 9, 17, 49), sizes):
        W = gn.parameter(matrix(inner, columns, dtype))
        x = gn.input((rows, inner), dtype)
        function = gn.compile([x @ W, gn.tanh(x) @ W], [x])
        array = matrix(rows, inner, dtype)
        for _ in range(2):
            found = function(array)
            require_product(found[0], array, W.value)
            # tanh is rounded before the product: the tolerance of one more rounding.
            np.testing.assert_allclose(found[1], np.tanh(array) @ W.value, rtol=0, atol=inner * 1e-5)
            W.value = W.value[::-1].copy()


@both
def test_what_no_cache_holds(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are asked for before they are read, past the end of the operand as well."""
    monkeypatch.setattr(product_jobs, "FAR", 0)
    for shape in SHAPES[::3]:
        M, K, N = shape
        leaves = [gn.input((M, K), dtype), gn.input((K, N), dtype)]
        function = gn.compile([leaves[0] @ leaves[1]], leaves)
        a, b = matrix(M, K, dtype), matrix(K, N, dtype)
        require_product(function(a, b)[0], a, b)


WAYS: dict[str, Callable[[Node], Node]] = {
    "as it is": lambda x: x,
    "transposed": lambda x: x.T,
    "columns of a wider one": lambda x: gn.concatenate([x, x], 1)[:, : x.shape[1]],
    "every second row": lambda x: gn.reshape(gn.stack([x, x], 1), (-1, x.shape[1]))[::2],
    "reversed": lambda x: x[::-1],
    "columns reversed": lambda x: x[:, ::-1],
    "every second column": lambda x: gn.reshape(gn.stack([x, x], 2), (x.shape[0], -1))[:, ::2],
    "a broadcast row": lambda x: gn.broadcast_to(x[0], x.shape),
    "a broadcast column": lambda x: gn.broadcast_to(x[:, :1], x.shape),
    "computed": lambda x: x * 0.5,
    "computed and transposed": lambda x: (x.T * 0.5).T,
}


@both
def test_operands_may_lie_in_every_way(dtype: str) -> None:
    for shape in ((7, 9, 17), (1, 33, 5), (17, 3, 1), (33, 2, 49)):
        with case(shape):
            require_ways(*shape, dtype)


def require_ways(M: int, K: int, N: int, dtype: str) -> None:
    plain, turned = (matrix(M, K, dtype), matrix(K, N, dtype)), (matrix(K, M, dtype), matrix(N, K, dtype))
    leaves = [gn.input(array.shape, dtype) for array in (*plain, *turned)]
    nodes, pairs = [], []
    for left, right in itertools.product(WAYS, WAYS):
        a = WAYS[left](leaves[2] if left == "transposed" else leaves[0])
        b = WAYS[right](leaves[3] if right == "transposed" else leaves[1])
        nodes.append(a @ b)
        pairs += [a, b]
    arrays = (*plain, *turned)
    found = gn.compile(nodes, leaves)(*arrays)
    operands = gn.compile(pairs, leaves, backend="numpy", passes=())(*arrays)
    for c, a, b in zip(found, operands[::2], operands[1::2], strict=True):
        require_product(c, a, b)


@both
def test_long_products_are_made_block_by_block(dtype: str) -> None:
    for inner in (200, 1000, *(BLOCK_K * n // 2 + k for n in (2, 3, 4, 5) for k in (-1, 0, 1))):
        a, b, c = matrix(9, inner, dtype), matrix(inner, 33, dtype), matrix(inner, 9, dtype)
        x, y, z = (gn.input(array.shape, dtype) for array in (a, b, c))
        found = gn.compile([x @ y, z.T @ y, x[:3] @ y, y.T @ z, x @ x.T], [x, y, z])(a, b, c)
        for product, operands in zip(found, [(a, b), (c.T, b), (a[:3], b), (b.T, c), (a, a.T)], strict=True):
            with case(inner):
                require_product(product, *operands)


@both
def test_products_that_share_a_right_operand(dtype: str) -> None:
    """h_{t+1} = tanh(h_t W): W is packed for all, whether given, a parameter or computed at every run."""
    h0, W = matrix(11, 19, dtype), matrix(19, 19, dtype)
    for weights in (gn.input(W.shape, dtype), gn.parameter(W.copy()), None):
        x = gn.input(h0.shape, dtype)
        computed = gn.tanh(x[0, 0] * gn.constant(W)) if weights is None else weights
        nodes = [x]
        for _ in range(4):
            nodes.append(gn.tanh(nodes[-1] @ computed))
        given = [weights] if weights is not None and weights.op.is_input else []
        require_same(nodes[1:], [x, *given], [h0, W][: 1 + len(given)], 1e-5 if dtype == "float32" else 1e-13)


def test_a_right_operand_that_changes_is_packed_again() -> None:
    x, W = gn.input((12, 5), "float64"), gn.input((5, 5), "float64")
    function = gn.compile([gn.tanh(x @ W) @ W], [x, W])
    a = matrix(12, 5)
    for shift in range(3):
        b = matrix(5, 5) + shift
        np.testing.assert_allclose(function(a, b)[0], np.tanh(a @ b) @ b, rtol=1e-12, atol=1e-12)


@both
def test_products_of_batches(dtype: str) -> None:
    a, b = (
        np.random.default_rng(i).uniform(-1, 1, s).astype(dtype)
        for i, s in enumerate([(3, 1, 7, 5), (4, 5, 17)])
    )
    x, y = gn.input(a.shape, dtype), gn.input(b.shape, dtype)
    nodes = [x @ y, gn.transpose(y, (0, 2, 1)) @ y, x[:, 0] @ y[:3], x[::-1, 0, 1:] @ y[1:], x @ gn.tanh(y[0]),
             gn.gradient(gn.sum(gn.sin(x @ y)), y)[0]]  # fmt: skip
    require_same(nodes, [x, y], [a, b], 5e-6 if dtype == "float32" else 1e-13)


def test_empty_products() -> None:
    """A sum of nothing is 0, also where the memory held something else before."""
    for shape in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 0, 1), (9, 0, 33)):
        with case(shape):
            require_zeros(*shape)


def require_zeros(M: int, K: int, N: int) -> None:
    x, y = gn.input((M, K), "float64"), gn.input((K, N), "float64")
    noise = gn.input((M + 1, N + 1), "float64")
    nodes = [x @ y, gn.tanh(x) @ y + 1.0, gn.concatenate([gn.sin(noise)[:M, :N], x @ y])]
    function = gn.compile(nodes, [x, y, noise])
    for _ in range(2):
        found = function(np.ones((M, K)), np.ones((K, N)), np.ones((M + 1, N + 1)))
        np.testing.assert_array_equal(found[0], np.zeros((M, N)))
        np.testing.assert_array_equal(found[1], np.ones((M, N)))
        np.testing.assert_array_equal(found[2][M:], np.zeros((M, N)))


# -- results written where they are wanted ------------------------------------------------------------------


@both
def test_results_are_written_into_joins(dtype: str) -> None:
    """Their masked rests touch no neighbour; several joins may want one result."""
    for axis in (0, 1):
        with case(axis):
            require_joins(axis, dtype)


def require_joins(axis: int, dtype: str) -> None:
    M, K = 9, 7
    a, ws = matrix(M, K, dtype), [matrix(K, n, dtype) for n in (17, 1, 17, 33)]
    x, leaves = gn.input(a.shape, dtype), [gn.input(w.shape, dtype) for w in ws]

    def build() -> list[Node]:
        products = [x @ w if axis else (x @ w).T for w in leaves]
        one, two, three, four = products
        same_shape = [one, three, gn.tanh(one), one]
        return [gn.concatenate([one, x if axis else x.T, two, three, four], axis), gn.concatenate([four, one], axis),
                *(gn.stack(same_shape, k) for k in range(3)), gn.concatenate([gn.stack([one, three], axis)] * 2, axis),
                one, gn.sum(two)]  # fmt: skip

    for how in ({}, {"passes": ()}, {"passes": gn.passes.without("stack columns", "stack rows")}):
        require_same(build(), [x, *leaves], [a, *ws], TOLERANCE[dtype] * 5, **how)


def test_infinities_and_nan_stay_in_their_rows_and_columns() -> None:
    """Padding of panels and tiles is never multiplied by them."""
    for M, K, N in [(9, 5, 17), (1, 3, 9), (17, 9, 33)]:
        a, b = matrix(M, K), matrix(K, N)
        a[M // 2, 0], b[1, N - 1] = np.inf, np.nan
        x, y = gn.input(a.shape, "float64"), gn.input(b.shape, "float64")
        W = gn.parameter(b)
        with np.errstate(invalid="ignore"):
            require_same([x @ y, (y.T @ x.T), x @ W], [x, y], [a, b], 1e-14)


@both
def test_divided_products(dtype: str) -> None:
    """By rows and by columns, with fewer rows than threads, and into joins."""
    shapes = [(1, 150, 1500), (2, 400, 300), (50, 33, 133), (133, 50, 7), (100, 250, 130)]
    arrays: list[Array] = [x for M, K, N in shapes for x in (matrix(M, K, dtype), matrix(K, N, dtype))]
    leaves: list[Node] = [gn.input(x.shape, dtype) for x in arrays]
    products = [a @ b for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
    joined = gn.concatenate([products[2], products[4][:50]], 1)
    for threads in (2, 3):
        nodes = [*products, joined, products[4].T @ products[4]]
        require_same(nodes, leaves, arrays, 1e-5 if dtype == "float32" else 1e-13, threads=threads)


# -- few rows: wide panels, packed or read where they lie, by one core or shared by columns --------------------


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_every_way_of_few_rows_is_the_product(rows: int) -> None:
    generator = np.random.default_rng(0)
    for columns, turned in itertools.product((1, 17, 250, 401, 1100, 5137), (False, True)):
        inner = 70 if columns < 1000 else 263
        B = generator.standard_normal((columns, inner) if turned else (inner, columns))
        with case(columns, turned):
            require_few_rows(generator.standard_normal((rows, inner)), B, turned)


def require_few_rows(a: Array, B: Array, turned: bool) -> None:
    b = gn.parameter(B, name="B")
    right = B.T if turned else B
    found = []
    for varying in (False, True):
        x = gn.input(a.shape, "float64", name="a", varying=varying)
        for threads in (1, 2):
            function = gn.compile([x @ (gn.transpose(b) if turned else b)], [x], threads=threads)
            found += function(a)
            if varying:
                other = a[:, ::-1].copy()
                np.testing.assert_allclose(function.again(other)[0], other @ right, atol=1e-11)
                found += function.again(a)
    for each in found:
        np.testing.assert_allclose(each, a @ right, rtol=1e-12, atol=1e-11)
    # Neither who does which columns nor when they were packed changes a bit; blocks of rows are another sum.
    for each in found[1:2]:
        np.testing.assert_array_equal(each, found[0])
    for each in found[3:]:
        np.testing.assert_array_equal(each, found[2])
