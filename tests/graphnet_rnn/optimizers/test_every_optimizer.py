"""First-order optimizers against hand-written references; clipping, early stopping, Objective, groups."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import DifferentiationError, ValueAccessError
from graphnet.graph.node import Array
from graphnet_rnn import optimizers
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers import SGD, Adam, AdamW, Momentum, Nesterov, RMSprop, compiled_equations, vectors
from graphnet_rnn.optimizers.compiled_equations import clip_by_norm, clip_by_value
from graphnet_rnn.training import EarlyStopping
from tests.graphnet_rnn.optimizers.toys import CENTRE, H, Quadratic, rosenbrock
from tests.tables import case as named, require_rows

Gradient = Callable[[Array], Array]


def sgd(theta: Array, g: Gradient, steps: int) -> Array:
    for _ in range(steps):
        theta = theta - 0.07 * g(theta)
    return theta


def momentum(theta: Array, g: Gradient, steps: int) -> Array:
    v = 0 * theta
    for _ in range(steps):
        v = 0.8 * v - 0.07 * g(theta)
        theta = theta + v
    return theta


def nesterov(theta: Array, g: Gradient, steps: int) -> Array:
    v = 0 * theta
    for _ in range(steps):
        v = 0.8 * v - 0.07 * g(theta + 0.8 * v)
        theta = theta + v
    return theta


def rmsprop(theta: Array, g: Gradient, steps: int) -> Array:
    r = 0 * theta
    for _ in range(steps):
        r = 0.9 * r + 0.1 * g(theta) ** 2
        theta = theta - 0.07 * g(theta) / np.sqrt(r + 1e-6)
    return theta


def adam(theta: Array, g: Gradient, steps: int, weight_decay: float = 0.0) -> Array:
    m, v = 0 * theta, 0 * theta
    for t in range(1, steps + 1):
        m = 0.8 * m + 0.2 * g(theta)
        v = 0.95 * v + 0.05 * g(theta) ** 2
        step = (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-6)
        theta = theta - 0.07 * (step + weight_decay * theta)
    return theta


FIRST_ORDER = {name: kind for name, kind in optimizers.ALL.items() if issubclass(kind, optimizers.FirstOrder)}
CASES = {
    "sgd": (SGD(0.07), sgd),
    "momentum": (Momentum(0.07, momentum=0.8), momentum),
    "nesterov": (Nesterov(0.07, momentum=0.8), nesterov),
    "rmsprop": (RMSprop(0.07, decay=0.9, delta=1e-6), rmsprop),
    "adam": (Adam(0.07, beta1=0.8, beta2=0.95, delta=1e-6), adam),
    "adamw": (
        AdamW(0.07, beta1=0.8, beta2=0.95, delta=1e-6, weight_decay=0.3), partial(adam, weight_decay=0.3),
    ),
}  # fmt: skip


def test_steps_equal_the_reference() -> None:
    """Each report has the loss and the gradient norm of the step's first point."""
    require_rows(
        set(FIRST_ORDER) - set(CASES), "CASES in test_every_optimizer.py", "its equation as a plain loop"
    )
    for optimizer, reference in CASES.values():
        with named(optimizer):
            theta = np.array([0.3, -0.4, 2.0])
            start, state = theta.copy(), optimizer.init(theta)
            for steps in range(1, 8):
                loss, g = Quadratic().gradient(theta)
                point = optimizer.evaluation_point(theta, state)
                report = optimizer.step(Quadratic(), theta, state)
                expected = reference(start, lambda w: H @ (w - CENTRE), steps)
                assert np.allclose(theta, expected, rtol=1e-13, atol=1e-14)
                if point is theta or steps == 1:
                    assert report.loss == loss
                    assert report.gradient_norm == pytest.approx(np.linalg.norm(g))


def test_rate_of_a_step_overrides_the_setting() -> None:
    """A rate of 0 moves nothing."""
    for optimizer, _ in CASES.values():
        with named(optimizer):
            ends = []
            for setting, override in ((0.07, 0.01), (0.01, None), (0.07, 0.0)):
                made = replace(optimizer, rate=setting)
                theta = np.zeros(3)
                made.step(Quadratic(), theta, made.init(theta), override)
                ends.append(theta)
            assert np.array_equal(ends[0], ends[1])
            assert not ends[2].any()


