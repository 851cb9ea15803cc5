"""Optimisers against hand-written references; clipping, schedules, early stopping, minimize, Objective."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import DifferentiationError, ValueAccessError
from graphnet.graph.node import Array
from graphnet_rnn import optimizers
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers import (
    SGD,
    Adam,
    AdamW,
    Momentum,
    Nesterov,
    RMSprop,
    clipping,
    vectors,
)
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.clipping import clip_by_norm, clip_by_value
from graphnet_rnn.training import EarlyStopping
from tests.graphnet_rnn.optimizers.toys import Plain
from tests.tables import case as named
from tests.tables import require_rows

# -- hand-written references ---------------------------------------------------------------------

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


def adam(theta: Array, g: Gradient, steps: int) -> Array:
    m, v = 0 * theta, 0 * theta
    for t in range(1, steps + 1):
        m = 0.8 * m + 0.2 * g(theta)
        v = 0.95 * v + 0.05 * g(theta) ** 2
        theta = theta - 0.07 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-6)
    return theta


def adamw(theta: Array, g: Gradient, steps: int) -> Array:
    m, v = 0 * theta, 0 * theta
    for t in range(1, steps + 1):
        m = 0.8 * m + 0.2 * g(theta)
        v = 0.95 * v + 0.05 * g(theta) ** 2
        theta = theta - 0.07 * ((m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-6) + 0.3 * theta)
    return theta


@dataclass(frozen=True)
class Case:
    """An optimiser, what it must do, a rate at which it settles on a quadratic, and one for Rosenbrock's function."""

    optimizer: Optimizer
    reference: Callable[[Array, Gradient, int], Array]
    settling: Optimizer
    rosenbrock: float


FIRST_ORDER = {name: kind for name, kind in optimizers.ALL.items() if issubclass(kind, optimizers.FirstOrder)}
CASES = {
    "sgd": Case(SGD(0.07), sgd, SGD(0.1), 1e-3),
    "momentum": Case(Momentum(0.07, momentum=0.8), momentum, Momentum(0.05), 1e-4),
    "nesterov": Case(Nesterov(0.07, momentum=0.8), nesterov, Nesterov(0.05), 1e-4),
    "rmsprop": Case(RMSprop(0.07, decay=0.9, delta=1e-6), rmsprop, RMSprop(1e-3), 1e-3),
    "adam": Case(Adam(0.07, beta1=0.8, beta2=0.95, delta=1e-6), adam, Adam(0.02), 0.02),
    "adamw": Case(
        AdamW(0.07, beta1=0.8, beta2=0.95, delta=1e-6, weight_decay=0.3),
        adamw,
        AdamW(0.02, weight_decay=1e-9),
        0.02,
    ),
}

H = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
CENTRE = np.array([1.0, -2.0, 0.5])


class Quadratic:
    """½ (w - c)ᵀ H (w - c)"""

    def __init__(self, hessian: Array = H, break_at: int = -1) -> None:
        self.hessian, self.calls, self.break_at = hessian, 0, break_at

    def gradient(self, w: Array) -> tuple[float, Array]:
        self.calls += 1
        g = self.hessian.astype(w.dtype) @ (w - CENTRE.astype(w.dtype))
        if self.calls == self.break_at:
            g[1] = np.nan
        return float((w - CENTRE) @ g / 2), g


def test_every_optimizer_has_a_case() -> None:
    what = "an instance, its equation as a plain loop, one that settles on a quadratic, a rate for Rosenbrock"
    require_rows(set(FIRST_ORDER) - set(CASES), "CASES in test_optimizers.py", what)
    require_rows(set(CASES) - set(FIRST_ORDER), "optimizers.ALL", "the class")
    for name, case in CASES.items():
        assert type(case.optimizer) is type(case.settling) is optimizers.ALL[name]


def test_every_kind_reports_as_json() -> None:
    """A row is JSON without NaN, the same whenever the step is made; in words it is one line."""
    for kind in optimizers.ALL.values():
        with named(kind):
            rows = []
            for _ in range(2):
                objective = rosenbrock()
                theta = objective.start()
                before = objective.loss(theta)
                report = kind().step(objective, theta, kind().init(theta, objective))
                assert report.loss == before
                assert re.match(r"loss \S+  ?.*\|g\| \S+[^\n]*$", str(report))
                rows.append(json.dumps(report.row(), allow_nan=False))
            assert rows[0] == rows[1]


