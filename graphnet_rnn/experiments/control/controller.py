"""Recurrent controller, and the closed loop with an arm.

    x_{t+1} = f(x_t, u_t ⊙ (1 + ξᵘ_t) + d_t) + ξᶠ_t      ξ ~ N(0, σ²), constant until redrawn
    v_t = [x_{t-delay}; x*]
    h¹_t = cell₁(v_t, h¹_{t-1})        h^l_t = cell_l([h^{l-1}_t; v_t], h^l_{t-1})
    u_t = h^L_t W_hu + b_u             (or the tanh of it)

Source: Sutskever 2013, 6.4 and 6.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.graph.provenance import hide_module
from graphnet_rnn.cell.cell import Cell, title_of
from graphnet_rnn.cell.initializers import Initializer, checked_initial, glorot, normal
from graphnet_rnn.cell.weights import Weights
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.control.arm import Arm
from graphnet_rnn.model import Model, float_dtype, seed_of
from graphnet_rnn.optimizers.structure import hidden_units
from graphnet_rnn.settings import MANY, amount, one_of, shown, whole_number

hide_module(__file__)

#: A state is [θ, φ, θ̇, φ̇], and the controller reads a state and a goal.
STATE, TORQUES = 4, 2


def remembering(units: int) -> Elman:
    """Elman layer whose initial states do not decay, as control loops need."""
    return Elman(units, initial={"W_hh": glorot()})


class Controller(Model):
    """u_t, h_t = controller(v_t, h_{t-1}): stacked cells that all read v_t; the last one outputs the torques u_t.

    v_t = [x_{t-delay}; x*] is (batch, 8).
    layers: cells, first to last; by default two Elman layers of 100 tanh units. output: "linear" (default) or "tanh".
    Sutskever's problem statement (6.5) has u = tanh(...), for a one-layer example; the details of the network (6.4)
    have "two linear output units". seed: seed of the weights; 0 by default. dtype: type of the weights; float32 by
    default. initial: initializers by name for W_hu and b_u, as in a cell. By default W_hu ~ N(0, 0.01²), so that an
    untrained controller moves the arm little: torques of 1 N m would make the forearm spin. values: all weights by
    name, instead of initializers; None by default.
    theta: all parameters as one flat vector, shared with `parameters[...].value`. states, in methods: of all layers. v:
    v_t.
    Raises UsageError for settings that do not fit, CellError for an unsound cell.
    Source: Sutskever 2013, 6.4 and 6.5.

    >>> controller = rnn.control.Controller([rnn.Elman(3)])
    >>> controller.theta.shape
    (44,)
    >>> v = gn.input((2, 8), name="v")
    >>> u, states = controller.step(v, controller.zero_states(batch=2))
    >>> u.shape, [node.shape for node in states[0]]
    ((2, 2), [(2, 3)])
    """

    def __init__(
        self,
        layers: Sequence[Cell] | None = None,
        output: str = "linear",
        seed: int = 0,
        dtype: Any = "float32",
        initial: Mapping[str, Initializer] | None = None,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        if layers is None:
            layers = [remembering(100), remembering(100)]
        cells = list(layers) if isinstance(layers, Iterable) else [layers]
        if not cells or not all(isinstance(cell, Cell) for cell in cells):
            raise UsageError(f"Controller: layers must be cells, e.g. [rnn.Elman(100)], not {shown(layers)}")
        for cell in cells:
            if not cell.causal:
                raise UsageError(
                    f"Controller: {shown(cell, MANY)} reads future inputs, which a controller does not have"
                )
        self.output = one_of("Controller: output", output, ("linear", "tanh"))
        self.seed, self.dtype = seed_of("Controller", seed), float_dtype("Controller", dtype)
        self.layers: list[Cell] = []
        for l, cell in enumerate(cells):
            width = STATE + STATE + (self.layers[-1].output_width if l else 0)
            self.layers.append(cell.bind(width, f"layer{l}", self.seed, self.dtype, values))
        self._own = Weights("output", self.seed, self.dtype, checked_initial("Controller", initial), values)
        self._own.get("W_hu", (self.layers[-1].output_width, TORQUES), normal(0.01))
        self._own.get("b_u", (TORQUES,), None)
        self._own.require_patterns("Controller")
        groups = [cell.bound_weights for cell in self.layers]
        self.lay_out([*(w for w in groups if isinstance(w, Weights)), self._own], self.dtype)

    def zero_states(self, batch: int) -> list[tuple[Node, ...]]:
        """Zero states before the first step, layer by layer."""
        return [
            tuple(gn.fill(0, (batch, width), self.dtype) for width in cell.widths) for cell in self.layers
        ]

    def step(self, v: Node, states: Sequence[tuple[Node, ...]]) -> tuple[Node, list[tuple[Node, ...]]]:
        """u_t, (batch, 2), and the new states, from v_t, (batch, 8), and the old states."""
        new: list[tuple[Node, ...]] = []
        below = v
        for l, (cell, old) in enumerate(zip(self.layers, states, strict=True)):
            with gn.scope(layer=f"layer{l}", cell=title_of(cell)):
                x = gn.concatenate([below, v], axis=1) if l else v
                below, after = cell.advance(x, old)
                new.append(after)
        with gn.scope(layer="output"):
            u = below @ self._own.nodes["W_hu"] + self._own.nodes["b_u"]
            return gn.tanh(u) if self.output == "tanh" else u, new

    def __graph__(self) -> gn.Graph:
        """Graph of one step, for pictures."""
        v = gn.input((1, 2 * STATE), self.dtype, name="v_t")
        states = [
            tuple(
                gn.input((1, n), self.dtype, name=f"{s.name}{l}_t−1")
                for s, n in zip(cell.states, cell.widths, strict=True)
            )
            for l, cell in enumerate(self.layers)
        ]
        u, after = self.step(v, states)
        labels = [gn.label(u, "u_t")]
        for l, (cell, nodes) in enumerate(zip(self.layers, after, strict=True)):
            labels += [gn.label(node, f"{s.name}{l}_t") for s, node in zip(cell.states, nodes, strict=True)]
        return gn.Graph(labels, [v, *(node for layer in states for node in layer)])

    def __repr__(self) -> str:
        return f"Controller({self.layers!r}, output={self.output!r}): {self.theta.size:,} parameters"


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Movements of a closed loop, as arrays.

    states   x_0 ... x_T, (time + 1, batch, 4)
    hands    positions of the hand, (time + 1, batch, 2) in m
    torques  commands u_0 ... u_{T-1}, (time, batch, 2) in N m
    goals    x*, (batch, 4)

    >>> task = rnn.control.CenterOut(rnn.control.Controller([rnn.Elman(3)]), directions=3, time=5)
    >>> task.trajectories().hands.shape
    (6, 3, 2)
    """

    states: Array
    hands: Array
    torques: Array
    goals: Array


