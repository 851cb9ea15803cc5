"""Sums of parts: the same bits, whoever has which."""

from __future__ import annotations

import itertools

import numpy as np

from graphnet_rnn.parallel import ALONE, Ranks
from graphnet_rnn.parallel.tree import branches, joined, summed
from tests.graphnet_rnn.parallel.threads import by_threads
from tests.tables import case

COUNTS = (1, 2, 3, 5, 8, 13, 31, 64)


def parts(count: int, length: int = 3) -> list[np.ndarray]:
    """Of very different sizes, so that another order of additions shows."""
    random = np.random.default_rng(count)
    return [random.standard_normal(length) * 10.0 ** random.integers(-8, 9) for _ in range(count)]


def test_any_division_gives_the_same_bits() -> None:
    for count in COUNTS:
        with case(count):
            given = parts(count)
            whole = summed(iter(given), 0, count)
            np.testing.assert_allclose(whole, np.sum(given, axis=0), rtol=1e-6)
            # Another order has other bits, so that equal ones say something.
            assert count != 13 or np.sum(given, axis=0).tobytes() != whole.tobytes()
            random = np.random.default_rng(0)
            for _ in range(20):
                cuts = sorted(random.integers(0, count + 1, random.integers(0, 6)))
                ends, known = [0, *map(int, cuts), count], {}
                for first, end in itertools.pairwise(ends):
                    own = iter(given[first:end])
                    known |= {each: summed(own, *each) for each in branches(first, end, count)}
                assert sorted(known)[0][0] == 0
                assert joined(known, 0, count).tobytes() == whole.tobytes()


def test_a_rank_sends_few_branches() -> None:
    for count in COUNTS:
        with case(count):
            for size in range(1, count + 1):
                for rank in range(size):
                    first, end = rank * count // size, (rank + 1) * count // size
                    assert len(branches(first, end, count)) <= 2 * max(1, (end - first).bit_length())
            assert branches(0, count, count) == [(0, count)]
            assert branches(2, 2, count) == []


def test_ranks_share_parts_and_have_the_same_sums() -> None:
    """Also those that have none."""
    for size, count in ((1, 11), (2, 11), (3, 11), (8, 11), (5, 3)):
        given = parts(count)

        def work(ranks: Ranks) -> tuple[list[int], bytes, float]:
            own = ranks.own(count)
            total = ranks.sum(count, (given[i] for i in own), 3)
            return list(own), total.tobytes(), ranks.sum_numbers(count, [given[i][0] for i in own])

        with case(size):
            found = by_threads(size, work)
            assert [i for own, _, _ in found for i in own] == list(range(count))
            alone = ALONE.sum(count, given, 3)
            assert {total for _, total, _ in found} == {alone.tobytes()}
            assert {number for _, _, number in found} == {float(alone[0])}