def test_clipping_of_nodes() -> None:
    def clipped(function: Callable[..., gn.Node], g: Array, *limits: float) -> Array:
        x = gn.input(g.shape, g.dtype)
        return gn.compile(function(x, *limits), [x])(g)[0]

    g = np.array([3.0, 4.0])
    assert np.allclose(clipped(clip_by_norm, g, 1.0), [0.6, 0.8])
    assert np.array_equal(clipped(clip_by_norm, g, 5.0), g)
    assert np.array_equal(clipped(clip_by_norm, 0 * g, 1.0), [0, 0])
    assert clipped(clip_by_norm, g.astype(np.float32), 1.0).dtype == np.float32
    assert np.array_equal(clipped(clip_by_value, np.array([-3.0, 0.5, 4.0]), 1.0), [-1, 0.5, 1])
    large = np.full(4, 1e30, np.float32)  # its square overflows in float32
    assert vectors.norm(large) == pytest.approx(2e30)
    assert clipped(compiled_equations.norm, large) == pytest.approx(2e30)


def test_optimizer_clips_by_value_then_norm() -> None:
    """The gradient is (3, 4, 0). The report has its norm before clipping."""
    cases = [
        ({"clip_norm": 1.0}, [-0.6, -0.8, 0]),
        ({"clip_value": 3.5}, [-3, -3.5, 0]),
        ({"clip_value": 3.0, "clip_norm": 3.0}, [-3 / math.sqrt(2), -3 / math.sqrt(2), 0]),
        ({"clip_norm": 9.0}, [-3, -4, 0]),
    ]
    for settings, expected in cases:
        with named(settings, expected):

            class Slope:
                def gradient(self, w: Array) -> tuple[float, Array]:
                    return 0.0, np.array([3.0, 4.0, 0.0])

            theta = np.zeros(3)
            report = SGD(rate=1.0, **settings).step(Slope(), theta, {})
            assert np.allclose(theta, expected)
            assert report.gradient_norm == 5


def test_early_stopping_rule() -> None:
    nan, above = math.nan, float(np.nextafter(3.0, 4.0))
    goes_on_and_stops = {
        # 0.8 <= 1.0 · 0.9² = 0.81; with fewer losses than the memory, nothing is compared
        EarlyStopping(memory=2, tolerance=0.1): (
            [[], [1, 2], [1, 9, 0.8], [5, 1, 0.9, 0.5]], [[1, 0, 0.82], [0.1, 1, 0.9, 0.9], [1, 1, nan]],
        ),
        EarlyStopping(memory=1, tolerance=0.25): ([[4.0, 3.0]], [[4.0, above]]),
        EarlyStopping(memory=1, tolerance=0): ([[3.0, 3.0]], [[3.0, 3.1]]),
        # A negative cost must decrease by the same relative amount.
        EarlyStopping(memory=1, tolerance=0.5): ([[-1, -1.5], [-1, -2], [1, -1]], [[-1, -1.4], [-1, -0.6], [-1, 1]]),
        EarlyStopping(1, 0.5, patience=2): (  # no better is not better
            [[], [1, 1], [1, 2, 0.5, 0.6], [1, 0.9, 0.8, 0.799]],
            [[1, 1, 1], [1, 2, 0.5, 0.6, 0.55], [nan, nan]],
        ),
    }  # fmt: skip
    for rule, kinds in goes_on_and_stops.items():
        for stops, costs in ((stops, costs) for stops, rows in enumerate(kinds) for costs in rows):
            with named(rule, costs):
                assert rule.should_stop(costs) is bool(stops)


def test_every_optimizer_reduces_the_loss_and_reports_each_step() -> None:
    """A report is one line, the same in every run; the parameters hold the last point."""
    for kind in optimizers.ALL.values():
        with named(kind):
            rows, settings = [], {"rate": 1e-4} if kind in FIRST_ORDER.values() else {}
            for _ in range(2):
                objective = rosenbrock()
                before = objective.loss(objective.start())
                result = rnn.minimize(objective, kind(**settings), steps=5)
                assert result.reports[0].loss == before == pytest.approx(24.2)
                assert result.loss < before
                assert np.array_equal(objective.start(), result.theta)
                assert objective.loss(result.theta) == result.loss
                assert re.match(r"loss \S+  ?.*\|g\| \S+[^\n]*$", str(result.reports[0]))
                rows.append([report.row() for report in result.reports])
            assert rows[0] == rows[1]


