"""Bouncing balls: what elastic bounces keep, a motion in small steps as oracle, pixels by their formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.tasks import bouncing_balls, draw_balls, move_balls
from graphnet_rnn.tasks.balls import BOX, RADIUS, SPEED
from tests.tables import case

PLACES = np.array([[2.0, 2.0], [5.0, 2.2], [7.0, 7.0], [2.0, 6.0]])


def velocities(cases: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((cases, len(PLACES), 2))


def test_bounces_keep_balls_inside_and_apart_and_their_energy() -> None:
    """Fast balls: hundreds of bounces; walls alone change the momentum."""
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


def test_as_in_small_steps() -> None:
    """A loop that knows no moment of a bounce: it turns what has gone too far."""
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


def test_pixels() -> None:
    places = np.array([[2.0, 3.0], [8.0, 6.5]])
    image = draw_balls(places, 12).reshape(12, 12)
    for row, column in ((3, 2), (4, 3), (7, 9), (0, 11), (2, 1)):
        at = (np.array([column, row]) + 0.5) * BOX / 12
        ink = sum(np.exp(-((((at - place) ** 2).sum() / RADIUS**2) ** 4)) for place in places)
        assert image[row, column] == pytest.approx(min(1, ink), abs=1e-6)
    assert draw_balls([places[0], places[0]], 12).max() == 1
    area = draw_balls(places, 200).mean() * BOX**2
    assert area == pytest.approx(2 * np.pi * RADIUS**2 * 0.9064, rel=1e-3)  # Γ(5/4): of exp(-s⁴) over s > 0


def test_videos() -> None:
    v = bouncing_balls(np.random.default_rng(3), 4, time=6, size=15)
    assert (v.shape, v.dtype) == ((6, 4, 225), np.float32)
    assert ((v >= 0) & (v <= 1)).all()
    np.testing.assert_array_equal(v, bouncing_balls(np.random.default_rng(3), 4, time=6, size=15))
    still = bouncing_balls(np.random.default_rng(3), 4, time=6, size=15, speed=0)
    np.testing.assert_array_equal(still, np.broadcast_to(v[0], v.shape))
    # Copying the frame before is off by what the source's program gives: the speed is the source's.
    many = bouncing_balls(np.random.default_rng(0), 40)
    assert np.square(np.diff(many, axis=0)).mean() == pytest.approx(0.013, abs=5e-4)
    assert SPEED == 0.5


RNG = np.random.default_rng(0)
# fmt: off
REFUSED = {
    "generator": (lambda: bouncing_balls(0, 1), UsageError, "generator must be one of NumPy"),
    "balls": (lambda: bouncing_balls(RNG, 1, balls=40), UsageError, "40 balls of radius 1.2 find no"),
    "radius": (lambda: bouncing_balls(RNG, 1, radius=0), UsageError, "bouncing_balls: radius must be"),
    "outside": (lambda: move_balls([[[0.5, 5]]], [[[1, 0]]], 2), DataError,
                r"places must be in \[1.2, 8.8\]"),
    "overlap": (lambda: move_balls([[[4, 5], [5, 5]]], np.ones((1, 2, 2)), 2), DataError, "2 radii apart"),
    "axes": (lambda: move_balls([[[5, 5]]], [[[1, 0, 0]]], 2), DataError, r"not \[1, 1, 2\] and \[1, 1, 3\]"),
    "nan": (lambda: move_balls([[[5, 5]]], [[[np.nan, 0]]], 2), DataError, "must be finite"),
    "picture": (lambda: draw_balls([5, 5]), DataError, r"\(..., balls, 2\), not \[2\]"),
}
# fmt: on


def test_what_cannot_be_meant_is_refused() -> None:
    for name, (call, error, part) in REFUSED.items():
        with case(name), pytest.raises(error, match=part):
            call()
