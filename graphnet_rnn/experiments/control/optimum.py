"""Minimum cost of a control task: iLQR on each of its movements, with known disturbances."""

from __future__ import annotations

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.control.controller import Trajectories
from graphnet_rnn.experiments.control.ilqr import ILQR, Plan
from graphnet_rnn.experiments.control.tasks import ControlTask
from graphnet_rnn.settings import shown


def optimum(task: ControlTask, seed: int = 0, tolerance: float = 1e-9) -> Plan:
    """min_u ½ α Σ_t ‖u_t‖² + ½ Σ_t w_tᵀ (x_t - x*)² for each movement of `task.conditions(seed)`, by iLQR

    task: task of rnn.control. seed: seed of its movements; 0 by default. tolerance: see ILQR; 1e-9 by default.
    The plan knows the disturbance from the first step on, has no delay and no noise. A controller can reach this cost
    in reaching (CenterOut); for other tasks it is a lower bound. Iterations begin with commands that hold the arm
    still.
    Raises UsageError for other objects.
    Source: Sutskever 2013, 6.7.1 (the line of figure 6.2).

    >>> task = rnn.control.CenterOut(rnn.control.Controller([rnn.Elman(3)]), directions=3, time=5)
    >>> rnn.control.optimum(task).cost.shape
    (3,)
    """
    if not isinstance(task, ControlTask):
        raise UsageError(f"optimum: task must be one of rnn.control, not {shown(task)}")
    loop, arm = task.loop, task.loop.arm
    start, goal, *pushes = (np.asarray(array, np.float64) for array in task.conditions(seed))
    push = pushes[0] if pushes else np.zeros((loop.time, loop.batch, 2))

    def felt(x: Node, c: Node) -> Node:
        d = c[:, 4:6]
        return arm.torques_of(d, x) if loop.disturbance == "forces" else d

    def away(x: Node, c: Node) -> Node:
        return 0.5 * gn.sum(c[:, 6:] * gn.squared_error(x, c[:, :4]), axis=1)

    solver = ILQR(
        lambda x, u, c: arm.step(x, u + felt(x, c)),
        lambda x, u, c: away(x, c) + 0.5 * task.alpha * gn.sum(gn.squared_error(u, 0), axis=1),
        away,
        states=4, commands=2, context=10, tolerance=tolerance,
    )  # fmt: skip
    context = _context(goal, push, task.weights)
    x, c = gn.input(start.shape, "float64"), gn.input(context.shape[1:], "float64")
    holding = gn.compile([-felt(x, c)], [x, c])
    return solver.plan(start, np.stack([holding(start, now)[0] for now in context[:-1]]), context)


def _context(goal: Array, push: Array, weights: Array) -> Array:
    """[x*, d_t, w_t], (time + 1, batch, 10), with d_T = 0."""
    time, batch = len(push), len(goal)
    every = (time + 1, batch, 4)
    pushes = np.concatenate([push, np.zeros_like(push[:1])])
    return np.concatenate(
        [np.broadcast_to(goal, every), pushes, np.broadcast_to(weights[:, None], every)], axis=2
    )


def planned(task: ControlTask, plan: Plan, seed: int = 0) -> Trajectories:
    """Plan as trajectories, for pictures and comparisons.

    task: task of the plan. plan: result of `optimum`. seed: seed of the movements, as for `optimum`; 0 by default.

    >>> task = rnn.control.CenterOut(rnn.control.Controller([rnn.Elman(3)]), directions=3, time=5)
    >>> rnn.control.planned(task, rnn.control.optimum(task)).hands.shape
    (6, 3, 2)
    """
    node = gn.input(plan.states.shape, "float64")
    (hands,) = gn.compile([task.loop.arm.hand(node)], [node])(plan.states)
    return Trajectories(plan.states, hands, plan.commands, np.asarray(task.conditions(seed)[1], np.float64))