def small_network() -> tuple[rnn.Network, rnn.Unrolled, list[Array]]:
    network = rnn.Network([rnn.Elman(3)], inputs=3, outputs=3, dtype="float64", seed=3)
    u = network.unroll(time=3, batch=2, training=False)
    symbols = np.random.default_rng(0).integers(0, 3, (2, 3, 2))
    return network, u, [symbols[0], symbols[1], *network.zero_states(2)]


def objective_of(network: rnn.Network, u: rnn.Unrolled, **more: Any) -> rnn.Objective:
    return rnn.Objective(u.cost, list(network.parameters.values()), [u.inputs, u.targets, *u.initial], **more)


def test_objective_against_dense_matrices() -> None:
    """Loss, gradient and Gauss-Newton product against differences and a dense JᵀHJ."""
    network, u, arrays = small_network()
    objective = objective_of(network, u)
    objective.feed(*arrays)
    w = objective.start()
    loss, g = objective.gradient(w)
    assert loss == objective.loss(w)

    units = 1e-6 * np.eye(objective.size)
    slopes = [(objective.loss(w + e) - objective.loss(w - e)) / 2e-6 for e in units]
    assert np.allclose(g, slopes, atol=1e-8)
    logits = gn.compile([u.logits], objective.inputs)

    def outputs(at: Array) -> Array:
        network.theta = at
        return logits(*arrays)[0].reshape(-1, 3)

    jacobian = np.stack([(outputs(w + e) - outputs(w - e)) / 2e-6 for e in units], axis=1)
    o = outputs(w)
    p = np.exp(o) / np.exp(o).sum(axis=1, keepdims=True)
    pairs = zip(jacobian, p, strict=True)
    dense = sum(J @ (np.diag(each) - np.outer(each, each)) @ J.T for J, each in pairs) / len(o)
    product = objective.curvature(w)
    found = np.stack([product(e) for e in np.eye(objective.size)])
    assert np.allclose(found, dense, atol=1e-7)


def test_objective_depends_on_w_only() -> None:
    """Earlier evaluations do not change results; a curvature product stays at its point."""
    network, u, arrays = small_network()
    objective = objective_of(network, u, also=u.final)
    objective.feed(*arrays)
    w = objective.start()
    elsewhere, v = w + 0.3, np.linspace(-1, 1, objective.size)
    loss, g = objective.gradient(w)
    assert np.array_equal(objective.also_values[0], gn.compile(u.final, objective.inputs)(*arrays)[0])
    product = objective.curvature(w)
    first = product(v)
    objective.loss(elsewhere)
    assert np.array_equal(network.theta, elsewhere), "the parameters hold the last point that was evaluated"
    assert np.array_equal(product(v), first)
    assert objective.loss(w) == loss
    assert np.array_equal(objective.gradient(w)[1], g)
    moved = w.copy()
    fixed = objective.curvature(moved)
    moved += 1
    assert np.array_equal(fixed(v), first), "the point is copied"
    clipped = objective_of(network, u, clip_values=1e-3)
    clipped.feed(*arrays)
    assert 0 < np.abs(clipped.gradient(w)[1]).max() <= 1e-3, "every cotangent is cut"


def test_fed_arrays_are_copied() -> None:
    """Changing the arrays later changes neither the loss nor curvature products."""
    network, u, arrays = small_network()
    objective, batched = objective_of(network, u), objective_of(network, u)
    arrays = [np.array(array) for array in arrays]
    objective.feed(*arrays)
    batched.feed_batches([arrays, arrays])
    w, v = objective.start(), np.ones(objective.size, objective.start().dtype)
    found = [(each, each.loss(w), each.curvature(w)(v)) for each in (objective, batched)]
    for array in arrays:
        array[...] = 0
    for each, loss, product in found:
        assert each.loss(w) == loss
        assert np.array_equal(each.curvature(w)(v), product)
    objective.feed(*arrays)
    assert objective.loss(w) != found[0][1]


