"""What tests of compiled back ends share: the same nodes on numba and on NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphnet as gn
from graphnet.graph.node import Array, Node


def numba_and_numpy(
    nodes: Sequence[Node], inputs: Sequence[Node], arrays: Sequence[Any], **how: Any
) -> list[tuple[Array, Array]]:
    """(what numba gives, what NumPy gives node by node) for each node, of one shape and dtype."""
    found = gn.compile(nodes, inputs, backend="numba", **how)(*arrays)
    expected = gn.compile(nodes, inputs, backend="numpy", passes=())(*arrays)
    for node, a, b in zip(nodes, found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype) == (node.shape, node.dtype), node
    return list(zip(found, expected, strict=True))


def require_same(
    nodes: Sequence[Node], inputs: Sequence[Node], arrays: Sequence[Any], rtol: float = 0.0, **how: Any
) -> None:
    """numba = NumPy: exactly, or, where rtol is given, to rounding relative to the largest value."""
    for node, (a, b) in zip(nodes, numba_and_numpy(nodes, inputs, arrays, **how), strict=True):
        scale = float(abs(b[np.isfinite(b)]).max(initial=0.0)) if b.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=repr(node))
