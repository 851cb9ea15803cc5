"""Graph: inputs, outputs and the nodes between them in order; rewriting into another graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from graphnet.errors import GraphnetError, UsageError, ValueAccessError
from graphnet.graph.display import ShowsItself
from graphnet.graph.node import Node
from graphnet.graph.provenance import attributed_to
from graphnet.settings import has_items, shown
from graphnet.system.process import cached_property, collector_paused

#: One node, several, or several by their names.
Nodes = Node | Iterable[Node] | Mapping[str, Node]
_by_serial = attrgetter("serial")


def ancestors(outputs: Iterable[Node], stop: Iterable[Node] = ()) -> list[Node]:
    """Returns the outputs and all nodes that they are computed from, inputs first; of nodes in `stop`, no inputs.

    Iterative, since a graph may be arbitrarily deep.
    """
    seen = set(outputs)
    barrier = set(stop)
    pending = list(seen)
    while pending:
        node = pending.pop()
        if node not in barrier:
            for source in node.inputs:
                if source not in seen:
                    seen.add(source)
                    pending.append(source)
    return sorted(seen, key=_by_serial)


def dependents(order: Sequence[Node], sources: Iterable[Node]) -> set[Node]:
    """Returns the nodes of `order` (inputs first) that are a source or are computed from one."""
    found = set(sources)
    for node in order if found else ():
        if node not in found and not found.isdisjoint(node.inputs):
            found.add(node)
    return found


class Group(NamedTuple):
    """Nodes that run as one kernel, in order, and those whose values other nodes read."""

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]


class Graph(ShowsItself):
    """Inputs, outputs, and the nodes between them in topological order. Immutable.

    outputs: a node or several. inputs: Input nodes; None (default) takes all that the outputs depend on, in the order
    of their creation. groups: nodes that a compiled back end runs together (see with_groups); rewriting drops them.
    Raises GraphnetError if the outputs depend on an Input that is not listed.

    >>> x = gn.input((3,), name="x")
    >>> graph = gn.Graph(gn.sum(x * x))
    >>> graph
    <Graph of 3 nodes: (x[3]) -> (Sum[])>
    >>> [node.describe() for node in graph.order]
    ['x[3]', 'Multiply[3]', 'Sum[]']
    >>> other = graph.rewrite(lambda node: gn.exp(x) if node.op.name == "Multiply" else node)
    >>> [node.describe() for node in other.order]
    ['x[3]', 'Exp[3]', 'Sum[]']
    >>> graph.rewritten({graph.outputs[0]: gn.mean(x)}).outputs[0].op.name
    'Multiply'
    >>> group = gn.graph.graph.Group(graph.order[1:], graph.outputs)
    >>> graph.with_groups([group]).groups == (group,)
    True
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    order: tuple[Node, ...]
    groups: tuple[Group, ...]

    def __init__(self, outputs: Node | Iterable[Node], inputs: Iterable[Node] | None = None) -> None:
        ends = as_nodes(outputs, "outputs")
        order = tuple(ancestors(ends))
        used = [node for node in order if not node.inputs and node.op.is_input]
        given = tuple(used) if inputs is None else as_nodes(inputs, "inputs")
        vars(self).update(inputs=given, outputs=ends, order=order, groups=())
        self._check_inputs(used)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueAccessError(
            f"{name} cannot be set to {shown(value)}: graphs are immutable; make another: gn.Graph(outputs, inputs)"
        )

    def _check_inputs(self, used: Sequence[Node]) -> None:
        listed = set(self.inputs)
        if len(listed) != len(self.inputs):
            twice = next(n for i, n in enumerate(self.inputs) if n in self.inputs[:i])
            raise GraphnetError(f"inputs lists {twice.describe()} twice; list each input once.")
        for node in self.inputs:
            if not node.op.is_input:
                raise GraphnetError(
                    f"inputs lists {node.describe()} (made at {node.origin}), which is a "
                    f"{node.op.name}, not an Input. Make it with gn.input, or leave it out: parameters "
                    "and constants have their own values."
                )
        missing = [node for node in used if node not in listed]
        if missing:
            places = "".join(f"\n    {n.describe()}   made at {n.origin}" for n in missing)
            raise GraphnetError(
                f"the outputs depend on {len(missing)} Input node(s) that `inputs` does not list:"
                f"{places}\nAdd them to inputs=[...], or leave `inputs` out to take all of them."
            )

    @cached_property
    def consumers(self) -> Mapping[Node, list[Node]]:
        """Nodes that read each node, once for each time that they read it."""
        result: dict[Node, list[Node]] = {node: [] for node in self.order}
        for node in self.order:
            for source in node.inputs:
                result[source].append(node)
        return result

    @cached_property
    def read_once(self) -> Set[Node]:
        """Nodes that are read exactly once and are not outputs."""
        times = Counter(chain.from_iterable([node.inputs for node in self.order]))
        return {node for node, count in times.items() if count == 1}.difference(self.outputs)

    def rewrite(self, replace: Callable[[Node], Node]) -> Graph:
        """Returns the graph in which each node is replaced by `replace(node)`, inputs first.

        replace: function of a node whose inputs are already rewritten; returns that node or another of the same shape
        and dtype, else UsageError.
        """
        done = rewrite(self.order, replace)
        return self.rewritten(done) if done else self

    def rewritten(self, done: Mapping[Node, Node]) -> Graph:
        """Returns the graph of the replaced outputs.

        done: {node: its replacement}. The new outputs must depend on no other Input than before; this is not checked.
        """
        graph = Graph.__new__(Graph)
        outputs = tuple([done.get(node, node) for node in self.outputs])
        order = tuple(ancestors(outputs))
        vars(graph).update(inputs=self.inputs, outputs=outputs, order=order, groups=())
        return graph

    def with_groups(self, groups: Iterable[Group]) -> Graph:
        """Returns the same graph with groups of nodes that a compiled back end runs together (see passes.fuse).

        groups: the groups, in order.
        """
        graph = Graph.__new__(Graph)
        vars(graph).update(vars(self), groups=tuple(groups))
        return graph

    def __len__(self) -> int:
        return len(self.order)

    def __repr__(self) -> str:
        ins = ", ".join(node.describe() for node in self.inputs)
        outs = ", ".join(node.describe() for node in self.outputs)
        return f"<Graph of {len(self)} nodes: ({ins}) -> ({outs})>"