def test_steps_equal_the_reference() -> None:
    for steps, case in itertools.product([1, 2, 7], CASES.values()):
        with named(steps, case):
            theta = np.array([0.3, -0.4, 2.0])
            expected = case.reference(theta, lambda w: H @ (w - CENTRE), steps)
            state = case.optimizer.init(theta)
            for _ in range(steps):
                case.optimizer.step(Quadratic(), theta, state)
            assert np.allclose(theta, expected, rtol=1e-13, atol=1e-14)


def test_report_is_of_the_point_before() -> None:
    for case in CASES.values():
        with named(case):
            theta = np.array([0.3, -0.4, 2.0])
            loss, g = Quadratic().gradient(theta)
            report = case.optimizer.step(Quadratic(), theta, case.optimizer.init(theta))
            assert report.loss == loss
            assert report.gradient_norm == pytest.approx(np.linalg.norm(g))


def test_settles_on_a_quadratic() -> None:
    for case in CASES.values():
        with named(case):
            theta, objective = np.zeros(3), Quadratic()
            state = case.settling.init(theta)
            for _ in range(4000):
                case.settling.step(objective, theta, state)
            assert np.allclose(theta, CENTRE, atol=3e-3)


def test_rate_of_a_step_overrides_the_setting() -> None:
    for case in CASES.values():
        with named(case):
            ends = []
            for setting, override in ((0.07, 0.01), (0.01, None)):
                optimizer = type(case.optimizer)(**{**case.optimizer.settings(), "rate": setting})
                theta = np.zeros(3)
                optimizer.step(Quadratic(), theta, optimizer.init(theta), override)
                ends.append(theta)
            assert np.array_equal(*ends)


def test_a_rate_of_zero_moves_nothing() -> None:
    for case in CASES.values():
        with named(case):
            theta = np.ones(3)
            case.optimizer.step(Quadratic(), theta, case.optimizer.init(theta), rate=0.0)
            assert np.array_equal(theta, np.ones(3))


def test_impossible_settings() -> None:
    cases = [
        ({"rate": 0}, "rate must be > 0, not 0"),
        ({"rate": -1.0}, "rate must be > 0, not -1.0"),
        ({"rate": float("nan")}, "rate must be > 0, not nan"),
        ({"clip_norm": 0}, "clip_norm must be > 0, or None for no limit, not 0"),
        ({"clip_value": -5.0}, "clip_value must be > 0, or None for no limit, not -5.0"),
    ]
    for (settings, content), kind in itertools.product(cases, FIRST_ORDER.values()):
        said = re.escape(f"{kind.__name__}: {content}")
        with named(settings, kind), pytest.raises(UsageError, match=said):
            kind(**settings)


def test_impossible_averages() -> None:
    cases = [
        (lambda: Adam(beta1=1.0), "Adam: beta1 must be in [0, 1), not 1.0"),
        (lambda: Adam(delta=-1), "Adam: delta must be a finite number >= 0, not -1"),
        (lambda: RMSprop(decay=2), "RMSprop: decay must be in [0, 1), not 2"),
        (lambda: RMSprop(delta=float("nan")), "RMSprop: delta must be a finite number >= 0, not nan"),
    ]
    for make, content in cases:
        with named(make, content), pytest.raises(UsageError, match=re.escape(content)):
            make()


def test_impossible_momentum() -> None:
    for kind, value in itertools.product([Momentum, Nesterov], [1.0, -0.1, float("nan")]):
        with named(kind, value), pytest.raises(UsageError, match=f"{kind.__name__}: momentum must be in"):
            kind(momentum=value)


# -- clipping ------------------------------------------------------------------------------------


def of_arrays(function: Callable[..., gn.Node], g: Array, *limits: float) -> Array:
    """What a function of nodes makes of an array."""
    x = gn.input(g.shape, g.dtype)
    return gn.compile(function(x, *limits), [x])(g)[0]


