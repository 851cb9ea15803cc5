"""Linear operators and their spectra match dense matrices from finite differences and loops."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import DtypeError, GraphnetError, ShapeError
from graphnet.graph.node import Array, Node
from graphnet.operators.spectrum import _quadrature
from tests.tables import case

TIME, BATCH, SYMBOLS = 3, 2, 3


class Minimal(rnn.Cell):
    """f = σ(x W_xf + h W_hf + b_f);  h' = (1 - f) h + f tanh(x W_xh + (f h) W_hh + b_h)"""

    states = (rnn.State("h"),)

    def step(self, x: Node, h: Node) -> Node:
        f = gn.sigmoid(self.affine("f", x=x, h=h))
        return (1 - f) * h + f * gn.tanh(self.affine("h", x=x, h=f * h))


LAYERS: dict[str, Callable[[], Any]] = {
    "LSTM": lambda: rnn.LSTM(2), "GRU": lambda: rnn.GRU(2), "an own cell": lambda: Minimal(2),
    "both directions": lambda: rnn.Bidirectional(rnn.Elman(2)),
}  # fmt: skip
KINDS = ("hessian", "gauss-newton", "jacobian", "fisher")


class Subject:
    """A net with random weights, and what it is fed."""

    def __init__(self, name: str = "GRU", dtype: str = "float64") -> None:
        draws = np.random.default_rng(1)
        self.net = rnn.Network([LAYERS[name]()], SYMBOLS, SYMBOLS, dtype=dtype)
        self.net.theta = draws.standard_normal(self.net.theta.shape)
        self.parameters = list(self.net.parameters.values())
        self.u = self.net.unroll(TIME, BATCH)
        self.losses = gn.sum(self.u.losses, axis=0)
        arrays = [*draws.integers(0, SYMBOLS, (2, TIME, BATCH))]
        arrays += [draws.standard_normal(node.shape).astype(dtype) for node in self.u.initial]
        self.feed = dict(zip([self.u.inputs, self.u.targets, *self.u.initial], arrays, strict=True))

    def operator(self, kind: str, **how: Any) -> Any:
        ends = {"jacobian": self.u.logits, "fisher": self.losses}
        return gn.linear_operator(kind, ends.get(kind, self.u.cost), self.net.parameters, self.feed, **how)


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
    gradient = gn.concatenate([gn.reshape(g, (-1,)) for g in gn.gradient(s.u.cost, s.parameters)])
    J = differences(s, {"hessian": gradient, "fisher": s.losses}.get(kind, s.u.logits))
    if kind == "fisher":
        return J.T @ J / BATCH
    if kind != "gauss-newton":
        return J
    (p,) = gn.compile([gn.softmax(s.u.logits)], list(s.feed), "numpy")(*s.feed.values())
    rows = J.reshape(-1, SYMBOLS, J.shape[1])
    blocks = [np.diag(q) - np.outer(q, q) for q in p.reshape(-1, SYMBOLS)]
    return sum(r.T @ B @ r for r, B in zip(rows, blocks, strict=True)) / len(blocks)


@cache
def both(name: str, kind: str) -> tuple[Array, Any]:
    s = Subject(name)
    return dense(s, kind), s.operator(kind)


def test_operators_match_dense_matrices() -> None:
    for name in LAYERS:
        for kind in KINDS:
            with case(name, kind):
                expected, op = both(name, kind)
                assert isinstance(op, LinearOperator)
                assert op.shape == expected.shape
                assert op.dtype == np.float64
                np.testing.assert_allclose(op @ np.eye(op.shape[1]), expected, rtol=1e-5, atol=1e-8)
                np.testing.assert_allclose(op.H @ np.eye(op.shape[0]), expected.T, rtol=1e-5, atol=1e-8)


