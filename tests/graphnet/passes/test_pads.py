"""The cotangent of an array that was read a slice at a time takes an array for each layer, not for each read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import graphnet as gn
from graphnet.graph.graph import Graph
from graphnet.ops.shape import Pad
from graphnet.passes import simplify
from tests.tables import case

T = 12
#: What is read of x [12, 6] -> how many arrays of its size the sum of cotangents may have, pads and joins together.
READS: dict[str, tuple[Callable[[gn.Node], list[gn.Node]], int]] = {
    "each row": (lambda x: [x[t] for t in range(T)], 1),
    "each row, the first twice": (lambda x: [x[0], *(x[t] for t in range(T))], 1),
    "each row but some": (lambda x: [x[t] for t in range(T) if t not in (0, 4, 5, 11)], 1),
    "in pieces, with gaps": (lambda x: [x[1:3], x[3:4], x[7:9]], 1),
    "windows of three": (lambda x: [x[t : t + 3] for t in range(T - 2)], 3),
    "one row at each step": (lambda x: [x[3] for _ in range(T)], 1),
    "parts of rows": (lambda x: [part for t in range(T) for part in (x[t, :2], x[t, 2:5])], 1),
    "columns and elements": (lambda x: [*(x[:, j] for j in range(6)), *(x[t, 1] for t in range(T))], 3),
    "every other row": (lambda x: [x[::2], x[1::2], x[0], x[1]], 4),
    "rows, and the whole": (lambda x: [*(x[t] for t in range(T)), x], 2),
}


def test_sums_of_pads() -> None:
    for reads, (read, most) in READS.items():
        with case(reads):
            values = np.random.default_rng(0).standard_normal((T, 6))
            x = gn.input(values.shape, "float64")
            cost = gn.fill(0.0, (), "float64")
            expected = np.zeros_like(values)
            for factor, part in enumerate(read(x), start=1):
                cost = cost + factor * gn.sum(gn.sin(part))
            for factor, index in enumerate(
                read(gn.constant(np.arange(values.size).reshape(values.shape))), start=1
            ):
                at = gn.compile([index], [])()[0]
                expected.reshape(-1)[at] += factor * np.cos(values.reshape(-1)[at])
            gradient = gn.gradient(cost, [x])
            np.testing.assert_allclose(gn.compile(gradient, [x])(values)[0], expected, rtol=1e-12)
            (total,) = simplify(Graph(gradient)).outputs
            arrays = total.inputs if total.op.name == "Add" else (total,)
            assert len(arrays) <= most, [node.describe() for node in arrays]


def test_a_single_pad_is_left_alone() -> None:
    x = gn.input((T, 6), "float64")
    (g,) = gn.gradient(gn.sum(gn.sin(x[3])), [x])
    (simple,) = simplify(Graph([g])).outputs
    assert isinstance(simple.op, Pad)


def test_reading_each_step_costs_no_more_than_reading_all() -> None:
    """Memory of a run grows with T, not with T²."""
    for offset in (0, 1):
        peaks = []
        for steps in (200, 400):
            x = gn.input((steps, 8), "float64")
            cost = gn.sum(gn.sin(x[0]))
            for t in range(offset, steps):
                cost = cost + gn.sum(gn.sin(x[t]))
            peaks.append(gn.compile(gn.gradient(cost, [x]), [x]).memory.peak)
        assert peaks[1] <= 2.2 * peaks[0], peaks
