"""Loops of the numba back end = NumPy: for every way in which an operand can lie, every size and every dtype."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from tests.graphnet.backends.conftest import require_same
from tests.tables import case

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def numbers(shape: tuple[int, ...], dtype: str = "float64") -> Array:
    """Floats around 0; integers over most of their range, with 0 and both ends."""
    local = np.random.default_rng(sum(shape) + len(dtype))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return local.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return local.integers(0, 2, shape).astype(kind)
    info = np.iinfo(kind)
    array = local.integers(info.min, info.max, shape, kind, endpoint=True)
    array.flat[::3] = local.integers(max(info.min, -3), 4, array.flat[::3].shape)
    if array.size > 2:
        array.flat[:2] = info.min, info.max
    return array


def same(build: Callable[..., Any], *arrays: Array, rtol: float = 0.0, **how: Any) -> None:
    """Of one node or several, made of one input for each array."""
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    built = build(*leaves)
    nodes = [built] if isinstance(built, Node) else list(built)
    require_same(nodes, leaves, arrays, rtol, **how)


# -- sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_every_size_around_a_vector_s(dtype: str) -> None:
    """Rests of 0 to 15 lanes: what lies behind a value is not touched, as its neighbours in a join show."""
    for size in (*range(41), 63, 64, 65):
        a, b = numbers((size,), dtype), numbers((size,), dtype)[::-1].copy()
        same(
            lambda x, y: [gn.concatenate([gn.maximum(x, y), x, gn.minimum(x, y)]), gn.where(x > y, x, y)],
            a,
            b,
        )


def test_every_size_of_rows_and_columns() -> None:
    sizes = [(0, 0), (0, 5), (5, 0), (1, 1), (1, 17), (17, 1), (2, 7), (3, 8), (7, 9), (16, 16), (33, 31)]
    for n, m in sizes:
        a, row, column = numbers((n, m)), numbers((m,)), numbers((n, 1))
        same(
            lambda x, r, c: [(x + r) * c, gn.tanh(x.T) * 2.0, gn.sum(x), gn.sum(x * r, 1)],
            a,
            row,
            column,
            rtol=1e-14,
        )


# -- strides ----------------------------------------------------------------------------------------------


def test_broadcasting_in_every_position() -> None:
    for one, other in (
        ((3, 4, 5), (5,)), ((3, 4, 5), (4, 1)), ((3, 4, 5), (3, 1, 1)), ((3, 4, 5), (1, 4, 1)), ((3, 4, 5), ()),
        ((3, 1, 5), (1, 4, 1)), ((1, 4, 5), (3, 1, 1)), ((3, 4, 1), (5,)), ((1, 1, 1), (3, 4, 5)),
        ((2, 1, 3, 1), (4, 1, 17)), ((1, 0), (3, 1)), ((0,), (1,)),
    ):  # fmt: skip
        a, b = numbers(one), numbers(other)
        with case(one, other):
            same(lambda x, y: [x - y, y - x, gn.where(x > y, x, y * 2.0), gn.sum(x * y)], a, b, rtol=1e-14)


def test_every_order_of_axes() -> None:
    a = numbers((2, 3, 4, 5))
    for axes in itertools.permutations(range(4)):
        shape = tuple(a.shape[axis] for axis in axes)
        same(
            lambda x, y, axes=axes: [gn.transpose(x, axes) - y, gn.transpose(x, axes) * 2.0],
            a,
            numbers(shape),
        )


def test_slices_are_read_and_written_where_they_lie() -> None:
    a = numbers((6, 19))
    keys: list[Any] = [
        (slice(1, None), slice(None, 3)), (slice(None, None, -1), slice(None)), (slice(None), slice(None, None, -1)),
        (slice(None, None, 2), slice(None, None, 3)), (slice(-1, 0, -2), slice(None, None, -3)), (2,), (slice(None), 3),
        (slice(4, 4), slice(None)), (Ellipsis, None, 1), (slice(None), None), (-1, -1), (slice(5, 2, -1), 0),
    ]  # fmt: skip
    for key in keys:
        x = gn.input(a.shape, "float64")
        (by_slice,) = gn.gradient(gn.sum(gn.sin(x[key])), x)
        with case(key):
            same(lambda x, k=key: [x[k] * 2.0, gn.sum(gn.tanh(x)[k]), x.T[::-1][k] + 1.0], a, rtol=1e-14)
            require_same([by_slice], [x], [a], 1e-14)


def test_arrays_given_in_any_order_of_memory() -> None:
    a = numbers((8, 9))
    x = gn.input((8, 9), "float64")
    function = gn.compile([x * 2.0, gn.sum(x, 0), x @ x.T], [x])
    wanted = function(a)
    whole = np.zeros((16, 27))
    whole[::2, ::3] = a
    others = (np.asfortranarray(a), whole[::2, ::3], a[::-1][::-1], np.flip(np.flip(a).copy()))
    for given in (*others, a.astype(">f8").astype("=f8")):
        for found, right in zip(function(given), wanted, strict=True):
            np.testing.assert_array_equal(found, right)


def test_parameters_that_are_no_rows_of_memory() -> None:
    """A parameter's array may be transposed, or a slice of another: it is read where it lies, as it is then."""
    base = numbers((9, 16))
    for array in (base.T, base[::2], base[:, ::-1], base[2:5, 3:7]):
        theta = gn.parameter(array)
        function = gn.compile([theta * 2.0, gn.sum(theta, 0)])
        for _ in range(2):
            np.testing.assert_array_equal(function()[0], theta.value * 2)
            np.testing.assert_allclose(function()[1], theta.value.sum(0), rtol=1e-13)
            theta.value = theta.value + 1.0