def test_all_scipy_methods_agree() -> None:
    draws = np.random.default_rng(0)
    for kind in KINDS:
        with case(kind):
            _, op = both("GRU", kind)
            v, u, V = (draws.standard_normal(shape) for shape in (op.shape[1], op.shape[0], (op.shape[1], 3)))
            assert op.matvec(v) @ u == pytest.approx(v @ op.rmatvec(u), rel=1e-10)
            assert kind == "jacobian" or op.H is op
            np.testing.assert_array_equal(op.matmat(V), np.stack([op @ column for column in V.T], axis=1))
            np.testing.assert_array_equal(op.matvec(V[:, :1]), op.matmat(V[:, :1]))
            np.testing.assert_allclose(op.T @ u, op.rmatvec(u))
            np.testing.assert_allclose((2 * op) @ v, 2 * (op @ v))
            assert kind in repr(op)
    expected, G = both("GRU", "gauss-newton")
    damping, b = 0.1 * np.eye(len(expected)), draws.standard_normal(len(expected))
    found, failed = cg(G + aslinearoperator(damping), b, rtol=1e-10, maxiter=1000)
    assert not failed
    np.testing.assert_allclose(found, np.linalg.solve(expected + damping, b), rtol=1e-4, atol=1e-6)


def test_every_back_end_and_precision() -> None:
    for kind in KINDS:
        for backend in ("numpy", "numba"):
            with case(kind, backend):
                expected, _ = both("GRU", kind)
                op = Subject("GRU", "float32").operator(kind, backend=backend, threads=1, memory="sqrt")
                v = np.random.default_rng(0).standard_normal(op.shape[1])
                found, right = op @ v, expected @ v
                assert op.dtype == found.dtype == np.float32
                np.testing.assert_allclose(found, right, rtol=1e-2, atol=1e-3 * np.abs(right).max())


def test_operator_uses_current_parameters_and_feed() -> None:
    """Only the first product after a change computes the forward pass; results are the same."""
    for kind in KINDS:
        with case(kind):
            s = Subject()
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
            arrays = [a[:, ::-1] if a.dtype == np.int64 else a[::-1] for a in Subject().feed.values()]
            op.feed({s.u.inputs: np.zeros((TIME, BATCH), int)})
            assert not np.allclose(op @ v, moved)
            s.feed = dict(zip(s.feed, arrays, strict=True))
            op.feed(s.feed)
            np.testing.assert_array_equal(op @ v, s.operator(kind) @ v)
            if kind != "jacobian":  # a sum over cases, in another order
                np.testing.assert_allclose(op @ v, moved, rtol=1e-9, atol=1e-12)


def test_operator_uses_redrawn_masks_and_other_parameters() -> None:
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
    s = Subject()
    G, own = s.operator("gauss-newton"), s.operator("gauss-newton", at=s.u.logits)  # where the net ends
    np.testing.assert_allclose(G @ np.ones(G.shape[1]), own @ np.ones(G.shape[1]))


x = gn.input((4, 3), "float64", name="x")
i = gn.input((4,), "int64", name="i")
W = gn.parameter(np.ones((3, 2)), name="W")
other = gn.parameter(np.ones(2), name="other")
losses = gn.softmax_cross_entropy(x @ W, i)
cost = gn.mean(losses)
DATA = {x: np.ones((4, 3)), i: np.zeros(4, int)}


def made(kind: str = "hessian", of: Any = cost, parameters: Any = (W,), feed: Any = DATA, **how: Any) -> Any:
    return gn.linear_operator(kind, of, parameters, feed, **how)


