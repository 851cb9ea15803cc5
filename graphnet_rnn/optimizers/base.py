"""What every optimizer is: settings, a state of arrays, and a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from graphnet.graph.node import Array, Dtype, Shape
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import amount, require_kinds, shown

__all__ = [
    "Curved",
    "HasGradient",
    "Optimizer",
    "Preconditioned",
    "Report",
    "State",
    "kept_of",
    "require_optimizer",
    "taken_up",
]

#: All that a step changes besides the parameters: flat arrays by name. What is stored for resuming.
State = dict[str, Array]
#: Shape and dtype of each array of a state; (-1,): of any length.
Kept = dict[str, tuple[Shape, Dtype]]


class HasGradient(Protocol):
    """The part of an Objective that first-order optimizers use."""

    def gradient(self, w: Array) -> tuple[float, Array]: ...


class Curved(HasGradient, Protocol):
    """The part of an Objective that second-order optimizers use; each method may look at a batch of its own."""

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

    @property
    def losses(self) -> int:
        """How many times the step asked for the loss alone."""
        return 0

    def __str__(self) -> str:
        return f"loss {self.loss:.6g}  |g| {self.gradient_norm:.2g}"

    def row(self, times: bool = False) -> dict[str, Any]:
        """What a history keeps of it, as JSON, null if not finite. times: seconds, too, which no other run repeats."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if times or f.name != "seconds"}


@dataclass(frozen=True)
class Optimizer(ABC):
    """Settings alone, held to the kinds that their annotations declare; all that changes is in `state`, so a stored
    state resumes exactly.

    curved: whether its steps ask the objective for products with the curvature.
    """

    curved: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_kinds(self)

    @property
    def needs_single_cases(self) -> bool:
        """Whether its steps ask for the squared gradients of single cases."""
        return False

    @abstractmethod
    def init(self, theta: Array, objective: Any = None) -> State:
        """The state before the first step. objective: what is to be minimised, for a state whose size depends on it."""

    @abstractmethod
    def step(self, objective: Curved, theta: Array, state: State, rate: float | None = None) -> Report:
        """One step: changes `theta` and the arrays of `state` in place. rate: instead of the setting."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """Lets every optimizer's step look at what it is given before it computes anything."""
        super().__init_subclass__(**settings)
        if "step" in vars(cls):
            cls.step = _checking(cls.step)  # type: ignore[method-assign]

    def _require_own(self, objective: Any, theta: Any, state: Any, rate: Any) -> None:
        """UsageError for what no step can change in place, a state that another optimizer keeps, and no rate."""
        own = f"{type(self).__name__}.step"
        if rate is not None:
            amount(f"{own}: rate", rate)
        if getattr(getattr(theta, "dtype", None), "kind", "") != "f":
            raise UsageError(
                f"{own}: theta must be a vector of floats, which the step changes in place, not {shown(theta)}; "
                "objective.start() gives one"
            )
        if len(theta.shape) != 1:
            raise UsageError(f"{own}: theta must be a vector, not an array of shape {list(theta.shape)}")
        if isinstance(theta, np.ndarray) and not theta.flags.writeable:
            raise UsageError(
                f"{own}: theta is read-only, but the step changes it in place; give a copy of it"
            )
        difference = _against(state, self._kept(theta, objective), type(self).__name__)
        if difference:
            raise UsageError(f"{own}: {difference}; make it with optimizer.init(theta, objective)")

    def _kept(self, theta: Array, objective: Any) -> Kept:
        """Of the state that goes with such parameters; once for all steps."""
        key = theta.size, theta.dtype
        found: tuple[Any, Kept] | None = vars(self).get("_keeps")
        if found is None or found[0] != key:
            found = key, kept_of(self._fresh(theta, objective))
            object.__setattr__(self, "_keeps", found)
        return found[1]

    def _fresh(self, theta: Array, objective: Any = None) -> State:
        """Arrays as `init` gives them, whatever they hold."""
        return self.init(theta, objective)

    def evaluation_point(self, theta: Array, state: State) -> Array:
        """Where a step takes its (first) gradient."""
        return theta

    def rate_at(self, state: State) -> float:
        """The rate of the next step."""
        return 1.0

    def settings(self) -> dict[str, Any]:
        """The arguments that make this optimizer again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _checking(step: Callable[..., Report]) -> Callable[..., Report]:
    """The step, which first requires a vector and a state that it can change."""

    @wraps(step)
    def checked(
        self: Optimizer, objective: Any, theta: Array, state: State, rate: float | None = None
    ) -> Report:
        self._require_own(objective, theta, state, rate)
        return step(self, objective, theta, state, rate)

    return checked


def require_optimizer(who: str, optimizer: Any) -> Optimizer:
    """The optimizer; UsageError, naming `who` asks, for anything else."""
    if not isinstance(optimizer, Optimizer):
        raise UsageError(
            f"{who}: optimizer must be an optimizer, e.g. rnn.Adam(rate=0.01), not {shown(optimizer)}"
        )
    return optimizer


def taken_up(who: str, owner: str, fresh: State, given: State | None) -> State:
    """The state before the first step, or what `given` says of it, a copy, where `fresh` lies.

    who, owner: what takes it up, and what kept it, in words. UsageError for a state that the owner cannot have.
    """
    if given is None:
        return fresh
    if not isinstance(given, Mapping):
        raise UsageError(f"{who}: state must be a dict of arrays, as result.state, not {shown(given)}")
    arrays = {name: np.asarray(array) for name, array in given.items()}
    difference = _against(arrays, kept_of(fresh), owner, "same_kind")
    if difference:
        raise UsageError(f"{who}: {difference}")
    for name, held in fresh.items():
        if not np.isfinite(arrays[name]).all():
            raise UsageError(f"{who}: {name} in state must be finite")
        held[...] = arrays[name]
    return fresh


def kept_of(state: State) -> Kept:
    """Shape and dtype of each array."""
    return {name: (array.shape, array.dtype) for name, array in state.items()}


def _against(state: Any, kept: Kept, owner: str, casting: Literal["no", "same_kind"] = "no") -> str:
    """Why this cannot be the state of what keeps these arrays, in words; empty where it can."""
    if not isinstance(state, Mapping):
        return f"state must be a dict of arrays, not {shown(state)}"
    for names, what in ((kept.keys() - state.keys(), "lacks"), (state.keys() - kept.keys(), "has")):
        if names:
            return f"state {what} {', '.join(sorted(map(str, names)))}; {owner} keeps {', '.join(kept) or 'nothing'}"
    for name, (shape, dtype) in kept.items():
        array = state[name]
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            return f"{name} in state must be an array, not {shown(array)}"
        if shape not in (array.shape, (-1,) * array.ndim) or not np.can_cast(array.dtype, dtype, casting):
            return (
                f"{name} in state must be finite, of shape {list(shape)} and {dtype}, which {owner} keeps here, not "
                f"{array.dtype} of shape {list(array.shape)}"
            )
    return ""


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