def test_reshapes_of_what_is_no_row_of_memory() -> None:
    a = numbers((4, 6))
    same(lambda x: [gn.reshape(x.T, (4, 6)), gn.reshape(x[:, ::-1], (24,)), gn.reshape(x[::2], (3, 4)) + 1.0,
                    gn.reshape(gn.broadcast_to(x[0], (2, 6)), (12,)), gn.reshape(x[:, 1:2], (2, 2))], a)  # fmt: skip


def test_joins_of_all_kinds() -> None:
    """Joined are what is computed, given, transposed, sliced, a number, the same twice, a join, and nothing."""
    for axis in range(3):

        def build(x: Node, y: Node, axis: int = axis) -> list[Node]:
            whole = gn.concatenate([gn.tanh(x), y], axis)
            pieces = [
                whole,
                x[::-1],
                gn.fill(2.5, x.shape, x.dtype),
                x,
                gn.sin(y),
                x,
                y[:0] if axis == 0 else y,
            ]
            return [gn.concatenate(pieces, axis), gn.stack([x, gn.cos(y), x, x * 2.0], axis), whole * 2.0]

        same(build, numbers((3, 5, 4)), numbers((3, 5, 4)) + 1.0, rtol=1e-14)


# -- dtypes -------------------------------------------------------------------------------------------------


def test_integers_wrap_around_and_compare_as_numpy_s() -> None:
    for dtype in INTEGERS:
        a, b = numbers((23,), dtype), numbers((23,), dtype)[::-1].copy()
        with case(dtype):
            same(lambda x, y: [x + y, x - y, x * y, gn.maximum(x, y), gn.minimum(x, y), x > y, x >= y, x < y, x <= y,
                               gn.equal(x, y), gn.where(x > y, x, y), -x, gn.sum(x), gn.max(x), gn.min(x),
                               gn.argmax(x)], a, b)  # fmt: skip


def test_comparisons_with_nan_and_signed_zeros() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324])
    a, b = (array.ravel() for array in np.meshgrid(values, values))
    for dtype in ("float32", "float64"):
        with np.errstate(all="ignore"):
            x, y = a.astype(dtype), b.astype(dtype)
        same(lambda x, y: [x > y, x >= y, x < y, x <= y, gn.equal(x, y), gn.where(x > y, x, y), gn.maximum(x, y),
                           gn.minimum(x, y), gn.clip(x, -0.5, 0.5), gn.relu(x), gn.absolute(x), gn.sign(x)],
             x, y)  # fmt: skip


