"""L-BFGS and nonlinear conjugate gradient: against SciPy called directly, and on functions that break."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.node import Array
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.optimizers import LBFGS, NonlinearConjugateGradient, ScipyReport
from graphnet_rnn.optimizers.scipy_methods import ScipyMethod
from graphnet_rnn.tasks import TASKS, Trial, elman

KINDS: list[type[ScipyMethod]] = [LBFGS, NonlinearConjugateGradient]
every_kind = pytest.mark.parametrize("kind", KINDS)


def directly(objective: rnn.Objective, start: Array, optimizer: ScipyMethod) -> Any:
    """scipy.optimize.minimize on the same function, in float64."""

    def value(w: Array) -> tuple[float, Array]:
        loss, g = objective.gradient(w)
        return loss, g.astype(np.float64)

    if isinstance(optimizer, LBFGS):
        more = {"maxcor": optimizer.memory, "ftol": optimizer.decrease, "maxfun": 10**6}
        method = "L-BFGS-B"
    else:
        more, method = {}, "CG"
    options = {"maxiter": optimizer.iterations, "gtol": optimizer.tolerance, **more}
    return optimize.minimize(value, start.astype(np.float64), method=method, jac=True, options=options)


def rosenbrock() -> rnn.Objective:
    x = gn.parameter(np.array([-1.2]), name="x")
    y = gn.parameter(np.array([1.0]), name="y")
    return rnn.Objective(gn.sum((1 - x) ** 2 + 100 * (y - x**2) ** 2), [x, y])


@every_kind
def test_rosenbrock(kind: type[ScipyMethod]) -> None:
    objective, optimizer = rosenbrock(), kind(iterations=1000)
    start = objective.start()
    result = rnn.minimize(objective, optimizer, steps=1)
    found = directly(objective, start, optimizer)
    assert np.allclose(result.theta, [1, 1], atol=1e-4)
    assert np.array_equal(result.theta, found.x)
    (report,) = result.reports
    assert isinstance(report, ScipyReport)
    assert report.before == report.loss == pytest.approx(24.2)
    assert report.gradient_norm == pytest.approx(np.hypot(-215.6, -88))
    assert (report.after, report.iterations, report.evaluations) == (found.fun, found.nit, found.nfev)
    assert report.broken == 0
    assert found.message.startswith(report.message)
    assert re.fullmatch(
        r"loss 24\.2 -> \S+  \d+ iterations, \d+ evaluations  \|g\| 2\.3e\+02  [^\n]+  \d\.\d\d s",
        str(report),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@every_kind
def test_a_small_network(kind: type[ScipyMethod], dtype: str) -> None:
    """30 iterations on a whole data set, as SciPy makes them; each evaluation at the weights in their dtype."""
    network = rnn.Network([rnn.Elman(6)], 4, 4, dtype=dtype, seed=1)
    u = network.unroll(7, 5, initial="zero")
    objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets])
    symbols = np.random.default_rng(0).integers(0, 4, (8, 5))
    objective.feed(symbols[:-1], symbols[1:])
    optimizer = kind(iterations=30)
    start = objective.start()
    result = rnn.minimize(objective, optimizer, steps=1)
    report: Any = result.reports[0]
    found = directly(objective, start, optimizer)
    assert result.theta.dtype == dtype
    assert np.array_equal(result.theta, found.x.astype(dtype))
    assert result.loss == report.after == found.fun < 0.7 * report.before
    assert report.iterations == found.nit == 30
    assert report.evaluations == found.nfev


@every_kind
def test_steps_begin_anew(kind: type[ScipyMethod]) -> None:
    """Two steps are two runs of SciPy, each from where the one before ended; the state is empty."""
    objective, optimizer = rosenbrock(), kind(iterations=3)
    theta = objective.start()
    state = optimizer.init(theta)
    expected, reports = theta.copy(), []
    for _ in range(4):
        expected = directly(objective, expected, optimizer).x
        reports.append(optimizer.step(objective, theta, state, rate=0.123))
        assert np.array_equal(theta, expected)
        assert state == {}
    assert [r.before for r in reports[1:]] == [r.after for r in reports[:-1]]
    assert all(r.iterations <= 3 for r in reports)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", ["numba", "numpy"])
@every_kind
def test_a_nan_in_a_line_search_is_only_too_far(kind: type[ScipyMethod], backend: str, dtype: str) -> None:
    """Σ 50 x - log x has its minimum 0.02 close to where it ends; SciPy alone is lost at the first step."""
    x = gn.parameter(np.array([3.0, 2.0], dtype), name="x")
    objective = rnn.Objective(gn.sum(50 * x - gn.log(x)), [x], backend=backend)
    with np.errstate(invalid="ignore"):
        result = rnn.minimize(objective, kind(iterations=100), steps=1)
        if kind is LBFGS:
            assert not directly(objective, np.array([3.0, 2.0], dtype), LBFGS(iterations=100)).fun < 200
    report: Any = result.reports[0]
    assert report.broken > 0
    assert f"({report.broken} not finite)" in str(report)
    assert np.allclose(result.theta, 0.02, rtol=1e-2)
    assert result.loss == report.after == pytest.approx(2 * (1 - math.log(0.02)), rel=1e-5)


class Cliff:
    """(x - 3)² in one dimension; from `edge` on it is `beyond`, and so is every call after the `last`."""

    def __init__(self, edge: float, beyond: float, last: int = 10**9) -> None:
        self.edge, self.beyond, self.last, self.calls = edge, beyond, last, 0

    def gradient(self, w: Array) -> tuple[float, Array]:
        self.calls += 1
        if not w[0] < self.edge or self.calls > self.last:
            return self.beyond, np.full(1, self.beyond)
        return float((w[0] - 3) ** 2), 2 * (w - 3)


@pytest.mark.parametrize("beyond", [math.nan, math.inf, -math.inf])
@every_kind
def test_a_cliff_before_the_minimum(kind: type[ScipyMethod], beyond: float) -> None:
    """Every direction leads over the edge: θ ends on this side of it, better than before."""
    for edge in (-0.5, 1.7, 2.999):
        theta = np.array([-1.0])
        report = kind(iterations=50).step(Cliff(edge, beyond), theta, {})
        assert -1 < theta[0] < edge
        assert report.after == (theta[0] - 3) ** 2 < 16
        assert report.broken > 0


@pytest.mark.parametrize("last", [1, 2, 3, 4, 6])
@every_kind
def test_when_nothing_works_any_more_the_last_point_is_kept(kind: type[ScipyMethod], last: int) -> None:
    class Valley(Cliff):
        def gradient(self, w: Array) -> tuple[float, Array]:
            self.calls += 1
            loss = float(optimize.rosen(w)) if self.calls <= self.last else math.nan
            return loss, optimize.rosen_der(w)

    theta = np.array([-1.2, 1.0, 0.5])
    start = theta.copy()
    before = optimize.rosen(start)
    report = kind().step(Valley(0, math.nan, last), theta, {})
    assert report.after == optimize.rosen(theta) <= before
    assert report.broken > 0
    if last == 1:
        assert np.array_equal(theta, start)
    if last == 6:
        assert report.after < before


@every_kind
def test_no_step_from_where_nothing_is_finite(kind: type[ScipyMethod]) -> None:
    theta = np.array([5.0])
    report = kind().step(Cliff(0, math.nan), theta, {})
    assert theta[0] == 5
    assert math.isnan(report.loss)
    x = gn.parameter(np.array([-0.5]), name="x")
    with pytest.raises(TrainingError, match=r"(?s)the loss is nan.*Log"):
        rnn.minimize(rnn.Objective(gn.sum(gn.log(x)), [x]), kind(), steps=2)


@every_kind
def test_at_the_minimum_nothing_moves(kind: type[ScipyMethod]) -> None:
    theta = np.array([3.0])
    report = kind().step(Cliff(9, math.nan), theta, {})
    assert theta[0] == 3
    assert (report.before, report.after, report.iterations, report.evaluations) == (0, 0, 0, 1)


@every_kind
def test_on_fresh_batches(kind: type[ScipyMethod]) -> None:
    """As a Trial hands them; the loss of the batch never grows."""
    task = TASKS["temporal-order"](10)
    trial = Trial(task, kind(iterations=5), elman(task, 20), 200, 2, 100)
    reports: list[Any] = [trial.step() for _ in range(12)]
    assert all(report.after < report.before for report in reports)
    assert reports[-1].after < 0.5 * reports[0].before


# -- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer", [LBFGS(), LBFGS(7, 1e-3, memory=3, decrease=0.0), NonlinearConjugateGradient(iterations=9)]
)
def test_settings_and_repr_make_it_again(optimizer: ScipyMethod) -> None:
    assert type(optimizer)(**json.loads(json.dumps(optimizer.settings()))) == optimizer
    assert eval(repr(optimizer)) == optimizer
    assert not set(optimizer.settings()) & {"rate", "clip_norm", "clip_value"}


def test_memory_is_used() -> None:
    ends = [rnn.minimize(rosenbrock(), LBFGS(iterations=12, memory=m), steps=1).loss for m in (1, 10)]
    assert ends[0] != ends[1]


@pytest.mark.parametrize(
    ("make", "content"),
    [
        (lambda: LBFGS(iterations=0), "LBFGS: iterations must be a whole number >= 1, not 0"),
        (lambda: LBFGS(memory=0), "LBFGS: memory must be a whole number >= 1, not 0"),
        (lambda: LBFGS(memory=2.5), "LBFGS: memory must be a whole number >= 1, not 2.5"),  # type: ignore[arg-type]
        (lambda: LBFGS(decrease=-1.0), "LBFGS: decrease must be a finite number >= 0, not -1.0"),
        (
            lambda: NonlinearConjugateGradient(tolerance=math.nan),
            "NonlinearConjugateGradient: tolerance must be a finite number >= 0, not nan",
        ),
    ],
)
def test_impossible_settings(make: Any, content: str) -> None:
    with pytest.raises(UsageError, match=re.escape(content)):
        make()


@every_kind
@pytest.mark.parametrize("name", ["rate", "clip_norm", "clip_value"])
def test_there_is_no_rate_and_no_clipping_to_set(kind: type[ScipyMethod], name: str) -> None:
    with pytest.raises(TypeError, match=name):
        kind(**{name: 0.5})


# -- SciPy itself --------------------------------------------------------------------------------


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(
        UsageError, match=re.escape("LBFGS needs the package scipy: pip install 'scipy>=1.13'")
    ):
        rnn.minimize(rosenbrock(), LBFGS(), steps=1)


def test_importing_the_framework_loads_no_scipy() -> None:
    code = "import sys, graphnet_rnn; print([m for m in sys.modules if m.split('.')[0] == 'scipy'])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "[]"
