"""Synthetic data: curves, balls and chords by their formulas; autoencoders; smoothing and regret."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.experiments.autoencoders import curves
from graphnet_rnn.experiments.balls.videos import BOX, RADIUS, SPEED
from graphnet_rnn.experiments.tasks import (
    Drawn,
    Reconstruction,
    alphabet,
    anbn,
    autoencoder,
    autoencoder_optimizer,
    bouncing_balls,
    chords,
    curve_images,
    distant_xor,
    draw_balls,
    draw_curves,
    move_balls,
    regret,
    smoothed,
)
from graphnet_rnn.optimizers import HessianFree, Momentum, Nesterov
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


def test_images_of_curves_are_the_integral() -> None:
    for size in (28, 12):
        with case(size):
            points = RNG(0).random((4, 3, 2))
            points[3] = [[0, 1], [1, 0], [1, 0.9]]  # long, fast, and with a sharp bend
            for image, some in zip(draw_curves(points, size), points, strict=True):
                np.testing.assert_allclose(image.reshape(size, size), by_hand(some, size), atol=2e-4)


def test_strokes_are_within_the_image_and_move_smoothly() -> None:
    """Strokes touch the edge at most two pen deviations away; small moves are small changes."""
    corners = [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    extreme = np.array(list(itertools.product(corners, repeat=3)))
    images = draw_curves(extreme).reshape(-1, 28, 28)
    edges = (images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1])
    assert max(edge.max() for edge in edges) < 1.01 * math.exp(-((1.5 - 0.5) ** 2) / (2 * 0.75**2))
    step = 1e-3
    moved = draw_curves(np.clip(extreme, 0, 1 - step) + step)
    still = draw_curves(np.clip(extreme, 0, 1 - step))
    assert 0 < np.abs(moved - still).max() < 0.05


def test_a_data_set_of_curves() -> None:
    images = curve_images(RNG(7), 600)
    assert (images.shape, images.dtype) == ((600, 784), np.float32)
    assert (images.min(), images.max()) == (0, 1)
    assert np.array_equal(images, draw_curves(RNG(7).random((600, 3, 2))))


def test_the_autoencoder_of_the_source() -> None:
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


def small(activation="sigmoid", loss="sigmoid", batch=100) -> tuple[Any, Array]:
    """A reduced autoencoder, 100-30-15-6, and images of 10 by 10 pixels."""
    objective = Reconstruction(autoencoder((100, 30, 15, 6), activation, loss), batch)
    images = curve_images(RNG(0), batch, 10)
    objective.feed(images)
    return objective, images


def test_autoencoder_loss_matches_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Includes the error of many images, computed in pieces."""
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


def test_five_hessian_free_steps_train_an_autoencoder() -> None:
    """Reaches the mean image, which takes SGD hundreds of steps."""
    objective, images = small()
    start = objective.loss(objective.start())
    result = rnn.minimize(objective, HessianFree(damping=1.0, cg_steps=50), steps=5)
    losses = [report.loss for report in result.reports] + [result.loss]
    assert all(after < before for before, after in itertools.pairwise(losses))
    assert result.loss < 0.25 * start
    assert objective.error(images) < 1.1 * ((images - images.mean(axis=0)) ** 2).sum(axis=1).mean()


def test_schedules_of_autoencoders() -> None:
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


PLACES = np.array([[2.0, 2.0], [5.0, 2.2], [7.0, 7.0], [2.0, 6.0]])


def velocities(cases: int, seed: int) -> Any:
    return RNG(seed).standard_normal((cases, len(PLACES), 2))


def test_bounces_keep_balls_inside_and_apart_and_their_energy() -> None:
    """Fast balls with hundreds of bounces; only walls change the momentum."""
    start = velocities(30, 0)
    x, v = move_balls(np.broadcast_to(PLACES, start.shape), start, 100)
    assert (x.min(), x.max()) == (pytest.approx(RADIUS, abs=1e-3), pytest.approx(BOX - RADIUS, abs=1e-3))
    assert ((x >= RADIUS) & (x <= BOX - RADIUS)).all()
    apart = np.linalg.norm(x[..., :, None, :] - x[..., None, :, :], axis=-1)
    apart = apart[..., ~np.eye(len(PLACES), dtype=bool)]
    assert 2 * RADIUS - 1e-9 <= apart.min() < 2 * RADIUS + 0.01
    energy = np.square(v).sum(axis=(2, 3))
    np.testing.assert_allclose(energy, np.broadcast_to(energy[0], energy.shape), rtol=1e-12)
    # From frame to frame, where no ball has been near a wall; there balls have hit each other all the same.
    x, v = move_balls(x[0], 0.2 * v[0], 100)
    reach = np.sqrt(np.square(v).sum(axis=(2, 3), keepdims=True))
    free = ((x - reach > RADIUS) & (x + reach < BOX - RADIUS)).all(axis=(2, 3))[:-1]
    hit = free & (np.abs(np.diff(v, axis=0)).max(axis=(2, 3)) > 1e-9)
    assert hit.sum() > 20
    np.testing.assert_allclose(np.diff(v.sum(axis=2), axis=0)[free], 0, atol=1e-12)


