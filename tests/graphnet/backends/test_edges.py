"""docs/numbers.md is the rule for infinities, NaN and all else at the edge: every back end keeps all of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.dtypes import is_float
from graphnet.graph.node import Array, Node
from tests.tables import case

PAGE = Path(__file__).parents[3] / "docs" / "numbers.md"
DTYPES = {name: getattr(np, name) for name in ("int8", "uint8", "int64", "uint64", "float32")}
NUMBERS = {
    "inf": np.inf,
    "nan": np.nan,
    **{name: lambda x, t=t: np.array(x, t) for name, t in DTYPES.items()},
}


class Row(NamedTuple):
    expression: str
    at: str
    value: str
    gradients: list[str]


def rows() -> list[Row]:
    """Those of the page whose first cell is code."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0].startswith("`"):
            gradients = [] if cells[3] == "–" else [g.strip("`") for g in cells[3].split("`, `")]
            found.append(Row(*(cell.strip("`") for cell in cells[:3]), gradients))
    return found


ROWS = rows()
backends = pytest.mark.parametrize(
    "backend", ["numpy", "numba", pytest.param("cuda", marks=pytest.mark.cuda)]
)


def evaluated(text: str, dtype: Any = None) -> Array:
    return np.asarray(eval(text, {"__builtins__": {}}, NUMBERS), dtype)


def problem(row: Row) -> tuple[Node, list[Node], list[Array]]:
    """The row's node, its inputs and where they are."""
    given: dict[str, Any] = eval(f"dict({row.at})", {"__builtins__": {}, "dict": dict}, NUMBERS)
    arrays = [np.asarray(value) for value in given.values()]
    inputs = [gn.input(a.shape, a.dtype, name=name) for name, a in zip(given, arrays, strict=True)]
    names = {node.name: node for node in inputs}
    return eval(row.expression, {"__builtins__": {}, "gn": gn}, names), inputs, arrays


def require(found: Array, expected: str, what: str) -> None:
    np.testing.assert_allclose(found, evaluated(expected, found.dtype), rtol=1e-15, atol=0, err_msg=what)


def test_the_page_is_read() -> None:
    assert len(ROWS) > 90
    assert sum(bool(row.gradients) for row in ROWS) > 60


@backends
def test_the_tables(backend: str) -> None:
    for row in ROWS:
        with case(row.expression, "at", row.at):
            require_row(row, backend)


def require_row(row: Row, backend: str) -> None:
    """Its value and gradients; and the R-operator along one input.

    This is the gradient of what is elementwise; of all else the same on every back end.
    """
    y, inputs, arrays = problem(row)
    floats = [x for x in inputs if is_float(x.dtype)]
    nodes, products = [y], []
    if row.gradients:
        assert len(row.gradients) == len(floats)
        nodes += gn.gradient(gn.sum(y), floats)
        products = [gn.rop([y], {x: np.ones(x.shape, x.dtype)})[0] for x in floats]
    value, *found = gn.compile([*nodes, *products], inputs, backend=backend)(*arrays)
    require(value, row.value, "value")
    for x, gradient, expected in zip(floats, found, row.gradients, strict=False):
        require(gradient, expected, f"gradient by {x.name}")
    along = found[len(row.gradients) :]
    if any(word in row.expression for word in ("sum", "max(", "min(", "soft")):
        right = gn.compile(products, inputs, backend="numpy", passes=())(*arrays) if products else []
        for a, b in zip(along, right, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-15)
    else:
        for x, product, gradient in zip(floats, along, row.gradients, strict=False):
            require(product, gradient, f"R-operator along {x.name}")


