"""Weights: parameters of a layer, made when its equations first use them, and laid end to end in one vector."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

import graphnet as gn
from graphnet.errors import GraphnetError
from graphnet.graph.dtypes import held_as, require_unmasked
from graphnet.graph.node import Array, Dtype, Node
from graphnet.graph.provenance import attributed_to, here, hide_module
from graphnet.settings import shown
from graphnet.system.memory import require_memory
from graphnet.system.text import matches
from graphnet_rnn.cell import initializers
from graphnet_rnn.cell.initializers import Initializer
from graphnet_rnn.errors import CellError, UsageError

# Hidden from errors, so that they name the equation that used the weight.
hide_module(__file__)


def chosen(initial: Mapping[str, Initializer], name: str, own: Initializer | None) -> Initializer | None:
    """Returns the initializer of the last pattern that matches the name; `own` if none does."""
    for pattern, initializer in initial.items():
        if matches(name, pattern):
            own = initializer
    return own


def unfit(initial: Iterable[str], names: Iterable[str]) -> str:
    """Describes the first pattern that matches none of the names; "" if each matches one."""
    listed = list(names)
    for pattern in initial:
        if not any(matches(name, pattern) for name in listed):
            return f"names {pattern!r}, but there is no such weight; the weights are {', '.join(listed)}"
    return ""


@dataclass
class Weights:
    """Parameters of one layer by name, filled by the first trace of the cell's equations."""

    owner: str
    seed: int
    dtype: Dtype
    initial: Mapping[str, Initializer]
    #: Values by full name, used instead of initializers.
    values: Mapping[str, Array] | None = None
    nodes: dict[str, Node] = field(default_factory=dict)
    #: Names of the weights that are not trained.
    fixed: set[str] = field(default_factory=set)
    complete: bool = False
    #: Initializers of the cell's parts, by the prefix of their weights.
    parts: dict[str, Mapping[str, Initializer]] = field(default_factory=dict)
    _planned: bool = False

    @contextmanager
    def planned(self) -> Iterator[None]:
        """Context in which weights have shapes but no memory; at the end they are discarded.

        Raises NotEnoughMemoryError if the memory does not suffice to draw them all.
        """
        self._planned = True
        yield
        self._planned = False
        if self.nodes:
            name, largest = max(self.nodes.items(), key=lambda item: item[1].size)
            require_memory(
                # Numbers are drawn in float64.
                sum(node.nbytes for node in self.nodes.values()) + 8 * largest.size,
                f"{self._who}: its weights ({name} alone has the shape {list(largest.shape)})",
                "fewer units take less",
            )
        for seen in (self.nodes, self.fixed, self.parts):
            seen.clear()

    def get(
        self, name: str, shape: Sequence[int], initializer: Initializer | None, trained: bool = True
    ) -> Node:
        """Returns the parameter of this name, made on first use; CellError if its shape has changed."""
        node = self.nodes.get(name)
        if node is None or node.shape != shape:
            shape = self._shape(name, shape)
        if node is None:
            if self.complete:
                raise CellError(
                    f"{self._who}: the weight {name} first appears after the first step (at {here()}). "
                    "A cell must use the same weights at every step: do not declare them conditionally."
                )
            node = self.nodes[name] = self._make(name, shape, initializer)
            if not trained:
                self.fixed.add(name)
        elif node.shape != shape:
            remedy = "Give the second use another name."
            if node.origin == here():
                remedy = (
                    "The shape must not depend on the time step or the batch: write x.shape[1], not x.shape."
                )
            raise CellError(
                f"{self._who}: the weight {name} is used with shape {list(shape)} at {here()}, but it was "
                f"declared with shape {list(node.shape)} at {node.origin}. {remedy}"
            )
        elif trained == (name in self.fixed):
            raise CellError(
                f"{self._who}: the weight {name} is {'trained' if trained else 'fixed'} at {here()}, but not where "
                f"it was declared, at {node.origin}. Give the second use another name."
            )
        return node

    def _shape(self, name: str, shape: Any) -> tuple[int, ...]:
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (0,)
        if not all(isinstance(n, (int, np.integer)) and n >= 1 for n in sizes):
            raise CellError(
                f"{self._who}: the weight {name} has the shape {shown(shape)} at {here()}; it must be a tuple of whole "
                "numbers >= 1, e.g. (x.shape[1], self.units), or (self.units,) for a vector."
            )
        return tuple(int(n) for n in sizes)

    def _make(self, name: str, shape: tuple[int, ...], initializer: Initializer | None) -> Node:
        if self.values is not None:  # a missing value raises here, also when planning
            given = self._given(name, shape, self.values)
            return gn.parameter(given if self._planned else given.copy(), name=self.full_name(name))
        if self._planned:
            nbytes = math.prod(shape) * self.dtype.itemsize
            if nbytes > sys.maxsize:  # too large for any NumPy array
                what = f"{self._who}: its weights ({name} alone has the shape {list(shape)})"
                require_memory(nbytes, what, "fewer units take less")
            return gn.parameter(np.broadcast_to(np.zeros((), self.dtype), shape), name=self.full_name(name))
        initializer = chosen(self.initial, name, initializer)
        if initializer is None:
            initializer = initializers.glorot() if len(shape) > 1 else initializers.zeros()
        value = self._initial_value(name, shape, initializer)
        return gn.parameter(value.astype(self.dtype), name=self.full_name(name))

    def _given(self, name: str, shape: tuple[int, ...], values: Mapping[str, Array]) -> Array:
        name = self.full_name(name)
        value = values.get(name)
        if not isinstance(value, np.ndarray) or value.shape != shape:
            raise UsageError(f"the weight {name} is missing, or its shape is not {list(shape)}")
        if value.dtype != self.dtype:
            raise UsageError(f"the weight {name} is {value.dtype}, not {self.dtype}")
        return value

    def _initial_value(self, name: str, shape: tuple[int, ...], initializer: Initializer) -> Array:
        what = f"{self._who}: the initializer of {name}"
        remedy = (
            "An initializer is a function (generator, shape) -> array, e.g. rnn.initializers.normal(0.1), with its "
            "parentheses, .constant(0.5) or .array(values)."
        )
        # Each weight has its own stream of random numbers, so that declaring one more changes no other.
        key = zlib.crc32(self.full_name(name).encode())
        try:
            given = initializer(np.random.default_rng([self.seed, key]), shape)
            value = np.asarray(given, np.float64)
        except Exception as error:
            made = getattr(initializer, "__name__", "") in initializers.__all__  # not what it makes
            if isinstance(error, MemoryError) or (isinstance(error, GraphnetError) and not made):
                raise
            raise CellError(
                f"{what} failed for the shape {list(shape)} at {here()}: {type(error).__name__}: {error}. {remedy}"
            ) from error
        if value.shape != shape:
            raise CellError(
                f"{what} returned the shape {list(value.shape)}, not {list(shape)} as it is used at {here()}; an "
                "initializer must return the given shape."
            )
        if not np.isfinite(value).all():
            raise CellError(f"{what} returned NaN or infinite values, for the weight used at {here()}.")
        return value

    @property
    def _who(self) -> str:
        return self.owner or "the model"

    def full_name(self, name: str) -> str:
        """Returns the weight's name in the whole model: `layer0.W_xh`."""
        return f"{self.owner}.{name}" if self.owner else name

    def require_patterns(self, who: str, error: type[GraphnetError] = UsageError) -> None:
        """Raises an error that lists the weights if a pattern of `initial`, or of a part's, matches none."""
        for part, initial in {"": self.initial, **self.parts}.items():
            start = f"{part}." if part else ""
            names = [name.removeprefix(start) for name in self.nodes if name.startswith(start)]
            if wrong := unfit(initial, names):
                raise error(f"{who}.{part}: initial {wrong}." if part else f"{who}: initial {wrong}.")

    def within(self, part: str, initial: Mapping[str, Initializer]) -> WeightsWithin:
        """Returns the weights of a part of this cell; initial: the part's own initializers."""
        self.note_part(part, initial)
        return WeightsWithin(self, part, initial)

    def note_part(self, part: str, initial: Mapping[str, Initializer]) -> None:
        """Stores the patterns of a part for `require_patterns`."""
        if initial:
            self.parts[part] = initial

    def trained(self) -> dict[str, Node]:
        """Returns the trained weights by name, in the order in which the equations use them."""
        return {name: node for name, node in self.nodes.items() if name not in self.fixed}

    def move(self, name: str, array: Array) -> None:
        """Moves a parameter's value into `array`, a view of a network's flat vector; its origin stays."""
        node = self.nodes[name]
        array[...] = node.value
        with attributed_to() as made:
            made.model = node
            self.nodes[name] = gn.parameter(array, name=node.name)


