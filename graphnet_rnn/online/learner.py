"""Learner: reads a network one time step at a time and returns the gradient of each step's loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Array, Node
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network, require_network
from graphnet_rnn.network.running import array_of, arrays_of_states, checked_floats, checked_symbols
from graphnet_rnn.network.unroll import Unrolled
from graphnet_rnn.settings import whole_number


class Learner(ABC):
    """Reads x_t and the target, and returns loss_t and ∂loss_t/∂θ; memory does not grow with time.

    network: any causal network with a loss of each time step. batch: number of sequences, each in its own run of the
    compiled step. backend, threads: see gn.compile.
    states: after the last step, one array (batch, width) for each state of each layer.
    outputs: o_t of the last step, before the loss's nonlinearity, (batch, outputs); None before the first.
    The network's weights may change between any two steps. Stored derivatives then mix old and new weights, as in all
    online learning.
    Dropout: new masks for each step and sequence; with `variational`, masks last from one reset to the next, for all
    sequences.
    Raises UsageError for a network with a layer that reads later inputs, or a loss of whole sequences.

    >>> network = rnn.Network([rnn.Elman(3)], inputs=4, outputs=4)
    >>> learner = rnn.online.RTRL(network, batch=2, backend="numpy")  # a subclass of Learner
    >>> loss, gradient = learner.step([1, 3], targets=[2, 0])
    >>> learner.reset()  # the next step begins new sequences
    >>> sorted(learner.remembered())
    ['past.000', 'past.001', 'state.000']
    >>> arrays = learner.remembered()
    >>> loss, _ = learner.step([1, 3], targets=[2, 0])
    >>> learner.recall(arrays)
    >>> learner.step([1, 3], targets=[2, 0])[0] == loss
    True
    """

    def __init__(
        self, network: Network, batch: int = 1, backend: str = "numba", threads: int | None = None
    ) -> None:
        name = type(self).__name__
        require_network(name, network).require_causal(name)
        network.require_losses_of_steps(name)
        network.require_finite(name)
        self.network, self.batch = network, whole_number(f"{name}: batch", batch)
        self.how: dict[str, Any] = {"backend": backend, "threads": threads}
        self._random = gn.RandomSource(network.seed)
        u = self._read_by().unroll(1, 1, random=self._random)
        self._start = self._remembered_at_start(u)
        shape = self._start.shape
        # A graph cannot hold an array without elements; then nothing is stored.
        self._memory = [gn.input(shape, network.dtype, name="past")] if self._start.size else []
        gradient, memory = self._derivatives(u, gn.sum(u.losses), self._memory)
        self._function = gn.compile(
            [gn.sum(u.losses), u.logits, gradient, *memory, *u.final],
            [u.inputs, u.targets, *self._memory, *u.initial],
            **self.how,
        )
        self.reset()

    # -- defined by subclasses -----------------------------------------------------------------

    def _read_by(self) -> Network:
        return self.network

    @abstractmethod
    def _remembered_at_start(self, u: Unrolled) -> Array:
        """Derivatives of the past at the start of a sequence; an empty array if there are none."""

    @abstractmethod
    def _derivatives(self, u: Unrolled, loss: Node, memory: Sequence[Node]) -> tuple[Node, list[Node]]:
        """∂loss/∂θ as one vector, and the derivatives to store after the step, for one step of one sequence."""

    # -- running -------------------------------------------------------------------------------

    def reset(self, states: Sequence[Array] | None = None) -> None:
        """Starts all sequences anew.

        states: initial states, one array (batch, width) each, constant for the gradient; by default zeros, or the
        learned states, whose parameters the gradient includes.
        Raises DataError for states of other shapes.
        """
        start = [self._start if states is None else np.zeros_like(self._start)] if self._memory else []
        self.states = self.network.first_states(self.batch) if states is None else self._checked(states)
        self.outputs: Array | None = None
        self._remembered: list[list[Array]] = [start] * self.batch
        self._random.redraw()

    def remembered(self) -> dict[str, Array]:
        """Returns copies of the arrays that the next step depends on, by name: states, and derivatives of the past."""
        states = {f"state.{i:03d}": state.copy() for i, state in enumerate(self.states)}
        past = {
            f"past.{case:03d}": array.copy()
            for case, arrays in enumerate(self._remembered)
            for array in arrays
        }
        return states | past

    def recall(self, arrays: Mapping[str, Array]) -> None:
        """Restores the arrays that `remembered` returned; UsageError for those of another learner."""
        own = self.remembered()
        if {name: a.shape for name, a in own.items()} != {name: np.shape(a) for name, a in arrays.items()}:
            raise UsageError(
                f"{type(self).__name__}.recall: arrays must be those that `remembered` of this learner returned: "
                + ", ".join(f"{name} {list(array.shape)}" for name, array in own.items())
            )
        self.states = [arrays[f"state.{i:03d}"].copy() for i in range(len(self.states))]
        if self._memory:
            self._remembered = [[arrays[f"past.{case:03d}"].copy()] for case in range(self.batch)]

    @property
    def random_state(self) -> Any:
        """State of dropout's random numbers, as JSON."""
        return self._random.state

    @random_state.setter
    def random_state(self, state: Any) -> None:
        self._random.state = state

    def step(self, inputs: Any, targets: Any = None) -> tuple[float, Array]:
        """loss_t and ∂loss_t/∂θ, both summed over the sequences; θ in the order of network.theta.

        inputs: (batch,) symbols, or (batch, inputs). targets: (batch,) symbols with the softmax loss, else (batch,
        outputs); None for no targets: loss and gradient are then 0.
        Raises DataError for arrays of other shapes.
        """
        network, asked = self.network, targets is not None
        x = self._observed("inputs", inputs, network.inputs, network.reads == "symbols")
        t = self._observed(
            "targets", targets if asked else self._no_targets, network.outputs, self._tells_symbols
        )
        total, gradient = 0.0, np.zeros_like(network.theta)
        outputs, remembered, after = [], [], [np.empty_like(state) for state in self.states]
        for case in range(self.batch):
            one = slice(case, case + 1)
            if not network.variational:
                self._random.redraw()
            loss, o, g, *rest = self._function(
                x[None, one], t[None, one], *self._remembered[case], *(state[one] for state in self.states)
            )
            remembered.append(rest[: len(self._memory)])
            for whole, row in zip(after, rest[len(self._memory) :], strict=True):
                whole[one] = row
            outputs.append(o[0])
            total += float(loss)
            gradient += g
        self.states, self.outputs, self._remembered = after, np.concatenate(outputs), remembered
        return (total, gradient) if asked else (0.0, np.zeros_like(gradient))

    @property
    def _tells_symbols(self) -> bool:
        return self.network.loss == "softmax"

    @property
    def _no_targets(self) -> Array:
        if self._tells_symbols:
            return np.zeros(self.batch, np.int64)
        return np.zeros((self.batch, self.network.outputs), self.network.dtype)

    def _observed(self, what: str, given: Any, width: int, symbols: bool) -> Array:
        name = f"{type(self).__name__}: {what}"
        array, shape = array_of(name, given), (self.batch,) if symbols else (self.batch, width)
        if array.shape != shape:
            axes = "(batch)" if symbols else f"(batch, {what})"
            raise DataError(f"{name} of one step must be {list(shape)}, {axes}, not {list(array.shape)}")
        return (
            checked_symbols(name, array, width)
            if symbols
            else checked_floats(name, array, self.network.dtype)
        )

    def _checked(self, states: Sequence[Array]) -> list[Array]:
        name = type(self).__name__
        arrays = arrays_of_states(name, self.network.state_names(), states, self.batch)
        return [checked_floats(f"{name}: the states", array, self.network.dtype) for array in arrays]

    def _learned(self) -> list[Node]:
        if self.network.initial_state != "learned":
            return []
        parameters = set(self.network.parameters.values())
        return [
            next(node for node in ancestors([state]) if node in parameters)
            for state in self.network.learned_states(1)
        ]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.network!r}, {self.batch} sequence(s) at step by step>"