@backends
def test_a_nan_is_no_index(backend: str) -> None:
    table, x = gn.input((4, 2), "float64"), gn.input((3,), "float64")
    index = gn.cast(x, "int64")
    for passes in ((), gn.passes.DEFAULT):
        for node in (gn.take(table, index), gn.one_hot(index, 4), gn.scatter_add(table[:3], index, 4)):
            function = gn.compile(node, [table, x], backend=backend, passes=passes)
            function(np.ones((4, 2)), np.array([0.0, 3.9, 1.0]))
            for wrong in (np.nan, np.inf, -np.inf, 4.0):
                with pytest.raises(gn.GraphnetError, match="out of range"):
                    function(np.ones((4, 2)), np.array([0.0, wrong, 1.0]))


@backends
def test_powers_of_zero_have_second_derivatives(backend: str) -> None:
    """∂²(x^y)/∂y² and ∂²(x^y)/∂x² at x = 0: no 0 · ∞ from a branch that is not taken."""
    x, y = gn.input((3,), "float64"), gn.input((3,), "float64")
    z = gn.sum(x**y)
    by_x, by_y = gn.gradient(z, [x, y])
    nodes = [*gn.gradient(gn.sum(by_x), [x]), *gn.gradient(gn.sum(by_y), [y])]
    of_x, of_y = gn.compile(nodes, [x, y], backend=backend)(np.zeros(3), np.array([2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(of_x, [2.0, 0.0, 0.0])
    np.testing.assert_array_equal(of_y, np.zeros(3))


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_second_derivatives_of_powers_are_symmetric(backend: str) -> None:
    """x^y at y = 0, where the first partial is 0 · x^-1, and at x = 0."""
    x, y, a, b = (gn.input((), "float64") for _ in range(4))
    product = gn.compile(gn.hessian_product(x**y, {x: a, y: b}), [x, y, a, b], backend=backend)
    for at, by_xx, by_xy, by_yy in [
        ((4.0, 0.0), 0.0, 0.25, np.log(4) ** 2),
        ((2.0, 3.0), 12.0, 4 + 12 * np.log(2), 8 * np.log(2) ** 2),
        ((0.0, 2.0), 2.0, 0.0, 0.0),
        ((0.0, 1.0), 0.0, 0.0, 0.0),
        ((0.0, 0.0), 0.0, 0.0, 0.0),
    ]:
        np.testing.assert_allclose(product(*at, 1.0, 0.0), [by_xx, by_xy], rtol=1e-12)
        np.testing.assert_allclose(product(*at, 0.0, 1.0), [by_xy, by_yy], rtol=1e-12)


def test_sigmoid_is_one_where_it_rounds_to_one() -> None:
    """So that its slope is 0 there, whatever the vectors are that compute it."""
    for width in (1, 3, 6, 16, 40):
        x = gn.input((width,), "float32")
        function = gn.compile([1 - gn.sigmoid(x), *gn.gradient(gn.sum(gn.sigmoid(x)), [x])], [x])
        for number in (18.0, 20.0, 33.3, 40.0, 88.0, 1e30, np.inf):
            rest, slope = function(np.full(width, number, "float32"))
            assert not rest.any(), (width, number)
            assert not slope.any(), (width, number)


def test_more_elements_than_addresses_reach() -> None:
    huge = [
        gn.sum(gn.fill(1, (10**6, 10**6, 10**6), "float64")),
        gn.mean(gn.broadcast_to(gn.constant(np.ones(1)), (2**33, 2**33))),
    ]
    for node in huge:
        with pytest.raises(
            gn.NotEnoughMemoryError, match=r"elements; no more than 1\.1e\+12 can be computed"
        ):
            gn.compile([node])


@backends
def test_slopes_of_logarithms_of_tiny_numbers(backend: str) -> None:
    """A slope 1/x may be too large for a number where what it is multiplied by is tiny, too: as in an entropy."""
    for dtype, tiny in (("float32", 1e-40), ("float64", 1e-310)):
        x = gn.input((2,), dtype, name="x")
        entropy = -gn.sum(x * gn.log(x))
        given = np.array([tiny, 0.5], dtype)
        (found,) = gn.compile(gn.gradient(entropy, [x]), [x], backend)(given)
        np.testing.assert_allclose(found, -np.log(given.astype("float64")) - 1, rtol=1e-5)
