"""Further tests of the engine: depth, accuracy, memory, state, diagnosis."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from tests.tables import case

single, double = np.dtype("float32"), np.dtype("float64")


def run(nodes: Any, *arrays: Any, **how: Any) -> tuple[Array, ...]:
    """Values of the nodes; arrays are in the order in which the inputs were created."""
    return gn.compile(nodes, **how)(*arrays)


def deep(steps: int) -> gn.Function:
    """Σ (x + steps · 1e-5)², with the sum built step by step; its gradient and tangent."""
    x = h = gn.input((2,), "float64", name="x")
    for _ in range(steps):
        h = h + 1e-5
    cost = gn.sum(h * h)
    gradient, tangent = gn.gradient(cost, x), gn.rop([h], {x: np.array([1.0, -1.0])})
    return gn.compile([cost, *gradient, *tangent], [x], passes=gn.passes.without("merge again"))


def wide(terms: int) -> gn.Function:
    """Gradient of tanh of a sum of `terms` products."""
    x, pieces = gn.input((3,), "float64"), gn.input((terms, 3), "float64")
    cost = gn.sum(gn.tanh(gn.add(*(x * pieces[t] for t in range(terms)))))
    return gn.compile(gn.gradient(cost, [x, pieces]), [x, pieces])


def test_a_graph_may_be_20_000_nodes_deep() -> None:
    """Building, differentiation, compilation, runs and deletion do not recurse."""
    function = deep(20_000)
    assert len(function.graph) > 20_000
    value, g, r = function([1.0, 2.0])
    assert value == pytest.approx(1.2**2 + 2.2**2)
    np.testing.assert_allclose(g, [2.4, 4.4])
    np.testing.assert_array_equal(r, [1.0, -1.0])
    del function


@pytest.mark.parametrize("build", [deep, wide])
def test_work_grows_linearly_with_the_graph(build: Any) -> None:
    """The number of function calls is linear: twice the nodes take at most 2.3 times the calls."""
    calls = []
    for size in (300, 600):
        build(size)  # kernels are compiled, and what is cached is there
    for size in (300, 600):
        events: list[str] = []
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, argument, seen=events: seen.append(event))
        try:
            build(size)
        finally:
            sys.setprofile(before)
        calls.append(events.count("call") + events.count("c_call"))
    assert calls[1] < 2.3 * calls[0]


def test_a_wide_sum_and_curvature_of_a_deep_graph() -> None:
    """f(f(...f(x))) with f(x) = x + ε x²: Hv of 1,100 steps."""
    gx, _ = wide(300)(np.ones(3), np.full((300, 3), 1e-3))
    np.testing.assert_allclose(gx, 0.3 * (1 - np.tanh(0.3) ** 2))
    x = h = gn.input((), "float64")
    epsilon, value, slope, curvature = 5e-5, 0.5, 1.0, 0.0
    for _ in range(1_100):
        h = h + epsilon * h**2
        curvature = curvature * (1 + 2 * epsilon * value) + 2 * epsilon * slope**2
        slope *= 1 + 2 * epsilon * value
        value += epsilon * value**2
    found = run([h, *gn.gradient(h, x), *gn.hessian_product(h, {x: 1.0})], 0.5, passes=(), backend="numpy")
    np.testing.assert_allclose([float(f) for f in found], [value, slope, curvature], rtol=1e-10)


EXTREME = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, 1e4], [3.0, 1e4, 1e4]])
SOFT, ONE_HOT, EVEN = np.array([[1, 0, 0], [0, 0, 1], [0, 0.5, 0.5]]), np.eye(3)[[1, 2, 0]], [0.5, 0.25, 0.25]
BITS = np.array([[1, 1, 1], [0, 1, 0], [0.5, 0.5, 1]])
CHANCES = np.array([[1, 0, 0.5], [0, 0, 1], [1 / (1 + np.exp(-3)), 1, 1]])

#: Name -> (loss of logits z, its values, its gradient, its Hessian product for a direction v).
LOSSES: dict[str, tuple[Any, Any, Array, Any]] = {
    "symbols": (
        lambda z: gn.softmax_cross_entropy(z, [1, 2, 0]), [2e4, 0, 1e4 - 3 + np.log(2)], SOFT - ONE_HOT,
        lambda v: SOFT * v - SOFT * (SOFT * v).sum(1, keepdims=True),
    ),
    "distributions": (
        lambda z: gn.softmax_cross_entropy(z, np.array([EVEN] * 3, z.dtype)),
        [0.25 * 2e4 + 0.25 * 1e4, 0.75 * 2e4, 0.5 * (1e4 - 3) + np.log(2)], SOFT - EVEN,
        lambda v: SOFT * v - SOFT * (SOFT * v).sum(1, keepdims=True),
    ),
    "bits": (
        lambda z: gn.sigmoid_cross_entropy(z, BITS.astype(z.dtype)),
        [[0, 1e4, np.log(2)], [0, 1e4, 1e4], [np.log1p(np.exp(-3)) + 1.5, 5e3, 0]], CHANCES - BITS,
        lambda v: CHANCES * (1 - CHANCES) * v,
    ),
    "squares": (
        lambda z: gn.squared_error(z, np.ones((3, 3), z.dtype)), (EXTREME - 1) ** 2, 2 * (EXTREME - 1),
        lambda v: 2 * v,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [single, double])
def test_losses_of_extreme_logits_are_finite_and_right(dtype: Any) -> None:
    """Losses, gradients and Hessian products for logits of ±10,000."""
    v = np.linspace(-1, 1, 9).reshape(3, 3).astype(dtype)
    z = gn.input((3, 3), dtype)
    for name, (build, losses, slopes, curved) in LOSSES.items():
        with case(name):
            cost = gn.sum(build(z))
            nodes = [build(z), *gn.gradient(cost, z), *gn.hessian_product(cost, {z: v})]
            loss, g, hv = gn.compile(nodes, [z], check=True)(EXTREME.astype(dtype))
            assert loss.dtype == g.dtype == hv.dtype == dtype
            np.testing.assert_allclose(loss, losses, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(g, slopes, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(hv, curved(v), rtol=1e-6, atol=1e-7)
    (logarithms,) = run([gn.log(gn.softmax(z))], EXTREME.astype(dtype))
    np.testing.assert_allclose(logarithms[0], [0, -2e4, -1e4], rtol=1e-6)


def test_logit_of_minus_infinity_has_probability_0() -> None:
    z = gn.input((3,), "float64")
    nodes = [gn.softmax(z), gn.log_softmax(z), gn.logsumexp(z), gn.softmax_cross_entropy(z, 0)]
    p, log_p, total, loss = run(nodes, np.array([0.0, 0.0, -np.inf]))
    np.testing.assert_allclose(p, [0.5, 0.5, 0])
    np.testing.assert_allclose(log_p, [-np.log(2), -np.log(2), -np.inf])
    np.testing.assert_allclose([total, loss], np.log(2))


KEYS: list[Any] = [
    0, -1, slice(None), slice(None, None, -1), slice(3, None, -2), slice(-10, None, -1), slice(-1, -10, -1),
    slice(10, 20), slice(2, 0), slice(0, 0), Ellipsis, None, (0, -1), (slice(1, 3), 0), (Ellipsis, 1),
    (None, 1, None), (Ellipsis, None), (slice(None), slice(None, None, -3)), (slice(-3, -1), slice(0, 99)),
    [0, 2, 2], np.array([[0, 1], [3, 0]]), np.int64(2), np.array(1),
]  # fmt: skip


def test_indexing_and_reductions_match_numpy() -> None:
    array = np.arange(20.0).reshape(4, 5)
    x = gn.input((4, 5), "float64")
    for key in KEYS:
        with case(key):
            (found,) = run([x[key]], array)
            assert x[key].shape == array[key].shape
            np.testing.assert_array_equal(found, array[key])
    array = np.random.default_rng(0).standard_normal((2, 3, 4))
    x = gn.input((2, 3, 4), "float64")
    for name in ("sum", "max", "min", "mean"):
        for axis in (None, 0, -1, (0, 2), ()):
            for keepdims in (False, True):
                with case(name, axis, keepdims):
                    (found,) = run([getattr(gn, name)(x, axis, keepdims)], array)
                    expected = getattr(np, name)(array, axis=axis, keepdims=keepdims)
                    assert found.shape == expected.shape
                    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_extrema_of_integers() -> None:
    """Includes the smallest integer, whose negative does not exist."""
    for dtype in ("uint8", "int8", "int32", "int64", "bool"):
        with case(dtype):
            low, high = (False, True) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            array = np.array([low, high, 1], dtype)
            x = gn.input((3,), dtype)
            found = run([gn.min(x), gn.max(x), gn.minimum(x, x[::-1]), gn.argmax(x)], array)
            assert [value.dtype for value in found[:3]] == [np.dtype(dtype)] * 3
            assert (found[0], found[1], found[3]) == (low, high, 1)
            np.testing.assert_array_equal(found[2], np.minimum(array, array[::-1]))


def test_dtype_promotion_of_numbers() -> None:
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


def test_arithmetic_with_absent_derivatives() -> None:
    """The gradient by w of a cost that does not depend on w is zeros of w's shape and dtype."""
    x, w = gn.input((2, 3), "float32"), gn.input((3,), "float64")
    (absent,) = gn.gradient(gn.sum(x), w)
    total = absent + x
    assert (total.shape, total.dtype, (x - absent).dtype) == ((2, 3), double, double)
    assert gn.add(absent, [1.0, 2.0, 3.0]).shape == (3,)
    with pytest.raises(gn.ShapeError, match="do not broadcast"):
        absent + np.ones(4)
    values = run([absent, total, absent - 1.0], np.ones((2, 3), single))
    for value, right in zip(values, (np.zeros(3), np.ones((2, 3)), -np.ones(3)), strict=True):
        np.testing.assert_array_equal(value, right)


