"""The stack pass: it fires on the gradients of unrolled graphs, and leaves other sums alone."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet as gn
from graphnet import passes
from graphnet.graph import Graph


def products(graph: Graph) -> int:
    return sum(node.op.name == "MatMul" for node in graph.order)


def unrolled_cost(steps: int) -> tuple[gn.Node, gn.Node, list[gn.Node]]:
    """Σ h_T² of h_t = tanh(x_t + h_{t-1} W), with W and the inputs."""
    generator = np.random.default_rng(0)
    weight = gn.parameter(generator.standard_normal((4, 4)), name="W_hh")
    inputs = [gn.input((2, 4), "float64", name=f"x{t}") for t in range(steps)]
    h = inputs[0]
    for x in inputs[1:]:
        h = gn.tanh(x + h @ weight)
    return gn.sum(h * h), weight, inputs


@pytest.mark.parametrize("steps", [3, 10])
def test_gradient_of_a_shared_weight_is_one_product(steps: int) -> None:
    """T-1 products forward, T-2 of cotangents back, and one for the weight's gradient."""
    cost, weight, inputs = unrolled_cost(steps)
    gradient = gn.gradient(cost, [weight])
    before = Graph(gradient, inputs)
    after = passes.stack(before)
    forward_and_back = (steps - 1) + (steps - 2)
    assert products(before) == forward_and_back + (steps - 1)
    assert products(after) == forward_and_back + 1


def test_values_are_kept() -> None:
    """Stacked and not stacked agree, for gradient and Gauss-Newton product."""
    cost, weight, inputs = unrolled_cost(6)
    generator = np.random.default_rng(1)
    nodes = [
        *gn.gradient(cost, [weight]),
        *gn.hessian_product(cost, {weight: generator.standard_normal((4, 4))}),
    ]
    arrays = [generator.standard_normal((2, 4)) for _ in inputs]
    plain = gn.compile(nodes, inputs, passes=())(*arrays)
    stacked = gn.compile(nodes, inputs)(*arrays)
    for a, b in zip(plain, stacked, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_other_sums_are_left_alone() -> None:
    """One outer product, sums of plain products, and sums without products do not change."""
    a, b = gn.input((3, 2), "float64"), gn.input((3, 4), "float64")
    c, d = gn.input((2, 3), "float64"), gn.input((3, 4), "float64")
    for node in (a.T @ b + 1.0, c @ b + c @ d, gn.add(a, a * 2.0)):
        graph = Graph([node])
        assert passes.stack(graph).outputs == graph.outputs


def test_rows_may_differ_in_number() -> None:
    """Time steps with different batches stack as well."""
    generator = np.random.default_rng(2)
    factors = [(gn.input((n, 2), "float64"), gn.input((n, 3), "float64")) for n in (1, 5, 2)]
    node = gn.add(*(a.T @ b for a, b in factors))
    inputs = [x for pair in factors for x in pair]
    arrays = [generator.standard_normal(x.shape) for x in inputs]
    (found,) = gn.compile([node], inputs, passes=(passes.stack,))(*arrays)
    expected = sum(a.T @ b for a, b in zip(arrays[::2], arrays[1::2], strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert products(passes.stack(Graph([node], inputs))) == 1
