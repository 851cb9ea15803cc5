"""Facts about single parts of the engine that no law states: depth, accuracy, memory, state, diagnosis."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from tests.tables import case

single, double = np.dtype("float32"), np.dtype("float64")


def run(nodes: Any, *arrays: Any, **how: Any) -> tuple[Array, ...]:
    """The nodes' values, their inputs in the order of creation."""
    return gn.compile(nodes, **how)(*arrays)


# -- size ------------------------------------------------------------------------------------------


def deep(steps: int) -> gn.Function:
    """x + steps · 1e-5, added up one by one, with its gradient and tangent."""
    x = gn.input((2,), "float64", name="x")
    h = x
    for _ in range(steps):
        h = h + 1e-5
    cost = gn.sum(h * h)
    gradient, tangent = gn.gradient(cost, x), gn.rop([h], {x: np.array([1.0, -1.0])})
    return gn.compile([cost, *gradient, *tangent], [x], passes=gn.passes.without("merge again"))


def wide(terms: int) -> gn.Function:
    """The gradient of tanh of a sum of so many products."""
    x, pieces = gn.input((3,), "float64"), gn.input((terms, 3), "float64")
    cost = gn.sum(gn.tanh(gn.add(*(x * pieces[t] for t in range(terms)))))
    return gn.compile(gn.gradient(cost, [x, pieces]), [x, pieces])


def test_a_graph_may_be_20_000_nodes_deep() -> None:
    """Nothing recurses: building, deriving, compiling, running, freeing."""
    function = deep(20_000)
    assert len(function.graph) > 20_000
    value, g, r = function([1.0, 2.0])
    assert value == pytest.approx(1.2**2 + 2.2**2)
    np.testing.assert_allclose(g, [2.4, 4.4])
    np.testing.assert_array_equal(r, [1.0, -1.0])
    del function


def calls(make: Callable[[], Any]) -> int:
    """How many calls of functions it takes."""
    count = 0

    def observe(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(observe)
    try:
        make()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("build", [deep, wide])
def test_work_grows_as_the_graph_does(build: Callable[[int], gn.Function]) -> None:
    """Nothing is quadratic: twice the nodes take twice the calls."""
    for size in (300, 600):
        build(size)  # kernels are compiled, and what is cached is there
    few, many = (calls(lambda size=size: build(size)) for size in (300, 600))  # type: ignore[misc]
    assert many < 2.3 * few


def test_a_wide_sum_is_right() -> None:
    gx, _ = wide(300)(np.ones(3), np.full((300, 3), 1e-3))
    np.testing.assert_allclose(gx, 0.3 * (1 - np.tanh(0.3) ** 2))


def test_curvature_of_a_deep_graph() -> None:
    """f(f(...f(x))) with f(x) = x + ε x²: Hv of 1,100 steps."""
    epsilon = 5e-5
    x = gn.input((), "float64")
    h = x
    for _ in range(1_100):
        h = h + epsilon * h**2
    value, slope, curvature = 0.5, 1.0, 0.0
    for _ in range(1_100):
        curvature = curvature * (1 + 2 * epsilon * value) + 2 * epsilon * slope**2
        slope *= 1 + 2 * epsilon * value
        value += epsilon * value**2
    found = run([h, *gn.gradient(h, x), *gn.hessian_product(h, {x: 1.0})], 0.5, passes=(), backend="numpy")
    np.testing.assert_allclose([float(f) for f in found], [value, slope, curvature], rtol=1e-10)


# -- accuracy -------------------------------------------------------------------------------------------

EXTREME = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, 1e4], [3.0, 1e4, 1e4]])


