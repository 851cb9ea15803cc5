"""check=True on the numba back end says what NumPy says; indices out of range are told, and never followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.ops.index import ScatterAdd
from tests.tables import case

x = gn.input((5, 19), "float64", name="x")
healthy = np.random.default_rng(0).uniform(0.5, 1.5, (5, 19))
W = gn.parameter(np.random.default_rng(1).uniform(-1, 1, (19, 7)), name="W")


def poisoned(value: float, at: tuple[int, int] = (3, 17)) -> Array:
    array = healthy.copy()
    array[at] = value
    return array


def told(
    nodes: Any, arrays: list[Any], backend: str, error: type[Exception] = gn.NonFiniteError, **how: Any
) -> str:
    """The words of the error that a call raises."""
    inputs = [x] if len(arrays) == 1 else None
    function = gn.compile(nodes, inputs, backend=backend, **how)
    with pytest.raises(error) as caught:
        function(*arrays)
    return str(caught.value)


NAN, INF = float("nan"), float("inf")

#: What is wrong -> (nodes, value at one place of x, the op that is named)
BAD: dict[str, tuple[Callable[[], list[Node]], float, str]] = {
    "log of a negative number": (lambda: [gn.tanh(gn.log(x)) + 1.0], -1.0, "Log"),
    "log of 0": (lambda: [gn.exp(gn.log(x))], 0.0, "Log"),
    "exp that overflows": (lambda: [gn.exp(x) * 2.0], 1000.0, "Exp"),
    "infinity hidden again by tanh": (lambda: [gn.tanh(gn.exp(x))], 1000.0, "Exp"),
    "infinity hidden again by a division": (lambda: [1.0 / (1.0 + gn.exp(x))], 1000.0, "Exp"),
    "NaN hidden again by where": (lambda: [gn.where(x > 0, gn.log(x), 0.0)], -1.0, "Log"),
    "NaN hidden again by a comparison": (lambda: [gn.sqrt(x) > 1.0], -1.0, "Sqrt"),
    "NaN hidden again by max": (lambda: [gn.maximum(gn.log(x), 0.0) * 0.0], -1.0, "Log"),
    "NaN in an input": (lambda: [gn.tanh(x)], NAN, "Input"),
    "infinity in an input": (lambda: [gn.tanh(x)], INF, "Input"),
    "NaN in an input that a slice leaves out": (lambda: [x[:2] * 2.0], NAN, "Input"),
    "overflow of a product": (lambda: [gn.tanh(x @ (W * 100.0))], 1.7e308, "MatMul"),
    "overflow of a product with itself": (lambda: [gn.sum(gn.tanh(x @ x.T))], 1e200, "MatMul"),
    "overflow of a sum": (lambda: [gn.tanh(gn.sum(x * 0.0 + gn.maximum(x, 0.0) * 1e308, 1))], 1.5, "Sum"),
    "overflow of a total": (lambda: [gn.tanh(gn.sum(x * 1e308))], 1.0, "Sum"),
    "division by 0": (lambda: [gn.tanh(1.0 / x)], 0.0, "Divide"),
    "0 / 0": (lambda: [gn.where(gn.equal(x, 0), 1.0, x / x)], 0.0, "Divide"),
    "square that overflows": (lambda: [gn.tanh(x * x)], 1e200, "Multiply"),
    "power that overflows": (lambda: [gn.tanh(x**3)], 1e200, "Power"),
    "difference of what is too large": (lambda: [gn.tanh(x - -1.7e308)], 1.7e308, "Subtract"),
    "cast that overflows": (lambda: [gn.tanh(gn.cast(x, "float32"))], 1e300, "Cast"),
    "NaN in a join": (lambda: [gn.tanh(gn.concatenate([x, gn.log(x)])[::-1])], -1.0, "Log"),
    "the first of two": (lambda: [gn.exp(x) + gn.log(x - 1e6)], 1000.0, "Exp"),
    "in a gradient only": (lambda: gn.gradient(gn.sum(gn.sqrt(x)), x), 0.0, "Divide"),
}


def test_the_first_bad_node_is_the_one_that_numpy_names() -> None:
    for what, (build, value, op) in BAD.items():
        with case(what):
            nodes = build()
            expected = told(nodes, [poisoned(value)], "numpy", check=True, passes=())
            assert expected.startswith(f"{op}: ")
            for threads in (1, 2):
                assert told(nodes, [poisoned(value)], "numba", check=True, threads=threads) == expected


def test_one_bad_number_anywhere_is_seen() -> None:
    """In whole vectors and in masked rests; given, computed, multiplied, added up, joined and looked up."""
    index = gn.constant(np.arange(5)[::-1])
    for node in (gn.tanh(x), gn.log(x), gn.sum(x, 0), gn.take(gn.log(x), index), gn.log(x).T @ W[:5],
                 gn.max(gn.log(x), 1), gn.softmax(x)):  # fmt: skip
        function = gn.compile([node], [x], check=True)
        for at in ((0, 0), (4, 18), (2, 8), (2, 15), (2, 16)):
            for value in (NAN, -INF):
                with case(node, at, value), pytest.raises(gn.NonFiniteError):
                    function(poisoned(value, at))
        function(healthy)


def test_a_bad_parameter_is_named() -> None:
    theta = gn.parameter(np.ones((19, 7)), name="theta")
    nodes = [gn.tanh(x @ theta)]
    function = gn.compile(nodes, [x], check=True)
    function(healthy)
    theta.value[18, 6] = NAN
    with pytest.raises(gn.NonFiniteError) as caught:
        function(healthy)
    assert "theta" in str(caught.value)
    assert str(caught.value) == told(nodes, [healthy], "numpy", check=True, passes=())
    theta.value[18, 6] = 1.0
    function(healthy)  # an error leaves nothing behind


def test_healthy_graphs_are_silent() -> None:
    """Also where masked lanes and empty arrays would make infinities of the zeros that they hold."""
    for size in (0, 1, 7, 8, 9, 15, 17):
        leaf = gn.input((size, size), "float64")
        h = 1.0 / gn.log(leaf)
        nodes = [h, gn.sum(h, 0), gn.sum(h, 1), h @ h.T, gn.log(leaf[::-1])]
        nodes += [gn.softmax(h), gn.max(h)] if size else []
        values = np.full((size, size), 3.0)
        for threads in (1, 2):
            plain = gn.compile(nodes, [leaf], threads=threads)(values)
            checked = gn.compile(nodes, [leaf], check=True, threads=threads)(values)
            for a, b in zip(checked, plain, strict=True):
                np.testing.assert_array_equal(a, b)


def test_without_check_nothing_is_said() -> None:
    for what, (build, value, _) in BAD.items():
        nodes = build()
        found = gn.compile(nodes, [x])(poisoned(value))
        expected = gn.compile(nodes, [x], backend="numpy", passes=())(poisoned(value))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype == "float32" else 1e-12, err_msg=what)


# -- indices -------------------------------------------------------------------------------------------------

OUTSIDE = [6, -1, 100, -(2**62), 2**62]


LOOKUPS: dict[str, Callable[[Node, Node], list[Node]]] = {
    "take": lambda t, i: [gn.take(t, i)],
    "take of computed": lambda t, i: [gn.take(gn.tanh(t), i) * 2.0],
    "columns": lambda t, i: [gn.take(t.T, i, 1)],
    "vector": lambda t, i: [gn.take(t[:, 0], i)],
    "one_hot": lambda t, i: [gn.one_hot(i, 6, "float64")],
    "one_hot product": lambda t, i: [gn.one_hot(i, 6, "float64") @ t],
    "gradient": lambda t, i: gn.gradient(gn.sum(gn.sin(gn.take(t, i))), t),
    "scatter": lambda t, i: [ScatterAdd(6, 0)(t, i[:6])],
    "loss": lambda t, i: [gn.softmax_cross_entropy(gn.concatenate([t, t[:1]]).T[:, :6], i[:3])],
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_an_index_out_of_range_is_the_same_error_as_numpy_s(name: str) -> None:
    table, index = gn.input((6, 3), "float64", name="table"), gn.input((7,), "int64", name="index")
    nodes = LOOKUPS[name](table, index)
    rows, good = np.ones((6, 3)), [5, 0, 3, 3, 1, 5, 2]
    right = gn.compile(nodes, [table, index], backend="numpy", passes=())
    for how in ({}, {"check": True}, {"threads": 2}, {"passes": ()}):
        function = gn.compile(nodes, [table, index], **how)
        for bad in OUTSIDE:
            wrong = [rows, np.array([good[0], bad, *good[2:]])]
            with case(how, bad):
                assert error_of(function, wrong) == error_of(right, wrong)
        function(rows, np.array(good))


def error_of(function: gn.Function, arrays: list[Any]) -> tuple[type[Exception], str]:
    with pytest.raises(gn.GraphnetError) as caught:
        function(*arrays)
    return type(caught.value), str(caught.value)


def test_indices_of_every_dtype_are_watched() -> None:
    for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"):
        table, index = gn.input((6, 17), "float64"), gn.input((9,), dtype)
        function = gn.compile([gn.take(table, index), gn.one_hot(index, 6, "float32")], [table, index])
        for bad in {6, np.iinfo(dtype).max, np.iinfo(dtype).min} - {0}:
            array = np.zeros(9, dtype)
            array[8] = bad
            with case(dtype, bad):
                error_of(function, [np.ones((6, 17)), array])
        function(np.ones((6, 17)), np.full(9, 5, dtype))


def test_what_no_output_needs_is_not_computed_and_not_told() -> None:
    """prune drops a piece of a join that is sliced away, on every back end."""
    nodes = [gn.concatenate([x, gn.log(x)])[:5] * 2.0]
    for backend in ("numpy", "numba"):
        gn.compile(nodes, [x], backend=backend, check=True)(poisoned(-1.0))
