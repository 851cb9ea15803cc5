"""Places for labels: in order, apart, within bounds, and no further off than need be."""

from __future__ import annotations

import numpy as np

from tests.tables import case
from viz.charts.labels import spread


def test_places_that_are_apart_stay():
    places = np.array([0.9, 0.1, 0.5])
    np.testing.assert_allclose(spread(places, 0.2), places)


def test_two_in_one_place_move_by_half_a_gap_each():
    np.testing.assert_allclose(spread(np.array([0.5, 0.5]), 0.1), [0.45, 0.55])
    np.testing.assert_allclose(spread(np.array([1.0, 1.0]), 0.1), [0.9, 1.0])


def test_random_places():
    """Least squares: no small change that keeps the bounds is better."""
    for seed in range(20):
        with case(seed):
            generator = np.random.default_rng(seed)
            places = generator.random(generator.integers(1, 9)) ** 2
            gap = 0.1
            found = spread(places, gap)
            order = np.argsort(places, kind="stable")
            assert (np.diff(found[order]) > gap - 1e-12).all()
            assert found.min() > -1e-12
            assert found.max() < 1 + 1e-12
            cost = np.square(found - places).sum()
            for _ in range(200):
                other = found + generator.normal(0, 0.01, len(found))
                if (np.diff(other[order]) >= gap).all() and other.min() >= 0 and other.max() <= 1:
                    assert np.square(other - places).sum() > cost - 1e-12


def test_without_room_they_lie_evenly():
    np.testing.assert_allclose(spread(np.full(5, 0.3), 0.5), [0, 0.25, 0.5, 0.75, 1])


def test_no_labels():
    assert spread(np.zeros(0), 0.1).size == 0
