"""Cell: the equations of one time step. Everything else about a recurrent network is derived from it.

    class Elman(Cell):
        \"\"\"h' = tanh(x W_xh + h W_hh + b_h)\"\"\"
        states = (State("h"),)

        def step(self, x, h):
            return gn.tanh(self.affine("h", x=x, h=h))

A cell declares its weights by using them: `self.affine("h", x=x, h=h)` is x @ W_xh + h @ W_hh + b_h, and
makes the three parameters when it is first met. A Network traces `step` once to find them all.
"""

from __future__ import annotations

import copy
import inspect
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.display import ShowsItself
from graphnet.dtypes import as_dtype
from graphnet.errors import GraphnetError
from graphnet.node import Array, Dtype, Node
from graphnet.provenance import Origin, attributed_to, here, hide_module
from graphnet_rnn import initializers
from graphnet_rnn.errors import CellError
from graphnet_rnn.initializers import Initializer
from graphnet_rnn.settings import whole_number

__all__ = ["Cell", "State", "Weights"]

# Lines of this file are machinery: an error should name the equation that called `affine`.
hide_module(__file__)


@dataclass(frozen=True)
class State:
    """What a cell hands from one time step to the next: its name, and the setting that is its width."""

    name: str
    width: str = "units"


@dataclass
class Weights:
    """The parameters of one layer, by name; filled by the first trace of the cell's equations."""

    owner: str
    seed: int
    dtype: Dtype
    initial: Mapping[str, Initializer]
    nodes: dict[str, Node] = field(default_factory=dict)
    complete: bool = False

    def get(self, name: str, shape: tuple[int, ...], initializer: Initializer | None) -> Node:
        """The parameter of this name; made if it is new. CellError if its shape is another than before."""
        node = self.nodes.get(name)
        if node is None:
            if self.complete:
                raise CellError(
                    f"{self.owner}: the weight {name} first appears after the first step (at {here()}). "
                    "A cell must use the same weights at every step: do not declare them conditionally."
                )
            node = self.nodes[name] = self._make(name, shape, initializer)
        elif node.shape != shape:
            raise CellError(
                f"{self.owner}: the weight {name} is used with shape {list(shape)} at {here()}, but it was "
                f"declared with shape {list(node.shape)} at {node.origin}. Give the second use another name."
            )
        return node

    def _make(self, name: str, shape: tuple[int, ...], initializer: Initializer | None) -> Node:
        for pattern, chosen in self.initial.items():
            if fnmatchcase(name, pattern):
                initializer = chosen
        if initializer is None:
            initializer = initializers.glorot() if len(shape) > 1 else initializers.zeros()
        # Each weight has its own stream of random numbers, so that declaring one more changes no other.
        key = zlib.crc32(f"{self.owner}.{name}".encode())
        value = np.asarray(initializer(np.random.default_rng([self.seed, key]), shape))
        if value.shape != shape:
            raise CellError(
                f"{self.owner}: the initializer of {name} gave shape {list(value.shape)}, not {list(shape)} as it is "
                f"used at {here()}."
            )
        return gn.parameter(value.astype(self.dtype), name=f"{self.owner}.{name}")

    def move(self, name: str, array: Array) -> None:
        """Lets a parameter live in `array` (a view of a network's flat vector); it keeps its origin."""
        node = self.nodes[name]
        array[...] = node.value
        with attributed_to() as made:
            made.model = node
            self.nodes[name] = gn.parameter(array, name=node.name)


