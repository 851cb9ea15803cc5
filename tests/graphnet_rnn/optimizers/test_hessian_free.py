"""Conjugate gradient against SciPy, structural damping against its dense form, Hessian-free steps at work."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers import (
    AugmentedHessianFree,
    GreedyHessianFree,
    HessianFree,
    HessianFreeReport,
    conjugate_gradient,
)
from graphnet_rnn.optimizers.conjugate_gradient import conjugate_directions
from tests.tables import case as named

# -- conjugate gradient --------------------------------------------------------------------------


def system(size: int, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    m = generator.standard_normal((size, size))
    return m @ m.T / size + 0.1 * np.eye(size), generator.standard_normal(size)


def test_iterates_are_scipys() -> None:
    for preconditioned, warm in itertools.product(["", "by a diagonal", "by a matrix"], [False, True]):
        with named(preconditioned, warm):
            a, b = system(30)
            start = np.linspace(-1, 1, 30) if warm else None
            diagonal, inverse = np.linspace(0.5, 3, 30), np.linalg.inv(system(30, seed=1)[0] + np.eye(30))
            given: Any = {"": None, "by a diagonal": diagonal, "by a matrix": lambda r: inverse @ r}[
                preconditioned
            ]
            solve = {"": None, "by a diagonal": lambda r: r / diagonal, "by a matrix": given}[preconditioned]
            expected: list[Array] = []
            operator = None if solve is None else LinearOperator((30, 30), matvec=solve)
            cg(
                a,
                b,
                x0=start,
                rtol=1e-14,
                maxiter=25,
                M=operator,
                callback=lambda x: expected.append(x.copy()),
            )
            found = conjugate_gradient(
                lambda v: a @ v, b, start, max_steps=25, tolerance=0, preconditioner=given
            )
            assert found.steps == 25
            assert found.reason == "limit"
            for step, x in found.kept:
                # Late iterates depend on the order in which sums are taken.
                close = 1e-7 if step <= 10 else 1e-3
                assert np.allclose(x, expected[step - 1], rtol=close, atol=close), step
            assert found.kept[-1][0] == 25
            assert np.allclose(
                found.values, [x @ a @ x / 2 - b @ x for x in [start if warm else 0 * b, *expected]]
            )


def test_as_many_steps_as_unknowns_solve() -> None:
    for size in [1, 2, 7, 20]:
        with named(size):
            a, b = system(size)
            found = conjugate_gradient(lambda v: a @ v, b, tolerance=0, residual=1e-10, max_steps=3 * size)
            assert found.reason == "solved"
            assert found.steps <= size + 2
            assert np.allclose(found.x, np.linalg.solve(a, b), rtol=1e-7)
            assert found.least_curvature >= np.linalg.eigvalsh(a)[0] * (1 - 1e-9)


def test_directions_are_conjugate() -> None:
    a, b = system(12)
    steps = [d.step for d in conjugate_directions(lambda v: a @ v, b)][1:9]
    products = np.array([[p @ a @ q for q in steps] for p in steps])
    assert np.allclose(products - np.diag(np.diag(products)), 0, atol=1e-10)


def test_stops_when_progress_is_small() -> None:
    """At the first step where (φ_i - φ_{i-k}) / φ_i < k ε, and not before."""
    for window in [3, 10]:
        with named(window):
            a, b = system(200, 3)
            tolerance = 1e-3
            found = conjugate_gradient(lambda v: a @ v, b, tolerance=tolerance, window=window, max_steps=500)
            assert found.reason == "progress"

            def small(i: int) -> bool:
                k = max(window, i // 10)
                return i > k and (found.values[i] - found.values[i - k]) / found.values[i] < k * tolerance

            assert small(found.steps)
            assert not any(small(i) for i in range(found.steps))


def test_some_iterates_are_kept() -> None:
    a, b = system(60)
    found = conjugate_gradient(lambda v: a @ v, b, tolerance=0, max_steps=40)
    steps = [step for step, _ in found.kept]
    assert steps[:3] == [1, 2, 3]
    assert steps[-1] == 40
    assert len(steps) < 16
    assert all(later <= math.ceil(1.3 * earlier) + 1 for earlier, later in itertools.pairwise(steps))


def test_directions_without_positive_curvature_end_it() -> None:
    for least in [0.0, -1.0]:
        with named(least):
            a = np.diag([2.0, 1.0, least])
            found = conjugate_gradient(lambda v: a @ v, np.array([1.0, 1.0, 1.0]), tolerance=0, max_steps=50)
            assert found.reason == "curvature"
            assert found.least_curvature <= 0
            assert np.isfinite(found.x).all()


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_ends_it_before_harm() -> None:
    for harm in [np.nan, np.inf]:
        with named(harm):
            calls = []

            def broken(v: Array) -> Array:
                calls.append(1)
                return v * np.arange(1, 5) if len(calls) < 3 else np.abs(v) * harm * np.sign(v)

            found = conjugate_gradient(broken, np.ones(4), tolerance=0)
            assert found.reason == "not finite"
            assert np.isfinite(found.x).all()
            assert found.steps == 2


def test_impossible_settings_of_conjugate_gradient() -> None:
    for settings in [{"max_steps": 0}, {"window": 0}, {"tolerance": -1}, {"residual": float("nan")}]:
        with named(settings), pytest.raises(UsageError, match="conjugate_gradient: max_steps"):
            conjugate_gradient(lambda v: v, np.ones(2), **settings)


# -- structural damping --------------------------------------------------------------------------


def test_structural_damping_is_its_dense_form() -> None:
    """G_s v = Σ Jᵀ e'(a) J v / batch, J = ∂a/∂w of every hidden pre-activation, here from finite differences."""
    for cell in rnn.cells.ALL.values():
        with named(cell):
            network = rnn.Network([cell().resized(2)], 3, 3, dtype="float64")
            generator = np.random.default_rng(0)
            network.theta = 0.5 * generator.standard_normal(network.theta.shape)
            time, batch = 3, 2
            u = network.unroll(time, batch, initial="zero")
            parameters = list(network.parameters.values())
            objective = rnn.Objective(
                u.cost, parameters, [u.inputs, u.targets], structure=u.structure, backend="numpy"
            )
            x, t = generator.integers(0, 3, (2, time, batch))
            objective.feed(x, t)
            w = objective.start()
            v = generator.standard_normal((2, objective.size))
            if not u.structure:  # a layer without tanh and σ has nothing to damp
                with pytest.raises(UsageError, match="needs hidden units to damp"):
                    objective.curvature(w, 0.5)
                continue
            found = np.stack([objective.curvature(w, 0.5)(row) - objective.curvature(w)(row) for row in v])
            values = gn.compile(
                [node for pair in u.structure for node in pair], [u.inputs, u.targets], backend="numpy"
            )

            def at(point: Array) -> list[Array]:
                objective.loss(point)  # sets the parameters
                return list(values(x, t))

            def slope(direction: Array) -> list[Array]:
                plus, minus = at(w + 1e-6 * direction), at(w - 1e-6 * direction)
                return [(p - m) / 2e-6 for p, m in zip(plus, minus, strict=True)]

            changes = [slope(row) for row in v]
            # uᵀ G_s v = Σ R_u{a} e'(a) R_v{a} / batch, and e'(a) R_v{a} = R_v{h}
            for i, j in ((0, 0), (0, 1), (1, 1)):
                expected = sum(
                    float((changes[i][k] * changes[j][k + 1]).sum()) for k in range(0, len(changes[0]), 2)
                )
                assert np.isclose(v[i] @ found[j], 0.5 * expected / batch, rtol=1e-5, atol=1e-8)
            assert np.isclose(v[0] @ found[1], v[1] @ found[0], rtol=1e-9, atol=1e-12)
            assert v[0] @ found[0] >= 0


