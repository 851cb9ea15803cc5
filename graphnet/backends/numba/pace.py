"""Pace: how many threads a program uses follows what they gain, tried out now and then."""

from __future__ import annotations

from statistics import median

__all__ = ["Pace"]

#: Calls of each way in a trial.
TRIALS = 4
#: A trial may cost so small a part of the time: what it loses, times this, is the time to the next one at least.
SPARING = 100
#: Seconds to the next trial, at least and at most. While a trial changes nothing, the next one comes twice as late.
SOONEST, LATEST = 0.05, 5.0
#: Seconds that a call by one thread may take, as far as can be foreseen. Longer ones lose little by waiting for each
#: other, and much by a trial.
LONG = 0.1
#: One thread is chosen where it needs at most this share of the time. Beside many processes, each thread has a share of
#: the cores of its own, which few calls do not show: medians are then equal, and the mean by all threads is lower.
CLEARLY = 0.9


class Pace:
    """All threads, or one alone: whichever was faster in the last trial, and all until there was one.

    Results have the same bits either way. `threads`: of the next call.
    """

    def __init__(self, most: int) -> None:
        self.most = self.threads = self._chosen = most
        self._left = SOONEST
        self._gap = SOONEST
        self._trial: list[list[float]] = [[], []]

    def took(self, seconds: float) -> None:
        """How long the call took that `threads` was for."""
        if self.most == 1 or seconds * self.most > LONG:
            self.threads, self._left = self._chosen, self._gap
            return
        if self._left > 0:
            self._left -= seconds
            self._trial = [[], []]
            return
        # A trial is under way: the chosen way and the other take turns, so that they see the same load.
        other = self.threads != self._chosen
        self._trial[other].append(seconds)
        if len(self._trial[1]) == TRIALS:
            self._decide()
        else:
            self.threads = self._chosen if other else self._opposite

    @property
    def _opposite(self) -> int:
        return 1 if self._chosen == self.most else self.most

    def _decide(self) -> None:
        used, tried = self._trial
        lost = max(0.0, sum(tried) - sum(used))
        enough = CLEARLY if self._opposite == 1 else 1.0
        if median(tried) < enough * median(used) and sum(tried) < sum(used):
            self._chosen = self._opposite
            self._gap = SOONEST
        else:
            self._gap = min(2 * self._gap, LATEST)
        self.threads = self._chosen
        self._left = max(self._gap, SPARING * lost)
