"""Derivative matrices and per-example gradients with lengths, CTC and composed networks, against dense ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Node
from tests.tables import case as named

Array = Any

pytest.importorskip("scipy")

TIME, SYMBOLS, LENGTHS = 4, 3, np.array([2, 4, 3])
DRAW = np.random.default_rng(0)
X, T = DRAW.integers(0, SYMBOLS, (2, TIME, 3))
LABELS = np.array([[0, -1], [1, 0], [1, -1]])


@dataclass
class Subject:
    """losses of cases, what they depend on, and an array for each input."""

    losses: Node
    parameters: dict[str, Node]
    feed: dict[Node, Array]

    @property
    def vector(self) -> Array:
        return np.concatenate([p.value.ravel() for p in self.parameters.values()])

    def at(self, w: Array) -> None:
        start = 0
        for p in self.parameters.values():
            p.value[...] = w[start : start + p.value.size].reshape(p.shape)
            start += p.value.size

    def jacobian(self, nodes: list[Node]) -> Array:
        """By differences in every weight."""
        function = gn.compile(nodes, list(self.feed), backend="numpy")
        w, columns = self.vector, []
        for direction in 1e-5 * np.eye(len(w)):
            ends = []
            for point in (w + direction, w - direction):
                self.at(point)
                ends.append(np.concatenate([found.ravel() for found in function(*self.feed.values())]))
            columns.append((ends[0] - ends[1]) / 2e-5)
        self.at(w)
        return np.stack(columns, axis=1)


def network(loss: str, **how: Any) -> rnn.Network:
    return rnn.Network([rnn.GRU(2), rnn.Elman(2)], SYMBOLS, SYMBOLS, loss, dtype="float64", seed=1, **how)


def ragged(cases: list[int], alone: bool) -> Subject:
    net = network("softmax")
    u = net.unroll(LENGTHS[cases[0]] if alone else TIME, len(cases), initial="zero", lengths=not alone)
    x, t = X[: u.time, cases], T[: u.time, cases]
    feed = {u.inputs: x, u.targets: t} | ({} if alone else {u.lengths: LENGTHS[cases]})
    return Subject(gn.sum(u.losses, axis=0), net.parameters, feed)


def both_ways(cases: list[int], alone: bool) -> Subject:
    how = {"dtype": "float64", "pool": "mean", "reads": "symbols"}
    net = rnn.Network([rnn.Bidirectional(rnn.GRU(2))], SYMBOLS, 2, **how)
    u = net.unroll(LENGTHS[cases[0]] if alone else TIME, len(cases), initial="zero", lengths=not alone)
    feed = {u.inputs: X[: u.time, cases], u.targets: T[0, cases] % 2}
    return Subject(u.losses, net.parameters, feed | ({} if alone else {u.lengths: LENGTHS[cases]}))


def aligned(cases: list[int], alone: bool) -> Subject:
    net = network("ctc", reads="symbols")
    time = LENGTHS[cases[0]] if alone else TIME
    u = net.unroll(time, len(cases), initial="zero", lengths=not alone, labels=2)
    feed = {u.inputs: X[: u.time, cases], u.targets: LABELS[cases]}
    return Subject(u.losses, net.parameters, feed | ({} if alone else {u.lengths: LENGTHS[cases]}))


def composed(cases: list[int], alone: bool) -> Subject:
    """An encoder and a decoder that looks at it."""
    encoder = rnn.Network([rnn.Elman(2)], SYMBOLS, 0, dtype="float64", reads="symbols")
    cell = rnn.Attention(rnn.Elman(2), memory=2, places=LENGTHS[cases[0]] if alone else TIME, score="dot")
    decoder = rnn.Network([cell], SYMBOLS, SYMBOLS, dtype="float64", seed=1)
    e = encoder.unroll(cell.places, len(cases), initial="zero", lengths=not alone)
    d = decoder.unroll(2, len(cases), initial=rnn.attention_memory(e.hidden[-1], e.lengths))
    feed = {e.inputs: X[: cell.places, cases], d.inputs: T[:2, cases], d.targets: T[1:3, cases]}
    both = ("e", encoder), ("d", decoder)
    parameters = {f"{n}.{k}": p for n, net in both for k, p in net.parameters.items()}
    feed |= {} if alone else {e.lengths: LENGTHS[cases]}
    return Subject(gn.sum(d.losses, axis=0), parameters, feed)


SUBJECTS: dict[str, Callable[[list[int], bool], Subject]] = {
    "lengths": ragged, "both ways, pooled": both_ways, "ctc": aligned, "composed, attention": composed,
}  # fmt: skip


def of(name: str) -> Subject:
    return SUBJECTS[name]([0, 1, 2], False)


def dense(kind: str, outputs: Node, subject: Subject, **how: Any) -> Array:
    operator = gn.linear_operator(kind, outputs, subject.parameters, subject.feed, **how)
    return operator.matmat(np.eye(operator.shape[1]))


def test_per_example_gradients_are_rows_of_the_jacobian() -> None:
    """Against differences; so are J, its transpose, and F = JᵀJ / B."""
    for name in SUBJECTS:
        with named(name):
            subject = of(name)
            J = subject.jacobian([subject.losses])
            assert all(np.abs(row).max() > 1e-3 for row in J)
            each = gn.per_example_gradients(subject.losses, subject.parameters, mixed=name == "ctc")
            for how in ({}, {"backend": "numpy"}):
                found = gn.compile(each, list(subject.feed), **how)(*subject.feed.values())
                rows = np.concatenate([g.reshape(3, -1) for g in found], axis=1)
                np.testing.assert_allclose(rows, J, rtol=1e-6, atol=1e-9)
            operator = gn.linear_operator("jacobian", subject.losses, subject.parameters, subject.feed)
            np.testing.assert_allclose(operator.matmat(np.eye(J.shape[1])), J, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(operator.H.matmat(np.eye(3)), J.T, rtol=1e-6, atol=1e-9)
            fisher = dense("fisher", subject.losses, subject)
            np.testing.assert_allclose(fisher, J.T @ J / 3, rtol=1e-6, atol=1e-9)


def test_hessian_matches_finite_differences() -> None:
    for how, name in itertools.product([{}, {"memory": "sqrt"}], SUBJECTS):
        with named(how, name):
            subject = of(name)
            cost = gn.mean(subject.losses)
            expected = subject.jacobian(gn.gradient(cost, subject.parameters))
            found = dense("hessian", cost, subject, **how)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
            np.testing.assert_allclose(found, found.T, rtol=1e-9, atol=1e-12)


def test_curvature_is_the_mean_over_single_cases() -> None:
    """G of the mean of losses = the mean of the G of each case at its own length; it has no negative eigenvalue."""
    for name, make in SUBJECTS.items():
        with named(name):
            subject = of(name)
            found = dense("gauss-newton", gn.mean(subject.losses), subject)
            alone = [make([case], True) for case in range(3)]
            expected = np.mean([dense("gauss-newton", gn.sum(each.losses), each) for each in alone], axis=0)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
            values = np.linalg.eigvalsh(found)
            assert values.min() > -1e-10 * values.max()
            assert values.max() > 1e-2