def test_clip_by_norm() -> None:
    g = np.array([3.0, 4.0])
    assert np.allclose(of_arrays(clip_by_norm, g, 1.0), [0.6, 0.8])
    assert np.array_equal(of_arrays(clip_by_norm, g, 5.0), g)
    assert np.array_equal(of_arrays(clip_by_norm, 0 * g, 1.0), [0, 0])
    assert of_arrays(clip_by_norm, g.astype(np.float32), 1.0).dtype == np.float32


def test_norm_does_not_overflow_in_float32() -> None:
    large = np.full(4, 1e30, np.float32)
    assert vectors.norm(large) == pytest.approx(2e30)
    assert of_arrays(clipping.norm, large) == pytest.approx(2e30)


def test_clip_by_value() -> None:
    assert np.array_equal(of_arrays(clip_by_value, np.array([-3.0, 0.5, 4.0]), 1.0), [-1, 0.5, 1])


def test_optimizer_clips_by_value_then_norm() -> None:
    """The gradient here is (3, 4, 0); the report gives its length before clipping."""
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


# -- schedules and early stopping ------------------------------------------------------------------


def test_early_stopping_rule() -> None:
    cases = [
        ([], False),
        ([1.0], False),
        ([1.0, 2.0], False),  # no longer than the memory: nothing to compare with
        ([1.0, 9.0, 0.8], False),  # 0.8 <= 1.0 · 0.9² = 0.81
        ([1.0, 0.0, 0.82], True),
        ([5.0, 1.0, 0.9, 0.5], False),
        ([0.1, 1.0, 0.9, 0.9], True),
        ([1.0, 1.0, math.nan], True),
    ]
    for costs, stops in cases:
        with named(costs, stops):
            assert EarlyStopping(memory=2, tolerance=0.1).should_stop(costs) is stops


def test_patience() -> None:
    cases = [
        ([], False),
        ([1.0, 1.0], False),
        ([1.0, 1.0, 1.0], True),  # no better is not better
        ([1.0, 2.0, 0.5, 0.6], False),
        ([1.0, 2.0, 0.5, 0.6, 0.55], True),
        ([1.0, 0.9, 0.8, 0.799], False),
        ([math.nan, math.nan], True),
    ]
    for costs, stops in cases:
        with named(costs, stops):
            assert EarlyStopping(memory=1, tolerance=0.5, patience=2).should_stop(costs) is stops


def test_early_stopping_at_the_boundary() -> None:
    """Exactly the demanded decrease goes on; the next larger cost stops."""
    rule = EarlyStopping(memory=1, tolerance=0.25)
    assert not rule.should_stop([4.0, 3.0])
    assert rule.should_stop([4.0, np.nextafter(3.0, 4.0)])
    level = EarlyStopping(memory=1, tolerance=0)
    assert not level.should_stop([3.0, 3.0])
    assert level.should_stop([3.0, 3.1])


def test_impossible_early_stopping() -> None:
    for arguments in [{"memory": 0}, {"tolerance": -0.1}, {"tolerance": 1}]:
        with (
            named(arguments),
            pytest.raises(UsageError, match=r"EarlyStopping: (memory must be .* >= 1|tolerance must be in)"),
        ):
            EarlyStopping(**arguments)


# -- minimize ------------------------------------------------------------------------------------


def rosenbrock() -> rnn.Objective:
    """(1 - x)² + 100 (y - x²)², from (-1.2, 1), written in nodes."""
    x = gn.parameter(np.array([-1.2]), name="x")
    y = gn.parameter(np.array([1.0]), name="y")
    return Plain(gn.sum(gn.squared_error(x, 1.0)) + gn.sum(gn.squared_error(10 * (y - x**2), 0.0)), [x, y])


def test_minimize_rosenbrock() -> None:
    for case in CASES.values():
        with named(case):
            objective = rosenbrock()
            start = objective.loss(objective.start())
            result = rnn.minimize(objective, type(case.optimizer)(rate=case.rosenbrock), steps=1500)  # type: ignore[call-arg]
            assert start == pytest.approx(24.2)
            assert result.loss < 0.25 * start
            assert len(result.reports) == 1500
            assert result.reports[0].loss == pytest.approx(start)
            assert np.array_equal(objective.start(), result.theta), "the parameters hold the last point"
            assert objective.loss(result.theta) == result.loss