class Repeating(rnn.Cell):
    """h' = tanh(a) ⊙ σ(tanh(a)), a = x W_xh + h W_hh + b_h, written out each time"""

    states = (rnn.State("h"),)

    def squashed(self, x: gn.Node, h: gn.Node) -> gn.Node:
        return gn.tanh(gn.label(self.affine("h", x=x, h=h), "a"))

    def step(self, x: gn.Node, h: gn.Node) -> gn.Node:  # type: ignore[override]
        return gn.tanh(self.affine("h", x=x, h=h)) * gn.sigmoid(self.squashed(x, h))


#: Cells alone and in wrappers, and settings that change what is unrolled; with units that are written twice in each.
STRUCTURES: dict[str, tuple[list[rnn.Cell], dict[str, Any]]] = {
    **{name: ([cell().resized(2)], {}) for name, cell in rnn.cells.ALL.items()},
    "Repeating": ([Repeating(2)], {}),
    "Residual(GLNN)": ([rnn.Residual(rnn.GLNN(2))], {}),
    "Normalized(Repeating)": ([rnn.Normalized(Repeating(2))], {}),
    "Hyper(Repeating)": ([rnn.Hyper(Repeating(2), Repeating(2))], {}),
    "Bidirectional(GLNN, Repeating)": ([rnn.Bidirectional(rnn.GLNN(2), Repeating(2))], {}),
    "skip": ([rnn.GLNN(2), Repeating(2)], {"skip": True}),
    "dropout": ([rnn.GLNN(2), Repeating(2)], {"dropout": 0.5, "recurrent_dropout": 0.5}),
    "shared": ([rnn.GLNN(3), rnn.GLNN(3)], {"share": {1: 0}}),
    "learned": ([rnn.GLNN(2)], {"initial_state": "learned"}),
}


