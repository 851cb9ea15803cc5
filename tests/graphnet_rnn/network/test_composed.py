"""Models composed of networks: several inputs and outputs, shared weights, nested graphs."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet_rnn.errors import DataError, UsageError
from tests.tables import case

Array = Any

TIME, CASES = 3, 4
FLOATS = {"reads": "vectors", "dtype": "float64"}


def net(inputs: int, outputs: int, seed: int = 0, cell: type[rnn.Cell] = rnn.GRU, **how: Any) -> rnn.Network:
    return rnn.Network([cell(2)], inputs, outputs, seed=seed, **FLOATS, **how)


@rnn.composed
def joined(one: rnn.Network, other: rnn.Network, both: rnn.Network, batch: int, **how: Any) -> Any:
    """Two inputs."""
    u = one.unroll(TIME, batch, inputs="x", initial="zero", name="one", **how)
    v = other.unroll(TIME, batch, inputs="z", initial="zero", name="other", **how)
    x = gn.concatenate([u.hidden[-1], v.hidden[-1]], axis=2)
    return both.unroll(TIME, batch, inputs=x, targets="t", initial="zero", name="both", **how)


@rnn.composed
def two_heads(body: rnn.Network, kind: rnn.Network, after: rnn.Network, batch: int, **how: Any) -> Any:
    """Two outputs, one of which is auxiliary."""
    b = body.unroll(TIME, batch, inputs="x", initial="zero", name="body", **how)
    k = kind.unroll(TIME, batch, inputs=b.hidden[-1], targets="kind", initial="zero", name="kind", **how)
    n = after.unroll(TIME, batch, inputs=b.hidden[-1], targets="t", initial="zero", name="after", **how)
    return k.losses + 0.3 * gn.mean(n.losses, axis=0), {"auxiliary": gn.mean(n.losses, axis=0)}


@rnn.composed
def twins(reader: rnn.Network, batch: int, **how: Any) -> Any:
    """Shared weights."""
    h, k = (reader.unroll(TIME, batch, inputs=x, initial="zero", name=x, **how).final[0] for x in ("x", "z"))
    far = gn.sum((h - k) ** 2, axis=1)
    return gn.sigmoid_cross_entropy(far - 1, gn.input((batch,), "float64", name="far"))


@rnn.composed
def amid(inner: rnn.Network, batch: int, **how: Any) -> Any:
    """A graph before the network, which its targets come from as well, and one behind it."""
    x = gn.input((TIME, batch, 2), "float64", name="x")
    u = inner.unroll(TIME, batch, inputs=gn.tanh(x), targets=x * 2, initial="zero", **how)
    return gn.max(u.losses, axis=0) + gn.sum(gn.squared_error(u.final[0], 0), axis=1)


DRAW = np.random.default_rng(0)
X, Z = DRAW.standard_normal((TIME, CASES, 2)), DRAW.standard_normal((TIME, CASES, 2))
BITS = np.array([0, 1, 1, 0])
WHOLES: dict[str, tuple[Callable[[], rnn.Model], dict[str, Array]]] = {
    "several inputs": (
        lambda: joined(net(2, 0), net(2, 0, 1), net(4, 1, 2, loss="squared")),
        {"x": X, "z": Z, "t": X[..., :1] * Z[..., :1]},
    ),
    "several outputs": (
        lambda: two_heads(
            net(2, 0), net(2, 2, 1, rnn.Dense, pool="last"), net(2, 2, 2, rnn.Dense, loss="squared")
        ),
        {"x": X, "kind": BITS, "t": Z},
    ),
    "shared weights": (lambda: twins(net(2, 0)), {"x": X, "z": Z, "far": BITS * 1.0}),
    "a graph before and behind": (lambda: amid(net(2, 2, loss="squared")), {"x": X}),
}  # fmt: skip


def problem_of(name: str, **how: Any) -> rnn.GraphCases:
    make, arrays = WHOLES[name]
    return rnn.GraphCases(make(), arrays, **{"batch": CASES, "valid": None, **how})


def test_gradient_matches_finite_differences() -> None:
    """In each weight, of every network."""
    for name in WHOLES:
        with case(name):
            problem = problem_of(name)
            objective = problem.feed(0, 0)
            w = objective.start()
            found = objective.gradient(w)[1]
            e = 1e-6 * np.eye(len(w))
            expected = [(objective.loss(w + d) - objective.loss(w - d)) / 2e-6 for d in e]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
            sizes = [part.theta.size for part in problem.model.parts.values()]
            assert len(w) == sum(sizes)
            assert all(np.abs(own).max() > 1e-4 for own in np.split(found, np.cumsum(sizes)[:-1]))


@pytest.mark.parametrize(
    "how", [{}, {"memory": "sqrt"}, pytest.param({"backend": "cuda"}, marks=pytest.mark.slow)]
)
def test_derivatives_on_every_back_end(how: dict[str, Any]) -> None:
    """Gradient and Gv match NumPy; a simulated GPU takes seconds."""
    for name in WHOLES:
        with case(name):
            found = []
            for each in ({"backend": "numpy"}, how):
                objective = problem_of(name, **each).feed(0, 0)
                w = objective.start()
                v = np.random.default_rng(1).standard_normal(len(w))
                found.append([np.asarray(objective.gradient(w)[1]), np.asarray(objective.curvature(w)(v))])
            for expected, product in zip(*found, strict=True):
                np.testing.assert_allclose(product, expected, rtol=1e-9, atol=1e-11)
            assert np.linalg.norm(found[0][1]) > 1e-4


def test_composed_models_learn_and_are_saved_and_drawn(tmp_path: Path) -> None:
    for name in WHOLES:
        with case(name):
            problem = problem_of(name)
            before = problem.feed(0, 0).loss(problem.objective.start())
            rnn.Trainer(problem, rnn.Training(rnn.Adam(0.05), epochs=10, stopping=None)).run()
            model = problem.model
            assert problem.feed(0, 0).loss(model.theta) < before
            rnn.save(model, tmp_path / "m.safetensors")
            again = rnn.load(tmp_path / "m.safetensors", [joined, two_heads, twins, amid])
            assert type(again) is type(model)
            np.testing.assert_array_equal(again.theta, model.theta)
            assert pickle.loads(pickle.dumps(type(model))) is type(model)
            assert all("<svg" in viz.draw(model, closed=closed).svg for closed in (True, False))


def test_losses_of_a_network_are_summed_over_the_steps_of_a_case() -> None:
    """C = Σ_n w_n Σ_t L_tn / Σ_n w_n, and metrics, against a run of the network."""

    @rnn.composed
    def single(one: rnn.Network, batch: int, **how: Any) -> Any:
        return one.unroll(TIME, batch, lengths=True, initial="zero", unscored=1, **how)

    one = net(2, 3)
    w, lengths, t = np.array([1.0, 2, 0, 3]), np.array([3, 2, 3, 2]), DRAW.integers(0, 3, (TIME, CASES))
    arrays = {"x": X, "lengths": lengths, "t": t}
    problem = rnn.GraphCases(single(one), arrays, batch=CASES, weights=w, valid=arrays)
    found = problem.feed(0, 0).loss(one.theta)
    o, _ = rnn.run(one, X, lengths=lengths)
    losses = np.log(np.exp(o).sum(axis=2)) - np.take_along_axis(o, t[..., None], 2)[..., 0]
    inside = (np.arange(TIME)[:, None] < lengths) & (np.arange(TIME)[:, None] > 0)
    assert found == pytest.approx((np.where(inside, losses, 0).sum(axis=0) * w).sum() / w.sum(), rel=1e-12)
    right = (o.argmax(axis=2) == t) & inside
    metrics = {name: value() for name, value in problem.metrics().items()}
    assert metrics["accuracy"] == pytest.approx((right.sum(axis=0) / inside.sum(axis=0)).mean())
    assert metrics["exact"] == pytest.approx((right == inside).all(axis=0).mean())


def test_arguments_of_any_kind_are_settings(tmp_path: Path) -> None:
    @rnn.composed
    def many(
        readers: list[rnn.Network], head: rnn.Network, scale: float = 2.0, batch: int = 1, **how: Any
    ) -> Any:
        x, z = (
            r.unroll(TIME, batch, inputs=n, initial="zero", name=n, **how)
            for r, n in zip(readers, "xz", strict=True)
        )
        return head.unroll(TIME, batch, inputs=scale * (x.hidden[-1] + z.hidden[-1]), initial="zero", **how)

    model = many([net(2, 0), net(2, 0, 1)], head=net(2, 2, 2, loss="squared"))
    assert list(model.parts) == ["readers.0", "readers.1", "head"]
    assert model.settings()["scale"] == 2.0
    rnn.save(model, tmp_path / "m.safetensors")
    again = rnn.load(tmp_path / "m.safetensors", many)
    assert again.description() == model.description()
    assert repr(model).startswith("many(readers=[Network(")


def test_a_changed_function_is_reported(tmp_path: Path) -> None:
    """Includes lengths."""

    def made(factor: float) -> Any:
        @rnn.composed
        def single(one: rnn.Network, batch: int, **how: Any) -> Any:
            u = one.unroll(TIME, batch, lengths=True, initial="zero", **how)
            return factor * gn.sum(u.losses, axis=0)

        return single

    rnn.save(made(1.0)(net(2, 3)), tmp_path / "m.safetensors")
    rnn.load(tmp_path / "m.safetensors", made(1.0))
    with pytest.warns(UserWarning, match="equations of single, or constants"):
        rnn.load(tmp_path / "m.safetensors", made(1.5))


X_OF_ONE = gn.input((2,), "int64", name="x")
TWO_NAMES = lambda u, batch: gn.sum(u.final[0], axis=1) + gn.input((batch,), "float64", name="x")
UNREAD = lambda u, batch: (gn.sum(u.final[0], axis=1), {"m": gn.input((batch,), "float64", name="m")})


def of_values(one: Any, values: Any, batch: int, **how: Any) -> Any: ...
def of_seed(one: Any, seed: Any, batch: int, **how: Any) -> Any: ...
def of_self(self: Any, batch: int, **how: Any) -> Any: ...
def of_state(state: Any, batch: int, **how: Any) -> Any: ...
def without_how(one: Any, batch: int) -> Any: ...
def without_parts(batch: int, **how: Any) -> Any: ...


def cases(graph: Callable[..., Any], arrays: dict[str, Array] | None = None) -> rnn.GraphCases:
    model = twins(net(2, 0))

    def of_model(batch: int, **how: Any) -> Any:
        return graph(model.reader.unroll(TIME, batch, initial="zero"), batch)

    return rnn.GraphCases(model, {"x": X} if arrays is None else arrays, batch=2, graph=of_model)


def of_classes(targets: Array) -> rnn.GraphCases:
    model = net(2, 3)
    graph = lambda batch, **how: model.unroll(TIME, batch, initial="zero", **how)
    return rnn.GraphCases(model, {"x": X, "t": targets}, batch=2, graph=graph)


def test_invalid_arguments_are_rejected() -> None:
    classes = np.zeros((TIME, CASES), "uint64")
    asked = [
        (lambda: of_classes(classes + 2**63), DataError, "t at [0, 0] is 9223372036854775808, which int64 cannot hold"),
        (lambda: of_classes(classes == 1), DataError, "t must be int64"),
        (lambda: rnn.composed(without_parts), UsageError, "without_parts(batch, how) must take parts, then"),
        (lambda: rnn.composed(without_how), UsageError, "without_how must take training= and random=, which a Trainer"),
        (lambda: rnn.composed(of_values), UsageError, "of_values has an argument 'values', a name that every model"),
        (lambda: rnn.composed(of_seed), UsageError, "of_seed has an argument 'seed', a name that every model"),
        (lambda: rnn.composed(of_self), UsageError, "of_self has an argument 'self', a name that every model"),
        (lambda: rnn.composed(of_state)(net(2, 0)), UsageError, "'state.layer0.W_xr', but names that begin with"),
        (lambda: joined(*[net(2, 0)] * 2, net(4, 1)), UsageError, "joined: one and other are the same Network; pass"),
        (lambda: cases(TWO_NAMES), UsageError, "two inputs have the name 'x' (made at"),
        (lambda: cases(UNREAD), UsageError, "GraphCases: the metric m depends on m[2] (made at"),
        (lambda: cases(lambda u, batch: u.hidden[-1]), UsageError, "graph must return an Unrolled, the losses of"),
        (lambda: cases(lambda u, batch: gn.sum(u.final[0], axis=1), {"z": Z}), DataError, "to an array; got z"),
        (lambda: rnn.GraphCases(net(2, 2), {}), UsageError, "rnn.Arrays to train a single Network"),
        (lambda: net(2, 2).unroll(2, 2, targets=X_OF_ONE), UsageError, "must be int64[2, 2], but x"),
    ]  # fmt: skip
    for ask, error, said in asked:
        with case(said), pytest.raises(error, match=re.escape(said)):
            ask()


def test_scale_of_equal_weights_does_not_matter() -> None:
    """Their float32 sum may overflow, or each of them be a subnormal number."""
    x = np.random.default_rng(0).normal(size=(5, 40, 2)).astype("float32")
    net = rnn.Network([rnn.GRU(3)], 2, 1, loss="squared", seed=0)
    graph = lambda batch, **how: net.unroll(5, batch, initial="zero", **how)
    costs = [
        rnn.GraphCases(net, {"x": x, "t": x[..., :1]}, graph=graph, weights=np.full(40, weight)).validate()
        for weight in (1, 1e38, 1e-44)
    ]
    np.testing.assert_allclose(costs, costs[0], rtol=1e-6)
