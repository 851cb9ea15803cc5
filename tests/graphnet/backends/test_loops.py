"""Loops of the numba back end match NumPy for every memory layout, size and dtype."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Node
from graphnet.plan.instructions import Host
from graphnet.plan.lowering import lower
from tests.graphnet.backends.conftest import require_close, require_same
from tests.tables import case


def numbers(shape, dtype: str = "float64"):
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


def same(build, *arrays, rtol: float = 0.0, **how) -> None:
    """Of one node or several, made of one input for each array."""
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    built = build(*leaves)
    require_same([built] if isinstance(built, Node) else list(built), leaves, arrays, rtol, **how)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_sizes_around_the_vector_width(dtype: str) -> None:
    """Remainders of 0 to 15 lanes: neighbouring values are not overwritten."""
    for size in (*range(41), 63, 64, 65):
        same(lambda x, y: gn.concatenate([gn.maximum(x, y), x, gn.minimum(x, y), gn.where(x > y, x, y)]),
             numbers((size,), dtype), numbers((size,), dtype)[::-1].copy())  # fmt: skip


def test_every_size_of_rows_and_columns() -> None:
    for n, m in ((0, 0), (0, 5), (5, 0), (1, 1), (1, 17), (17, 1), (2, 7), (3, 8), (16, 16), (33, 31)):
        same(lambda x, r, c: [(x + r) * c, gn.tanh(x.T) * 2.0, gn.sum(x), gn.sum(x, 0), gn.sum(x * r, 1),
                              *([gn.max(x, 1)] if x.shape[1] else []), *([gn.max(x, 0)] if x.shape[0] else [])],
             numbers((n, m)), numbers((m,)), numbers((n, 1)), rtol=1e-14)  # fmt: skip


def test_broadcasting_in_every_position_and_every_order_of_axes() -> None:
    for one, other in (
        ((3, 4, 5), (5,)), ((3, 4, 5), (4, 1)), ((3, 4, 5), (3, 1, 1)), ((3, 4, 5), (1, 4, 1)), ((3, 4, 5), ()),
        ((3, 1, 5), (1, 4, 1)), ((1, 4, 5), (3, 1, 1)), ((3, 4, 1), (5,)), ((1, 1, 1), (3, 4, 5)),
        ((2, 1, 3, 1), (4, 1, 17)), ((1, 0), (3, 1)), ((0,), (1,)),
    ):  # fmt: skip
        a, b = numbers(one), numbers(other)
        with case(one, other):
            same(lambda x, y: [x - y, y - x, gn.where(x > y, x, y * 2.0), gn.sum(x * y)], a, b, rtol=1e-14)
    a = numbers((2, 3, 4, 5))
    for axes in itertools.permutations(range(4)):
        turned = numbers([a.shape[axis] for axis in axes])
        same(lambda x, y: [gn.transpose(x, axes) - y, gn.transpose(x, axes) * 2.0], a, turned)


def test_slices_and_reshapes_are_read_and_written_in_place() -> None:
    a = numbers((6, 19))
    for key in (
        np.s_[1:, :3], np.s_[::-1, :], np.s_[:, ::-1], np.s_[::2, ::3], np.s_[-1:0:-2, ::-3], np.s_[2], np.s_[:, 3],
        np.s_[4:4, :], np.s_[..., None, 1], np.s_[:, None], np.s_[-1, -1], np.s_[5:2:-1, 0],
    ):  # fmt: skip
        with case(key):
            same(lambda x: [x[key] * 2.0, gn.sum(gn.tanh(x)[key]), x.T[::-1][key] + 1.0,
                            *gn.gradient(gn.sum(gn.sin(x[key])), [x])], a, rtol=1e-14)  # fmt: skip


def test_joins_of_values_with_a_gap_between_them() -> None:
    def build(x):
        a, b, c, d, e = (f(x) for f in (gn.tanh, gn.sin, gn.cos, gn.exp, gn.sigmoid))
        whole = gn.concatenate([a, b, c, gn.concatenate([d, e])])  # fixes the places of a, b and c
        return [whole @ x.T, gn.concatenate([a, c]) @ x.T]

    same(build, numbers((2, 3)), rtol=1e-14, passes=())  # passes would make one product of the rows


def test_arrays_and_reshapes_in_any_order_of_memory() -> None:
    """Parameters may also be transposed, or slices of other arrays."""
    a = numbers((8, 9))
    x = gn.input((8, 9), "float64")
    function = gn.compile([x * 2.0, gn.sum(x, 0), x @ x.T], [x])
    whole = np.zeros((16, 27))
    whole[::2, ::3] = a
    for given in (np.asfortranarray(a), whole[::2, ::3], a[::-1][::-1], np.flip(np.flip(a).copy())):
        require_close(function(given), function(a))
    base = numbers((9, 16))
    for array in (base.T, base[::2], base[:, ::-1], base[2:5, 3:7]):
        theta = gn.parameter(array)
        function = gn.compile([theta * 2.0, gn.sum(theta, 0)])
        for _ in range(2):
            np.testing.assert_array_equal(function()[0], theta.value * 2)
            np.testing.assert_allclose(function()[1], theta.value.sum(0), rtol=1e-13)
            theta.value = theta.value + 1.0
    same(lambda x: [gn.reshape(x.T, (4, 6)), gn.reshape(x[:, ::-1], (24,)), gn.reshape(x[::2], (3, 4)) + 1.0,
                    gn.reshape(gn.broadcast_to(x[0], (2, 6)), (12,)), gn.reshape(x[:, 1:2], (2, 2))],
         numbers((4, 6)))  # fmt: skip


def test_joins_of_all_kinds() -> None:
    """Joins of computed, given, transposed, sliced, repeated, nested and empty arrays."""

    def build(x, y, axis: int):
        whole = gn.concatenate([gn.tanh(x), y], axis)
        number, last = gn.fill(2.5, x.shape, x.dtype), y if axis else y[:0]
        pieces = [whole, x[::-1], number, x, gn.sin(y), x, last]
        return [gn.concatenate(pieces, axis), gn.stack([x, gn.cos(y), x, x * 2.0], axis), whole * 2.0]

    for axis in range(3):
        same(lambda x, y: build(x, y, axis), numbers((3, 5, 4)), numbers((3, 5, 4)) + 1.0, rtol=1e-14)


def test_comparisons_divisions_and_powers_of_non_finite_values() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324])
    a, b = (array.ravel() for array in np.meshgrid(values, values))
    for dtype in ("float32", "float64"):
        with np.errstate(all="ignore"):
            x, y = a.astype(dtype), b.astype(dtype)
        same(lambda x, y: [x > y, x >= y, x < y, x <= y, gn.equal(x, y), gn.where(x > y, x, y), gn.maximum(x, y),
                           gn.minimum(x, y), gn.clip(x, -0.5, 0.5), gn.relu(x), gn.absolute(x), gn.sign(x)],
             x, y)  # fmt: skip
    a = numbers((41,)) * 3
    a[:4] = 0.0, -0.0, np.inf, np.nan
    with np.errstate(all="ignore"):
        same(lambda x, y: [x / y, 1.0 / x, x**2, x**3, x**-1, x**0.5, gn.absolute(x) ** y, x**0],
             a, a[::-1].copy(), rtol=1e-13)  # fmt: skip


def test_casts_and_mixed_dtypes_in_one_loop() -> None:
    targets = ["float32", "float64", "int64", "int32", "int16", "int8", "bool"]
    for source in ("float32", "float64", "int8", "int32", "int64", "bool", "uint8"):
        a = numbers((37,), source)
        if source.startswith("float"):
            a = (a * 50).astype(source)
        with case(source):
            same(lambda x: [gn.cast(x, to) for to in targets], a)
    f, d, i, b = numbers((45,), "float32"), numbers((45,)), numbers((45,), "int8"), numbers((45,), "bool")
    same(lambda f, d, i, b: [gn.where(b, f, gn.cast(i, "float32")) * gn.cast(d, "float32"),
                             gn.cast(f, "float64") + d * gn.cast(i, "float64"), gn.where(gn.logical_not(b), i, i * i),
                             gn.cast(b, "float32") * f - gn.cast(gn.cast(f, "int32"), "float32")],
         f, d, i, b, rtol=1e-6)  # fmt: skip


def test_reductions_over_every_subset_of_axes() -> None:
    subsets = [axes for n in range(5) for axes in itertools.combinations(range(4), n)]
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        with case(order):
            same(lambda x: [f(gn.transpose(x, order), axes) for axes in subsets for f in (gn.sum, gn.max, gn.min)],
                 numbers((2, 3, 9, 17)), rtol=1e-13)  # fmt: skip


def reduced(x):
    """Of what lies as it is, is turned, has steps, is reversed, and is broadcast."""
    tall = gn.broadcast_to(x[:, None], (x.shape[0], 3, x.shape[1]))
    ways = [(x, (0, 1, None)), (x.T, (0, 1, None)), (x[::-1, ::3], (0, 1, None)), (x[::-1, ::-2], (0, 1)),
            (tall, (0, 1, 2, (0, 1), (1, 2), None))]  # fmt: skip
    return [f(y, axes) for y, some in ways for axes in some for f in (gn.sum, gn.max, gn.min)]


def test_reductions_of_every_dtype_and_of_non_finite_values() -> None:
    """NaN affects exactly its own extrema; masked lanes have no effect, even beside infinities."""
    for dtype in ("float32", "float64", "int32", "bool", "int64"):
        with case(dtype):
            same(reduced, numbers((7, 35), dtype), rtol={"float32": 1e-6, "float64": 1e-13}.get(dtype, 0.0))
    for at in (0, 7, 15, 16, 18, 32, 33):
        a = numbers((3, 34))
        a[1, at], a[2, at] = np.nan, -np.inf
        with case(at):
            same(reduced, a, rtol=1e-13)
    for value in (np.inf, -np.inf, -1e300, 1e300):
        with case(value):
            same(reduced, np.full((3, 19), value), rtol=1e-13)


@pytest.mark.parametrize("columns", [1, 16, 33])
def test_lookups_and_scatters(columns: int) -> None:
    """One index, many, two axes, none; repeated; from a computed or a given table."""
    table = numbers((6, columns))

    def build(t, i, p):
        nodes = [gn.take(t, i), gn.take(gn.tanh(t), i) * 2.0, gn.take(t, p), gn.take(t, i[:0]), gn.take(t, i[::2]),
                 gn.take(t.T, i, 1), gn.take(t.T, i[::2], 1), gn.take(t.T, p, 1), gn.take(t[::-1], i),
                 gn.take(t[:, 0], i), gn.one_hot(i, 6, "float64") @ t]  # fmt: skip
        return [*nodes, *gn.gradient(gn.add(*(gn.sum(gn.sin(node)) for node in nodes)), t)]

    for dtype in ("uint8", "int8", "int32", "int64", "uint32"):
        i, pairs = np.array([5, 0, 3, 3, 1, 5, 2, 2, 2, 0, 4], dtype), np.array([[5, 1, 1], [0, 0, 4]], dtype)
        with case(dtype):
            same(build, table, i, pairs, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scatter_of_many_rows_into_few(dtype: str) -> None:
    """Rows without an index are zero, and neighbours of the result are not overwritten."""

    def build(x, i):
        some = gn.scatter_add(x, i, 7)
        return [gn.concatenate([some, gn.sin(x[:3]), gn.scatter_add(gn.sin(x), i, 5)]), some]

    for columns, threads in itertools.product((15, 16, 31, 32, 33, 100, 1000), (1, 2)):
        x, i = numbers((240, columns), dtype), np.random.default_rng(1).integers(5, size=240)
        with case(columns, threads):
            same(build, x, i, rtol=1e-13 if dtype == "float64" else 2e-5, threads=threads)
    x, i = numbers((4000, 130), dtype), np.arange(4000) % 900
    for threads in (1, 2):  # a table as large as that is added up where it lies
        same(lambda x, i: gn.scatter_add(x, i, 900), x, i, rtol=1e-5, threads=threads)


def test_lookups_with_one_and_several_indices() -> None:
    """Indices are shared or only equal in size; tables have equal or different lengths."""
    tables = [numbers((5, 20)), numbers((5, 20)), numbers((7, 20))]
    one, other = np.arange(9) % 5, np.arange(9)[::-1] % 5
    i, j = gn.input((9,), "int64"), gn.input((9,), "int64")
    given = {i: one, j: other}
    u, v, w = leaves = [gn.input(t.shape, "float64") for t in tables]
    for a, b, c in itertools.product((i, j), repeat=3):
        total = gn.take(u, a) * gn.take(v, b) - gn.take(w, c) * gn.one_hot(a, 20, "float64")
        function = gn.compile(total, [i, j, *leaves])
        expected = tables[0][given[a]] * tables[1][given[b]] - tables[2][given[c]] * np.eye(20)[given[a]]
        assert np.array_equal(function(one, other, *tables)[0], expected), (a, b, c)
        for index in {a, b}:
            bad = {**given, index: np.where(np.arange(9) == 4, 5, given[index])}
            with pytest.raises(gn.GraphnetError, match="index 5 is out of range"):
                function(*bad.values(), *tables)


def test_long_chains_wide_sums_and_shared_values() -> None:
    def build(x, y):
        h = x
        for _ in range(130):
            h = gn.sin(h) + y * 0.1
        wide = gn.add(*(x * float(k) for k in range(40)), *(y[::-1] for _ in range(20)), gn.sum(x))
        total = gn.sum(gn.add(*(gn.tanh(x + float(k)) for k in range(30))))
        r, joined = gn.tanh(x) * y, gn.concatenate([x * y, y])
        return [h, wide, total, r, gn.sum(r, 0), r @ r.T, gn.exp(-r), gn.max(r * 2.0, 1), r.T + 1.0, joined]

    same(build, numbers((9, 18)), numbers((9, 18)), rtol=1e-11)


def test_scalar_index_selects_rows_and_one_hot_codes() -> None:
    """For tables with more columns than one loop part."""
    index = np.array(2)
    for columns, threads in itertools.product((100, 256, 300, 2049), (1, 2, 3)):
        with case(columns, threads):
            same(lambda w, v, i: [w[i], gn.tanh(w)[i] + 1, gn.one_hot(i, columns) * 2, gn.take(gn.sin(v), i, 1)],
                 numbers((3, columns)), numbers((columns, 3)), index, threads=threads, rtol=1e-12)  # fmt: skip
    for depth in (1, 5, 16, 19):
        with case(depth):
            same(lambda i: [gn.one_hot(i, depth, "float32"), gn.one_hot(i[0], depth, "float64") * 3.0,
                            gn.one_hot(i.T, depth, "int32"), gn.one_hot(i, depth, "bool"),
                            gn.sum(gn.one_hot(i, depth, "float64"), (0, 1))],
                 np.arange(24).reshape(4, 6) % depth)  # fmt: skip


def test_slices_across_two_joined_parts_wait_for_both() -> None:
    """The slice has as many rows as each part, but different ones."""
    for rows, threads in itertools.product((64, 128, 300, 2048), (1, 2, 3)):

        def shifted(a, b):
            join = gn.concatenate([gn.tanh(a), gn.sin(b)], 0)
            column = gn.reshape(join[:, 1:2], (2 * rows,))
            turned = join[:, 1:].T[:, 3 : 3 + rows]
            return [gn.exp(join[:, :2][5 : 5 + rows]), gn.exp(column[7 : 7 + rows]), gn.cos(turned)]

        with case(rows, threads):
            same(shifted, numbers((rows, 4)), numbers((rows, 4)) / 2, threads=threads, rtol=1e-12)


def test_sparse_layers_match_numpy() -> None:
    """A layer over a graph: y_j = tanh(Σ_i a_i τ_ij), its gradient, and the transposed operands of both."""
    sizes = ((1, 1, 1), (1, 5, 3), (3, 7, 16), (4, 3, 33), (9, 40, 130), (64, 50, 400), (5, 4, 0))
    ways = (("int64", "int32", "uint8"), ("float32", "float64"), sizes, (1, 2))
    for index, dtype, (rows, columns, edges), threads in itertools.product(*ways):
        generator = np.random.default_rng(0)
        source, target = generator.integers(0, columns, (2, edges)).astype(index)
        a, tau = gn.input((rows, columns), dtype), gn.input((rows, edges), dtype)
        i = gn.input((edges,), index)
        y = gn.tanh(gn.scatter_add(gn.take(a, i, axis=1) * tau, gn.constant(target), columns, axis=1))
        across = gn.take(a.T, np.arange(rows)[::-1].copy(), axis=1)
        across = gn.scatter_add(across, np.arange(rows), rows + 1, axis=1)
        nodes = [y, across, *gn.gradient(gn.sum(y * y), [a, tau])]
        arrays = [*(generator.standard_normal(node.shape).astype(dtype) for node in (a, tau)), source]
        with case(index, dtype, rows, columns, edges, threads):
            require_same(nodes, [a, tau, i], arrays, 1e-5 if dtype == "float32" else 1e-12, threads=threads)


def test_sparse_layer_is_native_and_has_no_transposes() -> None:
    """The program of a sparse layer is native from end to end."""
    a, tau = gn.input((8, 30)), gn.input((8, 90))
    i, j = np.random.default_rng(0).integers(0, 30, (2, 90))
    y = gn.scatter_add(gn.take(a, i, axis=1) * tau, j, 30, axis=1)
    graph = gn.compile([y, *gn.gradient(gn.sum(y * y), [a, tau])], [a, tau]).graph
    assert not [step for step in lower(graph).instructions if isinstance(step, Host)]
    assert "Transpose" not in [node.op.name for node in graph.order]
