"""iLQR against a dense system and SciPy on a pendulum, and as a lower bound of control tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from graphnet.graph.graph import substitute
from graphnet.graph.node import Array, Node
from graphnet_rnn.experiments.control import ILQR, CenterOut, Controller, ControlTask, Plan, optimum, planned
from tests.tables import case

RNG = np.random.default_rng
TIME, BATCH, N, M = 7, 3, 4, 2


@dataclasses.dataclass(frozen=True)
class Linear:
    """x' = A x + B u + c,  ℓ = ½ xᵀQx + ½ uᵀRu + xᵀPu + qᵀu,  ℓ_T = ½ xᵀSx + sᵀx"""

    A: Array
    B: Array
    Q: Array
    R: Array
    P: Array
    S: Array
    q: Array
    s: Array

    @classmethod
    def drawn(cls) -> Linear:
        draw = RNG(0).standard_normal

        def positive(n: int) -> Array:
            half = draw((n, n))
            return half @ half.T + np.eye(n)

        joint = positive(N + M)
        return cls(
            0.6 * draw((N, N)), draw((N, M)), joint[:N, :N], joint[N:, N:], joint[:N, N:], positive(N), draw(M), draw(N)
        )  # fmt: skip

    def solver(self) -> ILQR:
        A, B, Q, R, P, S, q, s = (gn.constant(value) for value in vars(self).values())

        def running(x: Node, u: Node, c: Node) -> Node:
            own = gn.sum(x * (x @ Q), axis=1) + gn.sum(u * (u @ R), axis=1)
            return 0.5 * own + gn.sum(u * (x @ P + q), axis=1)

        def final(x: Node, c: Node) -> Node:
            return 0.5 * gn.sum(x * (x @ S), axis=1) + gn.sum(x * s, axis=1)

        return ILQR(lambda x, u, c: x @ A.T + u @ B.T + c, running, final, N, M, context=N)

    def dense(self, x0: Array, pushes: Array) -> Array:
        """All commands at once: J is a quadratic in them, whose Hessian and slope come from J itself at units."""

        def cost(u: Array) -> float:
            x, total = x0, 0.0
            for t in range(TIME):
                v = u.reshape(TIME, M)[t]
                total += x @ self.Q @ x / 2 + v @ self.R @ v / 2 + x @ self.P @ v + self.q @ v
                x = self.A @ x + self.B @ v + pushes[t]
            return float(total + x @ self.S @ x / 2 + self.s @ x)

        units, none = np.eye(TIME * M), cost(np.zeros(TIME * M))
        at = np.array([cost(e) for e in units])
        both = np.array([[cost(a + b) for b in units] for a in units])
        H = both - at[:, None] - at + none
        g = at - none - H.diagonal() / 2
        return np.asarray(-np.linalg.solve(H, g)).reshape(TIME, M)


@pytest.fixture(scope="module")
def linear() -> tuple[Linear, Array, Array, Plan]:
    plant, x0, c = (
        Linear.drawn(),
        RNG(1).standard_normal((BATCH, N)),
        RNG(2).standard_normal((TIME + 1, BATCH, N)),
    )
    return plant, x0, c, plant.solver().plan(x0, RNG(3).standard_normal((TIME, BATCH, M)), c)


def test_a_linear_plant_takes_one_iteration(linear: tuple[Linear, Array, Array, Plan]) -> None:
    plant, x0, c, plan = linear
    for b in range(BATCH):
        np.testing.assert_allclose(plan.commands[:, b], plant.dense(x0[b], c[:, b]), rtol=1e-7, atol=1e-9)
    assert len(plan.costs) == 2
    assert plan.settled.all()
    assert plan.costs[-1] == pytest.approx(plan.cost.mean(), rel=1e-12)


def test_gains_match_the_riccati_equation(linear: tuple[Linear, Array, Array, Plan]) -> None:
    """P = Q + AᵀP'A - (AᵀP'B + N) (R + BᵀP'B)⁻¹ (BᵀP'A + Nᵀ), K = -(R + BᵀP'B)⁻¹ (BᵀP'A + Nᵀ)"""
    plant, _, _, plan = linear
    P = plant.S
    for t in reversed(range(TIME)):
        across = plant.B.T @ P @ plant.A + plant.P.T
        K = -np.linalg.inv(plant.R + plant.B.T @ P @ plant.B) @ across
        P = plant.Q + plant.A.T @ P @ plant.A + across.T @ K
        for b in range(BATCH):
            np.testing.assert_allclose(plan.gains[t, b], K, rtol=1e-9)
            np.testing.assert_allclose(plan.curvatures[t, b], P, rtol=1e-9)


def test_value_function_and_gains_are_optimal_for_other_starts(
    linear: tuple[Linear, Array, Array, Plan],
) -> None:
    """For linear plants V is exact: it is the minimal cost from other starts, and K gives the commands."""
    plant, x0, c, plan = linear
    move = RNG(4).standard_normal((BATCH, N))
    other = plant.solver().plan(x0 + move, np.zeros((TIME, BATCH, M)), c)
    bent = np.einsum("bi,bij,bj->b", move, plan.curvatures[0], move) / 2
    np.testing.assert_allclose(plan.cost + (plan.slopes[0] * move).sum(axis=1) + bent, other.cost, rtol=1e-9)
    x = x0 + move
    for t in range(TIME):
        u = plan.command(t, x)
        np.testing.assert_allclose(u, other.commands[t], rtol=1e-7, atol=1e-9)
        x = x @ plant.A.T + u @ plant.B.T + c[t]
        np.testing.assert_allclose(other.states[t + 1], x, rtol=1e-7, atol=1e-9)


