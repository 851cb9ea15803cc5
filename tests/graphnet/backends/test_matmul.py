"""Products of the numba back end against float64 or long double, for all memory layouts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphnet as gn
from graphnet.backends.numba import product_jobs
from graphnet.backends.numba.product_jobs import BLOCK_K, LARGE_COLUMNS, LARGE_ROWS
from tests.graphnet.backends.conftest import require_close, require_same
from tests.tables import case

TOLERANCE = {"float32": 2e-6, "float64": 1e-14}
both = pytest.mark.parametrize("dtype", ["float32", "float64"])


def matrix(n: int, m: int, dtype: str = "float64"):
    return np.random.default_rng(100 * n + m).uniform(-1, 1, (n, m)).astype(dtype)


def require_product(found, a, b) -> None:
    """Each element to rounding, relative to Σ |a| |b|: what any order of summation keeps."""
    right = a.astype(np.float64) @ b.astype(np.float64)
    bound = abs(a).astype(np.float64) @ abs(b).astype(np.float64)
    assert found.shape == right.shape
    assert found.dtype == a.dtype
    wrong = ~(abs(found - right) <= TOLERANCE[found.dtype.name] * bound + 1e-300)
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size} are wrong, first at {np.argwhere(wrong)[0]}"


SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 48, 49, 100)
#: Every size occurs as M, N and K at least four times, beside other sizes each time.
SHIFTS = itertools.product(range(14), range(4))
SHAPES = sorted({(SIZES[i], SIZES[(i * 5 + k) % 14], SIZES[(i * 3 + 4 * k + 1) % 14]) for i, k in SHIFTS})


def require_products(shapes, dtype: str) -> None:
    """a b, with b an input: never packed before; several independent products in one function."""
    arrays = [x for M, K, N in shapes for x in (matrix(M, K, dtype), matrix(K, N, dtype))]
    leaves = [gn.input(x.shape, dtype) for x in arrays]
    products = [a @ b for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
    for found, a, b in zip(gn.compile(products, leaves)(*arrays), arrays[::2], arrays[1::2], strict=True):
        require_product(found, a, b)


@both
def test_products_of_all_sizes(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Includes prefetched rows, also beyond the end."""
    for some in (SHAPES[:20], SHAPES[20:40], SHAPES[40:]):
        require_products(some, dtype)
    monkeypatch.setattr(product_jobs, "FAR", 0)
    for shape in SHAPES[::3]:
        require_products([shape], dtype)


@both
def test_products_with_a_parameter(dtype: str) -> None:
    """W is packed once, also transposed; its value may change between runs."""
    sizes = [(1, 1), (3, 17), (9, 48), (33, 49), (100, 31), (16, 100), (50, 300)]
    for rows, (inner, columns) in itertools.product((1, 2, 7, 8, 9, 17, 49), sizes):
        W = gn.parameter(matrix(inner, columns, dtype))
        V = gn.parameter(W.value.T.copy())
        x = gn.input((rows, inner), dtype)
        function = gn.compile([x @ W, gn.tanh(x) @ W, x @ V.T, gn.tanh(x) @ V.T], [x])
        array = matrix(rows, inner, dtype)
        for _ in range(2):
            found = function(array)
            require_product(found[0], array, W.value)
            np.testing.assert_array_equal(found[2:], found[:2])
            # tanh is rounded before the product: the tolerance of one more rounding.
            np.testing.assert_allclose(found[1], np.tanh(array) @ W.value, rtol=0, atol=inner * 1e-5)
            W.value = W.value[::-1].copy()
            V.value = W.value.T.copy()


