"""Law 8 on the GPU: blocks give the same bits in any order, with memory full of NaN."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.cuda.device import SIMULATED, Device
from tests.graphnet.backends.cuda.programs import PROGRAMS
from tests.tables import case

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not SIMULATED, reason="a GPU runs blocks in an order of its own"),
]

ORDERS = list, reversed, lambda points: [points[i] for i in np.random.default_rng(0).permutation(len(points))]


class OtherOrder:
    """NumPy for the simulator, with another order of the points of a grid."""

    def __init__(self, order) -> None:
        self.order = order

    def __getattr__(self, name: str):
        return getattr(np, name)

    def ndindex(self, *shape: int):
        return iter(self.order(list(np.ndindex(*shape))))


def outputs_in(order, build, arrays) -> list[bytes]:
    """Outputs of a newly made function whose memory is filled with NaN (integers: -1)."""
    real = Device.memory

    def poisoned(self, nbytes: int):
        memory = real(self, nbytes)
        memory[:] = 255
        return memory

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Device, "memory", poisoned)
        function = build()
        patch.setattr(sys.modules["numba.cuda.simulator.kernel"], "np", OtherOrder(order))
        return [output.tobytes() for output in function(*arrays)]


def require_same_in_all_orders(build, arrays) -> None:
    expected = [output.tobytes() for output in build()(*arrays)]  # on memory that earlier programs have used
    for number, order in enumerate(ORDERS):
        with case(number):
            assert outputs_in(order, build, arrays) == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_run_in_any_order(name: str) -> None:
    outputs, inputs, arrays = PROGRAMS[name].nodes()
    require_same_in_all_orders(lambda: gn.compile(outputs, inputs, "cuda"), arrays)


def test_network_runs_in_any_order() -> None:
    net = rnn.Network([rnn.LSTM(3)], 4, 4, dtype="float64")
    u = net.unroll(2, 2, training=False)
    nodes = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
    generator = np.random.default_rng(0)
    arrays = [*generator.integers(0, 4, (2, 2, 2)), *net.zero_states(2)]
    require_same_in_all_orders(lambda: gn.compile(nodes, [u.inputs, u.targets, *u.initial], "cuda"), arrays)