@pytest.mark.parametrize("dtype", [single, double])
class TestExtremeLogits:
    """Losses, gradients and Hessian products are finite, and right, for logits of ±10,000."""

    def derived(self, build: Callable[[Node], Node], logits: Array, dtype: Any) -> list[Array]:
        z = gn.input(logits.shape, dtype)
        cost = gn.sum(build(z))
        v = np.linspace(-1, 1, logits.size).reshape(logits.shape).astype(dtype)
        nodes = [build(z), *gn.gradient(cost, z), *gn.hessian_product(cost, {z: v})]
        values = gn.compile(nodes, [z], check=True)(logits.astype(dtype))
        assert all(value.dtype == dtype for value in values)
        return [*values, v]

    def test_symbols(self, dtype: Any) -> None:
        loss, g, hv, v = self.derived(lambda z: gn.softmax_cross_entropy(z, [1, 2, 0]), EXTREME, dtype)
        p = np.array([[1, 0, 0], [0, 0, 1], [0, 0.5, 0.5]])
        np.testing.assert_allclose(loss, [2e4, 0, 1e4 - 3 + np.log(2)], rtol=1e-6)
        np.testing.assert_allclose(g, p - np.eye(3)[[1, 2, 0]], atol=1e-7)
        np.testing.assert_allclose(hv, p * v - p * (p * v).sum(1, keepdims=True), atol=1e-7)

    def test_distributions(self, dtype: Any) -> None:
        t = np.array([[0.5, 0.25, 0.25]] * 3, dtype)
        loss, g, hv, v = self.derived(lambda z: gn.softmax_cross_entropy(z, t), EXTREME, dtype)
        p = np.array([[1, 0, 0], [0, 0, 1], [0, 0.5, 0.5]])
        expected = [0.25 * 2e4 + 0.25 * 1e4, 0.75 * 2e4, 0.5 * (1e4 - 3) + np.log(2)]
        np.testing.assert_allclose(loss, expected, rtol=1e-6)
        np.testing.assert_allclose(g, p - t, atol=1e-7)
        np.testing.assert_allclose(hv, p * v - p * (p * v).sum(1, keepdims=True), atol=1e-7)

    def test_bits(self, dtype: Any) -> None:
        t = np.array([[1, 1, 1], [0, 1, 0], [0.5, 0.5, 1]], dtype)
        loss, g, hv, v = self.derived(lambda z: gn.sigmoid_cross_entropy(z, t), EXTREME, dtype)
        p = np.array([[1, 0, 0.5], [0, 0, 1], [1 / (1 + np.exp(-3)), 1, 1]])
        expected = [[0, 1e4, np.log(2)], [0, 1e4, 1e4], [np.log1p(np.exp(-3)) + 1.5, 5e3, 0]]
        np.testing.assert_allclose(loss, expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(g, p - t, atol=1e-6)
        np.testing.assert_allclose(hv, p * (1 - p) * v, atol=1e-7)

    def test_squares(self, dtype: Any) -> None:
        loss, g, hv, v = self.derived(lambda z: gn.squared_error(z, np.ones((3, 3), dtype)), EXTREME, dtype)
        np.testing.assert_allclose(loss, (EXTREME - 1) ** 2, rtol=1e-6)
        np.testing.assert_allclose(g, 2 * (EXTREME - 1), rtol=1e-6)
        np.testing.assert_allclose(hv, 2 * v, rtol=1e-6)

    def test_log_of_softmax_does_not_underflow(self, dtype: Any) -> None:
        z = gn.input((3, 3), dtype)
        (found,) = run([gn.log(gn.softmax(z))], EXTREME.astype(dtype))
        np.testing.assert_allclose(found[0], [0, -2e4, -1e4], rtol=1e-6)


WHOLE_RANGE = np.concatenate([-np.logspace(-6, 2.8, 300)[::-1], [0.0], np.logspace(-6, 2.8, 300)])


#: Functions, and in long double what they are: exp(-|x|) neither overflows nor cancels for any of these.
ACCURATE: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "sigmoid": (
        gn.sigmoid,
        lambda x: np.where(x >= 0, 1 / (1 + np.exp(-abs(x))), np.exp(-abs(x)) / (1 + np.exp(-abs(x)))),
    ),
    "softplus": (gn.softplus, lambda x: np.where(x > 0, x, 0) + np.log1p(np.exp(-abs(x)))),
    "tanh": (gn.tanh, lambda x: -np.expm1(-2 * abs(x)) / (1 + np.exp(-2 * abs(x))) * np.sign(x)),
    "log_softmax": (
        lambda x: gn.log_softmax(gn.stack([x, 0 * x], 1))[:, 0],
        lambda x: np.where(x < 0, x, 0) - np.log1p(np.exp(-abs(x))),
    ),
    "logsumexp": (
        lambda x: gn.logsumexp(gn.stack([x, 0 * x], 1)),
        lambda x: np.where(x > 0, x, 0) + np.log1p(np.exp(-abs(x))),
    ),
}