REFUSED: list[tuple[Callable[[], Any], type[GraphnetError], str]] = [
    (lambda: made("hesse"), gn.UsageError, "linear_operator: kind .*'hessian' or"),
    (lambda: made(of=losses), gn.DifferentiationError, r"scalar.*\[4\]"),
    (lambda: made("fisher"), gn.DifferentiationError, r"\(batch,\).*axis=0"),
    (lambda: made("jacobian", 3), gn.ValueAccessError, "outputs must be a node"),
    (lambda: made("jacobian", i), gn.DifferentiationError, "int64"),
    (lambda: made(parameters=[]), gn.UsageError, "parameters lists nothing"),
    (lambda: made(parameters=[W, W]), gn.UsageError, r"W\[3, 2\] .* twice"),
    (lambda: made(parameters=[x]), gn.UsageError, r"gn\.parameter, not x\[4, 3\]"),
    (lambda: made(parameters=3), gn.UsageError, "parameters must be a list"),
    (lambda: made(parameters=[other]), gn.UsageError, "none of the parameters, other"),
    (lambda: made(feed=None), gn.UsageError, r"depends on x\[4, 3\] .*feed="),
    (lambda: made(feed=[1]), gn.UsageError, "feed must be a dict"),
    (lambda: made(feed={**DATA, W: 1}), gn.UsageError, r"W\[3, 2\].*not an input"),
    (lambda: made(feed={**DATA, x: np.ones(4)}), ShapeError, r"x\[4, 3\].*\[4\]"),
    (lambda: made(feed={**DATA, i: np.ones(4)}), DtypeError, r"i\[4\]"),
    (lambda: made(at=x), gn.UsageError, "`at` is only for kind='gauss"),
    (lambda: made(backend="c"), gn.BackendError, "no back end 'c'"),
    (lambda: made() @ (1j * np.ones(6)), gn.UsageError, "real numbers"),
    (lambda: made().feed({x: np.ones(3)}), ShapeError, r"x\[4, 3\]"),
]


def test_invalid_arguments_are_rejected() -> None:
    for call, error, message in REFUSED:
        with case(message), pytest.raises(error, match=message):
            call()


def test_missing_scipy_raises_an_error_with_the_install_command() -> None:
    code = """
import sys; sys.modules['scipy'] = None
import numpy as np, graphnet as gn
W = gn.parameter(np.ones(100)); cost = gn.sum(W * W)
for call in (lambda: gn.linear_operator('hessian', cost, [W]), lambda: gn.eigenvalues(np.eye(100), 3)):
    try: call()
    except gn.UsageError as error: print(error)
print(gn.trace(np.eye(100), samples=2, method='hutchinson').value)
"""
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300}
    first, second, trace = subprocess.run([sys.executable, "-c", code], check=True, **how).stdout.splitlines()
    assert first == "linear_operator needs SciPy, which is not installed: pip install scipy"
    assert second.startswith("eigenvalues needs SciPy")
    assert float(trace) == 100


# -- its spectrum, within standard errors ----------------------------------------------------------------

N = 120