def rewrite(order: Iterable[Node], replace: Callable[[Node], Node], same: bool = True) -> dict[Node, Node]:
    """Maps each node of `order` (inputs first) to `replace(node with rewritten inputs)`, if that is another node.

    New nodes get the line and scope of the node that they replace. With `same`, raises UsageError if they differ
    from it in shape or dtype.
    """
    done: dict[Node, Node] = {}
    find, untouched = done.get, done.keys().isdisjoint
    with collector_paused(), attributed_to() as made:
        for node in order:
            made.model = node
            inputs = node.inputs
            if untouched(inputs):
                new = replace(node)
            else:
                new = replace(node.replace_inputs(tuple([find(source, source) for source in inputs])))
            if new is not node:
                other = type(new) is not Node or new.shape != node.shape or new.dtype != node.dtype
                if other and same:
                    raise UsageError(
                        f"rewrite: replace returned {shown(new)} for {node.describe()} (made at {node.origin}); return "
                        f"a node of {node.dtype} {list(node.shape)}"
                    )
                done[node] = new
    return done


def substitute(outputs: Sequence[Node], replacements: Mapping[Node, Node]) -> list[Node]:
    """Returns the outputs with some nodes replaced by others of the same shape and dtype."""
    if not replacements:
        return list(outputs)
    order = ancestors(outputs, stop=replacements)
    changed = dependents(order, replacements)
    done: dict[Node, Node] = dict(replacements)
    for node in order:
        if node in changed and node not in done:
            done[node] = node.replace_inputs(tuple(done.get(s, s) for s in node.inputs))
    return [done.get(node, node) for node in outputs]


def as_nodes(nodes: Nodes, argument: str) -> tuple[Node, ...]:
    """Returns the nodes of an argument, of a mapping by names, or one node as a tuple; else ValueAccessError."""
    if isinstance(nodes, Mapping) and not any(isinstance(name, Node) for name in nodes):
        nodes = nodes.values()
    if not isinstance(nodes, Node) and (not has_items(nodes) or isinstance(nodes, (str, bytes))):
        raise ValueAccessError(
            f"{argument}: {shown(nodes)} of type {type(nodes).__name__} is not a node, nor a list of nodes; they are "
            "made with gn.input, gn.parameter, or by calling functions on other nodes."
        )
    result: tuple[Any, ...] = (nodes,) if isinstance(nodes, Node) else tuple(nodes)
    for item in result:
        if not isinstance(item, Node):
            raise ValueAccessError(
                f"{argument} holds a {type(item).__name__} where a node is needed: {shown(item, 80)}"
            )
    return result