def test_each_unit_is_damped_once() -> None:
    """tr G_s = Σ over units of e'(a) |∂a/∂w|² / batch, where units that have the same values are one."""
    for case, (cells, settings) in STRUCTURES.items():
        with named(case):
            network = rnn.Network(cells, 3, 3, dtype="float64", **settings)
            generator = np.random.default_rng(1)
            network.theta = 0.5 * generator.standard_normal(network.theta.shape)
            time, batch = 2, 2
            u = network.unroll(time, batch)
            fed = [u.inputs, u.targets, *u.initial]
            arrays = [
                *generator.integers(0, 3, (2, time, batch)),
                *(generator.random(s.shape) for s in u.initial),
            ]
            objective = rnn.Objective(
                u.cost, network.parameters, fed, structure=u.structure, structure_scale=3.0, random=u.random
            )
            objective.feed(*arrays)
            if not u.structure:  # a layer without tanh and σ
                continue
            w = objective.start()
            damped, plain = objective.curvature(w, 1.0), objective.curvature(w)
            rows = np.eye(objective.size)
            trace = sum(float(row @ (damped(row) - plain(row))) for row in rows)

            units = [
                n
                for n in gn.Graph([u.cost]).order
                if type(n.op).__name__ in ("Tanh", "Sigmoid") and "cell" in n.scope
            ]
            values = gn.compile(units, fed)(*arrays)
            distinct = {(type(n.op), value.tobytes()): n for n, value in zip(units, values, strict=True)}
            assert len(u.structure) == len(distinct)
            directions = [gn.input(node.shape, node.dtype, name="v") for node in network.parameters.values()]
            tangents = dict(zip(network.parameters.values(), directions, strict=True))
            moved = gn.rop([node for h in distinct.values() for node in (h.inputs[0], h)], tangents)
            changes = gn.compile(moved, [*fed, *directions])
            expected = 0.0
            for row in rows:
                pieces = np.split(row, np.cumsum([node.size for node in directions])[:-1])
                found = changes(
                    *arrays, *(p.reshape(n.shape) for p, n in zip(pieces, directions, strict=True))
                )
                expected += sum(float((a * h).sum()) for a, h in zip(found[::2], found[1::2], strict=True))
            assert trace == pytest.approx(3.0 * expected / batch, rel=1e-9)


def test_structure_that_lists_a_unit_twice_is_refused() -> None:
    network = rnn.Network([rnn.Elman(2)], 3, 3)
    u = network.unroll(2, 1, initial="zero")
    fed = [u.inputs, u.targets]
    with pytest.raises(UsageError, match=r"lists .* twice, so they would be damped twice"):
        rnn.Objective(u.cost, network.parameters, fed, structure=[*u.structure, u.structure[0]])


