"""Function.again matches a full call, but skips work that depends on fixed inputs only."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import ancestors, substitute
from graphnet.plan import lower
from graphnet.plan.instructions import MatrixProduct
from tests.graphnet.backends.conftest import require_close
from tests.graphnet.backends.test_random_graphs import NUMBERS, some
from tests.graphnet.testing.test_random_graphs import graphs
from tests.tables import case

near = partial(require_close, rtol=1e-10, atol=1e-12)


@NUMBERS
def test_random_graphs_with_derivatives(share: int) -> None:
    ways = st.sampled_from([{}, {"threads": 2}, {"memory": "sqrt"}, {"check": True}])
    some(300 // share)(given(graphs(), st.integers(1, 6), ways)(require_again))()


def require_again(drawn, chosen: int, how) -> None:
    outputs, leaves, values = drawn
    cost = gn.add(*(gn.sum(gn.sin(node)) for node in outputs if is_float(node.dtype)))
    nodes = [*outputs, *gn.gradient(cost, leaves)]
    vary = [bool(chosen >> i & 1) for i in range(len(leaves))]
    inputs = [gn.input(n.shape, n.dtype, varying=True) if v else n for n, v in zip(leaves, vary, strict=True)]
    nodes = substitute(nodes, {a: b for a, b in zip(leaves, inputs, strict=True) if a is not b})
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())
    function = gn.compile(nodes, inputs, **how)
    if any(vary):
        kept = [i for i, node in enumerate(nodes) if not set(ancestors([node])) & set(inputs) - set(leaves)]
        found = function.begin(*itertools.compress(values, [not v for v in vary]))
        near(found, [expected(*values)[i] for i in kept])
        require_close(function.again(*itertools.compress(values, vary)), function(*values))
    near(function(*values), expected(*values))
    for factor in (0.5, -1.3):
        values = [value * factor if v else value for value, v in zip(values, vary, strict=True)]
        near(function.again(*itertools.compress(values, vary)), expected(*values))


def products(cell: rnn.Cell, time: int = 4, batch: int = 5):
    """Gv of a network, its other inputs, the directions, and the network over time."""
    net = rnn.Network([cell], 5, 5, seed=1)
    u = net.unroll(time, batch)
    parameters = list(net.parameters.values())
    directions = [gn.input(p.shape, p.dtype, varying=True) for p in parameters]
    product = gn.gauss_newton_product(u.cost, dict(zip(parameters, directions, strict=True)))
    return product, [u.inputs, u.targets, *u.initial], directions, u


def drawn(nodes, seed: int):
    draw = np.random.default_rng(seed).integers
    return [
        draw(-4, 5, n.shape).astype(n.dtype) if n.dtype.kind == "f" else draw(0, 5, n.shape) for n in nodes
    ]


by_host = pytest.mark.parametrize("backend", ["numba", "numpy"])


@by_host
def test_curvature_products_and_gradients(backend: str) -> None:
    """Values are computed by `begin`; gradients and products with varying directions by `again`."""
    for cell in (rnn.LSTM(6), rnn.RHN(5, depth=2), rnn.LayerNormLSTM(6)):
        product, fixed, directions, u = products(cell)
        cotangent = gn.input(u.logits.shape, u.logits.dtype, varying=True)
        gradients, varying = gn.backward({u.logits: cotangent}, u.initial), [*directions, cotangent]
        function = gn.compile([u.logits, *product, *gradients], [*fixed, *varying], backend=backend)
        for seed in (0, 1):
            data, given = drawn(fixed, seed), drawn(varying, seed + 2)
            (value,) = function.begin(*data)
            found, other = function.again(*given), function.again(*(-a for a in given))
            expected = function(*data, *given)
            with case(cell, seed):
                require_close([value, *found], [expected[0], *expected])
                require_close(other[1:], [-a for a in expected[1:]], rtol=1e-5, atol=1e-7)


class Counted(gn.Op):
    """y = x, counted"""

    signature = "n -> n"

    def __init__(self) -> None:
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x.copy()


def test_begin_computes_all_fixed_nodes() -> None:
    x, v = gn.input((3,), name="x"), gn.input((3,), name="v", varying=True)
    ones = np.ones(3, "float32")
    early, late = Counted(), Counted()
    y = early(x) * 2
    function = gn.compile([y, y + v, late(x + v)], [x, v])
    np.testing.assert_array_equal(function.begin(ones)[0], 2 * ones)
    assert (early.calls, late.calls) == (1, 0)
    require_close(function.again(ones), [2 * ones, 3 * ones, 2 * ones])
    require_close(function.again(3 * ones), [2 * ones, 5 * ones, 4 * ones])
    assert (early.calls, late.calls) == (1, 2)
    # A number was written after all else, so `begin` gave what its memory held before: as of a gradient that is 0.
    number = gn.fill(7.0, (3,), "float32")
    for late in (x * v, gn.concatenate([number, v])):
        function = gn.compile([gn.exp(x), number, late], [x, v])
        for call in (function.begin, function.again) * 2:
            np.testing.assert_array_equal(call(ones)[1], 7 * ones)


@by_host
def test_begin_and_full_call_each_report_their_own_errors(backend: str) -> None:
    x, v = gn.input((2,), name="x"), gn.input((2,), name="v", varying=True)
    ones = np.ones(2, "float32")
    function = gn.compile([gn.log(x), gn.exp(x) * gn.log(v)], [x, v], backend=backend, check=True)
    for call, wrong, right in ((function.begin, [-ones], [ones]), (function, [-ones, ones], [ones, ones])):
        with pytest.raises(gn.NonFiniteError, match="Log"):
            call(*wrong)
        with pytest.raises(gn.BackendError, match="the last call failed"):
            function.again(ones)
        call(*right)  # what stands for v meanwhile is not looked at
        with pytest.raises(gn.NonFiniteError, match="Log"):
            function.again(-ones)
        function.again(ones)
    late = gn.compile([gn.exp(x), gn.log(x) * v], [x, v], backend=backend, check=True)
    np.testing.assert_allclose(late.begin(-ones)[0], np.exp(-ones), rtol=1e-6)
    with pytest.raises(gn.NonFiniteError, match="Log"):
        late.again(ones)


def test_again_skips_the_forward_pass() -> None:
    """One fifth of the matrix products: F of 5 F. (The rest: 2 F tangents, 2 F back.)"""
    product, fixed, directions, _ = products(rnn.LSTM(16), time=6, batch=8)
    lowered = lower(gn.compile(product, [*fixed, *directions]).graph)
    flops = [i.c.size * i.a.shape[1] if isinstance(i, MatrixProduct) else 0 for i in lowered.instructions]
    left_out, made = sum(flops[: lowered.fixed]), sum(flops[lowered.fixed :])
    assert 0.15 < left_out / (left_out + made) < 0.3
    plain = [gn.input(d.shape, d.dtype) for d in directions]
    unsplit = gn.compile(substitute(product, dict(zip(directions, plain, strict=True))), [*fixed, *plain])
    assert lower(unsplit.graph).fixed == 0


def test_profile_does_not_change_results_of_again() -> None:
    x, v = gn.input((3,), name="x"), gn.input((3,), name="v", varying=True)
    function, ones = gn.compile([gn.tanh(x) * v], [x, v]), np.ones(3, "float32")
    (expected,) = function(ones, ones)
    function.profile(repeats=1)
    for times in (1, 2):
        np.testing.assert_allclose(function.again(times * ones)[0], times * expected, rtol=1e-6)


def test_invalid_calls_raise_errors() -> None:
    x, v = gn.input((2,), name="x"), gn.input((2,), name="v", varying=True)
    zeros, plain, function = np.zeros(2, "float32"), gn.compile([x * 2], [x]), gn.compile([x * v], [x, v])
    with pytest.raises(gn.BackendError, match="was not called before"):
        function.again(zeros)
    function(zeros, zeros)
    for call, arrays, error, part in (
        (plain.again, [zeros], gn.BackendError, "varying=True"),
        (plain.begin, [zeros], gn.BackendError, "begin: none of the inputs"),
        (function.begin, [zeros] * 2, gn.ShapeError, r"\(x\[2\]\), but 2 were given"),
        (function.again, [zeros] * 2, gn.ShapeError, r"\(v\[2\]\), but 2 were given"),
        (function.again, [np.zeros(3, "float32")], gn.ShapeError, "v"),
    ):
        with case(part), pytest.raises(error, match=part):
            call(*arrays)


@by_host
def test_begin_with_recomputation(backend: str) -> None:
    x, v = gn.input(3, "float64", name="x"), gn.input(3, "float64", name="v", varying=True)
    y = x
    for _ in range(16):
        y = gn.tanh(y * x)
    cost = gn.sum(y)
    nodes = [cost, *gn.gradient(cost, [x]), *gn.hessian_product(cost, {x: v})]
    f, plain = (gn.compile(nodes, [x, v], backend=backend, memory=memory) for memory in ("sqrt", None))
    right = plain(np.full(3, 0.9), np.arange(3.0))
    begun = f.begin(np.full(3, 0.9))
    for found, one in zip([*begun, *f.again(np.arange(3.0))], [*right[:2], *right], strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-12)