def test_casts() -> None:
    targets = ["float32", "float64", "int64", "int32", "int16", "int8", "bool"]
    for source in ("float32", "float64", "int8", "int32", "int64", "bool", "uint8"):
        a = numbers((37,), source)
        if source.startswith("float"):
            a = (a * 50).astype(source)
        with case(source):
            same(lambda x: [gn.cast(x, to) for to in targets], a)


def test_mixed_dtypes_in_one_loop() -> None:
    f, d, i, b = numbers((45,), "float32"), numbers((45,)), numbers((45,), "int8"), numbers((45,), "bool")
    same(lambda f, d, i, b: [gn.where(b, f, gn.cast(i, "float32")) * gn.cast(d, "float32"),
                             gn.cast(f, "float64") + d * gn.cast(i, "float64"), gn.where(gn.logical_not(b), i, i * i),
                             gn.cast(b, "float32") * f - gn.cast(gn.cast(f, "int32"), "float32")],
         f, d, i, b, rtol=1e-6)  # fmt: skip


def test_divisions_and_powers() -> None:
    a = numbers((41,)) * 3
    a[:4] = 0.0, -0.0, np.inf, np.nan
    with np.errstate(all="ignore"):
        same(
            lambda x, y: [x / y, 1.0 / x, x**2, x**3, x**-1, x**0.5, gn.absolute(x) ** y, x**0],
            a,
            a[::-1].copy(),
            rtol=1e-13,
        )


# -- reductions -----------------------------------------------------------------------------------------------

SUBSETS = [axes for n in range(5) for axes in itertools.combinations(range(4), n)]


def test_reductions_over_every_subset_of_axes() -> None:
    a = numbers((2, 3, 9, 17))
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):

        def build(x: Node, order: tuple[int, ...] = order) -> list[Node]:
            moved = gn.transpose(x, order)
            return [f(moved, axes) for axes in SUBSETS for f in (gn.sum, gn.max, gn.min)]

        with case(order):
            same(build, a, rtol=1e-13)


def test_reductions_of_every_dtype() -> None:
    for dtype in ("float32", "int32", "bool", "int64"):
        with case(dtype):
            same(lambda x: [f(y, axes) for y in (x, x.T, x[::-1, ::3]) for axes in (0, 1, None)
                            for f in (gn.sum, gn.max, gn.min)],
                 numbers((7, 35), dtype), rtol=1e-6 if dtype == "float32" else 0.0)  # fmt: skip


def test_reductions_of_broadcast_and_reversed_values() -> None:
    a = numbers((5, 18))

    def build(x: Node) -> list[Node]:
        tall = gn.broadcast_to(x[:, None], (5, 3, 18))
        nodes = [f(tall, axes) for axes in (0, 1, 2, (0, 1), (1, 2), None) for f in (gn.sum, gn.max)]
        return [*nodes, gn.sum(x[::-1, ::-2], 0), gn.max(x[:, ::-1], 1)]

    same(build, a, rtol=1e-13)


def test_nan_reaches_every_extremum_that_it_is_in_and_no_other() -> None:
    for at in (0, 7, 15, 16, 18, 32, 33):
        a = numbers((3, 34))
        a[1, at] = np.nan
        a[2, at] = -np.inf
        with case(at):
            same(lambda x: [f(y, axes) for y in (x, x.T) for axes in (0, 1, None) for f in (gn.sum, gn.max, gn.min)],
                 a, rtol=1e-13)  # fmt: skip


def test_extrema_of_infinities() -> None:
    """Masked lanes and first values count as nothing at all."""
    for value in (np.inf, -np.inf, -1e300, 1e300):
        same(lambda x: [gn.max(x, 1), gn.min(x, 1), gn.max(x, 0), gn.min(x, 0)], np.full((3, 19), value))


