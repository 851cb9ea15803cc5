"""Cotangent and tangent of each node, and the nodes that compute them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.dtypes import is_float
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from viz.errors import DrawingError


@dataclass(frozen=True)
class Derivative:
    """of: node -> its derivative. made: node -> nodes built by its rule, in order."""

    of: dict[Node, Node]
    made: dict[Node, list[Node]]


def in_its_own_place(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    """Copy of the graph in which every node counts as written by the user; and a mapping from old nodes to new ones.

    Derived nodes are then recognized by `source_serial`, also if the graph is itself a derivative.
    """
    copies: dict[Node, Node] = {}
    for node in graph.order:
        copies[node] = node.replace_inputs(tuple(copies[x] for x in node.inputs), own_place=True)
    for node in graph.inputs:  # also those that nothing reads
        copies.setdefault(node, node)
    return Graph([copies[y] for y in graph.outputs], [copies[x] for x in graph.inputs]), copies


def cost_of(graph: Graph) -> Node | None:
    """First output that is a computed floating-point scalar."""
    found = (y for y in graph.outputs if not y.shape and y.inputs and is_float(y.dtype))
    return next(found, None)


def cotangents(graph: Graph, cost: Node, wrt: Iterable[Node] | None = None) -> Derivative:
    """∂cost/∂node for each floating-point node that the cost depends on; wrt: only for these nodes."""
    behind = set(Graph(cost).order)
    wanted = _floats(graph) if wrt is None else list(wrt)
    listed = [node for node in wanted if node in behind]
    found = gn.backward({cost: gn.fill(1, (), cost.dtype)}, listed)
    return _attributed(graph, dict(zip(listed, found, strict=True)))


def tangents_of(graph: Graph, tangents: Mapping[Node, Any]) -> Derivative:
    """R{node} for each floating-point node that depends on those with a tangent."""
    listed = _floats(graph)
    return _attributed(graph, dict(zip(listed, gn.rop(listed, tangents), strict=True)))


def default_tangents(graph: Graph) -> dict[Node, Any]:
    """Random direction from a fixed seed: on the parameters, or on the inputs if there are none."""
    leaves = [node for node in _floats(graph) if not node.inputs]
    chosen = [n for n in leaves if n.op.is_parameter] or [n for n in leaves if n.op.is_input]
    generator = np.random.default_rng(1)
    return {n: generator.standard_normal(n.shape).astype(n.dtype) for n in chosen}


def checked_nodes(argument: str, nodes: Iterable[Any], graph: Graph) -> None:
    """Raises DrawingError for objects that are not floating-point nodes of the graph."""
    known = set(graph.order)
    for node in nodes:
        if not isinstance(node, Node) or node not in known or not is_float(node.dtype):
            what = f"{node.describe()} of {node.dtype}" if isinstance(node, Node) else repr(node)
            raise DrawingError(
                f"{argument}: {what:.80} is not a float node of this graph; pass nodes that the outputs depend on."
            )


def _floats(graph: Graph) -> list[Node]:
    return [node for node in graph.order if is_float(node.dtype)]


def _attributed(graph: Graph, of: dict[Node, Node]) -> Derivative:
    known = set(graph.order)
    place = {node.serial: node for node in graph.order}
    of = {node: d for node, d in of.items() if not d.op.is_zeros}
    made: dict[Node, list[Node]] = {}
    for node in Graph(of.values()).order if of else ():
        if node not in known and node.source_serial in place and node.inputs:
            made.setdefault(place[node.source_serial], []).append(node)
    return Derivative(of, made)
