"""Groups of nodes for back ends that compile loops.

expand           ops without a loop of their own, in simpler ones: the softmax family, losses, lookups along later axes
fuse             elementwise nodes that can run as one loop become a group, compiled to one kernel
fuse reductions  a sum or maximum runs in the loop that computes its operand, which then need not be stored
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from graphnet.graph.expression import is_compilable
from graphnet.graph.graph import Graph, Group, ancestors, rewrite
from graphnet.graph.node import Node
from graphnet.ops.broadcast import Reduction
from graphnet.ops.elementwise import Elementwise
from graphnet.ops.index import Lookup
from graphnet.passes.analysis import varying_nodes
from graphnet.system.process import collector_paused

#: A group holds no chain longer than this: kernels stay small, however long a chain of nodes is.
LONGEST_CHAIN = 48
#: Maximum number of terms of a sum in a group, which bounds the size of kernels.
WIDEST = 16
LARGEST = 400
#: How long a chain of nodes may be that is computed again.
DEEPEST = 6
#: Functions that cost more than reading a value back; all else is done again rather than stored.
COSTLY = ("exp", "log", "tanh", "sin", "cos", "**", "sqrt", "/", "erf", "mod")
#: Elements of a vector that is reduced a chunk at a time (see plan.chunks), so that there are rows to divide.
LONG = 1 << 15


def expand(graph: Graph) -> Graph:
    """Replaces ops by simpler ones (see Op.expanded), recursively.

    Common subexpressions (the exponentials of a loss and of its gradient) are then computed once.
    graph: the graph to change; the result is a new graph.

    >>> x = gn.input((4, 3))
    >>> graph = gn.passes.expand(gn.Graph([gn.softmax(x)], [x]))
    >>> any("softmax" in str(node.op).lower() for node in graph.order)
    False
    """
    return graph.rewrite(_written_out)


def _written_out(node: Node) -> Node:
    found = node.op.expanded(node, *node.inputs) if node.inputs and node.size else None
    if found is None:
        return node
    made = [x for x in ancestors([found], stop=node.inputs) if x not in node.inputs]
    return rewrite(made, _written_out).get(found, found)


def is_fusable(node: Node) -> bool:
    """True for nodes that a loop over their elements can compute."""
    match node.op:
        case Elementwise(kernel=kernel):
            return len(node.inputs) <= WIDEST and is_compilable(kernel)
        case Lookup() as op:
            return bool(op.load(*node.inputs))
    return False


def _flows(source: Node, node: Node) -> bool:
    """True if an element of the node needs only that element of the source (both fusable)."""
    return source.shape == node.shape and node.op.is_elementwise


def fuse(graph: Graph) -> Graph:
    """Graph with elementwise nodes in groups, each compiled to one loop.

    A node's level counts the boundaries (products, reductions, changes of shape) on the longest path to it; varying
    nodes (see analysis.varying_nodes) have levels of their own. Two nodes of the same level and shape have no boundary
    between them, so joining connected ones makes no cycle. Cheap nodes that only later groups read are recomputed
    there instead of being stored.
    graph: the graph to group; the result is a new graph.

    >>> x = gn.input((4, 3))
    >>> graph = gn.passes.fuse(gn.Graph([gn.exp(x) * 2.0 + 1.0], [x]))
    >>> [len(group.nodes) for group in graph.groups]
    [3]
    """
    with collector_paused():
        return graph.with_groups(_groups(graph))


def _groups(graph: Graph) -> list[Group]:
    reads = _Reads(graph)
    level = _levels(graph, reads)
    sunk = _sunk(graph, reads, level)
    group_of = _components(reads, sunk, level)
    members: dict[int, list[int]] = {}
    for i, group in enumerate(group_of):
        if group >= 0:
            members.setdefault(group, []).append(i)
    outputs = set(graph.outputs)

    def is_stored(i: int) -> bool:
        own = group_of[i]
        inside = sum([group_of[reader] == own for reader in reads.loops[i]])
        return inside < reads.count[i] or graph.order[i] in outputs

    found = []
    for nodes in members.values():
        computed = _nodes(graph, _with_sunk(nodes, reads, sunk))
        found.append(Group(computed, _nodes(graph, [i for i in nodes if is_stored(i)])))
    return found


def _nodes(graph: Graph, positions: Iterable[int]) -> tuple[Node, ...]:
    return tuple([graph.order[i] for i in positions])


class _Reads:
    """Readers of each node, by position in the order. Lists of numbers fit into caches; the nodes of large graphs do
    not.
    """

    def __init__(self, graph: Graph) -> None:
        order = graph.order
        position = {node: i for i, node in enumerate(order)}
        self.fusable = [bool(node.inputs) and is_fusable(node) for node in order]
        #: For each node, the inputs that may run in its loop (repeated if read twice); then the other nonleaf inputs.
        self.beside: list[Sequence[int]] = [()] * len(order)
        self.before: list[Sequence[int]] = [()] * len(order)
        #: For each node, the readers that may run in its loop; then its number of reads.
        self.loops: list[Sequence[int]] = [()] * len(order)
        self.count = [0] * len(order)
        readers: dict[int, list[int]] = {}
        for i, node in enumerate(order):
            beside, before = [], []
            for x in node.inputs:
                source = position[x]
                self.count[source] += 1
                if self.fusable[i] and self.fusable[source] and _flows(x, node):
                    beside.append(source)
                    readers.setdefault(source, []).append(i)
                elif x.inputs:
                    before.append(source)
            # Most have none, and share one empty tuple.
            if beside:
                self.beside[i] = tuple(beside)
            if before:
                self.before[i] = tuple(before)
        for source, loops in readers.items():
            self.loops[source] = loops


def _levels(graph: Graph, reads: _Reads) -> list[int]:
    """Level of each node as one number: boundaries on the longest path, links of the chain since the last boundary //
    LONGEST_CHAIN, and whether the node varies.
    """
    varying = varying_nodes(graph)
    level: list[int] = []
    boundaries: list[int] = []
    chain: list[int] = []
    for i, node in enumerate(graph.order):
        most = links = 0
        for source in reads.before[i]:
            most = max(most, boundaries[source] + 1)
        for source in reads.beside[i]:
            if boundaries[source] > most:
                most, links = boundaries[source], chain[source] + 1
            elif boundaries[source] == most:
                links = max(links, chain[source] + 1)
        boundaries.append(most)
        chain.append(links)
        level.append((most << 32 | links // LONGEST_CHAIN) << 1 | (node in varying))
    return level


def _sunk(graph: Graph, reads: _Reads, level: Sequence[int]) -> list[int]:
    """For nodes that each reading group computes again: length of the chain of such nodes from here on."""
    sunk = [0] * len(level)
    kept = set(graph.outputs)
    stored = [node in kept for node in graph.order]

    def is_read_later(i: int) -> bool:
        """True if all readers are loops of a later level, or are computed again themselves."""
        own, loops = level[i], reads.loops[i]
        return len(loops) == reads.count[i] and all(sunk[r] or level[r] != own for r in loops)

    for i in reversed(range(len(level))):
        beside, before = reads.beside[i], reads.before[i]
        for source in before:
            stored[source] = True
        if not reads.fusable[i]:
            continue
        node = graph.order[i]
        if node not in kept and _is_cheap(node) and is_read_later(i):
            unstored = [source for source in beside if not stored[source]]
            follow = 1 + max([sunk[reader] for reader in reads.loops[i]], default=0)
            if len(unstored) <= 1 and follow <= DEEPEST:
                sunk[i] = follow
                for source in beside:
                    stored[source] = True
                continue
        for source in beside:
            if level[source] != level[i]:
                stored[source] = True
    return sunk


@lru_cache(maxsize=4096)
def _is_costly(kernel: str) -> bool:
    return any(function in kernel for function in COSTLY)


def _is_cheap(node: Node) -> bool:
    match node.op:
        case Elementwise(kernel=kernel):
            return len(node.inputs) <= 2 and not _is_costly(kernel)
        case Lookup():
            return True
    return False


def _components(reads: _Reads, sunk: Sequence[int], level: Sequence[int]) -> list[int]:
    """For each node, the representative of its group; -1 for nodes without a group."""
    parent = list(range(len(level)))

    def find(i: int) -> int:
        root = i
        while parent[root] != root:
            root = parent[root]
        while parent[i] != root:
            parent[i], i = root, parent[i]
        return root

    for i, beside in enumerate(reads.beside):
        if not sunk[i]:
            for source in beside:
                if not sunk[source] and level[source] == level[i]:
                    a, b = find(source), find(i)
                    if a != b:
                        parent[b] = a
    found = [
        find(i) if fusable and not again else -1
        for i, (fusable, again) in enumerate(zip(reads.fusable, sunk, strict=True))
    ]
    size = Counter(found)
    return [root if size[root] <= LARGEST or root < 0 else i for i, root in enumerate(found)]


def _with_sunk(nodes: Sequence[int], reads: _Reads, sunk: Sequence[int]) -> list[int]:
    computed = set(nodes)
    pending = list(nodes)
    while pending:
        for source in reads.beside[pending.pop()]:
            if sunk[source] and source not in computed:
                computed.add(source)
                pending.append(source)
    return sorted(computed)


def fuse_reductions(graph: Graph) -> Graph:
    """Adds reductions to the groups that compute their operands, where these reduce the last axes and not the first,
    or a long vector.

    Cores divide loops by the first axis. A reduction adds no operands to its group, so the group never starts later
    than before. All reductions of a group are over the same axes, those of its first one.
    graph: the graph that `fuse` returned; the result is a new graph.

    >>> x = gn.input((4, 3))
    >>> fused = gn.passes.fuse(gn.Graph([gn.sum(gn.exp(x) * 2.0, axis=1)], [x]))
    >>> [[len(group.nodes) for group in g.groups] for g in (fused, gn.passes.fuse_reductions(fused))]
    [[2], [3]]
    """
    with collector_paused():
        return graph.with_groups([_with_reductions(graph, group) for group in graph.groups])


def _with_reductions(graph: Graph, group: Group) -> Group:
    found: list[Node] = []
    over: tuple[int, ...] = ()
    for node in (n for n in group.outputs if not _last_axes(n)):
        for reader in graph.consumers[node]:
            axes = _last_axes(reader)
            if axes and axes == (over or axes):
                over = axes
                found.append(reader)
    if not found:
        return group
    inside = {*group.nodes, *found}
    kept = set(graph.outputs)
    stored = [n for n in group.outputs if n in kept or any(r not in inside for r in graph.consumers[n])]
    return Group((*group.nodes, *found), (*stored, *found))


def _last_axes(node: Node) -> tuple[int, ...]:
    """The axes of a reduction that loops support: over the last axes and not the first, or of a long vector."""
    match node.op:
        case Reduction(axes=axes, how=how) if how:
            ndim = node.inputs[0].ndim
            if ndim == 1:
                return axes if len(axes) == 1 and node.inputs[0].size >= LONG else ()
            return axes if len(axes) < ndim and axes == tuple(range(ndim - len(axes), ndim)) else ()
    return ()