def test_callback_stops() -> None:
    seen: list[int] = []

    def callback(step: int, report: optimizers.Report) -> bool:
        seen.append(step)
        return step == 4

    result = rnn.minimize(rosenbrock(), steps=100, callback=callback)
    assert seen == [0, 1, 2, 3, 4]
    assert len(result.reports) == 5


def test_tolerance_stops() -> None:
    result = rnn.minimize(rosenbrock(), SGD(1e-3), steps=10_000, tolerance=2.0)
    assert 2 < len(result.reports) < 10_000
    assert result.reports[-1].gradient_norm <= 2.0 < result.reports[-2].gradient_norm


def test_impossible_steps() -> None:
    for steps in [0, -1, 1.5, True]:
        with named(steps), pytest.raises(UsageError, match="minimize: steps must be a whole number >= 1"):
            rnn.minimize(rosenbrock(), steps=steps)


def test_nan_names_the_node() -> None:
    x = gn.parameter(np.array([0.5]), name="x")
    with pytest.raises(
        TrainingError, match=r"(?s)the loss is nan.*Log: Log\[1\] makes NaN.*test_optimizers\.py"
    ):
        rnn.minimize(rnn.Objective(gn.sum(gn.log(x)), [x]), SGD(1.0), steps=50)


def test_infinite_gradient_of_a_finite_loss_is_told() -> None:
    """√x at 0 is 0, its slope infinite: no step can be taken, and that must not pass in silence."""
    x = gn.parameter(np.array([0.0]), name="x")
    with pytest.raises(
        TrainingError, match=r"(?s)the loss is 0 and the gradient's norm (inf|nan) at step 0.*makes"
    ):
        rnn.minimize(rnn.Objective(gn.sum(gn.sqrt(x)), [x]), SGD(0.1), steps=3)


# -- Objective -----------------------------------------------------------------------------------


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

    step = 1e-6
    units = step * np.eye(objective.size)
    slopes = [(objective.loss(w + e) - objective.loss(w - e)) / (2 * step) for e in units]
    assert np.allclose(g, slopes, atol=1e-8)

    logits = gn.compile([u.logits], objective.inputs)

    def outputs(at: Array) -> Array:
        network.theta = at
        return logits(*arrays)[0].reshape(-1, 3)

    jacobian = np.stack([(outputs(w + e) - outputs(w - e)) / (2 * step) for e in units])
    o = outputs(w)
    p = np.exp(o) / np.exp(o).sum(axis=1, keepdims=True)
    dense = sum(
        jacobian[:, i] @ (np.diag(p[i]) - np.outer(p[i], p[i])) @ jacobian[:, i].T for i in range(len(o))
    ) / len(o)
    product = objective.curvature(w)
    found = np.stack([product(e) for e in np.eye(objective.size)])
    assert np.allclose(found, dense, atol=1e-7)


def test_objective_is_a_function_of_w_alone() -> None:
    """What was evaluated before does not matter; a curvature product stays at its point."""
    network, u, arrays = small_network()
    objective = objective_of(network, u)
    objective.feed(*arrays)
    w = objective.start()
    elsewhere, v = w + 0.3, np.linspace(-1, 1, objective.size)
    loss, g = objective.gradient(w)
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


def test_also_values() -> None:
    network, u, arrays = small_network()
    objective = objective_of(network, u, also=u.final)
    objective.feed(*arrays)
    objective.gradient(objective.start())
    (expected,) = gn.compile(u.final, objective.inputs)(*arrays)
    assert np.array_equal(objective.also_values[0], expected)


def test_clip_values_truncates_every_cotangent() -> None:
    network, u, arrays = small_network()
    clipped = objective_of(network, u, clip_values=1e-3)
    clipped.feed(*arrays)
    _, g = clipped.gradient(clipped.start())
    assert 0 < np.abs(g).max() <= 1e-3


def test_feed_counts_arrays() -> None:
    for count in [0, 1, 4]:
        with named(count):
            network, u, _ = small_network()
            with pytest.raises(UsageError, match=f"Objective.feed: 3 arrays are needed, {count} were given"):
                objective_of(network, u).feed(*[0] * count)


