"""Three tasks for a controller of an arm: reaching from a center, holding a posture, and reaching through delay,
disturbances and noise. Source: Sutskever 2013, 6.3 and 6.7.

    task = CenterOut(Controller())
    objective = task.objective()        # fed with the task's conditions
    rnn.minimize(objective, rnn.Adam(), steps=500)
    task.trajectories(*task.conditions())

Costs are sums of squared errors of states and commands (`gn.squared_error`), so `gn.gauss_newton_product` and
`objective.curvature` are linearized there without `at`, and G is positive semi-definite.

The source does not specify the center, the radius of reaches, the strength of forces and noise, and the range of starts
and targets; these are settings here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.system.process import cached_property
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.control.arm import Arm
from graphnet_rnn.experiments.control.controller import ClosedLoop, Controller, Trajectories
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import amount, shown, whole_number

#: Hand in the middle of the workspace, in m from the shoulder: the default arm's elbow is bent by 90°.
CENTER = (0.02, 0.265)


class ControlTask(ABC):
    """Closed loop with a cost.

    loop: the ClosedLoop. cost: scalar node, the mean over movements. inputs, parameters: as for rnn.Objective.
    alpha, weights: the cost is ½ α Σ_t ‖u_t‖² + ½ Σ_t w_tᵀ (x_t - x*)², for w_0 ... w_T, (time + 1, 4); here those of a
    cost of x_T alone.
    seed, in methods: seed of the movements; 0 by default. how: more settings of Objective. arrays: for `inputs`.

    >>> task = rnn.control.CenterOut(rnn.control.Controller([rnn.Elman(3)]), directions=3, time=5)
    >>> isinstance(task, rnn.control.ControlTask), task.cost.shape
    (True, ())
    >>> objective = task.objective(backend="numpy")
    >>> objective.feed(*task.conditions(seed=1))
    >>> objective.loss(objective.start()) > 0, task.trajectories().states.shape
    (True, (6, 3, 4))
    """

    alpha: float
    loop: ClosedLoop
    cost: Node
    #: α / Δt
    _share: ClassVar[float]

    def _close(self, *loop: Any, **how: Any) -> None:
        self.loop = ClosedLoop(*loop, **how)
        self.alpha = self._share * self.loop.arm.dt
        with gn.scope(layer="cost"):
            self.cost = self._away() + self.alpha * self._mean(gn.squared_error(self.loop.torques, 0))

    def _away(self) -> Node:
        """½ Σ_t w_tᵀ (x_t - x*)², averaged over movements"""
        return self._mean(gn.squared_error(self.loop.states[-1], self.loop.goal))

    @property
    def weights(self) -> Array:
        weights = np.zeros((self.loop.time + 1, 4))
        weights[-1] = 1
        return weights

    @property
    def inputs(self) -> list[Node]:
        return self.loop.inputs

    @property
    def parameters(self) -> list[Node]:
        return list(self.loop.controller.parameters.values())

    @abstractmethod
    def conditions(self, seed: int = 0) -> list[Array]:
        """Arrays for `inputs`; the same for every seed in tasks with a fixed set of movements."""

    def objective(self, **how: Any) -> Objective:
        """Cost as an Objective, fed with `conditions()`.

        New movements: objective.feed(*task.conditions(seed)); new noise: objective.redraw().
        """
        how = {"parameters": self.parameters, **how}
        objective = Objective(self.cost, inputs=self.inputs, random=self.loop.random, **how)
        objective.feed(*self.conditions())
        return objective

    def trajectories(self, *arrays: Any) -> Trajectories:
        """Movements of the loop with these arrays for `inputs` (default: `conditions()`), with the current noise."""
        return Trajectories(*self._watch(*(arrays or self.conditions())))

    @cached_property
    def _watch(self) -> gn.Function:
        states = gn.stack(self.loop.states)
        outputs = [states, self.loop.arm.hand(states), self.loop.torques, self.loop.goal]
        return gn.compile(outputs, self.inputs)

    def _mean(self, losses: Node) -> Node:
        """½ Σ losses / batch"""
        return gn.sum(losses) * (0.5 / self.loop.batch)

    def _arrays(self, *arrays: Array) -> list[Array]:
        return [array.astype(self.loop.controller.dtype) for array in arrays]


class CenterOut(ControlTask):
    """C = ‖x_T - x*‖² / 2 + α Σ_t ‖u_t‖² / 2, α = 10⁻² Δt, 40 steps, no delay

    Reaches from the center to points on a circle around it, to be at rest there at time T. The norm is over angles
    (rad) and velocities (rad/s) alike.
    controller, arm: of the loop; Arm() by default. directions: number of reaches; 64 by default. radius: of the circle,
    in m; 0.06 by default. center: initial position of the hand, in m from the shoulder. time: steps, 40 by default.
    delay: steps, 0 by default.
    Source: Sutskever 2013, 6.3, 6.5 and 6.7.1 (64 reaches).

    >>> task = rnn.control.CenterOut(rnn.control.Controller([rnn.Elman(3)]), directions=3, time=5)
    >>> [array.shape for array in task.conditions()]
    [(3, 4), (3, 4)]
    """

    _share = 1e-2

    def __init__(
        self,
        controller: Controller,
        arm: Arm | None = None,
        directions: int = 64,
        radius: float = 0.06,
        center: Sequence[float] = CENTER,
        time: int = 40,
        delay: int = 0,
    ) -> None:
        arm = Arm() if arm is None else arm
        directions = whole_number("directions", directions)
        middle = place(center)
        self._starts = np.tile(arm.state_at(middle), (directions, 1))
        self._goals = arm.state_at(middle + amount("radius", radius) * compass(directions))
        self._close(controller, arm, time, directions, delay)

    def conditions(self, seed: int = 0) -> list[Array]:
        """Start, and one goal for each direction."""
        return self._arrays(self._starts, self._goals)


class Postural(ControlTask):
    """C = Σ_t ‖q_t - q*‖² / 2 + Σ_{t > T/2} ‖q̇_t‖² / 2 + α Σ_t ‖u_t‖² / 2, α = 10⁻⁶ Δt, 100 steps, delay of 10

    Holds the arm, x* = x_0, in each of 9 postures against each of 8 constant forces: 72 movements. The postures are the
    center and 8 points on a circle around it; forces pull at the hand in 8 directions. The sums are over x_1 ... x_T.
    controller, arm: of the loop; Arm() by default. radius: of the circle, in m; 0.08 by default. force: in N; 0.5 by
    default. center: in m from the shoulder. time: steps, 100 by default. delay: steps, 10 by default.
    Source: Sutskever 2013, 6.3 and 6.7.2.

    >>> task = rnn.control.Postural(rnn.control.Controller([rnn.Elman(3)]), time=4, delay=1)
    >>> [array.shape for array in task.conditions()]
    [(72, 4), (72, 4), (4, 72, 2)]
    """

    _share = 1e-6

    def __init__(
        self,
        controller: Controller,
        arm: Arm | None = None,
        radius: float = 0.08,
        force: float = 0.5,
        center: Sequence[float] = CENTER,
        time: int = 100,
        delay: int = 10,
    ) -> None:
        arm = Arm() if arm is None else arm
        middle = place(center)
        places = np.vstack([middle, middle + amount("radius", radius) * compass(8)])
        forces = amount("force", force) * compass(8)
        self._starts = np.repeat(arm.state_at(places), len(forces), axis=0)
        self._forces = np.tile(forces, (len(places), 1))
        self._close(controller, arm, time, len(self._starts), delay, disturbance="forces")

    def _away(self) -> Node:
        states = gn.stack(self.loop.states[1:])
        away = self._mean(gn.squared_error(states[..., :2], self.loop.goal[:, :2]))
        return away + self._mean(
            gn.squared_error(states[self.loop.time // 2 :, :, 2:], self.loop.goal[:, 2:])
        )

    @property
    def weights(self) -> Array:
        weights = np.zeros((self.loop.time + 1, 4))
        weights[1:, :2] = 1
        weights[1 + self.loop.time // 2 :, 2:] = 1
        return weights

    def conditions(self, seed: int = 0) -> list[Array]:
        """Starts, equal goals, and constant forces."""
        forces = np.broadcast_to(self._forces, (self.loop.time, *self._forces.shape))
        return self._arrays(self._starts, self._starts, forces)


class DelayDisturbanceNoise(ControlTask):
    """C = ‖x_T - x*‖² / 2 + α Σ_t ‖u_t‖² / 2, α = 10⁻⁴ Δt, 60 steps, delay of 7, disturbances and noise (DDN)

    Movements between random positions: the hand is uniform in a disc around the center. A torque ~ N(0, disturbance²)
    at each joint begins at a random step of the first half and stays. Commands have multiplicative noise.
    controller, arm: of the loop; Arm() by default. batch: number of movements; 400 by default. radius: of the disc, in
    m; 0.09 by default. disturbance: standard deviation of torques, in N m; 0.2 by default. noise: share of commands;
    0.1 by default. center: in m from the shoulder. time: steps, 60 by default. delay: steps, 7 by default. random,
    plant_noise: see ClosedLoop.
    (The source's "Normal(0, 0.2)" is read as a standard deviation.) Source: Sutskever 2013, 6.3 and 6.7.3.

    >>> task = rnn.control.DelayDisturbanceNoise(rnn.control.Controller([rnn.Elman(3)]), batch=2, time=4, delay=1)
    >>> [array.shape for array in task.conditions(seed=1)]
    [(2, 4), (2, 4), (4, 2, 2)]
    """

    _share = 1e-4

    def __init__(
        self,
        controller: Controller,
        arm: Arm | None = None,
        batch: int = 400,
        radius: float = 0.09,
        disturbance: float = 0.2,
        noise: float = 0.1,
        center: Sequence[float] = CENTER,
        time: int = 60,
        delay: int = 7,
        random: gn.RandomSource | None = None,
        plant_noise: float | Sequence[float] = 0.0,
    ) -> None:
        arm = Arm() if arm is None else arm
        self._middle, self._radius = place(center), amount("radius", radius)
        self._disturbance = amount("disturbance", disturbance)
        # Raises an error now if the place is out of reach.
        arm.state_at(self._middle + self._radius * compass(64))
        self._close(controller, arm, time, batch, delay, noise, "torques", random, plant_noise)

    def conditions(self, seed: int = 0) -> list[Array]:
        """Starts, goals and disturbances, drawn with the seed."""
        generator = np.random.default_rng(whole_number("seed", seed, least=0))
        time, batch = self.loop.time, self.loop.batch
        starts, goals = (self._somewhere(generator, batch) for _ in range(2))
        onset = generator.integers(0, max(1, time // 2), batch)
        torques = self._disturbance * generator.standard_normal((batch, 2))
        active = np.arange(time)[:, None] >= onset
        return self._arrays(starts, goals, active[:, :, None] * torques)

    def _somewhere(self, generator: np.random.Generator, batch: int) -> Array:
        distance = self._radius * np.sqrt(generator.random(batch))  # the root makes it uniform over the area
        angle = 2 * math.pi * generator.random(batch)
        offset = distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return self.loop.arm.state_at(self._middle + offset)


# -- places ----------------------------------------------------------------------------------


def place(center: Sequence[float]) -> Array:
    """Center as an array; raises UsageError unless it is a point in the plane."""
    at = np.asarray(center, np.float64)
    if at.shape != (2,) or not np.isfinite(at).all():
        raise UsageError(f"center must be a place of the hand, two numbers in m, not {shown(center)}")
    return at


def compass(directions: int) -> Array:
    """Unit vectors in evenly spaced directions, (directions, 2)."""
    angles = 2 * math.pi * np.arange(directions) / directions
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
