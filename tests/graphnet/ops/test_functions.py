"""Functions composed of ops, and sums along an axis, against NumPy: values, errors, ops."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops.linear import BatchMatMul, MatMul
from graphnet.plan.instructions import Host
from graphnet.plan.lowering import lower
from tests.graphnet.backends.conftest import everywhere
from tests.tables import case

random = np.random.default_rng(20)


def run(node: Node, inputs: list[Node], *arrays: Array, backend: str = "numba") -> Array:
    return gn.compile(node, inputs, backend=backend)(*arrays)[0]


@everywhere
def test_running_sums_of_any_length(backend: str) -> None:
    for size in (1, 2, 3, 15, 16, 17, 100):
        array = random.integers(-50, 50, (2, size, 3))
        x = gn.input(array.shape, "int64")
        nodes = [gn.cumsum(x, 1), gn.cumsum(x, 1, reverse=True)]
        forward, back = gn.compile(nodes, [x], backend=backend)(array)
        np.testing.assert_array_equal(forward, np.cumsum(array, 1), err_msg=str(size))
        np.testing.assert_array_equal(back, np.flip(np.cumsum(np.flip(array, 1), 1), 1), err_msg=str(size))


def test_cumsum_accuracy_and_integer_promotion() -> None:
    """100,000 numbers in float32, compared with sums in float64."""
    array = random.uniform(0, 1, 100_000).astype("float32")
    x, u = gn.input(array.shape), gn.input((3,), "uint8")
    right = np.cumsum(array, dtype="float64")
    lost = abs(run(gn.cumsum(x, 0), [x], array) - right) / right
    assert lost.max() < min(1e-6, (abs(np.cumsum(array) - right) / right).max())
    found = run(gn.cumsum(u, 0), [u], np.full(3, 200, "uint8"))
    assert (found.dtype, found.tolist()) == ("uint64", [200, 400, 600])


@everywhere
def test_take_along_axis(backend: str) -> None:
    """Values equal NumPy's. An index beyond the axis is an error, even if the array has more elements."""
    for shape, of_indices, axis in (
        ((5,), (7,), 0), ((3, 4), (3, 2), 1), ((3, 4), (3, 1), -1), ((3, 4), (6, 4), 0), ((3, 4), (6, 1), 0),
        ((3, 1), (2, 4), 0), ((2, 3, 4), (2, 5, 4), 1), ((1, 3, 4), (2, 5, 1), 1),
        ((2, 3, 4), (1, 1, 9), 2), ((2, 3), (2, 0), 1),
    ):  # fmt: skip
        array, indices = random.standard_normal(shape), random.integers(0, shape[axis], of_indices)
        x, i = gn.input(shape, "float64"), gn.input(of_indices, "int64")
        found = run(gn.take_along_axis(x, i, axis), [x, i], array, indices, backend=backend)
        right = np.take_along_axis(array, indices, axis)
        np.testing.assert_array_equal(found, right, err_msg=f"{shape}, {of_indices}, {axis}")
    x, i = gn.input((3, 4)), gn.input((3, 1), "int64")
    function = gn.compile(gn.take_along_axis(x, i, 1), [x, i], backend=backend)
    array = np.zeros((3, 4), "float32")
    for wrong in ([0, -1, 0], [4, 0, 0], [0, 0, 4]):
        with pytest.raises(gn.GraphnetError, match=rf"index {sum(wrong)} is out of range: .* 0 ... 3"):
            function(array, np.array(wrong)[:, None])


@everywhere
def test_pad(backend: str) -> None:
    values = (0, -0.0, -1.5, np.inf)
    for shape, widths in (
        ((3,), 2), ((3,), (1, 2)), ((3,), ((1, 2),)), ((2, 3), 1), ((2, 3), (0, 2)), ((2, 3), ((1, 0), (2, 3))),
        ((2, 3), ((1,), (2,))), ((2, 3), 0), ((2, 0), 1), ((2, 1, 3), ((0, 0), (4, 0), (0, 1))),
    ):  # fmt: skip
        x, array = gn.input(shape, "float64"), random.standard_normal(shape)
        padded = gn.compile([gn.pad(x, widths, value) for value in values], [x], backend=backend)(array)
        for value, found in zip(values, padded, strict=True):
            expected = np.pad(array, widths, constant_values=value)
            with case(shape, widths, value):
                np.testing.assert_array_equal(found, expected)
                np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