def test_damping_of_the_change_itself() -> None:
    """(a, a, μ): μ times the Gauss-Newton matrix of ½ |a - a₀|²."""
    generator = np.random.default_rng(0)
    W = gn.parameter(generator.standard_normal((3, 2)), name="W")
    x, t = generator.standard_normal((4, 3)), generator.standard_normal((4, 2))
    a = gn.matmul(x, W)
    cost = gn.mean(gn.squared_error(a, t))
    v = generator.standard_normal((3, 2))
    plain, damped = (
        gn.compile(gn.gauss_newton_product(cost, {W: v}, damping=damping), [])()[0]
        for damping in ((), [(a, a, 0.7)])
    )
    assert np.allclose(damped - plain, 0.7 * x.T @ (x @ v))


# -- Hessian-free steps --------------------------------------------------------------------------


class Valley:
    """½ (w - c)ᵀ H (w - c) + s Σ (w - c)⁴: an objective by hand; `spoilt` may change what a loss is."""

    def __init__(self, quartic: float = 0.0, spoilt: Callable[[Array, float], float] | None = None) -> None:
        self.hessian, _ = system(6)
        self.centre, self.quartic = np.arange(6.0), quartic
        self.spoilt = spoilt or (lambda w, loss: loss)
        self.weights: list[float] = []

    def loss(self, w: Array) -> float:
        d = w - self.centre
        return self.spoilt(w, float(d @ self.hessian @ d / 2 + self.quartic * (d**4).sum()))

    def gradient(self, w: Array) -> tuple[float, Array]:
        d = w - self.centre
        return self.loss(w), self.hessian @ d + 4 * self.quartic * d**3

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        self.weights.append(structural)
        bend = self.hessian + np.diag(12 * self.quartic * (w - self.centre) ** 2)
        return lambda v: bend @ v


def run(objective: Any, optimizer: HessianFree, steps: int) -> tuple[Array, list[HessianFreeReport]]:
    theta = np.full(6, 9.0)
    state = optimizer.init(theta)
    return theta, [optimizer.step(objective, theta, state) for _ in range(steps)]


def test_a_quadratic_needs_one_step_and_its_damping_falls() -> None:
    theta, reports = run(Valley(), HessianFree(damping=1e-9, tolerance=0, cg_steps=30), 3)
    assert np.allclose(theta, np.arange(6), atol=1e-5)
    assert reports[0].ratio == pytest.approx(1, abs=1e-6)
    assert reports[0].scale == 1
    assert reports[1].damping == pytest.approx(1e-9 / 1.5)


def test_a_start_that_the_model_rejects_is_no_success() -> None:
    """From where one step of CG starts, φ is still above 0 and the loss higher: their quotient says nothing good."""
    objective = Valley()
    optimizer = HessianFree(damping=0.1, cg_steps=1, warm_start=1.0)
    theta = np.full(6, 9.0)
    state = optimizer.init(theta)
    state["direction"][:] = 500.0 * np.linspace(-1, 1, 6)
    report = optimizer.step(objective, theta, state)
    assert report.cg_values[report.chosen] > 0
    assert math.isnan(report.ratio)
    assert state["damping"][0] == pytest.approx(0.15)


def test_a_step_that_only_harms_is_not_taken() -> None:
    """Everywhere but at the start the loss is terrible: θ stays, λ grows, the next run starts cold."""
    for value in [math.nan, math.inf, 1e30]:
        with named(value):
            start = np.full(6, 9.0)
            objective = Valley(spoilt=lambda w, loss: loss if np.array_equal(w, start) else value)
            optimizer = HessianFree(damping=0.1, line_search=5)
            theta = start.copy()
            state = optimizer.init(theta)
            report = optimizer.step(objective, theta, state)
            assert np.array_equal(theta, start)
            assert report.scale == 0
            assert "rejected" in str(report)
            assert state["damping"][0] == pytest.approx(0.15)
            assert not state["direction"].any()


def test_the_line_search_shortens_a_step() -> None:
    """Beyond a wall the loss is infinite: α is the first power of 0.8 within it."""
    objective = Valley(spoilt=lambda w, loss: loss if w[5] > 7 else math.inf)
    theta, (report,) = run(objective, HessianFree(damping=1e-9, tolerance=0, backtrack=False), 1)
    assert theta[5] > 7
    assert report.scale == pytest.approx(0.8 ** round(math.log(report.scale, 0.8)))
    assert 0 < report.scale < 1


