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

#: Also read by weights.py, to tell these from users' own.
__all__ = [
    "Initializer", "array", "constant", "glorot", "log_frequencies", "log_odds", "normal", "orthogonal", "reservoir",
    "sparse", "spread", "stacked", "thinned", "uniform", "zeros",
]  # fmt: skip

#: Number of targets counted at once, as those of a long text are a memory-mapped file.
PIECE = 1 << 20

Initializer = Callable[[np.random.Generator, tuple[int, ...]], Array]


def wrong_initial(given: Any) -> str:
    """Describes what is wrong with initializers by weight name; "" if nothing is."""
    if isinstance(given, Mapping) and all(
        isinstance(k, str) and callable(v) and not isinstance(v, type) for k, v in given.items()
    ):
        return ""
    remedy = "{'W_*': rnn.initializers.normal(0.1)}"
    return f"must map names of weights to initializers, e.g. {remedy}, not {shown(given)}"


def checked_initial(
    who: str, initial: Any, error: type[GraphnetError] = UsageError
) -> dict[str, Initializer]:
    """Returns initializers by pattern, {} for None; raises `error` for anything else."""
    if initial is None:
        return {}
    if wrong := wrong_initial(initial):
        raise error(f"{who}: initial {wrong}")
    return dict(initial)


def zeros() -> Initializer:
    """w = 0

    >>> rnn.initializers.zeros()(np.random.default_rng(0), (3,))
    array([0., 0., 0.])
    """
    return constant(0.0)


def constant(value: float) -> Initializer:
    """w = value

    value: a number.

    >>> rnn.initializers.constant(0.5)(np.random.default_rng(0), (3,))
    array([0.5, 0.5, 0.5])
    """
    return lambda generator, shape: np.full(shape, value)


def spread(first: float, last: float) -> Initializer:
    """w_k = first + (k + ½) (last - first) / n, k = 0 ... n - 1

    first, last: ends of the interval over which the values of the n units are spread.

    >>> rnn.initializers.spread(0, 4)(np.random.default_rng(0), (4,))
    array([0.5, 1.5, 2.5, 3.5])
    """

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        return (first + (last - first) * (np.arange(size) + 0.5) / size).reshape(shape)

    return initial


def array(values: Any) -> Initializer:
    """w = values

    values: array of the weight's shape.

    >>> initial = {"b_o": rnn.initializers.array([0.0, 2.0])}
    >>> net = rnn.Network([rnn.Elman(4)], inputs=2, outputs=2, initial=initial)
    >>> net.parameters["output.b_o"].value
    array([0., 2.], dtype=float32)
    """
    require_unmasked("initializers.array", values)
    return lambda generator, shape: np.array(values, np.float64)


# For LSTMs of 512 units (learning rate 0.003), warm-up, β₂ = 0.99 or smaller output weights make training
# more stable, too, but are not needed with this bias.
def log_frequencies(targets: Any, weights: Any = None) -> Initializer:
    """b_k = log((n_k + 1) / (n + K)), where n_k of the n targets are class k of K

    For the bias of an output layer with softmax, so that training begins at the entropy of the class frequencies:
    Network(..., initial={"b_o": log_frequencies(corpus.train)}). targets: integers, any shape. weights: of the same
    shape; n then counts only targets of weight above 0, and n_k is n times the share that class k has of all weights.
    Raises UsageError for targets that are not among 0 ... K - 1.

    >>> b = rnn.initializers.log_frequencies([0, 0, 0, 1])(np.random.default_rng(0), (2,))
    >>> np.exp(b).round(3)
    array([0.667, 0.333])
    """
    classes = _targets("log_frequencies", targets)
    w = None if weights is None else _relative("log_frequencies", weights, classes.shape).ravel()
    classes = classes.ravel()

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if classes.dtype.kind not in "iu" or (
            classes.size and not 0 <= classes.min() <= classes.max() < shape[0]
        ):
            raise UsageError(
                f"log_frequencies: targets must be whole numbers in 0 ... {shape[0] - 1}, not {shown(targets)}"
            )
        counts = np.ones(shape[0])
        for start in range(0, classes.size, PIECE):
            part = slice(start, start + PIECE)
            counts += np.bincount(classes[part], None if w is None else w[part], minlength=shape[0])
        return np.log(counts / counts.sum())

    return initial


