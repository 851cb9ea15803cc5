"""Pace: the number of threads follows what they gain, and finding out costs next to nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from graphnet.backends.numba.pace import CLEARLY, LATEST, Pace
from tests.tables import case


def spent(pace: Pace, seconds_of: Callable[[int, float], float], until: float, clock: float = 0.0) -> float:
    """Seconds of a call, on average, if one by so many threads takes so long at this time: no clock is read."""
    calls, start = 0, clock
    while clock < until:
        seconds = seconds_of(pace.threads, clock)
        pace.took(seconds)
        clock += seconds
        calls += 1
    return (clock - start) / calls


def test_the_faster_way_is_found_and_kept() -> None:
    for one, two in ((1.2e-3, 0.6e-3), (1e-3, 5e-3), (1e-3, 30e-3), (1e-4, 5e-4), (1e-3, 1e-3)):
        pace = Pace(2)
        seconds = {1: one, 2: two}
        spent(pace, lambda threads, now, seconds=seconds: seconds[threads], 2.0)
        later = spent(pace, lambda threads, now, seconds=seconds: seconds[threads], 30.0, 2.0)
        assert later < 1.02 * min(one, two), seconds


def test_it_changes_when_the_load_does() -> None:
    def seconds(threads: int, now: float) -> float:
        busy = 10.0 < now < 40.0
        return 1.2e-3 if threads == 1 else 8e-3 if busy else 0.6e-3

    pace = Pace(2)
    for start, end, best in ((0.0, 10.0, 0.6e-3), (10.0, 40.0, 1.2e-3), (40.0, 90.0, 0.6e-3)):
        spent(pace, seconds, start + 1.2 * LATEST, start)
        assert spent(pace, seconds, end, start + 1.2 * LATEST) < 1.05 * best


def test_noise_changes_little() -> None:
    generator = np.random.default_rng(0)

    def seconds(threads: int, now: float) -> float:
        stolen = 5e-3 if generator.random() < 0.05 else 0.0
        return (0.7e-3 if threads == 2 else 1.2e-3) * generator.uniform(0.9, 1.2) + stolen

    always = np.mean([seconds(2, 0.0) for _ in range(5000)])
    assert spent(Pace(2), seconds, 60.0) < 1.1 * always


def test_trials_cost_little_whatever_a_call_takes() -> None:
    """At most 2 % of the time, once the faster way is found; calls of 25 to 50 ms used to lose a fifth of it."""
    for most, two in itertools.product((2, 16), (1e-5, 1e-2, 0.025, 0.05, 1.0)):
        for ratio in (0.02, 0.3, 0.5, 0.85, 0.95, 1, 1.1, 1.9, 10, 50):
            seconds, pace = {1: two * ratio, most: two}, Pace(most)
            with case(most, two, ratio):
                clock = 3000 * two + 0.1
                spent(pace, lambda threads, now, seconds=seconds: seconds[threads], clock)
                later = spent(pace, lambda threads, now, seconds=seconds: seconds[threads], 3 * clock, clock)
                best = min(two, two * ratio / CLEARLY) if ratio < 1 else two
                assert later <= 1.02 * best


def test_one_thread_is_left_alone() -> None:
    pace = Pace(1)
    assert all((pace.took(1e-3), pace.threads)[1] == 1 for _ in range(1000))
