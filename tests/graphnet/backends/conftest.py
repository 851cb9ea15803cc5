"""What tests of compiled back ends share: the same nodes on numba and on NumPy; the cases of every op."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Node, Op
from tests.graphnet.ops.op_cases import CASES, Case


def _by_op() -> Mapping[str, list[Case]]:
    """A case that is a function of nodes goes with the op which its result is."""
    found = defaultdict(list)
    for case in CASES:
        op = (
            case.op
            if isinstance(case.op, Op)
            else case.op(*(gn.input(a.shape, a.dtype) for a in case.arrays)).op
        )
        found[op.name].append(case)
    return found


#: Name of an op -> its cases.
OPS = _by_op()


def require_same(
    nodes: Sequence[Node], inputs: Sequence[Node], arrays: Sequence[Any], rtol: float = 0.0, **how: Any
) -> None:
    """numba = NumPy node by node: exactly, or, where rtol is given, to rounding relative to the largest value."""
    found = gn.compile(nodes, inputs, backend="numba", **how)(*arrays)
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())(*arrays)
    for node, a, b in zip(nodes, found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype) == (node.shape, node.dtype), node
        scale = float(abs(b[np.isfinite(b)]).max(initial=0.0)) if b.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=repr(node))
