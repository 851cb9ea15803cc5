"""What a control task costs at least: iLQR on each of its movements, by one who knows what will push."""

from __future__ import annotations

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.control.controller import Trajectories
from graphnet_rnn.experiments.control.ilqr import ILQR, Plan
from graphnet_rnn.experiments.control.tasks import ControlTask

__all__ = ["optimum", "planned"]


def optimum(task: ControlTask, seed: int = 0, tolerance: float = 1e-9) -> Plan:
    """min_u ½ α Σ_t ‖u_t‖² + ½ Σ_t w_tᵀ (x_t - x*)² for each movement of `task.conditions(seed)`, by iLQR

    The plan knows its movement's disturbance from the first step on, sees without delay, and has no noise: for reaching
    (CenterOut) this is what a controller can come to, for the other tasks a bound that none can. From commands that
    hold the arm at its start. tolerance: see ILQR.
    Raises UsageError for what is no control task.
    Source: Sutskever 2013, 6.7.1 (the line of figure 6.2).
    """
    if not isinstance(task, ControlTask):
        raise UsageError(f"optimum: task must be one of rnn.control, not {task!r:.60}")
    loop, arm = task.loop, task.loop.arm
    start, goal, *pushes = (np.asarray(array, np.float64) for array in task.conditions(seed))
    push = pushes[0] if pushes else np.zeros((loop.time, loop.batch, 2))

    def felt(x: Node, c: Node) -> Node:
        """The torques of the disturbance."""
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
    """[x*, d_t, w_t], (time + 1, batch, 10); nothing pushes after the last step."""
    time, batch = len(push), len(goal)
    every = (time + 1, batch, 4)
    pushes = np.concatenate([push, np.zeros_like(push[:1])])
    return np.concatenate(
        [np.broadcast_to(goal, every), pushes, np.broadcast_to(weights[:, None], every)], axis=2
    )


def planned(task: ControlTask, plan: Plan, seed: int = 0) -> Trajectories:
    """A plan as the trajectories that a loop would show, for pictures and comparisons."""
    node = gn.input(plan.states.shape, "float64")
    (hands,) = gn.compile([task.loop.arm.hand(node)], [node])(plan.states)
    return Trajectories(plan.states, hands, plan.commands, np.asarray(task.conditions(seed)[1], np.float64))
