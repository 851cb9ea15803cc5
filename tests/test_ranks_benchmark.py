"""What is expected of many processes: the formula, and what is fitted to sums that were measured."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ranks import expected, fitted


def test_latency_and_bandwidth_come_back() -> None:
    latency, bandwidth = 20e-6, 2e9
    for ranks, width in ((2, 4), (2, 8), (8, 4), (8, 8)):
        times = {
            n: 2 * (ranks - 1) * latency + 2 * width * n * (ranks - 1) / (ranks * bandwidth)
            for n in (1_000, 10_000, 100_000, 1_000_000)
        }
        np.testing.assert_allclose(fitted(times, ranks, width), (latency, bandwidth), rtol=1e-9)


def test_efficiency_falls_with_processes_and_rises_with_work() -> None:
    assert expected(1.0, 10_000, 5, 1, 1e-3, 1e9) == 1
    each = [expected(1.0, 100_000, 5, k, 1e-5, 1e9) for k in (1, 2, 8, 64)]
    assert each == sorted(each, reverse=True)
    assert expected(2.0, 100_000, 5, 64, 1e-5, 1e9) > each[-1]
    # T / (K T(K)) by hand: T(K) = T / K + S (2 (K - 1) α + 16 n (K - 1) / (K β)), twice
    shared = 1.0 / 2 + 3 * (2 * 1e-5 + 16 * 1000 / (2 * 1e9))
    assert expected(1.0, 1000, 3, 2, 1e-5, 1e9) == pytest.approx(1.0 / (2 * shared))
