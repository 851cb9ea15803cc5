"""Problem: the interface between a Trainer and a model with its data."""

from __future__ import annotations

import json
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
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.groups import patterns, trained
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.optimizers.step import Stepped
from graphnet_rnn.parallel.ranks import Ranks
from graphnet_rnn.settings import (
    Amount,
    Count,
    Limit,
    NamedArguments,
    declared_settings,
    fixed_settings,
    setting,
    shown,
)  # fmt: skip

T = TypeVar("T")


class Trainable(Stepped, Protocol):
    """The objective of a step, with its batch."""

    def start(self) -> Array:
        """Returns the present parameters as a new vector, in the back end's memory."""

    def place(self, vector: Array) -> Array:
        """Copies a vector to the back end's memory."""

    def penalty(self, w: Array) -> float:
        """Returns the part of the loss that is not cost, such as l2."""


class Problem(ABC):
    """Interface between a Trainer and a model with its data: feeds the objective, step by step.

    A subclass defines the number of steps of an epoch, and feeds the objective of each step. Everything that depends on
    (epoch, step) only needs no more to resume exactly. Return other state from `arrays` and `numbers`, and restore it
    in `restore`.

    model: the model to train.
    objective: the objective of the steps.
    measure: name of the training cost in rows, default "loss" ("train_loss").
    unit: divisor of the cost, in units of the objective's loss, e.g. ln 2 for bits; default 1.
    judged: name of the validation measure in rows, if it differs from `measure` ("valid_wrong").
    unit_name: unit in words, for messages.
    item, items: what a step processes, and how many of it, for the speed ("char", 1600).
    remedy: advice when a step is not finite.
    undivided: reason why processes cannot share a step.

    >>> class Fit(rnn.Problem):
    ...     def __init__(self, model, x, t):
    ...         u = model.unroll(time=5, batch=4, initial="zero")
    ...         self.model, self.x, self.t = model, x, t
    ...         self.objective = rnn.Objective(gn.mean(u.losses), model.parameters, [u.inputs, u.targets])
    ...     def __len__(self):
    ...         return len(self.x)
    ...     def feed(self, epoch, step):
    ...         self.objective.feed(self.x[step], self.t[step])
    ...         return self.objective
    >>> x = np.zeros((3, 5, 4), int)  # (steps, time, batch)
    >>> net = rnn.Network([rnn.Elman(4)], inputs=2, outputs=2)
    >>> rnn.Trainer(Fit(net, x, 1 - x), rnn.Training(epochs=2)).run().steps
    6
    >>> problem, optimizer = Fit(net, x, 1 - x), rnn.Adam(rate=0.01)  # the calls of a Trainer
    >>> problem.require_fit(optimizer)
    >>> problem.share(rnn.parallel.Ranks())
    >>> problem.compile()
    >>> theta = problem.objective.start()
    >>> report = optimizer.step(problem.feed(0, 0), theta, optimizer.init(theta))
    >>> problem.stepped(theta, report)
    >>> problem.whole(theta).size == theta.size, problem.weight(epoch=0, step=0), problem.validate()
    (True, 1.0, None)
    >>> problem.row(epoch=1), problem.metrics(), problem.description()
    ({}, {}, {})
    >>> arrays, numbers = problem.arrays(), problem.numbers()  # stored in the checkpoint
    >>> problem.restore(lambda name, like: arrays[name], numbers)
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
    undivided: ClassVar[str] = (
        "only a step of several batches (its gradient_batches, fed by Objective.feed_batches) can be shared"
    )

    @abstractmethod
    def __len__(self) -> int:
        """Number of steps of an epoch."""

    @abstractmethod
    def feed(self, epoch: int, step: int) -> Trainable:
        """Feeds the objective with the batch of this epoch and step (both from 0) and returns it."""

    def whole(self, theta: Array) -> Array:
        """Returns all parameters of the model, with the values `theta` for those of the objective."""
        return np.asarray(theta)

    def share(self, ranks: Ranks) -> None:
        """Shares each step among the processes of `ranks`. Raises UsageError for a problem whose steps cannot be
        shared.
        """
        objective, batches = self.objective, getattr(self, "gradient_batches", None)
        if batches is not None and ranks.size > batches:
            raise UsageError(
                f"{type(self).__name__}: {ranks.size} processes cannot share the {batches} batches of a step; start "
                "fewer processes, or increase gradient_batches"
            )
        if batches is not None and isinstance(objective, Objective):
            objective.ranks = ranks
        elif ranks.size > 1:
            raise UsageError(
                f"{type(self).__name__} cannot be shared by {ranks.size} processes: {self.undivided}; start one process"
            )

    def require_fit(self, optimizer: Optimizer) -> None:
        """Raises UsageError for an `optimizer` that is not suitable for this problem."""

    def compile(self) -> None:
        """Compiles the functions of the steps, so that errors occur before the first step; see gn.compile."""

    def stepped(self, point: Array, report: Report) -> None:
        """Called after each step, to store state for the next one.

        point: the parameters at which the step computed its (first) gradient. report: the optimizer's report.
        """

    def weight(self, epoch: int, step: int) -> float:
        """Returns the weight of this step's loss in the mean of the epoch, which has no loss if all weights are 0."""
        return 1.0

    def validate(self) -> float | None:
        """Returns the validation cost of the model with its present parameters; None without validation data."""
        return None

    def metrics(self) -> Mapping[str, Callable[[], float]]:
        """Metrics by name that a Trainer can evaluate after `validate`, with the model's present parameters; none by
        default.

        Each is a function without arguments, on the validation data: {"accuracy": self._accuracy}.
        """
        return {}

    @property
    def row_names(self) -> tuple[str, str]:
        """Names of the training and validation cost in rows."""
        return f"train_{self.measure}", f"valid_{self.judged or self.measure}"

    def row(self, epoch: int) -> dict[str, Any]:
        """Returns more entries for the history's row of an epoch, as JSON."""
        return {}

    def description(self) -> dict[str, Any]:
        """Returns all that must not change on resume, besides the model: JSON and arrays.

        For a dataclass, the fields declared by `graphnet_rnn.settings.setting` that are not free; add the data.
        """
        return fixed_settings(self)

    # -- what it takes to go on ----------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Returns arrays that one step passes to the next."""
        return {}

    def numbers(self) -> dict[str, Any]:
        """Returns JSON that one step passes to the next, such as the state of a random generator."""
        return {}

    def restore(self, arrays: Callable[[str, Array], Array], numbers: Mapping[str, Any]) -> None:
        """Restores the state of a checkpoint.

        arrays: function (name, like) that returns the stored array, checked against the shape and dtype of `like`.
        numbers: the stored JSON of `numbers`.
        """


