"""EnergyModel: base of the RBM and its temporal forms."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet_rnn.cell.initializers import Initializer
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.model import Model, float_dtype, seed_of
from graphnet_rnn.models.energy import equations
from graphnet_rnn.models.energy.annealing import annealed_growth
from graphnet_rnn.models.energy.units import visible_units
from graphnet_rnn.network.running import array_of, checked_floats
from graphnet_rnn.settings import whole_number, yes_or_no


class EnergyModel(Model):
    """Visible and hidden units joined by W (visible, hidden), with biases b_v and b_h.

    Base class of RBM, TRBM, RTRBM and RecurrentRBM; the interface that Stack and ContrastiveDivergence use.
    visible, hidden: numbers of units. visibles: "binary" (default) or "gaussian" visible units. sigma: standard
    deviation of Gaussian units, 1 by default. seed: seed of the initial parameters, 0 by default. dtype: "float32"
    (default) or "float64". initial: initializers by parameter name; by default those of the model. values: arrays by
    parameter name, instead of drawn ones.

    >>> models = [rnn.energy.RBM(4, 3), rnn.energy.TRBM(4, 3), rnn.energy.RTRBM(4, 3)]
    >>> [isinstance(model, rnn.energy.EnergyModel) for model in models]
    [True, True, True]
    >>> models[0].axes, models[1].axes
    (('cases', 'visible'), ('time', 'batch', 'visible'))
    >>> model = models[0]
    >>> list(model.declare()), list(model.sound_values())
    (['W', 'b_v', 'b_h'], ['W', 'b_v', 'b_h'])
    >>> data = model.check_data("data", np.eye(4))
    >>> h = model.check_hidden("h", model.infer(data))
    >>> h.shape, model.read_out(h, data).shape, model.reconstruct(data).shape
    ((4, 3), (4, 4), (4, 4))
    >>> model.activities(data, np.random.default_rng(0)).shape, [b.shape for b in model.biases(data)]
    ((4, 3), [(4,), (3,)])
    >>> model.estimated_log_probabilities(data, temperatures=20).round(1).tolist()
    [-2.8, -2.8, -2.8, -2.8]
    >>> v, v_k = gn.input((4, 4), name="v"), gn.input((4, 4), name="v_k")
    >>> [node.shape for node in model.machine(v)], model.energies(v, v_k).shape, model.divergence(v, v_k).shape
    ([(4, 3), (4,), (3,)], (4,), ())
    """

    #: Axes of data, with visible units last; `case_axis` is the axis of batches.
    axes: ClassVar[tuple[str, ...]] = ("cases", "visible")
    case_axis: ClassVar[int] = 0

    def __init__(
        self,
        visible: int,
        hidden: int,
        visibles: str = "binary",
        sigma: float = 1.0,
        seed: int = 0,
        dtype: Any = "float32",
        initial: Mapping[str, Initializer] | None = None,
        values: Mapping[str, Array] | None = None,
    ) -> None:
        owner = type(self).__name__
        self.visible = whole_number(f"{owner}: visible", visible)
        self.hidden = whole_number(f"{owner}: hidden", hidden)
        self.units = visible_units(owner, visibles, sigma)
        self.visibles, self.sigma = visibles, float(sigma)
        self.seed, self.dtype = seed_of(owner, seed), float_dtype(owner, dtype)
        self.declare_parameters(self.declare(), self.seed, self.dtype, initial, values)

    # -- parameters --------------------------------------------------------------------------

    @abstractmethod
    def declare(self) -> dict[str, tuple[tuple[int, ...], Initializer]]:
        """Returns shape and initializer of every parameter by name, in the order of `theta`."""

    @property
    def values(self) -> dict[str, Array]:
        """Arrays of the parameters by name; they share memory with `theta`."""
        return {name: node.value for name, node in self.parameters.items()}

    def sound_values(self) -> dict[str, Array]:
        """`values`; UsageError if a number is not finite, as draws would still look valid."""
        self.require_finite(type(self).__name__)
        return self.values

    # -- data --------------------------------------------------------------------------------

    def check_data(self, what: str, data: Any, exact: bool = False) -> Array:
        """Returns the data as an array of the model's dtype; DataError, naming `what`, if they are invalid.

        exact: True requires that binary visible units are 0 or 1, nothing between.
        """
        owner = f"{type(self).__name__}: {what}"
        exact = yes_or_no(f"{owner}: exact", exact)
        v = self._check_array(what, data, self.visible)
        (self.units.check_exact if exact else self.units.check)(owner, v)
        return v

    def check_hidden(self, what: str, data: Any) -> Array:
        """Returns hidden states, or their probabilities, as an array of the model's dtype.

        what: name of the data in errors. data: numbers in [0, 1], shaped like visible data with `hidden` columns.
        Raises DataError for other shapes or numbers.
        """
        h = self._check_array(what, data, self.hidden)
        if h.size and (h.min() < 0 or h.max() > 1):
            raise DataError(
                f"{type(self).__name__}: {what} must lie in [0, 1], but go from {h.min():g} to {h.max():g}."
            )
        return h

    def _check_array(self, what: str, data: Any, width: int) -> Array:
        owner, shape = f"{type(self).__name__}: {what}", f"({', '.join((*self.axes[:-1], str(width)))})"
        array = array_of(owner, data, f" of shape {shape}")
        if array.ndim != len(self.axes) or array.shape[-1] != width or 0 in array.shape:
            raise DataError(f"{owner} must have shape {shape} and not be empty, not {list(array.shape)}")
        return checked_floats(owner, array, self.dtype)

    # -- methods of all models ---------------------------------------------------------------

    @abstractmethod
    def machine(self, v: Node) -> tuple[Node, Node, Node]:
        """W, b_v and b_h, as nodes, of the RBM for each row of v; vectors if all rows have the same."""

    def energies(self, v: Node, x: Node) -> Node:
        """F(x): free energies in the RBMs for the rows of v; x like v, or (chains, *shape of v)."""
        return equations.free_energy(x, *self.machine(v), self.units)

    def divergence(self, v: Node, v_k: Node, reference: Node | None = None) -> Node:
        """mean [F(v) - F(v_k)], v_k constant: its gradient is that of contrastive divergence.

        v_k: the end of a chain for each row of v, or of several, (chains, *shape of v). reference: F_k(v_k), the
        `energies` of the v_k at the parameters with which the chains were drawn. With it, the result is

            mean [F(v) + log (1/M) Σ_m exp(F_k(v_m) - F(v_m))]

        over the M chains of each row (of all rows, if they share one RBM): an estimate of the mean of -log P(v), less
        the log Z at those parameters, with the same gradient there. Several chains need it. For a model of sequences,
        the mean is over time and batch, and F of step t has the biases that depend on the past.
        Its curvature in Gauss-Newton products is that of the second term, which is convex in W and the biases: the
        covariance, over the chains, of v, h and v hᵀ. With one chain for each RBM it is that of h given v.
        Raises UsageError for several chains without a reference.
        Source: Hinton 2002; Sutskever 2013, 2.7, 3.2.2 (TRBM) and 3.9-3.10 (RTRBM); Geyer & Thompson 1992.
        """
        if reference is None and v_k.ndim > v.ndim:
            raise UsageError(
                f"{type(self).__name__}.divergence: several chains for each case, {list(v_k.shape)}, need "
                "reference=, the energies of the chains by the parameters that drew them. For unchanged parameters, "
                "pass gn.stop_gradient(model.energies(v, v_k))"
            )
        W, b_v, b_h = self.machine(v)
        data = equations.free_energy(v, W, b_v, b_h, self.units)
        common, several = b_v.ndim == b_h.ndim == 1, v_k.ndim > v.ndim

        def model(W: Node, b_v: Node, b_h: Node, v_k: Node, reference: Node | None = None) -> Node:
            """Growth of log Z of each row's RBM, up to a constant."""
            energies = equations.free_energy(gn.stop_gradient(v_k), W, b_v, b_h, self.units)
            if reference is None:
                return -energies
            reference = gn.stop_gradient(reference)
            if common:  # all chains estimate one Z
                grown = equations.growth(gn.reshape(energies, (-1,)), gn.reshape(reference, (-1,)))
                return gn.broadcast_to(grown, data.shape)
            return equations.growth(energies, reference) if several else reference - energies

        given = [v_k] if reference is None else [v_k, reference]
        loss = data + model(W, b_v, b_h, *given)
        return gn.mean(gn.with_surrogate(loss, model, [W, b_v, b_h], given))

    @abstractmethod
    def biases(self, v: Array) -> tuple[Array, Array]:
        """b_v and b_h of the RBM for each row of v."""

    def estimated_log_probabilities(
        self, v: Any, temperatures: int = 1000, chains: int = 10, seed: int = 0
    ) -> Array:
        """log P(v) in nats of each row of v, in a temporal model given its past, estimated; without the last axis of v

        -F(v) - log Z, with Z estimated by annealed importance sampling. temperatures: number of steps of each chain,
        1000 by default. chains: number for the RBM of each row (for the one RBM of all rows), 10 by default. seed: of
        the random numbers. log Z tends to be too low, so log P too high: raise both numbers until the result is stable.
        For models that are too large for the exact `log_likelihood`.
        Source: Salakhutdinov & Murray 2008; Boulanger-Lewandowski, Bengio & Vincent 2012 (RTRBM on music).
        """
        owner = f"{type(self).__name__}.estimated_log_probabilities"
        data = self.check_data("v", v, exact=True)
        self.sound_values()
        steps = whole_number(f"{owner}: temperatures", temperatures)
        count = whole_number(f"{owner}: chains", chains)
        generator = as_generator(owner, seed)
        W, flat = self.values["W"], data.reshape(-1, self.visible)
        b_v, b_h = (b.reshape(-1, b.shape[-1]) for b in self.biases(data))
        grown = annealed_growth(W, b_v, b_h, self.units, steps, count, generator)
        arrays = [x.astype(np.float64) for x in (flat, W, b_v, b_h)]
        x, weights, visible, hidden = nodes = [gn.input(each.shape, "float64") for each in arrays]
        energy = equations.free_energy(x, weights, visible, hidden, self.units)
        found = gn.compile([energy, self.units.log_normaliser(visible)], nodes, backend="numpy")(*arrays)
        log_z = found[1] + self.hidden * math.log(2) + grown
        result: Array = (-found[0] - log_z).reshape(data.shape[:-1])
        return result

    @abstractmethod
    def infer(self, v: Any) -> Array:
        """Returns the probabilities of the hidden units given the data v."""

    @abstractmethod
    def read_out(self, h: Any, v: Any) -> Array:
        """E[v|h]; directed connections, if there are any, read the given v."""

    @abstractmethod
    def activities(self, v: Array, generator: np.random.Generator) -> Array:
        """Returns hidden states for the data v, as training data of a model on top of this one.

        generator: source of the random numbers, for models that draw the states.
        """

    def reconstruct(self, v: Any) -> Array:
        """E[v|h] at h = the probabilities inferred from v, for denoising."""
        return self.read_out(self.infer(v), v)

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({listed}): {self.theta.size:,} parameters"


def as_generator(owner: str, seed: int, *more: int) -> np.random.Generator:
    """Returns a generator with this seed; UsageError for an invalid one."""
    return np.random.default_rng([whole_number(f"{owner}: seed", seed, least=0), *more])


def raised(data: Array, layers: Sequence[EnergyModel], generator: np.random.Generator) -> Array:
    """Activities of the last of the layers, each of which reads those of the one before."""
    for layer in layers:
        data = layer.activities(data, generator)
    return data