def test_cg_is_backtracked() -> None:
    """Where the last iterates are spoilt, an earlier one is taken."""
    start = np.full(6, 9.0)
    hessian, g = Valley().hessian, Valley().gradient(start)[1]
    last = start + conjugate_gradient(lambda v: hessian @ v, -g, tolerance=0, max_steps=6).x
    objective = Valley(spoilt=lambda w, loss: loss + 100 / (0.1 + float(np.linalg.norm(w - last))))
    _, (report,) = run(objective, HessianFree(damping=1e-9, tolerance=0, cg_steps=6, retained=0), 1)
    assert 0 < report.chosen < report.cg_steps == 6


def test_structural_damping_is_asked_for_by_its_weight() -> None:
    """λ μ, as in Sutskever; and an objective is not asked where there is none."""
    objective = Valley()
    run(objective, HessianFree(damping=0.1, structural=0.5), 1)
    run(objective, HessianFree(damping=0.1), 1)
    assert objective.weights == [pytest.approx(0.05), 0.0]


def test_impossible_settings() -> None:
    cases = [
        {"damping": -1}, {"damping": math.inf}, {"structural": -1}, {"cg_steps": 0}, {"tolerance": -1}, {"window": 0},
        {"warm_start": 1.5}, {"line_search": -1}, {"rate": 0}, {"retained": 1.0}, {"preconditioner": 2},
        {"adapts": "lambda"}, {"adapts": "structural"}, {"damping": 0},
    ]  # fmt: skip
    for settings in cases:
        with named(settings), pytest.raises(UsageError, match=next(iter(settings))):
            HessianFree(**settings)


def test_krauses_rule_adapts_the_structural_damping() -> None:
    """μ follows ρ, λ stays, and the objective is asked for μ itself."""
    objective = Valley(quartic=0.05)
    optimizer = HessianFree(damping=0.1, structural=0.5, adapts="structural")
    _, reports = run(objective, optimizer, 6)
    assert {report.damping for report in reports} == {0.1}
    assert objective.weights[0] == 0.5
    assert len(set(objective.weights)) > 1
    for now, then in itertools.pairwise(reports):
        factor = 1.5 if now.ratio < 0.25 or not now.scale else 1 / 1.5 if now.ratio > 0.75 else 1.0
        assert then.structural == pytest.approx(now.structural * factor)


def test_augmented_directions_are_conjugate_to_the_first() -> None:
    """And φ is least over the last direction and the Krylov space of what it leaves."""
    a, b = system(12)
    c = np.linspace(-1, 2, 12)
    found = list(itertools.islice(conjugate_directions(lambda v: a @ v, b, augment=c), 7))
    steps = np.array([d.step for d in found[1:]])
    products = steps @ a @ steps.T
    assert np.allclose(products - np.diag(np.diag(products)), 0, atol=1e-9)
    assert abs(c @ steps[0]) == pytest.approx(np.linalg.norm(c) * np.linalg.norm(steps[0]))
    shadow = a @ c / (c @ a @ c)
    residual = b - (b @ c) * shadow
    basis = [c, residual]
    for _ in range(4):
        v = basis[-1] - (shadow @ basis[-1]) * c
        basis.append(a @ v - (a @ v @ c) * shadow)
    q = np.linalg.qr(np.array(basis).T)[0]
    best = q @ np.linalg.solve(q.T @ a @ q, q.T @ b)
    assert np.allclose(found[-1].x, best, atol=1e-8)
    assert found[-1].value == pytest.approx(best @ a @ best / 2 - b @ best)


def test_a_direction_without_curvature_augments_nothing() -> None:
    a, b = np.diag([3.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.0])
    plain = itertools.islice(conjugate_directions(lambda v: a @ v, b), 3)
    found = itertools.islice(conjugate_directions(lambda v: a @ v, b, augment=np.array([0.0, 0.0, 1.0])), 3)
    assert np.array_equal([d.x for d in plain], [d.x for d in found])


