"""iLQR: commands of minimum cost for a plant of nodes.

    minimize over u_0 ... u_{T-1}   J = Σ_{t<T} ℓ(x_t, u_t, c_t) + ℓ_T(x_T, c_T),   x_{t+1} = f(x_t, u_t, c_t)

Each iteration linearizes the plant along the current trajectory, solves the resulting linear-quadratic problem by
dynamic programming (`riccati`), and tries the result on the plant with smaller and smaller steps. Many movements are
planned in parallel; each has its own step size and regularization.
Source: Li & Todorov 2004; Tassa, Erez & Todorov 2012 (improved value update, regularization, line search).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.control.plant import LinearisedPlant, Plant
from graphnet_rnn.experiments.control.riccati import Feedback, riccati
from graphnet_rnn.settings import amount, whole_number

#: α of the line search, and the minimum share of the predicted reduction (Tassa et al. 2012, 2.B and F).
STEPS = tuple(10 ** (-3 * i / 10) for i in range(11))
LEAST_SHARE = 1e-4
#: μ, the regularization: growth, minimum above 0, and maximum, at which a movement is given up.
GROWTH, LEAST, MOST = 2.0, 1e-6, 1e10
#: Maximum μ at which the predicted reduction indicates convergence.
SLIGHT = 1e-5


@dataclass(frozen=True, eq=False)
class Plan:
    """Solution of iLQR for each movement: u = û_t + K_t (x - x̂_t), and V_t(x) ≈ V + V_xᵀ δ + ½ δᵀ V_xx δ, δ = x - x̂_t

    states        x̂_0 ... x̂_T, (time + 1, batch, n)
    commands      û_0 ... û_{T-1}, (time, batch, m)
    gains         K_t, (time, batch, m, n)
    values        V, the cost from t on, (time + 1, batch); `cost` is the first of them
    slopes        V_x, (time + 1, batch, n)
    curvatures    V_xx, (time + 1, batch, n, n)
    settled       True for converged movements, (batch,)
    costs         mean cost before the first iteration and after each
    rollouts, linearisations    numbers of simulations and linearizations of all movements

    >>> solver = rnn.control.ILQR(
    ...     lambda x, u: x + u,
    ...     lambda x, u: 0.5 * gn.sum(u * u, axis=1),
    ...     lambda x: 0.5 * gn.sum(x * x, axis=1),
    ...     states=1, commands=1,
    ... )
    >>> plan = solver.plan(np.ones((1, 1)), np.zeros((3, 1, 1)))
    >>> plan.cost.round(3).tolist(), plan.states[:, 0, 0].round(2).tolist()
    ([0.125], [1.0, 0.75, 0.5, 0.25])
    >>> np.allclose(plan.command(0, plan.states[0]), plan.commands[0])
    True
    """

    states: Array
    commands: Array
    gains: Array
    values: Array
    slopes: Array
    curvatures: Array
    settled: Array
    costs: list[float]
    rollouts: int
    linearisations: int

    @property
    def cost(self) -> Array:
        """J of each movement, (batch,)."""
        return self.values[0]

    def command(self, t: int, state: Any) -> Array:
        """û_t + K_t (x - x̂_t): command at step t for states x (batch, n), also off the plan; `state` holds x."""
        t = whole_number("Plan.command: t", t, least=0)
        if t >= len(self.commands):
            raise UsageError(
                f"Plan.command: t must be below {len(self.commands)}, the steps planned, not {t}"
            )
        x = np.asarray(state, np.float64)
        if x.shape != self.states[t].shape:
            raise UsageError(f"Plan.command: state must be {list(self.states[t].shape)}, not {list(x.shape)}")
        return self.commands[t] + np.einsum("bij,bj->bi", self.gains[t], x - self.states[t])

    def __repr__(self) -> str:
        time, batch, _ = self.commands.shape
        return (
            f"Plan({batch} movements of {time} steps: mean cost {self.cost.mean():.6g} after {len(self.costs) - 1} "
            f"iterations, {int(self.settled.sum())} settled)"
        )


@dataclass
class _Run:
    """Trajectory of each movement and its costs ℓ_0 ... ℓ_T."""

    states: Array
    commands: Array
    costs: Array

    @property
    def total(self) -> Array:
        return np.asarray(self.costs.sum(axis=0))

    def take(self, other: _Run, where: Array) -> None:
        for mine, its in zip(vars(self).values(), vars(other).values(), strict=True):
            mine[:, where] = its[:, where]


class ILQR:
    """min_u Σ_{t<T} ℓ(x_t, u_t, c_t) + ℓ_T(x_T, c_T) under x_{t+1} = f(x_t, u_t, c_t), for many movements at once

    step: f, of nodes x (rows, states), u (rows, commands) and, if `context` > 0, c (rows, context), to (rows, states).
    running: ℓ, of the same, to (rows,). final: ℓ_T, of x (and c), to (rows,). Rows must be independent of each other.
    states, commands: widths of x and u. context: width of c_t, the data of a movement, such as its goal, a disturbance,
    a weight of time; 0 by default. iterations: maximum number of iterations; 500 by default. tolerance: a movement has
    converged if the predicted reduction is less than this share of J; 1e-9 by default. threads: maximum number of
    threads; all cores by default.
    Derivatives come from the engine, in float64; f is differentiated once, unlike in differential dynamic programming.
    Raises UsageError for equations of other shapes.

        arm = rnn.control.Arm()
        solver = rnn.control.ILQR(
            lambda x, u, c: arm.step(x, u),
            lambda x, u, c: 5e-5 * gn.sum(u * u, axis=1),
            lambda x, c: 0.5 * gn.sum((x - c) ** 2, axis=1),
            states=4, commands=2, context=4,
        )
        plan = solver.plan(starts, np.zeros((40, len(starts), 2)), goals)

    Source: Li & Todorov 2004; Tassa, Erez & Todorov 2012.

    >>> solver = rnn.control.ILQR(
    ...     lambda x, u: x + u,
    ...     lambda x, u: 0.5 * gn.sum(u * u, axis=1),
    ...     lambda x: 0.5 * gn.sum(x * x, axis=1),
    ...     states=1, commands=1,
    ... )
    >>> solver.plan(np.ones((1, 1)), np.zeros((3, 1, 1))).commands[:, 0, 0].round(2).tolist()
    [-0.25, -0.25, -0.25]
    """

    def __init__(
        self,
        step: Callable[..., Node],
        running: Callable[..., Node],
        final: Callable[..., Node],
        states: int,
        commands: int,
        context: int = 0,
        iterations: int = 500,
        tolerance: float = 1e-9,
        threads: int | None = None,
    ) -> None:
        self.plant = Plant(step, running, final, states, commands, context, threads)
        self.iterations = whole_number("ILQR: iterations", iterations)
        self.tolerance = amount("ILQR: tolerance", tolerance)

    def plan(self, start: Any, commands: Any, context: Any = None) -> Plan:
        """Best trajectories near an initial guess.

        start: x_0, (batch, states). commands: the guess, (time, batch, commands). context: c, (time + 1, batch,
        context), or (batch, context) if it is constant; None (default) for none.
        Raises UsageError for arrays of other shapes, and for a guess under which a state or a cost is not finite.
        """
        x0, guess, c = self.plant.arrays(start, commands, context)
        run = self._roll_out(x0, guess, c)
        self._require_finite(run)
        batch = len(x0)
        mu, growth = np.zeros(batch), np.ones(batch)
        settled, costs = np.zeros(batch, bool), [float(run.total.mean())]
        rollouts, feedback, linearisations = 1, None, 0
        for _ in range(self.iterations):
            linear = self.plant.linearised(run.states, run.commands, c)
            linearisations += 1
            feedback = riccati(linear, mu)
            promise = feedback.promise(np.ones(batch))
            settled |= feedback.sound & (mu < SLIGHT) & (promise <= self.tolerance * np.abs(run.total))
            active = ~settled & (mu <= MOST)
            if not active.any():
                return self._finished(run, linear, mu, settled, costs, rollouts, linearisations)
            taken, tried = self._searched(run, feedback, active & feedback.sound, x0, c)
            rollouts += tried
            _regularise(mu, growth, taken, active)
            costs.append(float(run.total.mean()))
        linear = self.plant.linearised(run.states, run.commands, c)
        return self._finished(run, linear, mu, settled, costs, rollouts, linearisations + 1)

    def _searched(
        self, run: _Run, feedback: Feedback, looking: Array, x0: Array, c: Array | None
    ) -> tuple[Array, int]:
        """Line search for each movement; returns a mask of movements that took a step, and the number of rollouts."""
        taken, tried, before = np.zeros_like(looking), 0, run.total
        old = _Run(run.states.copy(), run.commands.copy(), run.costs.copy())
        for alpha in STEPS:
            if not looking.any():
                break
            new = self._roll_out(x0, old.commands, c, old.states, feedback, alpha)
            tried += 1
            promise = feedback.promise(np.full(len(x0), alpha))
            good = looking & (promise > 0) & (before - new.total >= LEAST_SHARE * promise)
            good &= np.isfinite(new.states).all(axis=(0, 2))
            run.take(new, good)
            taken |= good
            looking = looking & ~good
        return taken, tried

    def _roll_out(
        self, x0: Array, commands: Array, c: Array | None, states: Array | None = None,
        feedback: Feedback | None = None, alpha: float = 0.0,
    ) -> _Run:  # fmt: skip
        """Simulates the commands û_t, or û_t + α k_t + K_t (x_t - x̂_t), on the plant."""
        time, batch, _ = commands.shape
        x, u, costs = np.empty((time + 1, *x0.shape)), np.empty_like(commands), np.empty((time + 1, batch))
        x[0] = x0
        for t in range(time):
            u[t] = commands[t]
            if feedback is not None and states is not None:
                u[t] += alpha * feedback.offsets[t]
                u[t] += np.einsum("bij,bj->bi", feedback.gains[t], x[t] - states[t])
            x[t + 1], costs[t] = self.plant.step(x[t], u[t], None if c is None else c[t])
        costs[time] = self.plant.final(x[time], None if c is None else c[time])
        return _Run(x, u, costs)

    def _require_finite(self, run: _Run) -> None:
        finite = np.isfinite(run.states).all(axis=2) & np.isfinite(run.costs)
        if not finite.all():
            t, movement = (int(i) for i in np.argwhere(~finite)[0])
            raise UsageError(
                f"ILQR.plan: with these commands, movement {movement} has a state or a cost that is not finite at "
                f"step {t} ({run.states[t, movement].tolist()}); use smaller commands"
            )

    def _finished(
        self, run: _Run, linear: LinearisedPlant, mu: Array, settled: Array, costs: list[float],
        rollouts: int, linearisations: int,
    ) -> Plan:  # fmt: skip
        feedback = riccati(linear, mu)
        values = np.cumsum(run.costs[::-1], axis=0)[::-1].copy()
        return Plan(
            run.states, run.commands, feedback.gains, values, feedback.slopes, feedback.curvatures, settled, costs,
            rollouts, linearisations,
        )  # fmt: skip


def _regularise(mu: Array, growth: Array, taken: Array, active: Array) -> None:
    """Lowers μ, faster each time, after steps, and raises μ otherwise (Tassa et al. 2012, 2.F)."""
    up, down = active & ~taken, active & taken
    growth[up] = np.maximum(GROWTH, growth[up] * GROWTH)
    mu[up] = np.maximum(LEAST, mu[up] * growth[up])
    growth[down] = np.minimum(1 / GROWTH, growth[down] / GROWTH)
    fallen = mu[down] * growth[down]
    mu[down] = np.where(fallen >= LEAST, fallen, 0.0)
