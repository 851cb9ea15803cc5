"""The plan has no races, and whatever is wrong in it is seen: barriers, rows, memory that is used again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet import passes
from graphnet.backends import load_backend
from graphnet.backends.numba import schedule
from graphnet.backends.numba.backend import NumbaBackend
from graphnet.backends.numba.machine import this_machine
from graphnet.backends.numba.schedule import TapeScheduler
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array
from graphnet.plan import instructions
from graphnet.plan.instructions import Access
from tests.graphnet.backends.races import planned, races
from tests.tables import case


class Subject(NamedTuple):
    """A graph as the back end gets it, and arrays for its inputs."""

    source: Graph
    graph: Graph
    arrays: Sequence[Array]


def subject(outputs: Sequence[gn.Node], inputs: Sequence[gn.Node], arrays: Sequence[Array]) -> Subject:
    source = Graph(outputs, inputs)
    graph, _ = passes.optimize(source, passes.DEFAULT, NumbaBackend.has)
    return Subject(source, graph, arrays)


def of_network(layer: rnn.Cell, gv: bool = False, loss: str = "softmax") -> Subject:
    """Cost and gradient, or Gv, of a layer over three steps of twelve sequences."""
    generator = np.random.default_rng(0)
    net = rnn.Network([layer], 5, 5, dtype="float64", loss=loss)
    u = net.unroll(3, 12, training=False)
    parameters = list(net.parameters.values())
    v = {node: generator.standard_normal(node.shape) for node in parameters}
    nodes = gn.gauss_newton_product(u.cost, v) if gv else [u.cost, *gn.gradient(u.cost, parameters)]
    symbols = generator.integers(0, 5, (2, 3, 12))
    states = [generator.standard_normal(node.shape) for node in u.initial]
    return subject(nodes, [u.inputs, u.targets, *u.initial], [symbols[0], symbols[1], *states])


def of_turns() -> Subject:
    """Rows become columns at every step; joins, pieces that are put into zeros, lookups and sums of many terms."""
    generator = np.random.default_rng(0)
    n = 9
    x, i = gn.input((n, n), "float64"), gn.input((n,), "int64")
    W = gn.parameter(generator.standard_normal((n, n)) / 3)
    h = x
    for k in range(4):
        h = gn.tanh(h.T @ W) if k % 2 else gn.tanh(h.T[::-1] + gn.sum(h, 0) / n)
    joined = gn.concatenate([h[:, 3:], gn.take(h, i) * 0.5, gn.take(W, i, 1)], 1)
    many = gn.add(*(gn.sin(h * k) for k in range(20)))
    cost = gn.sum(joined * joined) + gn.sum(many[2:] * h[:-2]) + gn.sum(gn.softmax(h @ W))
    index = generator.integers(0, n, n)
    return subject(
        [cost, many, *gn.gradient(cost, [x, W])], [x, i], [generator.standard_normal((n, n)), index]
    )


def of_squares() -> Subject:
    """Right operands and tables are made by rows, and read by all rows at once; much memory is used again."""
    generator = np.random.default_rng(0)
    n = 9
    x, i = gn.input((n, n), "float64"), gn.input((n,), "int64")
    W = gn.parameter(generator.standard_normal((n, n)) / 3)
    h = x
    for _ in range(3):
        h = gn.tanh(h @ gn.tanh(h @ W))
        h = gn.take(gn.cos(gn.take(gn.sin(h), i)), i)
    arrays = [generator.standard_normal((n, n)), generator.permutation(n)]
    return subject([h, gn.sum(h, 0)], [x, i], arrays)


def of_step(layer: rnn.Cell, batch: int, frozen: bool = True) -> Subject:
    """One step of few sequences, as a Runner takes it.

    Weights are packed in wide panels, once where they are frozen; columns are shared where rows are few.
    """
    generator = np.random.default_rng(0)
    net = rnn.Network([layer], 70, 70, dtype="float64", reads="vectors", loss="squared")
    names = [(node.name, node.shape[1]) for node in net.unroll(1, batch).initial]
    u = net.unroll(
        1, batch, training=False, inputs=gn.input((1, batch, 70), "float64", varying=frozen),
        initial=[gn.input((batch, width), "float64", name=name, varying=frozen) for name, width in names],
    )  # fmt: skip
    inputs = [u.inputs, *u.initial]
    return subject([u.logits, *u.final], inputs, [generator.standard_normal(node.shape) for node in inputs])


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "turns": of_turns,
    "squares": of_squares,
    "LSTM": lambda: of_network(rnn.LSTM(6)),
    "GRU, Gv": lambda: of_network(rnn.GRU(6), gv=True),
    "sparse": lambda: of_network(rnn.GNN(6, edges=2)),
    "both ways": lambda: of_network(rnn.Bidirectional(rnn.Elman(4))),
    "a step, frozen": lambda: of_step(rnn.LSTM(70), 1),
    "a step of any weights": lambda: of_step(rnn.GRU(70), 3, frozen=False),
}

each = pytest.mark.parametrize("name", SUBJECTS)
#: Those in which all kinds of faults are found; the others are slow.
QUICK = ("squares", "sparse", "a step, frozen")
quick = pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SUBJECTS]
)


def build(made: Subject, parts: int) -> None:
    schedule.make_schedule(made.graph, this_machine(), parts, False, finely=True)


def is_caught(made: Subject, expected: Sequence[Array]) -> bool:
    """Whether some order gives other bits than are right."""
    return any(
        found.tobytes() != right.tobytes()
        for _, outputs in load_backend("numba").rehearse(made.graph, made.source, made.arrays)
        for found, right in zip(outputs, expected, strict=True)
    )


def right_outputs(made: Subject) -> list[Array]:
    return next(
        outputs for _, outputs in load_backend("numba").rehearse(made.graph, made.source, made.arrays)
    )


# -- there are none ------------------------------------------------------------------------------------------


@each
def test_no_two_cores_touch_the_same_byte(name: str) -> None:
    made = SUBJECTS[name]()
    for parts in (1, 2, 3, 8):
        plan = planned(lambda parts=parts: build(made, parts))
        with case(parts, "cores"):
            assert parts == 1 or plan.barriers
            assert list(races(plan)) == []


@pytest.mark.parametrize("cell", rnn.cells.ALL)
def test_no_cell_has_a_race(cell: str) -> None:
    """Gv; and a step of one sequence with frozen weights, whichever core comes first, also in `again`."""
    made = of_network(rnn.cells.ALL[cell](4), gv=True)
    assert list(races(planned(lambda: build(made, 3)))) == []
    if rnn.cells.ALL[cell](4).causal:
        step = of_step(rnn.cells.ALL[cell](4), 1)
        assert list(races(planned(lambda: build(step, 3)))) == []
        assert not is_caught(step, right_outputs(step))


# -- and they are seen ---------------------------------------------------------------------------------------


@quick
def test_every_barrier_that_is_left_out_is_seen_or_was_needless(name: str) -> None:
    """The rehearsal and the oracle judge alike: what gives other bits is a race, and a race gives other bits."""
    made = SUBJECTS[name]()
    expected = right_outputs(made)
    plan = planned(lambda: build(made, 3))
    real = schedule.barriers_of
    seen = 0
    for missing in sorted(plan.barriers):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("graphnet.backends.numba.backend.REHEARSED", (3,))
            patch.setattr(schedule, "barriers_of", lambda jobs, fixed, b=missing: real(jobs, fixed) - {b})
            racing = bool(list(races(planned(lambda: build(made, 3)))))
            assert is_caught(made, expected) == racing, f"barrier before job {missing}"
            seen += racing
    assert seen >= len(plan.barriers) - 2, "hardly a barrier is needless"


@quick
def test_every_access_that_is_taken_for_rows_is_seen_or_harmless(name: str) -> None:
    """One access after the other that reaches beyond its rows is said to keep to them."""
    made = SUBJECTS[name]()
    expected = right_outputs(made)
    caught = racing = 0
    for kind in (instructions.Loop, instructions.Product, instructions.Scatter):
        for method in ("_reads", "_writes"):
            for number in range(3):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("graphnet.backends.numba.backend.REHEARSED", (3,))
                    patch.setattr(kind, method, flipped(getattr(kind, method), number))
                    wrong = bool(list(races(planned(lambda: build(made, 3)))))
                    found = is_caught(made, expected)
                    assert found == wrong, (kind.__name__, method, number)
                    caught, racing = caught + found, racing + wrong
    assert caught or name != "squares"


def flipped(real: Callable[[Any], Iterator[Access]], number: int) -> Callable[[Any], Iterator[Access]]:
    """Access `number` of each instruction says the opposite of its rows."""

    def accesses(instruction: Any) -> Iterator[Access]:
        for k, access in enumerate(real(instruction)):
            yield access._replace(by_rows=not access.by_rows) if k == number and access.view.shape else access

    return accesses


@quick
def test_all_memory_that_is_used_again_too_early_is_seen_or_harmless(name: str) -> None:
    """Memory is given away at one job after the other as if all cores met there.

    Who writes over a value that is made and read within one superstep may do so in between, where no order of whole
    supersteps comes; the oracle sees these few.
    """
    made = SUBJECTS[name]()
    expected = right_outputs(made)
    plan = planned(lambda: build(made, 3))
    real = TapeScheduler.give_places
    caught = seen = 0
    for early in sorted({*range(len(plan.jobs))} - plan.barriers):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("graphnet.backends.numba.backend.REHEARSED", (3,))
            wrong = lambda made, start, barriers, rows, j=early: real(made, start, {*barriers, j}, rows)
            patch.setattr(TapeScheduler, "give_places", wrong)
            racing = bool(list(races(planned(lambda: build(made, 3)))))
            found = is_caught(made, expected)
            assert racing or not found, early
            caught, seen = caught + found, seen + racing
    assert caught >= 0.9 * seen
    assert caught or name != "squares"