def test_the_rule_of_levenberg_and_marquardt() -> None:
    """× 3/2 where ρ < 1/4 or is no number, × 2/3 where ρ > 3/4, else as it is; never to nothing."""
    optimizer = HessianFree(damping=0.5)
    factors = {-math.inf: 1.5, -3: 1.5, 0.24: 1.5, 0.26: 1.0, 0.74: 1.0, 0.76: 2 / 3, 5: 2 / 3, math.nan: 1.5}
    for ratio, factor in factors.items():
        state = {"damping": np.array([0.5])}
        optimizer._adapt(state, ratio)
        assert state["damping"][0] == pytest.approx(0.5 * factor), ratio
    for _ in range(200):
        optimizer._adapt(state, 1.0)
    assert state["damping"][0] == pytest.approx(0.5e-12)


def test_the_line_search_asks_for_a_share_of_what_the_slope_promises() -> None:
    """Not any decrease: f(θ + α δ) ≤ f(θ) + 0.01 α gᵀδ."""
    start = np.full(6, 9.0)
    plain = Valley()
    (_, g), before = plain.gradient(start), plain.loss(start)
    delta = conjugate_gradient(lambda v: plain.hessian @ v, -g, tolerance=0, max_steps=6).x
    promised = 0.01 * float(g @ delta)

    def spoilt(w: Array, loss: float) -> float:
        """Along δ hardly less than before, for lengths above 0.7."""
        along = float((w - start) @ delta / (delta @ delta))
        return before + 0.5 * promised * along if along > 0.7 else loss

    _, (report,) = run(
        Valley(spoilt=spoilt),
        HessianFree(damping=1e-12, tolerance=0, cg_steps=6, backtrack=False, retained=0),
        1,
    )
    assert report.scale == pytest.approx(0.64)


def test_the_preconditioner_is_the_power_of_squares_and_damping() -> None:
    scales = np.array([1.0, 30.0, 4.0, 0.2, 9.0, 100.0])
    objective: Any = Valley()
    objective.squared_gradients = lambda w: scales
    _, (report,) = run(objective, HessianFree(damping=0.5, preconditioner=0.6, cg_steps=3, retained=0), 1)
    g = objective.gradient(np.full(6, 9.0))[1]
    expected = conjugate_gradient(
        lambda v: objective.hessian @ v + 0.5 * v, -g, max_steps=3, preconditioner=(scales + 0.5) ** 0.6
    )
    assert report.cg_values == pytest.approx(expected.values)


def test_shares_are_halved_so_often_and_no_more() -> None:
    """A loss that falls the more, the shorter the step: the last share is tried, and taken."""

    class Cusp:
        def loss(self, w: Array) -> float:
            step = abs(float(w[0]) - 1.0)
            return 1.0 if step == 0 else step - 1.0

        def gradient(self, w: Array) -> tuple[float, Array]:
            return 1.0, np.ones(1)

        def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
            return lambda v: v

    for halvings in (0, 1, 4):
        optimizer, theta = GreedyHessianFree(halvings=halvings), np.ones(1)
        report = optimizer.step(Cusp(), theta, optimizer.init(theta))
        assert report.step_norm == 0.5**halvings