def test_what_is_fed_is_a_copy() -> None:
    """Also for a curvature, which keeps its forward pass from one product to the next."""
    network, u, arrays = small_network()
    objective = objective_of(network, u)
    batched = rnn.BatchedObjective(objective_of(network, u))
    arrays = [np.array(array) for array in arrays]
    objective.feed(*arrays)
    batched.feed([arrays])
    w, v = objective.start(), np.ones(objective.size, objective.start().dtype)
    found = [(each, each.loss(w), each.curvature(w)(v)) for each in (objective, batched)]
    for array in arrays:
        array[...] = 0
    for each, loss, product in found:
        assert each.loss(w) == loss
        assert np.array_equal(each.curvature(w)(v), product)
    objective.feed(*arrays)
    assert objective.loss(w) != found[0][1]


def test_feed_refuses_a_dtype_that_does_not_fit() -> None:
    x = gn.input((3,), "float32", name="x")
    w = gn.parameter(np.ones(3, "float32"), name="w")
    objective = rnn.Objective(gn.sum(w * x), [w], [x])
    with pytest.raises(UsageError, match=r"Objective\.feed: input x\[3\].*float64; convert it"):
        objective.feed(np.ones(3))
    batched = rnn.BatchedObjective(objective)
    with pytest.raises(UsageError, match=r"Objective\.feed: input x\[3\].*float64; convert it"):
        batched.feed([(np.ones(3),)])
    objective.feed([1, 2, 3.5])  # numbers, not an array of another dtype: exact as float32
    assert objective.loss(objective.start()) == 6.5


def test_objective_needs_parameters() -> None:
    with pytest.raises(UsageError, match="`parameters` is empty"):
        rnn.Objective(gn.sum(gn.input((2,))), [])


def test_dropout_is_one_function_until_redrawn() -> None:
    network = rnn.Network([rnn.Elman(8), rnn.Elman(8)], inputs=3, outputs=3, dropout=0.5)
    u = network.unroll(3, 2)
    objective = objective_of(network, u, random=u.random)
    symbols = np.zeros((3, 2), np.int64)
    objective.feed(symbols, symbols, *network.zero_states(2))
    w = objective.start()
    first = objective.loss(w)
    assert objective.loss(w) == first
    assert objective.gradient(w)[0] == pytest.approx(first)
    objective.redraw()
    assert objective.loss(w) != first


def test_vectors_of_another_size() -> None:
    """Refused before anything is written."""
    a, b = gn.parameter(np.ones(3), name="a"), gn.parameter(np.ones(2), name="b")
    objective = rnn.Objective(gn.sum(gn.squared_error(a, 0.0)) + gn.sum(gn.squared_error(b, 0.0)), [a, b])
    for w, shape in ((np.arange(7.0), r"\[7\]"), (np.zeros(4), r"\[4\]"), (None, r"\[\]"), (3.0, r"\[\]")):
        for method in ("loss", "gradient", "set", "curvature"):
            with pytest.raises(
                UsageError,
                match=rf"Objective.{method}: the vector has shape {shape}, but there are 5 parameters",
            ):
                getattr(objective, method)(w)
    for w, words in (
        (np.array([1j, 0, 0, 0, 0]), "real numbers, not complex128"),
        ([[1], [2, 3]], "is no array"),
    ):
        with pytest.raises(UsageError, match=words):
            objective.loss(w)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"Objective\.penalty: the vector has shape \[7\]"):
        rnn.Objective(objective.cost, [a, b], l2=1.0).penalty(np.ones(7))
    with pytest.raises(UsageError, match=r"Objective\.curvature: the vector has shape"):
        objective.curvature(np.ones(5))(np.ones(4))
    assert np.array_equal(objective.start(), np.ones(5))
    assert objective.loss([1, 2, 0, 0, 0]) == pytest.approx(objective.loss(np.array([1.0, 2, 0, 0, 0])))  # type: ignore[arg-type]


