"""Model: named parameters in one flat vector, and the settings that recreate the model."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.display import ShowsItself
from graphnet.graph.dtypes import as_dtype, held_as, is_float
from graphnet.graph.node import Array, Dtype, Node
from graphnet_rnn.cell.initializers import Initializer, checked_initial
from graphnet_rnn.cell.weights import FlatParameters, ParameterNodes, Weights
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.json_values import to_json
from graphnet_rnn.settings import shown, whole_number

#: Arguments for initial values, which a file replaces.
HELD = ("initial", "values")
#: Names that no argument may have, besides those of Model's attributes: of nodes, and of the class in a description.
OWN = ("fixed", "model", "parameters")
#: Beginning of names in files that are not names of weights.
STATE, METADATA = "state.", "__metadata__"


class Model(FlatParameters, ShowsItself, ABC):
    """Base class of models: parameters, fixed weights, settings, and a graph of the equations. `rnn.save` saves it, a
    Trainer trains it.

    A subclass stores its arguments under their names, accepts `values`, and declares its parameters. `rnn.load(path,
    [Line])` then recreates it. Arguments may be JSON values, cells and models. The parameters of a model among them,
    e.g. `below`, follow the declared ones, with the names "below.w" (for a list of models, "layers.0.w"). `theta` is
    then a copy, which must be set as a whole. To compose networks only, use rnn.composed.

    >>> class Line(rnn.Model):
    ...     '''y = x w + b'''
    ...     def __init__(self, width, seed=0, values=None):
    ...         self.width, self.seed = width, seed
    ...         shapes = {"w": ((width,), rnn.initializers.normal(0.1)), "b": ((1,), rnn.initializers.zeros())}
    ...         self.declare_parameters(shapes, seed, "float32", values=values)
    ...     def __graph__(self):
    ...         x = gn.input((1, self.width), name="x")
    ...         return gn.Graph(x @ self.parameters["w"] + self.parameters["b"], [x])
    >>> line = Line(3)
    >>> line.theta = [1, 2, 3, 4]
    >>> line.parameters["w"].value.tolist()
    [1.0, 2.0, 3.0]
    >>> line.settings(), line.description()
    ({'width': 3, 'seed': 0}, {'model': 'Line', 'width': 3, 'seed': 0})
    """

    #: The models among the arguments, by prefix of their parameters' names.
    parts: Mapping[str, Model] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        """Raises UsageError for an argument with the name of a Model attribute or of an entry of its description."""
        super().__init_subclass__(**more)
        taken = [name for name in inspect.signature(cls).parameters if name in OWN or hasattr(Model, name)]
        if taken:
            raise UsageError(
                f"{cls.__name__}.__init__ has an argument {taken[0]!r}, the name of an attribute of every "
                f"model; rename it, e.g. {taken[0]}_"
            )

    @abstractmethod
    def __graph__(self) -> gn.Graph:
        """Returns the equations, for pictures, and for files, which detect changed equations by it."""

    def declare_parameters(
        self,
        declared: Mapping[str, tuple[tuple[int, ...], Initializer | None]],
        seed: int,
        dtype: Any,
        initial: Mapping[str, Initializer] | None = None,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        """Creates the parameters, in the order of `theta`.

        declared: name -> (shape, initializer).
        seed: seed of the initializers.
        dtype: "float32" or "float64".
        initial: other initializers, by patterns of names; default None.
        values: values by name, instead of initializers; default None. Raises UsageError for a missing value, and for
        another shape or dtype.
        """
        weights = Weights("", seed, as_dtype(dtype), checked_initial(type(self).__name__, initial), values)
        if values is None:
            with weights.planned():
                for name, (shape, initializer) in declared.items():
                    weights.get(name, shape, initializer)
        for name, (shape, initializer) in declared.items():
            weights.get(name, shape, initializer)
        weights.require_patterns(type(self).__name__)
        self.lay_out([weights], weights.dtype)
        self.parts = self._distinct_models()
        self.parameters = ParameterNodes(self.parameters | self._of_parts("parameters"))
        self.fixed = ParameterNodes(self.fixed | self._of_parts("fixed"))
        for name in (*self.parameters, *self.fixed):
            if name.startswith((STATE, METADATA)):
                raise UsageError(
                    f"{type(self).__name__}: a weight has the name {name!r}, but names that begin with {STATE!r} or "
                    f"{METADATA!r} have another meaning in model files; rename the weight or the argument"
                )

    def _of_parts(self, kind: str) -> dict[str, Node]:
        parts = self.parts.items()
        return {
            f"{part}.{name}": node for part, model in parts for name, node in getattr(model, kind).items()
        }

    def _distinct_models(self) -> dict[str, Model]:
        found: dict[str, Model] = {}
        for name, model in self._models_among_arguments():
            for other, known in found.items():
                if known is model:
                    raise UsageError(
                        f"{type(self).__name__}: {other} and {name} are the same {type(model).__name__}; pass it "
                        "once, and unroll it twice to share its weights"
                    )
            found[name] = model
        return found

    def _models_among_arguments(self) -> Iterator[tuple[str, Model]]:
        for name in inspect.signature(type(self)).parameters:
            value = getattr(self, name, None)
            if isinstance(value, Model):
                yield name, value
            elif isinstance(value, (list, tuple)):
                yield from ((f"{name}.{i}", each) for i, each in enumerate(value) if isinstance(each, Model))

    @property
    def theta(self) -> Array:
        """All parameters as one flat vector; shares memory with `parameters[...].value`, unless there are parts."""
        if not self.parts:
            return self._theta
        return np.concatenate([self._theta, *(model.theta for model in self.parts.values())])

    @theta.setter
    def theta(self, vector: Any) -> None:
        sizes = [self._theta.size, *(model.theta.size for model in self.parts.values())]
        own, *rest = np.split(self.checked_theta(vector, sum(sizes)), np.cumsum(sizes)[:-1])
        self._theta[...] = held_as(own, self._theta.dtype, "theta")
        for model, part in zip(self.parts.values(), rest, strict=True):
            model.theta = part

    def settings(self) -> dict[str, Any]:
        """Returns the arguments that recreate the model, without initial values, from its attributes of these names."""
        listed = inspect.signature(type(self)).parameters
        missing = [name for name in listed if name not in HELD and not hasattr(self, name)]
        if missing:
            raise UsageError(
                f"{type(self).__name__} does not store its argument {missing[0]!r}, so a file could not recreate it; "
                f"write self.{missing[0]} = {missing[0]} in __init__."
            )
        found = {name: getattr(self, name) for name in listed if name not in HELD}
        return {name: v.name if isinstance(v, np.dtype) else v for name, v in found.items()}

    def description(self) -> dict[str, Any]:
        """Returns class and settings as JSON. Raises UsageError for a setting that JSON cannot restore."""
        described: dict[str, Any] = {"model": type(self).__name__}
        for name, value in self.settings().items():
            try:
                described[name] = to_json(value)
            except TypeError as error:
                raise UsageError(
                    f"{type(self).__name__}: its setting {name} = {shown(value)} cannot be stored in a file: {error}"
                ) from None
        return described


def float_dtype(owner: str, dtype: Any) -> Dtype:
    """Returns the dtype; UsageError unless it is float32 or float64."""
    found = as_dtype(dtype)
    if not is_float(found):
        raise UsageError(f"{owner}: dtype must be float32 or float64, not {found}")
    return found


def seed_of(owner: str, seed: Any) -> int:
    """Returns the seed; UsageError if invalid."""
    return whole_number(f"{owner}: seed", seed, least=0)


class ModelObjective:
    """Methods of an objective besides losses and gradients, for a model's parameters."""

    model: Model

    @property
    def size(self) -> int:
        return int(self.model.theta.size)

    def start(self) -> Array:
        """Returns the present parameters as a new vector."""
        return self.model.theta.copy()

    def place(self, vector: Array) -> Array:
        """Copies a vector."""
        return vector.copy()

    def set(self, w: Array) -> None:
        """Sets the model's parameters to the values of the vector."""
        self.model.theta = w

    def penalty(self, w: Array) -> float:
        """Returns 0: there is no l2."""
        return 0.0

    def explain_non_finite(self) -> None:
        """Returns None: the origin is unknown."""