class Cell(ShowsItself):
    """The equations of one time step: `step(x, *states) -> new states`; the first state is the output.

    units: width of the states. initial: initializers by weight name, e.g. {"W_h*": orthogonal()}, which
    override the cell's own; patterns as in file names, the last that fits wins.
    """

    states: ClassVar[tuple[State, ...]] = ()

    def __init__(self, units: int = 128, *, initial: Mapping[str, Initializer] | None = None) -> None:
        self.units = whole_number(f"{type(self).__name__}: units", units)
        self.initial = dict(initial or {})
        self._weights: Weights | None = None
        #: Width of x, once bound.
        self.reads = 0

    # -- what a cell's equations are written with ---------------------------------------------

    def step(self, *args: Any, **kwargs: Any) -> Node | tuple[Node, ...]:
        """step(x, *states): the new states, from the input (batch, inputs) and the old states (batch, units)."""
        raise CellError(f"{type(self).__name__} needs a method step(self, {self._arguments()}).")

    def affine(self, to: str, *, bias: float | None = 0.0, units: int | None = None, **sources: Node) -> Node:
        """Σ_s s @ W_s·to + b_to over the named sources: affine("i", x=x, h=h) = x W_xi + h W_hi + b_i.

        bias: the initial value of b_to, or None for no bias. units: the width of the result.
        """
        width = self.units if units is None else units
        self._require_nodes("affine", to, sources)
        terms: list[Node] = []
        for name, source in sources.items():
            terms.append(source @ self.weight(f"W_{name}{to}", (source.shape[-1], width)))
        if bias is not None:
            terms.append(self.weight(f"b_{to}", (width,), initializers.constant(bias)))
        return gn.add(*terms)

    def diagonal(self, to: str, **sources: Node) -> Node:
        """Σ_s s ⊙ w_s·to over the named sources: a diagonal (peephole) connection."""
        self._require_nodes("diagonal", to, sources)
        terms = []
        for name, source in sources.items():
            terms.append(
                source * self.weight(f"w_{name}{to}", (source.shape[-1],), initializers.uniform(0.1))
            )
        return gn.add(*terms)

    def weight(self, name: str, shape: Sequence[int], initializer: Initializer | None = None) -> Node:
        """The parameter of this name, for equations that `affine` does not cover."""
        return self.bound_weights.get(name, tuple(shape), initializer)

    def _require_nodes(self, method: str, to: str, sources: Mapping[str, Any]) -> None:
        owner = type(self).__name__
        if not sources:
            raise CellError(
                f"{owner}: {method}({to!r}) at {here()} has no sources; name them, e.g. {method}({to!r}, x=x, h=h)"
            )
        for name, source in sources.items():
            if not isinstance(source, Node):
                raise CellError(
                    f"{owner}: {method}({to!r}, {name}=...) at {here()} is a {type(source).__name__}, not a node. "
                    "Sources are x and the states, or what is computed from them."
                )

    # -- what is derived from the equations ---------------------------------------------------

    def bind(self, inputs: int, name: str = "layer0", seed: int = 0, dtype: Any = "float32") -> Cell:
        """A copy with weights of its own, for inputs of this width; CellError if `step` is not sound."""
        self._check_declaration()
        bound = copy.copy(self)
        bound.reads = inputs
        bound._weights = Weights(name, seed, as_dtype(dtype), self.initial)
        with gn.scope(layer=name, cell=type(self).__name__):
            x = gn.input((1, inputs), dtype, name="x")
            before = [
                gn.input((1, n), dtype, name=s.name) for s, n in zip(self.states, self.widths, strict=True)
            ]
            bound._trace(x, before)
        bound.bound_weights.complete = True
        for pattern in self.initial:
            if not any(fnmatchcase(weight, pattern) for weight in bound.weights):
                raise CellError(
                    f"{type(self).__name__}: initial names {pattern!r}, but no weight is called so; there are "
                    f"{', '.join(bound.weights)}."
                )
        return bound

    def _trace(self, x: Node, before: Sequence[Node]) -> None:
        """The first step; whatever fails in it is told with the line of its equation."""
        try:
            self.next_states(x, before)
        except (CellError, MemoryError):
            raise
        except Exception as error:
            where = f"in {type(self).__name__}.step at {self._line_in_step(error)}"
            if isinstance(error, GraphnetError):
                raise type(error)(f"{error}\n    {where}") from error
            raise CellError(f"{type(error).__name__} {where}: {error}") from error

    def _line_in_step(self, error: BaseException) -> Origin:
        """The innermost line of the file of `step` that the error has passed."""
        origin, traceback = self._step_line(), error.__traceback__
        file = origin.file
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == file:
                origin = Origin(file, traceback.tb_lineno)
            traceback = traceback.tb_next
        return origin

    def next_states(self, x: Node, states: Sequence[Node]) -> tuple[Node, ...]:
        """`step`, with what it returns checked against the declared states."""
        owner = type(self).__name__
        result = self.step(x, *states)
        listed = (result,) if isinstance(result, Node) else result
        if not isinstance(listed, (tuple, list)):
            raise CellError(
                f"{owner}.step (at {self._step_line()}) returned {type(listed).__name__} where nodes are needed: "
                f"return {self._wanted()}."
            )
        if len(listed) != len(self.states):
            raise CellError(
                f"{owner}.step (at {self._step_line()}) returned {len(listed)} value(s), but the cell declares "
                f"{len(self.states)} state(s): return {self._wanted()}, in this order."
            )
        for state, old, new in zip(self.states, states, listed, strict=True):
            if not isinstance(new, Node):
                raise CellError(
                    f"{owner}.step (at {self._step_line()}) returned a {type(new).__name__} for the state "
                    f"{state.name}, not a node."
                )
            if new.shape != old.shape or new.dtype != old.dtype:
                raise CellError(
                    f"{owner}.step returned {new.dtype}{list(new.shape)} for the state {state.name}, which is "
                    f"{old.dtype}{list(old.shape)} (batch, units). The new value was made at {new.origin}."
                )
        return tuple(listed)

    def _check_declaration(self) -> None:
        owner = type(self).__name__
        states: Any = self.states
        if not isinstance(states, (tuple, list)) or not all(isinstance(state, State) for state in states):
            raise CellError(
                f"{owner} (step at {self._step_line()}): states is {states!r}, not a tuple of State; write "
                "states = (State('h'),), with the comma."
            )
        if not states:
            raise CellError(
                f"{owner} (step at {self._step_line()}) declares no states; write e.g. states = (State('h'),) "
                "in the class."
            )
        if not hasattr(self, "initial"):
            raise CellError(f"{owner}.__init__ must call super().__init__(units, initial=initial).")
        for state in states:
            if not hasattr(self, state.width):
                raise CellError(
                    f"{owner}: the state {state.name} has the width {state.width!r}, but the cell has no such "
                    f"attribute; write self.{state.width} = ... in __init__."
                )
        try:
            inspect.signature(self.step).bind("x", *self.states)
        except TypeError as error:
            raise CellError(
                f"{owner}.step at {self._step_line()} does not fit the declared states ({error}); write "
                f"step(self, {self._arguments()})."
            ) from None

    def _step_line(self) -> Origin:
        code = inspect.unwrap(type(self).step).__code__
        return Origin(code.co_filename, code.co_firstlineno)

    def _arguments(self) -> str:
        return ", ".join(["x", *(state.name for state in self.states)])

    def _wanted(self) -> str:
        names = [f"the new {s.name}" for s in self.states]
        return names[0] if len(names) == 1 else ", ".join(names)

    @property
    def bound_weights(self) -> Weights:
        """The weights of a bound cell; CellError if it is not bound."""
        if self._weights is None:
            raise CellError(
                f"{type(self).__name__} is used outside of a network, so it has no weights (at {here()}). "
                "Put it into rnn.Network([...]), or call cell.bind(inputs=...) and step that."
            )
        return self._weights

    @property
    def weights(self) -> Mapping[str, Node]:
        """The parameters of a bound cell, by name, in the order in which the equations use them."""
        return {} if self._weights is None else self._weights.nodes

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of each state."""
        return tuple(getattr(self, state.width) for state in self.states)

    def settings(self) -> dict[str, Any]:
        """The arguments that make this cell again (without initializers: a stored model has its weights).

        Read off the attributes that bear the names of `__init__`'s arguments; CellError if one is missing.
        """
        names = [
            name
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if name != "initial" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise CellError(
                f"{type(self).__name__} does not keep its argument {missing[0]!r}, so a stored model could not make "
                f"the cell again; write self.{missing[0]} = {missing[0]} in __init__, or override settings."
            )
        return {name: getattr(self, name) for name in names}

    def __graph__(self) -> gn.Graph:
        """One step as a graph, for pictures: x_t and the states before and after it."""
        bound = self if self._weights is not None else self.bind(inputs=self.units)
        dtype = bound.bound_weights.dtype
        x = gn.input((1, bound.reads), dtype, name="x_t")
        before = [
            gn.input((1, n), dtype, name=f"{s.name}_t−1")
            for s, n in zip(self.states, self.widths, strict=True)
        ]
        after = bound.next_states(x, before)
        labels = [gn.label(node, f"{s.name}_t") for s, node in zip(self.states, after, strict=True)]
        return gn.Graph(labels, [x, *before])

    def __repr__(self) -> str:
        listed = ", ".join(f"{k}={v!r}" for k, v in self.settings().items())
        return f"{type(self).__name__}({listed})"
