"""gn.jacobian against finite differences, gradients of single elements, and exact formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.graph import Graph
from graphnet.graph.node import Array, Node
from graphnet.ops.linear import MatMul
from tests.graphnet.backends.conftest import everywhere
from tests.tables import case

random = np.random.default_rng(3)
A = random.standard_normal((3, 4))


def run(nodes: list[Node], inputs: list[Node], arrays: list[Array], **how: Any) -> tuple[Array, ...]:
    return gn.compile(nodes, inputs, **how)(*arrays)


def differences(function: Callable[[Array], Array], at: Array) -> Array:
    """The Jacobian by central differences, of shape y.shape + at.shape."""
    columns = []
    for index in np.ndindex(at.shape):
        step = np.zeros(at.shape)
        step[index] = 1e-6
        columns.append((function(at + step) - function(at - step)) / 2e-6)
    return np.stack(columns, -1).reshape((*columns[0].shape, *at.shape))


#: name -> (y of x, shape of x); more elements in y than in x, and fewer
PROBLEMS: dict[str, tuple[Callable[[Node], Node], tuple[int, ...]]] = {
    "matrix to matrix": (lambda x: gn.tanh(x @ A), (2, 3)),
    "matrix to fewer": (lambda x: gn.sum(gn.sin(x) * x, axis=0), (4, 2)),
    "scalar to scalar": (lambda x: gn.exp(x) * x, ()),
    "scalar to vector": (lambda x: x * np.arange(3.0) + gn.cos(x), ()),
    "vector to scalar": (gn.logsumexp, (5,)),
    "vector to tensor": (lambda x: gn.einsum("i,j,k->ijk", x, x, gn.erf(x)), (2,)),
    "softmax": (gn.softmax, (3, 4)),
    "running product": (lambda x: gn.exp(gn.cumsum(gn.log(x * x + 1), 0)), (4,)),
    "moved": (lambda x: gn.pad(gn.transpose(x)[1:], 1), (2, 3)),
    "looked up": (lambda x: gn.take(x, np.array([1, 1, 0])) ** 2, (3, 2)),
    "one element": (lambda x: x[1, :1] ** 3, (2, 2)),
}


@everywhere
def test_jacobian_matches_gradients_of_single_elements(backend: str) -> None:
    """The Jacobian equals the gradients of single elements, for more outputs than inputs and for fewer."""
    for name, (build, shape) in PROBLEMS.items():
        with case(name):
            x, at = gn.input(shape, "float64"), random.standard_normal(shape)
            y = build(x)
            (J,) = gn.jacobian(y, x)
            assert J.shape == y.shape + shape
            value = gn.compile(y, [x], backend="numpy")
            rows = [gn.gradient(y[index], [x])[0] for index in np.ndindex(y.shape)]
            found, *rights = run([J, *rows], [x], [at], backend=backend)
            np.testing.assert_allclose(found, np.reshape(rights, found.shape), rtol=1e-13, atol=1e-14)
            np.testing.assert_allclose(found, differences(lambda a: value(a)[0], at), rtol=1e-7, atol=1e-8)


def test_jacobian_with_several_inputs() -> None:
    """For y = x W + b: Jacobians by x, W and b, and zero for an input that y does not depend on."""
    for columns in (2, 40):
        x, W, b, other = (gn.input(s, "float64") for s in ((2, 3), (3, columns), (columns,), (5,)))
        arrays = [random.standard_normal(node.shape) for node in (x, W, b, other)]
        Jx, JW, Jb, Jo = run(gn.jacobian(x @ W + b, [x, W, b, other]), [x, W, b, other], arrays)
        rows, units = np.eye(2), np.eye(columns)
        np.testing.assert_allclose(Jx, np.einsum("ab,ij->ajbi", rows, arrays[1]), rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(JW, np.einsum("ai,jk->ajik", arrays[0], units), rtol=1e-14, atol=1e-15)
        np.testing.assert_array_equal(Jb, np.broadcast_to(units, (2, columns, columns)))
        np.testing.assert_array_equal(Jo, np.zeros((2, columns, 5)))


def test_jacobian_with_respect_to_intermediate_nodes() -> None:
    """Jacobians with respect to an intermediate node, an input behind it, and the output itself."""
    x, at = gn.input((3,), "float64"), random.standard_normal(3)
    h = x * x
    y = gn.stack([gn.sum(h), gn.sum(h * h)])
    by_h, by_x, by_y = run([*gn.jacobian(y, [h, x]), *gn.jacobian(y, y)], [x], [at])
    np.testing.assert_allclose(by_h, [np.ones(3), 2 * at**2], rtol=1e-14)
    np.testing.assert_allclose(by_x, [2 * at, 4 * at**3], rtol=1e-14)
    np.testing.assert_array_equal(by_y, np.eye(2))


def test_the_hessian_is_the_jacobian_of_the_gradient() -> None:
    """f = Σ exp(Σ_k a_ik x_k) has the Hessian Aᵀ diag(exp) A; its Jacobian has the third derivatives."""
    x, at = gn.input((4,), "float64"), random.standard_normal(4) / 3
    (g,) = gn.gradient(gn.sum(gn.exp(A @ x)), [x])
    (H,) = gn.jacobian(g, x)
    (T,) = gn.jacobian(H, x)
    found, third = run([H, T], [x], [at])
    e = np.exp(A @ at)
    np.testing.assert_allclose(found, np.einsum("i,ij,ik->jk", e, A, A), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(third, np.einsum("i,ij,ik,il->jkl", e, A, A, A), rtol=1e-12, atol=1e-13)


def test_jacobian_respects_stop_gradient_and_empty_shapes() -> None:
    x, at = gn.input((2,), "float64"), random.standard_normal(2)
    (found,) = run(gn.jacobian(x * gn.stop_gradient(x), x), [x], [at])
    np.testing.assert_array_equal(found, np.diag(at))
    for of, by in (((0,), (3,)), ((3,), (0,)), ((), (0, 2))):
        with case(of, by):
            x = gn.input(by, "float32")
            (found,) = run(gn.jacobian(gn.broadcast_to(gn.sum(x), of), x), [x], [np.ones(by, "float32")])
            assert (found.shape, found.dtype) == (of + by, np.float32)


def products(graph: Graph) -> int:
    return sum(isinstance(node.op, MatMul) for node in graph.order)


def test_jacobian_uses_the_smaller_side_and_shares_products() -> None:
    """All rows of the Jacobian share one product with the weights."""
    for rows, columns in ((2, 50), (50, 2)):
        x, W = gn.input((columns,)), gn.input((columns, rows))
        (J,) = gn.jacobian(gn.tanh(x @ W), x)
        assert products(Graph([J], [x, W])) == 1 + 2
    x = gn.input((1, 30))
    W, V = (gn.parameter(random.standard_normal(s).astype("float32")) for s in ((30, 40), (40, 20)))
    (J,) = gn.jacobian(gn.tanh(gn.tanh(x @ W) @ V), x)
    assert products(Graph([J], [x])) >= 40
    assert products(gn.compile([J], [x]).graph) <= 5


def test_invalid_arguments_are_rejected() -> None:
    x, i = gn.input((2,), name="x"), gn.input((2,), "int64", name="i")
    y = gn.tanh(x)
    for of, by, error, named in (
        (i, x, gn.DifferentiationError, r"jacobian: cannot differentiate i\[2\] .*int64"),
        (y, [x, i], gn.DifferentiationError, r"jacobian: .* respect to i\[2\] .*int64"),
        ([y, y], x, gn.UsageError, "jacobian: output must be one node"),
        (y, "x", gn.ValueAccessError, "jacobian: wrt"),
    ):
        with case(named), pytest.raises(error, match=named):
            gn.jacobian(of, by)  # type: ignore[arg-type]
    a, b = gn.parameter(random.standard_normal(3), "a"), gn.parameter(random.standard_normal(3), "b")
    for function in (gn.gradient, gn.jacobian):  # by name they are taken in their order
        by_name, listed = (function(gn.sum(a * a * b), ps) for ps in ({"b": b, "a": a}, [b, a]))
        np.testing.assert_array_equal(run(by_name, [], []), run(listed, [], []))