def log_odds(targets: Any, weights: Any = None) -> Initializer:
    """b_k = log((s_k + ½) / (n - s_k + ½)), s_k the sum of column k of n targets in [0, 1]

    For the bias of an output layer with sigmoid. targets: (n, outputs). weights: of that shape, 0 for a missing target,
    which may then be NaN; they are divided by the mean of the weights above 0. Raises UsageError.

    >>> rnn.initializers.log_odds([[1, 0], [1, 1]])(np.random.default_rng(0), (2,)).round(3)
    array([1.609, 0.   ])
    """
    given = _targets("log_odds", targets)
    w = np.ones(given.shape) if weights is None else _relative("log_odds", weights, given.shape)

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        bits = given[w > 0] if given.dtype.kind in "biuf" else np.array([np.nan])
        if given.shape[1:] != shape or not ((bits >= 0) & (bits <= 1)).all():
            raise UsageError(
                f"log_odds: targets must be an array (n, {shape[0]}) of numbers in [0, 1], not {shown(targets)}"
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
    """Weights divided by the mean of those above 0, so that n targets count n."""
    w = np.asarray(weights, np.float64)
    if w.shape != shape or not (w >= 0).all() or not w.any():
        raise UsageError(
            f"{who}: weights must have shape {list(shape)} and be >= 0, not all 0; got {shown(weights)}"
        )
    return w / w[w > 0].mean()


def normal(scale: float) -> Initializer:
    """w ~ N(0, scale²)

    scale: standard deviation.

    >>> rnn.initializers.normal(0.1)(np.random.default_rng(0), (2, 3)).round(3)
    array([[ 0.013, -0.013,  0.064],
           [ 0.01 , -0.054,  0.036]])
    """
    return lambda generator, shape: scale * generator.standard_normal(shape)


def uniform(limit: float) -> Initializer:
    """w ~ U(-limit, limit)

    limit: largest absolute value.

    >>> rnn.initializers.uniform(0.1)(np.random.default_rng(0), (2, 3)).round(3)
    array([[ 0.027, -0.046, -0.092],
           [-0.097,  0.063,  0.083]])
    """
    return lambda generator, shape: generator.uniform(-limit, limit, shape)


def glorot() -> Initializer:
    """w ~ U(-a, a), a = √(6 / (in + out)). Source: Glorot & Bengio 2010, eq. 16.

    >>> rnn.initializers.glorot()(np.random.default_rng(0), (2, 3)).round(3)
    array([[ 0.3  , -0.504, -1.006],
           [-1.059,  0.686,  0.904]])
    """

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        fan_in, fan_out = shape[0], shape[-1]
        limit = math.sqrt(6 / max(1, fan_in + fan_out))
        return generator.uniform(-limit, limit, shape)

    return initial


def orthogonal(gain: float = 1.0) -> Initializer:
    """W with WᵀW = gain² I (or WWᵀ where it is wide). Source: Saxe, McClelland & Ganguli 2014.

    gain: scale of the matrix, 1 by default.

    >>> W = rnn.initializers.orthogonal()(np.random.default_rng(0), (3, 3))
    >>> np.allclose(W.T @ W, np.eye(3))
    True
    """

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        rows, columns = shape
        q, r = np.linalg.qr(generator.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
        return gain * (q if rows >= columns else q.T)

    return initial


def sparse(connections: int = 15, scale: float = 1.0, outgoing: bool = False) -> Initializer:
    """Each unit gets `connections` incoming weights ~ N(0, scale²), the others 0; with outgoing=True, each input sends
    them.

    connections: number of weights, 15 by default. scale: standard deviation, 1 by default. outgoing: count for each
    input instead of each unit.
    Source: Martens 2010, 5; Sutskever 2013, 7.3.

    >>> W = rnn.initializers.sparse(connections=2)(np.random.default_rng(0), (5, 3))
    >>> (W != 0).sum(axis=0)
    array([2, 2, 2])
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
    """W ~ `each`, of which each weight is kept with probability `kept`, and is 0 otherwise

    each: initializer. kept: probability in (0, 1], 0.1 by default. thinned(normal(0.1), 0.1) is W_hh in Krause 2015,
    4.2. Unlike in `sparse`, the number of connections of a unit is random. Raises UsageError for a probability outside
    of (0, 1].

    >>> half = rnn.initializers.thinned(rnn.initializers.constant(1), 0.5)
    >>> half(np.random.default_rng(0), (2, 3))
    array([[0., 1., 1.],
           [1., 0., 0.]])
    """
    kept = fraction("thinned: kept", kept, or_all=True, above_zero=True)

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        w = each(generator, shape)
        return np.where(generator.random(shape) < kept, w, 0.0)

    return initial


def stacked(each: Initializer) -> Initializer:
    """W[k] ~ `each`, one matrix after the other along the first axis

    each: initializer of one matrix.

    >>> eye = rnn.initializers.stacked(rnn.initializers.array(np.eye(2)))
    >>> eye(np.random.default_rng(0), (3, 2, 2)).shape
    (3, 2, 2)
    """
    return lambda generator, shape: np.stack([each(generator, shape[1:]) for _ in range(shape[0])])


def reservoir(radius: float = 0.95, density: float = 0.1, connections: int | None = None) -> Initializer:
    """Each unit gets `connections` incoming weights ~ N(0, 1), the others 0; then W is scaled to this spectral radius.

    radius: largest absolute eigenvalue, 0.95 by default. density: share of the units that each unit reads, 0.1 by
    default; used if `connections` is None. connections: number of units that each unit reads. reservoir(1.2,
    connections=15) is W_hh in Sutskever 2013, 7.4.1.
    Raises UsageError for invalid settings, and for a matrix that is not square.
    Source: Jaeger & Haas 2004; Sutskever 2013, 2.8.4 and 7.4.

    >>> W = rnn.initializers.reservoir(0.9)(np.random.default_rng(0), (20, 20))
    >>> abs(np.linalg.eigvals(W)).max().round(3).item()
    0.9
    """
    radius = amount("reservoir: radius", radius, above_zero=True)
    density = fraction("reservoir: density", density, or_all=True, above_zero=True)
    if connections is not None:
        connections = whole_number("reservoir: connections", connections)

    def initial(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if len(shape) != 2 or shape[0] != shape[1]:
            raise UsageError(
                f"reservoir: W must be a square matrix of recurrent weights, not of shape {list(shape)}"
            )
        draw = sparse(max(1, round(density * shape[0])) if connections is None else connections)
        for _ in range(20):
            w = draw(generator, shape)
            largest = float(np.abs(np.linalg.eigvals(w)).max())
            if largest > 1e-6:  # a small sparse matrix may have no cycle, and then no eigenvalue but 0
                return radius / largest * w
        w = generator.standard_normal(shape)
        return radius / float(np.abs(np.linalg.eigvals(w)).max()) * w

    return initial