def test_dropout_masks_are_fixed_until_redrawn() -> None:
    network = rnn.Network([rnn.Elman(8), rnn.Elman(8)], inputs=3, outputs=3, dropout=0.5)
    u = network.unroll(3, 2)
    objective = objective_of(network, u, random=u.random)
    symbols = np.zeros((3, 2), np.int64)
    objective.feed(symbols, symbols, *network.zero_states(2))
    w = objective.start()
    first = objective.loss(w)
    assert objective.loss(w) == first
    assert objective.gradient(w)[0] == pytest.approx(first)
    product, v = objective.curvature(w), np.ones_like(w)
    before = product(v)
    objective.redraw()
    assert not np.array_equal(product(v), before)
    assert np.array_equal(product(v), objective.curvature(w)(v))
    assert objective.loss(w) != first


def fed() -> tuple[rnn.Objective, gn.Node, gn.Node]:
    """(w - x)², w and x."""
    w, x = gn.parameter(np.ones(3, "float32"), name="w"), gn.input((3,), "float32", name="x")
    return rnn.Objective(gn.sum(gn.squared_error(w, x)), [w], [x]), w, x


def test_invalid_vectors_are_rejected_unchanged() -> None:
    objective, _, _ = fed()
    objective.feed(np.array([1, 2, 3.5]))  # float64, as rnn.Arrays takes it
    objective.feed([1, 2, 3.5])
    size, number = r"Objective\.{}: the vector has shape {}, but there are 3", "real numbers, not complex128"
    for w, words in (
        (np.arange(7.0), size.format("{}", r"\[7\]")), (None, size.format("{}", r"\[\]")),
        (np.array([1j, 0, 0]), number), ([[1], [2, 3]], "cannot be converted to an array"),
    ):  # fmt: skip
        for method in ("loss", "gradient", "set", "curvature"):
            with named(w, method), pytest.raises(UsageError, match=words.format(method)):
                getattr(objective, method)(w)
    with pytest.raises(UsageError, match=r"Objective\.penalty: the vector has shape \[7\]"):
        rnn.Objective(objective.cost, objective.parameters, objective.inputs, l2=1.0).penalty(np.ones(7))
    with pytest.raises(UsageError, match=r"Objective\.curvature: the vector has shape"):
        objective.curvature(np.ones(3))(np.ones(4))
    for array in [np.ones(4), np.ones((3, 1)), 1.0, [[1.0], [2.0, 3.0]], np.full(3, 1e300)]:
        for feed, given in ((objective.feed, array), (objective.feed_batches, [(array,)])):
            with named(array), pytest.raises(UsageError, match=r"Objective\.feed: .*x\[3\]"):
                feed(given)
    assert np.array_equal(objective.start(), np.ones(3))
    assert objective.loss([2, 2, 3.5]) == 1.0


def line(scale: float, dtype: str = "float64") -> rnn.Objective:
    """Σ (s w - s)², with its minimum at 1 for any s."""
    w = gn.parameter(np.zeros(2, dtype))
    return rnn.Objective(gn.sum(gn.squared_error(w * scale, np.full(2, scale, dtype))), [w])


def test_norms_with_overflowing_or_underflowing_squares() -> None:
    tiny = rnn.minimize(line(1e-85), rnn.LBFGS(), steps=1, tolerance=1e-300)
    assert tiny.reports[0].gradient_norm == pytest.approx(2e-170 * math.sqrt(2))
    start = line(1e100).start()
    report = rnn.SGD(0.5, clip_norm=1.0).step(line(1e100), start, {})
    assert report.gradient_norm == pytest.approx(2e200 * math.sqrt(2))
    np.testing.assert_allclose(start, np.full(2, 0.5 / math.sqrt(2)))
    net = rnn.Network([rnn.Elman(2)], 2, 2, dtype="float64")
    net.theta = np.full(net.theta.size, 1e200)
    assert rnn.weight_norms(net)["layer0.W_xh"] == pytest.approx(2e200)


