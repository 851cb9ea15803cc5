"""CURVES: the images against a direct integral along the stroke; autoencoders that learn them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.optimizers import HessianFree, Momentum, Nesterov, NesterovMomentum
from graphnet_rnn.tasks import (
    Reconstruction,
    autoencoder,
    autoencoder_optimizer,
    curve_images,
    curves,
    draw_curves,
)
from tests.tables import case

RNG = np.random.default_rng


def by_hand(points: Array, size: int) -> Array:
    """One image, from the formula: a fine polygon through the parabola, whose pieces leave their length in ink."""
    sigma = 0.75 * size / 28
    side = (size - 4 * sigma) / 1.25
    a, b, c = 2 * sigma + side / 8 + side * points  # in pixels, from the image's corner
    t = np.linspace(0, 1, 4001)[:, None]
    # Newton's form of the parabola with P(0) = a, P(1/2) = b, P(1) = c.
    path = a + 2 * (b - a) * t + 2 * (c - 2 * b + a) * t * (t - 0.5)
    middle, length = (path[1:] + path[:-1]) / 2, np.linalg.norm(np.diff(path, axis=0), axis=1)
    centres = np.arange(size) + 0.5
    image = np.zeros((size, size))
    for (x, y), ds in zip(middle, length, strict=True):
        image += ds * np.exp(-((centres[:, None] - y) ** 2 + (centres - x) ** 2) / (2 * sigma**2))
    return np.minimum(image / (sigma * math.sqrt(2 * math.pi)), 1)


def test_images_are_the_integral() -> None:
    for size in (28, 12):
        with case(size):
            points = RNG(0).random((4, 3, 2))
            points[3] = [[0, 1], [1, 0], [1, 0.9]]  # long, fast, and with a sharp bend
            for image, some in zip(draw_curves(points, size), points, strict=True):
                np.testing.assert_allclose(image.reshape(size, size), by_hand(some, size), atol=2e-4)


def test_strokes_are_within_the_image_and_move_smoothly() -> None:
    """At worst a stroke touches the edge two deviations of the pen away; a small move is a small change."""
    corners = [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    extreme = np.array(list(itertools.product(corners, repeat=3)))
    images = draw_curves(extreme).reshape(-1, 28, 28)
    edges = (images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1])
    assert max(edge.max() for edge in edges) < 1.01 * math.exp(-((1.5 - 0.5) ** 2) / (2 * 0.75**2))
    step = 1e-3
    moved = draw_curves(np.clip(extreme, 0, 1 - step) + step)
    still = draw_curves(np.clip(extreme, 0, 1 - step))
    assert 0 < np.abs(moved - still).max() < 0.05


def test_a_data_set() -> None:
    images = curve_images(RNG(7), 600)
    assert (images.shape, images.dtype) == ((600, 784), np.float32)
    assert (images.min(), images.max()) == (0, 1)
    assert np.array_equal(images, draw_curves(RNG(7).random((600, 3, 2))))
    # Strokes: mostly black, and neither empty nor a blot; greys between, so they are antialiased.
    assert (images < 0.02).mean() > 0.75
    assert (images.sum(axis=1) > 2).mean() > 0.99
    assert 0.05 < ((images > 0.1) & (images < 0.9)).sum() / (images > 0.1).sum() < 0.9


def test_the_source_s_networks() -> None:
    """Table 7.1: 784-400-200-100-50-25-6 and back; 11 hidden layers, the code linear."""
    network: Any = autoencoder()
    units = [400, 200, 100, 50, 25, 6, 25, 50, 100, 200, 400]
    assert [layer.units for layer in network.layers] == units
    kinds = [layer.activation for layer in network.layers]
    assert kinds == ["sigmoid"] * 5 + ["linear"] + ["sigmoid"] * 5
    widths = [784, *units, 784]
    assert network.theta.size == sum((a + 1) * b for a, b in itertools.pairwise(widths))
    assert (network.loss, network.reads) == ("sigmoid", "vectors")
    assert autoencoder((9, 4, 2), "tanh", "squared").loss == "squared"


def small(activation="sigmoid", loss="sigmoid", batch=100) -> tuple[Reconstruction, Array]:
    """A reduced autoencoder, 100-30-15-6, and images of 10 by 10 pixels."""
    objective = Reconstruction(autoencoder((100, 30, 15, 6), activation, loss), batch)
    images = curve_images(RNG(0), batch, 10)
    objective.feed(images)
    return objective, images


def test_the_loss_is_that_of_plain_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the error of many images, which is computed in pieces."""
    for loss, activation in itertools.product(("sigmoid", "squared"), ("sigmoid", "tanh")):
        with case(loss, activation):
            objective, x = small(activation, loss, 30)
            w = {name: node.value.astype(float) for name, node in objective.network.parameters.items()}
            h = x.astype(float)
            for l in range(5):
                h = h @ w[f"layer{l}.W_xy"] + w[f"layer{l}.b_y"]
                if l != 2:
                    h = 1 / (1 + np.exp(-h)) if activation == "sigmoid" else np.tanh(h)
            o = h @ w["output.W_ho"] + w["output.b_o"]
            y = 1 / (1 + np.exp(-o)) if loss == "sigmoid" else o
            squares = ((x - y) ** 2).sum(axis=1)
            wanted = squares.mean()
            if loss == "sigmoid":
                wanted = -(x * np.log(y) + (1 - x) * np.log1p(-y)).sum(axis=1).mean()
            assert objective.loss(objective.start()) == pytest.approx(wanted, rel=1e-4)
            np.testing.assert_allclose(objective.reconstructed(x[:7]), y[:7], atol=1e-5)
            for piece in (1000, 11):
                monkeypatch.setattr(curves, "PIECE", piece)
                assert objective.error(x) == pytest.approx(squares.mean(), rel=1e-4)
                assert objective.error(x[:7]) == pytest.approx(squares[:7].mean(), rel=1e-4)


