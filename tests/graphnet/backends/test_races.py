"""Plans have no races, and injected faults are detected: in barriers, rows, and reuse of memory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

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
from graphnet.plan import instructions
from tests.graphnet.backends.races import planned, races
from tests.graphnet_rnn.cells.test_every_cell import DIFFERENT
from tests.tables import case, some_quick


class Subject(NamedTuple):
    """A graph before and after the passes, and arrays for its inputs."""

    source: gn.Graph
    graph: gn.Graph
    arrays: Sequence[np.ndarray]


def subject(outputs, inputs, arrays) -> Subject:
    source = gn.Graph(outputs, inputs)
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
    """Transposes at every step; also joins, pads, lookups and sums of many terms."""
    generator = np.random.default_rng(0)
    n = 9
    x, i = gn.input((n, n), "float64"), gn.input((n,), "int64")
    W = gn.parameter(generator.standard_normal((n, n)) / 3)
    h = x
    for k in range(4):
        h = gn.tanh(h.T @ W) if k % 2 else gn.tanh(h.T[::-1] + gn.sum(h, 0) / n)
    joined = gn.concatenate([h[:, 3:], gn.take(h, i) * 0.5, gn.take(W, i, 1)], 1)
    many = gn.add(*(gn.sin(h * k) for k in range(20)))
    every_second = gn.concatenate([h @ W, h.T @ W])[::2]
    cost = (
        gn.sum(joined * joined)
        + gn.sum(many[2:] * h[:-2])
        + gn.sum(gn.softmax(h @ W))
        + gn.sum(every_second @ W)
    )
    arrays = [generator.standard_normal((n, n)), generator.integers(0, n, n)]
    return subject([cost, many, *gn.gradient(cost, [x, W])], [x, i], arrays)


def of_squares() -> Subject:
    """Right operands and tables are computed by rows but read by all rows at once; memory is reused often."""
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
    """One step of a few sequences, as in a Runner: weights are packed in wide panels, once if frozen."""
    net = rnn.Network([layer], 70, 70, dtype="float64", reads="vectors", loss="squared")
    x = gn.input((1, batch, 70), "float64", varying=frozen)
    states = [gn.input(n.shape, "float64", name=n.name, varying=frozen) for n in net.unroll(1, batch).initial]
    u = net.unroll(1, batch, training=False, inputs=x, initial=states)
    arrays = [np.random.default_rng(0).standard_normal(n.shape) for n in (x, *states)]
    return subject([u.logits, *u.final], [x, *states], arrays)


SUBJECTS = {
    "turns": of_turns,
    "squares": of_squares,
    "LSTM": lambda: of_network(rnn.LSTM(6)),
    "GRU, Gv": lambda: of_network(rnn.GRU(6), gv=True),
    "sparse": lambda: of_network(rnn.GNN(6, edges=2)),
    "both ways": lambda: of_network(rnn.Bidirectional(rnn.Elman(4))),
    "a step, frozen": lambda: of_step(rnn.LSTM(70), 1),
    "a step of any weights": lambda: of_step(rnn.GRU(70), 3, frozen=False),
}

#: Subjects that show all kinds of faults soonest; the others are slow.
QUICK = ("squares", "a step, frozen")


def plan_of(made: Subject, parts: int):
    return planned(lambda: schedule.make_schedule(made.graph, this_machine(), parts, False, finely=True))


def rehearsed(made: Subject):
    """Yields the bytes of the outputs for each order of the plan's parts."""
    orders = load_backend("numba").rehearse(made.graph, made.source, made.arrays)
    return ([output.tobytes() for output in outputs] for _, outputs in orders)


@pytest.mark.parametrize("name", SUBJECTS)
def test_plans_have_no_races(name: str) -> None:
    made = SUBJECTS[name]()
    for parts in (1, 2, 3, 8):
        plan = plan_of(made, parts)
        with case(parts, "cores"):
            assert parts == 1 or plan.barriers
            assert list(races(plan)) == []


@pytest.mark.parametrize("cell", some_quick(rnn.cells.ALL, DIFFERENT))
def test_no_cell_has_a_race(cell: str) -> None:
    """Gv, and one step with frozen weights, with any order of the cores, also in `again`."""
    assert list(races(plan_of(of_network(rnn.cells.ALL[cell](4), gv=True), 3))) == []
    if rnn.cells.ALL[cell](4).causal:
        step = of_step(rnn.cells.ALL[cell](4), 1)
        assert list(races(plan_of(step, 3))) == []
        first, *others = rehearsed(step)
        assert all(other == first for other in others)


def faults(plan):
    """Yields (kind of fault, its place, and the attribute to replace: owner, name, value)."""
    barriers_of, give_places = schedule.barriers_of, TapeScheduler.give_places
    for missing in sorted(plan.barriers):
        wrong = lambda *a: barriers_of(*a) - {missing}
        yield "a barrier is left out", missing, schedule, "barriers_of", wrong
    for early in sorted({*range(len(plan.jobs))} - plan.barriers):
        wrong = lambda self, start, barriers, rows: give_places(self, start, {*barriers, early}, rows)
        yield "memory is given away as if all met there", early, TapeScheduler, "give_places", wrong
    kinds = (instructions.Loop, instructions.MatrixProduct, instructions.Scatter)
    for kind, method, number in itertools.product(kinds, ("_reads", "_writes"), range(3)):
        real = getattr(kind, method)

        def flipped(instruction):
            for k, access in enumerate(real(instruction)):
                turned = k == number and access.view.shape
                yield access._replace(by_rows=not access.by_rows) if turned else access

        which = kind.__name__, method, number
        yield "an access says the opposite of its rows", which, kind, method, flipped


@pytest.mark.parametrize("name", some_quick(SUBJECTS, QUICK))
def test_rehearsal_and_oracle_agree_on_every_fault(name: str) -> None:
    """The rehearsal and the oracle agree: a fault changes bits if and only if it is a race.

    Exception: only the oracle sees a write over a value that is computed and read within one superstep,
    since the rehearsal reorders only whole supersteps.
    """
    made = SUBJECTS[name]()
    right, plan = next(rehearsed(made)), plan_of(made, 3)
    seen, caught = Counter(), Counter()
    for kind, which, owner, attribute, wrong in faults(plan):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("graphnet.backends.numba.backend.REHEARSED", (3,))
            patch.setattr(owner, attribute, wrong)
            racing, found = any(races(plan_of(made, 3))), any(bits != right for bits in rehearsed(made))
        assert found == racing or (racing and kind.startswith("memory")), (kind, which)
        seen[kind], caught[kind] = seen[kind] + racing, caught[kind] + found
    assert seen["a barrier is left out"] >= len(plan.barriers) - 2, "hardly a barrier is needless"
    assert all(caught[kind] >= 0.9 * seen[kind] for kind in seen)
    assert all(caught.values()) or name != "squares"