@pytest.mark.parametrize("dtype", [single, double])
def test_functions_are_accurate_everywhere(dtype: Any) -> None:
    """Relative error of a few roundings, from -630 to 630."""
    numbers, information = WHOLE_RANGE.astype(dtype), np.finfo(dtype)
    for name, (function, right) in ACCURATE.items():
        (found,) = run([function(gn.input(numbers.shape, dtype))], numbers)
        expected = right(numbers.astype(np.longdouble))
        # log Σ exp near 0 is a difference of numbers of size 1; the others hold relative to their value.
        absolute = 4 * information.eps if "log" in name else 4 * information.tiny
        close = abs(found - expected) <= 6 * information.eps * abs(expected) + absolute
        assert close.all(), name


def test_masked_symbols() -> None:
    """-inf for a symbol that is ruled out: probability 0, and no NaN."""
    z = gn.input((3,), "float64")
    p, log_p, total, loss = run(
        [gn.softmax(z), gn.log_softmax(z), gn.logsumexp(z), gn.softmax_cross_entropy(z, 0)],
        np.array([0.0, 0.0, -np.inf]),
    )
    np.testing.assert_allclose(p, [0.5, 0.5, 0])
    np.testing.assert_allclose(log_p, [-np.log(2), -np.log(2), -np.inf])
    np.testing.assert_allclose([total, loss], [np.log(2), np.log(2)])


# -- NumPy is the definition -------------------------------------------------------------------------------


KEYS: list[Any] = [
    0, -1, slice(None), slice(None, None, -1), slice(3, None, -2), slice(-10, None, -1), slice(-1, -10, -1),
    slice(10, 20), slice(2, 0), slice(0, 0), Ellipsis, None, (0, -1), (slice(1, 3), 0), (Ellipsis, 1),
    (None, 1, None), (Ellipsis, None), (slice(None), slice(None, None, -3)), (slice(-3, -1), slice(0, 99)),
    [0, 2, 2], np.array([[0, 1], [3, 0]]), np.int64(2), np.array(1),
]  # fmt: skip


def test_indexing_is_numpy_s() -> None:
    for key in KEYS:
        with case(key):
            array = np.arange(20.0).reshape(4, 5)
            node = gn.input((4, 5), "float64")[key]
            (found,) = run([node], array)
            assert node.shape == array[key].shape
            np.testing.assert_array_equal(found, array[key])


def test_reductions_are_numpy_s() -> None:
    for keepdims in (False, True):
        for axis in (None, 0, -1, (0, 2), ()):
            for function, numpy_function in (
                (gn.sum, np.sum),
                (gn.max, np.max),
                (gn.min, np.min),
                (gn.mean, np.mean),
            ):
                with case(numpy_function.__name__, axis, keepdims):
                    array = np.random.default_rng(0).standard_normal((2, 3, 4))
                    (found,) = run([function(gn.input((2, 3, 4), "float64"), axis, keepdims)], array)
                    expected = numpy_function(array, axis=axis, keepdims=keepdims)
                    assert found.shape == expected.shape
                    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_extrema_of_integers() -> None:
    """Down to the smallest number, whose negative does not exist."""
    for dtype in ("uint8", "int8", "int32", "int64", "bool"):
        with case(dtype):
            low, high = (False, True) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            array = np.array([low, high, 1], dtype)
            x = gn.input((3,), dtype)
            found = run([gn.min(x), gn.max(x), gn.minimum(x, x[::-1]), gn.argmax(x)], array)
            assert [value.dtype for value in found[:3]] == [np.dtype(dtype)] * 3
            assert (found[0], found[1], found[3]) == (low, high, 1)
            np.testing.assert_array_equal(found[2], np.minimum(array, array[::-1]))