def test_products_beyond_the_range_of_float32() -> None:
    undamped = rnn.HessianFree(damping=0.0, adapts="nothing")
    cases = [undamped, rnn.GreedyHessianFree(), rnn.LBFGS()]
    for optimizer, scale in itertools.product(cases, [1e10, 1e-12]):
        with named(optimizer, scale):
            result = rnn.minimize(line(scale, "float32"), optimizer, steps=40)
            np.testing.assert_allclose(result.theta, np.ones(2), rtol=1e-3)


def two_parameters() -> rnn.Objective:
    """½ (w - c)ᵀ H (w - c) of w = (layer.w, output.b)."""
    w = gn.parameter(np.array([0.3, -0.4]), name="layer.w")
    b = gn.parameter(np.array([2.0]), name="output.b")
    d = gn.concatenate([w, b]) - gn.constant(CENTRE)
    return rnn.Objective(gn.sum(d * (gn.constant(H) @ d)) / 2, [w, b])


def test_groups_scale_learning_rate_and_weight_decay() -> None:
    cases = [
        (SGD(0.07, groups={"layer.*": {"rate": 0.5}}), [0.5, 0.5, 1], [1, 1, 1]),
        (SGD(0.07, weight_decay=0.2, groups={"*.b": {"weight_decay": 0}}), [1, 1, 1], [1, 1, 0]),
        (SGD(0.07, groups={"*": {"rate": 0.5}, "output.*": {"rate": 3}}), [0.5, 0.5, 3], [1, 1, 1]),
    ]
    for optimizer, rates, decays in cases:
        with named(optimizer, rates):
            objective, w = two_parameters(), np.array([0.3, -0.4, 2.0])
            result = rnn.minimize(objective, optimizer, steps=7)
            for _ in range(7):
                g = H @ (w - CENTRE)
                w = w - 0.07 * np.array(rates) * (g + optimizer.weight_decay * np.array(decays) * w)
            assert np.allclose(result.theta, w, rtol=1e-13)


def test_groups_name_the_keys_of_the_parameters() -> None:
    """The keys of a mapping are used, since parts of a composed model may have equal names of weights."""
    one, two = (gn.parameter(np.array([2.0]), name="layer0.w") for _ in range(2))
    cost = gn.sum(one * one + two * two)
    parameters = {"encoder.layer0.w": one, "decoder.layer0.w": two}
    single = rnn.Objective(cost, parameters)
    for patterns, rates in (
        ({"encoder.*": {"rate": 0.5}}, [0.5, 1]),
        ({"*.layer0.*": {"rate": 2}}, [2, 2]),
        ({"*": {"rate": 3}, "decoder.layer0.w": {"rate": 1}}, [3, 1]),
    ):
        state = SGD(0.1, groups=patterns).init(single.start(), single)
        assert state["group_rate"].tolist() == rates
    with pytest.raises(
        UsageError, match=r"'layer0\.\*', which no parameter matches; the parameters are encoder"
    ):
        SGD(0.1, groups={"layer0.*": {"rate": 2}}).init(single.start(), single)
    brackets = rnn.Objective(cost, {"w[1]": one, "w1": two})  # only * is a wildcard
    assert SGD(0.1, groups={"w[1]": {"rate": 2}}).init(brackets.start(), brackets)["group_rate"].tolist() == [
        2,
        1,
    ]