def best_constant(images: Array) -> float:
    """The error of the mean image."""
    return float(((images - images.mean(axis=0)) ** 2).sum(axis=1).mean())


def test_five_steps_of_hessian_free() -> None:
    """From far off to the mean image, which takes SGD hundreds of steps."""
    objective, images = small()
    start = objective.loss(objective.start())
    result = rnn.minimize(objective, HessianFree(damping=1.0, cg_steps=50), steps=5)
    losses = [report.loss for report in result.reports] + [result.loss]
    assert all(after < before for before, after in itertools.pairwise(losses))
    assert result.loss < 0.25 * start
    assert objective.error(images) < 1.1 * best_constant(images)


@pytest.mark.parametrize("activation", ["sigmoid", pytest.param("tanh", marks=pytest.mark.slow)])
def test_nesterov_on_minibatches(activation: str) -> None:
    """Minibatches by the callback, as the source trains; the error of all images falls below the mean image's."""
    images = curve_images(RNG(1), 1000, 10)
    objective = Reconstruction(autoencoder((100, 30, 15, 6), activation), 50)
    generator = RNG(2)

    def following(*_: Any) -> None:
        objective.feed(images[generator.permutation(len(images))[:50]])

    following()
    before = objective.error(images)
    rate = 0.005 if activation == "sigmoid" else 0.005 / 8
    optimizer = Nesterov(rate, momentum=NesterovMomentum(0.99))
    rnn.minimize(objective, optimizer, steps=700, callback=following)
    assert objective.error(images) < min(0.25 * before, 0.95 * best_constant(images))


def test_schedules_of_the_source() -> None:
    """7.3: ε = 0.005 and 0.0005 for FACES, μ up to 0.999 at 200,000 of 600,000, and both smaller in the last tenth."""
    optimizer: Any = autoencoder_optimizer()
    assert type(optimizer) is Nesterov
    at = [0, 199_999, 200_000, 539_999, 540_000]
    assert [optimizer.momentum.at(step) for step in at] == [0.8, 0.997, 0.999, 0.999, 0.99]
    assert [optimizer.rate.at(step) for step in at] == [0.005] * 4 + [0.0005]
    capped: Any = autoencoder_optimizer("FACES", Momentum, most=0.9, iterations=1000, activation="tanh")
    assert type(capped) is Momentum
    assert [capped.momentum.at(step) for step in (0, 500, 900)] == [0.8, 0.9, 0.9]
    assert capped.rate.values == ((0, 0.0005 / 8), (900, pytest.approx(0.00005 / 8)))


FED = small()[0]
# fmt: off
REFUSED = {
    "generator": (lambda: curve_images(0, 5), UsageError, "generator must be one of NumPy"),
    "count": (lambda: curve_images(RNG(0), 0), UsageError, "count .*>= 1, not 0"),
    "size": (lambda: curve_images(RNG(0), 5, 7), UsageError, "size .*>= 8, not 7"),
    "shape": (lambda: draw_curves(np.zeros((3, 2))), DataError,
              r"points must be \(count, 3, 2\).*not \[3, 2\]"),
    "outside": (lambda: draw_curves(np.full((1, 3, 2), 1.01)), DataError, r"points must be .*\[0, 1\]"),
    "nan": (lambda: draw_curves(np.full((1, 3, 2), math.nan)), DataError, "points must be"),
    "name": (lambda: autoencoder("SPIRALS"), UsageError, "sizes must be 'CURVES' or 'MNIST' or 'FACES'"),
    "no code": (lambda: autoencoder((784,)), UsageError, r"sizes .*not \(784,\)"),
    "width": (lambda: autoencoder((9, 0)), UsageError, "a width in sizes .*>= 1, not 0"),
    "activation": (lambda: autoencoder((9, 4), "relu"), UsageError, "activation .*not 'relu'"),
    "loss": (lambda: autoencoder((9, 4), loss="softmax"), UsageError, "loss must be 'sigmoid' or 'squared'"),
    "symbols": (lambda: Reconstruction(rnn.Network([rnn.Elman(3)], 4, 4), 5), UsageError,
                "must read vectors"),
    "few images": (lambda: FED.feed(np.zeros((3, 100))), DataError,
                   r"images must be \(100, 100\), not \[3, 100\]"),
    "no images": (FED.feed, UsageError, "Reconstruction.feed takes one array, the images, not 0"),
    "bytes": (lambda: FED.feed(np.full((100, 100), 255)), DataError, "divide bytes by 255"),
    "one image": (lambda: FED.error(np.zeros(100)), DataError,
                  r"error: images .*\(count, 100\), not \[100\]"),
    "schedule": (lambda: autoencoder_optimizer("CIFAR"), UsageError, "name must be 'CURVES'"),
    "iterations": (lambda: autoencoder_optimizer(iterations=10), UsageError, "iterations .*>= 1000"),
}
# fmt: on


def test_what_cannot_be_meant_is_refused() -> None:
    for name, (call, error, part) in REFUSED.items():
        with case(name), pytest.raises(error, match=part):
            call()
