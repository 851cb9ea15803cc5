"""Groups of units: sources and slopes of every cell, equivalent formulas, and invalid arguments."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from graphnet.graph.node import Node
from graphnet_rnn.errors import TrainingError, UsageError
from graphnet_rnn.riemannian import moduli
from graphnet_rnn.riemannian.blocks import Full
from graphnet_rnn.riemannian.groups import UnitGroup, unit_groups
from graphnet_rnn.riemannian.kronecker import REDUCTIONS
from graphnet_rnn.riemannian.losses import Losses
from graphnet_rnn.riemannian.metrics import UNITWISE, Kronecker, OuterProduct
from graphnet_rnn.riemannian.rows import Rows
from tests.graphnet_rnn.riemannian.ollivier import quasi_diagonal
from tests.tables import case

#: Cells without weights in pre-activations.
WITHOUT = {"HMMFilter": "layer0.W_A[3, 3] enters Softmax"}
CELLS = sorted(set(rnn.cells.ALL) - set(WITHOUT))
#: Cells with different kinds of blocks; a Hyper cell alone would take ten seconds.
BLOCKS = [
    "Elman", "GLNN", "GraphLSTM", "GraphRNN", "LSTMPeephole", "LayerNormLSTM", "MRNN", "NARX", "RHN",
    "TensorRNN",
]  # fmt: skip


def made(name: str, initial: str = "learned") -> Any:
    """A network of the cell over four steps, with random parameters."""
    how = {"initial_state": "learned"} if initial == "learned" else {}
    net = rnn.Network([rnn.cells.ALL[name](3)], 3, 3, dtype="float64", seed=2, **how)
    net.theta = 0.5 * np.random.default_rng(0).standard_normal(net.theta.size)
    return net.unroll(4, 2, initial=initial)


def values(u: Any, nodes: list[Node]) -> list[Any]:
    draws = np.random.default_rng(1)
    arrays = [draws.integers(0, 3, node.shape) for node in (u.inputs, u.targets)]
    return [np.asarray(a) for a in gn.compile(nodes, [u.inputs, u.targets], backend="numpy")(*arrays)]


def test_sources_times_slopes_are_the_gradient() -> None:
    """Σ S ⊗ B over cases and steps equals the gradient: nothing is missing or counted twice."""
    for name, initial in itertools.product(CELLS, ["learned", "zero"]):
        with case(name, initial):
            u = made(name, initial)
            outputs, parameters = Losses(u.cost), list(u.network.parameters.values())
            groups = unit_groups(u.cost, parameters)
            weights = [incoming.weight for group in groups for incoming in group.incoming]
            reached = [p for p in parameters if p in set(weights)]
            assert sorted(w.serial for w in weights) == sorted(p.serial for p in reached)
            B = moduli.slopes(outputs, groups)
            found = []
            for group, slopes in zip(groups, B, strict=True):
                rows = Rows(group, slopes)
                found += [rows.weighed(number) for number in range(len(group.incoming))]
            expected = gn.backward({u.cost: outputs.scale}, weights)
            for weight, a, b in zip(weights, values(u, found), values(u, expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=str(weight.name))
            for p in parameters:
                if p not in reached:
                    assert not values(u, gn.gradient(u.cost, [p]))[0].any()


def dense(group: UnitGroup, rows: Rows, u: Any) -> Any:
    """(symbols, units, d, d): Σ m S Sᵀ row by row"""
    *sources, m = values(u, [*rows.sources, rows.m])
    symbol = np.zeros(len(m), int) if rows.symbol is None else values(u, [rows.symbol])[0]
    listed = []
    for incoming, source in zip(group.incoming, sources, strict=True):
        places, columns = incoming.places(group.units), incoming.features(group.units)
        read = source[:, columns] if incoming.kind != "bias" else source[:, :1, None]
        read = np.where(places >= 0, read, 0)
        listed.append(np.broadcast_to(read, (len(m), group.units, read.shape[2])))
    S = np.concatenate(listed, axis=2)
    M = np.zeros((group.symbols, group.units, S.shape[2], S.shape[2]))
    np.add.at(M, symbol, m[:, :, None, None] * S[:, :, :, None] * S[:, :, None])
    return M


@pytest.mark.slow
def test_blocks_are_sums_of_outer_products() -> None:
    for name in BLOCKS:
        u = made(name)
        groups = unit_groups(u.cost, u.network.parameters.values())
        for group, B in zip(groups, moduli.slopes(Losses(u.cost), groups), strict=True):
            with case(name, group):
                rows = Rows(group, [b * b for b in B])
                M = dense(group, rows, u)
                (found,) = values(u, Full(rows).nodes())
                np.testing.assert_allclose(found.reshape(M.shape), M, rtol=1e-9, atol=1e-12)
                g = [np.random.default_rng(4).standard_normal(i.weight.shape) for i in group.incoming]
                for reduction in UNITWISE:
                    block = REDUCTIONS[reduction](rows)
                    solved = block.solver(values(u, block.nodes()), 0.1, 0.2)(g)
                    for a, b in zip(solved, _solved(group, M, g, reduction), strict=True):
                        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-11, err_msg=reduction)


def _solved(group: UnitGroup, M: Any, g: list[Any], reduction: str) -> list[Any]:
    """Solves with dense matrices; the quasi-diagonal inverse is that of Ollivier 2013, eqs 34-35."""
    found = [np.zeros(a.shape) for a in g]
    starts = np.cumsum([0, *(i.places(group.units).shape[1] for i in group.incoming)])
    for y, j in itertools.product(range(group.symbols), range(group.units)):
        entries = [
            (w, k, start + n)
            for w, (i, start) in enumerate(zip(group.incoming, starts, strict=False))
            for n, k in enumerate(i.places(group.units)[j])
            if k >= 0
        ]
        entries.sort(key=lambda entry: group.incoming[entry[0]] is not group.bias)  # the bias first
        at = [e[2] for e in entries]
        block = M[y, j][np.ix_(at, at)] + 0.3 * np.eye(len(at))
        right = np.array([g[w].reshape(group.symbols, -1)[y, k] for w, k, _ in entries])
        if reduction == "full":
            step = np.linalg.solve(block, right)
        elif reduction == "diagonal" or group.bias is None:
            step = right / np.diag(block)
        else:
            step = quasi_diagonal(right, np.diag(block), block[0])
        for (w, k, _), value in zip(entries, step, strict=True):
            found[w].reshape(group.symbols, -1)[y, k] = value
    return found


#: Form -> (pre-activation V, factors of W, U and b in it).
FORMS: dict[str, tuple[Any, tuple[float, float, float]]] = {
    "plain": (lambda x, h, W, U, b: x @ W + h @ U + b, (1, 1, 1)),
    "a product subtracted": (lambda x, h, W, U, b: h @ U - x @ W + b, (-1, 1, 1)),
    "a bias subtracted": (lambda x, h, W, U, b: h @ U + x @ W - b, (1, 1, -1)),
    "all negative": (lambda x, h, W, U, b: -(x @ W + h @ U + b), (-1, -1, -1)),
    "a negative product": (lambda x, h, W, U, b: -(x @ W) + h @ U + b, (-1, 1, 1)),
    "scaled": (lambda x, h, W, U, b: 2 * (x @ W) + (h @ U) * gn.constant(0.5) + b, (2, 0.5, 1)),
    "divided": (lambda x, h, W, U, b: (x @ W + h @ U) / 4 + b, (0.25, 0.25, 1)),
    "a bias twice": (lambda x, h, W, U, b: x @ W + b + h @ U + b, (1, 1, 2)),
    "a product twice": (lambda x, h, W, U, b: x @ W + (h @ U + x @ W) + b, (2, 1, 1)),
    "nested": (lambda x, h, W, U, b: 1 - (x @ W + b) + 3 * -(h @ U), (-1, -3, -1)),
    "labelled": (lambda x, h, W, U, b: gn.label(x @ W - h @ U, "V") + b, (1, -1, 1)),
}


def test_steps_are_invariant_to_rescaled_weights() -> None:
    """Without damping, a network with rescaled weights takes the same rescaled steps."""
    draws = np.random.default_rng(5).standard_normal
    cases = draws((12, 2)), draws((12, 3)), draws((12, 3))
    plain = {"W": draws((2, 3)), "U": draws((3, 3)), "b": draws(3)}

    def steps(write: Any, factors: tuple[float, ...], shift: float, reduction: str) -> list[Any]:
        """Steps, converted to the plain weights."""
        weights = [gn.parameter(w / c, name) for (name, w), c in zip(plain.items(), factors, strict=True)]
        x, h, t = inputs = [gn.input(a.shape, "float64") for a in cases]
        o = gn.tanh(write(x, h, *weights) + shift) @ np.eye(3)[::-1]
        objective = rnn.Objective(gn.sum(gn.squared_error(o, t)), weights, inputs)
        objective.feed(*cases)
        metric = OuterProduct(reduction, damping=0.0)
        _, g, numbers = objective.metric(objective.start(), metric)
        step = objective.metric_solver(metric, "all", numbers)(g)
        assert len(unit_groups(objective.cost, weights)) == 1
        return [c * step[each] for c, each in zip(factors, objective.slices, strict=True)]

    for (form, (write, scales)), reduction in itertools.product(FORMS.items(), UNITWISE):
        with case(form, reduction):
            expected = steps(*FORMS["plain"], 1.0 if form == "nested" else 0.0, reduction)
            for a, b in zip(expected, steps(write, scales, 0.0, reduction), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-9)


def test_parameters_without_units_are_named() -> None:
    for name, words in WITHOUT.items():
        u = made(name)
        with case(name), pytest.raises(UsageError, match=re.escape(words)):
            unit_groups(u.cost, u.network.parameters.values())


def fed() -> tuple[Any, Any]:
    """Returns an objective and its network."""
    net = rnn.Network([rnn.Elman(2)], 2, 2, loss="squared", dtype="float64")
    u = net.unroll(3, batch=2, initial="zero")
    objective = rnn.Objective(u.cost, net.parameters, [u.inputs, u.targets])
    x, t = np.ones((3, 2, 2)), np.zeros((3, 2, 2))
    objective.feed(x, t)
    return objective, net


M = OuterProduct()
BAD: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda o, w, n: o.metric(w, None), "metric must be one of"),
    (lambda o, w, n: o.metric(w, OuterProduct), "metric must be one of"),
    (lambda o, w, n: o.metric(w, M, "both"), "part .* not 'both'"),
    (lambda o, w, n: o.metric(w, M, "all", -1), "draw .* not -1"),
    (lambda o, w, n: o.metric(w[:3], M), r"the vector has shape \[3\]"),
    (lambda o, w, n: o.metric_solver(M, "all", None), "numbers must be"),
    (lambda o, w, n: o.metric_solver(Kronecker(), "all", o.metric(w, M)[2]), "numbers must be"),
    (lambda o, w, n: o.metric_solver(M, "all", o.metric(w, M)[2])(w[:3]), r"the vector has shape \[3\]"),
    (lambda o, w, n: o.metric_solver(M, "all", o.metric(w, M)[2], -1), "damping .* not -1"),
    (lambda o, w, n: unit_groups(None, n.parameters), "cost must be a node, not None"),
    (lambda o, w, n: unit_groups(n.parameters["output.b_o"], [w]), "parameters must be parameter nodes"),
    (lambda o, w, n: unit_groups(n.parameters["output.b_o"], None), "parameters must be a list"),
    (lambda o, w, n: Kronecker("full"), "reduction must be 'kronecker'"),
]


def test_invalid_arguments_are_rejected() -> None:
    objective, net = fed()
    assert len(unit_groups(objective.cost, net.parameters)) == 2, "a mapping will do"
    for ask, words in BAD:
        with case(words), pytest.raises(GraphnetError, match=words):
            ask(objective, objective.start(), net)


def test_singular_metric_error_names_the_units() -> None:
    """One or all inputs are 0, NaN or infinite."""
    one = [OuterProduct(each, damping=0.0) for each in UNITWISE]
    over_time = [Kronecker(over_time=how, damping=0.0) for how in ("independent", "symmetric", "linear")]
    cases = [*itertools.product([0.0, np.nan, np.inf], one, [1])]
    cases += itertools.product([0.0, np.nan, np.inf, 1e300], over_time, [slice(None)])
    for value, metric, inputs in cases:
        with case(value, metric), np.errstate(all="ignore"):
            objective, _ = fed()
            x = np.ones((3, 2, 2))
            x[..., inputs] = value
            objective.feed(x, np.zeros((3, 2, 2)))
            g, numbers = objective.metric(objective.start(), metric, "hidden")[1:]
            words = "2 units of layer0.W_xh.*" if inputs == 1 else ".*"
            with pytest.raises(TrainingError, match=rf"the metric of {words} is singular"):
                objective.metric_solver(metric, "hidden", numbers)(g)
