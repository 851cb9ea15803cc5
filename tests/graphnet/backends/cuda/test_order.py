"""Law 8 on the GPU's schedule: blocks of a launch in any order, over memory full of NaN, give the same bits.

Launches run one after the other, on one stream. The simulator runs a launch's blocks, and starts their threads, in an
order that is chosen here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.backends.compiled import schedule
from graphnet.backends.cuda.device import SIMULATED, Device
from graphnet.graph.node import Array, Node
from tests.graphnet.backends.cuda.programs import PROGRAMS

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not SIMULATED, reason="a GPU runs blocks in an order of its own"),
]

Order = Callable[[list[Any]], list[Any]]


def shuffled(seed: int) -> Order:
    return lambda points: [points[i] for i in np.random.default_rng(seed).permutation(len(points))]


ORDERS: dict[str, Order] = {
    "forwards": list,
    "backwards": lambda points: points[::-1],
    "shuffled": shuffled(0),
}


class OtherOrder:
    """NumPy for the simulator, but that the points of a grid come in another order."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def ndindex(self, *shape: int) -> Iterator[tuple[int, ...]]:
        return iter(self.order(list(np.ndindex(*shape))))


def outputs_in(order: Order, build: Callable[[], gn.Function], arrays: list[Array]) -> list[bytes]:
    """What a function made anew gives, on memory that holds NaN (and -1)."""
    real = Device.memory

    def poisoned(self: Device, nbytes: int) -> Any:
        memory = real(self, nbytes)
        memory[:] = 255
        return memory

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Device, "memory", poisoned)
        function = build()
        patch.setattr(sys.modules["numba.cuda.simulator.kernel"], "np", OtherOrder(order))
        return [output.tobytes() for output in function(*arrays)]


def require_same_in_all_orders(build: Callable[[], gn.Function], arrays: list[Array]) -> None:
    found = {name: outputs_in(order, build, arrays) for name, order in ORDERS.items()}
    assert found["backwards"] == found["forwards"]
    assert found["shuffled"] == found["forwards"]
    expected = build()(*arrays)  # on memory that programs before it have used
    assert found["forwards"] == [output.tobytes() for output in expected]


@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_run_in_any_order(name: str) -> None:
    outputs, inputs, arrays = PROGRAMS[name].nodes()
    require_same_in_all_orders(lambda: gn.compile(outputs, inputs, "cuda"), arrays)


def test_a_network_runs_in_any_order() -> None:
    net = rnn.Network([rnn.LSTM(3)], 4, 4, dtype="float64")
    u = net.unroll(2, 2, training=False)
    nodes: list[Node] = [u.cost, *gn.gradient(u.cost, list(net.parameters.values()))]
    generator = np.random.default_rng(0)
    arrays = [*generator.integers(0, 4, (2, 2, 2)), *net.zero_states(2)]
    require_same_in_all_orders(lambda: gn.compile(nodes, [u.inputs, u.targets, *u.initial], "cuda"), arrays)


def test_what_is_read_too_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is given away before it is read."""
    real = schedule.give_places

    def early(lives: Any) -> int:
        return real([life._replace(last=life.first, epoch=(life.epoch[0],) * 2) for life in lives])

    _, inputs, arrays = PROGRAMS["every function"].nodes()
    x = inputs[0]
    for _ in range(4):
        x = gn.sum(gn.tanh(x) * 1.5, 1, keepdims=True) + gn.sin(x)
    right = [output.tobytes() for output in gn.compile([x], inputs, "cuda")(*arrays)]
    monkeypatch.setattr(schedule, "give_places", early)
    assert outputs_in(ORDERS["forwards"], lambda: gn.compile([x], inputs, "cuda"), arrays) != right
