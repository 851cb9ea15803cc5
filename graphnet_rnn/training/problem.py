"""Problem: what a Trainer works on, whatever learns from whatever."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from graphnet.backends import AVAILABLE
from graphnet.graph.node import Array
from graphnet_rnn.errors import UsageError
from graphnet_rnn.model import Model
from graphnet_rnn.optimizers.base import Optimizer, Report
from graphnet_rnn.optimizers.batched import BatchedObjective
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.groups import patterns, trained
from graphnet_rnn.optimizers.step import Stepped
from graphnet_rnn.parallel.ranks import Ranks
from graphnet_rnn.settings import Amount, Count, Limit, declared_settings, fixed_settings, setting

__all__ = ["CompiledProblem", "ObjectiveProblem", "Problem", "Trainable", "Validated", "require_unclipped"]

T = TypeVar("T")


class Trainable(Stepped, Protocol):
    """The objective of a step: fed, so that an optimizer can ask for what it needs."""

    def start(self) -> Array:
        """The present parameters as a new flat vector, where the back end computes."""

    def place(self, vector: Array) -> Array:
        """A copy of the vector where the back end computes."""

    def penalty(self, w: Array) -> float:
        """The part of the loss that is no cost, such as weight decay."""


class Problem(ABC):
    """A model, its objective, and what feeds it: step by step, epoch after epoch.

    A class of your own says how many steps an epoch has, and feeds the objective of each:

        class Fit(rnn.Problem):
            def __init__(self, model, x, y): ...
            def __len__(self): return 10
            def feed(self, epoch, step):
                self.objective.feed(self.x[step], self.y[step])
                return self.objective

    What depends on (epoch, step) alone needs no more to be resumed exactly; what else changes is told by `arrays` and
    `numbers`, and taken up by `restore`.
    model: what learns. objective: of any step. measure: what rows call the cost ("train_loss"); unit: nats, or whatever
    the objective's loss is in, in one of it. judged: what rows call what `validate` gives, if that is another measure
    ("valid_wrong"). unit_name: the unit in words, for people. item: what a step gets through so many of, `items`.
    remedy: what to try when a step is not finite.
    """

    model: Model
    objective: Trainable
    measure: ClassVar[str] = "loss"
    unit: ClassVar[float] = 1.0
    judged: ClassVar[str] = ""
    unit_name: ClassVar[str] = ""
    item: ClassVar[str] = "step"
    remedy: ClassVar[str] = "try a smaller --rate or --clip-norm"
    items: int = 1
    #: Why several processes cannot share a step.
    undivided: ClassVar[str] = "a step must be of several batches, its objective a BatchedObjective"

    @abstractmethod
    def __len__(self) -> int:
        """How many steps an epoch has."""

    @abstractmethod
    def feed(self, epoch: int, step: int) -> Trainable:
        """The objective of this step, fed."""

    def whole(self, theta: Array) -> Array:
        """All parameters of the model, where those that the objective is of have these values."""
        return np.asarray(theta)

    def share(self, ranks: Ranks) -> None:
        """From now on these processes make each step together. UsageError for a problem whose steps are not divided."""
        objective, batches = self.objective, getattr(self, "gradient_batches", None)
        if batches is not None and ranks.size > batches:
            raise UsageError(
                f"{type(self).__name__}: {ranks.size} processes cannot share the {batches} batches of a step; start "
                "fewer, or give more gradient_batches"
            )
        if isinstance(objective, BatchedObjective):
            objective.ranks = ranks
        elif ranks.size > 1:
            raise UsageError(
                f"{type(self).__name__} cannot be shared by {ranks.size} processes: {self.undivided}; start one process"
            )

    def require_fit(self, optimizer: Optimizer) -> None:
        """UsageError for an optimizer that this problem could only mislead, or not serve."""

    def compile(self) -> None:
        """Makes what steps compute with, so that what is in its way is known before the first; see gn.compile."""

    def stepped(self, point: Array, report: Report) -> None:
        """Takes along what the next step needs. point: where the step took its (first) gradient."""

    def weight(self, epoch: int, step: int) -> float:
        """How much the loss of this step counts in the mean of the epoch."""
        return 1.0

    def validate(self) -> float | None:
        """How bad the model is with its present parameters on what is kept for that; None where nothing is."""
        return None

    def metrics(self) -> Mapping[str, Callable[[], float]]:
        """What a Trainer can measure by name after `validate`, of the model with its present parameters: none.

        Each is a function without arguments, of what is kept to validate: {"accuracy": self._accuracy}.
        """
        return {}

    @property
    def row_names(self) -> tuple[str, str]:
        """What rows call the cost of the training data, and what `validate` gives."""
        return f"train_{self.measure}", f"valid_{self.judged or self.measure}"

    def row(self, epoch: int) -> dict[str, Any]:
        """What else the history keeps of an epoch, as JSON."""
        return {}

    def description(self) -> dict[str, Any]:
        """What must be the same for a run to be continued, besides the model: JSON, and arrays.

        Of a dataclass those that `graphnet_rnn.settings.setting` declared, but for free ones; its data are to be added.
        """
        return fixed_settings(self)

    # -- what it takes to go on ----------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """What a step leaves for the next one."""
        return {}

    def numbers(self) -> dict[str, Any]:
        """Numbers of that kind, as JSON: where random numbers are, e.g."""
        return {}

    def restore(self, arrays: Callable[[str, Array], Array], numbers: Mapping[str, Any]) -> None:
        """Goes on from there. arrays: the stored one of this name, of the shape and dtype of the other."""


class Validated(Generic[T]):
    """What validating found beside the loss, for as long as the model has the weights with which it was found."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._weights: list[Array] | None = None
        self._found: T | None = None

    def keep(self, found: T) -> None:
        """Of the model with its present weights."""
        self._weights, self._found = [array.copy() for array in self._present()], found

    def now(self, validate: Callable[[], object]) -> T | None:
        """What was kept, if the weights are the same still; else what `validate`, called here, keeps."""
        same = self._weights is not None and all(map(np.array_equal, self._weights, self._present()))
        if not same:
            validate()
        return self._found

    def _present(self) -> list[Array]:
        return [self._model.theta, *(np.asarray(node.value) for node in self._model.fixed.values())]


