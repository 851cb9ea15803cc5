"""What meets where, for every cell, however it is written."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Node
from graphnet_rnn.errors import UsageError
from graphnet_rnn.riemannian import moduli
from graphnet_rnn.riemannian.blocks import Full
from graphnet_rnn.riemannian.groups import UnitGroup, unit_groups
from graphnet_rnn.riemannian.metrics import UNITWISE, OuterProduct
from graphnet_rnn.riemannian.reductions import REDUCTIONS
from graphnet_rnn.riemannian.rows import Rows
from tests.tables import case

#: Cells whose weights enter no pre-activation.
WITHOUT = {"HMMFilter": "layer0.W_A[3, 3] enters Softmax"}
CELLS = sorted(set(rnn.cells.ALL) - set(WITHOUT))
#: Of blocks those whose weights enter as no other's do; a Hyper cell alone would take ten seconds.
BLOCKS = [
    "Elman",
    "GLNN",
    "GraphLSTM",
    "GraphRNN",
    "LSTMPeephole",
    "LayerNormLSTM",
    "MRNN",
    "NARX",
    "RHN",
    "TensorRNN",
]


def made(name: str, initial: str = "learned") -> Any:
    """A net of the cell over a few steps, with random parameters."""
    how = {"initial_state": "learned"} if initial == "learned" else {}
    net = rnn.Network([rnn.cells.ALL[name](3)], 3, 3, dtype="float64", seed=2, **how)
    net.theta = 0.5 * np.random.default_rng(0).standard_normal(net.theta.size)
    return net.unroll(4, 2, initial=initial)


def values(u: Any, nodes: list[Node]) -> list[Any]:
    draws = np.random.default_rng(1)
    return [
        np.asarray(a)
        for a in gn.compile(nodes, [u.inputs, u.targets], backend="numpy")(
            draws.integers(0, 3, u.inputs.shape), draws.integers(0, 3, u.targets.shape)
        )
    ]


def test_sources_times_slopes_are_the_gradient() -> None:
    """Σ S ⊗ B over cases and steps, entry by entry: so nothing is left out, and nothing is there twice."""
    for name, initial in itertools.product(CELLS, ["learned", "zero"]):
        with case(name, initial):
            u = made(name, initial)
            outputs, parameters = moduli.Outputs(u.cost), list(u.network.parameters.values())
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
        listed.append(
            np.where(places >= 0, source[:, columns] if incoming.kind != "bias" else source[:, :1, None], 0)
        )
    S = np.concatenate([np.broadcast_to(s, (len(m), group.units, s.shape[2])) for s in listed], axis=2)
    M = np.zeros((group.symbols, group.units, S.shape[2], S.shape[2]))
    for row in range(len(m)):
        for j in range(group.units):
            M[symbol[row], j] += m[row, j] * np.outer(S[row, j], S[row, j])
    return M


def test_blocks_are_sums_of_outer_products() -> None:
    for name in BLOCKS:
        with case(name):
            u = made(name)
            outputs = moduli.Outputs(u.cost)
            groups = unit_groups(u.cost, u.network.parameters.values())
            for group, B in zip(groups, moduli.slopes(outputs, groups), strict=True):
                rows = Rows(group, [b * b for b in B])
                M = dense(group, rows, u)
                (found,) = values(u, Full(rows).nodes())
                np.testing.assert_allclose(found.reshape(M.shape), M, rtol=1e-9, atol=1e-12)
                g = [np.random.default_rng(4).standard_normal(i.weight.shape) for i in group.incoming]
                for reduction in UNITWISE:
                    block = REDUCTIONS[reduction](rows)
                    solved = block.solver(values(u, block.nodes()), 0.1, 0.2)(g)
                    expected = _solved(group, M, g, reduction)
                    for a, b in zip(solved, expected, strict=True):
                        np.testing.assert_allclose(
                            a, b, rtol=1e-8, atol=1e-11, err_msg=f"{reduction} of {group}"
                        )


def _solved(group: UnitGroup, M: Any, g: list[Any], reduction: str) -> list[Any]:
    """By dense matrices: of the quasi-diagonal the inverse as Ollivier 2013 has it, eqs 34-35."""
    found = [np.zeros(a.shape) for a in g]
    starts = np.cumsum([0, *(i.places(group.units).shape[1] for i in group.incoming)])
    for y in range(group.symbols):
        for j in range(group.units):
            entries = [
                (w, k, start + n)
                for w, (i, start) in enumerate(zip(group.incoming, starts, strict=False))
                for n, k in enumerate(i.places(group.units)[j])
                if k >= 0
            ]
            at = [e[2] for e in entries]
            block = M[y, j][np.ix_(at, at)] + 0.3 * np.eye(len(at))
            right = np.array([g[w].reshape(group.symbols, -1)[y, k] for w, k, _ in entries])
            bias = [n for n, (w, _, _) in enumerate(entries) if group.incoming[w] is group.bias]
            if reduction == "full":
                step = np.linalg.solve(block, right)
            elif reduction == "diagonal" or not bias:
                step = right / np.diag(block)
            else:
                o = bias[0]
                cross, diagonal = block[o], np.diag(block)
                step = (right - right[o] * cross / diagonal[o]) / (
                    diagonal - cross**2 / diagonal[o] + (np.arange(len(at)) == o)
                )
                step[o] = 0
                step[o] = right[o] / diagonal[o] - (cross / diagonal[o]) @ step
            for (w, k, _), value in zip(entries, step, strict=True):
                found[w].reshape(group.symbols, -1)[y, k] = value
    return found


#: V as somebody may write it, and what W, U and b are multiplied by there.
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


def test_units_are_the_same_however_they_are_written() -> None:
    """The same net in weights that are multiples takes steps that are multiples, without damping."""
    for form, reduction in itertools.product(FORMS, UNITWISE):
        with case(form, reduction):
            write, scales = FORMS[form]
            draws = np.random.default_rng(5)
            cases = (
                draws.standard_normal((12, 2)),
                draws.standard_normal((12, 3)),
                draws.standard_normal((12, 3)),
            )
            plain = [draws.standard_normal(shape) for shape in ((2, 3), (3, 3), (3,))]
            steps = []
            for fn, factors in ((FORMS["plain"][0], (1, 1, 1)), (write, scales)):
                weights = [
                    gn.parameter(w / c, name=name)
                    for w, c, name in zip(plain, factors, ("W", "U", "b"), strict=True)
                ]
                inputs = [gn.input(a.shape, "float64") for a in cases]
                x, h, t = inputs
                shift = 1.0 if form == "nested" and fn is not write else 0.0
                V = fn(x, h, *weights) + shift
                cost = gn.sum(gn.squared_error(gn.tanh(V) @ np.eye(3)[::-1], t))
                objective = rnn.Objective(cost, weights, inputs)
                objective.feed(*cases)
                metric = OuterProduct(reduction, damping=0.0)
                _, g, numbers = objective.metric(objective.start(), metric)
                step = objective.metric_solver(metric, "all", numbers)(g)
                split = [step[each] for each in objective.slices]
                steps.append([c * part for c, part in zip(factors, split, strict=True)])
                assert len(unit_groups(cost, weights)) == 1
            for a, b in zip(*steps, strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-9)


def test_what_has_no_units_is_named() -> None:
    for name, words in WITHOUT.items():
        with case(name):
            u = made(name)
            with pytest.raises(UsageError, match=re.escape(words)):
                unit_groups(u.cost, u.network.parameters.values())
