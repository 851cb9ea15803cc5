"""Initial weights. Each initializer is a function (generator, shape) -> float64 array.

A shape is (in, out), as in `x @ W`; a vector has one axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphnet.errors import GraphnetError
from graphnet.graph.dtypes import require_unmasked
from graphnet.graph.node import Array
from graphnet.settings import amount, fraction, number, shown, whole_number, yes_or_no
from graphnet_rnn.errors import UsageError

__all__ = [
    "Initializer", "array", "constant", "glorot", "log_frequencies", "log_odds", "normal", "orthogonal", "reservoir",
    "sparse", "spread", "stacked", "thinned", "uniform", "zeros",
]  # fmt: skip

#: Targets that are counted at once: those of a long text are a file mapped into memory.
PIECE = 1 << 20

Initializer = Callable[[np.random.Generator, tuple[int, ...]], Array]


def wrong_initial(given: Any) -> str:
    """What is wrong with initializers by the names of weights, in words; "" if nothing is."""
    if isinstance(given, Mapping) and all(
        isinstance(k, str) and callable(v) and not isinstance(v, type) for k, v in given.items()
    ):
        return ""
    remedy = "{'W_*': rnn.initializers.normal(0.1)}"
    return f"must hold initializers by the names of weights, e.g. {remedy}, not {shown(given)}"


def checked_initial(
    who: str, initial: Any, error: type[GraphnetError] = UsageError
) -> dict[str, Initializer]:
    """Initializers by pattern, none for None; an error for anything else."""
    if initial is None:
        return {}
    if wrong := wrong_initial(initial):
        raise error(f"{who}: initial {wrong}")
    return dict(initial)


def zeros() -> Initializer:
    """w = 0"""
    return constant(0.0)


def constant(value: float) -> Initializer:
    """w = value"""
    return lambda generator, shape: np.full(shape, value)


def spread(first: float, last: float) -> Initializer:
    """w_k = first ... last, in equal steps; of one unit, their middle"""

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        return (first + (last - first) * (np.arange(size) + 0.5) / size).reshape(shape)

    return initial


def array(values: Any) -> Initializer:
    """w = values"""
    return lambda generator, shape: np.array(values, np.float64)


def log_frequencies(targets: Any, weights: Any = None) -> Initializer:
    """b_k = log((n_k + 1) / (n + K)), where n_k of the n targets are class k of K

    For the bias of an output layer with softmax, so that training begins at the entropy of the classes by themselves:
    Network(..., initial={"b_o": log_frequencies(corpus.train)}). targets: whole numbers, any shape. weights: of their
    shape; n_k is then n times the share that class k has of all weights.
    Raises UsageError for targets that are not among 0 ... K - 1.
    """
    classes = _targets("log_frequencies", targets)
    w = None if weights is None else _relative("log_frequencies", weights, classes.shape).ravel()
    classes = classes.ravel()

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if classes.dtype.kind not in "iu" or (
            classes.size and not 0 <= classes.min() <= classes.max() < shape[0]
        ):
            raise UsageError(
                f"log_frequencies: targets must be whole numbers among 0 ... {shape[0] - 1}, not {shown(targets)}"
            )
        counts = np.ones(shape[0])
        for start in range(0, classes.size, PIECE):
            part = slice(start, start + PIECE)
            counts += np.bincount(classes[part], None if w is None else w[part], minlength=shape[0])
        return np.log(counts / counts.sum())

    return initial


def log_odds(targets: Any, weights: Any = None) -> Initializer:
    """b_k = log((s_k + ½) / (n - s_k + ½)), s_k the sum of column k of n targets in [0, 1]

    For the bias of an output layer with sigmoid. targets: (n, outputs). weights: of that shape, 0 where a target is
    missing, which may then be NaN; they are divided by the mean of those above 0. Raises UsageError.
    """
    given = _targets("log_odds", targets)
    w = np.ones(given.shape) if weights is None else _relative("log_odds", weights, given.shape)

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        bits = given[w > 0] if given.dtype.kind in "biuf" else np.array([np.nan])
        if given.shape[1:] != shape or not ((bits >= 0) & (bits <= 1)).all():
            raise UsageError(
                f"log_odds: targets must be numbers in [0, 1], (n, {shape[0]}), not {shown(targets)}"
            )
        ones = (np.where(w > 0, given, 0) * w).sum(axis=0, dtype=np.float64)
        return np.log((ones + 0.5) / (w.sum(axis=0) - ones + 0.5))

    return initial


def _targets(who: str, given: Any) -> Array:
    require_unmasked(f"{who}: targets", given)
    try:
        return np.asarray(given)
    except ValueError:  # of lists of several lengths
        raise UsageError(f"{who}: targets must be an array, not {shown(given)}") from None


def _relative(who: str, weights: Any, shape: tuple[int, ...]) -> Array:
    """The weights over the mean of those above 0, so that n targets count n."""
    w = np.asarray(weights, np.float64)
    if w.shape != shape or not (w >= 0).all() or not w.any():
        raise UsageError(
            f"{who}: weights must be at least 0, not all 0 and {list(shape)}, not {shown(weights)}"
        )
    return w / w[w > 0].mean()


def normal(scale: float) -> Initializer:
    """w ~ N(0, scale²)"""
    return lambda generator, shape: scale * generator.standard_normal(shape)


def uniform(limit: float) -> Initializer:
    """w ~ U(-limit, limit)"""
    return lambda generator, shape: generator.uniform(-limit, limit, shape)


def glorot() -> Initializer:
    """w ~ U(-a, a), a = √(6 / (in + out)). Source: Glorot & Bengio 2010, eq. 16."""

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        fan_in, fan_out = shape[0], shape[-1]
        limit = math.sqrt(6 / max(1, fan_in + fan_out))
        return generator.uniform(-limit, limit, shape)

    return initial


def orthogonal(gain: float = 1.0) -> Initializer:
    """W with WᵀW = gain² I (or WWᵀ where it is wide). Source: Saxe, McClelland & Ganguli 2014."""

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        rows, columns = shape
        q, r = np.linalg.qr(generator.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
        return gain * (q if rows >= columns else q.T)

    return initial


def sparse(connections: int = 15, scale: float = 1.0, outgoing: bool = False) -> Initializer:
    """Each unit gets `connections` incoming weights ~ N(0, scale²), the others 0; or each input so many outgoing ones.

    Source: Martens 2010, 5; Sutskever 2013, 7.3.
    """
    connections = whole_number("sparse: connections", connections, least=0)
    scale, outgoing = number("sparse: scale", scale), yes_or_no("sparse: outgoing", outgoing)

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if outgoing:
            return sparse(connections, scale)(generator, shape[::-1]).T
        rows, columns = shape
        w = np.zeros(shape)
        for unit in range(columns):
            chosen = generator.permutation(rows)[:connections]
            w[chosen, unit] = scale * generator.standard_normal(len(chosen))
        return w

    return initial


def thinned(each: Initializer, kept: float = 0.1) -> Initializer:
    """W ~ `each`, of which each weight stays with the probability `kept`, and is 0 otherwise

    thinned(normal(0.1), 0.1) is W_hh in Krause 2015, 4.2. Where `sparse` gives each unit equally many connections,
    their number is random here. Raises UsageError for a probability outside of (0, 1].
    """
    kept = fraction("thinned: kept", kept, or_all=True, above_zero=True)

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        w = each(generator, shape)
        return np.where(generator.random(shape) < kept, w, 0.0)

    return initial


def stacked(each: Initializer) -> Initializer:
    """W[k] ~ `each`, one matrix after the other along the first axis"""
    return lambda generator, shape: np.stack([each(generator, shape[1:]) for _ in range(shape[0])])


def reservoir(radius: float = 0.95, density: float = 0.1, connections: int | None = None) -> Initializer:
    """Each unit gets `connections` incoming weights ~ N(0, 1), the others 0; then W is scaled to this spectral radius.

    The radius is the largest absolute eigenvalue. density: the share of the units that each one reads, instead of the
    number of connections. reservoir(1.2, connections=15) is W_hh in Sutskever 2013, 7.4.1.
    Raises UsageError for settings that cannot be meant, and for a matrix that is not square, which has no eigenvalues.
    Source: Jaeger & Haas 2004; Sutskever 2013, 2.8.4 and 7.4.
    """
    radius = amount("reservoir: radius", radius, above_zero=True)
    density = fraction("reservoir: density", density, or_all=True, above_zero=True)
    if connections is not None:
        connections = whole_number("reservoir: connections", connections)

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if len(shape) != 2 or shape[0] != shape[1]:
            raise UsageError(f"reservoir: W must be square, from units to the same units, not {list(shape)}")
        draw = sparse(max(1, round(density * shape[0])) if connections is None else connections)
        for _ in range(20):
            w = draw(generator, shape)
            largest = float(np.abs(np.linalg.eigvals(w)).max())
            if largest > 1e-6:  # a small sparse matrix may have no cycle, and then no eigenvalue but 0
                return radius / largest * w
        w = generator.standard_normal(shape)
        return radius / float(np.abs(np.linalg.eigvals(w)).max()) * w

    return initial
