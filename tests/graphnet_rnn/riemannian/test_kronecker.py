"""Kronecker factors against their definition, dense, and against curvlinops' of a net in PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.riemannian import metrics, moduli
from graphnet_rnn.riemannian.groups import unit_groups
from graphnet_rnn.riemannian.kronecker import Kronecker, KroneckerOverTime, KroneckerSymmetric
from graphnet_rnn.riemannian.rows import Rows
from tests.tables import case

TIME, BATCH = 5, 30


def unrolled(cell: rnn.Cell) -> Any:
    net = rnn.Network([cell], 3, 3, dtype="float64", seed=2)
    net.theta = 0.5 * np.random.default_rng(0).standard_normal(net.theta.size)
    return net.unroll(TIME, BATCH, initial="zero")


def values(u: Any, nodes: list[gn.Node]) -> list[Array]:
    draws = np.random.default_rng(1)
    arrays = [draws.integers(0, 3, (TIME, BATCH)) for _ in range(2)]
    return [np.asarray(a) for a in gn.compile(nodes, [u.inputs, u.targets])(*arrays)]


def test_steps_are_those_of_the_dense_matrix() -> None:
    """M of all weights of a group: covariances of all pairs of steps, by powers of what carries a step to the next."""
    u = unrolled(rnn.Elman(2))
    groups = unit_groups(u.cost, u.network.parameters.values())
    slopes = moduli.slopes(moduli.Outputs(u.cost), groups)
    for kind, (group, B) in itertools.product(
        [Kronecker, KroneckerSymmetric, KroneckerOverTime], zip(groups, slopes, strict=True)
    ):
        with case(kind, group):
            rows = Rows(group, B)
            block = kind(rows)
            numbers = values(u, block.nodes())
            m, *sources = values(u, [rows.m, *rows.sources])
            S, count, epsilon = np.concatenate(sources, axis=1), TIME * BATCH, 0.05
            A, G = S.T @ S / count, m.T @ m
            pi = np.sqrt((np.trace(A) / len(A)) / (np.trace(G) / len(G)))
            A = A + pi * np.sqrt(epsilon * count) * np.eye(len(A))
            G = G + np.sqrt(epsilon * count) / pi * np.eye(len(G))
            M = first = np.kron(A, G)
            if kind is not Kronecker:
                lags = S[:-BATCH].T @ S[BATCH:] / count, m[:-BATCH].T @ m[BATCH:]
                factors = zip((A, G), lags, strict=True)
                carried = np.kron(*(_white(x, lag, kind is KroneckerSymmetric) for x, lag in factors))
                for _ in range(400):
                    first = carried @ first
                    M = M + first + first.T
            g = [np.random.default_rng(3).standard_normal(each.weight.shape) for each in group.incoming]
            solved = block.solver(numbers, epsilon)(g)
            whole, step = (np.concatenate([np.atleast_2d(a) for a in each]).ravel() for each in (g, solved))
            np.testing.assert_allclose(step, np.linalg.solve(M, whole), rtol=1e-6, atol=1e-9)


def _white(M: Array, lag: Array, symmetric: bool) -> Array:
    """What carries a step to the next; for a symmetric one, where M is white."""
    if not symmetric:
        return lag.T @ np.linalg.inv(M)
    spectrum, vectors = np.linalg.eigh(M)
    root, inverse = (vectors * spectrum**p @ vectors.T for p in (0.5, -0.5))
    white = inverse @ lag.T @ inverse
    return root @ (white + white.T) / 2 @ inverse


def test_drawn_slopes_have_the_covariance_of_the_fisher_metric() -> None:
    """Of a net without recurrence the mean over draws is the Gauss-Newton matrix of each pre-activation."""
    net = rnn.Network([rnn.Dense(2)], 3, 3, dtype="float64", seed=2)
    u = net.unroll(1, 1)
    groups, random = unit_groups(u.cost, net.parameters.values()), gn.RandomSource(0)
    ((B,), _) = moduli.drawn_slopes(moduli.Outputs(u.cost), groups, random)
    given, V = np.array([[1]]), groups[0].pre_activations[0].V
    units = [gn.gauss_newton_product(u.cost, {V: gn.constant(unit[None])})[0] for unit in np.eye(2)]
    wanted = [np.asarray(row)[0] for row in gn.compile(units, [u.inputs, u.targets])(given, given)]
    function, draws = gn.compile([B], [u.inputs, u.targets]), []
    for _ in range(4000):
        random.redraw()
        draws.append(np.asarray(function(given, given)[0])[0])
    found = np.cov(np.array(draws).T, bias=True)
    np.testing.assert_allclose(found, np.array(wanted), atol=0.1 * np.abs(wanted).max())


def test_what_has_no_factors_has_a_diagonal() -> None:
    """Σ S² B² over cases and steps, and the damping of a mean, of the groups that no product makes."""
    for cell in [rnn.GLNN(3), rnn.LSTMPeephole(3)]:
        with case(cell):
            u = unrolled(cell)
            parameters = list(u.network.parameters.values())
            over = metrics.OverCost(metrics.Kronecker(damping=0.25, sampled=False), u.cost, parameters)
            undamped = metrics.OuterProduct("diagonal", "same", damping=0.0)
            squares = metrics.OverCost(undamped, u.cost, parameters)
            g = {p: np.random.default_rng(1).standard_normal(p.shape) for p in parameters}
            found, plain = (
                each.solver(np.concatenate(values(u, each.nodes())))(g) for each in (over, squares)
            )
            groups = [block.group for block in over.blocks if not Kronecker.has_factors(block.group)]
            assert groups
            for group in groups:
                # Of steps at which a change counts: a forget gate before a state of 0 is none.
                slopes = values(u, moduli.slopes(moduli.Outputs(u.cost), [group])[0])
                rows = sum(int(np.any(b != 0, axis=1).sum()) for b in slopes)
                for w in (incoming.weight for incoming in group.incoming):
                    seen = plain[w] != 0
                    M = g[w][seen] / plain[w][seen]  # of the mean cost
                    expected = g[w][seen] / (M + 0.25 * rows / u.losses.size)
                    np.testing.assert_allclose(found[w][seen], expected, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_steps_in_a_feed_forward_net_are_those_of_curvlinops() -> None:
    torch, curvlinops = pytest.importorskip("torch"), pytest.importorskip("curvlinops")
    draws = np.random.default_rng(0)
    sizes = list(itertools.pairwise((4, 6, 5, 3)))
    arrays = [(draws.standard_normal((n, m)) / 2, draws.standard_normal(m) / 2) for n, m in sizes]
    x, y = draws.standard_normal((50, 4)), draws.integers(0, 3, 50)

    layers: list[Any] = []
    parameters = []
    h = given = gn.input(x.shape, "float64", name="x")
    for i, (W, b) in enumerate(arrays):
        parameters += [gn.parameter(W, f"W{i}"), gn.parameter(b, f"b{i}")]
        a = h @ parameters[-2] + parameters[-1]
        h = gn.tanh(a)
        linear = torch.nn.Linear(*W.shape, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(W.T))
            linear.bias.copy_(torch.as_tensor(b))
        layers += [linear, torch.nn.Tanh()]
    targets = gn.input(y.shape, "int64", name="y")
    objective = rnn.Objective(gn.mean(gn.softmax_cross_entropy(a, targets)), parameters, [given, targets])
    objective.feed(x, y)
    metric = metrics.Kronecker(damping=0.0, sampled=False)
    _, g, numbers = objective.metric(objective.start(), metric)

    net, loss = torch.nn.Sequential(*layers[:-1]), torch.nn.CrossEntropyLoss()
    data, weights = (torch.as_tensor(x), torch.as_tensor(y)), list(net.parameters())
    slopes = torch.autograd.grad(loss(net(data[0]), data[1]), weights)
    kfac = curvlinops.KFACLinearOperator(
        net, loss, weights, [data], fisher_type="empirical", separate_weight_and_bias=False
    )
    flat = lambda tensors: np.concatenate([s.detach().numpy().T.ravel() for s in tensors])
    np.testing.assert_allclose(flat(slopes), g, rtol=1e-9, atol=1e-14)
    for damping in [1e-3, 0.1]:
        inverse = curvlinops.KFACInverseLinearOperator(kfac, damping, use_heuristic_damping=True)
        step = objective.metric_solver(metric, "all", numbers, damping)(g)
        np.testing.assert_allclose(step, flat(inverse @ list(slopes)), rtol=1e-8)