def test_numbers_take_the_dtype_beside_them_unless_they_do_not_fit() -> None:
    f, u, b = gn.input((2,)), gn.input((2,), "uint8"), gn.input((2,), "bool")
    for node, dtype in [
        (f + 1, "float32"), (2.5 * f, "float32"), (np.float64(2) * f, "float32"), (f**0.5, "float32"),
        (1 - f, "float32"), (u + 1, "uint8"), (u + 300, "int64"), (u * -1, "int64"), (u + 0.5, "float64"),
        (b + 1, "int64"), (b * np.True_, "bool"), (f * np.True_, "float32"), (f / 2, "float32"), (u / 2, "float64"),
        (f + b, "float32"), (f + gn.input((2,), "float64"), "float64"), (gn.exp(u), "float64"),
        (gn.sum(b), "int64"), (gn.mean(u), "float64"), (f > 0, "bool"), (gn.argmax(f), "int64"),
    ]:  # fmt: skip
        assert node.dtype == dtype, node
    found = run([u + 300, u * -1], np.array([0, 5], "uint8"))
    np.testing.assert_array_equal(found, [[300, 305], [0, -5]])


def test_absent_derivatives_take_part_in_arithmetic() -> None:
    """A cost that does not depend on w has zeros for its gradient, of w's shape and dtype."""
    x, w = gn.input((2, 3), "float32"), gn.input((3,), "float64")
    (absent,) = gn.gradient(gn.sum(x), w)
    total = absent + x
    assert (total.shape, total.dtype) == ((2, 3), double)
    assert gn.add(absent, [1.0, 2.0, 3.0]).shape == (3,)
    assert (x - absent).dtype == double
    with pytest.raises(gn.ShapeError, match="do not broadcast"):
        absent + np.ones(4)
    values = run([absent, total, absent - 1.0], np.ones((2, 3), single))
    np.testing.assert_array_equal(values[0], np.zeros(3))
    np.testing.assert_array_equal(values[1], np.ones((2, 3)))
    np.testing.assert_array_equal(values[2], -np.ones(3))


# -- curvature ------------------------------------------------------------------------------------------------


class TestTwoLayerNet:
    """Where the net ends, and sums of losses. (The matrices themselves: test_linear_operator.)"""

    generator = np.random.default_rng(7)
    X = generator.standard_normal((5, 4))
    W1 = generator.standard_normal((4, 3))
    W2 = generator.standard_normal((3, 6))
    t = np.array([0, 5, 2, 2, 1])
    V1 = generator.standard_normal((4, 3))
    V2 = generator.standard_normal((3, 6))

    def nodes(self) -> tuple[Node, Node, Node, Node]:
        """(cost, logits, W1, W2)."""
        w1, w2 = gn.input((4, 3), "float64", name="W1"), gn.input((3, 6), "float64", name="W2")
        logits = gn.tanh(gn.constant(self.X) @ w1) @ w2
        return gn.mean(gn.softmax_cross_entropy(logits, self.t)), logits, w1, w2

    def test_gauss_newton_with_a_penalty(self) -> None:
        """at=[logits, W]: G + λ I on the W that is penalised."""
        cost, logits, w1, w2 = self.nodes()
        tangents = {w1: self.V1, w2: self.V2}
        plain = run(gn.gauss_newton_product(cost, tangents), self.W1, self.W2)
        penalised = cost + 0.5 * 0.3 * gn.sum(w2 * w2)
        found = run(gn.gauss_newton_product(penalised, tangents, at=[logits, w2]), self.W1, self.W2)
        np.testing.assert_allclose(found[0], plain[0], rtol=1e-12)
        np.testing.assert_allclose(found[1], plain[1] + 0.3 * self.V2, rtol=1e-12)

    def test_gauss_newton_of_several_losses_adds(self) -> None:
        cost, _, w1, w2 = self.nodes()
        other = gn.mean(gn.squared_error(gn.tanh(gn.constant(self.X) @ w1), np.ones((5, 3))))
        tangents = {w1: self.V1, w2: self.V2}
        both = run(gn.gauss_newton_product(cost + other, tangents), self.W1, self.W2)
        parts = [
            gn.compile(gn.gauss_newton_product(c, tangents), [w1, w2])(self.W1, self.W2)
            for c in (cost, other)
        ]
        for found, a, b in zip(both, *parts, strict=True):
            np.testing.assert_allclose(found, a + b, rtol=1e-12)


