"""export_onnx: a graph as a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from graphnet.errors import BackendError, UsageError
from graphnet.graph.graph import as_nodes
from graphnet.graph.node import Node
from graphnet.onnx.check import require_right
from graphnet.onnx.sizes import CASES, Size
from graphnet.onnx.translate import Equations, Traced, axes_of, fixed, traced, write
from graphnet.onnx.writer import Writer, named_path
from graphnet.settings import shown, whole_number
from graphnet.system.files import write_whole

Nodes = Node | Iterable[Node] | Mapping[str, Node]


def export_onnx(
    outputs: Nodes | Callable[[int], tuple[Nodes, Nodes]],
    path: str | os.PathLike[str],
    inputs: Nodes | None = None,
    metadata: Mapping[str, str] | None = None,
    least: int = 1,
) -> None:
    """outputs = f(inputs), any graph of ops, as an ONNX file (opset 17): unrolled, an operator for each node

    outputs, inputs: nodes, or {name in the file: node}; without names the file uses the nodes' own, or "output",
    "input". inputs=None (default) takes all. Sizes are those of the nodes. For files that accept any number of cases,
    pass as outputs a function of the number of cases that returns (outputs, inputs):

        def equations(batch):
            e, d = model.unroll(batch, training=False)
            return {"logits": d.logits}, {"word": e.inputs, "length": e.lengths, "before": d.inputs}

        gn.export_onnx(equations, "model.onnx")

    path: the file. metadata: {name: text} for the file's metadata, None by default.
    least: with a function, the smallest number of cases of a batch; 1 by default. For example, x[-5:] of an x of shape
    (cases,) needs least=5. The function is called for some 10 numbers, and the results are compared with the file's.
    Parameters become initializers with their own names (a second one of the same name ends in ".2"). Constants keep
    their values; labels are omitted. Values have the dtypes of their nodes; runtimes differ in the operators that they
    support in float64. In the file a negative index counts from the end; an index that is too large is an error, as in
    graphnet.
    Raises UsageError, naming the node, for an op that ONNX cannot express (a random draw, a loop of Python), if one
    file cannot hold the graphs of all numbers of cases, and without the package onnx; BackendError if the file cannot
    be written.

    >>> x = gn.input((2, 3), name="x")
    >>> gn.export_onnx({"y": gn.tanh(x)}, "tanh.onnx")
    """
    where, least = named_path(path), whole_number("export_onnx: least", least, most=10_000)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, Mapping) or not all(isinstance(t, str) for t in chain(*metadata.items())):
        raise UsageError(
            f"export_onnx: metadata must be {{name: text}}, such as {{'epochs': '3'}}, not {shown(metadata)}"
        )
    writer = Writer()
    if callable(outputs):
        if inputs is not None:
            raise UsageError(
                "export_onnx: if outputs is a function of the batch size, it also returns the inputs; leave inputs= out"
            )
        graph, names, equations = _of_any_number(outputs, least)
    else:
        ends, end_names = _named(outputs, "outputs", "output")
        starts, start_names = (None, None) if inputs is None else _named(inputs, "inputs", "input")
        graph = fixed(ends, starts)
        if isinstance(inputs, Mapping) and (both := {*inputs} & {*end_names}):
            raise UsageError(
                f"export_onnx: {min(both)!r} is the name of both an input and an output; rename one of them"
            )
        names = start_names or [node.name or "input" for node in graph.inputs], end_names
    if not names[1]:
        raise UsageError("export_onnx: outputs is empty; pass at least one node")
    _write_all(writer, graph, *names)
    content = writer.file("graph", f"a graph of {len(graph.graph)} nodes", metadata)
    if callable(outputs):
        require_right(content, equations, least)
    try:
        write_whole(where, content)
    except OSError as error:
        raise BackendError(f"export_onnx: cannot write {where}: {error.strerror}") from None


def _named(nodes: Nodes, argument: str, otherwise: str) -> tuple[tuple[Node, ...], list[str]]:
    if isinstance(nodes, Mapping):
        wrong = [name for name in nodes if not isinstance(name, str) or not name]
        if wrong:
            raise UsageError(f"export_onnx: names in {argument} must be str, not {shown(wrong[0])}")
        return as_nodes(nodes.values(), argument), list(nodes)
    found = as_nodes(nodes, argument)
    return found, [node.name or otherwise for node in found]


def _of_any_number(
    make: Callable[[int], tuple[Nodes, Nodes]], least: int
) -> tuple[Traced, tuple[list[str], list[str]], Equations]:
    names: list[tuple[list[str], list[str]]] = []

    def equations(count: int) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        made = make(count)
        if not isinstance(made, tuple) or len(made) != 2:
            raise UsageError(
                f"export_onnx: the function of the batch size returned {shown(made)}; it must return a "
                "tuple of outputs and inputs, each a list of nodes or a dict {name: node}"
            )
        ends, end_names = _named(made[0], "outputs", "output")
        starts, start_names = _named(made[1], "inputs", "input")
        names.append((start_names, end_names))
        if [*map(len, names[-1])] != [*map(len, names[0])]:
            raise UsageError(
                f"export_onnx: for a batch size of {count}, the function returns the inputs and outputs {names[-1]}, "
                f"but for {CASES[0]:,} {names[0]}; return the same for every batch size"
            )
        return ends, starts

    graph = traced(equations, (*CASES[:-1], max(least + 1, CASES[-1])))
    if not any(Size(1) in graph.twins.shape(node) for node in graph.inputs):
        raise UsageError(
            f"export_onnx: the function was called with batch sizes {CASES[0]} and {CASES[1]}, but no input has an "
            "axis of that size; pass nodes, not a function"
        )
    return graph, names[0], equations


def _write_all(writer: Writer, graph: Traced, inputs: list[str], outputs: list[str]) -> None:
    ends = [writer.unique(name) for name in outputs]
    given = []
    for node, name in zip(graph.inputs, inputs, strict=True):
        name, shape = writer.unique(name), graph.twins.shape(node)
        given.append(writer.declare(writer.inputs, name, writer.dtype(node.dtype), axes_of(graph, node)))
        if Size(1) in shape:
            writer.cases_of(name, shape.index(Size(1)))
    for node, value, name in zip(graph.outputs, write(writer, graph, given), ends, strict=True):
        writer.node("Identity", [value], name)
        writer.declare(writer.outputs, name, writer.dtype(node.dtype), axes_of(graph, node))