X, INTEGERS = gn.input((3, 4), name="x"), gn.input((2,), "int64")


def looked_up(shape: tuple[int, ...], dtype: str = "int64", axis: int = 1) -> Node:
    return gn.take_along_axis(X, gn.input(shape, dtype, name="i"), axis)


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: gn.cumsum(X, 2), gn.ShapeError, "CumSum: axis 2"),
    (lambda: gn.cumsum(X, 0, 1), gn.UsageError, "cumsum: reverse"),  # type: ignore[arg-type]
    (lambda: looked_up((3,)), gn.ShapeError, r"indices have 1 axes, but x has 2"),
    (lambda: looked_up((2, 1)), gn.ShapeError, "apart from axis 1, the shapes do not broadcast"),
    (lambda: looked_up((3, 1), "float32"), gn.DtypeError, "take_along_axis: the index is float32"),
    (lambda: looked_up((3, 4), axis=2), gn.ShapeError, "take_along_axis: axis 2"),
    (lambda: gn.pad(INTEGERS, 1, 0.5), gn.DtypeError, "pad: int64 cannot hold 0.5"),
    *((lambda widths=widths: gn.pad(X, widths), gn.ShapeError, "pad: widths must be .* 2 axes, not (?s:.)*x")
      for widths in (-1, 1.0, True, "1", (1, 2, 3), ((1, 2), (3, 4), (5, 6)), [(1, 2), (3,)], None)),
]  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    for call, error, named in REFUSED:
        with case(named), pytest.raises(error, match=named):
            call()
    flags = gn.input((2,), "bool")
    assert run(gn.pad(flags, 1, True), [flags], np.array([False, True])).tolist() == [True, False, True, True]


SIZES = dict(zip(string.ascii_letters, [2, 3, 4, 5, 2, 3, 1, 4] * 7, strict=False))

#: Subscripts whose shapes follow from SIZES.
LETTERS = [
    "a->a", "a->", "a", "ab->ba", "ab->a", "ba", "ab->", "abc->cab", "abc->b",  # one operand
    "aa->a", "aa->", "aa", "aab->ab", "aba->ba", "baa->b", "abab->ab", "aaa->a", "abcab->c",  # diagonals
    "a,a->a", "a,a->", "a,b->ab", "a,b->ba", "a,b->", "ab,b->a", "ab,a->b", "ab,b->ab", "a,ab->b",  # two
    "ab,bc->ac", "ab,bc->ca", "ba,bc->ac", "ab,cb->ac", "ab,bc", "ab,ab->", "ab,ba->", "ab,ab->ab", "abc,bcd->ad",
    "abc,cd->abd", "abc,abd->acd", "abc,acd->abd", "abc,ac->ab", "abc,bad->dcab", "abc,abc->b", "aab,bcc->ac",
    ",->", ",ab->ba", "a,->a",  # numbers
    "ab,bc,cd->ad", "ab,cd,ef->af", "a,a,a->a", "ab,bc,ca->", "abc,bd,ce->ade", "a,b,c->cab", ",a,a->",  # several
    "ab,bc,cd,de->ae", "ab,ac,ad,ae->bcde", "ab,bc,cd,de,ef,fh->ah",
    "ag,gb->ab", "ag,bg->ab", "g,g->", "gg->",  # axes of size 1
]  # fmt: skip

