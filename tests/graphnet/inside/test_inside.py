"""Functions inside PyTorch and JAX have the same derivatives as in graphnet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
from graphnet.errors import DtypeError, ShapeError, UsageError
from graphnet.graph.node import Node
from graphnet.inside import Differentiable, jax_function, torch_function
from graphnet.inside.differentiable import PROGRAMS


def example(dtype: str = "float64") -> tuple[list[Node], list[Node]]:
    """tanh(x W) of rows that are chosen, and its sum of squares."""
    x, w = gn.input((4, 3), dtype, name="x"), gn.input((3, 2), dtype, name="w")
    rows = gn.input((5,), "int64", name="rows")
    y = gn.take(gn.tanh(x @ w), rows, axis=0)
    return [y, gn.sum(y * y)], [x, w, rows]


def arrays(seed: int = 0) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((4, 3)), generator.standard_normal((3, 2)), generator.integers(0, 4, 5)]


def expected(given: list[Any], u: Any, s: Any) -> list[Any]:
    x, w, rows = given
    h = np.tanh(x @ w)
    y = h[rows]
    g = np.zeros_like(h)
    np.add.at(g, rows, u + 2 * s * y)
    g *= 1 - h * h
    return [g @ w.T, x.T @ g]


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_several_calls_before_their_gradients(backend: str) -> None:
    of = Differentiable(*example(), backend=backend)
    u, s = np.ones((5, 2)), np.array(0.5)
    given = [arrays(seed) for seed in range(PROGRAMS + 2)]
    begun = [of.begin(a) for a in given]
    for call, a in reversed(list(zip(begun, given, strict=True))):
        np.testing.assert_allclose(call.outputs[0], np.tanh(a[0] @ a[1])[a[2]])
        for factor in (1, 2):  # the second time by other means
            found_all = call.gradients(a, [factor * u, s])
            for found, right in zip(found_all, expected(a, factor * u, s), strict=True):
                np.testing.assert_allclose(found, right)


def test_tangents_are_adjoint_to_cotangents() -> None:
    of = Differentiable(*example())
    a, (v, p, _), u, s = arrays(), arrays(1), np.ones((5, 2)), np.array(0.5)
    moved = of.tangent.value(*a, v, p)
    pulled = of.begin(a).gradients(a, [u, s])
    adjoint = (pulled[0] * v).sum() + (pulled[1] * p).sum()
    np.testing.assert_allclose((moved[0] * u).sum() + moved[1] * s, adjoint)
    outputs, (x, w, rows) = example()
    with pytest.raises(UsageError, match="neither an Input nor a parameter"):
        Differentiable(outputs, [x * 2, w, rows])
    with pytest.raises(UsageError, match=r"lists x.* twice"):
        Differentiable(outputs, [x, x, w, rows])
    drawn = gn.RandomSource(0).bernoulli(0.5, shape=(4, 3), dtype="float64")
    with pytest.raises(UsageError, match="make it an input, and pass its values"):
        Differentiable(gn.sum(drawn * x), [x])


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_torch_checks_all_derivatives() -> None:
    torch = pytest.importorskip("torch")
    function = torch_function(*example())
    given = [arrays(seed) for seed in range(PROGRAMS + 2)]
    tensors = [[torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in a] for a in given]
    sum(function(*t)[1] for t in tensors).backward()  # calls before their backwards
    for t, a in zip(tensors, given, strict=True):
        for found, right in zip(t, expected(a, 0, 1), strict=False):
            np.testing.assert_allclose(found.grad, right)
    a, b, rows = tensors[0]
    assert torch.autograd.gradcheck(lambda a, b: function(a, b, rows), (a, b), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda a, b: function(a, b, rows), (a, b))
    cost, plain = lambda a: function(a, b, rows)[1], lambda a: (torch.tanh(a @ b)[rows] ** 2).sum()
    a, b, moves = a.detach(), b.detach(), torch.ones(3, *a.shape, dtype=a.dtype)
    for transform in (
        lambda f: torch.func.grad(f)(a),
        lambda f: torch.func.jvp(f, (a,), (moves[0],))[1],
        lambda f: torch.func.hessian(f)(a),
        lambda f: torch.func.vmap(f)(a + moves),
        lambda f: torch.func.vmap(torch.func.grad(f), 2)((a + moves).movedim(0, 2)),
    ):
        torch.testing.assert_close(transform(cost), transform(plain))
    assert torch.func.vmap(function)(a.new_empty(0, 4, 3), b.new_empty(0, 3, 2), rows.expand(0, 5))[
        0
    ].shape == (0, 5, 2)
    a.requires_grad_()
    with torch.no_grad():
        assert not function(a, b, rows)[0].requires_grad
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a.detach(), moves[0])
        slope = torch.autograd.forward_ad.unpack_dual(cost(dual)).tangent
    torch.testing.assert_close(slope, torch.func.jvp(plain, (a.detach(),), (moves[0],))[1])
    x, shift = gn.input((2,), "float64"), gn.input((2,), "float64")  # ∂C/∂shift depends on no input
    moved = torch_function([gn.sum(x**3 + shift)], [x, shift])
    given = [torch.ones(2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    (slope,) = torch.autograd.grad(moved(*given)[0], given[0], create_graph=True)
    assert torch.autograd.grad(slope.sum(), given[0])[0].tolist() == [6, 6]
    z, y = gn.input((2,), "float64"), gn.input((2,), "float64")
    product = torch_function(gn.sum(z * y), [z, y])  # the second tangent of 2 x is a lazy zero
    twice = torch.func.jacfwd(torch.func.jacfwd(lambda x: product(x, 2 * x)[0]))(a.new_ones(2))
    assert twice.tolist() == [[4, 0], [0, 4]]
    with pytest.raises(DtypeError, match=r"input x.* must be float64, not float32; pass tensor.to\(torch"):
        function(a.float(), b, rows)
    with pytest.raises(ShapeError, match=r"input w.* must have shape \[3, 2\], not \[2, 3\]"):
        function(a, b.T, rows)
    with pytest.raises(DtypeError, match=r"input x.* must be a dense tensor; pass tensor.to_dense\(\)"):
        function(a.detach().to_sparse(), b, rows)
    plain_a = a.detach()
    for untraceable in (
        lambda: torch.func.linearize(cost, plain_a),
        lambda: torch.fx.experimental.proxy_tensor.make_fx(cost)(plain_a),
        lambda: torch.jit.trace(cost, plain_a),
        lambda: torch.autograd.functional.jacobian(cost, plain_a, vectorize=True),
        lambda: torch.autograd.grad(cost(a), a, torch.ones(3, dtype=a.dtype), is_grads_batched=True),
    ):
        with pytest.raises(UsageError, match="reads the values of its tensors"):
            untraceable()


def test_jax_has_the_same_gradients() -> None:
    jax = pytest.importorskip("jax")
    function = jax_function(*example("float32"))
    a, b, rows = (x.astype("float32") if x.dtype.kind == "f" else x.astype("int32") for x in arrays())
    with jax.enable_x64(True):
        rows = rows.astype("int64")
        cost = lambda a, b: function(a, b, rows)[1]
        gradient = jax.jit(jax.grad(cost, (0, 1)))(a, b)
        for found, right in zip(gradient, expected([a, b, rows], 0, 1), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
        twice = jax.grad(lambda a: (jax.grad(cost)(a, b) ** 2).sum())(a)
        plain = lambda a: (jax.numpy.tanh(a @ b)[rows] ** 2).sum()
        right = jax.grad(lambda a: (jax.grad(plain)(a) ** 2).sum())(a)
        np.testing.assert_allclose(twice, right, rtol=1e-3, atol=1e-4)
        many = jax.vmap(lambda a: cost(a, b))(np.stack([a, 2 * a]))
        np.testing.assert_allclose(many, [plain(a), plain(2 * a)], rtol=1e-5)


TRANSFORMS: dict[str, Callable[[Any, Any], Callable[..., Any]]] = {
    "values": lambda jax, f: f,
    "tangents": lambda jax, f: lambda a, b: jax.jvp(lambda a: f(a, b), (a,), (a + 1,)),
    "gradients": lambda jax, f: jax.grad(lambda a, b: f(a, b)[1], (0, 1)),
    "forward over reverse": lambda jax, f: jax.hessian(lambda a, b: f(a, b)[1], (0, 1)),
    "reverse over reverse": lambda jax, f: jax.jacrev(jax.jacrev(lambda a, b: f(a, b)[1]), 1),
    "reverse over forward": lambda jax, f: jax.jacrev(jax.jacfwd(lambda a, b: f(a, b)[0]), 1),
    "third order": lambda jax, f: jax.jacfwd(jax.hessian(lambda a, b: f(a, b)[1], 1), 1),
    "gradients of many": lambda jax, f: (
        lambda a, b: jax.vmap(jax.grad(lambda a: f(a, b)[1]), -1, -1)(jax.numpy.stack([a, 2 * a], -1))
    ),
    "within a loop": lambda jax, f: jax.grad(
        lambda a, b: jax.lax.scan(lambda a, _: (a + f(a, b)[1] / 9, None), a, None, 3)[0].sum()
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=list(TRANSFORMS))
@pytest.mark.parametrize("compiled", [False, True])
def test_transforms_of_jax(transform: Callable[[Any, Any], Callable[..., Any]], compiled: bool) -> None:
    jax = pytest.importorskip("jax")
    function = jax_function(*example())
    with jax.enable_x64(True):
        a, b, rows = map(jax.numpy.asarray, arrays())
        y = lambda a, b: jax.numpy.tanh(a @ b)[rows]
        both = [
            transform(jax, f)
            for f in (lambda a, b: function(a, b, rows), lambda a, b: (y(a, b), (y(a, b) ** 2).sum()))
        ]
        found, right = ((jax.jit(f) if compiled else f)(a, b) for f in both)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(right), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


def test_an_error_in_a_compiled_program_of_jax_is_raised() -> None:
    jax = pytest.importorskip("jax")
    from graphnet.inside.jax_calls import on_arrays

    x = gn.input((0, 3), "float32", name="x")
    doubled = Differentiable([x * 2, gn.sum(x)], [x])
    empty, total = jax.jit(on_arrays(doubled))(np.zeros((0, 3), "float32"))
    assert (empty.shape, float(total)) == ((0, 3), 0)

    def fails(*_: Any) -> Any:
        raise ValueError("the disk is full")

    vars(doubled)["value"] = fails
    with pytest.raises(Exception, match="ValueError: the disk is full"):
        jax.block_until_ready(jax.jit(lambda x: on_arrays(doubled)(x + 1))(np.zeros((0, 3), "float32")))
