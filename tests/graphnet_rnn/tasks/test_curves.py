"""CURVES: the images against a direct integral along the stroke; autoencoders that learn them."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.optimizers import LBFGS, HessianFree, Momentum, Nesterov, NesterovMomentum
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

# -- images --------------------------------------------------------------------------------------


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


def test_a_straight_stroke_is_as_wide_as_its_pen_and_white() -> None:
    (image,) = draw_curves([[[0, 0.5], [0.5, 0.5], [1, 0.5]]]).reshape(-1, 28, 28)
    column = image[:, 14]
    z = (np.arange(28) - 13.5) / 0.75
    np.testing.assert_allclose(column, np.exp(-(z**2) / 2), atol=1e-5)
    # Not to the bit: NumPy's vectors may round their last lanes differently.
    np.testing.assert_allclose(image, image[::-1], atol=1e-6)
    np.testing.assert_allclose(image, image[:, ::-1], atol=1e-5)
    assert image[:, 0].max() < 0.1


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
    assert images.shape == (600, 784)
    assert images.dtype == np.float32
    assert images.min() == 0
    assert images.max() == 1
    assert np.array_equal(images, curve_images(RNG(7), 600))
    assert not np.array_equal(images, curve_images(RNG(8), 600))
    assert np.array_equal(images[550:], draw_curves(RNG(7).random((600, 3, 2))[550:])), "each by itself"
    # Strokes: mostly black, and neither empty nor a blot; greys between, so they are antialiased.
    assert (images < 0.02).mean() > 0.75
    assert (images.sum(axis=1) > 2).mean() > 0.99
    assert images.mean(axis=1).max() < 0.25
    assert 0.05 < ((images > 0.1) & (images < 0.9)).sum() / (images > 0.1).sum() < 0.9
    # Six numbers, but far from a plane of six dimensions.
    shares = np.linalg.svd(images - images.mean(axis=0), compute_uv=False) ** 2
    assert shares[:6].sum() < 0.7 * shares.sum()
    # Nothing is preferred: mirror images are as likely.
    mean = images.mean(axis=0).reshape(28, 28)
    assert np.abs(mean - mean[::-1]).max() < 0.1
    assert np.abs(mean - mean.T).max() < 0.1


def test_impossible_images() -> None:
    rows: list[tuple[Any, type[Exception], str]] = [
        (lambda: curve_images(0, 5), UsageError, "generator must be one of NumPy"),  # type: ignore[arg-type]
        (lambda: curve_images(RNG(0), 0), UsageError, "count must be a whole number >= 1, not 0"),
        (lambda: curve_images(RNG(0), 5, 7), UsageError, "size must be a whole number >= 8, not 7"),
        (
            lambda: draw_curves(np.zeros((3, 2))),
            DataError,
            "points must be (count, 3, 2), all in [0, 1], not [3, 2]",
        ),
        (
            lambda: draw_curves(np.full((1, 3, 2), 1.01)),
            DataError,
            "points must be (count, 3, 2), all in [0, 1]",
        ),
        (lambda: draw_curves(np.full((1, 3, 2), math.nan)), DataError, "points must be"),
    ]
    for make, error, content in rows:
        with case(content), pytest.raises(error, match=re.escape(content)):
            make()


# -- autoencoders --------------------------------------------------------------------------------


def test_the_source_s_networks() -> None:
    """Table 7.1: 784-400-200-100-50-25-6 and back; 11 hidden layers, the code linear."""
    network = autoencoder()
    units = [400, 200, 100, 50, 25, 6, 25, 50, 100, 200, 400]
    assert [layer.units for layer in network.layers] == units
    kinds = [layer.activation for layer in network.layers]  # type: ignore[attr-defined]
    assert kinds == ["sigmoid"] * 5 + ["linear"] + ["sigmoid"] * 5
    widths = [784, *units, 784]
    assert network.theta.size == sum((a + 1) * b for a, b in itertools.pairwise(widths))
    assert (network.loss, network.reads) == ("sigmoid", "vectors")
    assert autoencoder((9, 4, 2), "tanh", "squared").loss == "squared"


def small(
    activation: str = "sigmoid", loss: str = "sigmoid", batch: int = 100
) -> tuple[Reconstruction, Array]:
    """A reduced autoencoder, 100-30-15-6, and images of 10 by 10 pixels."""
    objective = Reconstruction(autoencoder((100, 30, 15, 6), activation, loss), batch)
    images = curve_images(RNG(0), batch, 10)
    objective.feed(images)
    return objective, images


def test_the_loss_is_that_of_plain_numpy() -> None:
    for loss in ("sigmoid", "squared"):
        for activation in ("sigmoid", "tanh"):
            with case(loss, activation):
                objective, x = small(activation, loss, 30)
                arrays = {
                    name: node.value.astype(float) for name, node in objective.network.parameters.items()
                }
                h = x.astype(float)
                phi = {"sigmoid": lambda a: 1 / (1 + np.exp(-a)), "tanh": np.tanh}[activation]
                for l in range(5):
                    h = h @ arrays[f"layer{l}.W_xy"] + arrays[f"layer{l}.b_y"]
                    h = h if l == 2 else phi(h)
                o = h @ arrays["output.W_ho"] + arrays["output.b_o"]
                y = 1 / (1 + np.exp(-o)) if loss == "sigmoid" else o
                squares = ((x - y) ** 2).sum(axis=1).mean()
                entropy = (
                    -(x * np.log(y) + (1 - x) * np.log1p(-y)).sum(axis=1).mean()
                    if loss == "sigmoid"
                    else squares
                )
                assert objective.loss(objective.start()) == pytest.approx(entropy, rel=1e-4)
                assert objective.error(x) == pytest.approx(squares, rel=1e-4)
                np.testing.assert_allclose(objective.reconstructed(x[:7]), y[:7], atol=1e-5)
                assert objective.error(x[:7]) == pytest.approx(
                    ((x - y) ** 2).sum(axis=1)[:7].mean(), rel=1e-4
                )


def test_the_error_of_many_images_is_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, x = small()
    whole = objective.error(x)
    monkeypatch.setattr(curves, "PIECE", 33)
    assert objective.error(x) == pytest.approx(whole, rel=1e-6)


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


def test_lbfgs_on_the_whole_data_set() -> None:
    objective, images = small("tanh")
    rnn.minimize(objective, LBFGS(iterations=60), steps=1)
    assert objective.error(images) < 0.95 * best_constant(images)


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


def test_impossible_autoencoders() -> None:
    fed = small()[0]
    rows: list[tuple[Any, type[Exception], str]] = [
        (lambda: autoencoder("SPIRALS"), UsageError, "sizes must be 'CURVES' or 'MNIST' or 'FACES'"),
        (
            lambda: autoencoder((784,)),
            UsageError,
            "sizes must hold the pixels and the code at least, not (784,)",
        ),
        (lambda: autoencoder((9, 0)), UsageError, "a width in sizes must be a whole number >= 1, not 0"),
        (
            lambda: autoencoder((9, 4), "relu"),
            UsageError,
            "activation must be 'sigmoid' or 'tanh', not 'relu'",
        ),
        (lambda: autoencoder((9, 4), loss="softmax"), UsageError, "loss must be 'sigmoid' or 'squared'"),
        (
            lambda: Reconstruction(rnn.Network([rnn.Elman(3)], 4, 4), 5),
            UsageError,
            "network must read vectors",
        ),
        (lambda: fed.feed(np.zeros((3, 100))), DataError, "images must be (100, 100), not [3, 100]"),
        (lambda: fed.feed(*[]), UsageError, "Reconstruction.feed takes one array, the images, not 0"),
        (
            lambda: fed.feed(np.full((100, 100), 255)),
            DataError,
            "they are in 255 ... 255; divide bytes by 255",
        ),
        (lambda: fed.error(np.zeros(100)), DataError, "error: images must be (count, 100), not [100]"),
        (lambda: autoencoder_optimizer("CIFAR"), UsageError, "name must be 'CURVES'"),
        (
            lambda: autoencoder_optimizer(iterations=10),
            UsageError,
            "iterations must be a whole number >= 1000",
        ),
    ]
    for make, error, content in rows:
        with case(content), pytest.raises(error, match=re.escape(content)):
            make()