OBJECTIVE, W, X = fed()
COST, NOBODYS = OBJECTIVE.cost, Adam(groups={"layer1.*": {"rate": 2}})
REFUSED = [
    (lambda: SGD(0), UsageError, "SGD: rate must be > 0, not 0"),
    (lambda: SGD(clip_norm=0), UsageError, "clip_norm .* not 0"),
    (lambda: SGD(clip_value=-5.0), UsageError, "clip_value .* not -5.0"),
    (lambda: SGD(clip_norm=math.nan), UsageError, "clip_norm .* not nan"),
    (lambda: Adam(beta1=1.0), UsageError, "Adam: beta1 .* not 1.0"),
    (lambda: RMSprop(decay=2), UsageError, "RMSprop: decay .* not 2"),
    (lambda: RMSprop(delta=math.nan), UsageError, "RMSprop: delta .* not nan"),
    (lambda: Momentum(momentum=1.0), UsageError, "Momentum: momentum .* not 1.0"),
    (lambda: Adam(weight_decay=-1), UsageError, "weight_decay .* not -1"),
    (lambda: AdamW(weight_decay=-1), UsageError, "AdamW: weight_decay .* not -1"),
    (lambda: rnn.GreedyHessianFree(damping=-1), UsageError, "GreedyHessianFree: damping .* not -1"),
    (lambda: rnn.GreedyHessianFree(cg_steps=0), UsageError, "GreedyHessianFree: cg_steps .* not 0"),
    (lambda: rnn.AugmentedHessianFree(warm_start=2), UsageError, "AugmentedHessianFree: warm_start .* not 2"),
    (lambda: rnn.Riemannian(rate=0), UsageError, "Riemannian: rate .* not 0"),
    *((lambda m=m: m(damping=-1), UsageError, f"{m.__name__}: damping .* not -1")
      for m in (rnn.riemannian.Kronecker, rnn.riemannian.RootMeanSquare, rnn.riemannian.Frequency)),
    (lambda: Adam(groups=[1]), UsageError, "groups must be a mapping"),
    (lambda: Adam(groups={1: {"rate": 1}}), UsageError, "keys of groups must be patterns of names"),
    (lambda: Adam(groups={"a": {"speed": 1}}), UsageError, "groups, 'a' must be one or more of"),
    (lambda: Adam(groups={"a": {"rate": 0}}), UsageError, "the factor on the rate .* not 0"),
    (lambda: Adam(groups={"a": {"weight_decay": 0}}), UsageError, "the weight decay, which is 0"),
    (lambda: Adam(groups={"a": {"rate": 2}}).init(np.zeros(3)), UsageError, r"init\(theta, objective\)"),
    (lambda: rnn.minimize(two_parameters(), NOBODYS), UsageError, "'layer1.*', which .* are layer.w, output.b"),
    (lambda: EarlyStopping(memory=0), UsageError, "EarlyStopping: memory .* not 0"),
    (lambda: EarlyStopping(tolerance=1), UsageError, "EarlyStopping: tolerance .* not 1"),
    (lambda: rnn.minimize(rosenbrock(), steps=1.5), UsageError, "steps .* not 1.5"),
    (lambda: rnn.Objective(gn.squared_error(W, X), [W], [X]), DifferentiationError, "must be a scalar"),
    (lambda: rnn.Objective(3.0, [W]), ValueAccessError, "the cost must be a node, not 3.0"),
    (lambda: rnn.Objective(COST, W), UsageError, r"parameters must be a list .* write \[w\]"),
    (lambda: rnn.Objective(COST, []), UsageError, "`parameters` is empty"),
    (lambda: rnn.Objective(COST, [X]), UsageError, r"nodes from gn.parameter, but x\[3\] .* an? Input"),
    (lambda: rnn.Objective(COST, [gn.tanh(W)]), UsageError, "is a Tanh"),
    (lambda: rnn.Objective(COST, [W, W]), UsageError, r"lists w\[3\] .* twice"),
    (lambda: rnn.Objective(COST, [np.ones(3)]), UsageError, "a list of nodes, but holds an array of shape"),
    (lambda: rnn.Objective(COST, [W], [W]), UsageError, "inputs must be nodes from gn.input"),
    (lambda: rnn.Objective(COST, [W], [X, X]), UsageError, r"inputs lists x\[3\] .* twice"),
    (lambda: rnn.Objective(COST, [W], also=5), UsageError, "also .* not 5"),
    (lambda: rnn.Objective(COST, [W], structure=[W]), UsageError, "structure must be pairs"),
    (lambda: rnn.Objective(COST, [W], clip_values=-1), UsageError, "clip_values .* not -1"),
    (lambda: rnn.Objective(COST, [W]), UsageError, r"depends on x\[3\] \(made at .*test_every_optimizer"),
    (lambda: rnn.Objective(COST, [gn.parameter(1.0, name="v")], [X]), UsageError, r"none of the parameters, v"),
    (OBJECTIVE.feed, UsageError, "Objective.feed: 1 arrays .* 0 were given"),
]  # fmt: skip


def test_invalid_arguments_are_rejected() -> None:
    for call, error, words in REFUSED:
        with named(words), pytest.raises(error, match=words):
            call()
