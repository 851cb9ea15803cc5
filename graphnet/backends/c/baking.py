"""Baking: parameters become constants, and what depends on these alone is computed once, now."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphnet.errors import BackendError
from graphnet.graph.graph import Graph
from graphnet.graph.node import Node
from graphnet.ops.leaf import Constant, Fill, constant
from graphnet.passes import Pass

__all__ = ["baked", "baking"]

PassLike = Pass | Callable[[Graph], Graph]


def baked(graph: Graph) -> Graph:
    """Replaces parameters by constants, and nodes whose inputs are all constants, unless memory would grow by that."""
    return graph.rewrite(_replace)


def baking(passes: Sequence[PassLike]) -> list[PassLike]:
    """The passes with this one among them: behind those that join weights, before those that make loops."""
    found: list[PassLike] = list(passes)
    wants = [isinstance(step, Pass) and bool(step.wants) for step in found]
    found.insert(wants.index(True) if True in wants else len(found), Pass("bake", baked))
    return found


def _replace(node: Node) -> Node:
    if not node.inputs:
        if node.op.is_parameter:
            return constant(node.value, name=node.name)
        if not node.op.is_input and not isinstance(node.op, (Constant, Fill)):
            raise BackendError(
                f"no C can be written of this function: {node.describe()} (made at {node.origin}) draws random "
                "numbers, which only Python does. Leave it out (a network: training=False), or make it an input."
            )
        return node
    if not all(isinstance(x.op, (Constant, Fill)) for x in node.inputs):
        return node
    size = sum(x.nbytes for x in node.inputs if isinstance(x.op, Constant))
    if node.nbytes > size:
        return node
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(node.op.forward(*[x.op.forward() for x in node.inputs]))
    except Exception:  # an index out of range, for instance: the program says so when it runs
        return node
    return constant(value, name=node.name)