def test_gauss_newton_with_a_penalty_and_of_several_losses() -> None:
    """at=[logits, W] adds λ I for the penalised W. The product of a sum of losses is the sum of products."""
    draw = np.random.default_rng(7).standard_normal
    X, tangents, values = draw((5, 4)), [draw((4, 3)), draw((3, 6))], [draw((4, 3)), draw((3, 6))]
    w1, w2 = gn.input((4, 3), "float64", name="W1"), gn.input((3, 6), "float64", name="W2")
    v = {w1: tangents[0], w2: tangents[1]}
    hidden = gn.tanh(gn.constant(X) @ w1)
    logits = hidden @ w2
    cost = gn.mean(gn.softmax_cross_entropy(logits, [0, 5, 2, 2, 1]))
    other = gn.mean(gn.squared_error(hidden, np.ones((5, 3))))

    def product(of: Node, **how: Any) -> tuple[Array, ...]:
        return gn.compile(gn.gauss_newton_product(of, v, **how), [w1, w2])(*values)

    plain, of_other, both = product(cost), product(other), product(cost + other)
    penalised = product(cost + 0.5 * 0.3 * gn.sum(w2 * w2), at=[logits, w2])
    np.testing.assert_allclose(penalised[0], plain[0], rtol=1e-12)
    np.testing.assert_allclose(penalised[1], plain[1] + 0.3 * tangents[1], rtol=1e-12)
    for found, a, b in zip(both, plain, of_other, strict=True):
        np.testing.assert_allclose(found, a + b, rtol=1e-12)


