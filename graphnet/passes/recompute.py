"""Recompute: values that only late readers need are dropped and recomputed, one segment of time at a time.

The graph runs in stages: forward through the segments 0, 1, ..., K - 1, then back through K - 2, ..., 0, where each
segment is first recomputed from the values that cross into it. Memory is that of all crossings and of one segment; with
K ~ √T segments both grow as √T. (Martens & Sutskever 2012, 5; Krause 2015, 3.3.5.1; Chen et al. 2016.)

The pass needs no notion of time or networks. `source_serial`, a node's position in the user's program (derivatives
share that of their function), orders the forward nodes. Nodes that read against this order are the late readers.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import accumulate

from graphnet.graph.graph import Graph, dependents
from graphnet.graph.node import Node, shared
from graphnet.graph.provenance import attributed_to
from graphnet.ops.elementwise import Add, add
from graphnet.ops.leaf import After
from graphnet.ops.shape import Stack
from graphnet.passes.unstack import ANYWHERE, unstack
from graphnet.system.process import cached_property, collector_paused

#: Nodes of a chain that may move.
SHORT = 16
#: Minimum number of terms of a sum that is computed in parts, one for each stage that has some of its terms.
WIDE = 8
#: Maximum number of extra nodes that a recomputed segment may run to provide a term of such a sum.
NEAR = 64
#: Cost of a byte by which segments differ in size, relative to a byte that crosses into a segment.
UNEVEN = 1 / 5
#: "In no segment again": the node as it runs for the first time.
FIRST = -1

#: A node of the new graph before it is made: (node, the segment with which it is computed again, or FIRST).
Copy = tuple[Node, int]


def recompute(graph: Graph, segments: int | None = None) -> Graph:
    """Graph with the same outputs that keeps less memory: it is cut into segments, about √T of them by default.

    graph: the graph to change; returned unchanged if no value is kept long. segments: number of segments; None: chosen
    from the graph.

    >>> u = rnn.Network([rnn.Elman(3)], inputs=4, outputs=2).unroll(time=30, batch=1)
    >>> graph = gn.Graph([u.cost, *gn.gradient(u.cost, u.network.parameters.values())])
    >>> len(gn.passes.recompute(graph, segments=5)) > len(graph)
    True
    """
    with collector_paused():
        course = _Course(graph)
        cuts = course.cuts(course.good_count if segments is None else segments)
        if not cuts:
            return graph
        graph = unstack(graph, course.segments(cuts))
        course = _Course(graph)
        return _Stages(course, course.segments(cuts), len(cuts)).run()


def _collects(node: Node) -> bool:
    """True for nodes that gather values of all times: a sum or a stack with many inputs."""
    match node.op:
        case Add() | Stack(axis=0):
            return len(node.inputs) >= WIDE
    return False


def _leaves(graph: Graph) -> set[Node]:
    """Leaves, and nodes that are computed from them at almost no cost: views, and codes of symbols.

    Each stage computes its own: a bidirectional net reads each code twice, at distant moments, and products of codes
    are then still lookups.
    """
    depth: dict[Node, int] = {}
    for node in graph.order:
        if all(x in depth for x in node.inputs):
            free = not node.inputs or node.op.is_view or node.op.is_one_hot
            far = 1 + max([depth[x] for x in node.inputs], default=-1)
            if free and far <= SHORT:
                depth[node] = far
    return set(depth)


class _Course:
    """Forward nodes with their moments in the user's program, and their values that backward nodes read late."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.leaves = _leaves(graph)
        self.moment: dict[Node, int] = {}
        self._run_forward()
        self.late = {
            node for node in self.moment if any(reader not in self.moment for reader in graph.consumers[node])
        }

    def _run_forward(self) -> None:
        """Sets moments to those of the user's program. Short chains at both ends move next to the node that they serve:
        a precomputed embedding to its first reader, 1 - y² to y."""
        moment, order, consumers, leaves = self.moment, self.graph.order, self.graph.consumers, self.leaves
        light: dict[Node, int] = {}  # number of nodes on the way to the leaves
        for node in order:
            inner = [x for x in node.inputs if x not in leaves]
            if node in leaves or not all(x in moment for x in inner):
                continue
            latest = max((moment[x] for x in inner), default=0)
            place = latest if node.source_serial == ANYWHERE else node.source_serial
            if latest > place:
                continue
            moment[node] = place
            depth = 1 + max((light.get(x, SHORT) for x in inner), default=0)
            if depth <= SHORT:
                light[node] = depth
        ends: dict[Node, int] = {}  # number of nodes up to the backward ones

        def move_to_readers(node: Node, readers: list[Node]) -> None:
            moment[node] = max(moment[node], min((moment[r] for r in readers), default=0))

        for node in reversed(order):
            if node in moment:
                readers = [r for r in consumers[node] if r in moment and not _collects(r)]
                depth = 1 + max((ends.get(r, SHORT) for r in readers), default=0)
                if depth <= SHORT:
                    ends[node] = depth
                if node in light:
                    move_to_readers(node, [r for r in readers if r not in ends])
        for node in order:
            if node in ends:
                moment[node] = max((moment[x] for x in node.inputs if x not in leaves), default=moment[node])
        for node in reversed(order):
            if node in ends and node in light:
                move_to_readers(node, [r for r in consumers[node] if r in moment and not _collects(r)])
        # A sum of many terms delays no other node; its own moment is after its last term.
        for node in order:
            if node in moment:
                moment[node] = max([moment[node], *(moment[x] for x in node.inputs if x not in leaves)])

    # -- where to cut ------------------------------------------------------------------------------

    @cached_property
    def _places(self) -> list[int]:
        return sorted(set(self.moment.values()))

    @cached_property
    def _spans(self) -> list[tuple[int, int, int]]:
        """(first, last, bytes): the values that later nodes read, running forward, and the places that they cross."""
        index = {place: i for i, place in enumerate(self._places)}
        owner: dict[Node, Node] = {}
        last: dict[Node, int] = {}
        for node in self.graph.order:
            owner[node] = owner[node.inputs[0]] if node.op.is_view and node.inputs else node
            if node in self.moment and not _collects(node):
                for source in node.inputs:
                    last[owner[source]] = max(last.get(owner[source], 0), self.moment[node])
        return [
            (index[self.moment[node]] + 1, index[end], node.nbytes)
            for node, end in last.items()
            if node in self.moment and end > self.moment[node]
        ]

    @cached_property
    def _crossing(self) -> list[int]:
        """Bytes that nodes at or after each place read from before it, running forward."""
        change = [0] * (len(self._places) + 1)
        for first, last, nbytes in self._spans:
            change[first] += nbytes
            change[last + 1] -= nbytes
        return list(accumulate(change))[:-1]

    def _crossing_any(self, places: Sequence[int]) -> int:
        return sum(
            nbytes
            for first, last, nbytes in self._spans
            if bisect_left(places, first) < bisect_right(places, last)
        )

    @cached_property
    def _kept(self) -> list[int]:
        """Bytes of late values before each place. For results of a stack, the inputs of the stack count."""
        index = {place: i for i, place in enumerate(self._places)}
        sizes = [0] * len(index)
        stacks = [n for n in self.moment if isinstance(n.op, Stack) and _collects(n)]
        made_of_stacks = dependents(self.graph.order, stacks)
        stacked = {x for node in stacks for x in node.inputs if x in self.moment}
        for node in (self.late | stacked) - made_of_stacks:
            if not node.op.is_view:
                sizes[index[self.moment[node]]] += node.nbytes
        return list(accumulate(sizes, initial=0))

    @cached_property
    def good_count(self) -> int:
        """¼ √(bytes of one segment that covers all of time / bytes that each crossing adds).

        Four times as many segments would need the least memory, about half as much: all crossings and the values of
        one of K segments. But the last segment is not recomputed, and longer segments give longer products.
        """
        operands = {
            x
            for n in self.graph.order
            if n.op.is_product and n.ndim == 2
            for x in n.inputs
            if not x.op.is_view
        }
        going_back = sum(x.nbytes for x in operands if x not in self.leaves and x not in self.moment)
        crossing = self._crossing
        width = max(1, math.isqrt(len(crossing)))
        least = [
            min(range(i, i + width), key=crossing.__getitem__)
            for i in range(width, len(crossing) - width, width)
        ]
        if not least or not self._kept[-1]:
            return 1
        more = max(1.0, self._crossing_any(least) / len(least))
        return min(max(2, round(math.sqrt((self._kept[-1] + going_back) / more) / 4)), len(least))

    def cuts(self, count: int) -> list[int]:
        """The moments at which the segments 1, 2, ... begin: where few bytes cross, near an even division."""
        kept, crossing, places = self._kept, self._crossing, self._places
        total = kept[-1]
        found: list[int] = []
        for i in range(1, count):
            even = total * i / count
            low = bisect_left(kept, total * (i - 1 / 3) / count)
            high = bisect_right(kept, total * (i + 1 / 3) / count)
            choices = range(max(low, 1), min(high, len(places)))
            if choices:
                # Cutting within a time step costs more than a longer segment. Where the bytes that cross grow
                # slowly, as between two directions of time, an even division costs least.
                costs = [crossing[p] + UNEVEN * abs(kept[p] - even) for p in choices]
                found.append(places[choices[costs.index(min(costs))]])
        return sorted(set(found))

    def segments(self, cuts: Sequence[int]) -> dict[Node, int]:
        return {node: bisect_right(cuts, moment) for node, moment in self.moment.items()}


