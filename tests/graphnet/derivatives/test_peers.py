"""Derivatives equal PyTorch's, up to rounding in float64."""

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

generator = np.random.default_rng(11)
X, SYMBOLS = generator.standard_normal((6, 4)), generator.integers(0, 3, 6)
BITS = generator.uniform(0, 1, (6, 3))
SHAPES = ((4, 5), (5,), (5, 3), (3,))
THETA, V = ([generator.standard_normal(shape) for shape in SHAPES] for _ in range(2))

#: Of logits, ours and theirs.
LOSSES: dict[str, tuple[Any, Any]] = {
    "softmax": (lambda z: gn.softmax_cross_entropy(z, SYMBOLS), lambda z: F.cross_entropy(z, torch.tensor(SYMBOLS))),
    "sigmoid": (
        lambda z: gn.sigmoid_cross_entropy(z, BITS),
        lambda z: F.binary_cross_entropy_with_logits(z, torch.tensor(BITS)),
    ),
    "squares": (lambda z: gn.squared_error(z, BITS), lambda z: ((z - torch.tensor(BITS)) ** 2).mean()),
}  # fmt: skip


def tensors(arrays: list[Array]) -> tuple[Any, ...]:
    return tuple(torch.tensor(array) for array in arrays)


def agree(nodes: list[gn.Node], leaves: list[gn.Node], values: list[Array], expected: Any) -> None:
    for found, tensor in zip(gn.compile(nodes, leaves)(*values), expected, strict=True):
        np.testing.assert_allclose(found, tensor.numpy(), rtol=1e-10, atol=1e-10)


def their_net(W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
    return torch.tanh(torch.tensor(X) @ W1 + b1) @ W2 + b2


@pytest.mark.parametrize("loss", LOSSES)
def test_a_net_of_two_layers(loss: str) -> None:
    """Cost, gradient, Jv, Jᵀu, Hv and Gv."""
    ours, theirs = LOSSES[loss]
    theta = [gn.input(array.shape, "float64") for array in THETA]
    W1, b1, W2, b2 = theta
    logits = gn.tanh(gn.constant(X) @ W1 + b1) @ W2 + b2
    cost, tangents = gn.mean(ours(logits)), dict(zip(theta, V, strict=True))
    u = np.linspace(-1, 1, 18).reshape(6, 3)
    at, direction, each = tensors(THETA), tensors(V), (0, 1, 2, 3)

    def their_cost(*t: Any) -> Any:
        return theirs(their_net(*t))

    gradient, value = torch.func.grad_and_value(their_cost, argnums=each)(*at)
    agree([*gn.gradient(cost, theta), cost], theta, THETA, [*gradient, value])
    z, jv = torch.func.jvp(their_net, at, direction)
    _, slope = torch.func.jvp(their_cost, at, direction)
    agree(gn.rop([logits, cost], tangents), theta, THETA, [jv, slope])
    _, pull = torch.func.vjp(their_net, *at)
    agree(gn.backward({logits: u}, theta), theta, THETA, pull(torch.tensor(u)))
    _, hv = torch.func.jvp(torch.func.grad(their_cost, argnums=each), at, direction)
    agree(gn.hessian_product(cost, tangents), theta, THETA, hv)
    _, hjv = torch.func.jvp(torch.func.grad(theirs), (z,), (jv,))
    agree(gn.gauss_newton_product(cost, tangents), theta, THETA, pull(hjv))


POSITIVE, SIGNED, INDEX = (
    generator.uniform(0.5, 2, (3, 4)),
    generator.standard_normal((3, 4)),
    np.array([2, 0, 2]),
)
OPS = [
    *(
        (getattr(gn, n), getattr(torch, n), [SIGNED])
        for n in ("tanh", "sigmoid", "exp", "sin", "cos", "relu")
    ),
    *((getattr(gn, n), getattr(torch, n), [POSITIVE]) for n in ("log", "sqrt")),
    *((getattr(gn, n), getattr(torch, n), [SIGNED, POSITIVE]) for n in ("maximum", "minimum")),
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
            each, at, v = tuple(range(len(values))), tensors(values), tensors(directions)
            value, jv = torch.func.jvp(theirs, at, v)
            gradient = torch.func.grad(lambda *x: torch.sin(theirs(*x)).sum(), argnums=each)
            g, hv = torch.func.jvp(gradient, at, v)
            nodes = [
                y,
                *gn.rop([y], tangents),
                *gn.gradient(cost, leaves),
                *gn.hessian_product(cost, tangents),
            ]
            agree(nodes, leaves, values, [value, jv, *g, *hv])
