"""CURVES: images of smooth strokes through three random points, and deep autoencoders for such images.

    images = curve_images(np.random.default_rng(0), 20_000)
    network = autoencoder("CURVES")
    objective = Reconstruction(network, batch=1000)
    objective.feed(images[:1000])
    rnn.minimize(objective, rnn.HessianFree(damping=10.0), steps=50)

The data set of Hinton & Salakhutdinov 2006 has 20,000 training and 10,000 test images, "generated from three randomly
chosen points in two dimensions". Its program was not published. This generator follows their description: six numbers
make an image of 28 by 28 pixels in [0, 1]. Published results are for the original images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.process import cached_property
from graphnet_rnn.cell.initializers import constant, sparse, zeros
from graphnet_rnn.cells.feedforward import AUTOENCODERS, Dense, autoencoder_layers
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.running import Runner
from graphnet_rnn.optimizers.first_order import Momentum, Nesterov
from graphnet_rnn.optimizers.objective import Objective
from graphnet_rnn.optimizers.schedules import Stepwise
from graphnet_rnn.settings import one_of, require_generator, shown, whole_number

#: Standard deviation of the pen, in pixels of an image of 28.
PEN = 0.75
#: Gauss and Legendre's nodes for the integral along a stroke. They are densest at the ends, where a parabola through
#: three points is fastest. Pixels are then right to 0.003 (where a stroke turns back on itself), most to 0.00001.
NODES = 80
#: Images to reconstruct at once, to limit memory.
PIECE = 2000
#: The source's rates for the autoencoders (Sutskever 2013, 7.3).
RATES = {"CURVES": 0.005, "MNIST": 0.005, "FACES": 0.0005}

# -- images --------------------------------------------------------------------------------------


def curve_images(generator: np.random.Generator, count: int, size: int = 28) -> Array:
    """Images of curves through three points ~ U([0, 1]²): float32 (count, size²), row by row, in [0, 1]

    generator: NumPy generator. count: number of images. size: width and height in pixels, at least 8; 28 by default.
    Raises UsageError for other generators and sizes.

    >>> rnn.tasks.curve_images(np.random.default_rng(0), 5).shape
    (5, 784)
    """
    generator = require_generator("curve_images", generator)
    return draw_curves(generator.random((whole_number("curve_images: count", count), 3, 2)), size)


def draw_curves(points: Any, size: int = 28) -> Array:
    """I(x) = min(1, ∫ exp(-|x - P(s)|² / 2σ²) ds / (σ √(2π))), P the parabola through the points: (count, size²)

    points: (count, 3, 2), each (x, y) in [0, 1]², where (0, 0) is at the top left. P(0), P(1/2), P(1) are the three
    points, s is its length, σ = 0.75 pixels (in an image of 28): a round pen, with intensity 1 in the middle of a
    straight line. A parabola leaves the square of its points by at most an eighth of its side. Images have this margin,
    and 2 σ more, so that nearly all ink lies inside. size: width and height in pixels; 28 by default. float32.
    Raises DataError for points that do not fit.

    >>> rnn.tasks.draw_curves([[[0, 0], [0.5, 0.5], [1, 1]]]).shape
    (1, 784)
    """
    size = whole_number("draw_curves: size", size, least=8)
    p = np.asarray(points, np.float64)
    if p.ndim != 3 or p.shape[1:] != (3, 2) or not ((p >= 0) & (p <= 1)).all():
        raise DataError(f"draw_curves: points must be (count, 3, 2), all in [0, 1], not {list(p.shape)}")
    sigma = PEN * size / 28
    margin = 2 * sigma
    side = (size - 2 * margin) / 1.25
    p = margin + side / 8 + side * p - 0.5  # pixel k is at k
    nodes, lengths = np.polynomial.legendre.leggauss(NODES)  # on [-1, 1]
    t = (nodes[:, None] + 1) / 2
    weights = np.hstack([(2 * t - 1) * (t - 1), 4 * t * (1 - t), t * (2 * t - 1)])
    speeds = np.hstack([4 * t - 3, 4 - 8 * t, 4 * t - 1])
    images = np.empty((len(p), size, size), np.float32)
    for start in range(0, len(p), 500):  # limits the memory of intermediate results
        some = p[start : start + 500]
        ds = np.linalg.norm(speeds @ some, axis=2) * lengths / 2
        # The Gaussian in two dimensions is a product, so the sum over the points of a stroke is one of matrices.
        x, y = np.moveaxis((weights @ some)[..., None] - np.arange(size), 2, 0).astype(np.float32)
        across, down = (np.exp(-0.5 * (z / np.float32(sigma)) ** 2) for z in (x, y))
        ink = (down * ds[..., None].astype(np.float32)).transpose(0, 2, 1) @ across
        images[start : start + 500] = np.minimum(ink / (sigma * math.sqrt(2 * math.pi)), 1)
    return images.reshape(len(p), size * size)


# -- autoencoders --------------------------------------------------------------------------------


def autoencoder(
    sizes: str | Sequence[int] = "CURVES", activation: str = "sigmoid", loss: str | None = None, seed: int = 0
) -> Network:
    """x → code → x by deep layers, with the source's sparse initial weights.

    sizes: "CURVES" (default), "MNIST" or "FACES", or the widths of the pixels, of the encoder's hidden layers and of
    the code. The decoder mirrors them, and the code is linear. activation: of the hidden layers, "sigmoid" (default) or
    "tanh". loss: "sigmoid", the cross entropy of pixels in [0, 1], or "squared"; by default that of the data set, or
    "sigmoid". seed: seed of the weights; 0 by default.
    Each unit gets 15 connections ~ N(0, 1) and the bias 0; a tanh unit connections ~ N(0, 0.25²) and the bias -0.5.
    Source: Hinton & Salakhutdinov 2006; Martens 2010; Sutskever 2013, table 7.1 and 7.3.1.

    >>> network = rnn.tasks.autoencoder([64, 32, 6])
    >>> network.inputs, network.outputs
    (64, 64)
    """
    if isinstance(sizes, str):
        loss = loss or ("squared" if sizes == "FACES" else "sigmoid")
        sizes = AUTOENCODERS[one_of("autoencoder: sizes", sizes, tuple(AUTOENCODERS))]
    if not isinstance(sizes, Sequence) or len(sizes) < 2:
        raise UsageError(
            f"autoencoder: sizes must have at least two widths, of the pixels and of the code, not {shown(sizes)}"
        )
    widths = [whole_number("autoencoder: a width in sizes", width) for width in sizes]
    one_of("autoencoder: activation", activation, ("sigmoid", "tanh"))
    one_of("autoencoder: loss", loss or "sigmoid", ("sigmoid", "squared"))
    plain = {"W_xy": sparse(15), "b_y": zeros()}
    hidden = {"W_xy": sparse(15, 0.25), "b_y": constant(-0.5)} if activation == "tanh" else plain
    layers = autoencoder_layers(tuple(widths), activation, initial=hidden)
    layers[len(widths) - 2] = Dense(widths[-1], "linear", initial=plain)
    output = {"W_ho": sparse(15), "b_o": zeros()}
    return Network(
        layers, widths[0], widths[0], loss or "sigmoid", seed=seed, reads="vectors", initial=output
    )


class Reconstruction(Objective):
    """C(w): loss of an autoencoder, summed over pixels, averaged over `batch` images

    network: network from `autoencoder`. batch: number of images; feed(images) takes (batch, pixels). how: more settings
    of rnn.Objective. images, in methods: (count, pixels), any number of them.

    >>> objective = rnn.tasks.Reconstruction(rnn.tasks.autoencoder([64, 32, 6]), batch=5)
    >>> objective.feed(rnn.tasks.curve_images(np.random.default_rng(0), 5, size=8))
    >>> objective.loss(objective.start()) > 0
    True
    >>> images = rnn.tasks.curve_images(np.random.default_rng(1), 7, size=8)
    >>> objective.reconstructed(images).shape, objective.error(images) > 0
    ((7, 64), True)
    """

    def __init__(self, network: Network, batch: int, **how: Any) -> None:
        fits = isinstance(network, Network) and network.inputs == network.outputs
        if not fits or network.reads != "vectors" or network.loss not in ("sigmoid", "squared"):
            raise UsageError(
                "Reconstruction: network must read vectors, have as many outputs as inputs, and the loss 'sigmoid' "
                f"or 'squared', as autoencoder() creates it, not {shown(network, 80)}"
            )
        u = network.unroll(1, batch, initial="zero")
        self.network, self.batch = network, u.batch
        super().__init__(u.cost, network.parameters, [u.inputs, u.targets], **how)

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self.network, backend=self.backend, threads=self.threads)

    def feed(self, *arrays: Any) -> None:
        """Sets the images of loss, gradient and curvature."""
        if len(arrays) != 1:
            raise UsageError(f"Reconstruction.feed takes one array, the images, not {len(arrays)}")
        x = _images("Reconstruction.feed", arrays[0], self.network, self.batch)
        super().feed(x[None], x[None])

    def error(self, images: Any) -> float:
        """Σ (x - y)² over pixels, averaged over images; y in [0, 1] for the loss "sigmoid"

        Uses the weights of the network.
        """
        x = _images("Reconstruction.error", images, self.network)
        pieces = (x[start : start + PIECE] for start in range(0, len(x), PIECE))
        return sum(float(((some - self.reconstructed(some)) ** 2).sum()) for some in pieces) / len(x)

    def reconstructed(self, images: Any) -> Array:
        """y, reconstructions of images: float64 (count, pixels)

        Uses the weights of the network.
        """
        x = _images("Reconstruction.reconstructed", images, self.network)
        logits, _ = self._runner(x[None])
        y: Array = logits[0].astype(np.float64)
        return 0.5 + 0.5 * np.tanh(0.5 * y) if self.network.loss == "sigmoid" else y


def _images(who: str, images: Any, network: Network, count: int | None = None) -> Array:
    x = np.asarray(images, network.dtype)
    if x.ndim != 2 or x.shape[1] != network.inputs or count not in (None, len(x)):
        raise DataError(f"{who}: images must be ({count or 'count'}, {network.inputs}), not {list(x.shape)}")
    if network.loss == "sigmoid" and not ((x >= 0) & (x <= 1)).all():
        raise DataError(
            f"{who}: the loss 'sigmoid' needs pixels in [0, 1], but they are in {x.min():g} ... {x.max():g}; divide "
            "bytes by 255"
        )
    return x


def autoencoder_optimizer(
    name: str = "CURVES",
    kind: type[Momentum] = Nesterov,
    iterations: int = 600_000,
    most: float = 0.999,
    activation: str = "sigmoid",
) -> Momentum:
    """Momentum with the source's schedules, for minibatches of 200 images.

    name: "CURVES" (default), "MNIST" or "FACES". kind: rnn.Nesterov (default), or rnn.Momentum for classical momentum.
    iterations: total number of iterations; 600,000 by default. most: maximum momentum; 0.999 by default, in the source
    0.99 for classical momentum. activation: of the hidden layers, "sigmoid" (default) or "tanh".
    ε = 0.005 (FACES: 0.0005; tanh units: an eighth of it). μ rises from 0.8 to `most` within the first third. In the
    last tenth ε is ten times smaller, and μ is at most 0.99.
    Source: Sutskever 2013, 7.3.

    >>> optimizer = rnn.tasks.autoencoder_optimizer(iterations=1000)
    >>> type(optimizer).__name__
    'Nesterov'
    """
    one_of("autoencoder_optimizer: name", name, tuple(RATES))
    one_of("autoencoder_optimizer: activation", activation, ("sigmoid", "tanh"))
    iterations = whole_number("autoencoder_optimizer: iterations", iterations, least=1000)
    rate = RATES[name] / (8 if activation == "tanh" else 1)
    momenta = (0.8, 0.9, 0.95, 0.97, 0.99, 0.995, 0.997, 0.999)
    end = iterations - iterations // 10
    momentum = Stepwise.spaced(momenta, last=iterations // 3).capped(most).then(min(0.99, most), at=end)
    return kind(rate=Stepwise({0: rate, end: rate / 10}), momentum=momentum)