#: Subscripts with given shapes: ellipses, repeated axes of size 1, axes of size 0.
SHAPES: list[tuple[str, list[tuple[int, ...]]]] = [
    ("...", [(2, 3)]), ("...->...", [()]), ("i...", [(2, 3)]), ("...i->i...", [(2, 3, 4)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("i...i->...", [(3, 2, 3)]), ("...i,...i", [(2, 1, 3), (4, 3)]), ("...ij,...jk->...ik", [(5, 1, 2, 3), (4, 3, 2)]),
    ("...ij,jk", [(2, 3, 4), (4, 5)]), ("i...,j...->ij...", [(2, 4), (3, 5, 4)]), ("...,...", [(3,), (2, 1)]),
    ("a...,...->a...", [(2, 3), ()]), ("...a,b...,ab->...", [(3, 2), (4, 3), (2, 4)]), ("i->...i", [(3,)]),
    ("ij,ij->ij", [(1, 3), (2, 3)]), ("ij,jk->ik", [(2, 1), (3, 4)]), ("ii,i->i", [(1, 1), (4,)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]), ("ij,jk->ik", [(0, 2), (2, 3)]), ("ii->i", [(0, 0)]),
    ("ij,jk,kl->il", [(2, 0), (0, 3), (3, 0)]),
    (" i j , j k -> i k ", [(2, 3), (3, 4)]),
]  # fmt: skip


def shapes_of(subscripts: str) -> list[tuple[int, ...]]:
    return [tuple(SIZES[letter] for letter in term) for term in subscripts.partition("->")[0].split(",")]


def applied(subscripts: str, arrays: list[Array]) -> tuple[Node, list[Node]]:
    leaves = [gn.input(a.shape, a.dtype) for a in arrays]
    return gn.einsum(subscripts, *leaves), leaves


def require_numpys(subscripts: str, arrays: list[Array], backend: str) -> None:
    y, leaves = applied(subscripts, arrays)
    (found,) = gn.compile([y], leaves, backend=backend)(*arrays)
    right = np.asarray(np.einsum(subscripts, *arrays))
    assert (found.shape, found.dtype) == (right.shape, right.dtype) == (y.shape, y.dtype)
    rtol = 1e-5 if right.dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, right, rtol=rtol, atol=rtol)


@everywhere
def test_einsum_matches_numpy(backend: str) -> None:
    """Compiled functions need no Python code in a run, so they can be stored and run on a GPU."""
    for subscripts, shapes in [*((letters, shapes_of(letters)) for letters in LETTERS), *SHAPES]:
        with case(subscripts, shapes):
            arrays = [random.standard_normal(shape) for shape in shapes]
            require_numpys(subscripts, arrays, backend)
            if backend == "numba":
                y, leaves = applied(subscripts, arrays)
                graph, _ = passes.optimize(Graph([y, *gn.gradient(gn.sum(y * y), leaves)], leaves))
                assert not any(isinstance(step, Host) for step in lower(graph).instructions)


def drawn(random: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """Random subscripts and shapes: repeated letters, axes of size 1, ellipses, with or without result."""
    letters, sizes = "abcde", dict(zip("abcde", random.integers(1, 5, 5).tolist(), strict=True))
    behind = tuple(random.integers(1, 4, 2).tolist()) if random.random() < 0.4 else None
    terms, shapes = [], []
    for _ in range(random.integers(1, 5)):
        term = "".join(random.choice(list(letters), random.integers(0, 4)))
        once = random.random() < 0.2 and len(set(term)) == len(term)  # one of its axes is repeated
        shape = [sizes[letter] for letter in term]
        if once and shape:
            shape[random.integers(len(shape))] = 1
        if behind is not None:
            at, kept = random.integers(len(term) + 1), random.integers(3)
            shape[at:at] = [1 if random.random() < 0.3 else n for n in behind[2 - kept :]]
            term = f"{term[:at]}...{term[at:]}"
        terms.append(term)
        shapes.append(tuple(shape))
    subscripts = ",".join(terms)
    used = sorted({letter for letter in subscripts if letter in letters})
    if random.random() < 0.7:
        result = "".join(random.permutation(used)[: random.integers(len(used) + 1)]) if used else ""
        subscripts += f"->{'...' if behind is not None else ''}{result}"
    return subscripts, shapes


def test_random_subscripts_match_numpy() -> None:
    for seed in range(120):
        random = np.random.default_rng(seed)
        subscripts, shapes = drawn(random)
        arrays = [random.integers(-3, 4, shape).astype(float) for shape in shapes]  # sums of which are exact
        with case(seed, subscripts, shapes):
            require_numpys(subscripts, arrays, "numba" if seed < 20 else "numpy")


def test_dtypes_are_kept() -> None:
    """Integers overflow as in NumPy. For booleans, the sum is True if any term is."""
    for dtype in ("float32", "int8", "int64", "uint16", "bool"):
        for subscripts in ("ab,bc->ac", "ab->a", "ab,ab->", "aa->a", "bac,bcd->bad", "a,b->ab"):
            random = np.random.default_rng(0)
            below = 2 if dtype == "bool" else 60
            arrays = [random.integers(0, below, s).astype(dtype) for s in shapes_of(subscripts)]
            for backend in ("numpy", "numba"):
                with case(dtype, subscripts, backend):
                    require_numpys(subscripts, arrays, backend)


def test_numbers_take_the_dtype_of_the_nodes_beside_them() -> None:
    x, k = gn.input((2, 3)), gn.input((2, 3), "int64")
    for y in (
        gn.squared_error(x, 0.3), gn.squared_error(0.3, x), gn.squared_error(x, True),
        gn.sigmoid_cross_entropy(x, 0.3), gn.sigmoid_cross_entropy(0.3, x), gn.einsum("ij,->ij", x, 0.3),
    ):  # fmt: skip
        assert (y.dtype, y.shape) == (np.float32, (2, 3))
    assert (gn.einsum("ij,->ij", k, 2).dtype, gn.squared_error(0.3, k).dtype) == (np.int64, np.float64)
    z = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(gn.compile(gn.squared_error(x, 0.3))(z)[0], (z - 0.3) ** 2, rtol=1e-6)


def products_of(subscripts: str, *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """(rows, inner, columns) of each matrix product."""
    y, leaves = applied(subscripts, [np.zeros(shape) for shape in shapes])
    products = [node for node in Graph([y], leaves).order if isinstance(node.op, (MatMul, BatchMatMul))]
    return sorted((*node.inputs[0].shape[-2:], node.shape[-1]) for node in products)


def test_products_are_matrix_products_in_the_cheapest_order() -> None:
    assert products_of("bij,bjk->bik", (6, 2, 3), (6, 3, 4)) == [(2, 3, 4)]
    assert products_of("abc,cd->abd", (2, 3, 4), (4, 5)) == [(6, 4, 5)]
    assert products_of("ij,jk,kl->il", (2, 100), (100, 100), (100, 3)) == [(2, 100, 3), (2, 100, 100)]
    assert products_of("ij,jk,kl->il", (100, 100), (100, 100), (100, 1)) == [(100, 100, 1)] * 2
    x = gn.input((2, 3))
    assert gn.einsum("ij->ij", x) is x


NO_SUBSCRIPTS: list[tuple[str, list[tuple[int, ...]], str]] = [
    ("ij,jk->ik", [(2, 3), (4, 5)], "'j' is 4 in operand 2, but 3 before"),
    ("ij->ji", [(2,)], "operand 1 has 1 axes, but 'ij' names 2"),
    ("ij->ji", [(2, 3, 4)], "operand 1 has 3 axes, but 'ij' names 2"),
    ("ij,jk", [(2, 3)], "it names 2 operands, but 1 are given"),
    ("ij->ijk", [(2, 3)], "'k' of the result is in no operand"),
    ("ij->ii", [(2, 3)], "'i' appears twice in the result"),
    ("ii->i", [(2, 3)], "the axes 'i' of operand 1"),
    ("......", [(2, 3)], "'......' may hold only letters"),
    ("...i->i", [(2, 3)], "'...' stands for 1 axes"),
]


def test_errors_name_the_operand_and_the_shapes() -> None:
    for subscripts, shapes, words in NO_SUBSCRIPTS:
        leaves = [gn.input(shape, name=f"x{i}") for i, shape in enumerate(shapes, start=1)]
        with case(subscripts), pytest.raises(gn.ShapeError) as caught:
            gn.einsum(subscripts, *leaves)
        for part in (words, f"einsum: {subscripts!r}", *(leaf.describe() for leaf in leaves)):
            assert part in str(caught.value)
    with pytest.raises(gn.UsageError, match="einsum: subscripts must be a str"):
        gn.einsum(gn.input((2, 3)), "ij")  # type: ignore[arg-type]


def test_powers_of_integers_are_exact_for_arrays_and_nodes() -> None:
    a = np.array([3037000499])
    for x in (a, gn.constant(a), a.tolist()):
        (found,) = gn.compile([gn.power(x, 2)])()
        assert (found.dtype, found.tolist()) == (np.int64, [3037000499**2])


def test_scalar_draws() -> None:
    source = gn.RandomSource(0)
    for node in (source.bernoulli(0.7, ()), source.normal(1.0, ()), source.uniform(1.0, ())):
        (found,) = gn.compile([node * 2.0])()
        assert found.shape == ()


def test_uniform_draws_exclude_their_bound() -> None:
    """Half of these numbers would be rounded to the bound, the smallest number of float32."""
    bound = np.nextafter(np.float32(0), np.float32(1))
    assert (gn.RandomSource(0).uniform(float(bound), (1000,)).value < bound).all()
    for draw in (gn.RandomSource().uniform, gn.RandomSource().normal):
        with pytest.raises(gn.UsageError, match="must be"):
            draw(-1.0, (3,))