def test_clip_values_truncates_at_every_node() -> None:
    """The cotangent -100 is cut to -5 before it is multiplied by 0.1: -0.5, not -5 as if cut at the end."""
    x = gn.input((), "float64")
    high, low = (x * 10.0) * 10.0, (x * 0.1) * -100.0
    limits = [
        (high, None, 100.0),
        (high, 50.0, 50.0),
        (high, 1e9, 100.0),
        (low, None, -10.0),
        (low, 5.0, -0.5),
    ]
    for cost, limit, right in limits:
        assert gn.compile(gn.gradient(cost, x, limit), [x])(1.0)[0] == pytest.approx(right)


def test_derivatives_with_respect_to_inner_nodes() -> None:
    x = gn.input((), "float64")
    h = gn.sin(x)
    cost = h * h + x
    np.testing.assert_allclose(run([*gn.gradient(cost, h), *gn.rop([cost], {h: 1.0})], 0.5), 2 * np.sin(0.5))


def test_equal_ops_shapes_and_lines_are_shared() -> None:
    """Ops, shapes and lines of equal nodes are shared: ten times the nodes create no more of them."""

    def distinct(time: int) -> tuple[int, ...]:
        W = gn.parameter(np.eye(3), name="W")
        x = h = gn.input((2, 3), "float64")
        for _ in range(time):
            h = gn.tanh(h @ W + gn.sum(x, axis=1, keepdims=True)) * 0.5
        order = gn.Graph([h, *gn.gradient(gn.sum(h), [W])]).order
        assert len(order) > 10 * time
        shapes = {id(n.shape) for n in order if n.op.name in ("MatMul", "Tanh", "Add", "Multiply", "Reshape")}
        return len({id(n.op) for n in order}), len({id(n.origin) for n in order}), len(shapes)

    assert distinct(100) == distinct(10)


