"""What every optimiser is: settings, a state of arrays, and a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Protocol, runtime_checkable

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import shown

__all__ = ["Curved", "Differentiable", "Optimizer", "Preconditioned", "Report", "State", "taken_up"]

#: All that a step changes besides the parameters: flat arrays by name. What is stored for resuming.
State = dict[str, Array]


class Differentiable(Protocol):
    """The part of an Objective that first-order optimisers use."""

    def gradient(self, w: Array) -> tuple[float, Array]: ...


class Curved(Differentiable, Protocol):
    """The part of an Objective that second-order optimisers use; each method may look at a batch of its own."""

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]: ...

    def loss(self, w: Array) -> float: ...


@runtime_checkable
class Preconditioned(Curved, Protocol):
    """An Objective that also gives a diagonal preconditioner."""

    def squared_gradients(self, w: Array) -> Array: ...


@dataclass(frozen=True)
class Report:
    """What a step saw: the loss before it, and the gradient's norm before clipping."""

    loss: float
    gradient_norm: float

    @property
    def taken(self) -> bool:
        """Whether the step changed θ."""
        return True

    @property
    def settled(self) -> bool:
        """Whether the step found that on this batch there is no more to gain, so another one is not worth making."""
        return False

    @property
    def last_gradient_norm(self) -> float:
        """The norm of the gradient where the step ended, if it took that one; else the norm before it."""
        return self.gradient_norm

    @property
    def gradients(self) -> int:
        """How many gradients the step took."""
        return 1

    @property
    def products(self) -> int:
        """How many products with the curvature the step took."""
        return 0

    def __str__(self) -> str:
        return f"loss {self.loss:.6g}  |g| {self.gradient_norm:.2g}"

    def row(self, times: bool = False) -> dict[str, Any]:
        """What a history keeps of it, as JSON, null if not finite. times: seconds, too, which no other run repeats."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if times or f.name != "seconds"}


@dataclass(frozen=True)
class Optimizer(ABC):
    """Settings alone: all that changes is in `state`, so a stored state resumes exactly."""

    @abstractmethod
    def init(self, theta: Array) -> State:
        """The state before the first step."""

    @abstractmethod
    def step(self, objective: Curved, theta: Array, state: State, rate: float | None = None) -> Report:
        """One step: changes `theta` and the arrays of `state` in place. rate: instead of the setting."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """Lets every optimizer's step look at what it is given before it computes anything."""
        super().__init_subclass__(**settings)
        if "step" in vars(cls):
            cls.step = _checking(cls.step)  # type: ignore[method-assign]

    def _require_own(self, theta: Any, state: Any) -> None:
        """UsageError for what no step can change in place, and for a state that another optimizer keeps."""
        own = f"{type(self).__name__}.step"
        if getattr(getattr(theta, "dtype", None), "kind", "") != "f":
            raise UsageError(
                f"{own}: theta must be a vector of floats, which the step changes in place, not {shown(theta)}; "
                "objective.start() gives one"
            )
        kept = vars(self).get("_keeps")
        if kept is None:
            kept = frozenset(self.init(theta))
            object.__setattr__(self, "_keeps", kept)
        if not isinstance(state, Mapping) or not kept <= state.keys():
            lacks = (
                f"lacks {', '.join(sorted(kept - state.keys()))}"
                if isinstance(state, Mapping)
                else shown(state)
            )
            raise UsageError(
                f"{own}: state is not of this optimizer: {lacks}; make it with optimizer.init(theta)"
            )

    def evaluation_point(self, theta: Array, state: State) -> Array:
        """Where a step takes its (first) gradient."""
        return theta

    def rate_at(self, state: State) -> float:
        """The rate of the next step."""
        return 1.0

    def settings(self) -> dict[str, Any]:
        """The arguments that make this optimiser again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _checking(step: Callable[..., Report]) -> Callable[..., Report]:
    """The step, which first requires a vector and a state that it can change."""

    @wraps(step)
    def checked(
        self: Optimizer, objective: Any, theta: Array, state: State, rate: float | None = None
    ) -> Report:
        self._require_own(theta, state)
        return step(self, objective, theta, state, rate)

    return checked


def taken_up(who: str, owner: str, fresh: State, given: State | None) -> State:
    """The state before the first step, or what `given` says of it, a copy, where `fresh` lies.

    who, owner: what takes it up, and what kept it, in words. UsageError for a state that the owner cannot have.
    """
    if given is None:
        return fresh
    if not isinstance(given, Mapping):
        raise UsageError(f"{who}: state must be a dict of arrays, as result.state, not {given!r:.60}")
    for names, what in ((fresh.keys() - given.keys(), "lacks"), (given.keys() - fresh.keys(), "has")):
        if names:
            raise UsageError(
                f"{who}: state {what} {', '.join(sorted(names))}; {owner} keeps {', '.join(fresh) or 'nothing'}"
            )
    for name, held in fresh.items():
        array = np.asarray(given[name])
        fits = array.shape == held.shape and np.can_cast(array.dtype, held.dtype, "same_kind")
        if not fits or not np.isfinite(array).all():
            raise UsageError(
                f"{who}: {name} in state must be finite, of shape {list(held.shape)} and {held.dtype}, which "
                f"{owner} keeps here, not {array.dtype} of shape {list(array.shape)}"
            )
        held[...] = array
    return fresh


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
