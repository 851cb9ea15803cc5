"""EnergyModel: parameters in one flat vector, and what an RBM and its temporal forms have in common."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.display import ShowsItself
from graphnet.dtypes import as_dtype, is_float
from graphnet.node import Array, Node
from graphnet_rnn.energy.units import visible_units
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.initializers import Initializer, checked_initial
from graphnet_rnn.settings import whole_number
from graphnet_rnn.weights import FlatParameters, Weights

__all__ = ["EnergyModel"]


class EnergyModel(FlatParameters, ShowsItself, ABC):
    """Visible and hidden units joined by W (visible, hidden), with biases b_v and b_h.

    What a layer of a Stack and ContrastiveDivergence need is declared here.
    """

    #: The axes of data, last the visible units; `case_axis` is the one along which batches are taken.
    axes: ClassVar[tuple[str, ...]] = ("cases", "visible")
    case_axis: ClassVar[int] = 0

    def __init__(
        self,
        visible: int,
        hidden: int,
        visibles: str,
        sigma: float,
        seed: int,
        dtype: Any,
        initial: Mapping[str, Initializer] | None,
    ) -> None:
        owner = type(self).__name__
        self.visible = whole_number(f"{owner}: visible", visible)
        self.hidden = whole_number(f"{owner}: hidden", hidden)
        self.units = visible_units(owner, visibles, sigma)
        self.visibles, self.sigma = visibles, float(sigma)
        self.seed = whole_number(f"{owner}: seed", seed, least=0)
        self.dtype = as_dtype(dtype)
        if not is_float(self.dtype):
            raise UsageError(f"{owner}: dtype must be float32 or float64, not {self.dtype}")
        self._make_parameters(checked_initial(owner, initial))

    # -- parameters --------------------------------------------------------------------------

    @abstractmethod
    def declare(self) -> dict[str, tuple[tuple[int, ...], Initializer]]:
        """Shape and initializer of every parameter by name, in the order of `theta`."""

    def _make_parameters(self, initial: Mapping[str, Initializer]) -> None:
        weights = Weights("", self.seed, self.dtype, initial)
        for name, (shape, initializer) in self.declare().items():
            weights.get(name, shape, initializer)
        weights.require_patterns(type(self).__name__)
        self.lay_out([weights], self.dtype)

    @property
    def values(self) -> dict[str, Array]:
        """The parameters' arrays by name; they share memory with `theta`."""
        return {name: node.value for name, node in self.parameters.items()}

    def sound_values(self) -> dict[str, Array]:
        """`values`; UsageError if one is not finite: draws would then look like data."""
        for name, value in self.values.items():
            if not np.isfinite(value).all():
                raise UsageError(
                    f"{type(self).__name__}: the parameter {name} holds NaN or infinities, so nothing can be inferred "
                    "or drawn; set `theta` to what it was before, and learn with a smaller rate."
                )
        return self.values

    # -- data --------------------------------------------------------------------------------

    def check_data(self, what: str, data: Any, exact: bool = False) -> Array:
        """The data as an array of the model's dtype; DataError, naming `what`, if they do not fit.

        exact: binary visible units are 0 or 1, nothing between.
        """
        v = self._check_array(what, data, self.visible)
        owner = f"{type(self).__name__}: {what}"
        (self.units.check_exact if exact else self.units.check)(owner, v)
        return v

    def check_hidden(self, what: str, data: Any) -> Array:
        """Hidden states, or their probabilities, as an array of the model's dtype; DataError if they do not fit."""
        h = self._check_array(what, data, self.hidden)
        if h.size and (h.min() < 0 or h.max() > 1):
            raise DataError(
                f"{type(self).__name__}: {what} must lie in [0, 1], but go from {h.min():g} to {h.max():g}."
            )
        return h

    def _check_array(self, what: str, data: Any, width: int) -> Array:
        owner = type(self).__name__
        wanted = f"({', '.join((*self.axes[:-1], str(width)))})"
        try:
            array = np.asarray(data)
        except ValueError as error:
            raise DataError(f"{owner}: {what} must be an array of shape {wanted}: {error}") from None
        if array.dtype.kind not in "biuf":
            raise DataError(f"{owner}: {what} must be numbers of shape {wanted}, not {data!r:.60}")
        if array.ndim != len(self.axes) or array.shape[-1] != width or 0 in array.shape:
            raise DataError(
                f"{owner}: {what} must have shape {wanted}, none of them 0, not {list(array.shape)}"
            )
        with np.errstate(over="ignore"):
            converted = array.astype(self.dtype)
        if not np.isfinite(converted).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(converted))[0])
            raise DataError(
                f"{owner}: {what} at {list(place)} is {array[place]}, not a finite {self.dtype.name}"
            )
        return converted

    # -- what every model can do -------------------------------------------------------------

    @abstractmethod
    def divergence(self, v: Node, v_k: Node) -> Node:
        """mean [F(v) - F(v_k)], v_k constant: its gradient is that of contrastive divergence."""

    @abstractmethod
    def __graph__(self) -> gn.Graph:
        """Equations of the model, for pictures."""

    @abstractmethod
    def biases(self, v: Array) -> tuple[Array, Array]:
        """b_v and b_h of the RBM that each row of v is judged by."""

    @abstractmethod
    def infer(self, v: Any) -> Array:
        """The hidden units' probabilities given the data."""

    @abstractmethod
    def read_out(self, h: Any, v: Any) -> Array:
        """E[v|h], with directed connections, if there are any, reading the given v."""

    @abstractmethod
    def activities(self, v: Array, generator: np.random.Generator) -> Array:
        """Hidden states for the data, from which a model on top of this one learns."""

    def reconstruct(self, v: Any) -> Array:
        """E[v|h] at h = the probabilities inferred from v: denoises what the model has learned."""
        return self.read_out(self.infer(v), v)

    def settings(self) -> dict[str, Any]:
        """The arguments that make this architecture again, without initializers."""
        names = [name for name in inspect.signature(type(self)).parameters if name != "initial"]
        return {**{name: getattr(self, name) for name in names}, "dtype": self.dtype.name}

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({listed}): {self.theta.size:,} parameters"


def as_generator(owner: str, seed: int, *more: int) -> np.random.Generator:
    """A generator of this seed; UsageError for one that cannot be meant."""
    return np.random.default_rng([whole_number(f"{owner}: seed", seed, least=0), *more])