@dataclass(frozen=True)
class WeightsWithin:
    """Weights of a cell inside another: `part.W_xh` of the whole is its W_xh."""

    whole: Weights | WeightsWithin
    part: str
    initial: Mapping[str, Initializer]

    @property
    def owner(self) -> str:
        return f"{self.whole.owner}.{self.part}"

    @property
    def dtype(self) -> Dtype:
        return self.whole.dtype

    @property
    def complete(self) -> bool:
        return self.whole.complete

    @property
    def nodes(self) -> dict[str, Node]:
        """Parameters of the part, by the part's names."""
        start = f"{self.part}."
        return {
            name.removeprefix(start): node
            for name, node in self.whole.nodes.items()
            if name.startswith(start)
        }

    def get(
        self, name: str, shape: Sequence[int], initializer: Initializer | None, trained: bool = True
    ) -> Node:
        """See Weights.get."""
        return self.whole.get(f"{self.part}.{name}", shape, chosen(self.initial, name, initializer), trained)

    def within(self, part: str, initial: Mapping[str, Initializer]) -> WeightsWithin:
        """See Weights.within."""
        self.note_part(part, initial)
        return WeightsWithin(self, part, initial)

    def note_part(self, part: str, initial: Mapping[str, Initializer]) -> None:
        """See Weights.note_part."""
        self.whole.note_part(f"{self.part}.{part}", initial)