def test_what_an_objective_is_not_made_of() -> None:
    w, x = gn.parameter(np.ones(3), name="w"), gn.input((3,), "float64", name="x")
    cost = gn.sum(gn.squared_error(w, x))
    wrong: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
        ((gn.squared_error(w, x), [w]), {}, DifferentiationError, "the cost must be a scalar"),
        ((3.0, [w]), {}, ValueAccessError, "the cost must be a node, not 3.0"),
        ((cost, w), {}, UsageError, r"parameters must be a list of nodes; write \[w\]"),
        ((cost, [x]), {}, UsageError, r"parameters lists x\[3\] .* an? Input"),
        ((cost, [gn.tanh(w)]), {}, UsageError, "which is a Tanh; .* gn.parameter"),
        ((cost, [w, w]), {}, UsageError, r"lists w\[3\] .* twice"),
        ((cost, [np.ones(3)]), {}, UsageError, "parameters must be a list of nodes, but holds array"),
        ((cost, [w], [w]), {}, UsageError, "only what gn.input makes is fed"),
        ((cost, [w], [x, x]), {}, UsageError, r"inputs lists x\[3\] .* twice"),
        ((cost, [w]), {"also": 5}, UsageError, "also must be a list of nodes, not 5"),
        ((cost, [w]), {"structure": 5}, UsageError, "structure must be pairs of nodes"),
        ((cost, [w]), {"structure": [w]}, UsageError, "structure must be pairs of nodes"),
        (
            (cost, [w]),
            {"clip_values": -1},
            UsageError,
            "clip_values must be > 0, or None for no limit, not -1",
        ),
        ((cost, [w]), {}, UsageError, r"depends on x\[3\] \(made at .*test_optimizers.*; list it in inputs"),
        (
            (cost, [gn.parameter(1.0, name="v")], [x]),
            {},
            UsageError,
            r"none of the parameters, v\[\]; are they ano",
        ),
    ]
    for arguments, settings, error, words in wrong:
        with named(words), pytest.raises(error, match=words):
            rnn.Objective(*arguments, **settings)


def test_a_batch_of_another_shape_is_refused_where_it_is_fed() -> None:
    for array in [np.ones(4), np.ones((3, 1)), [1.0, 2.0], 1.0, [[1.0], [2.0, 3.0]]]:
        with named(array):
            x = gn.input((3,), "float64", name="x")
            w = gn.parameter(np.ones(3), name="w")
            objective = rnn.Objective(gn.sum(gn.squared_error(w, x)), [w], [x])
            with pytest.raises(UsageError, match=r"^Objective\.feed: .*x\[3\]"):
                objective.feed(array)
            objective.feed([1, 2, 3])
            assert objective.loss(np.ones(3)) == 5.0


def test_explain_non_finite() -> None:
    x = gn.parameter(np.array([2.0]), name="x")
    objective = rnn.Objective(gn.sum(gn.log(x)), [x])
    assert objective.explain_non_finite() == ""
    objective.loss(np.array([-1.0]))
    assert "Log[1] makes NaN" in objective.explain_non_finite()


# -- beyond the range of squares -----------------------------------------------------------------


def line(scale: float, dtype: str = "float64") -> rnn.Objective:
    """Σ (s w - s)²: its least is at 1, whatever s."""
    w = gn.parameter(np.zeros(2, dtype))
    return rnn.Objective(gn.sum(gn.squared_error(w * scale, np.full(2, scale, dtype))), [w])


def test_a_norm_whose_square_is_no_number() -> None:
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
    cases = [
        rnn.HessianFree(damping=0.0, adapts="nothing"),
        rnn.TrustRegion(),
        rnn.GreedyHessianFree(),
        rnn.LBFGS(),
    ]
    for optimizer, scale in itertools.product(cases, [1e10, 1e-12]):
        with named(optimizer, scale):
            result = rnn.minimize(line(scale, "float32"), optimizer, steps=40)
            np.testing.assert_allclose(result.theta, np.ones(2), rtol=1e-3)


# -- groups of parameters ------------------------------------------------------------------------