# -- derivatives with conditions --------------------------------------------------------------------------------


def test_clip_values_truncates_at_every_node() -> None:
    """The cotangent -100 is cut to -5 before it is multiplied by 0.1: -0.5, not -5 as if cut at the end."""
    x = gn.input((), "float64")
    for cost, clip_values, right in [
        ((x * 10.0) * 10.0, None, 100.0),
        ((x * 10.0) * 10.0, 50.0, 50.0),
        ((x * 10.0) * 10.0, 1e9, 100.0),
        ((x * 0.1) * -100.0, None, -10.0),
        ((x * 0.1) * -100.0, 5.0, -0.5),
    ]:
        assert gn.compile(gn.gradient(cost, x, clip_values), [x])(1.0)[0] == pytest.approx(right)


def test_derivatives_with_respect_to_inner_nodes() -> None:
    x = gn.input((), "float64")
    h = gn.sin(x)
    cost = h * h + x
    (by_h,) = gn.gradient(cost, h)
    (tangent,) = gn.rop([cost], {h: 1.0})
    found = run([by_h, tangent], 0.5)
    np.testing.assert_allclose(found, 2 * np.sin(0.5))


def test_equal_things_of_a_large_graph_are_one() -> None:
    """An op, its shapes and its line: ten times the nodes make no more of them."""

    def distinct(time: int) -> tuple[int, ...]:
        W = gn.parameter(np.eye(3), name="W")
        x = h = gn.input((2, 3), "float64")
        for _ in range(time):
            h = gn.tanh(h @ W + gn.sum(x, axis=1, keepdims=True)) * 0.5
        order = gn.Graph([h, *gn.gradient(gn.sum(h), [W])]).order
        assert len(order) > 10 * time
        of_matrices = {
            id(n.shape) for n in order if n.op.name in ("MatMul", "Tanh", "Add", "Multiply", "Reshape")
        }
        return len({id(n.op) for n in order}), len({id(n.origin) for n in order}), len(of_matrices)

    assert distinct(100) == distinct(10)


