"""Each operator is the dense matrix that finite differences and loops give, for recurrent nets of several kinds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import DtypeError, GraphnetError, ShapeError
from graphnet.graph.node import Array, Node
from graphnet_rnn.network.unroll import Unrolled
from tests.tables import case

TIME, BATCH, SYMBOLS = 3, 2, 3


class Minimal(rnn.Cell):
    """f = σ(x W_xf + h W_hf + b_f);  h' = (1 - f) h + f tanh(x W_xh + (f h) W_hh + b_h)"""

    states = (rnn.State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        f = gn.sigmoid(self.affine("f", x=x, h=h))
        return (1 - f) * h + f * gn.tanh(self.affine("h", x=x, h=f * h))


LAYERS: dict[str, Callable[[], list[Any]]] = {
    "LSTM": lambda: [rnn.LSTM(2)],
    "GRU": lambda: [rnn.GRU(2)],
    "an own cell": lambda: [Minimal(2)],
    "both directions": lambda: [rnn.Bidirectional(rnn.Elman(2))],
}
KINDS = ("hessian", "gauss-newton", "jacobian", "fisher")


class Subject(NamedTuple):
    net: rnn.Network
    u: Unrolled
    losses: Node
    feed: dict[Node, Array]

    @property
    def parameters(self) -> list[Node]:
        return list(self.net.parameters.values())

    def operator(self, kind: str, **how: Any) -> Any:
        ends = {"jacobian": self.u.logits, "fisher": self.losses}
        return gn.linear_operator(kind, ends.get(kind, self.u.cost), self.net.parameters, self.feed, **how)


def subject(name: str = "GRU", dtype: str = "float64") -> Subject:
    net = rnn.Network(LAYERS[name](), SYMBOLS, SYMBOLS, dtype=dtype)
    generator = np.random.default_rng(1)
    net.theta = generator.standard_normal(net.theta.shape)
    u = net.unroll(TIME, BATCH)
    arrays: list[Array] = [*generator.integers(0, SYMBOLS, (2, TIME, BATCH))]
    arrays += [generator.standard_normal(node.shape).astype(dtype) for node in u.initial]
    feed = dict(zip([u.inputs, u.targets, *u.initial], arrays, strict=True))
    return Subject(net, u, gn.sum(u.losses, axis=0), feed)


def differences(s: Subject, node: Node) -> Array:
    """∂node/∂w by central differences, (node.size, w.size)"""
    function, theta = gn.compile([node], list(s.feed), "numpy"), s.net.theta.copy()
    columns = []
    for i in range(len(theta)):
        sides = []
        for sign in (1, -1):
            s.net.theta = theta + sign * 1e-5 * np.eye(len(theta))[i]
            sides.append(function(*s.feed.values())[0].ravel())
        columns.append((sides[0] - sides[1]) / 2e-5)
    s.net.theta = theta
    return np.stack(columns, axis=1)


def dense(s: Subject, kind: str) -> Array:
    """The matrix, without products of curvature."""
    flat = gn.concatenate([gn.reshape(g, (-1,)) for g in gn.gradient(s.u.cost, s.parameters)])
    match kind:
        case "hessian":
            return differences(s, flat)
        case "jacobian":
            return differences(s, s.u.logits)
        case "gauss-newton":
            J = differences(s, s.u.logits)
            (p,) = gn.compile([gn.softmax(s.u.logits)], list(s.feed), "numpy")(*s.feed.values())
            rows = J.reshape(-1, SYMBOLS, J.shape[1])
            blocks = [np.diag(q) - np.outer(q, q) for q in p.reshape(-1, SYMBOLS)]
            return sum(r.T @ B @ r for r, B in zip(rows, blocks, strict=True)) / len(blocks)
        case _:
            J = differences(s, s.losses)
            return J.T @ J / BATCH


@cache
def both(name: str, kind: str) -> tuple[Array, Any]:
    s = subject(name)
    return dense(s, kind), s.operator(kind)


def test_it_is_the_dense_matrix() -> None:
    for name in LAYERS:
        for kind in KINDS:
            with case(name, kind):
                expected, op = both(name, kind)
                assert isinstance(op, LinearOperator)
                assert op.shape == expected.shape
                assert op.dtype == np.float64
                np.testing.assert_allclose(op @ np.eye(op.shape[1]), expected, rtol=1e-5, atol=1e-8)
                np.testing.assert_allclose(op.H @ np.eye(op.shape[0]), expected.T, rtol=1e-5, atol=1e-8)


def test_all_of_scipys_ways_agree() -> None:
    for kind in KINDS:
        with case(kind):
            _, op = both("GRU", kind)
            generator = np.random.default_rng(0)
            v, u = generator.standard_normal(op.shape[1]), generator.standard_normal(op.shape[0])
            assert op.matvec(v) @ u == pytest.approx(v @ op.rmatvec(u), rel=1e-10)
            if kind != "jacobian":
                assert op.H is op
                assert (op @ v) @ u == pytest.approx(v @ (op @ u), rel=1e-10)
            V = generator.standard_normal((op.shape[1], 3))
            np.testing.assert_array_equal(op.matmat(V), np.stack([op @ column for column in V.T], axis=1))
            np.testing.assert_array_equal(op.matvec(V[:, :1]), op.matmat(V[:, :1]))
            np.testing.assert_allclose(op.T @ u, op.rmatvec(u))
            np.testing.assert_allclose((2 * op) @ v, 2 * (op @ v))
            assert kind in repr(op)


def test_every_back_end_and_precision() -> None:
    for kind in KINDS:
        for backend in ("numpy", "numba"):
            with case(kind, backend):
                expected, _ = both("GRU", kind)
                op = subject("GRU", "float32").operator(kind, backend=backend, threads=1, memory="sqrt")
                assert op.dtype == np.float32
                v = np.random.default_rng(0).standard_normal(op.shape[1])
                found = op @ v
                assert found.dtype == np.float32
                np.testing.assert_allclose(
                    found, expected @ v, rtol=1e-2, atol=1e-3 * np.abs(expected @ v).max()
                )


def test_it_is_at_the_present_parameters_and_at_what_is_fed() -> None:
    """The first product of a point computes the forward pass, the others do not, and nobody sees a difference."""
    for kind in KINDS:
        with case(kind):
            s = subject()
            op = s.operator(kind)
            v = np.random.default_rng(0).standard_normal(op.shape[1])
            first = op @ v
            np.testing.assert_array_equal(op @ v, first)
            for node in s.feed:
                s.feed[node][...] = 0  # it has copies
            np.testing.assert_array_equal(op @ v, first)
            s.parameters[0].value[...] += 0.1
            moved = op @ v
            assert not np.allclose(moved, first)
            other = subject().feed.values()
            arrays = [array[:, ::-1] if array.dtype == np.int64 else array[::-1] for array in other]
            turned = dict(zip(s.feed, arrays, strict=True))
            op.feed({s.u.inputs: np.zeros((TIME, BATCH), int)})
            assert not np.allclose(op @ v, moved)
            op.feed(turned)
            fresh = Subject(s.net, s.u, s.losses, turned).operator(kind)
            np.testing.assert_array_equal(op @ v, fresh @ v)
            if kind != "jacobian":  # a sum over cases, in another order
                np.testing.assert_allclose(op @ v, moved, rtol=1e-9, atol=1e-12)


def test_it_sees_redrawn_masks_and_parameters_that_are_not_its_own() -> None:
    net = rnn.Network([rnn.GRU(3)], SYMBOLS, SYMBOLS, recurrent_dropout=0.5)
    u = net.unroll(TIME, BATCH, initial="zero")
    x, t = np.random.default_rng(0).integers(0, SYMBOLS, (2, TIME, BATCH))
    some = [p for p in net.parameters.values() if p.ndim == 2]
    op = gn.linear_operator("gauss-newton", u.cost, some, {u.inputs: x, u.targets: t})
    v = np.ones(op.shape[1], "float32")
    seen = [op @ v, op @ v]
    u.random.redraw()
    seen.append(op @ v)
    for p in net.parameters.values():
        if p.ndim == 1:
            p.value[...] += 1
    seen.append(op @ v)
    assert np.array_equal(seen[0], seen[1])
    assert not np.allclose(seen[1], seen[2])
    assert not np.allclose(seen[2], seen[3])


def test_it_composes_with_scipys() -> None:
    expected, G = both("GRU", "gauss-newton")
    n = len(expected)
    damped = G + 0.1 * aslinearoperator(np.eye(n))
    b = np.random.default_rng(0).standard_normal(n)
    found, failed = cg(damped, b, rtol=1e-10, maxiter=1000)
    assert not failed
    np.testing.assert_allclose(found, np.linalg.solve(expected + 0.1 * np.eye(n), b), rtol=1e-4, atol=1e-6)


def test_where_the_net_ends_may_be_given() -> None:
    s = subject()
    G, own = s.operator("gauss-newton"), s.operator("gauss-newton", at=s.u.logits)
    v = np.ones(G.shape[1])
    np.testing.assert_allclose(G @ v, own @ v)


# -- refusals -------------------------------------------------------------------------------------

x = gn.input((4, 3), "float64", name="x")
i = gn.input((4,), "int64", name="i")
W = gn.parameter(np.ones((3, 2)), name="W")
other = gn.parameter(np.ones(2), name="other")
losses = gn.softmax_cross_entropy(x @ W, i)
cost = gn.mean(losses)
DATA = {x: np.ones((4, 3)), i: np.zeros(4, int)}


REFUSED: list[tuple[Callable[[], Any], type[GraphnetError], str]] = [
    (lambda: gn.linear_operator("hesse", cost, [W], DATA), gn.UsageError, "linear_operator: kind .*'hessian' or"),
    (lambda: gn.linear_operator("hessian", losses, [W], DATA), gn.DifferentiationError, r"scalar.*\[4\]"),
    (lambda: gn.linear_operator("fisher", cost, [W], DATA), gn.DifferentiationError, r"\(batch,\).*axis=0"),
    (lambda: gn.linear_operator("jacobian", 3, [W], DATA), gn.ValueAccessError, "outputs must be a node"),
    (lambda: gn.linear_operator("jacobian", i, [W], DATA), gn.DifferentiationError, "int64"),
    (lambda: gn.linear_operator("hessian", 3, [W], DATA), gn.ValueAccessError, "linear_operator"),
    (lambda: gn.linear_operator("hessian", cost, [], DATA), gn.UsageError, "parameters lists nothing"),
    (lambda: gn.linear_operator("hessian", cost, [W, W], DATA), gn.UsageError, r"W\[3, 2\] .* twice"),
    (lambda: gn.linear_operator("hessian", cost, [x], DATA), gn.UsageError, r"x\[4, 3\] .*gn\.parameter"),
    (lambda: gn.linear_operator("hessian", cost, 3, DATA), gn.UsageError, "parameters must be a list"),
    (lambda: gn.linear_operator("hessian", cost, [other], DATA), gn.UsageError, "none of the parameters, other"),
    (lambda: gn.linear_operator("hessian", cost, [W]), gn.UsageError, r"depends on x\[4, 3\] .*feed="),
    (lambda: gn.linear_operator("hessian", cost, [W], [1]), gn.UsageError, "feed must be a dict"),
    (lambda: gn.linear_operator("hessian", cost, [W], {**DATA, W: 1}), gn.UsageError, r"W\[3, 2\].*no input"),
    (lambda: gn.linear_operator("hessian", cost, [W], {**DATA, "x": 1}), gn.UsageError, "'x'.*no input"),
    (lambda: gn.linear_operator("hessian", cost, [W], {**DATA, x: np.ones(4)}), ShapeError, r"x\[4, 3\].*\[4\]"),
    (lambda: gn.linear_operator("hessian", cost, [W], {**DATA, i: np.ones(4)}), DtypeError, r"i\[4\]"),
    (lambda: gn.linear_operator("hessian", cost, [W], DATA, at=x), gn.UsageError, "`at` is for kind='gauss"),
    (lambda: gn.linear_operator("hessian", cost, [W], DATA, backend="c"), gn.BackendError, "no back end 'c'"),
    (lambda: gn.linear_operator("hessian", cost, [W], DATA) @ (1j * np.ones(6)), gn.UsageError, "real numbers"),
    (lambda: gn.linear_operator("hessian", cost, [W], DATA).feed({x: np.ones(3)}), ShapeError, r"x\[4, 3\]"),
]  # fmt: skip


def test_what_cannot_be_meant_is_refused() -> None:
    for call, error, message in REFUSED:
        with case(message), pytest.raises(error, match=message):
            call()


def test_without_scipy_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['scipy'] = None\n"
        "import numpy as np, graphnet as gn\n"
        "W = gn.parameter(np.ones(100)); cost = gn.sum(W * W)\n"
        "for call in (lambda: gn.linear_operator('hessian', cost, [W]), lambda: gn.eigenvalues(np.eye(100), 3)):\n"
        "    try: call()\n"
        "    except gn.UsageError as error: print(error)\n"
        "print(gn.trace(np.eye(100), samples=2, method='hutchinson').value)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    first, second, trace = told.stdout.splitlines()
    assert first == "linear_operator needs SciPy, which is not installed: pip install scipy"
    assert second == "eigenvalues needs SciPy, which is not installed: pip install scipy"
    assert float(trace) == 100
