"""Kronecker factors against an independent implementation: curvlinops', of a feed-forward net in PyTorch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from tests.tables import case

torch = pytest.importorskip("torch")
curvlinops = pytest.importorskip("curvlinops")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

SIZES, CASES = (4, 6, 5, 3), 50


def drawn() -> tuple[list[Array], Array, Array]:
    draws = np.random.default_rng(0)
    weights = []
    for n, m in pairwise(SIZES):
        weights += [draws.standard_normal((n, m)) / 2, draws.standard_normal(m) / 2]
    return weights, draws.standard_normal((CASES, SIZES[0])), draws.integers(0, SIZES[-1], CASES)


def test_steps_in_a_feed_forward_net() -> None:
    for damping in [1e-3, 0.1]:
        with case(damping):
            weights, x, y = drawn()
            parameters = [gn.parameter(w, f"w{i}") for i, w in enumerate(weights)]
            h: gn.Node = gn.input(x.shape, "float64", name="x")
            given, targets = h, gn.input(y.shape, "int64", name="y")
            for i in range(0, len(parameters), 2):
                a = h @ parameters[i] + parameters[i + 1]
                h = gn.tanh(a)
            cost = gn.mean(gn.softmax_cross_entropy(a, targets))
            objective = rnn.Objective(cost, {p.name: p for p in parameters}, [given, targets])
            objective.feed(x, y)
            metric = rnn.riemannian.Kronecker(damping=0.0, sampled=False)
            _, g, numbers = objective.metric(objective.start(), metric)
            step = objective.metric_solver(metric, "all", numbers, damping)(g)

            layers: list[Any] = []
            for i, (n, m) in enumerate(pairwise(SIZES)):
                linear = torch.nn.Linear(n, m, dtype=torch.float64)
                with torch.no_grad():
                    linear.weight.copy_(torch.as_tensor(weights[2 * i].T))
                    linear.bias.copy_(torch.as_tensor(weights[2 * i + 1]))
                layers += [linear, torch.nn.Tanh()]
            net, loss = torch.nn.Sequential(*layers[:-1]), torch.nn.CrossEntropyLoss()
            data = [(torch.as_tensor(x), torch.as_tensor(y))]
            kfac = curvlinops.KFACLinearOperator(
                net,
                loss,
                list(net.parameters()),
                data,
                fisher_type="empirical",
                separate_weight_and_bias=False,
            )
            inverse = curvlinops.KFACInverseLinearOperator(kfac, damping, use_heuristic_damping=True)
            slopes = torch.autograd.grad(loss(net(data[0][0]), data[0][1]), list(net.parameters()))
            expected = inverse @ [s.detach() for s in slopes]
            flat = np.concatenate([e.numpy().T.ravel() for e in expected])
            np.testing.assert_allclose(
                np.concatenate([s.numpy().T.ravel() for s in slopes]), g, rtol=1e-9, atol=1e-14
            )
            np.testing.assert_allclose(step, flat, rtol=1e-8)