class Validated(Generic[T]):
    """Cache of validation results, valid as long as the model's weights do not change."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._weights: list[Array] | None = None
        self._found: T | None = None

    def keep(self, found: T) -> None:
        """Stores the result for the present weights."""
        self._weights, self._found = [array.copy() for array in self._present()], found

    def now(self, validate: Callable[[], object]) -> T | None:
        """Returns the cached result; calls `validate`, which stores a new one, if the weights have changed."""
        same = self._weights is not None and all(map(np.array_equal, self._weights, self._present()))
        if not same:
            validate()
        return self._found

    def _present(self) -> list[Array]:
        return [self._model.theta, *(np.asarray(node.value) for node in self._model.fixed.values())]


@dataclass(eq=False, repr=False)
class CompiledProblem(Problem):
    """A problem whose objective is compiled. threads: maximum number of threads, default all cores; backend: "numba" or
    "cuda"; see gn.compile.
    """

    _: KW_ONLY
    threads: Count | None = setting(
        None, "maximum number of threads (default: all cores; see gn.compile)", free=True, type=int
    )
    backend: str = setting(
        "numba",
        "back end: numba (CPU) or cuda (NVIDIA GPU)",
        free=True,
        choices=list(AVAILABLE),
    )


@dataclass(eq=False, repr=False)
class ObjectiveProblem(NamedArguments, CompiledProblem):
    """A problem whose objective is an rnn.Objective, with these settings of it.

    clip_values, l2, memory: see Objective.
    frozen: patterns of parameter names that are not trained, by any optimizer: ("layer0.*", "*.b_*"). They are no part
    of the objective's vector, norms, curvature or l2. Raises UsageError for a pattern without a match, and if all
    parameters are frozen.
    """

    #: True if `objective` has squared gradients of single cases, see Objective.
    has_single_cases: ClassVar[bool] = False

    _: KW_ONLY
    clip_values: Limit | None = setting(
        None, "limit on each derivative at every node; 0 for none", default=0.0
    )
    l2: Amount = setting(0.0, "adds half of this times the sum of squared weights to the loss")
    memory: str | int | None = setting(
        None,
        "memory limit of a step: sqrt (grows as the square root of --time), or bytes (default: none)",
        free=True,
    )

    frozen: str | Sequence[str] = setting(
        "", "patterns of parameters that are not trained, separated by commas: layer0.*,*.b_*"
    )

    def objective_settings(self) -> dict[str, Any]:
        """Returns the keyword arguments of rnn.Objective, with the trained parameters."""
        found = {each.name: getattr(self, each.name) for each in declared_settings(ObjectiveProblem)}
        self.frozen = patterns(f"{type(self).__name__}: frozen", found.pop("frozen"))
        return {**found, "parameters": trained(type(self).__name__, self.model.parameters, self.frozen)}

    def whole(self, theta: Array) -> Array:
        if not self.frozen:
            return np.asarray(theta)
        found = self.model.theta.copy()
        chosen = trained(type(self).__name__, self.model.parameters, self.frozen)
        parameters = self.model.parameters
        sizes = [node.size for node in parameters.values()]
        found[np.repeat([name in chosen for name in parameters], sizes)] = theta
        return found

    def require_fit(self, optimizer: Optimizer) -> None:
        require_unclipped(type(self).__name__, self.clip_values, optimizer)
        if optimizer.needs_single_cases and not self.has_single_cases:
            raise UsageError(
                f"{type(self).__name__}: an exponent as preconditioner needs the gradients of single cases, which "
                "this problem cannot compute; use a metric, e.g. preconditioner='kfac'"
            )

    def _require_part(self, curvature_batches: int) -> None:
        most = getattr(self, "gradient_batches", 1)
        if curvature_batches > most:
            raise UsageError(
                f"{type(self).__name__}: curvature_batches must be at most gradient_batches ({most}), not "
                f"{curvature_batches}"
            )

    def _require_curved(self, optimizer: Optimizer) -> None:
        if not optimizer.curved:
            raise UsageError(
                f"{type(self).__name__}: curvature_batches has no effect, since {type(optimizer).__name__} uses no "
                "curvature; leave it out"
            )


def plain(value: Any) -> Any:
    """A number of NumPy, or an array of no axes, as a number of Python; any other value unchanged."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value


def entries_of(problem: Problem, epoch: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """The problem's own entries of an epoch's row, as JSON. Raises UsageError."""
    owner, found = f"{type(problem).__name__}.row", {}
    for name, value in problem.row(epoch).items():
        if name in row:
            raise UsageError(
                f"{owner}: the row of an epoch already has an entry {name!r}; choose another name"
            )
        found[name] = plain(value)
        try:
            json.dumps(found[name], allow_nan=isinstance(found[name], float))
        except (TypeError, ValueError):
            raise UsageError(f"{owner}: {name} must be JSON, not {shown(value)}") from None
    return found


def require_unclipped(owner: str, clip_values: float | None, optimizer: Optimizer) -> None:
    """Raises UsageError for clip_values with an optimizer that also uses the loss, which clipped derivatives do not
    match.
    """
    if clip_values is not None and not isinstance(optimizer, FirstOrder):
        raise UsageError(
            f"{owner}: clip_values applies only to first-order optimizers; {type(optimizer).__name__} also uses the "
            "loss, which the clipped gradient would not match. Leave it out"
        )
