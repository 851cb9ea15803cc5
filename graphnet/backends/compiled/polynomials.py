"""Polynomials of the functions that back ends compute themselves, worked out from the functions' own series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

__all__ = ["exp_coefficients", "through"]


@cache
def exp_coefficients(single: bool, times: int) -> tuple[float, ...]:
    """(exp(times · r) - 1) / r on |times · r| <= ½ ln 2: the polynomial that is exact at the Chebyshev points."""
    count = 5 if single else 11
    half = math.log(2) / 2
    points = [half * math.cos(math.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    xs = [Fraction(x) for x in points]
    polynomial = through(xs, [sum((x**k / math.factorial(k + 1) for k in range(30)), Fraction()) for x in xs])
    return tuple(float(c) * times ** (k + 1) for k, c in enumerate(polynomial))


def through(xs: Sequence[Fraction], values: Sequence[Fraction]) -> list[Fraction]:
    """The polynomial with these values there: Newton's divided differences, in exact fractions, then multiplied out."""
    count, table = len(xs), list(values)
    for order in range(1, count):
        for i in range(count - 1, order - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (xs[i] - xs[i - order])
    polynomial = [Fraction(0)]
    for i in range(count - 1, -1, -1):
        shifted = [Fraction(0), *polynomial]
        lowered = [*(-xs[i] * c for c in polynomial), Fraction(0)]
        polynomial = [a + b for a, b in zip(shifted, lowered, strict=True)]
        polynomial[0] += table[i]
    return polynomial[:count]
