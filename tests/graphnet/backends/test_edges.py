"""Every back end follows the tables of docs/numbers.md for infinities, NaN and other edge cases."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.dtypes import is_float
from tests.graphnet.backends.conftest import everywhere, require_close
from tests.tables import case

PAGE = Path(__file__).parents[3] / "docs" / "numbers.md"
DTYPES = {name: lambda x, t=name: np.array(x, t) for name in ("int8", "uint8", "int64", "uint64", "float32")}
NUMBERS = {"inf": np.inf, "nan": np.nan, **DTYPES}


class Row(NamedTuple):
    expression: str
    at: str
    value: str
    gradients: list[str]


#: Those of the page whose first cell is code.
ROWS = []
for line in PAGE.read_text(encoding="utf-8").splitlines():
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    if len(cells) == 4 and cells[0].startswith("`"):
        gradients = [] if cells[3] == "–" else [g.strip("`") for g in cells[3].split("`, `")]
        ROWS.append(Row(*(cell.strip("`") for cell in cells[:3]), gradients))


def value_of(text: str, names: dict):
    return eval(text, {"__builtins__": {}, "dict": dict, "gn": gn}, names)


def require(found, expected: str, what: str) -> None:
    right = np.asarray(value_of(expected, NUMBERS), found.dtype)
    np.testing.assert_allclose(found, right, rtol=1e-15, atol=0, err_msg=what)


@everywhere
def test_tables_hold_on_every_back_end(backend: str) -> None:
    assert len(ROWS) > 90
    assert sum(bool(row.gradients) for row in ROWS) > 60
    for row in ROWS:
        with case(row.expression, "at", row.at):
            require_row(row, backend)


def require_row(row: Row, backend: str) -> None:
    """Its value and gradients; and the R-operator along one input.

    This is the gradient of what is elementwise; of all else the same on every back end.
    """
    given = value_of(f"dict({row.at})", NUMBERS)
    arrays = [np.asarray(value) for value in given.values()]
    inputs = [gn.input(a.shape, a.dtype, name=name) for name, a in zip(given, arrays, strict=True)]
    y = value_of(row.expression, {node.name: node for node in inputs})
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
        require_close(along, right, rtol=1e-15)
    else:
        for x, product, gradient in zip(floats, along, row.gradients, strict=False):
            require(product, gradient, f"R-operator along {x.name}")


@everywhere
def test_non_finite_indices_are_out_of_range(backend: str) -> None:
    table, x = gn.input((4, 2), "float64"), gn.input((3,), "float64")
    index, rows = gn.cast(x, "int64"), np.ones((4, 2))
    nodes = [gn.take(table, index), gn.one_hot(index, 4), gn.scatter_add(table[:3], index, 4)]
    for passes, node in itertools.product(((), gn.passes.DEFAULT), nodes):
        function = gn.compile(node, [table, x], backend=backend, passes=passes)
        function(rows, np.array([0.0, 3.9, 1.0]))
        for wrong in (np.nan, np.inf, -np.inf, 4.0):
            with pytest.raises(gn.GraphnetError, match="out of range"):
                function(rows, np.array([0.0, wrong, 1.0]))


@everywhere
def test_second_derivatives_of_powers_and_derivatives_of_tiny_logarithms(backend: str) -> None:
    """x^y at y = 0, where the first partial is 0 · x^-1, and at x = 0: no 0 · ∞ from a branch that is not taken."""
    x, y, a, b = (gn.input((), "float64") for _ in range(4))
    product = gn.compile(gn.hessian_product(x**y, {x: a, y: b}), [x, y, a, b], backend=backend)
    for at, by_xx, by_xy, by_yy in [
        ((4.0, 0.0), 0.0, 0.25, np.log(4) ** 2),
        ((2.0, 3.0), 12.0, 4 + 12 * np.log(2), 8 * np.log(2) ** 2),
        ((0.0, 2.0), 2.0, 0.0, 0.0),
        *(((0.0, power), 0.0, 0.0, 0.0) for power in (0.0, 1.0, 3.0, 4.0)),
    ]:
        np.testing.assert_allclose(product(*at, 1.0, 0.0), [by_xx, by_xy], rtol=1e-12)
        np.testing.assert_allclose(product(*at, 0.0, 1.0), [by_xy, by_yy], rtol=1e-12)
    # A slope 1/x may be too large for a number where what it is multiplied by is tiny, too: as in an entropy.
    for dtype, tiny in (("float32", 1e-40), ("float64", 1e-310)):
        x = gn.input((2,), dtype, name="x")
        entropy = -gn.sum(x * gn.log(x))
        given = np.array([tiny, 0.5], dtype)
        (found,) = gn.compile(gn.gradient(entropy, [x]), [x], backend)(given)
        np.testing.assert_allclose(found, -np.log(given.astype("float64")) - 1, rtol=1e-5)


def test_sigmoid_is_one_where_it_rounds_to_one() -> None:
    """The derivative is 0 there, for any vector width."""
    for width in (1, 3, 6, 16, 40):
        x = gn.input((width,), "float32")
        function = gn.compile([1 - gn.sigmoid(x), *gn.gradient(gn.sum(gn.sigmoid(x)), [x])], [x])
        for number in (18.0, 20.0, 33.3, 40.0, 88.0, 1e30, np.inf):
            rest, slope = function(np.full(width, number, "float32"))
            assert not rest.any() | slope.any(), (width, number)
