"""Memory that cores share by rows is reused within an epoch only where the rows lie at the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet as gn


@pytest.mark.parametrize(("batch", "time", "units"), [(4, 4, 100), (8, 3, 40), (8, 5, 100)])
def test_narrow_arrays_of_few_rows(batch: int, time: int, units: int) -> None:
    """(8, 2) and (8,) both fill one line of the cache, but core 1's rows begin at byte 32 of one, 16 of the other."""
    generator = np.random.default_rng(0)
    W = gn.parameter(0.1 * generator.standard_normal((4, units)).astype("f"), name="W")
    V = gn.parameter(0.1 * generator.standard_normal((units, 2)).astype("f"), name="V")
    x = gn.constant(generator.standard_normal((batch, 4)).astype("f"))
    for _ in range(time):
        u = gn.tanh(x @ W) @ V
        x = x + 0.01 * gn.concatenate([x[:, 2:], gn.stack([u[:, 0] * 2, u[:, 1] * 3], axis=1)], axis=1)
    outputs = gn.gradient(gn.sum(x * x), [W])
    (expected,) = gn.compile(outputs, [], threads=1)()
    function = gn.compile(outputs, [], threads=2)
    for _ in range(50):
        assert np.array_equal(function()[0], expected)