def test_balls_match_a_simulation_with_small_steps() -> None:
    """The loop reverses balls that have gone too far."""
    start, fine = 0.5 * velocities(3, 5), 3000
    x, v = np.broadcast_to(PLACES, start.shape).copy(), start.copy()
    for _ in range(4 * fine):
        x += v / fine
        v = np.where(x < RADIUS, np.abs(v), np.where(x > BOX - RADIUS, -np.abs(v), v))
        d = x[:, :, None] - x[:, None]
        apart = np.linalg.norm(d, axis=-1) + 10 * np.eye(len(PLACES))
        for n, i, j in np.argwhere(apart < 2 * RADIUS):
            w = d[n, i, j] / apart[n, i, j]
            nearing = w @ (v[n, i] - v[n, j])
            if i < j and nearing < 0:
                v[n, i] -= nearing * w
                v[n, j] += nearing * w
    exact, speeds = move_balls(np.broadcast_to(PLACES, start.shape), start, 5)
    assert not np.allclose(speeds[-1], start)
    np.testing.assert_allclose(exact[-1], x, atol=1e-2)


def test_pixels_of_balls() -> None:
    places = np.array([[2.0, 3.0], [8.0, 6.5]])
    image = draw_balls(places, 12).reshape(12, 12)
    for row, column in ((3, 2), (4, 3), (7, 9), (0, 11), (2, 1)):
        at = (np.array([column, row]) + 0.5) * BOX / 12
        ink = sum(np.exp(-((((at - place) ** 2).sum() / RADIUS**2) ** 4)) for place in places)
        assert image[row, column] == pytest.approx(min(1, ink), abs=1e-6)
    assert draw_balls([places[0], places[0]], 12).max() == 1
    area = draw_balls(places, 200).mean() * BOX**2
    assert area == pytest.approx(2 * np.pi * RADIUS**2 * 0.9064, rel=1e-3)  # Γ(5/4): of exp(-s⁴) over s > 0


def test_videos_of_balls() -> None:
    v = bouncing_balls(RNG(3), 4, time=6, size=15)
    assert (v.shape, v.dtype) == ((6, 4, 225), np.float32)
    assert ((v >= 0) & (v <= 1)).all()
    np.testing.assert_array_equal(v, bouncing_balls(RNG(3), 4, time=6, size=15))
    still = bouncing_balls(RNG(3), 4, time=6, size=15, speed=0)
    np.testing.assert_array_equal(still, np.broadcast_to(v[0], v.shape))
    # Copying the frame before is off by what the source's program gives: the speed is the source's.
    many = bouncing_balls(RNG(0), 40)
    assert np.square(np.diff(many, axis=0)).mean() == pytest.approx(0.013, abs=5e-4)
    assert SPEED == 0.5


def root_of(frame: Array) -> tuple[int, int]:
    """Which chord, and whether its lower notes are raised, told from the keys alone."""
    keys = np.flatnonzero(frame)
    steps = tuple(np.diff(keys))
    assert steps in ((4, 3), (5, 4)), keys
    return (int(keys[0]) - 27, 0) if steps == (4, 3) else (int(keys[0]) - 27 - 7, 1)


def test_frames_of_chords_have_the_documented_cost() -> None:
    """Frames determine their chord; moves and positions are equally frequent, within 5 deviations."""
    rolls = chords(RNG(0), 300, 20)
    assert rolls.shape == (20, 300, 88)
    told = np.array([[root_of(frame) for frame in step] for step in rolls])
    roots, raised = told[..., 0], told[..., 1]
    moves = np.diff(roots, axis=0) % 12
    after = Counter(zip(moves.ravel().tolist(), raised[1:].ravel().tolist(), strict=True))
    assert len(set(zip(roots[0].tolist(), raised[0].tolist(), strict=True))) == 24
    assert math.isclose(rnn.tasks.FIRST_CHORD_NATS, math.log(24))
    assert {move for move, _ in after} == {0, 5, 7}
    count, p = sum(after.values()), math.exp(-rnn.tasks.CHORD_NATS)
    assert len(after) == 6
    assert all(abs(n / count - p) < 5 * math.sqrt(p / count) for n in after.values())
    # Independent keys: the sum of their entropies, over the six frames that can follow a chord; docs/music.md.
    following: dict[int, set[bytes]] = {}
    for before, frame in zip(rolls[:-1].reshape(-1, 88), rolls[1:].reshape(-1, 88), strict=True):
        following.setdefault(root_of(before)[0], set()).add(frame.tobytes())
    for frames in following.values():
        assert len(frames) == 6
        p = np.mean([np.frombuffer(frame, np.float32) for frame in frames], axis=0, dtype=np.float64)
        p = p[(p > 0) & (p < 1)]
        assert -(p * np.log(p) + (1 - p) * np.log(1 - p)).sum() == pytest.approx(6.53, abs=0.005)


