"""Kronecker factors against their definition, dense."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    function = gn.compile(nodes, [u.inputs, u.targets])
    return [
        np.asarray(a)
        for a in function(draws.integers(0, 3, (TIME, BATCH)), draws.integers(0, 3, (TIME, BATCH)))
    ]


def test_steps_are_those_of_the_dense_matrix() -> None:
    """M of all weights of a group: covariances of all pairs of steps, by powers of what carries a step to the next."""
    for kind in [Kronecker, KroneckerSymmetric, KroneckerOverTime]:
        with case(kind):
            u = unrolled(rnn.Elman(2))
            outputs = moduli.Outputs(u.cost)
            groups = unit_groups(u.cost, u.network.parameters.values())
            for group, B in zip(groups, moduli.slopes(outputs, groups), strict=True):
                rows = Rows(group, B)
                block = kind(rows)
                found = values(u, [*block.nodes(), rows.m, *rows.sources])
                m, S = found[len(block.nodes())], np.concatenate(found[len(block.nodes()) + 1 :], axis=1)
                count, epsilon = TIME * BATCH, 0.05
                A, G = S.T @ S / count, m.T @ m
                pi = np.sqrt((np.trace(A) / len(A)) / (np.trace(G) / len(G)))
                A, G = (
                    A + pi * np.sqrt(epsilon * count) * np.eye(len(A)),
                    G + np.sqrt(epsilon * count) / pi * np.eye(len(G)),
                )
                M = np.kron(A, G)
                if kind is not Kronecker:
                    lag_A, lag_G = S[:-BATCH].T @ S[BATCH:] / count, m[:-BATCH].T @ m[BATCH:]
                    carried = np.kron(
                        *(_white(x, lag, kind is KroneckerSymmetric) for x, lag in ((A, lag_A), (G, lag_G)))
                    )
                    M = M.copy()
                    power = np.eye(len(M))
                    for _ in range(400):
                        power = power @ carried
                        M += power @ np.kron(A, G) + (power @ np.kron(A, G)).T
                draws = np.random.default_rng(3)
                g = [draws.standard_normal(incoming.weight.shape) for incoming in group.incoming]
                solved = block.solver(found[: len(block.nodes())], epsilon)(g)
                whole = np.concatenate([np.atleast_2d(a) for a in g]).ravel()
                step = np.concatenate([np.atleast_2d(a) for a in solved]).ravel()
                np.testing.assert_allclose(step, np.linalg.solve(M, whole), rtol=1e-6, atol=1e-9)


def _white(M: Array, lag: Array, symmetric: bool) -> Array:
    """What carries a step to the next; for a symmetric one, where M is white."""
    if not symmetric:
        found: Array = lag.T @ np.linalg.inv(M)
        return found
    values_, vectors = np.linalg.eigh(M)
    root, inverse = (vectors * values_**p @ vectors.T for p in (0.5, -0.5))
    white = inverse @ lag.T @ inverse
    carried: Array = root @ (white + white.T) / 2 @ inverse
    return carried


def test_drawn_slopes_have_the_covariance_of_the_fisher_metric() -> None:
    """Of a net without recurrence the mean over draws is the Gauss-Newton matrix of each pre-activation."""
    net = rnn.Network([rnn.Dense(2)], 3, 3, dtype="float64", seed=2)
    u = net.unroll(1, 1)
    outputs = moduli.Outputs(u.cost)
    groups = unit_groups(u.cost, net.parameters.values())
    random = gn.RandomSource(0)
    ((B,), _) = moduli.drawn_slopes(outputs, groups, random)
    function = gn.compile([B], [u.inputs, u.targets])
    x, t = np.array([[1]]), np.array([[2]])
    draws = []
    for _ in range(4000):
        random.redraw()
        draws.append(np.asarray(function(x, t)[0])[0])
    found = np.cov(np.array(draws).T, bias=True)
    V = groups[0].pre_activations[0].V
    columns = []
    for unit in np.eye(2):
        (product,) = gn.gauss_newton_product(u.cost, {V: gn.constant(unit[None])})
        columns.append(np.asarray(gn.compile([product], [u.inputs, u.targets])(x, t)[0])[0])
    np.testing.assert_allclose(found, np.array(columns), atol=0.1 * np.abs(columns).max())


def test_what_has_no_factors_has_a_diagonal() -> None:
    """Σ S² B² over cases and steps, and the damping of a mean, of the groups that no product makes."""
    for cell in [rnn.GLNN(3), rnn.LSTMPeephole(3)]:
        with case(cell):
            u = unrolled(cell)
            parameters = list(u.network.parameters.values())
            metric = metrics.Kronecker(damping=0.25, sampled=False)
            over = metrics.OverCost(metric, u.cost, parameters)
            squares = metrics.OverCost(
                metrics.OuterProduct("diagonal", "same", damping=0.0), u.cost, parameters
            )
            draws = np.random.default_rng(1)
            arrays = (draws.integers(0, 3, u.inputs.shape), draws.integers(0, 3, u.targets.shape))
            numbers = [
                np.concatenate(gn.compile(each.nodes(), [u.inputs, u.targets], backend="numpy")(*arrays))
                for each in (over, squares)
            ]
            g = {p: draws.standard_normal(p.shape) for p in parameters}
            found, plain = (each.solver(n)(g) for each, n in zip((over, squares), numbers, strict=True))
            tried = 0
            for block in over.blocks:
                group = block.group
                if not Kronecker.has_factors(group):
                    # Of steps at which a change counts: a forget gate before a state of 0 is none.
                    B = moduli.slopes(moduli.Outputs(u.cost), [group])[0]
                    slopes = gn.compile(B, [u.inputs, u.targets], backend="numpy")(*arrays)
                    rows = sum(int(np.any(b != 0, axis=1).sum()) for b in slopes)
                    for incoming in group.incoming:
                        w = incoming.weight
                        seen = plain[w] != 0
                        M = g[w][seen] / plain[w][seen]  # of the mean cost
                        scale = u.losses.size
                        expected = g[w][seen] / (M + 0.25 * rows / scale)
                        np.testing.assert_allclose(found[w][seen], expected, rtol=1e-8)
                        tried += 1
            assert tried
