"""The same derivatives as PyTorch's, to rounding in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.graph.node import Array
from tests.tables import case

torch = pytest.importorskip("torch")
F = torch.nn.functional

#: The peer's own use of what it has deprecated is not our warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

TOLERANCE = 1e-10

generator = np.random.default_rng(11)
X = generator.standard_normal((6, 4))
SYMBOLS = generator.integers(0, 3, 6)
BITS = generator.uniform(0, 1, (6, 3))
THETA = [generator.standard_normal(shape) for shape in ((4, 5), (5,), (5, 3), (3,))]
V = [generator.standard_normal(theta.shape) for theta in THETA]

by_loss = pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            lambda z: gn.mean(gn.softmax_cross_entropy(z, SYMBOLS)),
            lambda z: F.cross_entropy(z, torch.tensor(SYMBOLS)),
        ),
        (
            lambda z: gn.mean(gn.sigmoid_cross_entropy(z, BITS)),
            lambda z: F.binary_cross_entropy_with_logits(z, torch.tensor(BITS)),
        ),
        (lambda z: gn.mean(gn.squared_error(z, BITS)), lambda z: ((z - torch.tensor(BITS)) ** 2).mean()),
    ],
    ids=["softmax", "sigmoid", "squares"],
)


def our_net(theta: list[gn.Node]) -> gn.Node:
    W1, b1, W2, b2 = theta
    return gn.tanh(gn.constant(X) @ W1 + b1) @ W2 + b2


def their_net(*theta: Any) -> Any:
    W1, b1, W2, b2 = theta
    return torch.tanh(torch.tensor(X) @ W1 + b1) @ W2 + b2


def tensors(arrays: list[Array]) -> tuple[Any, ...]:
    return tuple(torch.tensor(array) for array in arrays)


def agree(nodes: list[gn.Node], leaves: list[gn.Node], values: list[Array], expected: Any) -> None:
    """The nodes' values at the leaves' are the tensors, to TOLERANCE."""
    for found, tensor in zip(gn.compile(nodes, leaves)(*values), expected, strict=True):
        np.testing.assert_allclose(found, tensor.numpy(), rtol=TOLERANCE, atol=TOLERANCE)


@by_loss
class TestNet:
    """Two layers, three losses."""

    def parts(self, ours: Any) -> tuple[list[gn.Node], gn.Node, gn.Node, dict[gn.Node, Array]]:
        theta = [gn.input(array.shape, "float64") for array in THETA]
        logits = our_net(theta)
        return theta, logits, ours(logits), dict(zip(theta, V, strict=True))

    def test_cost_and_gradient(self, ours: Any, theirs: Any) -> None:
        theta, _, cost, _ = self.parts(ours)
        expected = torch.func.grad_and_value(lambda *t: theirs(their_net(*t)), argnums=(0, 1, 2, 3))(
            *tensors(THETA)
        )
        agree([*gn.gradient(cost, theta), cost], theta, THETA, [*expected[0], expected[1]])

    def test_jacobian_products(self, ours: Any, theirs: Any) -> None:
        theta, logits, cost, tangents = self.parts(ours)
        _, jv = torch.func.jvp(their_net, tensors(THETA), tensors(V))
        _, slope = torch.func.jvp(lambda *t: theirs(their_net(*t)), tensors(THETA), tensors(V))
        agree(gn.rop([logits, cost], tangents), theta, THETA, [jv, slope])
        u = np.linspace(-1, 1, 18).reshape(6, 3)
        _, pull = torch.func.vjp(their_net, *tensors(THETA))
        agree(gn.backward({logits: u}, theta), theta, THETA, pull(torch.tensor(u)))

    def test_hessian_product(self, ours: Any, theirs: Any) -> None:
        theta, _, cost, tangents = self.parts(ours)
        gradient = torch.func.grad(lambda *t: theirs(their_net(*t)), argnums=(0, 1, 2, 3))
        _, expected = torch.func.jvp(gradient, tensors(THETA), tensors(V))
        agree(gn.hessian_product(cost, tangents), theta, THETA, expected)

    def test_gauss_newton_product(self, ours: Any, theirs: Any) -> None:
        theta, _, cost, tangents = self.parts(ours)
        logits, jv = torch.func.jvp(their_net, tensors(THETA), tensors(V))
        _, hjv = torch.func.jvp(torch.func.grad(theirs), (logits,), (jv,))
        _, pull = torch.func.vjp(their_net, *tensors(THETA))
        agree(gn.gauss_newton_product(cost, tangents), theta, THETA, pull(hjv))


POSITIVE = generator.uniform(0.5, 2, (3, 4))
SIGNED = generator.standard_normal((3, 4))
INDEX = np.array([2, 0, 2])


OPS = [
    (gn.tanh, torch.tanh, [SIGNED]),
    (gn.sigmoid, torch.sigmoid, [SIGNED]),
    (gn.exp, torch.exp, [SIGNED]),
    (gn.log, torch.log, [POSITIVE]),
    (gn.sqrt, torch.sqrt, [POSITIVE]),
    (gn.sin, torch.sin, [SIGNED]),
    (gn.cos, torch.cos, [SIGNED]),
    (gn.relu, torch.relu, [SIGNED]),
    (gn.softplus, F.softplus, [SIGNED]),
    (gn.absolute, torch.abs, [SIGNED]),
    (lambda x: x**3, lambda x: x**3, [SIGNED]),
    (lambda x: x**-0.5, lambda x: x**-0.5, [POSITIVE]),
    (gn.softmax, lambda x: torch.softmax(x, -1), [SIGNED]),
    (gn.log_softmax, lambda x: torch.log_softmax(x, -1), [SIGNED]),
    (gn.logsumexp, lambda x: torch.logsumexp(x, -1), [SIGNED]),
    (lambda x: gn.max(x, 0), lambda x: torch.amax(x, 0), [SIGNED]),
    (lambda x: gn.take(x, INDEX), lambda x: x[torch.tensor(INDEX)], [SIGNED]),
    (lambda x: x[::-1, 1:].T, lambda x: torch.flip(x, (0,))[:, 1:].T, [SIGNED]),
    (gn.add, torch.add, [SIGNED, POSITIVE[0]]),
    (gn.subtract, torch.sub, [SIGNED, POSITIVE[:, :1]]),
    (gn.multiply, torch.mul, [SIGNED, POSITIVE[0]]),
    (gn.divide, torch.div, [SIGNED, POSITIVE[0]]),
    (gn.power, torch.pow, [POSITIVE, SIGNED]),
    (gn.maximum, torch.maximum, [SIGNED, POSITIVE]),
    (gn.minimum, torch.minimum, [SIGNED, POSITIVE]),
    (gn.matmul, torch.matmul, [SIGNED, POSITIVE.T]),
    (lambda a, b: gn.concatenate([a, b], 1), lambda a, b: torch.cat([a, b], 1), [SIGNED, POSITIVE]),
    (lambda a, b: gn.stack([a, b], 1), lambda a, b: torch.stack([a, b], 1), [SIGNED, POSITIVE]),
    (lambda a, b: gn.where(a > 0, a, b), lambda a, b: torch.where(a > 0, a, b), [SIGNED, POSITIVE]),
]


def test_ops() -> None:
    """Value, Jv, Jᵀu and Hv of Σ sin(y)."""
    for number, (ours, theirs, values) in enumerate(OPS):
        with case(number):
            leaves = [gn.input(v.shape, "float64") for v in values]
            directions = [generator.standard_normal(v.shape) for v in values]
            y = ours(*leaves)
            cost, tangents = gn.sum(gn.sin(y)), dict(zip(leaves, directions, strict=True))

            def their_cost(*x: Any) -> Any:
                return torch.sin(theirs(*x)).sum()

            each = tuple(range(len(values)))
            value, jv = torch.func.jvp(theirs, tensors(values), tensors(directions))
            gradient = torch.func.grad(their_cost, argnums=each)
            g, hv = torch.func.jvp(gradient, tensors(values), tensors(directions))
            nodes = [
                y,
                *gn.rop([y], tangents),
                *gn.gradient(cost, leaves),
                *gn.hessian_product(cost, tangents),
            ]
            agree(nodes, leaves, values, [value, jv, *g, *hv])