def test_chords_follow_from_the_generator() -> None:
    one, other = (chords(RNG(1), 3, 4) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_smoothing_by_hand() -> None:
    """1/2 at first, then 1/3 and 1/4 of the uniform distribution."""
    pi = [[1.0, 0.0, 0.0, 0.0], [0.7, 0.3, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]]
    expected = [
        [5 / 8, 1 / 8, 1 / 8, 1 / 8],
        [1.4 / 3 + 1 / 12, 0.6 / 3 + 1 / 12, 1 / 12, 1 / 12],
        [0.3 / 4 + 1 / 16, 0.6 / 4 + 1 / 16, 0.9 / 4 + 1 / 16, 1.2 / 4 + 1 / 16],
    ]
    assert smoothed(pi, 4) == pytest.approx(np.array(expected), rel=1e-15)


def test_smoothing_of_probabilities_and_of_pieces_agrees() -> None:
    pi, x = RNG(0).dirichlet(np.ones(5), (50, 3)), RNG(1).integers(0, 5, (50, 3, 1))
    mixed = smoothed(pi, 5)
    assert mixed.sum(axis=2) == pytest.approx(np.ones((50, 3)))
    came = smoothed(np.take_along_axis(pi, x, 2)[..., 0], 5)
    assert np.array_equal(came, np.take_along_axis(mixed, x, 2)[..., 0])
    assert np.array_equal(np.concatenate([smoothed(pi[:20], 5), smoothed(pi[20:], 5, first=20)]), mixed)


def test_cost_of_smoothing_is_bounded() -> None:
    """At most log₂(T + 1) bits in total; log₂((t + 2) symbols) for a symbol of probability 0."""
    p = RNG(0).random(1000)
    more = np.log2(p / smoothed(p, 7))
    assert more.sum() < math.log2(1001)
    assert np.log2(1 / (1 - 1 / (np.arange(1000) + 2))).sum() == pytest.approx(math.log2(1001))
    assert -np.log2(smoothed(np.zeros(9), 7)) == pytest.approx(np.log2((np.arange(9) + 2) * 7))


def test_regret_by_hand() -> None:
    drawn = Drawn("abcd", np.array([1.0, 2.0, 0.0, 0.5]), np.array([True, False, True, True]))
    assert regret([1.5, 9.0, 1.0, 0.0], drawn).tolist() == [0.5, 0.5, 1.5, 1.0]
    assert regret([1.5, math.inf, 1.0, 0.0], drawn)[-1] == 1.0  # what is not scored may be impossible
    assert regret([1.5, 0.0, math.inf, 0.0], drawn)[-1] == math.inf


def test_true_model_has_no_regret() -> None:
    for drawn in (alphabet(RNG(0), 20), distant_xor(RNG(0), 20, 30)):
        assert not regret(drawn.bits, drawn).any()
    drawn = distant_xor(RNG(0), 30, 20)
    assert regret(np.ones(len(drawn.text)), drawn)[-1] == 30


def test_regret_of_two_blocks_without_memory() -> None:
    """Ollivier 2013, section 4: a model that does not know that lines are equally long pays for the second what it
    pays for the first: with the law of the first, 10 bits a block."""
    drawn = anbn(RNG(0))
    lines = drawn.text.splitlines(keepends=True)
    bits = drawn.bits.copy()
    start = 0
    for number, line in enumerate(lines):
        if number % 2:
            bits[start : start + len(line)] = bits[start - len(line) : start]
        start += len(line)
    curve = regret(bits, drawn)
    assert curve[-1] == pytest.approx(100)
    assert curve[len(lines[0]) - 1] == 0
    assert curve[2 * len(lines[0]) - 1] == pytest.approx(10)


ABC = Drawn("abc", np.zeros(3), np.ones(3, bool))
FED = small()[0]
# fmt: off
REFUSED = {
    "count": (lambda: curve_images(RNG(0), 0), UsageError, "count .*>= 1, not 0"),
    "size": (lambda: curve_images(RNG(0), 5, 7), UsageError, "size .*>= 8, not 7"),
    "shape": (lambda: draw_curves(np.zeros((3, 2))), DataError, r"points must be .*not \[3, 2\]"),
    "outside": (lambda: draw_curves(np.full((1, 3, 2), 1.01)), DataError, r"points must be .*\[0, 1\]"),
    "nan": (lambda: draw_curves(np.full((1, 3, 2), math.nan)), DataError, "points must be"),
    "name": (lambda: autoencoder("SPIRALS"), UsageError, "sizes must be 'CURVES' or 'MNIST' or 'FACES'"),
    "no code": (lambda: autoencoder((784,)), UsageError, r"sizes .*not \(784,\)"),
    "width": (lambda: autoencoder((9, 0)), UsageError, "a width in sizes .*>= 1, not 0"),
    "activation": (lambda: autoencoder((9, 4), "relu"), UsageError, "activation .*not 'relu'"),
    "loss": (lambda: autoencoder((9, 4), loss="softmax"), UsageError, "loss must be 'sigmoid' or 'squared'"),
    "symbols": (lambda: Reconstruction(rnn.Network([rnn.Elman(3)], 4, 4), 5), UsageError, "read vectors"),
    "few images": (lambda: FED.feed(np.zeros((3, 100))), DataError, r"images must be .* not \[3, 100\]"),
    "no images": (FED.feed, UsageError, "Reconstruction.feed takes one array, the images, not 0"),
    "bytes": (lambda: FED.feed(np.full((100, 100), 255)), DataError, "divide bytes by 255"),
    "one image": (lambda: FED.error(np.zeros(100)), DataError, r"error: images .* not \[100\]"),
    "schedule": (lambda: autoencoder_optimizer("CIFAR"), UsageError, "name must be 'CURVES'"),
    "iterations": (lambda: autoencoder_optimizer(iterations=10), UsageError, "iterations .*>= 1000"),
    "no generator": (lambda: bouncing_balls(0, 1), UsageError, "generator must be a NumPy generator"),
    "balls": (lambda: bouncing_balls(RNG(0), 1, balls=40), UsageError, "40 balls of radius 1.2 do not fit"),
    "radius": (lambda: bouncing_balls(RNG(0), 1, radius=0), UsageError, "bouncing_balls: radius must be"),
    "in a wall": (lambda: move_balls([[[0.5, 5]]], [[[1, 0]]], 2), DataError, r"places .* \[1.2, 8.8\]"),
    "overlap": (lambda: move_balls([[[4, 5], [5, 5]]], np.ones((1, 2, 2)), 2), DataError, "2 radii apart"),
    "axes": (lambda: move_balls([[[5, 5]]], [[[1, 0, 0]]], 2), DataError, r"not \[1, 1, 2\] and \[1, 1, 3\]"),
    "no speed": (lambda: move_balls([[[5, 5]]], [[[np.nan, 0]]], 2), DataError, "must be finite"),
    "too fast": (lambda: move_balls([[[5, 5]]], [[[-1e9, 0]]], 2), DataError, r"at most 760 per frame .* got 1e\+09"),
    "no room": (lambda: bouncing_balls(RNG(0), 1, balls=1, radius=5), DataError, "velocities must be at most 0"),
    "text place": (lambda: move_balls([[["a", "b"]]], [[[1, 0]]], 2), DataError, "move_balls: places must be numbers"),
    "text picture": (lambda: draw_balls([["a", "b"]]), DataError, "draw_balls: places must be numbers, not <U1"),
    "text bits": (lambda: regret(["a", "b", "c"], ABC), DataError, r"regret: bits .* \[3\] of <U1"),
    "text probability": (lambda: smoothed(["a"], 3), DataError, "smoothed: probabilities must be numbers, not <U1"),
    "logarithms": (lambda: smoothed([-math.inf], 3), DataError, "smoothed: probabilities .*np.exp"),
    "picture": (lambda: draw_balls([5, 5]), DataError, r"\(..., balls, 2\), not \[2\]"),
    "no time": (lambda: chords(RNG(1), 3, 0), UsageError, "chords: time"),
    "too few": (lambda: regret([1.0], ABC), DataError, r"each of the text's 3 symbols, not the shape \[1\]"),
    "negative": (lambda: regret([0.0, -1.0, 0.0], ABC), DataError, "those of symbol 1 are -1"),
    "nan bits": (lambda: regret([0.0, 1.0, math.nan], ABC), DataError, "those of symbol 2 are nan"),
    "no probability": (lambda: smoothed([1.1], 3), DataError, r"smoothed: probabilities .*\[0, 1\]"),
    "no array": (lambda: smoothed(0.5, 3), DataError, r"smoothed: probabilities .*\[0, 1\]"),
    "no symbols": (lambda: smoothed([0.5], 0), UsageError, "smoothed: symbols .*>= 1, not 0"),
    "first": (lambda: smoothed([0.5], 3, first=-1), UsageError, "smoothed: first .*>= 0, not -1"),
}
# fmt: on


def test_invalid_arguments_are_rejected() -> None:
    for name, (call, error, part) in REFUSED.items():
        with case(name), pytest.raises(error, match=part):
            call()
