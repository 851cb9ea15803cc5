"""Weights: the parameters of a layer, made when its equations first use them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.errors import GraphnetError
from graphnet.node import Array, Dtype, Node
from graphnet.provenance import attributed_to, here, hide_module
from graphnet_rnn import initializers
from graphnet_rnn.errors import CellError
from graphnet_rnn.initializers import Initializer

__all__ = ["Weights", "WeightsWithin", "chosen"]

# Lines of this file are machinery: an error should name the equation that used the weight.
hide_module(__file__)


def chosen(initial: Mapping[str, Initializer], name: str, own: Initializer | None) -> Initializer | None:
    """The initializer whose pattern fits the name, the last of several; else the cell's own."""
    for pattern, initializer in initial.items():
        if fnmatchcase(name, pattern):
            own = initializer
    return own


@dataclass
class Weights:
    """The parameters of one layer, by name; filled by the first trace of the cell's equations."""

    owner: str
    seed: int
    dtype: Dtype
    initial: Mapping[str, Initializer]
    nodes: dict[str, Node] = field(default_factory=dict)
    #: The names of those that training leaves as they are.
    fixed: set[str] = field(default_factory=set)
    complete: bool = False

    def get(
        self, name: str, shape: Sequence[int], initializer: Initializer | None, trained: bool = True
    ) -> Node:
        """The parameter of this name; made if it is new. CellError if its shape is another than before."""
        node = self.nodes.get(name)
        if node is None or node.shape != shape:
            shape = self._shape(name, shape)
        if node is None:
            if self.complete:
                raise CellError(
                    f"{self.owner}: the weight {name} first appears after the first step (at {here()}). "
                    "A cell must use the same weights at every step: do not declare them conditionally."
                )
            node = self.nodes[name] = self._make(name, shape, initializer)
            if not trained:
                self.fixed.add(name)
        elif node.shape != shape:
            raise CellError(
                f"{self.owner}: the weight {name} is used with shape {list(shape)} at {here()}, but it was "
                f"declared with shape {list(node.shape)} at {node.origin}. "
                + (
                    "A weight has the same shape at every step and for every batch: write x.shape[1], not x.shape."
                    if node.origin == here()
                    else "Give the second use another name."
                )
            )
        elif trained == (name in self.fixed):
            raise CellError(
                f"{self.owner}: the weight {name} is {'trained' if trained else 'fixed'} at {here()}, but not where "
                f"it was declared, at {node.origin}. Give the second use another name."
            )
        return node

    def _shape(self, name: str, shape: Any) -> tuple[int, ...]:
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else ()
        if not sizes or not all(isinstance(n, (int, np.integer)) and n >= 1 for n in sizes):
            raise CellError(
                f"{self.owner}: the weight {name} has the shape {shape!r:.60} at {here()}; a shape is a tuple of sizes "
                "that are at least 1, e.g. (x.shape[1], self.units), or (self.units,) for a vector."
            )
        return tuple(int(n) for n in sizes)

    def _make(self, name: str, shape: tuple[int, ...], initializer: Initializer | None) -> Node:
        initializer = chosen(self.initial, name, initializer)
        if initializer is None:
            initializer = initializers.glorot() if len(shape) > 1 else initializers.zeros()
        value = self._initial_value(name, shape, initializer)
        return gn.parameter(value.astype(self.dtype), name=f"{self.owner}.{name}")

    def _initial_value(self, name: str, shape: tuple[int, ...], initializer: Initializer) -> Array:
        """What the initializer gives, if that is finite numbers of this shape."""
        what = f"{self.owner}: the initializer of {name}"
        remedy = (
            "An initializer is a function (generator, shape) -> array, e.g. rnn.initializers.normal(0.1), with its "
            "parentheses, .constant(0.5) or .array(values)."
        )
        if not callable(initializer):
            raise CellError(f"{what} is a {type(initializer).__name__} at {here()}. {remedy}")
        # Each weight has its own stream of random numbers, so that declaring one more changes no other.
        key = zlib.crc32(f"{self.owner}.{name}".encode())
        try:
            given = initializer(np.random.default_rng([self.seed, key]), shape)
            value = np.asarray(given, np.float64)
        except GraphnetError:
            raise
        except Exception as error:
            raise CellError(
                f"{what} failed for the shape {list(shape)} at {here()}: {type(error).__name__}: {error}. {remedy}"
            ) from error
        if value.shape != shape:
            raise CellError(
                f"{what} gave shape {list(value.shape)}, not {list(shape)} as it is used at {here()}."
            )
        if not np.isfinite(value).all():
            raise CellError(f"{what} gave numbers that are not finite, for the weight used at {here()}.")
        return value

    def within(self, part: str, initial: Mapping[str, Initializer]) -> WeightsWithin:
        """The weights of a cell that is part of this one; `initial`: the part's own initializers."""
        return WeightsWithin(self, part, initial)

    def trained(self) -> dict[str, Node]:
        """Those that training changes, in the order in which the equations use them."""
        return {name: node for name, node in self.nodes.items() if name not in self.fixed}

    def move(self, name: str, array: Array) -> None:
        """Lets a parameter live in `array` (a view of a network's flat vector); it keeps its origin."""
        node = self.nodes[name]
        array[...] = node.value
        with attributed_to() as made:
            made.model = node
            self.nodes[name] = gn.parameter(array, name=node.name)


@dataclass(frozen=True)
class WeightsWithin:
    """The weights of a cell inside of another: `part.W_xh` of the whole is its W_xh."""

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
        """Those of the part, by the part's names."""
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
        return WeightsWithin(self, part, initial)