def test_derivative_is_shared_among_ties() -> None:
    x, a, b = gn.input((4,), "float64"), gn.input((), "float64"), gn.input((), "float64")
    tied = np.array([2.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(run(gn.gradient(gn.max(x), x), tied)[0], [0.5, 0, 0.5, 0])
    np.testing.assert_array_equal(run(gn.gradient(gn.min(-x), x), tied)[0], [-0.5, 0, -0.5, 0])
    assert run(gn.gradient(gn.maximum(a, b), [a, b]), 1.0, 1.0) == (0.5, 0.5)
    assert run(gn.gradient(gn.minimum(a, b), [a, b]), 1.0, 2.0) == (1.0, 0.0)
    assert run([*gn.gradient(gn.relu(a), a), *gn.gradient(abs(a), a)], 0.0) == (0.0, 0.0)


def test_parameters_share_their_array_and_constants_copy_it() -> None:
    array = np.array([1.0, 2.0])
    theta, constant = gn.parameter(array), gn.constant(array)
    function = gn.compile([theta * 2.0, constant])
    array[0] = 5.0
    np.testing.assert_array_equal(function(), [[10, 4], [1, 2]])
    theta.value = [7.0, 8.0]
    np.testing.assert_array_equal(array, [7, 8])
    np.testing.assert_array_equal(function()[0], [14, 16])
    assert theta.value is array
    with pytest.raises(ValueError, match="read-only"):
        constant.value[0] = 3.0


@pytest.mark.parametrize("passes", [(), gn.passes.DEFAULT], ids=["no passes", "all passes"])
@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize("check", [False, True])
def test_results_share_no_memory(backend: str, passes: Any, check: bool) -> None:
    """Writing into a result changes no input, parameter, constant, draw, other result, or later run."""
    x = gn.input((3, 2), "float64")
    theta, fixed = gn.parameter(np.ones((3, 2))), gn.constant(np.full((3, 2), 2.0))
    noise = gn.RandomSource(0).normal(1.0, (3, 2), "float64")
    outputs = [
        node
        for source in (x, theta, fixed, noise, gn.tanh(x))
        for node in (source, gn.label(source, "name"), gn.add(source), gn.stop_gradient(source), source.T,
                     source[1:], gn.reshape(source, (6,)), gn.broadcast_to(source, (2, 3, 2)), source)
    ] + [gn.fill(1.0, (3, 2), "float64")]  # fmt: skip
    function = gn.compile(outputs, [x], backend=backend, passes=passes, check=check)
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


def test_memory_counts_live_arrays_only() -> None:
    """Arrays of 80 bytes: x and W are inputs; a, b and a b are needed at once; the transpose is a view."""
    x, W = gn.input((10,), "float64"), gn.parameter(np.ones(10))
    a = gn.tanh(x)  # 80
    b = gn.sin(a)  # 160: a is read again below
    c = a * b  # 240, then a and b are free
    d = gn.exp(gn.reshape(c, (2, 5)).T)  # 80 + 80
    how: dict[str, Any] = {"backend": "numpy", "passes": ()}
    memory = gn.compile([gn.sum(d * gn.reshape(W, (5, 2)))], [x], **how).memory
    assert (memory.leaves, memory.peak, memory) == (160, 240, 400)
    assert str(memory) == "160 B of leaves + 240 B at the peak of a run"
    assert gn.compile([a, gn.sum(d)], [x], **how).memory.peak == 240  # a, an output, stays to the end
    assert gn.compile([a, b, c, d], [x], **how).memory.peak == 320
    assert gn.compile([gn.fill(0.0, (1000, 1000), "float64") + 1.0], **how).memory.leaves == 0


def test_inputs_are_in_order_of_creation_by_default() -> None:
    second, first = gn.input((), "float64", name="made first"), gn.input((), "float64", name="made second")
    function = gn.compile([first - second])
    assert [node.name for node in function.inputs] == ["made first", "made second"]
    assert function(1.0, 10.0) == (9.0,)
    assert gn.compile([first - second], [first, second])(1.0, 10.0) == (-9.0,)
    a, unread = gn.input((2,)), gn.input((3,), "int64")
    assert gn.compile([gn.sum(a)], [unread, a])([1, 2, 3], [4, 5]) == (9,)
    assert gn.compile([])() == ()


def test_float32_graphs_stay_float32() -> None:
    """Cost, gradient, Hv and Gv of a net in float32, with numbers, means and masks in it: no node widens."""
    x, W = gn.input((4, 3)), gn.parameter(np.ones((3, 2), single))
    mask = gn.RandomSource(0).bernoulli(0.5, (4, 2))
    logits = gn.where(x[:, :1] > 0, 2 * gn.tanh(x @ W) / 3, gn.relu(x @ W) ** 2) * mask / 0.5
    cost = gn.mean(gn.softmax_cross_entropy(logits, [0, 1, 1, 0])) + 0.01 * gn.sum(gn.sqrt(1 + W * W))
    v = {W: np.ones((3, 2), single)}
    nodes = [cost, *gn.gradient(cost, W), *gn.hessian_product(cost, v)]
    nodes += gn.gauss_newton_product(cost, v, [logits, W])
    for passes in ((), gn.passes.DEFAULT):
        function = gn.compile(nodes, [x], passes=passes)
        assert {n.dtype.name for n in function.graph.order} <= {"float32", "int64", "bool"}
        assert {value.dtype for value in function(np.ones((4, 3), single))} == {single}


def test_profile_sums_by_op_and_scope() -> None:
    h = x = gn.input((50, 50))
    for cell, time in (("A", 0), ("A", 1), ("B", 1)):
        with gn.scope(cell=cell, time=time):
            h = gn.sin(h) if cell == "B" else gn.tanh(h @ x)
    profile = gn.compile([h], [x]).profile(repeats=3)
    assert len(profile.nodes) == len(profile.seconds) == 6
    by_node = dict(profile.by_node())
    products = sum(seconds for node, seconds in by_node.items() if node.op.name == "MatMul")
    assert profile.by_op()["MatMul"] == pytest.approx(products)
    for totals, names in (
        (profile.by_op(), {"MatMul", "Tanh", "Sin", "Input"}), (profile.by_cell(), {"A", "B", None}),
        (profile.by_time_step(), {0, 1, None}), (by_node, set(profile.nodes)),
    ):  # fmt: skip
        assert set(totals) == names
        assert sum(totals.values()) == pytest.approx(profile.total)
        assert list(totals.values()) == sorted(totals.values(), reverse=True)
    assert "MatMul" in str(profile)
    assert gn.compile([h], [x]).profile(np.ones((50, 50), single), repeats=1).total > 0


def test_explain_lists_passes_and_repr_never_raises() -> None:
    x = gn.input((2,), "float64")
    function = gn.compile([gn.tanh(x * 1) + gn.tanh(x * 1)])
    assert [report.name for report in function.reports] == [p.name for p in gn.passes.DEFAULT]
    for part in (*(p.name for p in gn.passes.DEFAULT), "1 Add, 1 Input, 1 Tanh", str(function.memory)):
        assert part in function.explain()
    node = gn.label(gn.tanh(gn.input((2, 3))), "h")
    assert "3 nodes" in repr(function)
    assert repr(node) == node._repr_mimebundle_()["text/plain"]
    assert repr(gn.Graph([node])) == "<Graph of 3 nodes: (Input[2, 3]) -> (h[2, 3])>"


def drawn(source: gn.RandomSource) -> list[Node]:
    uniform = [source.uniform(3.0, (40, 50)) for _ in range(2)]
    return [source.bernoulli(0.3, (40, 50)), source.normal(2.0, (40, 50), "float64"), *uniform]


def test_draws_are_held_until_redrawn_and_follow_seed_and_state() -> None:
    source = gn.RandomSource(5)
    function = gn.compile(drawn(source))
    first, again, elsewhere = function(), function(), gn.compile(drawn(gn.RandomSource(5)))()
    source.redraw()
    state, second = source.state, function()
    assert state == {"seed": 5, "draw": 1}
    source.redraw()
    third = function()
    source.state = state
    for a, b, c, d, e, f in zip(first, again, elsewhere, second, third, function(), strict=True):
        np.testing.assert_array_equal([a, a], [b, c])
        np.testing.assert_array_equal(d, f)
        assert not np.array_equal(a, d)
        assert not np.array_equal(d, e)
    assert not np.array_equal(first[2], first[3])
    assert not np.array_equal(gn.compile(drawn(gn.RandomSource(6)))()[0], first[0])


def test_distributions() -> None:
    mask, normal, uniform, _ = gn.compile(drawn(gn.RandomSource(0)))()
    assert set(np.unique(mask)) == {0.0, 1.0}
    assert mask.mean() == pytest.approx(0.3, abs=0.04)  # 4 standard errors of 2000 draws
    assert (normal.mean(), normal.std()) == (pytest.approx(0, abs=0.18), pytest.approx(2, abs=0.13))
    assert 0 <= uniform.min() < uniform.max() < 3
    assert uniform.mean() == pytest.approx(1.5, abs=0.08)
    assert [value.dtype for value in (mask, normal, uniform)] == [single, double, single]
    certain = [gn.RandomSource().bernoulli(p, (1000,)) for p in (0.0, 1.0)]
    assert [value.mean() for value in run(certain)] == [0.0, 1.0]


def test_derivatives_use_the_same_draw() -> None:
    """A random mask has the same values in the function, its gradient and its R-operator product."""
    x = gn.input((100,), "float64")
    mask = gn.RandomSource(0).bernoulli(0.5, (100,), "float64")
    y = x * mask
    values = run([mask, *gn.gradient(gn.sum(y), x), *gn.rop([y], {x: np.ones(100)}), y], np.ones(100))
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


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


def test_products_treat_their_nodes_as_independent_variables() -> None:
    """h = w² and w, as for an input h of its own."""
    w, t = gn.parameter(np.array([0.7, -0.4]), name="w"), np.array([0.1, 0.3])
    h = w * w
    own = gn.input((2,), "float64")

    def cost(h: gn.Node) -> gn.Node:
        return gn.sum(gn.squared_error(gn.tanh(h * w) + h, t))

    v = {h: np.array([1.0, 2.0]), w: np.array([-1.0, 0.5])}
    for product in (gn.hessian_product, gn.gauss_newton_product):
        found = gn.compile(product(cost(h), v), backend="numpy")()
        expected = gn.compile(product(cost(own), {own: v[h], w: v[w]}), [own], backend="numpy")(w.value**2)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_threads_have_separate_scopes() -> None:
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
        assert all(node.scope["thread"] == name for node in nodes)
        assert [node.scope["step"] for node in nodes] == [*range(300), 299]
    serials = [node.serial for nodes in made.values() for node in nodes]
    assert len(set(serials)) == len(serials)
