"""Graph optimisation: named pure functions from graph to graph, applied in the order of DEFAULT.

prune     what computes nothing, or assembles what nobody reads
simplify  algebra: neutral elements, double negation, transposes, one-hot products, log of softmax
stack     the products that make a weight's gradient, one for each time step, as one product
fold      constant subexpressions
merge     the same expression, one node
fuse      elementwise nodes that run as one loop

Each keeps every output and every derivative. Leave one out by name with `passes.without("fold")`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphnet.errors import GraphnetError
from graphnet.graph import Graph
from graphnet.passes.fold import fold
from graphnet.passes.fuse import fuse
from graphnet.passes.merge import merge
from graphnet.passes.prune import prune
from graphnet.passes.simplify import simplify
from graphnet.passes.stack import stack

__all__ = [
    "DEFAULT",
    "Pass",
    "PassReport",
    "fold",
    "fuse",
    "merge",
    "optimize",
    "prune",
    "simplify",
    "stack",
    "without",
]


@dataclass(frozen=True)
class Pass:
    """A named pure function from graph to graph."""

    name: str
    function: Callable[[Graph], Graph]

    def __call__(self, graph: Graph) -> Graph:
        return self.function(graph)


class PassReport(NamedTuple):
    """What one pass did: node counts and the seconds that it took."""

    name: str
    before: int
    after: int
    seconds: float


# Merging first makes the others' work smaller; simplifying makes new equal nodes, so it runs again.
DEFAULT: tuple[Pass, ...] = (
    Pass("prune", prune),
    Pass("merge", merge),
    Pass("simplify", simplify),
    Pass("stack", stack),
    Pass("fold", fold),
    Pass("merge again", merge),
    Pass("fuse", fuse),
)


def without(*names: str) -> tuple[Pass, ...]:
    """DEFAULT less the passes of these names; GraphnetError for a name that it does not have."""
    known = [p.name for p in DEFAULT]
    for name in names:
        if name not in known:
            raise GraphnetError(f"there is no pass named {name!r}; the passes are {', '.join(known)}")
    return tuple(p for p in DEFAULT if p.name not in names)


def optimize(
    graph: Graph, passes: Sequence[Pass | Callable[[Graph], Graph]] = DEFAULT
) -> tuple[Graph, list[PassReport]]:
    """The graph after all passes, and what each did."""
    reports = []
    for step in passes:
        before, start = len(graph), time.perf_counter()
        graph = step(graph)
        name = step.name if isinstance(step, Pass) else getattr(step, "__name__", "pass")
        reports.append(PassReport(name, before, len(graph), time.perf_counter() - start))
    return graph, reports