def two_parameters(dtype: str = "float64") -> rnn.Objective:
    """½ (w - c)ᵀ H (w - c) of w = (layer.w, output.b)."""
    w = gn.parameter(np.array([0.3, -0.4], dtype), name="layer.w")
    b = gn.parameter(np.array([2.0], dtype), name="output.b")
    d = gn.concatenate([w, b]) - gn.constant(CENTRE.astype(dtype))
    return rnn.Objective(gn.sum(d * (gn.constant(H.astype(dtype)) @ d)) / 2, [w, b])


GROUPED: dict[str, tuple[Optimizer, list[float], list[float]]] = {
    "sgd, rates": (SGD(0.07, groups={"layer.*": {"rate": 0.5}}), [0.5, 0.5, 1], [1, 1, 1]),
    "sgd, decay": (SGD(0.07, weight_decay=0.2, groups={"*.b": {"weight_decay": 0}}), [1, 1, 1], [1, 1, 0]),
    "the last one wins": (
        SGD(0.07, groups={"*": {"rate": 0.5}, "output.*": {"rate": 3}}),
        [0.5, 0.5, 3],
        [1, 1, 1],
    ),
}


def test_groups_are_factors_on_rate_and_decay() -> None:
    for optimizer, rates, decays in GROUPED.values():
        with named(optimizer, rates):
            objective, w = two_parameters(), np.array([0.3, -0.4, 2.0])
            result = rnn.minimize(objective, optimizer, steps=7)
            for _ in range(7):
                g = H @ (w - CENTRE)
                w = w - 0.07 * np.array(rates) * (g + optimizer.weight_decay * np.array(decays) * w)
            assert np.allclose(result.theta, w, rtol=1e-13)


def test_a_run_with_groups_goes_on_to_the_same_numbers() -> None:
    optimizer = Adam(0.05, weight_decay=0.1, groups={"layer.*": {"rate": 0.2}, "*.b": {"weight_decay": 0.5}})
    whole = rnn.minimize(two_parameters(), optimizer, steps=7)
    assert set(whole.state) == {"m", "v", "t", "group_rate", "group_weight_decay"}
    first = rnn.minimize(two_parameters(), optimizer, steps=3)
    again = Adam(**json.loads(json.dumps(optimizer.settings())))
    assert again == optimizer
    assert hash(again) == hash(optimizer)
    rest = rnn.minimize(two_parameters(), again, steps=4, start=first.theta, state=first.state)
    assert rest.theta.tobytes() == whole.theta.tobytes()


def test_decoupled_decay_is_in_no_accumulator() -> None:
    """With a gradient of nothing Adam's moments stay 0, and θ shrinks by 1 - ε λ."""
    theta = np.array([1.0, -2.0])
    optimizer = AdamW(0.1, weight_decay=0.5)

    class Flat:
        def gradient(self, w: Array) -> tuple[float, Array]:
            return 0.0, np.zeros(2)

    state = optimizer.init(theta)
    optimizer.step(Flat(), theta, state)
    assert np.allclose(theta, [0.95, -1.9], rtol=1e-15)
    assert not state["m"].any()
    assert not state["v"].any()
    assert np.allclose(AdamW().weight_decay, 0.01)


def test_impossible_groups() -> None:
    cases = [
        (lambda: Adam(groups=[1]), "Adam: groups must be a mapping"),
        (lambda: Adam(groups={1: {"rate": 1}}), "groups go by patterns of names"),
        (lambda: Adam(groups={"a": {"speed": 1}}), "groups, 'a' must be one or more of"),
        (
            lambda: Adam(groups={"a": {"rate": 0}}),
            "the factor on the rate must be a finite number > 0, not 0",
        ),
        (lambda: Adam(groups={"a": {"weight_decay": 0}}), "factors on the weight decay, which is 0"),
        (lambda: Adam(weight_decay=-1), "Adam: weight_decay must be a finite number >= 0, not -1"),
        (lambda: Adam(groups={"a": {"rate": 2}}).init(np.zeros(3)), "write init(theta, objective)"),
        (
            lambda: rnn.minimize(two_parameters(), Adam(groups={"layer1.*": {"rate": 2}})),
            "groups name 'layer1.*', but no parameter is called so; there are layer.w, output.b",
        ),
    ]
    for make, content in cases:
        with named(make, content), pytest.raises(UsageError, match=re.escape(content)):
            make()
