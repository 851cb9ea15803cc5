"""Cached gradients are shared by networks with equal equations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.cache import Cache
from graphnet.call import kept
from tests.graphnet_rnn.cells.test_oracles import CELLS, DIFFERENT
from tests.tables import some_quick


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels stay where they are; programs are kept in a folder of their own."""
    monkeypatch.setattr(kept, "WORTH_KEEPING", 0)
    (tmp_path / "cache").mkdir(0o700)
    monkeypatch.setattr(kept, "open_cache", lambda: Cache(tmp_path / "cache", 1 << 28))
    return tmp_path / "cache"


def gradient(cell: rnn.Cell, seed: int, time: int = 3, **settings: Any) -> tuple[Any, list[np.ndarray]]:
    """The compiled loss and gradient of a network whose weights are drawn from the seed, and what it is called with."""
    net = rnn.Network([cell], 5, 5, dtype="float64", seed=seed, **settings)
    u = net.unroll(time, 2)
    function = gn.compile(
        [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))], [u.inputs, u.targets, *u.initial]
    )
    generator = np.random.default_rng(0)
    symbols = generator.integers(0, 5, (2, time, 2))
    return function, [*symbols, *[generator.standard_normal(node.shape) for node in u.initial]]


@pytest.mark.parametrize("name", some_quick(CELLS, DIFFERENT))
def test_every_cell(name: str) -> None:
    """Cached by a network with other weights, with the same bits as newly compiled."""
    gradient(CELLS[name](4), seed=1)
    function, arrays = gradient(CELLS[name](4), seed=2)
    assert "loaded from the cache" in function.explain()
    found = function(*arrays)
    for a, b in zip(found, function._whole_program.run(arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_other_lengths_sizes_and_settings_compile_new_programs(cache: Path) -> None:
    gradient(rnn.LSTM(4), 0)
    for other in (
        lambda: gradient(rnn.LSTM(4), 0, time=4),
        lambda: gradient(rnn.LSTM(5), 0),
        lambda: gradient(rnn.GRU(4), 0),
        lambda: gradient(rnn.LSTM(4), 0, loss="sigmoid", reads="symbols"),
    ):
        before = len(list(cache.glob("*.program")))
        other()
        assert len(list(cache.glob("*.program"))) == before + 1