@dataclass(eq=False, repr=False)
class CompiledProblem(Problem):
    """A problem whose objective is compiled. threads, backend: see gn.compile."""

    _: KW_ONLY
    threads: Count | None = setting(
        None, "at most so many cores (default: all; see gn.compile)", free=True, type=int
    )
    backend: str = setting(
        "numba",
        "what computes: numba on the processor, cuda on an NVIDIA GPU",
        free=True,
        choices=list(AVAILABLE),
    )


@dataclass(eq=False, repr=False)
class ObjectiveProblem(CompiledProblem):
    """A problem whose objective is an rnn.Objective, or made of some, with these settings of it.

    frozen: patterns of the names of parameters that stay as they are, for every optimizer: ("layer0.*", "*.b_*"). They
    are no part of its vector, of no norm, curvature or l2. UsageError for one that fits none, and where all are frozen.
    """

    _: KW_ONLY
    clip_values: Limit | None = setting(
        None, "limit on each derivative at every node; 0 for none", default=0.0
    )
    l2: Amount = setting(0.0, "adds half of it times the squared weights to the loss")
    memory: str | int | None = setting(
        None,
        "what a step may keep: sqrt (grows as the root of --time), or so many bytes (default: all)",
        free=True,
    )

    frozen: str | Sequence[str] = setting(
        "", "patterns of parameters that stay as they are, with commas between: layer0.*,*.b_*"
    )

    def objective_settings(self) -> dict[str, Any]:
        """What rnn.Objective is to be told, the parameters that are trained among it."""
        found = {each.name: getattr(self, each.name) for each in declared_settings(ObjectiveProblem)}
        self.frozen = patterns(f"{type(self).__name__}: frozen", found.pop("frozen"))
        return {**found, "parameters": trained(type(self).__name__, self.model.parameters, self.frozen)}

    def whole(self, theta: Array) -> Array:
        if not self.frozen:
            return np.asarray(theta)
        found = self.model.theta.copy()
        chosen = trained(type(self).__name__, self.model.parameters, self.frozen)
        nodes = self.model.parameters.values()
        found[np.repeat([node in chosen for node in nodes], [node.size for node in nodes])] = theta
        return found

    def require_fit(self, optimizer: Optimizer) -> None:
        require_unclipped(type(self).__name__, self.clip_values, optimizer)

    def _require_part(self, curvature_batches: int) -> None:
        """UsageError where the curvature would be of more batches than a step has."""
        most = getattr(self, "gradient_batches", 1)
        if curvature_batches > most:
            raise UsageError(
                f"{type(self).__name__}: curvature_batches must be at most gradient_batches, {most}, of which they are "
                f"a part, not {curvature_batches}"
            )

    def _refuse_single_cases(self, optimizer: Optimizer) -> None:
        """UsageError for an optimizer that needs their gradients."""
        if optimizer.needs_single_cases:
            raise UsageError(
                f"{type(self).__name__}: a preconditioner that is an exponent needs the gradients of single cases; use "
                "a metric ('kfac')"
            )

    def _require_curved(self, optimizer: Optimizer) -> None:
        """UsageError for an optimizer that asks for no curvature, where batches for it are given."""
        if not optimizer.curved:
            raise UsageError(
                f"{type(self).__name__}: curvature_batches means nothing to {type(optimizer).__name__}, which asks for "
                "no curvature"
            )


def require_unclipped(owner: str, clip_values: float | None, optimizer: Optimizer) -> None:
    """UsageError for an optimizer that looks at the loss as well as at a gradient whose derivatives are clipped."""
    if clip_values is not None and not isinstance(optimizer, FirstOrder):
        raise UsageError(
            f"{owner}: clip_values would make the gradient another function's than the loss that "
            f"{type(optimizer).__name__} looks at; it is for first-order optimizers"
        )