def symmetric(values: Array, seed: int = 0) -> Array:
    """A matrix with these eigenvalues."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))
    return Q @ np.diag(values) @ Q.T


#: Few large eigenvalues and many small ones, of both signs, as Hessians have.
VALUES = np.concatenate([[50.0, 20.0, 8.0, -3.0], np.random.default_rng(1).normal(0.1, 0.1, N - 4)])
A = symmetric(VALUES)


def test_trace_is_within_its_standard_error() -> None:
    """Nearly all of 40 seeds are within 2 standard errors."""
    for method in ("hutch++", "hutchinson"):
        with case(method):
            found = [gn.trace(A, 60, method, seed) for seed in range(40)]
            apart = np.array([(value - VALUES.sum()) / error for value, error in found])
            assert np.mean(np.abs(apart) < 2) >= 0.85
            assert 0.6 < np.std(apart) < 1.5


def test_standard_errors_of_few_samples_are_not_too_small() -> None:
    """Of two samples, the mean of the squared errors is the variance of their mean: 2 Σ A_ij² / 2 for i ≠ j."""
    squares = [gn.trace(A, 2, "hutchinson", seed).error ** 2 for seed in range(800)]
    expected = np.square(A - np.diag(np.diag(A))).sum()
    assert np.mean(squares) == pytest.approx(expected, rel=0.25)


def test_hutchpp_is_accurate_for_few_large_eigenvalues() -> None:
    assert gn.trace(A, 60).error < 0.1 * gn.trace(A, 60, "hutchinson").error
    value, error = gn.trace(A, 3 * N)
    assert value == pytest.approx(VALUES.sum(), rel=1e-10)
    assert error < 1e-10


def test_diagonal_is_within_its_standard_error() -> None:
    value, error = gn.diagonal(A, 400)
    apart = (value - np.diag(A)) / error
    assert 0.8 < np.std(apart) < 1.25
    assert np.abs(apart).max() < 4.5
    exact = gn.diagonal(np.diag(VALUES), 2)
    np.testing.assert_array_equal(exact.value, VALUES)
    assert not exact.error.any()


def test_operators_of_recurrent_nets() -> None:
    for kind in ("hessian", "gauss-newton", "fisher"):
        dense, op = both("LSTM", kind)
        for method in ("hutch++", "hutchinson"):
            value, error = gn.trace(op, 90, method)
            assert abs(value - np.trace(dense)) < 4 * error + 1e-6
        value, error = gn.diagonal(op, 100)
        assert np.mean(np.abs(value - np.diag(dense)) < 3 * error + 1e-6) > 0.95
        values, vectors = gn.eigenvalues(op, 5)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(dense)[::-1][:5], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(op @ vectors, vectors * values, atol=1e-7)
        density = gn.spectral_density(op, steps=30, width=0.01)
        exact = broadened(density.points, np.linalg.eigvalsh(dense), 0.01)
        assert np.all(np.abs(density.density - exact) < 6 * density.error + 0.05 * exact.max())


ORDERS = {
    "largest": np.sort(VALUES)[::-1],
    "smallest": np.sort(VALUES),
    "magnitude": VALUES[np.argsort(-np.abs(VALUES))],
}


def test_leading_eigenvalues() -> None:
    for k in (1, 4, N - 1, N):
        for which in ORDERS:
            with case(which, k):
                values, vectors = gn.eigenvalues(A, k, which)
                np.testing.assert_allclose(values, ORDERS[which][:k], rtol=1e-8, atol=1e-9)
                np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-7)
                np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-8)


def test_eigenvalues_in_single_precision_and_without_convergence() -> None:
    found = gn.eigenvalues(aslinearoperator(A.astype("float32")), 3)
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(found.values, [50, 20, 8], rtol=1e-5)
    flat = symmetric(np.linspace(0, 1, 400))
    with pytest.raises(
        GraphnetError, match=r"of 5 have converged.*iterations to more than 1\b.*tolerance to more than 0"
    ):
        gn.eigenvalues(flat, 5, iterations=1)
    assert gn.eigenvalues(flat, 1, tolerance=0.1).values[0] == pytest.approx(1, abs=0.1)


def broadened(points: Array, values: Array, sigma: float) -> Array:
    apart = (points[:, None] - values) / sigma
    return np.exp(-0.5 * apart**2).mean(axis=1) / (sigma * np.sqrt(2 * np.pi))


def test_spectral_density() -> None:
    points, density, error = gn.spectral_density(A, points=1000, steps=80, samples=40, width=0.2)
    assert np.trapezoid(density, points) == pytest.approx(1, abs=1e-3)
    exact = broadened(points, VALUES, 0.2)
    # Where hardly any eigenvalue is, few of the random vectors see it.
    assert np.all(np.abs(density - exact) < 4 * error + 0.02 * exact.max())
    assert np.mean(np.abs(density - exact) < 2 * error + 1e-3 * exact.max()) > 0.9
    where = np.linspace(-1, 5, 50)  # it is exact for matrices that all vectors see alike
    found = gn.spectral_density(2 * np.eye(N), where, width=0.3)
    np.testing.assert_allclose(found.density, broadened(where, np.array([2.0]), 0.3), rtol=1e-10)
    np.testing.assert_allclose(found.error, 0, atol=1e-12)
    assert np.isfinite(gn.spectral_density(np.zeros((3, 3)), 5).density).all()
    for multiple in (2 * np.eye(20), 1e-3 * np.eye(30), 3.3 * np.eye(100, dtype="float32"), 1e-60 * A):
        points, density, _ = gn.spectral_density(multiple)
        assert density.max() < 100 / np.abs(points).max()
        assert np.trapezoid(density, points) == pytest.approx(1, abs=1e-3)


def test_lanczos_vectors_are_orthogonal() -> None:
    """Otherwise, large eigenvalues would appear several times and others would be missing."""
    nodes, weights = _quadrature(A, np.random.default_rng(0).standard_normal(N), N)
    np.testing.assert_allclose(nodes, np.sort(VALUES), rtol=1e-8, atol=1e-8)
    assert weights.sum() == pytest.approx(1)


CALLS: dict[str, Callable[..., Any]] = {
    "trace": lambda op, **how: gn.trace(op, 12, **how),
    "diagonal": lambda op, **how: gn.diagonal(op, 5, **how),
    "eigenvalues": lambda op, **how: gn.eigenvalues(op, 3, **how),
    "spectral_density": lambda op, **how: gn.spectral_density(op, 20, 10, 2, **how),
}


def test_results_depend_on_the_seed_for_any_operator() -> None:
    for name, call in CALLS.items():
        with case(name):
            first, second, other = (call(A, seed=seed) for seed in (7, 7, 8))
            for a, b in zip(first, second, strict=True):
                np.testing.assert_array_equal(a, b)
            assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
            for a, b in zip(call(A), call(LinearOperator((N, N), A.dot, dtype=float)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


NO_OPERATOR: list[tuple[Any, str]] = [
    (np.ones((3, 2)), r"must be square.* 3 × 2.*J\.H @ J"),
    (np.ones((0, 0)), "must be square"),
    (np.eye(2) * 1j, "must be of real numbers, not complex128"),
    (np.ones(3), "op must be an operator"),
    (3, "op must be an operator.*not 3"),
    (gn.input((3, 3), name="x"), r"the node x\[3, 3\].*gn\.linear_operator"),
    *((np.full((size, size), np.nan), "NaN.*check=True") for size in (5, 100)),
]
SETTINGS: list[tuple[Callable[[], Any], str]] = [
    (lambda: gn.trace(A, 5), r"trace: samples .* >= 6"),
    (lambda: gn.trace(A, 1, "hutchinson"), r"trace: samples .* >= 2"),
    (lambda: gn.trace(A, method="xtrace"), r"trace: method .*'hutch\+\+' or 'hutchinson'"),
    (lambda: gn.trace(A, seed=-1), "trace: seed"),
    (lambda: gn.diagonal(A, 1), "diagonal: samples"),
    (lambda: gn.eigenvalues(A, N + 1), f"eigenvalues: k must be at most {N}"),
    (lambda: gn.eigenvalues(A, which="LA"), "eigenvalues: which .*'largest'"),
    (lambda: gn.eigenvalues(A, tolerance=-1), "eigenvalues: tolerance"),
    (lambda: gn.eigenvalues(A, iterations=0), "eigenvalues: iterations"),
    (lambda: gn.spectral_density(A, points=1), "spectral_density: points"),
    (lambda: gn.spectral_density(A, points=[[1.0]]), "spectral_density: points"),
    (lambda: gn.spectral_density(A, points=["a"]), "spectral_density: points"),
    (lambda: gn.spectral_density(A, points=[np.inf]), "spectral_density: points"),
    (lambda: gn.spectral_density(A, steps=0), "spectral_density: steps"),
    (lambda: gn.spectral_density(A, samples=1), "spectral_density: samples"),
    (lambda: gn.spectral_density(A, width=0), "spectral_density: width"),
]


def test_operators_without_a_spectrum_are_rejected() -> None:
    for take in (gn.eigenvalues, gn.spectral_density):
        with case(take), pytest.raises(gn.UsageError, match="op must be symmetric"):
            take(np.array([[1.0, 2.0], [0.0, 3.0]]))
    for call, message in SETTINGS:
        with case(message), pytest.raises(gn.UsageError, match=message):
            call()
    for op, message in NO_OPERATOR:
        for name, take in CALLS.items():
            with case(name, message), pytest.raises(GraphnetError, match=f"^{name}: .*{message}"):
                take(op)


def test_feeds_beyond_float32_are_rejected() -> None:
    w, x = gn.parameter(np.ones(2, np.float32), name="w"), gn.input(2, "float32", name="x")
    H = gn.linear_operator("hessian", gn.sum(w**2 * x), [w], {x: np.ones(2)})
    with pytest.raises(gn.DtypeError, match=r"input x.*float32, which cannot hold 1e\+300"):
        H.feed({x: np.array([1.0, 1e300])})