def test_products_are_counted() -> None:
    """Those for warm starts included, which are no steps of CG."""
    for kind in [HessianFree, GreedyHessianFree, AugmentedHessianFree]:
        with named(kind):
            objective = Valley(quartic=0.05)
            plain, calls = objective.curvature, []

            def counted(w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
                product = plain(w, structural)
                return lambda v: (calls.append(1), product(v))[1]  # type: ignore[func-returns-value]

            objective.curvature = counted  # type: ignore[method-assign]
            optimizer, theta = kind(cg_steps=3), np.full(6, 9.0)
            state = optimizer.init(theta)
            for _ in range(4):
                calls.clear()
                report = optimizer.step(objective, theta, state)
                assert report.products == len(calls) >= report.cg_steps


def test_where_there_is_nothing_to_do() -> None:
    """No loss is evaluated over and over, and the damping stays."""
    for kind in [HessianFree, GreedyHessianFree, AugmentedHessianFree]:
        with named(kind):
            objective, evaluated = Valley(), []
            objective.spoilt = lambda w, loss: (evaluated.append(1), loss)[1]  # type: ignore[func-returns-value]
            optimizer, theta = kind(), np.arange(6.0)
            state = optimizer.init(theta)
            before = copy.deepcopy(state)
            report = optimizer.step(objective, theta, state)
            assert not report.taken
            assert len(evaluated) < 5
            assert all(np.array_equal(state[name], before[name]) for name in state)


def test_a_broken_loss_on_its_own_batch_is_reported() -> None:
    for value in [math.nan, math.inf]:
        with named(value):
            objective: Any = Valley()
            gradient = objective.gradient
            objective.gradient = lambda w: (1.0, gradient(w)[1])
            objective.loss = lambda w: value
            theta, (report,) = run(objective, HessianFree(), 1)
            assert not math.isfinite(report.loss)
            assert (theta == 9).all()


def test_steps_that_overflow_are_too_long() -> None:
    """float32 weights, a model that is nearly flat: no warning, and a step that can be taken."""

    class Flat:
        def loss(self, w: Array) -> float:
            return float(np.sum(np.square(w, dtype=np.float64)))

        def gradient(self, w: Array) -> tuple[float, Array]:
            return self.loss(w), 2 * w

        def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
            return lambda v: 1e-39 * np.asarray(v)

    theta = np.ones(3, np.float32)
    optimizer = HessianFree(adapts="nothing", damping=0)
    report = optimizer.step(Flat(), theta, optimizer.init(theta))
    assert np.isfinite(theta).all()
    assert report.after <= report.before


def test_tiny_numbers_end_cg() -> None:
    """Where a square underflows, there is nothing left to solve, and no direction to augment by."""
    assert len(list(conjugate_directions(lambda v: v, np.full(3, 1e-170)))) == 1
    plain = [d.x for d in itertools.islice(conjugate_directions(lambda v: 2 * v, np.ones(3)), 2)]
    found = conjugate_directions(lambda v: 2 * v, np.ones(3), augment=np.full(3, 1e-170))
    assert np.array_equal(plain, [d.x for d in itertools.islice(found, 2)])


def test_augmented_steps_where_the_model_is_exact() -> None:
    """On a quadratic each coefficient is CG's; the last δ comes first, at the length that is best for it."""
    optimizer, objective = AugmentedHessianFree(tolerance=0, cg_steps=3), Valley()
    theta = np.full(6, 9.0)
    state = optimizer.init(theta)
    first = theta.copy()
    optimizer.step(objective, theta, state)
    last, second = theta - first, theta.copy()
    assert np.allclose(state["direction"], last)
    optimizer.step(objective, theta, state)
    g = objective.gradient(second)[1]
    found = conjugate_directions(lambda v: objective.hessian @ v, -g, augment=last)
    directions = list(itertools.islice(found, 4))
    assert np.allclose(theta, second + directions[3].x)


def test_augmented_steps_grow_shrink_and_turn() -> None:
    """f = ½ w², its curvature said to be `model` times what it is; or its gradient to point the other way."""
    for model, expected in [(4.0, 4.0), (0.25, 0.25), (-1.0, -1.0)]:
        with named(model, expected):

            class Line:
                def loss(self, w: Array) -> float:
                    return 0.5 * float(w[0] ** 2)

                def gradient(self, w: Array) -> tuple[float, Array]:
                    return self.loss(w), w * math.copysign(1, model)

                def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
                    return lambda v: abs(model) * v

            theta = np.array([3.0])
            report = AugmentedHessianFree(line_search=0).step(
                Line(), theta, AugmentedHessianFree().init(theta)
            )
            assert report.step_norm == pytest.approx(3.0 / abs(model) * abs(expected))
            assert theta[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", [HessianFree, GreedyHessianFree])
def test_a_metric_is_a_preconditioner(kind: type[rnn.optimizers.CurvedOptimizer]) -> None:
    """Fewer products for the same losses, and a run that resumes with its draws."""
    draws = np.random.default_rng(3)
    x = (draws.integers(0, 12, 32) + np.arange(16)[:, None] * draws.integers(1, 4, 32)) % 12

    def run_of(preconditioner: Any, steps: int, **begun: Any) -> Any:
        network = rnn.Network([rnn.LSTM(12)], 12, 12, dtype="float64", seed=1)
        u = network.unroll(15, 32, initial="zero")
        objective = rnn.Objective(u.cost, network.parameters, [u.inputs, u.targets])
        objective.feed(x[:-1], x[1:])
        optimizer = kind(preconditioner=preconditioner, damping=0.1, cg_steps=60)
        assert optimizer == kind(**json.loads(json.dumps(optimizer.settings())))
        return rnn.minimize(objective, optimizer, steps=steps, **begun)

    plain, whole = run_of(0.0, 12), run_of("kfac", 12)
    products = [sum(report.products for report in each.reports) for each in (whole, plain)]
    assert products[0] < (0.95 if kind is HessianFree else 1.05) * products[1]
    assert whole.loss < 1.05 * plain.loss
    first = run_of("kfac", 3)
    rest = run_of("kfac", 9, start=first.theta, state=first.state)
    assert rest.theta.tobytes() == whole.theta.tobytes()
    with pytest.raises(UsageError, match="needs an objective with a metric"):
        run(Valley(), kind(preconditioner="kfac"), 1)
    with pytest.raises(UsageError, match=r"preconditioner must be in \[0, 1\], or one of rnn"):
        kind(preconditioner="nothing")


def test_greedy_steps_equal_conjugate_gradient_where_the_model_is_exact() -> None:
    """On a quadratic no step is worth shortening: the result is CG's."""
    theta, (report,) = run(Valley(), GreedyHessianFree(tolerance=0, cg_steps=6), 1)
    hessian, g = Valley().hessian, Valley().gradient(np.full(6, 9.0))[1]
    expected = np.full(6, 9.0) + conjugate_gradient(lambda v: hessian @ v, -g, tolerance=0, max_steps=6).x
    assert np.allclose(theta, expected, atol=1e-8)
    assert report.ratio == pytest.approx(1)


def test_greedy_steps_never_raise_the_loss() -> None:
    """Each direction in turn, shortened as long as that helps, as in Krause's algorithm 5."""
    optimizer, objective = GreedyHessianFree(tolerance=0, cg_steps=4), Valley(quartic=0.5)
    objective.curvature = lambda w, structural=0.0: lambda v: objective.hessian @ v  # type: ignore[method-assign]
    theta, (report,) = run(objective, optimizer, 1)
    start = np.full(6, 9.0)
    curvature, (_, g) = objective.curvature(start), objective.gradient(start)
    delta, loss = np.zeros(6), objective.loss(start)
    shortened = 0
    for direction in list(conjugate_directions(curvature, -g))[1:5]:
        losses = [objective.loss(start + delta + 0.5**k * direction.step) for k in range(11)]
        k = next((k for k in range(10) if losses[k] < loss and losses[k + 1] >= losses[k]), None)
        if k is not None:
            delta, loss = delta + 0.5**k * direction.step, losses[k]
            shortened += k > 0
    assert shortened
    assert np.allclose(theta, start + delta, rtol=1e-9)
    assert report.after == pytest.approx(loss)
    theta, reports = run(Valley(quartic=0.5), GreedyHessianFree(), 12)
    assert np.allclose(theta, np.arange(6), atol=1e-2)
    assert all(b.after <= a.after for a, b in itertools.pairwise(reports))


def test_rosenbrock_in_nodes() -> None:
    """(1 - x)² + 100 (y - x²)² as squared errors: G is that of least squares (Gauss)."""
    for optimizer in [HessianFree(damping=1e-3), GreedyHessianFree(), AugmentedHessianFree()]:
        with named(optimizer):
            xy = gn.parameter(np.array([-1.2, 1.0]), name="xy")
            residuals = gn.stack([xy[0], 10 * (xy[1] - xy[0] * xy[0])])
            objective = rnn.Objective(gn.sum(gn.squared_error(residuals, np.array([1.0, 0.0]))), [xy])
            result = rnn.minimize(objective, optimizer, steps=200, tolerance=1e-9)
            assert np.allclose(result.theta, 1, atol=1e-6)
