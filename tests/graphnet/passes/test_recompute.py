"""compile(memory=...): the same values with less memory, for any graph with a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from tests.graphnet.backends.unseen_cells import CELLS
from tests.graphnet.passes.test_products import arrays_for, count
from tests.tables import case, some_quick

STEPS = 24


def derived(what: str, cost: Node, parameters: Sequence[Node]) -> list[Node]:
    if what == "gradient":
        return [cost, *gn.gradient(cost, parameters)]
    product = {"Gv": gn.gauss_newton_product, "Hv": gn.hessian_product}[what]
    return product(cost, {p: gn.constant(np.cos(np.arange(p.size)).reshape(p.shape)) for p in parameters})


def require_same(function: gn.Function, right: gn.Function, *arrays: Any) -> None:
    for a, b in zip(function(*arrays), right(*arrays), strict=True):
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12 * scale)


def require_less(outputs: Any, inputs: Any, share: float, backends: Any = ("numpy", "numba")) -> None:
    """Same values with memory="sqrt" as without, on these back ends, from at most that share of the memory."""
    for backend in backends:
        plain = gn.compile(outputs, inputs, backend)
        less = gn.compile(outputs, inputs, backend, memory="sqrt")
        require_same(less, plain, *arrays_for(inputs))
        assert less.memory.peak < share * plain.memory.peak, (backend, less.memory, plain.memory)


def unrolled(cell: type[rnn.Cell], time: int = STEPS, layers: int = 1, **settings: Any) -> rnn.Unrolled:
    net = rnn.Network([cell().resized(5)] * layers, 3, 3, dtype="float64", **settings)
    return net.unroll(time, 4, training=True)


def derived_of(u: rnn.Unrolled, what: str = "gradient") -> tuple[list[Node], list[Node]]:
    outputs = derived(what, u.cost, list(u.network.parameters.values()))
    return outputs, [u.inputs, u.targets, *u.initial]


#: Cells of which little can be computed again: an echo state network's only gradient, that of the output weights, reads
#: all states, and so do the products of a NARX net with its last three states; and the smallest of all, of which a step
#: keeps so little that the two ends of a run weigh as much (at 100 steps they take 0.41).
KEEPS = {"EchoState": 0.92, "NARX": 0.8, "Elman": 0.87, "RTRBMFilter": 0.87}


@pytest.mark.slow
def test_recomputation_saves_memory_for_losses_with_surrogates() -> None:
    """With more cases than steps, too."""
    for time, batch in ((40, 4), (20, 32)):
        net = rnn.Network([rnn.LSTM(8)], 5, 5, "ctc", dtype="float64")
        outputs, inputs = derived_of(net.unroll(time, batch, initial="zero", labels=3))
        require_less(outputs, inputs[:2], 1, ["numba"])


WHAT = ("gradient", "Gv", "Hv")
SETTINGS: list[dict[str, Any]] = [
    {"layers": 2, "skip": True}, {"layers": 2, "dropout": 0.3}, {"reads": "vectors", "loss": "squared"},
    {"reads": "vectors", "loss": "sigmoid"},
]  # fmt: skip


@pytest.mark.parametrize("cell", some_quick([*rnn.cells.ALL.values(), *CELLS], [rnn.LSTM]))
@pytest.mark.parametrize("what", WHAT)
def test_recomputation_saves_memory_for_every_cell(cell: type[rnn.Cell], what: str) -> None:
    u = unrolled(cell)
    # What a bidirectional layer keeps of its whole sequence, both ways, is what the layers above it read.
    share = KEEPS.get(cell.__name__, 0.8 if u.network.causal else 1.0)
    # A pass knows no back end: NumPy's runs what it makes of gradients, and the compiled one of products.
    require_less(*derived_of(u, what), share, ["numpy" if what == "gradient" else "numba"])


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
def test_recomputation_saves_memory_for_every_network(settings: dict[str, Any]) -> None:
    require_less(*derived_of(unrolled(rnn.LSTM, **settings)), 0.8)


def test_recomputation_saves_memory_if_final_states_are_read() -> None:
    u = rnn.Network([rnn.GRU(5)], 3, 3, dtype="float64").unroll(STEPS, 4, unscored=7)
    outputs, inputs = derived_of(u)
    require_less([*outputs, *u.final], inputs, 0.7)


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "what"), [(rnn.GRU, "gradient"), (rnn.LSTM, "Gv")])
def test_recomputation_saves_memory_for_bidirectional_networks(cell: type[rnn.Cell], what: str) -> None:
    """Only states are kept, not gates and not one-hot codes.

    Both directions read a symbol at distant steps, so its products are lookups in every segment.
    """
    net = rnn.Network([rnn.Bidirectional(cell(5))], 3, 3, dtype="float64")
    outputs, inputs = derived_of(net.unroll(STEPS, 4, training=True), what)
    require_less(outputs, inputs, 0.75)
    graph, _ = passes.optimize(Graph(outputs, inputs), (*passes.recomputing(6), *passes.DEFAULT), frozenset())
    assert not [n for n in graph.order if n.op.name == "MatMul" and any(map(is_code, n.inputs))]
    assert sum(n.op.name == "ScatterAdd" for n in graph.order) >= 6


def is_code(node: Node) -> bool:
    """True for what only looks at a code of a symbol."""
    while node.op.is_view or node.op.name == "After":
        node = node.inputs[0]
    return node.op.name == "OneHot"


def test_recomputation_in_custom_loops_and_deep_networks() -> None:
    """No scopes, inputs split in advance, a state without input at each step, and a loss of the last state."""
    x, W = gn.input((STEPS, 4, 3), "float64"), gn.parameter(np.eye(6)[:3] * 0.7)
    U = gn.parameter(np.cos(np.arange(36.0)).reshape(6, 6) / 4)
    drives = [gn.tanh(row @ W) for row in x]
    s, slow = gn.fill(0.0, (4, 6), "float64"), gn.fill(0.1, (4, 6), "float64")
    for drive in drives:
        slow = 0.9 * slow + 0.1 * gn.sin(s)
        s = gn.tanh(s @ U + drive) * slow
    cost = gn.mean(gn.squared_error(s, x[0, 0, 0]))
    for what in WHAT:
        require_less(derived(what, cost, [W, U]), [x], 0.65)
    x = h = gn.input((8, 6), "float64")
    weights = [gn.parameter(np.cos(np.arange(36.0) + i).reshape(6, 6) / 3) for i in range(40)]
    for W in weights:
        h = gn.tanh(h @ W) + 0.5 * h
    require_less(derived("gradient", gn.mean(gn.exp(-h * h)), weights), [x], 0.9)


@pytest.mark.parametrize("time", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_memory_grows_as_the_root_of_time(time: int) -> None:
    """Four times the steps need twice the memory instead of four times."""

    def peak(time: int, memory: str | None) -> int:
        outputs, inputs = derived_of(unrolled(rnn.LSTM, time))
        return gn.compile(outputs, inputs, "numpy", memory=memory).memory.peak

    all_kept, less = ([peak(t, memory) for t in (time, 4 * time)] for memory in (None, "sqrt"))
    assert 3.5 < all_kept[1] / all_kept[0] < 4.5
    assert less[1] / less[0] < 2.5
    assert less[1] < 0.25 * all_kept[1]


def test_only_the_recurrence_is_recomputed() -> None:
    """One additional product per step; the output layer and the loss are computed once."""
    graph = Graph(*derived_of(unrolled(rnn.LSTM, 30)))
    again = passes.recompute(graph, segments=5)
    # 24 of 30 steps, four gates of two products each; the looked-up rows of x count as products here.
    assert count(again, "MatMul") - count(graph, "MatMul") == 24 * 8
    assert count(again, "Tanh") - count(graph, "Tanh") == 24 * 2
    assert count(again, "SymbolCrossEntropy") == 5
    x = gn.input((4, 4), "float64")
    graph = Graph([gn.tanh(x @ x)])
    assert passes.recompute(graph) is graph  # there is nothing to win
    assert passes.recompute(graph, segments=4) is graph


@pytest.mark.parametrize(
    ("cell", "steps", "shares"),
    [(rnn.GRU, 30, (0.8, 0.5)), pytest.param(rnn.LSTM, 40, (0.8, 0.5, 0.35), marks=pytest.mark.slow)],
)
def test_memory_budget_is_met_with_few_segments(
    cell: type[rnn.Cell], steps: int, shares: tuple[float, ...]
) -> None:
    outputs, inputs = derived_of(unrolled(cell, steps))
    whole = gn.compile(outputs, inputs)
    assert gn.compile(outputs, inputs, memory=whole.memory).reports[0].name == "prune"
    sizes = []
    for share in shares:
        f = gn.compile(outputs, inputs, memory=int(share * whole.memory))
        assert f.memory <= share * whole.memory
        assert f.reports[0].name == "recompute"
        sizes.append(len(f.graph))
        require_same(f, whole, *arrays_for(inputs))
    assert sizes == sorted(sizes)
    with pytest.raises(gn.BackendError, match=r"memory=1000: 1000 B are not enough") as error:
        gn.compile(outputs, inputs, memory=1000)
    least = int(str(error.value).split("Set memory=")[1].split(",")[0])
    for more in (0, 1, 1000, 20_000):
        assert gn.compile(outputs, inputs, memory=least + more).memory <= least + more
    for wrong in ("all", 0, True, 2.5):
        with case(wrong), pytest.raises(gn.BackendError, match="memory must be"):
            gn.compile(outputs, inputs, memory=wrong)


def test_recomputation_with_partial_sums_read_early() -> None:
    """Terms of the sum may move to their other readers."""
    a, b = gn.input((1, 4), "float64"), gn.input((4,), "float64")
    s = gn.sum(gn.tanh(b), 0) * 0.5
    d, m, u = b / (2 + gn.cos(a)), gn.tanh(a) * s, gn.add(*[s] * 8) * 0.3 - a
    y = gn.add(a, a, m, d, u, d, m, u) * 0.3
    nodes = [y, *gn.gradient(gn.sum(gn.sin(y)), [a, b])]
    plain = gn.compile(nodes, [a, b], "numpy", passes=())
    for segments in range(2, 9):
        with case(segments):
            again = (*passes.recomputing(segments), *passes.DEFAULT)
            require_same(gn.compile(nodes, [a, b], "numpy", passes=again), plain, *arrays_for([a, b]))


def test_broadcast_stacks_and_single_one_hot_codes_are_not_rows() -> None:
    """(2,) broadcast to (7, 2): the summed rows are not those of the stack."""
    x, s, z = gn.input((7, 2), "float64"), gn.input((), "float64"), gn.input((), "float64")
    b, h, states = gn.stack([gn.sin(s), z]), x, []
    weights = gn.input((4,), "float64")
    logits = code = gn.stack([s, z, s, z + z])
    for _ in range(20):
        h = gn.tanh(h * x + 0.1)
        code = gn.tanh(code * weights + 0.1)
        states.append(h)
    spread, single = gn.sum(gn.tanh(h * b + b)), gn.sum(code) + gn.softmax_cross_entropy(logits, 2)
    thrice = gn.sum(gn.sum(gn.sin(gn.broadcast_to(gn.sin(gn.stack(states)), (3, 20, 7, 2))), 0) ** 2)
    for cost, inputs in ((spread, [x, s, z]), (single, [s, z, weights]), (thrice, [x])):
        outputs = derived("gradient", cost, inputs)
        plain = gn.compile(outputs, inputs, backend="numpy", passes=())
        for backend in ("numpy", "numba"):
            require_same(gn.compile(outputs, inputs, backend, memory="sqrt"), plain, *arrays_for(inputs))
