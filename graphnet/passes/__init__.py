"""Graph optimization: named pure functions from graph to graph, applied in the order of DEFAULT.

prune           removes labels, stop-gradients, and inputs of joins that are never read
merge           merges equal expressions into one node
simplify        algebra: neutral elements, double negation, transposes, one-hot products, log of softmax
stack sums      Σ_t a_t b_t as one product: gradients of weights over time, of states over gates
stack rows      products of all time steps with one weight, as one product
stack columns   the gates of a cell, as one product
stack reductions   the gates' bias and symbol gradients, as one sum
batch           elementwise work on the inputs of a join, done once on the joined array
fold            constant subexpressions
expand          (loops) the softmax family and the losses in loops and reductions
sum scatters    a bias' gradient from that of the symbols
cut             (caches) sums over long stacks, a chunk at a time
fuse            (loops) elementwise nodes that run as one loop
fuse reductions (caches) sums and maxima, in the loops that compute their operands

A pass with a word in parentheses runs only on back ends with that feature: "loops" (the back end compiles loops) or
"caches" (its memory is behind caches).

To save memory (see `recomputing`), this pass runs before all others:

recompute       values that are only read late, recomputed one segment of time at a time

Each keeps every output and every derivative. Leave one out by name with `passes.without("fold")`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from graphnet.errors import GraphnetError, UsageError
from graphnet.graph.graph import Graph
from graphnet.passes.batch import batch
from graphnet.passes.cut import cut
from graphnet.passes.fuse import expand, fuse, fuse_reductions
from graphnet.passes.merge import merge, prune
from graphnet.passes.products import stack_columns, stack_rows, stack_sums
from graphnet.passes.recompute import recompute
from graphnet.passes.reductions import stack_reductions, sum_scatters
from graphnet.passes.simplify import fold, simplify
from graphnet.settings import shown

__all__ = [
    "DEFAULT", "Pass", "PassReport", "Stage", "batch", "cut", "expand", "fold", "fuse", "fuse_reductions", "merge",
    "optimize", "prune", "recompute", "recomputing", "simplify", "stack_columns", "stack_reductions", "stack_rows",
    "stack_sums", "stages", "sum_scatters", "without",
]  # fmt: skip


@dataclass(frozen=True)
class Pass:
    """A named pure function from graph to graph.

    name: name in reports and in `without`. function: the function. wants: feature that the back end must have, "loops"
    or "caches"; "" by default, none.

    >>> only_merge = gn.passes.Pass("only merge", gn.passes.merge)
    >>> x = gn.input(3)
    >>> only_merge, len(only_merge(gn.Graph([gn.exp(x) + gn.exp(x)], [x])))
    (<pass only merge>, 3)
    """

    name: str
    function: Callable[[Graph], Graph]
    wants: str = ""

    def __call__(self, graph: Graph) -> Graph:
        return self.function(graph)

    def __repr__(self) -> str:
        return f"<pass {self.name}>"


class PassReport(NamedTuple):
    """Report of one pass.

    name: name of the pass. before, after: numbers of nodes before and after it. seconds: its time.

    >>> x = gn.input(3, name="x")
    >>> graph, reports = gn.passes.optimize(gn.Graph([x * 1.0], [x]))
    >>> [(each.name, each.before, each.after) for each in reports if each.after < each.before]
    [('simplify', 3, 1)]
    """

    name: str
    before: int
    after: int
    seconds: float


# Merging first makes the graph smaller. Simplifying and stacking create equal nodes, so merging runs again.
# A pass that calls Graph.rewrite comes before `fuse`: rewriting drops the groups. A pass must not merge nodes
# that `again` recomputes with others (analysis.varying_nodes); it uses declared properties of ops.
DEFAULT: tuple[Pass, ...] = (
    Pass("prune", prune),
    Pass("merge", merge),
    Pass("simplify", simplify),
    Pass("stack sums", stack_sums),
    Pass("stack rows", stack_rows),
    Pass("stack columns", stack_columns),
    Pass("stack reductions", stack_reductions),
    Pass("batch", batch),
    Pass("fold", fold),
    Pass("expand", expand, wants="loops"),
    Pass("merge again", merge),
    Pass("sum scatters", sum_scatters),
    Pass("cut", cut, wants="caches"),
    Pass("fuse", fuse, wants="loops"),
    Pass("fuse reductions", fuse_reductions, wants="caches"),
)


def recomputing(segments: int | None = None) -> tuple[Pass, ...]:
    """Returns the pass that trades time for memory, to be put before all others; segments: see `recompute`.

    >>> x = gn.input(3)
    >>> passes = gn.passes.recomputing(segments=4) + gn.passes.DEFAULT
    >>> passes[0], gn.compile(gn.exp(x), [x], passes=passes)(np.zeros(3, np.float32))[0].tolist()
    (<pass recompute>, [1.0, 1.0, 1.0])
    """
    return (Pass("recompute", partial(recompute, segments=segments)),)


def without(*names: str) -> tuple[Pass, ...]:
    """DEFAULT without the passes of these names.

    names: names of passes in DEFAULT.
    Raises GraphnetError for a name that DEFAULT does not have.

    >>> passes = gn.passes.without("fold", "fuse")
    >>> len(gn.passes.DEFAULT) - len(passes)
    2
    """
    known = [p.name for p in DEFAULT]
    for name in names:
        if name not in known:
            raise GraphnetError(f"there is no pass named {name!r}; the passes are {', '.join(known)}")
    return tuple(p for p in DEFAULT if p.name not in names)


class Stage(NamedTuple):
    """One pass, with its graphs.

    name: name of the pass. before, after: the graphs before and after it. seconds: its time.

    >>> x = gn.input(3)
    >>> stage = next(gn.passes.stages(gn.Graph([gn.stop_gradient(x) + 1], [x])))
    >>> stage.name, len(stage.before), len(stage.after)
    ('prune', 4, 3)
    """

    name: str
    before: Graph
    after: Graph
    seconds: float


#: All features of back ends; see Pass.wants.
EVERYTHING = frozenset({"loops", "caches"})


def stages(
    graph: Graph, passes: Sequence[Pass | Callable[[Graph], Graph]] = DEFAULT, has: Set[str] = EVERYTHING
) -> Iterator[Stage]:
    """Yields the graphs before and after each pass.

    graph: the graph to optimize. passes: passes or functions from graph to graph, in order; DEFAULT by default. has:
    features of the back end, all by default; passes that need another are skipped.
    Raises UsageError if a pass returns anything but a Graph with the same inputs, and outputs of the same shapes and
    dtypes.

    >>> x = gn.input(3)
    >>> graph = gn.Graph([gn.exp(x) + gn.exp(x)], [x])
    >>> [(each.name, len(each.after)) for each in gn.passes.stages(graph, [gn.passes.merge, gn.passes.simplify])]
    [('merge', 3), ('simplify', 3)]
    """
    for step in passes:
        if isinstance(step, Pass) and step.wants and step.wants not in has:
            continue
        start = time.perf_counter()
        after = step(graph)
        name = step.name if isinstance(step, Pass) else getattr(step, "__name__", "pass")
        if not isinstance(after, Graph):
            raise UsageError(
                f"the pass {name} returned a {type(after).__name__}; a pass must return a Graph. If it changes "
                "nothing, return the argument."
            )
        if step not in DEFAULT:
            _require_same_ends(name, graph, after)
        yield Stage(name, graph, after, time.perf_counter() - start)
        graph = after


def _require_same_ends(name: str, before: Graph, after: Graph) -> None:
    if after.inputs != before.inputs:
        raise UsageError(
            f"the pass {name} returned a graph with the inputs {shown([x.describe() for x in after.inputs])}; they "
            f"must be those of its argument, {shown([x.describe() for x in before.inputs])}. Return gn.Graph(outputs, "
            "graph.inputs)"
        )
    Graph(after.outputs, after.inputs)  # raises an error if other inputs are read
    found, wanted = ([f"{y.dtype} {list(y.shape)}" for y in graph.outputs] for graph in (after, before))
    if found != wanted:
        raise UsageError(
            f"the pass {name} returned outputs of dtypes and shapes {shown(found)}; they must be {shown(wanted)}, as "
            "before"
        )


def optimize(
    graph: Graph, passes: Sequence[Pass | Callable[[Graph], Graph]] = DEFAULT, has: Set[str] = EVERYTHING
) -> tuple[Graph, list[PassReport]]:
    """Returns the graph after all passes, and a report of each pass.

    graph, passes, has: see `stages`.

    >>> x = gn.input(3)
    >>> graph, reports = gn.passes.optimize(gn.Graph([-(-x)], [x]), has=set())
    >>> len(graph), reports[0].name
    (1, 'prune')
    """
    reports = []
    # Memory of nodes that are freed in between is reused in random order, so all later sweeps wait for caches: free
    # them at the end.
    kept = []
    for stage in stages(graph, passes, has):
        kept.append(graph)
        reports.append(PassReport(stage.name, len(stage.before), len(stage.after), stage.seconds))
        graph = stage.after
    return graph, reports
