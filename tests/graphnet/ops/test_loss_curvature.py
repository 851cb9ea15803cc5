"""The curvature that losses state is that of their second derivatives, also for targets that do not sum to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array, Node
from graphnet.ops.loss import SaysHessian

CASES, OUTPUTS, ROWS = 3, 4, 5
RANDOM = np.random.default_rng(0)
SLOPES = RANDOM.uniform(0.5, 2.0, CASES)
#: Loss -> (its function, targets, True if each output has a loss of its own).
LOSSES: dict[str, tuple[Any, Array, bool]] = {
    "distributions": (gn.softmax_cross_entropy, RANDOM.dirichlet(np.ones(OUTPUTS), CASES), False),
    "weighted distributions": (gn.softmax_cross_entropy, RANDOM.uniform(0.0, 2.0, (CASES, OUTPUTS)), False),
    "symbols": (gn.softmax_cross_entropy, RANDOM.integers(0, OUTPUTS, CASES), False),
    "sigmoid": (gn.sigmoid_cross_entropy, RANDOM.uniform(0.0, 1.0, (CASES, OUTPUTS)), True),
    "squared": (gn.squared_error, RANDOM.normal(size=(CASES, OUTPUTS)), True),
}


def hessians(cost: Node, z: Node, at: Array) -> Array:
    """(cases, outputs, outputs), by differences of the gradient."""
    slope = gn.compile(gn.gradient(cost, [z]), [z], backend="numpy")
    found = np.empty((CASES, OUTPUTS, OUTPUTS))
    for k in range(OUTPUTS):
        moved = np.zeros_like(at)
        moved[:, k] = 1e-5
        found[:, k] = (slope(at + moved)[0] - slope(at - moved)[0]) / 2e-5
    return found


@pytest.mark.parametrize("name", LOSSES)
def test_stated_curvature_is_that_of_second_derivatives(name: str) -> None:
    loss, targets, by_output = LOSSES[name]
    z, t = gn.input((CASES, OUTPUTS), "float64"), gn.constant(targets)
    gC = gn.constant(np.repeat(SLOPES[:, None], OUTPUTS, 1) if by_output else SLOPES)
    node, at = loss(z, t), RANDOM.normal(size=(CASES, OUTPUTS))
    op = node.op
    assert isinstance(op, SaysHessian)
    H = hessians(gn.sum(gC * node), z, at)
    v, u = RANDOM.normal(size=(2, ROWS, OUTPUTS))
    one, noise = RANDOM.normal(size=(CASES, OUTPUTS)), gn.input((CASES, OUTPUTS), "float64")
    outputs = [
        op.curvature_diagonal(gC, z, t),
        op.curvature_form(gC, gn.constant(one), z, t),
        op.curvature_rows(gC, gn.constant(v), gn.constant(u), z, t),
    ]
    diagonal, form, rows = gn.compile(outputs, [z], backend="numpy")(at)
    np.testing.assert_allclose(diagonal, np.einsum("ckk->ck", H), rtol=1e-6, atol=1e-9)
    form = form.sum(axis=1) if by_output else form
    np.testing.assert_allclose(form, np.einsum("ck,ckl,cl->c", one, H, one), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(rows, np.einsum("rk,ckl,rl->cr", v, H, u), rtol=1e-6, atol=1e-9)
    root = gn.compile([op.curvature_root(gC, noise, z, t)], [z, noise], backend="numpy")
    L = np.stack([root(at, np.tile(unit, (CASES, 1)))[0] for unit in np.eye(OUTPUTS)], axis=2)
    np.testing.assert_allclose(np.einsum("ckn,cln->ckl", L, L), H, rtol=1e-6, atol=1e-9)
