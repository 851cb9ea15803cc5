"""Joins of slices are the array that they were cut from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphnet as gn

ELEMENTS: dict[str, Callable[[gn.Node, gn.Node], gn.Node]] = {
    "a vector's, all": lambda v, m: gn.stack([v[k] for k in range(4)]),
    "a vector's, some": lambda v, m: gn.stack([v[1], v[2]]),
    "a vector's, each with a function": lambda v, m: gn.stack([gn.sin(v[k]) for k in range(4)]),
    "of a row": lambda v, m: gn.stack([m[1, 0], m[1, 1], m[1, 2]]),
    "rows": lambda v, m: gn.stack([m[0], m[1]]),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_single_elements(name: str) -> None:
    v, m = gn.input((4,), "float64"), gn.input((3, 3), "float64")
    arrays = [np.arange(4.0), np.arange(9.0).reshape(3, 3)]
    y = ELEMENTS[name](v, m)
    plain = gn.compile([y], [v, m], backend="numpy", passes=())(*arrays)[0]
    np.testing.assert_array_equal(gn.compile([y], [v, m])(*arrays)[0], plain)
