"""Videos of balls that bounce off the walls of a box and off each other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from graphnet.graph.node import Array
from graphnet_rnn.errors import DataError, UsageError
from graphnet_rnn.network.running import array_of, checked_floats
from graphnet_rnn.settings import amount, require_generator, whole_number

#: Side of the box, the unit of length; radius of a ball; root of the sum of all squared speeds.
BOX, RADIUS, SPEED = 10.0, 1.2, 0.5
#: Maximum number of times that a ball may cross the box in a frame. Each bounce takes computing time.
CROSSINGS = 100
#: Maximum number of attempts to place the balls.
PLACINGS = 10_000
#: Tolerance of overlaps, for rounding.
ROUNDING = 1e-9


def bouncing_balls(
    generator: np.random.Generator,
    cases: int,
    time: int = 100,
    size: int = 30,
    balls: int = 3,
    radius: float = RADIUS,
    speed: float = SPEED,
) -> Array:
    """Videos of `size` by `size` pixels: float32 (time, cases, size²), row by row, in [0, 1]

    generator: NumPy generator. cases: number of videos. time: number of frames; 100 by default. size: width and height
    in pixels; 30 by default. balls: number of balls; 3 by default. radius: radius of the balls in a box of side 10; 1.2
    by default. speed: root of Σ |velocity|² in box units per frame; 0.5 by default.
    Positions are uniform without contact, velocities normal, then scaled: each of three balls moves 0.26 per frame on
    average, 0.8 of 30 pixels. See move_balls and draw_balls.
    Raises UsageError for other generators, and for more balls than fit; DataError for a speed that move_balls refuses.
    Source: Sutskever 2013, 3.11.1. Sizes are those of the program of Sutskever, Hinton & Taylor 2008 in copies by
    others; its balls move in steps of half a frame, and overlap a little before they bounce.

    >>> rnn.tasks.bouncing_balls(np.random.default_rng(0), cases=2, time=5, size=15).shape
    (5, 2, 225)
    """
    generator, own = require_generator("bouncing_balls", generator), "bouncing_balls"
    cases, balls = whole_number(f"{own}: cases", cases), whole_number(f"{own}: balls", balls)
    radius, speed = amount(f"{own}: radius", radius, above_zero=True), amount(f"{own}: speed", speed)
    places = _placed(generator, cases, balls, radius)
    velocities = generator.standard_normal((cases, balls, 2))
    velocities *= speed / np.sqrt(np.square(velocities).sum(axis=(1, 2), keepdims=True))
    return draw_balls(move_balls(places, velocities, time, radius)[0], size, radius)


def _placed(generator: np.random.Generator, cases: int, balls: int, radius: float) -> Array:
    found = np.empty((cases, balls, 2))
    missing = np.arange(cases)
    fits = 2 * radius <= BOX and balls * np.pi * radius**2 < BOX**2
    for _ in range(PLACINGS if fits else 0):
        found[missing] = generator.uniform(radius, BOX - radius, (len(missing), balls, 2))
        missing = missing[_least_gap(found[missing], radius) < 0]
        if not missing.size:
            return found
    raise UsageError(
        f"bouncing_balls: {balls} balls of radius {radius:g} do not fit into a box of side 10; use fewer or smaller "
        "balls"
    )


def _least_gap(places: Array, radius: float) -> Array:
    """Minimum distance between the surfaces of two balls, (cases,); negative for an overlap, inf for one ball."""
    first, second = _pairs(places.shape[1])
    apart = np.linalg.norm(places[:, first] - places[:, second], axis=2)
    found: Array = apart.min(axis=1, initial=np.inf) - 2 * radius
    return found


def _pairs(balls: int) -> tuple[Array, Array]:
    pairs = np.array(list(itertools.combinations(range(balls), 2)), int).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


# -- motion ------------------------------------------------------------------------------------------


def move_balls(places: Any, velocities: Any, time: int, radius: float = RADIUS) -> tuple[Array, Array]:
    """Positions and velocities of equal balls in `time` frames: (time, cases, balls, 2) each, float64

    Balls move straight between bounces, whose times are exact. A wall reverses the velocity perpendicular to it; two
    balls exchange the components along the line between them. So energy is conserved, and momentum except at walls.
    places: centers (cases, balls, 2), in [radius, 10 - radius]. velocities: in box units per frame; frame 0 is as
    given. time: number of frames. radius: radius of the balls; 1.2 by default.
    Raises DataError for balls that overlap, or leave the box, and for velocities above 100 (10 - 2 radius), at which a
    ball crosses the box 100 times per frame.

    >>> places, velocities = rnn.tasks.move_balls([[[2.0, 5.0]]], [[[1.0, 0.0]]], time=3)
    >>> places[:, 0, 0].tolist()
    [[2.0, 5.0], [3.0, 5.0], [4.0, 5.0]]
    """
    x, v = _coordinates("move_balls: places", places), _coordinates("move_balls: velocities", velocities)
    time, radius = whole_number("move_balls: time", time), amount("move_balls: radius", radius)
    if x.ndim != 3 or x.shape[2] != 2 or x.shape != v.shape:
        raise DataError(
            f"move_balls: places and velocities must be (cases, balls, 2), not {list(x.shape)} and "
            f"{list(v.shape)}"
        )
    if not ((x >= radius) & (x <= BOX - radius)).all() or (_least_gap(x, radius) < -ROUNDING).any():
        raise DataError(
            f"move_balls: the places must be in [{radius:g}, {BOX - radius:g}] and at least 2 radii apart; some "
            "balls overlap, or are outside"
        )
    most, fastest = CROSSINGS * (BOX - 2 * radius), np.abs(v).max(initial=0)
    if fastest > most:
        raise DataError(
            f"move_balls: velocities must be at most {most:g} per frame in each direction ({CROSSINGS} times across "
            f"the box); got {fastest:g}. Use slower balls"
        )
    all_x, all_v = np.empty((2, time, *x.shape))
    at = np.zeros(len(x))  # time of x and v
    until, which = _next_bounce(x, v, radius)
    for t in range(time):
        while (due := np.flatnonzero(until <= t)).size:
            x[due] += v[due] * (until - at)[due, None, None]
            at[due] = until[due]
            x[due], v[due] = _bounced(x[due], v[due], which[due], radius)
            wait, which[due] = _next_bounce(x[due], v[due], radius)
            until[due] = at[due] + wait
        all_x[t], all_v[t] = x + v * (t - at)[:, None, None], v
    return np.clip(all_x, radius, BOX - radius, out=all_x), all_v


def _coordinates(what: str, given: Any) -> Array:
    return checked_floats(what, array_of(what, given), np.float64)


def _next_bounce(x: Array, v: Array, radius: float) -> tuple[Array, Array]:
    """Time until the next bounce of each case, and its index: a coordinate at a wall, or after those a pair."""
    cases, balls, _ = x.shape
    first, second = _pairs(balls)
    with np.errstate(divide="ignore", invalid="ignore"):
        walls = np.where(v > 0, (BOX - radius - x) / v, np.where(v < 0, (radius - x) / v, np.inf))
        dx, dv = x[:, first] - x[:, second], v[:, first] - v[:, second]
        # |dx + dv t| = 2 radius, at its first root; none unless they come nearer.
        a, b, c = (dv * dv).sum(2), (dx * dv).sum(2), (dx * dx).sum(2) - 4 * radius**2
        root = np.sqrt(b * b - a * c)
        pairs = np.where((b < 0) & (root >= 0), c / (root - b), np.inf)
    every = np.concatenate([walls.reshape(cases, -1), pairs], axis=1)
    which = every.argmin(axis=1)
    return np.maximum(every[np.arange(cases), which], 0), which


def _bounced(x: Array, v: Array, which: Array, radius: float) -> tuple[Array, Array]:
    cases, balls, _ = x.shape
    flat = v.reshape(cases, -1)
    (wall,) = np.nonzero(which < 2 * balls)
    flat[wall, which[wall]] *= -1
    (hit,) = np.nonzero(which >= 2 * balls)
    first, second = (side[which[hit] - 2 * balls] for side in _pairs(balls))
    along = x[hit, first] - x[hit, second]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    exchanged = ((v[hit, second] - v[hit, first]) * along).sum(axis=1, keepdims=True) * along
    v[hit, first] += exchanged
    v[hit, second] -= exchanged
    return np.clip(x, radius, BOX - radius), v


# -- pixels ------------------------------------------------------------------------------------------


def draw_balls(places: Any, size: int = 30, radius: float = RADIUS) -> Array:
    """I(p) = min(1, Σ exp(-(|p - place|² / radius²)⁴)) over the balls: float32 (..., size²), row by row

    places: centers (..., balls, 2), each (x, y), where (0, 0) is at the top left of a box of side 10. Centers of pixels
    are 10 (k + ½) / size, k = 0 ... size - 1. A ball is 1 inside, 1/e at its radius, 0 outside. size: width and height
    in pixels; 30 by default. radius: radius of the balls; 1.2 by default.
    Raises DataError for positions that do not fit.

    >>> rnn.tasks.draw_balls([[5.0, 5.0]], size=3).reshape(3, 3).round(1).tolist()
    [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    size, radius = (
        whole_number("draw_balls: size", size),
        amount("draw_balls: radius", radius, above_zero=True),
    )
    p = _coordinates("draw_balls: places", places)
    if p.ndim < 2 or p.shape[-1] != 2:
        raise DataError(f"draw_balls: places must be (..., balls, 2), not {list(p.shape)}")
    frames = p.reshape(-1, *p.shape[-2:])
    pixels = BOX * (np.arange(size) + 0.5) / size
    images = np.empty((len(frames), size, size), np.float32)
    for start in range(0, len(frames), 500):  # limits the memory of intermediate results
        some = frames[start : start + 500, :, :, None]
        across, down = np.moveaxis(((some - pixels) / radius) ** 2, 2, 0).astype(np.float32)
        squared = down[..., :, None] + across[..., None, :]
        ink = np.exp(-(squared**4)).sum(axis=1)
        images[start : start + 500] = np.minimum(ink, 1)
    return images.reshape(*p.shape[:-2], size * size)