class _Stages:
    def __init__(self, course: _Course, segment: Mapping[Node, int], last: int) -> None:
        self.graph, self.leaves, self.late = course.graph, course.leaves, course.late
        self.segment, self.last = segment, last
        self.wide = {node for node in self.graph.order if self._is_collected(node)}
        self.crossing = {node for node in segment if self._crosses(node)}
        #: Values from which segments are recomputed.
        self.kept: set[Node] = set()
        self.again: list[set[Node]] = [set() for _ in range(self.last)]
        self.by_copy: set[tuple[Node, Node]] = set()  # (value, reader): the reader takes the copy
        self._choose()

    # -- recomputed nodes ----------------------------------------------------------------------------

    def _is_collected(self, node: Node) -> bool:
        """True for sums whose terms come from many stages: each stage adds its own."""
        if not isinstance(node.op, Add):
            return False
        if len(node.inputs) >= WIDE:
            return True
        return len({self.segment[x] for x in node.inputs if x in self.segment}) > 2

    def _choose(self) -> None:
        wanted: list[list[Node]] = [[] for _ in range(self.last)]
        collected: list[list[tuple[Node, Node]]] = [[] for _ in range(self.last)]
        for node in self.graph.order:
            segment = self.segment.get(node)
            if segment is None:
                self._read_late(node, wanted)
            elif node in self.wide:
                for x in node.inputs:
                    if self.segment.get(x, self.last) < self.last:
                        collected[self.segment[x]].append((x, node))
            elif segment == self.last:
                self.kept.update(x for x in node.inputs if self.segment.get(x, segment) < segment)
        for s in reversed(range(self.last)):
            self._compute_again(s, [x for x in wanted[s] if not self._is_kept(x)])
            for x, reader in collected[s]:
                if self.again[s] and not self._is_kept(x) and self._is_near(x, s):
                    self._compute_again(s, [x])
                    self.by_copy.add((x, reader))

    def _read_late(self, reader: Node, wanted: list[list[Node]]) -> None:
        late = [x for x in reader.inputs if x in self.late and self.segment[x] < self.last]
        alone = {self.segment[x] for x in late if x not in self.crossing}
        if len(alone) > 1 and reader not in self.wide:
            return  # all of it would have to be computed again at once
        for x in late:
            wanted[self.segment[x]].append(x)
            self.by_copy.add((x, reader))

    def _crosses(self, x: Node) -> bool:
        own = self.segment[x]
        return any(self.segment.get(r, own) > own and r not in self.wide for r in self.graph.consumers[x])

    def _is_kept(self, x: Node) -> bool:
        while x.op.is_view and x.inputs and x not in self.kept:
            x = x.inputs[0]
        return x in self.kept

    def _compute_again(self, s: int, nodes: Iterable[Node]) -> None:
        again = self.again[s]
        pending = [x for x in nodes if x not in again]
        again.update(pending)
        while pending:
            for x in pending.pop().inputs:
                if x in self.leaves or x in again or self._is_kept(x):
                    continue
                if self.segment[x] < s:
                    self.kept.add(x)
                else:
                    again.add(x)
                    pending.append(x)

    def _is_near(self, x: Node, s: int) -> bool:
        """True if recomputing x adds few nodes to those that the segment recomputes anyway."""
        seen = {x}
        pending = [x]
        while pending:
            node = pending.pop()
            if node in self.again[s] or node in self.leaves or self._is_kept(node) or self.segment[node] < s:
                continue
            if node.op.is_product or len(seen) > NEAR:
                return False
            pending += [source for source in node.inputs if source not in seen]
            seen.update(node.inputs)
        return True

    # -- the new graph -------------------------------------------------------------------------------

    def _inputs(self, copy: Copy) -> list[Copy]:
        node, s = copy
        found = []
        for x in node.inputs:
            if s != FIRST:
                again = x in self.again[s] and not self._is_kept(x)
            else:
                again = (x, node) in self.by_copy and not self._is_kept(x)
            found.append((x, self.segment[x] if again else FIRST))
        return found

    def run(self) -> Graph:
        inputs: dict[Copy, list[Copy]] = {}
        pending: list[Copy] = [(node, FIRST) for node in self.graph.outputs]
        while pending:
            copy = pending.pop()
            if copy not in inputs:
                inputs[copy] = self._inputs(copy)
                pending += inputs[copy]
        position = {node: i for i, node in enumerate(self.graph.order)}
        ordered = sorted(inputs, key=lambda c: (position[c[0]], c[1]))
        stage: dict[Copy, int] = {}
        for copy in ordered:
            node, s = copy
            least = self.segment.get(node, 0) if s == FIRST else 2 * self.last - s
            stage[copy] = 0 if node in self.leaves else max([least, *(stage[x] for x in inputs[copy])])
        return _Builder(self.graph, self.leaves, inputs, stage).run(ordered)


