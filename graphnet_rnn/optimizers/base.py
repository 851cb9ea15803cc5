"""Base class of optimizers: settings, a state of arrays, and a step."""

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
from graphnet_rnn.settings import NamedArguments, amount, require_kinds, shown

#: Optimizer state: flat arrays by name that steps change, stored in checkpoints.
State = dict[str, Array]
#: Shape and dtype of each array of a state; (-1,): of any length.
Kept = dict[str, tuple[Shape, Dtype]]


class HasGradient(Protocol):
    """Interface of an Objective to first-order optimizers."""

    def gradient(self, w: Array) -> tuple[float, Array]: ...


class Curved(HasGradient, Protocol):
    """Interface of an Objective to second-order optimizers; each method may use its own batch."""

    def curvature(self, w: Array, structural: float = 0.0) -> Callable[[Array], Array]: ...

    def loss(self, w: Array) -> float: ...


@runtime_checkable
class Preconditioned(Curved, Protocol):
    """An Objective with a diagonal preconditioner."""

    def squared_gradients(self, w: Array) -> Array: ...


@dataclass(frozen=True)
class Report:
    """Report of a step: the loss before it, and the gradient's norm before clipping."""

    loss: float
    gradient_norm: float

    @property
    def taken(self) -> bool:
        """True if the step changed θ."""
        return True

    @property
    def settled(self) -> bool:
        """True if no further step on this batch can lower the loss."""
        return False

    @property
    def last_gradient_norm(self) -> float:
        """Gradient norm after the step, if it was computed; else before it."""
        return self.gradient_norm

    @property
    def of_whole_gradient(self) -> bool:
        """True if the gradient norms are those of all parameters at one θ."""
        return True

    @property
    def gradients(self) -> int:
        """Number of gradients computed by the step."""
        return 1

    @property
    def products(self) -> int:
        """Number of curvature products computed by the step."""
        return 0

    @property
    def losses(self) -> int:
        """Number of evaluations of the loss alone."""
        return 0

    def __str__(self) -> str:
        return f"loss {self.loss:.6g}  |g| {self.gradient_norm:.2g}"

    def row(self, times: bool = False) -> dict[str, Any]:
        """Returns the report as JSON for a history, null if not finite. times: True to add seconds, which differ
        between runs.
        """
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self) if times or f.name != "seconds"}


@dataclass(frozen=True)
class Optimizer(NamedArguments, ABC):
    """Base class of optimizers: settings only, checked by their annotations. `state` has all that changes, so a stored
    state resumes exactly.

    curved: True if its steps use curvature products.
    """

    curved: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_kinds(self)

    @property
    def needs_single_cases(self) -> bool:
        """True if its steps use the squared gradients of single cases."""
        return False

    @abstractmethod
    def init(self, theta: Array, objective: Any = None) -> State:
        """Returns the initial state for the parameters `theta`. objective: needed if the state's size depends on it."""

    @abstractmethod
    def step(self, objective: Curved, theta: Array, state: State, rate: float | None = None) -> Report:
        """Runs one step on the objective; changes `theta` and the arrays of `state` in place. rate: overrides the
        setting.
        """

    def __init_subclass__(cls, **settings: Any) -> None:
        """Adds a check of the arguments to the step of every optimizer."""
        super().__init_subclass__(**settings)
        if "step" in vars(cls):
            cls.step = _checking(cls.step)  # type: ignore[method-assign]

    def _require_own(self, objective: Any, theta: Any, state: Any, rate: Any) -> None:
        own = f"{type(self).__name__}.step"
        if rate is not None:
            amount(f"{own}: rate", rate)
        if getattr(getattr(theta, "dtype", None), "kind", "") != "f":
            raise UsageError(
                f"{own}: theta must be a vector of floats, which the step changes in place, not {shown(theta)}; "
                "objective.start() returns one"
            )
        if len(theta.shape) != 1:
            raise UsageError(f"{own}: theta must be a vector, not an array of shape {list(theta.shape)}")
        if isinstance(theta, np.ndarray) and not theta.flags.writeable:
            raise UsageError(
                f"{own}: theta is read-only, but the step changes it in place; pass theta.copy()"
            )
        difference = _against(state, self._kept(theta, objective), type(self).__name__)
        if difference:
            raise UsageError(f"{own}: {difference}; create it with optimizer.init(theta, objective)")

    def _kept(self, theta: Array, objective: Any) -> Kept:
        key = theta.size, theta.dtype
        found: tuple[Any, Kept] | None = vars(self).get("_keeps")
        if found is None or found[0] != key:
            found = key, kept_of(self._fresh(theta, objective))
            object.__setattr__(self, "_keeps", found)
        return found[1]

    def _fresh(self, theta: Array, objective: Any = None) -> State:
        return self.init(theta, objective)

    def evaluation_point(self, theta: Array, state: State) -> Array:
        """Returns the point at which a step computes its (first) gradient."""
        return theta

    def rate_at(self, state: State) -> float:
        """Returns the learning rate of the next step."""
        return 1.0

    def settings(self) -> dict[str, Any]:
        """Returns the arguments that recreate this optimizer."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _checking(step: Callable[..., Report]) -> Callable[..., Report]:
    @wraps(step)
    def checked(
        self: Optimizer, objective: Any, theta: Array, state: State, rate: float | None = None
    ) -> Report:
        self._require_own(objective, theta, state, rate)
        return step(self, objective, theta, state, rate)

    return checked


def require_optimizer(who: str, optimizer: Any) -> Optimizer:
    """Returns the optimizer; UsageError, with the caller's name `who`, for anything else."""
    if not isinstance(optimizer, Optimizer):
        raise UsageError(
            f"{who}: optimizer must be an optimizer, e.g. rnn.Adam(rate=0.01), not {shown(optimizer)}"
        )
    return optimizer


def restored_state(who: str, owner: str, fresh: State, given: State | None) -> State:
    """Returns a copy of the state `given`, in the memory of `fresh`; without `given`, `fresh`.

    who, owner: names of the caller and of the optimizer, for errors. Raises UsageError for a state of another
    optimizer.
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
    """Returns shape and dtype of each array."""
    return {name: (array.shape, array.dtype) for name, array in state.items()}


def _against(state: Any, kept: Kept, owner: str, casting: Literal["no", "same_kind"] = "no") -> str:
    """Describes why this is no state with these arrays; "" if it is."""
    if not isinstance(state, Mapping):
        return f"state must be a dict of arrays, not {shown(state)}"
    for names, what in ((kept.keys() - state.keys(), "lacks"), (state.keys() - kept.keys(), "has")):
        if names:
            return f"state {what} {', '.join(sorted(map(str, names)))}; {owner} needs {', '.join(kept) or 'nothing'}"
    for name, (shape, dtype) in kept.items():
        array = state[name]
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            return f"{name} in state must be an array, not {shown(array)}"
        if shape not in (array.shape, (-1,) * array.ndim) or not np.can_cast(array.dtype, dtype, casting):
            return (
                f"{name} in state must be finite, of shape {list(shape)} and {dtype}, as {owner} needs, not "
                f"{array.dtype} of shape {list(array.shape)}"
            )
    return ""


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