class ClosedLoop:
    """Controller and arm over `time` steps of `batch` movements, as nodes.

    controller, arm: the two. time: number of steps. batch: number of movements. delay: the controller reads
    x_{t-delay}, and x_0 before that, as the arm has been at rest; 0 by default. noise: σ of the multiplicative noise ξᵘ
    of commands; 0 by default. disturbance: "none" (default); "torques": d_t are torques at the joints in N m; "forces":
    d_t = J(x_t)ᵀ F_t for forces F_t at the hand in N. random: gn.RandomSource of the noise; `random.redraw()` draws new
    noise; None by default. plant_noise: σ of the noise ξᶠ of the state at each step, a number, or one for each of [θ,
    φ, θ̇, φ̇] (rad, rad/s); 0 by default.

    start, goal    Inputs (batch, 4): x_0 and x*
    disturbances   Input (time, batch, 2), or None
    inputs         those of the three that exist, in this order
    states         x_0 ... x_T, a list of nodes (batch, 4)
    torques        u_0 ... u_{T-1}, (time, batch, 2)
    structure      (a, h = e(a)) for each tanh and σ of the controller's cells, see rnn.Objective

    Raises UsageError for settings that do not fit.
    Source: Sutskever 2013, 6.5.

    >>> loop = rnn.control.ClosedLoop(rnn.control.Controller([rnn.Elman(3)]), rnn.control.Arm(), time=5, batch=2)
    >>> len(loop.states), loop.torques.shape
    (6, (5, 2, 2))
    """

    def __init__(
        self,
        controller: Controller,
        arm: Arm,
        time: int,
        batch: int,
        delay: int = 0,
        noise: float = 0.0,
        disturbance: str = "none",
        random: gn.RandomSource | None = None,
        plant_noise: float | Sequence[float] = 0.0,
    ) -> None:
        if not isinstance(controller, Controller) or not isinstance(arm, Arm):
            raise UsageError(
                f"ClosedLoop needs a Controller and an Arm, not {shown(controller, 40)} and {shown(arm, 40)}"
            )
        self.controller, self.arm = controller, arm
        self.time, self.batch = whole_number("time", time), whole_number("batch", batch)
        self.delay = whole_number("delay", delay, least=0)
        self.noise, self.plant_noise = amount("noise", noise), _of_state("plant_noise", plant_noise)
        self.disturbance = one_of("disturbance", disturbance, ("none", "torques", "forces"))
        self.random = gn.RandomSource(controller.seed) if random is None else random
        dtype = controller.dtype
        self.start = gn.input((self.batch, STATE), dtype, name="x_0")
        self.goal = gn.input((self.batch, STATE), dtype, name="x*")
        self.disturbances: Node | None = None
        if self.disturbance != "none":
            self.disturbances = gn.input((self.time, self.batch, TORQUES), dtype, name="d")
        self.inputs = [node for node in (self.start, self.goal, self.disturbances) if node is not None]
        self._close()

    def _close(self) -> None:
        self.states = [self.start]
        memory = self.controller.zero_states(self.batch)
        commands = []
        for t in range(self.time):
            with gn.scope(time=t + 1):
                seen = self.states[max(0, t - self.delay)]
                u, memory = self.controller.step(gn.concatenate([seen, self.goal], axis=1), memory)
                commands.append(u)
                with gn.scope(layer="arm"):
                    self.states.append(self._moved(t, u))
        self.torques = gn.stack(commands)

    @property
    def structure(self) -> list[tuple[Node, Node]]:
        """(a, h = e(a)) for each hidden unit of the controller, at each step."""
        return hidden_units([*self.states, self.torques])

    def _moved(self, t: int, u: Node) -> Node:
        """x_{t+1}"""
        after = self.arm.step(self.states[t], self._acting(t, u))
        if not any(self.plant_noise):
            return after
        drawn = self.random.normal(1.0, after.shape, after.dtype, name=f"ξᶠ_{t}")
        return after + drawn * gn.constant(np.array(self.plant_noise, after.dtype))

    def _acting(self, t: int, u: Node) -> Node:
        """u_t ⊙ (1 + ξᵘ_t) + d_t"""
        if self.noise:
            u = u * (1 + self.random.normal(self.noise, u.shape, u.dtype, name=f"ξᵘ_{t}"))
        if self.disturbances is None:
            return u
        d = self.disturbances[t]
        return u + (self.arm.torques_of(d, self.states[t]) if self.disturbance == "forces" else d)

    def __repr__(self) -> str:
        return f"<{self.controller!r} in a loop of {self.time} steps, {self.batch} movements, delay {self.delay}>"


def _of_state(argument: str, given: float | Sequence[float]) -> tuple[float, ...]:
    if not isinstance(given, (Sequence, np.ndarray)) or isinstance(given, str) or np.ndim(given) == 0:
        return (amount(argument, given),) * STATE
    if len(given) != STATE:
        raise UsageError(
            f"{argument} must be a number, or one for each of [θ, φ, θ̇, φ̇], not {len(given)}: {shown(given)}"
        )
    return tuple(amount(argument, value) for value in given)
