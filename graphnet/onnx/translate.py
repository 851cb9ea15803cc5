"""From a graph to nodes of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.onnx.call import Call, Value
from graphnet.onnx.sizes import CASES, Size, Twins
from graphnet.onnx.table import in_known_ops, translated
from graphnet.onnx.writer import Writer

#: Function of the number of cases that returns the outputs and inputs of a graph.
Equations = Callable[[int], tuple[Sequence[Node], Sequence[Node]]]


class Traced:
    """A graph in ops that ONNX has, with its sizes for any number of cases. cases: the number of each graph.

    Raises UsageError, naming the node, if a node cannot be exported.
    """

    def __init__(self, cases: Sequence[int], *graphs: Graph) -> None:
        self.graph, *others = [graph.rewrite(in_known_ops) for graph in graphs]
        self.twins = Twins(cases, *((*graph.outputs, *graph.inputs) for graph in (self.graph, *others)))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Node, ...]:
        return self.graph.outputs


def traced(equations: Equations, cases: Sequence[int] = CASES) -> Traced:
    """Returns the graph for any number of cases, from graphs for several numbers."""
    return Traced(cases, *(Graph(*equations(count)) for count in cases))


def fixed(outputs: Sequence[Node], inputs: Sequence[Node] | None = None) -> Traced:
    """Returns the graph with fixed sizes."""
    return Traced(CASES[:1], Graph(outputs, inputs))


def write(writer: Writer, graph: Traced, given: Sequence[str]) -> list[str]:
    """Adds the nodes of a graph whose inputs are values of ONNX; returns its outputs, in their whole shapes.

    In the body of a loop, nodes that depend on none of the inputs are computed once, before the loop.
    """
    twins, main = graph.twins, writer.main
    values = {node: Value(name, twins.shape(node)) for node, name in zip(graph.inputs, given, strict=True)}
    inside = set(graph.inputs)
    for node in graph.graph.order:
        if node in values:
            continue
        depends = not inside.isdisjoint(node.inputs)
        if depends:
            inside.add(node)
        place = writer if depends else main
        values[node] = translated(Call(place, twins, node, [values[x] for x in node.inputs]))
    found = []
    for node in graph.outputs:
        value, shape = values[node], twins.shape(node)
        if value.shape == shape:
            found.append(value.name)
        else:
            found.append(writer.expand(value.name, shape, node.dtype))
    return found


def axes_of(graph: Traced, node: Node, cases: str = "batch") -> list[int | str]:
    """Returns the shape of an input or output, with a name for the number of cases."""
    shape = graph.twins.shape(node)
    return [
        n if isinstance(n, int) else cases if n == Size(1) else f"{n.per_case}*{cases}+{n.plus}"
        for n in shape
    ]