def test_ties_share_the_derivative() -> None:
    x = gn.input((4,), "float64")
    tied = np.array([2.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(run(gn.gradient(gn.max(x), x), tied)[0], [0.5, 0, 0.5, 0])
    np.testing.assert_array_equal(run(gn.gradient(gn.min(-x), x), tied)[0], [-0.5, 0, -0.5, 0])
    a, b = gn.input((), "float64"), gn.input((), "float64")
    assert run(gn.gradient(gn.maximum(a, b), [a, b]), 1.0, 1.0) == (0.5, 0.5)
    assert run(gn.gradient(gn.minimum(a, b), [a, b]), 1.0, 2.0) == (1.0, 0.0)
    assert run(gn.gradient(gn.relu(a), a), 0.0) == (0.0,)
    assert run(gn.gradient(abs(a), a), 0.0) == (0.0,)


# -- who owns which memory ----------------------------------------------------------------------------------------


def test_a_parameter_shares_its_array() -> None:
    array = np.array([1.0, 2.0])
    theta = gn.parameter(array)
    function = gn.compile([theta * 2.0])
    array[0] = 5.0
    np.testing.assert_array_equal(function()[0], [10, 4])
    theta.value = [7.0, 8.0]
    np.testing.assert_array_equal(array, [7, 8])
    np.testing.assert_array_equal(function()[0], [14, 16])
    assert theta.value is array


def test_a_constant_does_not() -> None:
    array = np.array([1.0, 2.0])
    constant = gn.constant(array)
    array[0] = 5.0
    np.testing.assert_array_equal(run([constant])[0], [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        constant.value[0] = 3.0


@pytest.mark.parametrize("passes", [(), gn.passes.DEFAULT], ids=["no passes", "all passes"])
@pytest.mark.parametrize("check", [False, True])
def test_results_belong_to_the_caller(passes: Any, check: bool) -> None:
    """Writing into a result changes no input, parameter, constant, draw, other result, or later run."""
    x = gn.input((3, 2), "float64")
    theta, fixed = gn.parameter(np.ones((3, 2))), gn.constant(np.full((3, 2), 2.0))
    noise = gn.RandomSource(0).normal(1.0, (3, 2), "float64")
    computed = gn.tanh(x)
    outputs = [
        node
        for source in (x, theta, fixed, noise, computed)
        for node in (source, gn.label(source, "name"), gn.add(source), gn.stop_gradient(source), source.T,
                     source[1:], gn.reshape(source, (6,)), gn.broadcast_to(source, (2, 3, 2)), source)
    ] + [gn.fill(1.0, (3, 2), "float64")]  # fmt: skip
    function = gn.compile(outputs, [x], passes=passes, check=check)
    given = np.arange(6.0).reshape(3, 2)
    first = [value.copy() for value in function(given)]
    results = function(given)
    for i, result in enumerate(results):
        assert result.flags.writeable
        assert not any(np.shares_memory(result, other) for other in results[i + 1 :])
        result[...] = -99
    np.testing.assert_array_equal(given, np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(theta.value, np.ones((3, 2)))
    for again, before in zip(function(given), first, strict=True):
        np.testing.assert_array_equal(again, before)


def test_memory_is_what_the_lifetimes_say() -> None:
    """Of 80 bytes each: x and W are leaves; a, b and a b live together; the transpose is a view."""
    x, W = gn.input((10,), "float64"), gn.parameter(np.ones(10))
    a = gn.tanh(x)  # 80
    b = gn.sin(a)  # 160: a is read again below
    c = a * b  # 240, then a and b are free
    d = gn.exp(gn.reshape(c, (2, 5)).T)  # 80 + 80
    how: dict[str, Any] = {"backend": "numpy", "passes": ()}
    function = gn.compile([gn.sum(d * gn.reshape(W, (5, 2)))], [x], **how)
    assert (function.memory.leaves, function.memory.peak) == (160, 240)
    assert function.memory == 400
    assert str(function.memory) == "160 B of leaves + 240 B at the peak of a run"
    kept = gn.compile([a, gn.sum(d)], [x], **how)  # a, an output, stays to the end
    assert kept.memory.peak == 240
    assert gn.compile([a, b, c, d], [x], **how).memory.peak == 320
    assert gn.compile([gn.fill(0.0, (1000, 1000), "float64") + 1.0], **how).memory.leaves == 0


# -- functions --------------------------------------------------------------------------------------------------


def test_inputs_default_to_the_order_of_creation() -> None:
    second, first = gn.input((), "float64", name="made first"), gn.input((), "float64", name="made second")
    function = gn.compile([first - second])
    assert [node.name for node in function.inputs] == ["made first", "made second"]
    assert function(1.0, 10.0) == (9.0,)
    assert gn.compile([first - second], [first, second])(1.0, 10.0) == (-9.0,)


def test_inputs_that_nothing_reads_are_accepted() -> None:
    a, b = gn.input((2,)), gn.input((3,), "int64")
    assert gn.compile([gn.sum(a)], [b, a])([1, 2, 3], [4, 5]) == (9,)


def test_outputs_of_every_dtype() -> None:
    x, i = gn.input((3,)), gn.input((3,), "int32")
    values = run([x > 0, gn.logical_not(x > 0), gn.argmax(x), i + 1, i, gn.cast(x, "int64"), gn.equal(i, 2), x],
                 [1.5, -2.5, 0.5], [1, 2, 3])  # fmt: skip
    expected = [[True, False, True], [False, True, False], 0, [2, 3, 4], [1, 2, 3], [1, -2, 0],
                [False, True, False], [1.5, -2.5, 0.5]]  # fmt: skip
    names = ["bool", "bool", "int64", "int32", "int32", "int64", "bool", "float32"]
    for found, right, name in zip(values, expected, names, strict=True):
        assert isinstance(found, np.ndarray)
        assert found.dtype == name
        np.testing.assert_array_equal(found, right)


def test_no_outputs() -> None:
    assert gn.compile([])() == ()


def test_float32_graphs_stay_float32() -> None:
    """Cost, gradient, Hv and Gv of a net in float32, with numbers, means and masks in it: no node widens."""
    x, W = gn.input((4, 3)), gn.parameter(np.ones((3, 2), single))
    mask = gn.RandomSource(0).bernoulli(0.5, (4, 2))
    logits = gn.where(x[:, :1] > 0, 2 * gn.tanh(x @ W) / 3, gn.relu(x @ W) ** 2) * mask / 0.5
    cost = gn.mean(gn.softmax_cross_entropy(logits, [0, 1, 1, 0])) + 0.01 * gn.sum(gn.sqrt(1 + W * W))
    v = {W: np.ones((3, 2), single)}
    nodes = [
        cost,
        *gn.gradient(cost, W),
        *gn.hessian_product(cost, v),
        *gn.gauss_newton_product(cost, v, [logits, W]),
    ]
    for passes in ((), gn.passes.DEFAULT):
        function = gn.compile(nodes, [x], passes=passes)
        assert {n.dtype.name for n in function.graph.order} <= {"float32", "int64", "bool"}
        assert {value.dtype for value in function(np.ones((4, 3), single))} == {single}


def test_profile_sums_by_op_and_scope() -> None:
    x = gn.input((50, 50))
    with gn.scope(cell="A", time=0):
        h = gn.tanh(x @ x)
    with gn.scope(cell="A", time=1):
        h = gn.tanh(h @ x)
    with gn.scope(cell="B", time=1):
        h = gn.sin(h)
    profile = gn.compile([h], [x]).profile(repeats=3)
    assert len(profile.nodes) == len(profile.seconds) == 6
    assert set(profile.by_op()) == {"MatMul", "Tanh", "Sin", "Input"}
    assert set(profile.by_cell()) == {"A", "B", None}
    assert set(profile.by_time_step()) == {0, 1, None}
    for totals in (profile.by_op(), profile.by_cell(), profile.by_time_step(), dict(profile.by_node())):
        assert sum(totals.values()) == pytest.approx(profile.total)
        assert list(totals.values()) == sorted(totals.values(), reverse=True)
    assert profile.total > 0
    by_node = dict(profile.by_node())
    assert profile.by_op()["MatMul"] == pytest.approx(
        sum(s for n, s in by_node.items() if n.op.name == "MatMul")
    )
    assert "MatMul" in str(profile)
    assert gn.compile([h], [x]).profile(np.ones((50, 50), single), repeats=1).total > 0


def test_explain_names_each_pass_with_counts() -> None:
    x = gn.input((2,), "float64")
    function = gn.compile([gn.tanh(x * 1) + gn.tanh(x * 1)])
    text = function.explain()
    rows = [re.split(r"  +", line)[:3] for line in text.splitlines()]
    for report in function.reports:
        assert [report.name, str(report.before), str(report.after)] in rows
    assert [report.name for report in function.reports] == [p.name for p in gn.passes.DEFAULT]
    assert "1 Add, 1 Input, 1 Tanh" in text
    assert str(function.memory) in text
    assert repr(function) == f"<Function {function.source!r} on numba, 3 nodes after passes>"


# -- random numbers ------------------------------------------------------------------------------------------------


class TestRandomSource:
    def nodes(self, seed: int) -> tuple[gn.RandomSource, list[Node]]:
        source = gn.RandomSource(seed)
        return source, [
            source.bernoulli(0.3, (40, 50)),
            source.normal(2.0, (40, 50), "float64"),
            source.uniform(3.0, (40, 50)),
            source.uniform(3.0, (40, 50)),
        ]

    def test_held_until_redrawn(self) -> None:
        source, nodes = self.nodes(0)
        function = gn.compile(nodes)
        first, second = function(), function()
        source.redraw()
        third = function()
        for a, b, c in zip(first, second, third, strict=True):
            np.testing.assert_array_equal(a, b)
            assert not np.array_equal(a, c)
        assert not np.array_equal(first[2], first[3])

    def test_state_restores_the_values(self) -> None:
        source, nodes = self.nodes(3)
        function = gn.compile(nodes)
        source.redraw()
        state, wanted = source.state, function()
        for _ in range(3):
            source.redraw()
        assert not np.array_equal(function()[0], wanted[0])
        source.state = state
        for a, b in zip(function(), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        assert source.state == {"seed": 3, "draw": 1}

    def test_a_seed_says_all(self) -> None:
        same = [gn.compile(self.nodes(5)[1])() for _ in range(2)]
        for a, b in zip(*same, strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(gn.compile(self.nodes(6)[1])()[0], same[0][0])

    def test_distributions(self) -> None:
        mask, normal, uniform, _ = gn.compile(self.nodes(0)[1])()
        assert set(np.unique(mask)) == {0.0, 1.0}
        assert mask.mean() == pytest.approx(0.3, abs=0.04)  # 4 standard errors of 2000 draws
        assert (normal.mean(), normal.std()) == (pytest.approx(0, abs=0.18), pytest.approx(2, abs=0.13))
        assert 0 <= uniform.min() < uniform.max() < 3
        assert uniform.mean() == pytest.approx(1.5, abs=0.08)
        assert [value.dtype for value in (mask, normal, uniform)] == [single, double, single]

    def test_derivatives_see_the_same_draw(self) -> None:
        """What a line search and conjugate gradients need."""
        source = gn.RandomSource(0)
        x = gn.input((100,), "float64")
        mask = source.bernoulli(0.5, (100,), "float64")
        y = x * mask
        values = run([mask, *gn.gradient(gn.sum(y), x), *gn.rop([y], {x: np.ones(100)}), y], np.ones(100))
        np.testing.assert_array_equal(values[0], values[1])
        np.testing.assert_array_equal(values[0], values[2])

    def test_probabilities_are_probabilities(self) -> None:
        with pytest.raises(gn.GraphnetError, match=r"in \[0, 1\], not 1.5"):
            gn.RandomSource().bernoulli(1.5, (2,))
        certain = [gn.RandomSource().bernoulli(p, (1000,)) for p in (0.0, 1.0)]
        assert [value.mean() for value in run(certain)] == [0.0, 1.0]


# -- building ----------------------------------------------------------------------------------------------------


def test_scopes_nest_and_end() -> None:
    x = gn.input((2,))
    with gn.scope(layer="one", time=1):
        outer = gn.tanh(x)
        with gn.scope(time=2, gate="i"):
            inner = gn.tanh(x)
        after = gn.tanh(x)
    assert dict(outer.scope) == dict(after.scope) == {"layer": "one", "time": 1}
    assert dict(inner.scope) == {"layer": "one", "time": 2, "gate": "i"}
    assert dict(gn.tanh(x).scope) == {}
    (g,) = gn.gradient(gn.sum(inner), x)
    assert dict(g.scope) == dict(inner.scope)  # a derivative belongs to its node's place


def test_threads_build_with_scopes_of_their_own() -> None:
    made: dict[str, list[Node]] = {"a": [], "b": []}
    barrier = threading.Barrier(2)

    def build(name: str) -> None:
        x = gn.input((2,))
        with gn.scope(thread=name):
            barrier.wait()
            for i in range(300):
                with gn.scope(step=i):
                    made[name].append(gn.tanh(x) + 1.0)
        made[name] += gn.gradient(gn.sum(made[name][-1]), x)

    threads = [threading.Thread(target=build, args=(name,)) for name in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, nodes in made.items():
        assert len(nodes) == 301
        assert all(node.scope["thread"] == name for node in nodes)
        assert [node.scope["step"] for node in nodes] == [*range(300), 299]
    serials = [node.serial for nodes in made.values() for node in nodes]
    assert len(set(serials)) == len(serials)


def test_a_repr_never_raises() -> None:
    node = gn.label(gn.tanh(gn.input((2, 3))), "h")
    assert repr(node).startswith("<Label 'h' [2, 3] float32 at ")
    bundle = node._repr_mimebundle_()
    assert bundle["text/plain"] == repr(node)
    assert repr(gn.Graph([node])) == "<Graph of 3 nodes: (Input[2, 3]) -> (h[2, 3])>"
