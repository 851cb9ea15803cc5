"""Pace: the number of threads of a program, chosen by occasional timing trials."""

from __future__ import annotations

from statistics import median

#: Maximum number of calls of each way in a trial.
TRIALS = 4
#: The next trial begins after SPARING times the time that the last one lost.
SPARING = 100
#: In a trial, one thread may take longer by a factor of the number of threads. If a call may lose more than LONG
#: seconds this way, the trial waits until FORESEEN times that loss has passed.
LONG, FORESEEN = 0.1, 50
#: Minimum and maximum seconds to the next trial, apart from these two. The interval doubles while trials change
#: nothing.
SOONEST, LATEST = 0.05, 5.0
#: One thread is chosen if it needs at most this share of the time. On a machine with many busy processes, each thread
#: gets its own share of the cores, which few calls do not show: medians are then equal, and the mean with all threads
#: is lower.
CLEARLY = 0.9


class Pace:
    """All threads, or one alone: whichever was faster in the last trial, and all until there was one.

    Results have the same bits either way. `threads`: of the next call.
    """

    def __init__(self, most: int) -> None:
        self.most = self.threads = self._chosen = most
        self._gap = self._pause = SOONEST
        self._waited = 0.0
        self._trial: list[list[float]] = [[], []]

    def took(self, seconds: float) -> None:
        """Records the duration of the call for which `threads` was chosen."""
        risk = (self.most - 1) * seconds
        pause = max(self._pause, FORESEEN * risk if risk > LONG else 0.0)
        if self.most > 1 and (self._trial[0] or self._waited >= pause):
            self._try(seconds)
        else:
            self._waited += seconds

    def _try(self, seconds: float) -> None:
        """A call of a trial: the chosen way and the other alternate, so that both run under the same load."""
        other = self.threads != self._chosen
        used, tried = self._trial
        self._trial[other].append(seconds)
        if not other:
            self.threads = self._opposite
            return
        lost = sum(tried) - sum(used)
        if len(tried) == TRIALS or lost * SPARING > self._waited:
            self._decide(lost)
        else:
            self.threads = self._chosen

    @property
    def _opposite(self) -> int:
        return 1 if self._chosen == self.most else self.most

    def _decide(self, lost: float) -> None:
        used, tried = self._trial
        enough = CLEARLY if self._opposite == 1 else 1.0
        if median(tried) < enough * median(used) and lost < 0:
            self._chosen = self._opposite
            self._gap = SOONEST
        else:
            self._gap = min(2 * self._gap, LATEST)
        self.threads = self._chosen
        self._pause = max(self._gap, SPARING * lost)
        self._waited = 0.0
        self._trial = [[], []]
