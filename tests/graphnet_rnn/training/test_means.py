"""Steps depend on their cases, not on the division into batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.network.network import Network
from tests.tables import case

CASES, TIME = 12, 5
#: Half of the cases have two steps.
LENGTHS = np.array([2, TIME] * (CASES // 2))
#: Metrics without randomness: no drawn targets and no random signs.
METRICS = {
    "ruop": rnn.riemannian.OuterProduct(),
    "qdruop": rnn.riemannian.OuterProduct("quasi-diagonal"),
    "rbpm": rnn.riemannian.Backpropagated(),
    "kfac": rnn.riemannian.Kronecker(sampled=False),
    "rms": rnn.riemannian.RootMeanSquare(),
    "frequency": rnn.riemannian.Frequency(),
}


def network(loss: str, **how: Any) -> Network:
    reads = {"reads": "vectors"} if loss != "softmax" else {}
    net = rnn.Network([rnn.Elman(4)], 3, 3, loss=loss, dtype="float64", seed=1, **reads, **how)
    net.theta = 0.5 * np.random.default_rng(2).standard_normal(net.theta.shape)
    return net


def data(loss: str, kind: str | None) -> dict[str, Any]:
    """Inputs, targets, and weights of cases, steps or values."""
    generator = np.random.default_rng(3)
    shape = (TIME, CASES)
    if loss == "softmax":
        x, t = generator.integers(0, 3, (2, *shape))
    else:
        x = generator.standard_normal((*shape, 3))
        t = (
            generator.random((*shape, 3))
            if loss == "squared"
            else generator.integers(0, 2, (*shape, 3)) * 1.0
        )
    weights = {"cases": (CASES,), "steps": shape, "values": (*shape, 3)}
    w = None if kind is None else generator.integers(0, 3, weights[kind]) * 0.5
    return {"inputs": x, "targets": t, "weights": w}


def problems(loss: str, kind: str | None, ragged: bool, **how: Any) -> Iterator[rnn.Arrays]:
    """Yields problems on the same cases: in one batch, and in several, with one bucket or two."""
    given = data(loss, kind) | ({"lengths": LENGTHS} if ragged else {})
    for batch, buckets in ((CASES, 1), (3, 1), (3, 2)):
        several = CASES // batch
        yield rnn.Arrays(
            network(loss, **how), batch=batch, gradient_batches=several, curvature_batches=several, buckets=buckets,
            valid=None, **given,
        )  # fmt: skip


def of_cases(net: Network, loss: str, kind: str | None, ragged: bool) -> tuple[float, Array, Array, Array]:
    """C, ∇C, G v and G_s v from single cases: Σ over cases / Σ of weights."""
    given = data(loss, kind)
    parameters = list(net.parameters.values())
    total, cost = 0.0, 0.0
    sums = np.zeros((3, net.theta.size))
    v = direction(net)
    ends = np.cumsum([p.size for p in parameters])[:-1]
    tangents = {p: part.reshape(p.shape) for p, part in zip(parameters, np.split(v, ends), strict=True)}
    for n in range(CASES):
        time = int(LENGTHS[n]) if ragged else TIME
        w = np.ones(CASES) if given["weights"] is None else given["weights"]
        w = np.full((time, 1), w[n]) if w.shape == (CASES,) else w[:time, n : n + 1]
        u = net.unroll(time, 1, initial="zero")
        values = u.values if w.ndim == 3 else u.losses
        total += w.sum() / (3 if w.ndim == 3 else 1)
        of_case = gn.sum(gn.constant(w) * values)
        damping = [(a, h, w.mean()) for a, h in u.structure]
        nodes = [of_case, *gn.gradient(of_case, parameters), *gn.gauss_newton_product(of_case, tangents)]
        nodes += gn.gauss_newton_product(0 * of_case, tangents, damping=damping)
        arrays = [given["inputs"][:time, n : n + 1], given["targets"][:time, n : n + 1]]
        found, *parts = gn.compile(nodes, [u.inputs, u.targets], backend="numpy", passes=())(*arrays)
        cost += float(found)
        count = len(parameters)
        sums += [np.concatenate([p.ravel() for p in parts[k * count : (k + 1) * count]]) for k in range(3)]
    return cost / total, *(sums / total)


def direction(net: Network) -> Array:
    return np.random.default_rng(4).standard_normal(net.theta.size)


KINDS = [
    (loss, kind, ragged)
    for loss, kind, ragged in itertools.product(
        ("softmax", "sigmoid", "squared"), (None, "cases", "steps", "values"), (False, True)
    )
    if (loss, kind) != ("softmax", "values")
]


@pytest.mark.parametrize(("loss", "kind", "ragged"), KINDS)
def test_loss_gradient_and_curvature_do_not_depend_on_batches(
    loss: str, kind: str | None, ragged: bool
) -> None:
    cost, g, bend, structural = of_cases(network(loss), loss, kind, ragged)
    for number, problem in enumerate(problems(loss, kind, ragged)):
        with case(number):
            objective = problem.feed(0, 0)
            theta, v = objective.start(), direction(problem.model)
            found, slopes = objective.gradient(theta)
            assert found == pytest.approx(cost)
            assert objective.loss(theta) == pytest.approx(cost)
            np.testing.assert_allclose(slopes, g, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(objective.curvature(theta)(v), bend, rtol=1e-9, atol=1e-12)
            damped = objective.curvature(theta, 0.5)(v)
            np.testing.assert_allclose(damped, bend + 0.5 * structural, rtol=1e-9, atol=1e-12)


def stepped(problem: rnn.Arrays | rnn.GraphCases, optimizer: rnn.optimizers.Optimizer) -> Array:
    objective = problem.feed(0, 0)
    theta = objective.start()
    state = optimizer.init(theta, objective)
    optimizer.step(objective, theta, state)
    return theta


@pytest.mark.parametrize("name", rnn.optimizers.ALL)
def test_steps_do_not_depend_on_batches(name: str) -> None:
    optimizer = rnn.optimizers.ALL[name]()
    if hasattr(optimizer, "cg_steps"):  # CG steps beyond the number of cases only have rounding errors
        optimizer = replace(optimizer, cg_steps=8)
    for loss, kind, ragged in (
        ("squared", "values", True),
        ("softmax", "steps", True),
        ("softmax", "cases", False),
    ):
        with case(loss, kind, ragged):
            whole, *cut = [stepped(problem, optimizer) for problem in problems(loss, kind, ragged)]
            assert np.isfinite(whole).all()
            for found in cut:
                np.testing.assert_allclose(found, whole, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", METRICS)
def test_steps_with_a_metric_do_not_depend_on_batches(name: str) -> None:
    for kind, loss, ragged in (
        (None, "softmax", True),
        ("steps", "softmax", False),
        ("values", "squared", True),
    ):
        with case(kind, loss, ragged):
            for optimizer in (
                rnn.NaturalGradient(metric=METRICS[name]),
                rnn.Riemannian(metric=METRICS[name]),
            ):
                whole, *cut = [stepped(problem, optimizer) for problem in problems(loss, kind, ragged)]
                for found in cut:
                    np.testing.assert_allclose(found, whole, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", METRICS)
def test_steps_with_a_metric_on_graph_cases_do_not_depend_on_batches(name: str) -> None:
    given = data("softmax", None)
    arrays = {"x": given["inputs"], "t": given["targets"], "lengths": LENGTHS}

    def problem(batch: int) -> rnn.GraphCases:
        net = network("softmax")
        return rnn.GraphCases(
            net, arrays, batch=batch, gradient_batches=CASES // batch, valid=None,
            graph=lambda batch, **how: net.unroll(TIME, batch, initial="zero", lengths=True, **how),
        )  # fmt: skip

    optimizer = rnn.NaturalGradient(metric=METRICS[name])
    np.testing.assert_allclose(
        *(stepped(problem(batch), optimizer) for batch in (3, CASES)), rtol=1e-6, atol=1e-7
    )


def test_weights_of_equal_cases_change_no_step() -> None:
    """Copies of one case have the same mean for any weights, and so the same relative damping."""
    x, t = (np.repeat(np.random.default_rng(seed).normal(size=(3, 1, 2)), 6, axis=1) for seed in (0, 1))
    for over_time in ("independent", "linear", "symmetric"):
        metric, steps = rnn.riemannian.Kronecker(sampled=False, over_time=over_time), []
        for weights in ([1] * 6, [1, 0, 0, 0, 0, 0], [1] + [1e-6] * 5, [1] * 3 + [0.1] * 3):
            net = rnn.Network([rnn.Elman(2)], 2, 2, loss="squared", reads="vectors", dtype="float64", seed=3)
            objective = rnn.Arrays(net, x, t, batch=6, valid=None, weights=weights).feed(0, 0)
            _, g, numbers = objective.metric(objective.start(), metric)
            steps.append(objective.metric_solver(metric, "all", numbers)(g))
        for step in steps[1:]:
            with case(over_time):
                np.testing.assert_allclose(step, steps[0], rtol=1e-9)


def test_cases_without_a_scored_step_have_no_metrics() -> None:
    net = rnn.Network([rnn.Elman(4)], 2, 2)
    net.theta = net.theta * 0
    net.parameters["output.b_o"].value = np.array([9, 0], "float32")  # predicts class 0, as all targets are
    graph = lambda batch, **how: net.unroll(3, batch, initial="zero", lengths=True, **how)
    zeros = np.zeros((3, 4), int)
    arrays = {"x": zeros, "t": zeros, "lengths": np.array([3, 0, 2, 0])}
    metrics = rnn.GraphCases(net, arrays, graph=graph, valid=arrays).metrics()
    assert {name: metric() for name, metric in metrics.items()} == {"accuracy": 1.0, "exact": 1.0}


def test_metrics_of_cases_without_weight_may_be_nan() -> None:
    net = rnn.Network([rnn.GRU(3)], 1, 1, loss="squared")

    def graph(batch: int, **how: Any) -> Any:
        u, scale = net.unroll(5, batch, initial="zero"), gn.input((batch,), name="scale")
        return gn.sum(u.losses, axis=0) + 0 * scale, {"relative": gn.minimum(scale, 1.0) / scale}

    x, scale = np.zeros((5, 4, 1)), np.array([1.0, 2.0, 0.0, 4.0])
    arrays = {"x": x, "t": x, "scale": scale}
    problem = rnn.GraphCases(net, arrays, graph=graph, weights=scale > 0, valid=0.75)
    assert problem.metrics()["relative"]() == pytest.approx(0.375)


@pytest.mark.parametrize("optimizer", [
    rnn.NaturalGradient("kfac"), rnn.NaturalGradient("rms"), rnn.Riemannian("qdruop"),
    rnn.HessianFree(preconditioner="kfac", cg_steps=5),
])  # fmt: skip
def test_steps_without_a_target_change_nothing(optimizer: Any) -> None:
    generator = np.random.default_rng(0)
    x, t = generator.normal(size=(3, 6, 2)), generator.normal(size=(3, 6, 1))
    t[:, 1:5] = np.nan
    net = rnn.Network([rnn.Elman(2)], 2, 1, loss="squared")
    problem = rnn.Arrays(net, x, t, batch=1, weights=~np.isnan(t), valid=None)
    outcome = rnn.Trainer(problem, rnn.Training(optimizer, epochs=2, stopping=None)).run()
    assert outcome.steps == 12
    assert 0 < outcome.best < 2


def test_curvature_batches_have_targets() -> None:
    generator = np.random.default_rng(0)
    x, t = generator.normal(size=(3, 6, 2)), generator.normal(size=(3, 6, 1))
    t[:, ::2] = np.nan
    net = rnn.Network([rnn.Elman(2)], 2, 1, loss="squared")
    problem = rnn.Arrays(net, x, t, batch=1, gradient_batches=6, weights=~np.isnan(t), valid=None)
    for epoch in range(5):
        assert problem.feed(epoch, 0).loss(net.theta) > 0
