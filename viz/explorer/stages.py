"""The original graph and the graph after each compiler pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from graphnet.call.function import Function
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.passes import Pass
from viz.matching import kept_nodes

WRITTEN = "as written"


@dataclass(frozen=True)
class AfterPass:
    """Graph and the pass that made it. stems: node -> the same node in the stage before."""

    name: str
    graph: Graph
    stems: dict[Node, Node] = field(default_factory=dict)
    gone: int = 0


def stages_of(
    graph: Graph, passes: Sequence[Pass | Callable[[Graph], Graph]], function: Function | None = None
) -> list[AfterPass]:
    """The graph, and the graph after each pass.

    For a function that was compiled with other passes, its compiled graph.
    """
    names = [p.name if isinstance(p, Pass) else getattr(p, "__name__", "pass") for p in passes]
    if function is not None and passes:
        reported = [report.name for report in function.reports]
        if not set(names).issuperset(reported):
            return [AfterPass(WRITTEN, graph), _stage("as compiled", graph, function.graph)]
        passes = [step for name, step in zip(names, passes, strict=True) if name in reported]
        names = [name for name in names if name in reported]
    stages = [AfterPass(WRITTEN, graph)]
    for name, step in zip(names, passes, strict=True):
        before = stages[-1].graph
        stages.append(_stage(name, before, step(before)))
    return stages


def _stage(name: str, before: Graph, after: Graph) -> AfterPass:
    stems = kept_nodes(before, after)
    return AfterPass(name, after, stems, len(before) - len(stems))
