"""Functions that are made of ops, and the sums along an axis, against NumPy: values, derivatives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from tests.tables import case

random = np.random.default_rng(20)
backends = pytest.mark.parametrize(
    "backend", ["numpy", "numba", pytest.param("cuda", marks=pytest.mark.cuda)]
)


def run(nodes: Any, inputs: list[Node], *arrays: Array, backend: str = "numba") -> Array:
    return gn.compile(nodes, inputs, backend=backend)(*arrays)[0]


# -- running sums -------------------------------------------------------------------------------------


@backends
def test_running_sums_of_any_length(backend: str) -> None:
    for size in (1, 2, 3, 15, 16, 17, 100):
        array = random.integers(-50, 50, (2, size, 3))
        x = gn.input(array.shape, "int64")
        sums = gn.compile([gn.cumsum(x, 1), gn.cumsum(x, 1, reverse=True)], [x], backend=backend)
        forward, back = sums(array)
        np.testing.assert_array_equal(forward, np.cumsum(array, 1), err_msg=str(size))
        np.testing.assert_array_equal(back, np.flip(np.cumsum(np.flip(array, 1), 1), 1), err_msg=str(size))


def test_running_sums_round_no_more_than_a_plain_sum() -> None:
    """100,000 numbers in float32, beside the sums in float64."""
    array = random.uniform(0, 1, 100_000).astype("float32")
    x = gn.input(array.shape)
    right = np.cumsum(array, dtype="float64")
    lost = abs(run(gn.cumsum(x, 0), [x], array) - right) / right
    assert lost.max() < 1e-6
    assert lost.max() < (abs(np.cumsum(array) - right) / right).max()


def test_short_integers_do_not_wrap() -> None:
    x = gn.input((3,), "uint8")
    found = run(gn.cumsum(x, 0), [x], np.full(3, 200, "uint8"))
    assert found.dtype == "uint64"
    assert found.tolist() == [200, 400, 600]


def test_errors_of_running_sums() -> None:
    x = gn.input((3, 2), name="x")
    with pytest.raises(gn.ShapeError, match="CumSum: axis 2 does not exist in an array of 2 axes"):
        gn.cumsum(x, 2)
    with pytest.raises(gn.UsageError, match="cumsum: reverse"):
        gn.cumsum(x, 0, 1)  # type: ignore[arg-type]


# -- lookups along an axis ------------------------------------------------------------------------------


#: Shapes of the array and of the indices, and the axis.
LOOKUPS: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((5,), (7,), 0), ((3, 4), (3, 2), 1), ((3, 4), (3, 1), -1), ((3, 4), (6, 4), 0), ((3, 4), (6, 1), 0),
    ((3, 1), (2, 4), 0), ((2, 3, 4), (2, 5, 4), 1), ((1, 3, 4), (2, 5, 1), 1),
    ((2, 3, 4), (1, 1, 9), 2), ((2, 3), (2, 0), 1),
]  # fmt: skip


@backends
def test_take_along_axis(backend: str) -> None:
    for shape, of_indices, axis in LOOKUPS:
        array, indices = random.standard_normal(shape), random.integers(0, shape[axis], of_indices)
        x, i = gn.input(shape, "float64"), gn.input(of_indices, "int64")
        found = run(gn.take_along_axis(x, i, axis), [x, i], array, indices, backend=backend)
        right = np.take_along_axis(array, indices, axis)
        np.testing.assert_array_equal(found, right, err_msg=f"{shape}, {of_indices}, {axis}")


@backends
def test_what_is_not_along_the_axis_is_out_of_range(backend: str) -> None:
    """Also where it would be in range of the whole array: -1 in the second row, 4 in the first of four columns."""
    x, i = gn.input((3, 4)), gn.input((3, 1), "int64")
    function = gn.compile(gn.take_along_axis(x, i, 1), [x, i], backend=backend)
    array = np.zeros((3, 4), "float32")
    for wrong in ([0, -1, 0], [4, 0, 0], [0, 0, 4]):
        with pytest.raises(
            gn.GraphnetError, match=rf"index {sum(wrong)} is out of range: it must be 0 ... 3"
        ):
            function(array, np.array(wrong)[:, None])


def test_errors_of_lookups_along_an_axis() -> None:
    x = gn.input((3, 4), name="x")
    for shape, dtype, kind, words in (
        ((3,), "int64", gn.ShapeError, r"indices have 1 axes, but x has 2.*(?s:.)*x"),
        ((2, 1), "int64", gn.ShapeError, r"but for axis 1, the shapes do not broadcast"),
        ((3, 1), "float32", gn.DtypeError, r"take_along_axis: the index is float32; it must hold integers"),
    ):
        with pytest.raises(kind, match=words):
            gn.take_along_axis(x, gn.input(shape, dtype, name="i"), 1)
    with pytest.raises(gn.ShapeError, match="take_along_axis: axis 2 does not exist"):
        gn.take_along_axis(x, gn.input((3, 4), "int64"), 2)


# -- padding ----------------------------------------------------------------------------------------------


#: Shapes, and widths of pads as NumPy takes them.
PADS: list[tuple[tuple[int, ...], Any]] = [
    ((3,), 2), ((3,), (1, 2)), ((3,), ((1, 2),)), ((2, 3), 1), ((2, 3), (0, 2)), ((2, 3), ((1, 0), (2, 3))),
    ((2, 3), ((1,), (2,))), ((2, 3), 0), ((2, 0), 1), ((2, 1, 3), ((0, 0), (4, 0), (0, 1))),
]  # fmt: skip


@backends
def test_pad(backend: str) -> None:
    values = (0, -0.0, -1.5, np.inf)
    for shape, widths in PADS:
        x, array = gn.input(shape, "float64"), random.standard_normal(shape)
        padded = gn.compile([gn.pad(x, widths, value) for value in values], [x], backend=backend)(array)
        for value, found in zip(values, padded, strict=True):
            expected = np.pad(array, widths, constant_values=value)
            with case(shape, widths, value):
                np.testing.assert_array_equal(found, expected)
                np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_integers_and_booleans_are_padded_by_their_own_kind() -> None:
    x = gn.input((2,), "bool")
    assert run(gn.pad(x, 1, True), [x], np.array([False, True])).tolist() == [True, False, True, True]
    with pytest.raises(gn.DtypeError, match=r"pad: int64 cannot hold 0.5"):
        gn.pad(gn.input((2,), "int64"), 1, 0.5)


def test_widths_that_do_not_fit() -> None:
    for widths in (-1, 1.0, True, "1", (1, 2, 3), ((1, 2), (3, 4), (5, 6)), [(1, 2), (3,)], None):
        with pytest.raises(gn.ShapeError, match=r"pad: widths must be .* each of the 2 axes, not (?s:.)*x"):
            gn.pad(gn.input((2, 3), name="x"), widths)  # type: ignore[arg-type]
