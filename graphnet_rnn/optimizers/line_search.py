"""A line search by the strong Wolfe conditions, with reverse communication: the caller evaluates.

Works on numbers only, f and its slope along a line, so vectors may lie in any memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Minimum and maximum extrapolation factor (the paper's δ_max, and the lower bound of MINPACK-2).
LEAST_GROWTH, MOST_GROWTH = 1.1, 4.0
#: Two trials must shrink the interval to this fraction of its length; else it is bisected.
SHRINKS = 0.66
#: After a trial that is not finite, the next step is this fraction of the way to it.
BACK = 0.1


@dataclass(frozen=True)
class Wolfe:
    """f(α) ≤ f(0) + c₁ α f'(0) and |f'(α)| ≤ c₂ |f'(0)|: the conditions of a line search.

    width: also ends at an interval no longer than this fraction of its upper end. trials: maximum number of steps.
    """

    c1: float
    c2: float
    width: float
    trials: int = 20


@dataclass(frozen=True)
class _Trial:
    step: float
    value: float
    slope: float

    def tilted(self, slope: float) -> _Trial:
        """Returns the trial of f(α) - slope · α."""
        return _Trial(self.step, self.value - self.step * slope, self.slope - slope)


class LineSearch:
    """α > 0 by the strong Wolfe conditions, in an interval that shrinks around a minimum of f.

        search = LineSearch(value, slope, first, rule)  # f(0), f'(0) < 0 and the first α
        while not search.ended:
            search.tell(f(search.step), slope(search.step))

    step: the next trial. best: the best step so far, 0 at first. ended: "" while running, "wolfe" if the best step
    meets the conditions, else "slopes" (see hidden), "width" or "trials" (see Wolfe).
    hidden: bound on the rounding error of a value. If the expected decrease ½ α |f'(0)| is smaller, slopes decide:
    f'(α) ≤ (2 c₁ - 1) f'(0) is the first condition for a parabola, and f(α) ≤ f(0) + hidden suffices.
    A value or slope that is not finite counts as too far.
    Source: Moré & Thuente 1994, sections 2 to 4, with the constants of their MINPACK-2, so that it tries the same steps
    as SciPy; for `hidden` Hager & Zhang 2005, section 1.
    """

    def __init__(self, value: float, slope: float, first: float, rule: Wolfe, hidden: float = 0.0) -> None:
        self.step, self.ended = first, ""
        self._rule, self._trials, self._hidden = rule, 0, hidden
        self._start = self._best = self._other = _Trial(0.0, value, slope)
        self._bracketed = False
        #: True until f(α) - f(0) - c₁ α f'(0) is shown to have a minimum in the interval.
        self._first_stage = True
        self._lowest, self._highest = 0.0, (1 + MOST_GROWTH) * first
        self._lengths = [math.inf, math.inf]

    @property
    def best(self) -> float:
        # A step chosen by slopes alone is a result only once it meets the conditions.
        lower = self._best.value < self._start.value or self.ended in ("wolfe", "slopes")
        return self._best.step if lower else 0.0

    def tell(self, value: float, slope: float) -> None:
        """Updates the search with f and its slope at `step`: sets the next step, or ends."""
        self._trials += 1
        if not (math.isfinite(value) and math.isfinite(slope)):
            self._bracketed, self._other = True, _Trial(self.step, math.inf, math.inf)
            self._go_to(self._best.step + BACK * (self.step - self._best.step))
            return
        now, descent = _Trial(self.step, value, slope), self._rule.c1 * self._start.slope
        target = self._start.value + now.step * descent
        self.ended = self._met(now, target)
        if self.ended:
            self._best = now
            return
        if self._says_nothing(now):
            self._narrow_by_slopes(now)
            return
        self._first_stage = self._first_stage and not (value <= target and slope >= 0)
        # While f falls less than required, minimize its excess over the required decrease.
        tilt = descent if self._first_stage and target < value <= self._best.value else 0.0
        self._narrow(now, tilt)

    def _met(self, now: _Trial, target: float) -> str:
        slope = self._start.slope
        if now.value <= target and abs(now.slope) <= -self._rule.c2 * slope:
            return "wolfe"
        falls = self._rule.c2 * slope <= now.slope <= (2 * self._rule.c1 - 1) * slope
        return "slopes" if falls and self._says_nothing(now) else ""

    def _says_nothing(self, now: _Trial) -> bool:
        """True if rounding may hide the change of the trial's value."""
        value, slope = self._start.value, self._start.slope
        return -0.5 * now.step * slope <= self._hidden and now.value <= value + self._hidden

    def _narrow_by_slopes(self, now: _Trial) -> None:
        """Narrows the interval by the signs of slopes; the next step is their zero by interpolation."""
        if now.slope < 0:
            self._best = now
        else:
            self._other, self._bracketed = now, True
        best, other = self._best, self._other
        if not self._bracketed:
            self._go_to(self._highest)
        else:
            # NaN leads to bisection, where the slope at the other end cannot be used.
            share = best.slope / (best.slope - other.slope) if 0 < other.slope < math.inf else math.nan
            self._go_to(best.step + share * (other.step - best.step))

    def _narrow(self, now: _Trial, tilt: float) -> None:
        """Narrows the interval and chooses the next step (section 4 of the paper)."""
        best, other, last = (trial.tilted(tilt) for trial in (self._best, self._other, now))
        higher, turned = last.value > best.value, last.slope * math.copysign(1, best.slope) < 0
        if higher:
            step = _between(best, last)
        elif turned:
            step = _past(best, last)
        elif abs(last.slope) < abs(best.slope):
            step = self._flatter(best, other, last)
        elif self._bracketed:
            step = last.step + _cubic(last, other) * (other.step - last.step)
        else:
            step = self._highest if last.step > best.step else self._lowest
        if higher:
            self._other = now
        else:
            self._other, self._best = (self._best if turned else self._other), now
        self._bracketed = self._bracketed or higher or turned
        self._go_to(step)

    def _flatter(self, best: _Trial, other: _Trial, last: _Trial) -> float:
        """Returns a step beyond the last trial, where f is lower and falls less steeply."""
        secant = last.step + last.slope / (last.slope - best.slope) * (best.step - last.step)
        share = _cubic(last, best)
        if share < 0:
            cubic = last.step + share * (best.step - last.step)
        else:
            cubic = self._highest if last.step > best.step else self._lowest
        nearer = abs(cubic - last.step) < abs(secant - last.step)
        if not self._bracketed:
            return min(max(secant if nearer else cubic, self._lowest), self._highest)
        limit = last.step + SHRINKS * (other.step - last.step)
        step = cubic if nearer else secant
        return min(limit, step) if last.step > best.step else max(limit, step)

    def _go_to(self, step: float) -> None:
        best, other = self._best.step, self._other.step
        if self._bracketed:
            length = abs(other - best)
            if not math.isfinite(step) or length >= SHRINKS * self._lengths[0]:
                step = best + 0.5 * (other - best)
            self._lengths = [self._lengths[1], length]
            self._lowest, self._highest = min(best, other), max(best, other)
            narrow = self._highest - self._lowest <= self._rule.width * self._highest
            if narrow or not self._lowest < step < self._highest:
                self.ended = "width"
        else:
            self._lowest = step + LEAST_GROWTH * (step - best)
            self._highest = step + MOST_GROWTH * (step - best)
        if not self.ended and self._trials >= self._rule.trials:
            self.ended = "trials"
        self.step = step