def swing(**how: Any) -> ILQR:
    """Up from hanging down, by torques that are dear: not convex."""
    return ILQR(
        lambda x, u: x + 0.1 * gn.stack([x[:, 1], u[:, 0] - 4 * gn.sin(x[:, 0])], axis=1),
        lambda x, u: 0.005 * gn.sum(u * u, axis=1) * (1 + x[:, 1] ** 2),
        lambda x: 1 + gn.cos(x[:, 0]) + 3 * x[:, 1] ** 2,
        2, 1, **how,
    )  # fmt: skip


def swing_cost(u: Array, x0: Array) -> float:
    (angle, speed), total = x0, 0.0
    for torque in u:
        total += 0.005 * torque**2 * (1 + speed**2)
        angle, speed = angle + 0.1 * speed, speed + 0.1 * (torque - 4 * np.sin(angle))
    return float(total + 1 + np.cos(angle) + 3 * speed**2)


def test_pendulum_matches_scipy() -> None:
    """SciPy cannot improve iLQR's commands, and finds no lower cost from the first guess."""
    starts = np.array([[0.1, 0.0], [-0.4, 0.5]])
    guess = 0.3 * np.ones((20, 2, 1))
    plan = swing(tolerance=1e-12).plan(starts, guess)
    assert plan.settled.all()
    for b, x0 in enumerate(starts):
        cost = swing_cost(plan.commands[:, b, 0], x0)
        assert cost == pytest.approx(plan.cost[b], rel=1e-12)
        assert cost < 0.95 * swing_cost(guess[:, b, 0], x0)
        near = optimize.minimize(
            swing_cost, plan.commands[:, b, 0], (x0,), method="BFGS", options={"gtol": 1e-7}
        )
        assert near.fun == pytest.approx(cost, rel=1e-6)
        np.testing.assert_allclose(near.x, plan.commands[:, b, 0], atol=2e-3)


def test_costs_never_rise_and_movements_are_independent() -> None:
    """Movements are planned independently."""
    starts, guess = np.array([[0.1, 0.0], [-0.4, 0.5], [3.0, -1.0]]), 0.3 * np.ones((20, 3, 1))
    both = swing().plan(starts, guess)
    assert all(b <= a for a, b in zip(both.costs, both.costs[1:], strict=False))
    for b in range(3):
        alone = swing().plan(starts[b : b + 1], guess[:, b : b + 1])
        np.testing.assert_allclose(both.commands[:, b], alone.commands[:, 0], rtol=1e-6, atol=1e-8)
    plan = swing(iterations=1).plan(starts[:1], guess[:, :1])
    assert (plan.settled.any(), len(plan.costs)) == (False, 2)


TASKS: dict[str, Callable[[], ControlTask]] = {
    "center-out": lambda: CenterOut(Controller([rnn.Elman(3)], dtype="float64"), directions=3, time=12),
    "postural": lambda: rnn.control.Postural(Controller([rnn.Elman(3)], dtype="float64"), time=12),
    "DDN": lambda: rnn.control.DelayDisturbanceNoise(
        Controller([rnn.Elman(3)], dtype="float64"), batch=4, time=12, noise=0.0
    ),
}


def test_optimum_has_the_cost_of_the_task() -> None:
    """The task's cost of the planned movements; steps in any direction raise it."""
    for make in TASKS.values():
        with case(make):
            task = make()
            plan = optimum(task, seed=3)
            found = planned(task, plan, seed=3)
            loop = task.loop
            x = [gn.input(state.shape, "float64") for state in loop.states]
            u = gn.input(loop.torques.shape, "float64")
            (cost,) = substitute([task.cost], dict(zip([*loop.states, loop.torques], [*x, u], strict=True)))
            run = gn.compile([cost], [*x, u, loop.goal])
            (value,) = run(*found.states, found.torques, found.goals)
            assert value == pytest.approx(plan.cost.mean(), rel=1e-10)
            assert plan.settled.all()
            controlled = task.trajectories(*task.conditions(3))
            (worse,) = run(*controlled.states, controlled.torques, controlled.goals)
            assert plan.cost.mean() < worse


def test_invalid_arguments_are_rejected() -> None:
    def first(x: Node, *_: Node) -> Node:
        return x[:, 0]

    def plan(start: Any, commands: Array, *context: Any) -> Plan:
        return swing().plan(start, commands, *context)

    zero, at = np.zeros((20, 1, 1)), [[0.0, 0.0]]
    for make, names in (
        (lambda: ILQR(first, first, first, 2, 1), r"step must return .* \[2, 2\]"),
        (lambda: ILQR(lambda x, u: x, lambda x, u: x, first, 2, 1), "running must return"),
        (lambda: ILQR(lambda x, u: x, first, lambda x: 1.0, 2, 1), "final must return a node, not 1.0"),  # type: ignore[arg-type,return-value]
        (lambda: ILQR(None, first, first, 2, 1), "step must be a function"),  # type: ignore[arg-type]
        (lambda: plan([[0.0]], zero), r"start must be \(batch, 2\), not \[1, 1\]"),
        (lambda: plan(at, zero[:, :, 0]), r"commands must be \(time, 1, 1\), not \[20, 1\]"),
        (lambda: plan([[0.0, np.nan]], zero), "start must be finite"),
        (lambda: plan(at, zero, [[1.0]]), "context is given"),
        (lambda: plan(at, zero + 1e308), "movement 0 .* not finite"),
        (lambda: Linear.drawn().solver().plan(np.zeros((1, N)), np.zeros((2, 1, M))), "context is missing"),
        (lambda: optimum("reach"), "task must be one of rnn.control"),  # type: ignore[arg-type]
        (lambda: plan(at, zero).command(20, at), "t must be below 20"),
    ):  # fmt: skip
        with case(names), pytest.raises(GraphnetError, match=names):
            make()
