"""The peers of the GPU's benchmark compute what our cells compute: their steps are made of our graphs."""

from __future__ import annotations

import numpy as np

import graphnet as gn
from benchmarks.gpu.contenders import CELLS, Problem
from benchmarks.gpu.translate import Engine, step_of
from graphnet.graph.node import Array
from tests.tables import case


def scattered(x: Array, index: Array, size: int, axis: int) -> Array:
    moved = np.moveaxis(x, axis, 0)
    y = np.zeros((size, *moved.shape[1:]), x.dtype)
    np.add.at(y, index, moved)
    return np.moveaxis(y, 0, axis)


FUNCTIONS = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
}
NUMPY = Engine(
    "NumPy",
    FUNCTIONS,
    np.asarray,
    np.take,
    scattered,
    np.concatenate,
    np.stack,
    np.broadcast_to,
    np.transpose,
)


def test_a_translated_step_is_the_cell_s() -> None:
    for cell in CELLS:
        with case(cell):
            problem = Problem(cell, 5, 3, 1)
            net = problem.network()
            u = net.unroll(1, 3)
            local = np.random.default_rng(0)
            symbols = problem.data()[0]
            states = [local.standard_normal(n.shape).astype(n.dtype) for n in u.initial]
            expected = gn.compile([*u.hidden, *u.final], [u.inputs, *u.initial], "numpy")(symbols, *states)
            step = step_of(net, 3).function(NUMPY)
            hidden, after = step(
                {name: node.value for name, node in net.parameters.items()}, symbols[0], tuple(states)
            )
            for found, right in zip((hidden[None], *after), expected, strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
