"""ObjectiveBySize: one objective for batches of several sizes, each with its own graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.settings import shown

_Shapes = tuple[tuple[int, ...], ...]


class ObjectiveBySize:
    """Objectives of the same parameters for batches of several sizes; `feed` selects one by the shapes of the arrays.

    All methods use this one until the next feed, except a curvature, which follows later feeds.
    Raises UsageError for different parameters, two objectives of one size, and arrays of a size without objective.
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self._all: dict[_Shapes, Objective] = {}
        for objective in objectives:
            if not isinstance(objective, Objective):
                raise UsageError(
                    f"ObjectiveBySize: each argument must be an Objective, not {shown(objective)}"
                )
            if objective.parameters != objectives[0].parameters:
                raise UsageError("ObjectiveBySize: all objectives must have the same parameters")
            shapes = tuple(node.shape for node in objective.inputs)
            if shapes in self._all:
                raise UsageError(
                    f"ObjectiveBySize: the sizes of inputs must differ, but two objectives have {_shown(shapes)}"
                )
            self._all[shapes] = objective
        if not self._all:
            raise UsageError("ObjectiveBySize: give at least one Objective")
        self._now = objectives[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._now, name)

    def __repr__(self) -> str:
        return f"ObjectiveBySize({len(self._all)} sizes, now {self._now!r})"

    def _of(self, arrays: Sequence[Any]) -> Objective:
        shapes = tuple(np.shape(array) for array in arrays)
        if shapes not in self._all:
            there = "; ".join(map(_shown, self._all))
            raise UsageError(
                f"ObjectiveBySize.feed: no objective has inputs of these sizes, {_shown(shapes)}; there are {there}"
            )
        return self._all[shapes]

    def feed(self, *arrays: Any) -> None:
        """See Objective.feed."""
        self._now = self._of(arrays)
        self._now.feed(*arrays)

    def feed_placed(self, arrays: tuple[Any, ...]) -> None:
        """See Objective.feed_placed."""
        self._now = self._of(arrays)
        self._now.feed_placed(arrays)

    def placed(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """See Objective.placed."""
        return self._of(arrays).placed(arrays)

    def redraw(self) -> None:
        """See Objective.redraw."""
        self._now.redraw()
        for other in self._all.values():
            other.forget()

    def compile(self) -> None:
        """See Objective.compile."""
        for objective in self._all.values():
            objective.compile()

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]:
        """See Objective.curvature; products use the batch that is fed at their time."""
        at = w.copy()
        products: dict[Objective, Callable[[Array], Array]] = {}

        def product(v: Array) -> Array:
            now = self._now
            if now not in products:
                products[now] = now.curvature(at, structural)
            return products[now](v)

        return product


def _shown(shapes: _Shapes) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