class ParameterNodes(dict[str, Node]):
    """Read-only dictionary of parameter nodes by name; their values can be set."""

    def _refuse(self, *names: Any, **more: Any) -> NoReturn:
        named = f" ({', '.join(map(shown, names[:1]))})" if names else ""
        raise UsageError(
            f"a model's parameters cannot be replaced or removed{named}: its equations use them. Set one value, "
            "parameters[name].value = array, or all values, model.theta = vector."
        )

    __setitem__ = __delitem__ = __ior__ = pop = popitem = clear = update = setdefault = _refuse


class FlatParameters:
    """Parameters by name whose values lie end to end in one vector, `theta`."""

    #: Parameter nodes by name; their values are views of `theta`.
    parameters: dict[str, Node]
    #: Weights that are not trained, by name: saved with the model, but not in `theta`.
    fixed: dict[str, Node]
    _theta: Array

    def lay_out(self, groups: Iterable[Weights], dtype: Dtype) -> None:
        """Moves all trained weights of the groups into one vector; after that none can be declared."""
        groups = list(groups)
        total = sum(node.size for weights in groups for node in weights.trained().values())
        require_memory(total * dtype.itemsize, f"a vector of {total:,} parameters", "fewer units take less")
        self._theta = np.zeros(total, dtype)
        parameters: dict[str, Node] = {}
        fixed: dict[str, Node] = {}
        start = 0
        for weights in groups:
            for name, node in weights.trained().items():
                weights.move(name, self._theta[start : start + node.size].reshape(node.shape))
                parameters[weights.full_name(name)] = weights.nodes[name]
                start += node.size
            fixed.update({weights.full_name(name): weights.nodes[name] for name in sorted(weights.fixed)})
            weights.complete = True
        self.parameters, self.fixed = ParameterNodes(parameters), ParameterNodes(fixed)

    def require_finite(self, who: str) -> None:
        """Raises UsageError, prefixed with `who`, if a weight is NaN or infinite."""
        for name, node in {**self.parameters, **self.fixed}.items():
            finite = np.isfinite(node.value)
            if not finite.all():
                place = tuple(int(i) for i in np.argwhere(~finite)[0])
                raise UsageError(
                    f"{who}: the parameter {name} is {node.value[place]} at {list(place)}, so results would be "
                    "invalid; set `theta` to its earlier value, and train with a smaller learning rate or "
                    "gradient clipping."
                )

    @property
    def theta(self) -> Array:
        """All parameters as one flat vector; it shares memory with `parameters[...].value`."""
        return self._theta

    @theta.setter
    def theta(self, vector: Any) -> None:
        self._theta[...] = held_as(self.checked_theta(vector, self._theta.size), self._theta.dtype, "theta")

    @staticmethod
    def checked_theta(vector: Any, size: int) -> Array:
        """Returns `vector` as an array; UsageError unless it has `size` numbers."""
        require_unmasked("theta", vector)
        try:
            new = np.asarray(vector)
        except ValueError as error:
            raise UsageError(f"theta must be a vector of numbers: {error}") from None
        if new.dtype.kind not in "biuf":
            raise UsageError(f"theta must be a vector of numbers, not {shown(vector)}")
        if new.shape != (size,):
            raise UsageError(f"theta has {size} numbers; an array of shape {list(new.shape)} was given")
        return new