def _cubic(a: _Trial, b: _Trial) -> float:
    """Returns the minimum of the cubic interpolant, as a fraction of the way from a to b; NaN if none."""
    z = 3 * (b.value - a.value) / (a.step - b.step) + a.slope + b.slope
    scale = max(abs(z), abs(a.slope), abs(b.slope))
    if not 0 < scale < math.inf:
        return math.nan
    square = (z / scale) ** 2 - (a.slope / scale) * (b.slope / scale)
    if not square > 0:
        return math.nan
    root = math.copysign(scale * math.sqrt(square), b.step - a.step)
    divisor = (root - a.slope) + root + b.slope
    return ((root - a.slope) + z) / divisor if divisor else math.nan


def _between(best: _Trial, last: _Trial) -> float:
    """Case of a higher value: the cubic's minimum, or the middle between it and the parabola's."""
    way = last.step - best.step
    cubic = best.step + _cubic(best, last) * way
    bend = (best.value - last.value) / way + best.slope
    parabola = best.step + 0.5 * best.slope / bend * way if bend else math.nan
    if abs(cubic - best.step) <= abs(parabola - best.step):
        return cubic
    return cubic + (parabola - cubic) / 2


def _past(best: _Trial, last: _Trial) -> float:
    """Case of a lower value and a positive slope: the farther of the cubic's minimum and the secant's."""
    way = best.step - last.step
    cubic = last.step + _cubic(last, best) * way
    secant = last.step + last.slope / (last.slope - best.slope) * way
    return cubic if abs(cubic - last.step) > abs(secant - last.step) else secant
