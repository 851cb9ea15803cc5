"""Packing: cases of like lengths in batches of one length each, so that little is computed of what fills them up."""

from __future__ import annotations

import numpy as np

from graphnet.graph.node import Array

__all__ = ["bucket_of", "bucket_times"]

#: Longest steps that are told apart when lengths of batches are chosen: the others are rounded up.
DISTINCT = 200
#: One more length, which is compiled by itself, must save at least such a share of all steps.
WORTH = 0.05


def bucket_times(lengths: Array, most: int, batch: int = 1) -> list[int]:
    """At most so many lengths to which cases are filled up, ascending, such that the fewest steps are computed

    The last is the longest; fewer, where one more would save less than 5 % of the steps. batch: so many cases are
    computed at once, in the last batch of a length, too, however many it has.
    """
    longest = int(lengths.max())
    grain = -(-longest // DISTINCT)
    times, counts = np.unique(np.minimum(-(-lengths // grain) * grain, longest), return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    # least[j]: steps of the cases up to times[j], where times[j] is one of the lengths; came[k][j]: the one before it.
    least = times * _filled(below[1:], batch)
    came: list[Array] = []
    chosen, best = 1, float(least[-1])
    for k in range(2, min(most, len(times)) + 1):
        # From i (the last length before) to j: all cases between are filled up to times[j].
        steps = least[:, None] + times[None, :] * _filled(below[None, 1:] - below[1:, None], batch)
        steps = np.where(np.arange(len(times))[:, None] < np.arange(len(times))[None, :], steps, np.inf)
        came.append(steps.argmin(axis=0))
        least = steps.min(axis=0)
        if least[-1] < best * (1 - WORTH):
            chosen, best = k, float(least[-1])
    at, found = len(times) - 1, [longest]
    for k in range(chosen, 1, -1):
        at = int(came[k - 2][at])
        found.append(int(times[at]))
    return found[::-1]


def _filled(cases: Array, batch: int) -> Array:
    """So many cases in whole batches."""
    return -(-cases // batch) * batch


def bucket_of(lengths: Array, times: list[int]) -> Array:
    """For each case the number of the shortest of these lengths that holds it."""
    return np.searchsorted(np.array(times), lengths)
