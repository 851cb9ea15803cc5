"""Joins of slices are the array that they were cut from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import graphnet as gn
from tests.tables import case

ELEMENTS: dict[str, Callable[[gn.Node, gn.Node], gn.Node]] = {
    "a vector's, all": lambda v, m: gn.stack([v[k] for k in range(4)]),
    "a vector's, some": lambda v, m: gn.stack([v[1], v[2]]),
    "a vector's, each with a function": lambda v, m: gn.stack([gn.sin(v[k]) for k in range(4)]),
    "of a row": lambda v, m: gn.stack([m[1, 0], m[1, 1], m[1, 2]]),
    "rows": lambda v, m: gn.stack([m[0], m[1]]),
}


def test_single_elements() -> None:
    for name, build in ELEMENTS.items():
        with case(name):
            v, m = gn.input((4,), "float64"), gn.input((3, 3), "float64")
            arrays = [np.arange(4.0), np.arange(9.0).reshape(3, 3)]
            y = build(v, m)
            plain = gn.compile([y], [v, m], backend="numpy", passes=())(*arrays)[0]
            np.testing.assert_array_equal(gn.compile([y], [v, m])(*arrays)[0], plain)