class _Builder:
    """Makes the nodes, stage by stage. A stage reads leaves and kept values only after the values that cross into it
    are computed: no node of a stage can then run before it, or be merged with a node of an earlier stage."""

    def __init__(
        self, graph: Graph, leaves: Set[Node], inputs: Mapping[Copy, list[Copy]], stage: Mapping[Copy, int]
    ) -> None:
        self.graph, self.leaves, self.inputs, self.stage = graph, leaves, inputs, stage
        self.done: dict[Copy, Node] = {}
        self.in_parts = {copy for copy in inputs if self._is_in_parts(copy)}
        self.sums: dict[Copy, Node] = {}  # partial sums of earlier stages
        self.now = 0
        self.waits: list[Node] = []  # values that the last stage computed
        self.wrapped: dict[Node, Node] = {}

    def run(self, ordered: Sequence[Copy]) -> Graph:
        by_stage: dict[int, list[Copy]] = defaultdict(list)
        # Stage -> sum in parts -> its terms from there.
        terms: dict[int, dict[Copy, list[Copy]]] = defaultdict(dict)
        crossing: set[Copy] = {(node, FIRST) for node in self.graph.outputs}
        for copy in ordered:
            if copy[0] in self.leaves:
                continue
            now = self.stage[copy]
            by_stage[now].append(copy)
            for x in self.inputs[copy]:
                if copy in self.in_parts:
                    terms[now if x[0] in self.leaves else self.stage[x]].setdefault(copy, []).append(x)
                elif self.stage[x] < now:
                    crossing.add(x)
        with attributed_to() as made:
            for now in sorted({*by_stage, *terms}):
                self.now, self.wrapped = now, {}
                for copy in by_stage[now]:
                    made.model = copy[0]
                    self.done[copy] = self._made(copy, terms[now].pop(copy, []))
                for copy, some in terms[now].items():
                    made.model = copy[0]
                    self.sums[copy] = self._added(copy, some)
                did = [self.done[copy] for copy in by_stage[now] if copy in crossing]
                self.waits = [*did, *(self.sums[copy] for copy in terms[now])] or self.waits
        outputs = self.graph.outputs
        return self.graph.rewritten({node: self.done.get((node, FIRST), node) for node in outputs})

    def _is_in_parts(self, copy: Copy) -> bool:
        """True for a sum with several terms from earlier stages: their partial sum crosses, not the terms."""
        if not isinstance(copy[0].op, Add):
            return False
        now = self.stage[copy]
        return sum(x[0] not in self.leaves and self.stage[x] < now for x in self.inputs[copy]) > 1

    def _made(self, copy: Copy, terms: list[Copy]) -> Node:
        node = copy[0]
        if copy in self.in_parts:
            return self._added(copy, terms)
        inputs = tuple([self._given(x) for x in self.inputs[copy]])
        return node if inputs == node.inputs else node.replace_inputs(inputs)

    def _added(self, copy: Copy, terms: list[Copy]) -> Node:
        before = [self._waiting(self.sums[copy])] if copy in self.sums else []
        return add(*before, *[self._given(x) for x in terms])

    def _given(self, x: Copy) -> Node:
        if x[0] in self.leaves:
            return self._waiting(x[0])
        return self._waiting(self.done[x]) if self.stage[x] < self.now else self.done[x]

    def _waiting(self, x: Node) -> Node:
        """x, computed only after the last stage."""
        if not self.waits or x.op.everywhere is not None:
            return x
        if x not in self.wrapped:
            if x.inputs and (x in self.leaves or x.op.is_view) and not isinstance(x.op, After):
                self.wrapped[x] = x.replace_inputs((self._waiting(x.inputs[0]), *x.inputs[1:]))
            else:
                self.wrapped[x] = shared(After)(x, *self.waits)
        return self.wrapped[x]