def test_empty_reductions() -> None:
    same(lambda x: [gn.sum(x), gn.sum(x, 0), gn.sum(x, 1), gn.max(x, 1)], np.zeros((0, 3)))
    same(lambda x: [gn.sum(x), gn.sum(x, 0), gn.sum(x, 1), gn.max(x, 0)], np.zeros((3, 0)))


# -- lookups -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 16, 33])
def test_lookups_and_scatters(columns: int) -> None:
    """Of one index, of many, of two axes, of none; twice the same; from a computed and from a given table."""
    table = numbers((6, columns))

    def build(t: Node, i: Node, p: Node) -> list[Node]:
        nodes = [gn.take(t, i), gn.take(gn.tanh(t), i) * 2.0, gn.take(t, p), gn.take(t, i[:0]), gn.take(t, i[::2]),
                 gn.take(t.T, i, 1), gn.take(t[::-1], i), gn.take(t[:, 0], i),
                 gn.one_hot(i, 6, "float64") @ t]  # fmt: skip
        cost = gn.add(*(gn.sum(gn.sin(node)) for node in nodes))
        return [*nodes, *gn.gradient(cost, t)]

    for dtype in ("uint8", "int8", "int32", "int64", "uint32"):
        i, pairs = np.array([5, 0, 3, 3, 1, 5, 2, 2, 2, 0, 4], dtype), np.array([[5, 1, 1], [0, 0, 4]], dtype)
        with case(dtype):
            same(build, table, i, pairs, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_rows_into_few(dtype: str) -> None:
    """A core adds them up apart: rows that no place names are zero, neighbours of the result are not touched."""

    def build(x: Node, i: Node) -> list[Node]:
        some = gn.scatter_add(x, i, 7)
        return [gn.concatenate([some, gn.sin(x[:3]), gn.scatter_add(gn.sin(x), i, 5)]), some]

    for columns, threads in itertools.product((15, 16, 31, 32, 33, 100, 1000), (1, 2)):
        x, i = numbers((240, columns), dtype), np.random.default_rng(1).integers(5, size=240)
        with case(columns, threads):
            same(build, x, i, rtol=1e-13 if dtype == "float64" else 2e-5, threads=threads)


def test_more_than_a_core_keeps_apart() -> None:
    """A table as large as that is added up where it lies."""
    x, i = numbers((4000, 130)), np.arange(4000) % 900
    for threads in (1, 2):
        same(lambda x, i: gn.scatter_add(x, i, 900), x, i, rtol=1e-12, threads=threads)


def test_one_hot_codes() -> None:
    for depth in (1, 5, 16, 19):
        i = np.arange(24).reshape(4, 6) % depth
        with case(depth):
            same(lambda i: [gn.one_hot(i, depth, "float32"), gn.one_hot(i[0], depth, "float64") * 3.0,
                            gn.one_hot(i.T, depth, "int32"), gn.one_hot(i, depth, "bool"),
                            gn.sum(gn.one_hot(i, depth, "float64"), (0, 1))], i)  # fmt: skip


def test_lookups_by_one_index_and_by_several() -> None:
    """Kernels of one expression: the index is shared, or equal in size only; the tables are as long, or not."""
    tables = [numbers((5, 20)), numbers((5, 20)), numbers((7, 20))]
    one, other = np.arange(9) % 5, np.arange(9)[::-1] % 5
    i, j = gn.input((9,), "int64"), gn.input((9,), "int64")
    leaves = [gn.input(t.shape, "float64") for t in tables]
    u, v, w = leaves
    for a, b, c in itertools.product((i, j), repeat=3):
        total = gn.take(u, a) * gn.take(v, b) - gn.take(w, c) * gn.one_hot(a, 20, "float64")
        function = gn.compile(total, [i, j, *leaves])
        given = {i: one, j: other}
        at, at_b, at_c = given[a], given[b], given[c]
        expected = tables[0][at] * tables[1][at_b] - tables[2][at_c] * np.eye(20)[at]
        (found,) = function(one, other, *tables)
        assert np.array_equal(found, expected), (a, b, c)
        for k, index in enumerate((i, j)):
            bad = [one.copy(), other.copy()]
            bad[k][4] = 5
            if index in (a, b):
                with pytest.raises(gn.GraphnetError, match="index 5 is out of range"):
                    function(*bad, *tables)


# -- fused chains ------------------------------------------------------------------------------------------------


def test_long_chains_and_wide_sums() -> None:
    def build(x: Node, y: Node) -> list[Node]:
        h = x
        for _ in range(130):
            h = gn.sin(h) + y * 0.1
        wide = gn.add(*(x * float(k) for k in range(40)), *(y[::-1] for _ in range(20)), gn.sum(x))
        return [h, wide, gn.sum(gn.add(*(gn.tanh(x + float(k)) for k in range(30))))]

    same(build, numbers((37,)), numbers((37,)), rtol=1e-11)


def test_a_value_that_many_groups_read_is_the_same_in_all() -> None:
    def build(x: Node, y: Node) -> list[Node]:
        h = gn.tanh(x) * y
        return [
            h,
            gn.sum(h, 0),
            h @ h.T,
            gn.exp(-h),
            gn.max(h * 2.0, 1),
            h.T + 1.0,
            gn.concatenate([h, h * h]),
        ]

    same(build, numbers((9, 18)), numbers((9, 18)), rtol=1e-13)


@pytest.mark.parametrize("threads", [2, 3])
def test_shared_loops_are_the_same(threads: int) -> None:
    """Large enough to be divided: by rows, transposed against each other, with reductions and lookups between."""
    a, b, i = numbers((130, 70)), numbers((70, 130)), np.arange(130)[::-1] % 130

    def build(x: Node, y: Node, i: Node) -> list[Node]:
        h = gn.tanh(x + y.T)
        total = gn.sum(h, 0)
        looked = gn.take(h * total, i)
        return [
            looked,
            gn.sum(looked, 1),
            gn.max(looked.T * y, 0),
            gn.sum(h[::-1] * looked),
            gn.stack([h, looked], 1),
        ]

    same(build, a, b, i, rtol=1e-12, threads=threads)


# -- where rows are divided -------------------------------------------------------------------------------


def test_an_index_without_axes_finds_whole_rows() -> None:
    """The loop has the table's columns for rows, and a part of them would be looked up from the first column on."""
    index = np.array(2)
    for columns, threads in itertools.product((100, 256, 300, 2049), (1, 2, 3)):
        one, other = numbers((3, columns)), numbers((columns, 3))
        with case(columns, threads):
            same(lambda w, i: [w[i], gn.tanh(w)[i] + 1, gn.one_hot(i, columns) * 2], one, index,
                 threads=threads, rtol=1e-12)  # fmt: skip
            same(lambda w, i: gn.take(gn.sin(w), i, 1), other, index, threads=threads, rtol=1e-12)


def test_rows_of_two_pieces_wait_for_both() -> None:
    """As many rows as each piece has, but others: what one core makes of its own is not what it reads."""
    for rows, threads in itertools.product((64, 128, 300, 2048), (1, 2, 3)):

        def shifted(a: Node, b: Node, rows: int = rows) -> list[Node]:
            join = gn.concatenate([gn.tanh(a), gn.sin(b)], 0)
            column = gn.reshape(join[:, 1:2], (2 * rows,))
            turned = join[:, 1:].T[:, 3 : 3 + rows]
            return [gn.exp(join[:, :2][5 : 5 + rows]), gn.exp(column[7 : 7 + rows]), gn.cos(turned)]

        with case(rows, threads):
            same(shifted, numbers((rows, 4)), numbers((rows, 4)) / 2, threads=threads, rtol=1e-12)


# -- powers -----------------------------------------------------------------------------------------------


def test_powers_of_integers() -> None:
    for dtype in (*INTEGERS, "bool"):
        for exponent in (1, 2, 7, 8, 9, 13, 31, 64, 100):
            with case(dtype, exponent):
                same(lambda x, k=exponent: x**k, numbers((9,), dtype))
