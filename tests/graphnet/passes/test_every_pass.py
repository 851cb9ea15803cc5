"""Every pass: a graph on which it fires, and one that is much the same, which it leaves as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import graphnet as gn
from graphnet import passes
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from tests.tables import require_rows

a, b = (gn.input((4, 3), "float64", name=name) for name in "ab")
W, V = (gn.parameter(np.ones((3, 3)), name=name) for name in "WV")
rows, index = gn.input((50, 3), "float64", name="rows"), gn.input((50,), "int64", name="index")
long = [gn.input((passes.cut.__defaults__[0], 3), name=f"long{i}") for i in range(4)]  # type: ignore[index]
three, below_zero = gn.constant(np.array([1.0, 2.0, 3.0])), gn.constant(np.array([-1.0]))


def columns(*summed: int) -> list[Node]:
    """A join of two steps of [a | b], and sums over the rows of those columns."""
    steps = [(gn.tanh(a), gn.tanh(b)), (gn.sin(a), gn.sin(b))]
    whole = gn.concatenate([gn.concatenate(step, 1) for step in steps])
    return [whole, *(gn.sum(gn.concatenate([step[i] for step in steps]), 0) for i in summed)]


class Example(NamedTuple):
    """fires, stays: outputs of a graph that the pass changes, and of one that it does not. before: passes before it."""

    fires: Callable[[], list[Node]]
    stays: Callable[[], list[Node]]
    before: tuple[Callable[[Graph], Graph], ...] = ()


MERGE = Example(lambda: [gn.tanh(a) * gn.tanh(a)], lambda: [gn.tanh(a) * gn.tanh(b)])
EXAMPLES: dict[str, Example] = {
    "prune": Example(lambda: [gn.label(a * b, "h") + 1], lambda: [a * b + 1]),
    "merge": MERGE,
    "simplify": Example(lambda: [gn.transpose(a.T)], lambda: [a * 0.0]),  # 0 · ∞ is NaN
    "stack sums": Example(lambda: [a.T @ b + b.T @ a], lambda: [a.T @ b + b[:3]]),
    "stack rows": Example(lambda: [a @ W, b @ W], lambda: [gn.tanh(a @ W) @ W]),
    "stack columns": Example(lambda: [a @ W, a @ V], lambda: [a @ W, b @ V]),
    "stack reductions": Example(lambda: columns(0, 1), lambda: columns(0)),
    "batch": Example(
        lambda: [gn.concatenate([gn.tanh(a[:2]), gn.tanh(a[2:])])],
        lambda: [gn.concatenate([gn.tanh(a[:2]), gn.sin(a[2:])])],
    ),
    "fold": Example(lambda: [gn.tanh(three) * a], lambda: [gn.log(below_zero)]),  # NaN is made where it runs
    "expand": Example(lambda: [gn.softmax(a)], lambda: [gn.tanh(a)]),
    "merge again": MERGE,
    "sum scatters": Example(
        lambda: [gn.sum(rows, 0), gn.scatter_add(rows, index, 5)],
        lambda: [gn.sum(rows, 1), gn.scatter_add(rows, index, 5)],
    ),
    "cut": Example(lambda: [gn.sum(gn.concatenate(long), 0)], lambda: [gn.sum(gn.concatenate(long[:1]), 0)]),
    "fuse": Example(lambda: [gn.tanh(a) * b], lambda: [a @ W]),
    "fuse reductions": Example(
        lambda: [gn.sum(gn.tanh(a), 1)], lambda: [gn.sum(gn.tanh(a), 0)], before=(passes.fuse,)
    ),
}


def test_every_pass_has_an_example() -> None:
    names = {step.name for step in passes.DEFAULT}
    what = "outputs of a graph on which it fires, and of one that it leaves as it is"
    require_rows(names - set(EXAMPLES), "EXAMPLES in test_every_pass.py", what)
    assert set(EXAMPLES) <= names


def changed(name: str, outputs: list[Node]) -> bool:
    """Whether the pass makes other nodes or groups."""
    (step,) = (step for step in passes.DEFAULT if step.name == name)
    before, _ = passes.optimize(Graph(outputs), EXAMPLES[name].before)
    after = step(before)
    return (after.order, after.groups) != (before.order, before.groups)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_fires_and_leaves_what_it_must(name: str) -> None:
    assert changed(name, EXAMPLES[name].fires())
    assert not changed(name, EXAMPLES[name].stays())
