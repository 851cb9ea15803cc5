"""Derivatives compared with central differences of the plain loop, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.others.cases import Arrays, Case
from graphnet.graph.node import Array


def error(case: Case, name: str, arrays: Arrays, size: int, results: Sequence[Array]) -> float:
    """The largest relative error of the derivatives along a direction; NaN if one is NaN."""
    exact = [np.asarray(a, np.float64) for a in arrays]
    point, others = exact[: case.wrt], exact[case.wrt :]
    if case.kind in ("Jv", "Hv"):
        others, directions = others[: -case.wrt], others[-case.wrt :]
    else:
        generator = np.random.default_rng(7)
        directions = [generator.standard_normal(a.shape) for a in point]

    def along(step: float) -> Any:
        moved = [a + step * d for a, d in zip(point, directions, strict=True)]
        found = case.cost(*moved, *others, *([size] if name == "window" else []))
        return np.sum(found**2) if case.kind == "Hv" else found

    paired = partial(zip, strict=True)
    derivatives = [np.asarray(g, np.float64) for g in results[1:]]
    found: Any
    match case.kind:
        case "Jv":
            (found,) = derivatives
            expected = slope(along)
        case "Hv":
            found = np.sum([np.sum(g * d) for g, d in paired(derivatives, directions)])
            e = 1e-3
            expected = (-along(2 * e) + 16 * along(e) - 30 * along(0) + 16 * along(-e) - along(-2 * e)) / (
                12 * e * e
            )
        case "each":
            found = sum(
                (g * d).reshape(len(g), -1).sum(1) for g, d in zip(derivatives, directions, strict=True)
            )
            expected = slope(along)
        case _:
            found = np.sum([np.sum(g * d) for g, d in paired(derivatives, directions)])
            expected = slope(along)
    return float(np.max(np.abs(found - expected)) / max(np.max(np.abs(expected)), 1e-30))


def slope(along: Callable[[float], Any]) -> Any:
    """d/de along(e) at 0, of order four."""
    e = 1e-4
    return (along(-2 * e) - 8 * along(-e) + 8 * along(e) - along(2 * e)) / (12 * e)
