"""check=True on the numba back end reports the same errors as NumPy, including indices out of range."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphnet as gn
from graphnet.ops.index import ScatterAdd
from tests.graphnet.backends.conftest import require_close
from tests.tables import case

x = gn.input((5, 19), "float64", name="x")
healthy = np.random.default_rng(0).uniform(0.5, 1.5, (5, 19))
W = gn.parameter(np.random.default_rng(1).uniform(-1, 1, (19, 7)), name="W")


def poisoned(value: float, at=(3, 17)):
    array = healthy.copy()
    array[at] = value
    return array


def error_of(function, *arrays) -> tuple[type[Exception], str]:
    with pytest.raises(gn.GraphnetError) as caught:
        function(*arrays)
    return type(caught.value), str(caught.value)


NAN, INF = float("nan"), float("inf")

#: What is wrong -> (nodes, value at one place of x, the op that is named)
BAD = {
    "log of a negative number": (lambda: [gn.tanh(gn.log(x)) + 1.0], -1.0, "Log"),
    "exp that overflows": (lambda: [gn.exp(x) * 2.0], 1000.0, "Exp"),
    "infinity hidden again by tanh": (lambda: [gn.tanh(gn.exp(x))], 1000.0, "Exp"),
    "NaN hidden again by where": (lambda: [gn.where(x > 0, gn.log(x), 0.0)], -1.0, "Log"),
    "NaN in an input": (lambda: [gn.tanh(x)], NAN, "Input"),
    "NaN in an input that a slice leaves out": (lambda: [x[:2] * 2.0], NAN, "Input"),
    "overflow of a product": (lambda: [gn.tanh(x @ (W * 100.0))], 1.7e308, "MatMul"),
    "overflow of a product with itself": (lambda: [gn.sum(gn.tanh(x @ x.T))], 1e200, "MatMul"),
    "overflow of a sum": (lambda: [gn.tanh(gn.sum(x * 0.0 + gn.maximum(x, 0.0) * 1e308, 1))], 1.5, "Sum"),
    "overflow of a sum that is a result": (lambda: [gn.sum(gn.maximum(x, 0.0) * 1e308, 1)], 1.5, "Sum"),
    "division by 0": (lambda: [gn.tanh(1.0 / x)], 0.0, "Divide"),
    "cast that overflows": (lambda: [gn.tanh(gn.cast(x, "float32"))], 1e300, "Cast"),
    "NaN in a join": (lambda: [gn.tanh(gn.concatenate([x, gn.log(x)])[::-1])], -1.0, "Log"),
    "the first of two": (lambda: [gn.exp(x) + gn.log(x - 1e6)], 1000.0, "Exp"),
    "in a gradient only": (lambda: gn.gradient(gn.sum(gn.sqrt(x)), [x]), 0.0, "Divide"),
}


def test_check_names_the_same_node_as_numpy() -> None:
    """Without check, there is no error, and the values match NumPy."""
    for what, (build, value, op) in BAD.items():
        with case(what):
            nodes, bad = build(), poisoned(value)
            error, said = error_of(gn.compile(nodes, [x], backend="numpy", check=True, passes=()), bad)
            assert error is gn.NonFiniteError
            assert said.startswith(f"{op}: ")
            for threads in (1, 2):
                assert error_of(gn.compile(nodes, [x], check=True, threads=threads), bad) == (error, said)
            expected = gn.compile(nodes, [x], backend="numpy", passes=())(bad)
            for a, b in zip(gn.compile(nodes, [x])(bad), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype == "float32" else 1e-12)


def test_check_finds_non_finite_values_at_any_position() -> None:
    """At vector and remainder positions, for all kinds of operations."""
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
    function = gn.compile([gn.tanh(x @ theta)], [x], check=True)
    for value in (1.0, NAN, 1.0):  # an error leaves nothing behind
        theta.value[18, 6] = value
        if value == 1:
            function(healthy)
        else:
            assert "theta" in error_of(function, healthy)[1]


def test_check_accepts_finite_graphs() -> None:
    """Masked lanes, empty arrays and unused nodes raise no error."""
    for backend in ("numpy", "numba"):
        function = gn.compile([gn.concatenate([x, gn.log(x)])[:5] * 2.0], [x], backend=backend, check=True)
        function(poisoned(-1.0))
    for size in (0, 1, 7, 8, 9, 15, 17):
        leaf = gn.input((size, size), "float64")
        h = 1.0 / gn.log(leaf)
        nodes = [h, gn.sum(h, 0), gn.sum(h, 1), h @ h.T, gn.log(leaf[::-1])]
        nodes += [gn.softmax(h), gn.max(h)] if size else []
        values = np.full((size, size), 3.0)
        for threads in (1, 2):
            plain = gn.compile(nodes, [leaf], threads=threads)(values)
            checked = gn.compile(nodes, [leaf], check=True, threads=threads)(values)
            require_close(checked, plain)


LOOKUPS = {
    "take": lambda t, i: [gn.take(t, i)],
    "take of computed": lambda t, i: [gn.take(gn.tanh(t), i) * 2.0],
    "vector": lambda t, i: [gn.take(t[:, 0], i)],
    "one_hot product": lambda t, i: [gn.one_hot(i, 6, "float64") @ t],
    "gradient": lambda t, i: gn.gradient(gn.sum(gn.sin(gn.take(t, i))), [t]),
    "scatter": lambda t, i: [ScatterAdd(6, 0)(t, i[:6])],
    "scatter of columns": lambda t, i: [gn.scatter_add(t.T, i[:6], 6, axis=1)],
    "three axes": lambda t, i: [gn.take(gn.reshape(t, (6, 3, 1)), i)],
    "scatter of three axes": lambda t, i: [gn.scatter_add(gn.reshape(t, (6, 3, 1)), i[:6], 6)],
    "loss": lambda t, i: [gn.softmax_cross_entropy(gn.concatenate([t, t[:1]]).T[:, :6], i[:3])],
}


def test_out_of_range_index_errors_match_numpy() -> None:
    table, index = gn.input((6, 3), "float64", name="table"), gn.input((7,), "int64", name="index")
    rows, good = np.ones((6, 3)), np.array([5, 0, 3, 3, 1, 5, 2])
    for name, build in LOOKUPS.items():
        nodes = build(table, index)
        right = gn.compile(nodes, [table, index], backend="numpy", passes=())
        for how in ({}, {"check": True}, {"threads": 2}, {"passes": ()}):
            function = gn.compile(nodes, [table, index], **how)
            for bad in (6, -1, 100, -(2**62), 2**62):
                wrong = good.copy()
                wrong[1] = bad
                with case(name, how, bad):
                    assert error_of(function, rows, wrong) == error_of(right, rows, wrong)
            function(rows, good)


def test_out_of_range_indices_of_every_dtype_and_position() -> None:
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        t, i = gn.input((6, 17), "float64"), gn.input((17,), dtype)
        codes = gn.one_hot(i, 6, "float32")
        for node in (gn.take(t, i), codes, gn.take(t.T, i, 1), gn.scatter_add(t, i, 6, 1)):
            function = gn.compile([node], [t, i])
            for bad, at in itertools.product({6, np.iinfo(dtype).max, np.iinfo(dtype).min} - {0}, (0, 7, 16)):
                index = np.zeros(17, dtype)
                index[at] = bad
                with case(node, dtype, bad, at):
                    error_of(function, np.ones((6, 17)), index)
            function(np.ones((6, 17)), np.full(17, 5, dtype))
