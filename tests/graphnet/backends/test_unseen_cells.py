"""What compiles for the known cells compiles for any equations."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from tests.graphnet.backends.conftest import require_same
from tests.graphnet.backends.unseen_cells import CELLS, Tied, Wasteful
from tests.tables import case

by_cell = pytest.mark.parametrize("cell", CELLS)


@pytest.mark.parametrize(
    "cell",
    [cell if cell in (Tied, Wasteful) else pytest.param(cell, marks=pytest.mark.slow) for cell in CELLS],
)
def test_cells_hold_all_laws(cell: type[rnn.Cell]) -> None:
    rnn.testing.check_cell(cell)


@by_cell
def test_numba_is_numpy(cell: type[rnn.Cell]) -> None:
    """Cost, last states, gradient and Gauss-Newton product, at sizes that are no whole vectors."""
    for dtype in ("float32", "float64"):
        for sizes in ((1, 1, 1), (1, 37, 4), (3, 5, 2), (33, 5, 3), (33, 1, 2), (33, 37, 2)):
            with case(dtype, *sizes):
                require_numpy_s(cell, *sizes, dtype)


def require_numpy_s(cell: type[rnn.Cell], batch: int, units: int, time: int, dtype: str) -> None:
    net = rnn.Network([cell(units)], 5, 6, dtype=dtype)
    u = net.unroll(time, batch, training=False)
    generator = np.random.default_rng(0)
    parameters = list(net.parameters.values())
    tangents = {p: generator.standard_normal(p.shape).astype(dtype) for p in parameters}
    nodes = [u.cost, *u.final, *gn.gradient(u.cost, parameters), *gn.gauss_newton_product(u.cost, tangents)]
    symbols = generator.integers(0, 5, (2, time, batch))
    states = [0.5 * generator.standard_normal(s.shape).astype(dtype) for s in net.zero_states(batch)]
    arrays = [symbols[0], symbols[1], *states]
    require_same(nodes, [u.inputs, u.targets, *u.initial], arrays, 1e-4 if dtype == "float32" else 1e-10)


@by_cell
def test_dense_inputs_two_layers_and_skips(cell: type[rnn.Cell]) -> None:
    net = rnn.Network(
        [cell(5), cell(9)], 4, 3, skip=True, dtype="float64", reads="vectors", loss="squared", seed=1
    )
    u = net.unroll(4, 10, training=False)
    parameters = list(net.parameters.values())
    generator = np.random.default_rng(0)
    tangents = {p: generator.standard_normal(p.shape) for p in parameters}
    nodes = [*gn.gradient(u.cost, parameters), *gn.hessian_product(u.cost, tangents)]
    arrays = [generator.standard_normal(n.shape) for n in (u.inputs, u.targets, *u.initial)]
    for threads in (1, 2):
        require_same(nodes, [u.inputs, u.targets, *u.initial], arrays, 1e-10, threads=threads)