WAYS = {
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
def test_operands_of_every_memory_layout(dtype: str) -> None:
    for M, K, N in ((7, 9, 17), (1, 33, 5), (17, 3, 1), (33, 2, 49)):
        arrays = [matrix(*shape, dtype) for shape in ((M, K), (K, N), (K, M), (N, K))]
        leaves, pairs = [gn.input(array.shape, dtype) for array in arrays], []
        for left, right in itertools.product(WAYS, WAYS):
            pairs.append(WAYS[left](leaves[2] if left == "transposed" else leaves[0]))
            pairs.append(WAYS[right](leaves[3] if right == "transposed" else leaves[1]))
        found = gn.compile([a @ b for a, b in zip(pairs[::2], pairs[1::2], strict=True)], leaves)(*arrays)
        operands = gn.compile(pairs, leaves, backend="numpy", passes=())(*arrays)
        for c, a, b in zip(found, operands[::2], operands[1::2], strict=True):
            with case(M, K, N):
                require_product(c, a, b)


@both
def test_long_products_are_computed_in_blocks(dtype: str) -> None:
    for inner in (200, 1000, *(BLOCK_K * n // 2 + k for n in (2, 3, 4, 5) for k in (-1, 0, 1))):
        a, b, c = matrix(9, inner, dtype), matrix(inner, 33, dtype), matrix(inner, 9, dtype)
        x, y, z = (gn.input(array.shape, dtype) for array in (a, b, c))
        found = gn.compile([x @ y, z.T @ y, x[:3] @ y, y.T @ z, x @ x.T], [x, y, z])(a, b, c)
        for product, operands in zip(found, [(a, b), (c.T, b), (a[:3], b), (b.T, c), (a, a.T)], strict=True):
            with case(inner):
                require_product(product, *operands)


@both
@pytest.mark.parametrize("rows", [LARGE_ROWS, LARGE_ROWS + 5])
def test_large_products_are_packed(dtype: str, rows: int) -> None:
    """Blocks and groups of columns with remainders, in every memory layout; the same bits for any threads."""
    for inner, columns in ((70, LARGE_COLUMNS), (3 * BLOCK_K + 1, LARGE_COLUMNS + 33), (5 * BLOCK_K, 2100)):
        a, b = matrix(rows, inner, dtype), matrix(inner, columns, dtype)
        wide = matrix(rows, 2 * inner, dtype)
        layouts = [(a, b), (a.T, b), (a, b.T), (a.T, b.T), (wide, b)]
        leaves = [[gn.input(x.shape, dtype) for x in pair] for pair in layouts]
        turns = [(lambda x: x, lambda y: y), (lambda x: x.T, lambda y: y), (lambda x: x, lambda y: y.T),
                 (lambda x: x.T, lambda y: y.T), (lambda x: x[:, ::2], lambda y: y)]  # fmt: skip
        nodes = [left(x) @ right(y) for (x, y), (left, right) in zip(leaves, turns, strict=True)]
        nodes.append(
            gn.concatenate([left_zero := gn.constant(np.zeros((rows, 3), dtype)), nodes[1], left_zero], 1)
        )
        flat, arrays = [x for pair in leaves for x in pair], [x for pair in layouts for x in pair]
        found = [gn.compile(nodes, flat, threads=threads)(*arrays) for threads in (1, 2, 24)]
        for n, product in enumerate(found[0]):
            with case(inner, columns, n):
                left, right = (wide[:, ::2], b) if n == 4 else (a, b)
                require_product(product[:, 3:-3] if n == 5 else product, left, right)
                assert all(np.array_equal(product, others[n]) for others in found[1:])


@both
def test_products_with_far_weights(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores have columns of their own, panels have parts, and the next one is prefetched, as for a B of 16 MB."""
    for name in ("OWN_COLUMNS", "PREFETCHED", "PANEL"):
        monkeypatch.setattr(product_jobs, name, 10_000)
    for rows, inner, columns in ((5, 129, 401), (17, 700, 250), (64, 333, 1100), (64, 0, 300)):
        a, b = matrix(rows, inner, dtype), matrix(inner, columns, dtype)
        x, w = gn.input(a.shape, dtype), gn.parameter(b)
        nodes = [x @ w, (2 * x) @ w]
        found = [gn.compile(nodes, [x], threads=threads)(a) for threads in (1, 2, 3)]
        with case(rows, inner, columns):
            require_product(found[0][0], a, b)
            require_product(found[0][1], 2 * a, b)
            assert all(
                np.array_equal(p, q) for each in found[1:] for p, q in zip(found[0], each, strict=True)
            )


@both
def test_products_that_share_a_right_operand(dtype: str) -> None:
    """h_{t+1} = tanh(h_t W): W is packed once per run, whether given, a parameter or computed."""
    h, W = matrix(11, 19, dtype), matrix(19, 19, dtype)
    x, given = gn.input(h.shape, dtype), gn.input(W.shape, dtype)
    for weights in (given, gn.parameter(W.copy()), gn.tanh(x[0, 0] * gn.constant(W))):
        nodes = [gn.tanh(x @ weights)]
        for _ in range(3):
            nodes.append(gn.tanh(nodes[-1] @ weights))
        leaves = [x, given] if weights is given else [x]
        function, right = gn.compile(nodes, leaves), gn.compile(nodes, leaves, backend="numpy", passes=())
        for arrays in ((h, W), (-h, W / 2), (h, W / 3)):
            arrays = arrays[: len(leaves)]
            require_close(function(*arrays), right(*arrays), atol=1e-5 if dtype == "float32" else 1e-13)


@both
def test_products_of_batches(dtype: str) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.uniform(-1, 1, shape).astype(dtype) for shape in ((3, 1, 7, 5), (4, 5, 17)))
    x, y = gn.input(a.shape, dtype), gn.input(b.shape, dtype)
    nodes = [x @ y, gn.transpose(y, (0, 2, 1)) @ y, x[:, 0] @ y[:3], x[::-1, 0, 1:] @ y[1:], x @ gn.tanh(y[0]),
             *gn.gradient(gn.sum(gn.sin(x @ y)), [y])]  # fmt: skip
    require_same(nodes, [x, y], [a, b], 5e-6 if dtype == "float32" else 1e-13)


def test_empty_products_infinities_and_nan() -> None:
    """Empty sums are 0, even in uninitialized memory; padding is never multiplied by NaN."""
    for M, K, N in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 0, 1), (9, 0, 33)):
        x, y, noise = leaves = [gn.input(shape, "float64") for shape in ((M, K), (K, N), (M + 1, N + 1))]
        nodes = [x @ y, gn.tanh(x) @ y + 1.0, gn.concatenate([gn.sin(noise)[:M, :N], x @ y])]
        function = gn.compile(nodes, leaves)
        for _ in range(2):
            product, plus, joined = function(*(np.ones(node.shape) for node in leaves))
            with case(M, K, N):
                np.testing.assert_array_equal(product, np.zeros((M, N)))
                np.testing.assert_array_equal(plus, np.ones((M, N)))
                np.testing.assert_array_equal(joined[M:], np.zeros((M, N)))
    for M, K, N in [(9, 5, 17), (1, 3, 9), (17, 9, 33)]:
        a, b = matrix(M, K), matrix(K, N)
        a[M // 2, 0], b[1, N - 1] = np.inf, np.nan
        x, y = gn.input(a.shape, "float64"), gn.input(b.shape, "float64")
        with np.errstate(invalid="ignore"):
            require_same([x @ y, (y.T @ x.T), x @ gn.parameter(b)], [x, y], [a, b], 1e-14)


@both
def test_results_are_written_into_joins(dtype: str) -> None:
    """Remainders overwrite no neighbour; several joins may need one result."""
    a, ws = matrix(9, 7, dtype), [matrix(7, n, dtype) for n in (17, 1, 17, 33)]
    x, leaves = gn.input(a.shape, dtype), [gn.input(w.shape, dtype) for w in ws]
    apart = gn.passes.without("stack columns", "stack rows")
    for axis, passes in itertools.product((0, 1), (gn.passes.DEFAULT, (), apart)):
        one, two, three, four = [x @ w if axis else (x @ w).T for w in leaves]
        same_shape = [one, three, gn.tanh(one), one]
        nodes = [gn.concatenate([one, x if axis else x.T, two, three, four], axis), gn.concatenate([four, one], axis),
                 *(gn.stack(same_shape, k) for k in range(3)), gn.concatenate([gn.stack([one, three], axis)] * 2, axis),
                 one, gn.sum(two)]  # fmt: skip
        require_same(nodes, [x, *leaves], [a, *ws], TOLERANCE[dtype] * 5, passes=passes)


@both
def test_divided_products(dtype: str) -> None:
    """By rows and by columns, with fewer rows than threads, and into joins."""
    shapes = [(1, 150, 1500), (2, 400, 300), (50, 33, 133), (133, 50, 7), (100, 250, 130)]
    arrays = [x for M, K, N in shapes for x in (matrix(M, K, dtype), matrix(K, N, dtype))]
    leaves = [gn.input(x.shape, dtype) for x in arrays]
    products = [a @ b for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
    joined = gn.concatenate([products[2], products[4][:50]], 1)
    for threads in (2, 3):
        nodes = [*products, joined, products[4].T @ products[4]]
        require_same(nodes, leaves, arrays, 1e-5 if dtype == "float32" else 1e-13, threads=threads)


def test_products_of_few_rows_do_not_depend_on_threads() -> None:
    """Results have the same bits for any division of columns and time of packing."""
    ways = ((1, 3, 8), (1, 17, 250, 401, 1100, 5137), (False, True), (False, True))
    for rows, columns, turned, varying in itertools.product(*ways):
        inner = 70 if columns < 1000 else 263
        a, right = matrix(rows, inner), matrix(inner, columns)
        b = gn.parameter(right.T.copy()).T if turned else gn.parameter(right)
        x, found = gn.input(a.shape, "float64", varying=varying), []
        with case(rows, columns, turned, varying):
            for threads in (1, 2):
                function = gn.compile([x @ b], [x], threads=threads)
                found += function(a)
                if varying:
                    require_close(function.again(-2 * a), [-2 * a @ right], rtol=1e-12, atol=1e-11)
                    found += function.again(a)
            np.testing.assert_allclose(found[0], a @ right, rtol=1e-12, atol=1e-11)
            assert all(np.array_equal(other, found[0]) for other in found[1:])
