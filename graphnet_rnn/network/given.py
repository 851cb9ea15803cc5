"""What an unrolled network is given: nodes that others have made, or inputs under a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import graphnet as gn
from graphnet.graph.graph import ancestors
from graphnet.graph.node import Node
from graphnet.graph.provenance import hide_module
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import shown

__all__ = ["last_time", "node_or_input", "nodes_of", "required_node"]

hide_module(__file__)


def node_or_input(argument: str, given: Any, name: str, shape: tuple[int, ...], dtype: Any) -> Node:
    """The node that is given, or an input: of the name that is given, or of this one for None."""
    if given is None:
        return gn.input(shape, dtype, name=name)
    if isinstance(given, str):
        if not given:
            raise UsageError(f"unroll: {argument} must be a node, or a name of an input, not ''")
        return gn.input(shape, dtype, name=given)
    return required_node(argument, given, shape, dtype, ", or a name of an input")


def required_node(argument: str, node: Any, shape: tuple[int, ...], dtype: Any, other: str = "") -> Node:
    """The node; UsageError for what is none, or of another shape or dtype."""
    if not isinstance(node, Node):
        raise UsageError(f"unroll: {argument} must be a node {list(shape)}{other}, not {shown(node)}")
    if node.shape != shape or node.dtype != dtype:
        raise UsageError(
            f"unroll: {argument} must be {dtype}{list(shape)}, but {node.describe()} (made at {node.origin}) is "
            f"{node.dtype}{list(node.shape)}"
        )
    return node


def nodes_of(initial: Any) -> list[Any]:
    """What first states are given as, if as nodes."""
    if isinstance(initial, Mapping):
        return list(initial.values())
    return list(initial) if isinstance(initial, (list, tuple)) else []


def last_time(given: Iterable[Any]) -> int:
    """The last time step of another network that these nodes come from; 0 if from none."""
    nodes = [node for node in given if isinstance(node, Node) and node.inputs]
    times = (node.scope.get("time") for node in ancestors(nodes))
    return max((time for time in times if isinstance(time, int)), default=0)
