"""Function.again: the same as a call, without what does not depend on the inputs that vary."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import BackendError, ShapeError
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import ancestors, substitute
from graphnet.graph.node import Array, Node
from graphnet.plan import lower
from tests.graphnet.backends.test_random_graphs import NUMBERS, some
from tests.graphnet.testing.test_random_graphs import graphs
from tests.tables import case

SETTINGS: list[dict[str, Any]] = [{}, {"threads": 2}, {"memory": "sqrt"}, {"check": True}]


@NUMBERS
def test_random_graphs_with_derivatives(share: int) -> None:
    some(40 // share)(given(graphs(), st.integers(1, 6), st.sampled_from(SETTINGS))(require_again))()


def require_again(drawn: Any, chosen: int, how: dict[str, Any]) -> None:
    outputs, leaves, values = drawn
    cost = gn.add(*(gn.sum(gn.sin(node)) for node in outputs if is_float(node.dtype)))
    nodes = [*outputs, *gn.gradient(cost, leaves)]
    vary = [bool(chosen >> i & 1) for i in range(len(leaves))]
    inputs = [gn.input(n.shape, n.dtype, varying=True) if v else n for n, v in zip(leaves, vary, strict=True)]
    nodes = substitute(nodes, {a: b for a, b in zip(leaves, inputs, strict=True) if a is not b})
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())
    function = gn.compile(nodes, inputs, **how)
    if any(vary):
        kept = [i for i, node in enumerate(nodes) if not set(inputs) & ancestors_that_vary(node)]
        found = function.begin(*(value for value, v in zip(values, vary, strict=True) if not v))
        same(found, [expected(*values)[i] for i in kept])
        begun = function.again(*(value for value, v in zip(values, vary, strict=True) if v))
        for a, b in zip(begun, function(*values), strict=True):
            np.testing.assert_array_equal(a, b)
    same(function(*values), expected(*values))
    for factor in (0.5, -1.3):
        values = [value * factor if v else value for value, v in zip(values, vary, strict=True)]
        again = function.again(*(value for value, v in zip(values, vary, strict=True) if v))
        same(again, expected(*values))


def ancestors_that_vary(node: Node) -> set[Node]:
    return {found for found in ancestors([node]) if found.op.is_input and found.op.varying}


def same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def products(cell: rnn.Cell, time: int = 4, batch: int = 5) -> tuple[list[Node], list[Node], list[Node]]:
    """Gv of a network, its other inputs, and the directions."""
    net = rnn.Network([cell], 5, 5, seed=1)
    u = net.unroll(time, batch)
    parameters = list(net.parameters.values())
    directions = [gn.input(p.shape, p.dtype, varying=True) for p in parameters]
    product = gn.gauss_newton_product(u.cost, dict(zip(parameters, directions, strict=True)))
    return product, [u.inputs, u.targets, *u.initial], directions


def drawn(nodes: list[Node], seed: int) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [
        generator.integers(0, 5, n.shape)
        if n.dtype.kind == "i"
        else generator.standard_normal(n.shape).astype(n.dtype)
        for n in nodes
    ]


CELLS = (rnn.LSTM(6), rnn.RHN(5, depth=2), rnn.LayerNormLSTM(6))


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_curvature_products(backend: str) -> None:
    for cell in CELLS:
        product, fixed, directions = products(cell)
        function = gn.compile(product, [*fixed, *directions], backend=backend)
        data = drawn(fixed, 0)
        first = function(*data, *drawn(directions, 1))
        for seed in (2, 3):
            found = function.again(*drawn(directions, seed))
            for a, b in zip(found, function(*data, *drawn(directions, seed)), strict=True):
                np.testing.assert_array_equal(a, b, err_msg=str(cell))
        for a, b in zip(function.again(*drawn(directions, 1)), first, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=str(cell))


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_values_begin_and_gradients_follow(backend: str) -> None:
    for cell in CELLS:
        with case(cell):
            require_gradients(cell, backend)


def require_gradients(cell: rnn.Cell, backend: str) -> None:
    u = rnn.Network([cell], 5, 5, seed=1).unroll(4, 5)
    fixed = [u.inputs, *u.initial]
    cotangent = gn.input(u.logits.shape, u.logits.dtype, varying=True)
    gradients = gn.backward({u.logits: cotangent}, u.initial)
    function = gn.compile([u.logits, *gradients], [*fixed, cotangent], backend=backend)
    for seed in (0, 1):
        data, given = drawn(fixed, seed), drawn([cotangent], seed + 2)
        (value,) = function.begin(*data)
        found = function.again(*given)
        other = function.again(*(-a for a in given))
        expected = function(*data, *given)
        np.testing.assert_array_equal(value, expected[0])
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
        for a, b in zip(other[1:], expected[1:], strict=True):
            np.testing.assert_allclose(a, -b, rtol=1e-5, atol=1e-7)


def test_only_what_varies_is_left_for_later() -> None:
    x, v = gn.input((3,), name="x"), gn.input((3,), name="v", varying=True)
    y = Counted()(x) * 2
    function = gn.compile([y, y + v], [x, v])
    ones = np.ones(3, "float32")
    before = next(Counted.calls)
    np.testing.assert_array_equal(function.begin(ones)[0], 2 * ones)
    assert next(Counted.calls) - before == 2
    np.testing.assert_array_equal(function.again(ones)[1], 3 * ones)
    assert next(Counted.calls) - before == 3


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_what_is_wrong_is_told_by_whoever_computes_it(backend: str) -> None:
    x, v = gn.input((2,), name="x"), gn.input((2,), name="v", varying=True)
    ones = np.ones(2, "float32")
    function = gn.compile([gn.log(x), gn.exp(x) * gn.log(v)], [x, v], backend=backend, check=True)
    with pytest.raises(gn.NonFiniteError, match="Log"):
        function.begin(-ones)
    with pytest.raises(BackendError, match="the last call failed"):
        function.again(ones)
    function.begin(ones)  # what stands for v meanwhile is not looked at
    with pytest.raises(gn.NonFiniteError, match="Log"):
        function.again(-ones)
    function(ones, ones)
    function.again(ones)
    with pytest.raises(gn.NonFiniteError):
        function(-ones, ones)
    with pytest.raises(BackendError, match="the last call failed"):
        function.again(ones)
    late = gn.compile([gn.exp(x), gn.log(x) * v], [x, v], backend=backend, check=True)
    np.testing.assert_allclose(late.begin(-ones)[0], np.exp(-ones), rtol=1e-6)
    with pytest.raises(gn.NonFiniteError, match="Log"):
        late.again(ones)


def test_the_forward_pass_is_left_out() -> None:
    """Of the products of matrices: F of 5 F. (The rest: 2 F tangents, of which F by the directions, 2 F back.)"""
    product, fixed, directions = products(rnn.LSTM(16), time=6, batch=8)
    lowered = lower(gn.compile(product, [*fixed, *directions]).graph)
    flops = [i.c.size * i.a.shape[1] if type(i).__name__ == "Product" else 0 for i in lowered.instructions]
    left_out, made = sum(flops[: lowered.fixed]), sum(flops[lowered.fixed :])
    assert 0.15 < left_out / (left_out + made) < 0.3
    plain = [gn.input(d.shape, d.dtype) for d in directions]
    unsplit = gn.compile(substitute(product, dict(zip(directions, plain, strict=True))), [*fixed, *plain])
    assert lower(unsplit.graph).fixed == 0


class Counted(gn.Op):
    """y = x, counted"""

    signature = "n -> n"
    calls = itertools.count()

    def forward(self, x: Array) -> Array:
        next(self.calls)
        return x.copy()


def test_what_python_runs_is_left_out_too() -> None:
    x, v = gn.input((3,), name="x"), gn.input((3,), name="v", varying=True)
    ones = np.ones(3, "float32")
    for late in (False, True):
        counted = Counted()
        function = gn.compile([counted(x + v if late else x) * 2 + v], [x, v])
        function(ones, ones)
        before = next(counted.calls)
        np.testing.assert_array_equal(function.again(3 * ones)[0], (11 if late else 5) * ones)
        assert next(counted.calls) - before == (2 if late else 1)


def test_stored_functions_run_again(tmp_path: Path) -> None:
    product, fixed, directions = products(rnn.GRU(4))
    function = gn.compile(product, [*fixed, *directions])
    function.save(tmp_path / "f.gn")
    loaded = gn.load_function(tmp_path / "f.gn")
    data = drawn(fixed, 0)
    loaded(*data, *drawn(directions, 1))
    for a, b in zip(loaded.again(*drawn(directions, 2)), function(*data, *drawn(directions, 2)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_number_that_is_an_output_begins() -> None:
    """It was written after all else, so `begin` gave what its memory held before: as of a gradient that is 0."""
    x, v, number = gn.input((3,)), gn.input((3,), varying=True), gn.fill(7.0, (3,), "float32")
    ones = np.ones(3, "float32")
    for late in (x * v, gn.concatenate([number, v])):
        function = gn.compile([gn.exp(x), number, late], [x, v])
        for _ in range(2):
            np.testing.assert_array_equal(function.begin(ones)[1], 7 * ones)
            np.testing.assert_array_equal(function.again(ones)[1], 7 * ones)


def test_misuse_is_told() -> None:
    x, v = gn.input((2,), name="x"), gn.input((2,), name="v", varying=True)
    zeros = np.zeros(2, "float32")
    with pytest.raises(BackendError, match=r"varying=True"):
        gn.compile([x * 2], [x]).again(zeros)
    with pytest.raises(BackendError, match="begin: none of the inputs"):
        gn.compile([x * 2], [x]).begin(zeros)
    function = gn.compile([x * v], [x, v])
    with pytest.raises(ShapeError, match=r"takes 1 array\(s\) \(x\[2\]\), but 2 were given"):
        function.begin(zeros, zeros)
    with pytest.raises(BackendError, match="was not called before"):
        function.again(zeros)
    function(zeros, zeros)
    with pytest.raises(ShapeError, match=r"takes 1 array\(s\) \(v\[2\]\), but 2 were given"):
        function.again(zeros, zeros)
    with pytest.raises(ShapeError, match="v"):
        function.again(np.zeros(3, "float32"))
