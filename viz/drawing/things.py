"""Objects that can be drawn, and their graphs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from graphnet.call.function import Function
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from viz.errors import DrawingError

#: A Node, Nodes, a Graph, a Function, or anything with a method `__graph__() -> Graph`.
Drawable = Any


def graph_of(thing: Drawable) -> Graph:
    """Graph of an object; raises DrawingError, which lists what can be drawn, for others."""
    if isinstance(thing, Graph):
        return thing
    if isinstance(thing, Function):
        return thing.graph
    if isinstance(thing, Node):
        return Graph(thing)
    if callable(getattr(thing, "__graph__", None)):
        return _asked(thing)
    if isinstance(thing, Sequence) and thing and all(isinstance(x, Node) for x in thing):
        return Graph(thing)
    if callable(getattr(thing, "by_epoch", None)):
        raise DrawingError(
            f"thing: {_described(thing)} is a schedule, not a graph; draw it with viz.schedule_curve."
        )
    raise DrawingError(
        f"thing: cannot draw {_described(thing)}. Pass a Node, a sequence of Nodes, a Graph, a Function, a "
        "cell, a network or an unrolled network (anything with a method __graph__ that returns a Graph)."
    )


def _asked(thing: Any) -> Graph:
    if isinstance(thing, type) and inspect.isfunction(getattr(thing, "__graph__", None)):
        try:
            thing = thing()
        except Exception as error:
            raise DrawingError(
                f"thing: {_described(thing)} cannot be drawn, since it cannot be called without arguments ({error}); "
                "pass an instance."
            ) from error
    graph = thing.__graph__()
    if not isinstance(graph, Graph):
        raise DrawingError(
            f"thing: __graph__ of {_described(thing)} returned {_described(graph)}; it must return a "
            "graphnet.Graph."
        )
    return graph


def _described(thing: Any) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    if isinstance(thing, Sequence) and not isinstance(thing, (str, bytes)):
        return "an empty sequence" if not thing else "a sequence that holds something other than Nodes"
    return f"a {type(thing).__name__}"
