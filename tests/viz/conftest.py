"""Graphs for tests of pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import numpy as np
import pytest

import graphnet as gn


def parameter(name: str, *shape: int) -> gn.Node:
    return gn.parameter(np.zeros(shape, "float32"), name=name)


def make_regression() -> gn.Node:
    """mean (x W + b - t)², with a label on the prediction."""
    x = gn.input((32, 10), name="x")
    t = gn.input((32, 1), name="t")
    y = gn.label(x @ parameter("W", 10, 1) + parameter("b", 1), "y")
    return gn.mean(gn.squared_error(y, t))


def make_unrolled(steps: int = 3, layers: int = 2) -> gn.Node:
    """An Elman net unrolled in time."""
    weights = [
        (parameter(f"layer{i}.W_xh", 8, 8), parameter(f"layer{i}.W_hh", 8, 8), parameter(f"layer{i}.b_h", 8))
        for i in range(layers)
    ]
    states = [gn.constant(np.zeros((4, 8), "float32"), name="h_0") for _ in range(layers)]
    costs = []
    for t in range(1, steps + 1):
        h = gn.input((4, 8), name=f"x_{t}")
        for i, (w_xh, w_hh, b) in enumerate(weights):
            with gn.scope(layer=f"layer{i}", cell="Elman", time=t):
                h = states[i] = gn.tanh(h @ w_xh + states[i] @ w_hh + b)
        with gn.scope(time=t):
            costs.append(gn.mean(h))
    return gn.add(*costs)


@pytest.fixture
def regression() -> gn.Node:
    return make_regression()


def calls_of(function: Callable[[], object]) -> int:
    """Number of function calls, with resumed generators: a measure of cost that is equal on all machines."""
    count = 0

    def seen(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count
