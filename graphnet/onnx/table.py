"""Table of ops: how each is exported to ONNX, or the reason why it is not. A test compares it with all ops."""

from __future__ import annotations

import numpy as np

from graphnet.errors import UsageError
from graphnet.graph.graph import ancestors, rewrite
from graphnet.graph.node import Node, Op
from graphnet.onnx.arrays import ARRAYS, LOOSE
from graphnet.onnx.call import Call, Value
from graphnet.onnx.elementwise import ELEMENTWISE
from graphnet.ops.broadcast import Sum
from graphnet.ops.elementwise import Cast
from graphnet.ops.index import ScatterAdd
from graphnet.ops.leaf import Input
from graphnet.ops.linear import BatchMatMul, MatMul, ScaledMatMul
from graphnet.ops.loss import SoftmaxCrossEntropy, SymbolCrossEntropy
from graphnet.ops.random import Random
from graphnet.ops.reduce import ArgMax, CumSum, LogSumExp, Max, Min
from graphnet.ops.rowwise import Rowwise

UINT64 = np.dtype("uint64")
#: Ops that do arithmetic; others only move values.
COMPUTED: frozenset[type[Op]] = frozenset(ELEMENTWISE) - {Cast} | {
    Sum, Max, Min, ArgMax, CumSum, MatMul, BatchMatMul, ScatterAdd,
}  # fmt: skip
#: Leaves that become inputs of the file.
FED: frozenset[type[Op]] = frozenset({Input})
#: Ops that ONNX lacks, which are written in other ops by `expanded`.
WRITTEN_OUT: frozenset[type[Op]] = frozenset(
    {ScaledMatMul, LogSumExp, SoftmaxCrossEntropy, SymbolCrossEntropy}
)
#: Ops that cannot be exported, with the reason and the remedy.
REFUSED: dict[type[Op], str] = {
    Random: "is a random draw, which ONNX cannot repeat: unroll with training=False, or make it an input",
    Rowwise: "is a loop in Python, which ONNX cannot express: define `expanded`, which computes the value with "
    "other ops, or compute it outside of the file",
}


def in_known_ops(node: Node) -> Node:
    """Returns the node, written in ops of the table; raises UsageError, naming it, if that is impossible."""
    kind = type(node.op)
    if kind in ELEMENTWISE or kind in ARRAYS or kind in LOOSE or kind in FED:
        return node
    written = node.op.expanded(node, *node.inputs) if node.inputs else None
    if written is not None:
        made = [x for x in ancestors([written], stop=node.inputs) if x not in node.inputs]
        return rewrite(made, in_known_ops).get(written, written)
    reason = next(
        (why for op, why in REFUSED.items() if issubclass(kind, op)),
        "is an op that ONNX cannot express: define `expanded`, which computes the value with other ops, or compute it "
        "outside of the file",
    )
    raise UsageError(f"export_onnx: {node.describe()} (made at {node.origin}), {kind.__name__}, {reason}.")


def translated(call: Call) -> Value:
    """Returns the value of a node whose op is in the table."""
    kind, node = type(call.node.op), call.node
    if kind in COMPUTED and UINT64 in (node.dtype, *(x.dtype for x in node.inputs)):
        raise UsageError(
            f"export_onnx: {node.describe()} (made at {node.origin}) computes with uint64, which ONNX runtimes do not "
            "support; cast its inputs, e.g. gn.cast(x, 'int64')."
        )
    if kind in LOOSE:
        return LOOSE[kind](call)
    if kind in ELEMENTWISE:
        return Value(ELEMENTWISE[kind](call), call.broadcast)
    return Value(ARRAYS[kind](call), call.shape)
