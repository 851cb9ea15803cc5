"""The line search against the tables of its source, and on functions that break or that rounding hides."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from graphnet_rnn.optimizers.line_search import LineSearch, Wolfe
from tests.tables import case


def searched(f, slope, first: float, rule: Wolfe, hidden: float = 0.0) -> tuple[LineSearch, int]:
    """A search that has ended, and how many values it asked for."""
    search, asked = LineSearch(f(0.0), slope(0.0), first, rule, hidden), 0
    while not search.ended:
        step = search.step
        search.tell(f(step), slope(step))
        asked += 1
    return search, asked


def wavy(b: float = 0.01, l: float = 39.0):
    def f(a: float) -> float:
        kink = ((a - 1) ** 2 / b + b) / 2 if abs(a - 1) < b else abs(a - 1)
        return kink + 2 * (1 - b) / (l * math.pi) * math.sin(l * math.pi / 2 * a)

    def slope(a: float) -> float:
        kink = (a - 1) / b if abs(a - 1) < b else math.copysign(1, a - 1)
        return kink + (1 - b) * math.cos(l * math.pi / 2 * a)

    return f, slope


def two_kinks(b1: float, b2: float):
    """Of Yanai, Ozawa & Kaneko."""
    g1, g2 = (math.sqrt(1 + b * b) - b for b in (b1, b2))

    def f(a: float) -> float:
        return g1 * math.hypot(1 - a, b2) + g2 * math.hypot(a, b1)

    def slope(a: float) -> float:
        return -g1 * (1 - a) / math.hypot(1 - a, b2) + g2 * a / math.hypot(a, b1)

    return f, slope


RATIONAL = (lambda a: -a / (a * a + 2), lambda a: (a * a - 2) / (a * a + 2) ** 2)
QUINTIC = (
    lambda a: (a + 0.004) ** 5 - 2 * (a + 0.004) ** 4,
    lambda a: 5 * (a + 0.004) ** 4 - 8 * (a + 0.004) ** 3,
)
#: Tables I to VI: μ, η, then for first steps of 10⁻³, 10⁻¹, 10 and 10³ the evaluations, and the step.
TABLES = {
    "I": (RATIONAL, 1e-3, 0.1, [(6, 1.4), (3, 1.4), (1, 10), (4, 37)]),
    "II": (QUINTIC, 0.1, 0.1, [(12, 1.6), (8, 1.6), (8, 1.6), (11, 1.6)]),
    "III": (wavy(), 0.1, 0.1, [(12, 1.0), (12, 1.0), (10, 1.0), (13, 1.0)]),
    "IV": (two_kinks(1e-3, 1e-3), 1e-3, 1e-3, [(4, 0.085), (1, 0.1), (3, 0.35), (4, 0.83)]),
    "V": (two_kinks(1e-2, 1e-3), 1e-3, 1e-3, [(6, 0.075), (3, 0.078), (7, 0.073), (8, 0.076)]),
    "VI": (two_kinks(1e-3, 1e-2), 1e-3, 1e-3, [(13, 0.93), (11, 0.93), (8, 0.92), (11, 0.92)]),
}


def test_the_tables_of_the_source() -> None:
    for table, ((f, slope), c1, c2, rows) in TABLES.items():
        with case(table):
            for first, (evaluations, step) in zip((1e-3, 1e-1, 1e1, 1e3), rows, strict=True):
                search, asked = searched(f, slope, first, Wolfe(c1, c2, width=0.0, trials=30))
                assert (search.ended, asked) == ("wolfe", evaluations)
                assert search.best == pytest.approx(step, rel=0.03)
                assert f(search.best) <= f(0) + c1 * search.best * slope(0)
                assert abs(slope(search.best)) <= c2 * abs(slope(0))


LOOSE = Wolfe(c1=1e-3, c2=0.9, width=0.1)


def test_what_is_not_finite_is_too_far() -> None:
    """(α - 2)², from a first step beyond the edge: to the minimum if it is on this side, else near the edge."""
    for edge, broken, beyond in itertools.product(
        [0.3, 1.5, 3.5], ["value", "slope", "both"], [math.nan, math.inf, -math.inf]
    ):
        with case(edge, broken, beyond):

            def f(a: float) -> float:
                return beyond if a > edge and broken != "slope" else (a - 2) ** 2

            def slope(a: float) -> float:
                return beyond if a > edge and broken != "value" else 2 * (a - 2)

            for first in (4.0, 1e3, 1e9):
                search, asked = searched(f, slope, first, Wolfe(1e-4, 0.1, width=1e-3))
                assert asked <= 20
                assert 0.5 * min(edge, 2) < search.best <= edge
                assert search.ended == ("wolfe" if edge > 2 else "width") or asked == 20


def test_it_ends_where_there_is_no_minimum() -> None:
    """The slope promised a fall that there is not; one without an end; values that overflow."""
    search, asked = searched(abs, lambda a: -1.0, 1.0, LOOSE)
    assert (search.best, search.ended, asked) == (0.0, "trials", 20)
    search, asked = searched(lambda a: -a, lambda a: -1.0, 1.0, Wolfe(1e-3, 0.9, width=0.1, trials=7))
    assert (search.ended, asked, search.best) == ("trials", 7, 1 + 4 + 16 + 64 + 256 + 1024 + 4096)
    search, asked = searched(
        lambda a: 1e308 * (2 * a - 1), lambda a: -1e308 if a < 1e-3 else 1e308, 1.0, LOOSE
    )
    assert asked <= 20
    assert np.isfinite(search.step)


def test_where_rounding_hides_the_fall_slopes_decide() -> None:
    """A parabola whose values are known to 10⁻⁶ and which falls by 10⁻⁸; what can be seen to rise is not accepted."""
    flat, steep = lambda a: 2e-8 * (a - 1), lambda a: 2e-3 * (a - 1)
    rising = lambda by: lambda a: 1 + by * (a > 0)
    search, asked = searched(rising(1e-7), flat, 1.3, LOOSE, hidden=1e-6)
    assert (search.ended, search.best, asked) == ("slopes", 1.3, 1)
    cases = [
        (rising(1e-7), flat, 1.3, 0.0), (rising(1e-7), flat, 1.3, 1e-10), (rising(1e-5), flat, 1.3, 1e-6),
        (rising(1e-7), steep, 1.0, 1e-6),  # slopes that promise more than rounding hides
    ]  # fmt: skip
    for f, slope, first, hidden in cases:
        search, _ = searched(f, slope, first, LOOSE, hidden)
        assert search.ended in ("trials", "width")
        assert search.best == 0


def test_where_rounding_hides_the_fall_slopes_lead() -> None:
    """From a trial that is too far, or too near, to the minimum of the parabola, which no value shows."""
    for first in [3.0, 50.0, 1e-3]:
        with case(first):
            f, slope = lambda a: 1 + 1e-7 * math.sin(1e6 * a), lambda a: 2e-8 * (a - 1)
            search, asked = searched(f, slope, first, Wolfe(1e-4, 0.1, width=1e-14), 1e-6)
            assert search.ended in ("slopes", "wolfe")
            assert 0 < search.best < 2  # lower on the parabola than where it began
            assert asked <= 12
