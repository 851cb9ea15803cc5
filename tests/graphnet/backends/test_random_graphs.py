"""Random graphs: numba = NumPy, whichever passes have run, also passes that a plan does not expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphnet as gn
from graphnet import passes
from graphnet.dtypes import is_float
from graphnet.node import Array, Node

from ..test_random_graphs import graphs

few = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def with_derivatives(outputs: list[Node], leaves: list[Node]) -> list[Node]:
    cost = gn.add(*(gn.sum(gn.sin(node)) for node in outputs if is_float(node.dtype)))
    return [
        *outputs,
        *gn.gradient(cost, leaves),
        *gn.hessian_product(cost, {leaf: 1.0 for leaf in leaves[:1]}),
    ]


def require_same(nodes: list[Node], leaves: list[Node], values: list[Array], **how: Any) -> None:
    expected = gn.compile(nodes, leaves, backend="numpy", passes=())(*values)
    for a, b in zip(gn.compile(nodes, leaves, backend="numba", **how)(*values), expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("left_out", [p.name for p in passes.DEFAULT])
@few
@given(graphs())
def test_every_pass_may_be_left_out(left_out: str, drawn: Any) -> None:
    outputs, leaves, values = drawn
    require_same(with_derivatives(outputs, leaves), leaves, values, passes=passes.without(left_out))


@pytest.mark.parametrize(
    "chosen", [(), (passes.fuse,), (passes.batch, passes.fuse)], ids=["none", "fuse", "batch, fuse"]
)
@few
@given(graphs())
def test_few_passes(chosen: Any, drawn: Any) -> None:
    outputs, leaves, values = drawn
    require_same(with_derivatives(outputs, leaves), leaves, values, passes=chosen)


@few
@given(graphs(), st.permutations(passes.DEFAULT))
def test_passes_in_any_order(drawn: Any, order: Any) -> None:
    outputs, leaves, values = drawn
    require_same(with_derivatives(outputs, leaves), leaves, values, passes=order)


@few
@given(graphs())
def test_two_threads_and_checks(drawn: Any) -> None:
    outputs, leaves, values = drawn
    nodes = with_derivatives(outputs, leaves)
    for how in ({"threads": 2}, {"check": True}, {"check": True, "threads": 3}):
        require_same(nodes, leaves, values, **how)


@few
@given(graphs())
def test_in_float32(drawn: Any) -> None:
    """The values and gradients of float32 casts of the leaves: single and double precision in one function."""
    outputs, leaves, values = drawn
    singles = [gn.input(leaf.shape, "float32") for leaf in leaves]
    doubles = gn.graph.substitute(
        with_derivatives(outputs, leaves),
        {leaf: gn.cast(gn.tanh(x), "float64") for leaf, x in zip(leaves, singles, strict=True)},
    )
    arrays = [value.astype("float32") for value in values]
    expected = gn.compile(doubles, singles, backend="numpy", passes=())(*arrays)
    for a, b in zip(gn.compile(doubles, singles)(*arrays), expected, strict=True):
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(abs(b).max(initial=1.0)))
