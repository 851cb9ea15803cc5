"""Products of few rows: wide panels, packed or read where they lie, by one core or shared by columns."""

from __future__ import annotations

import numpy as np
import pytest

import graphnet as gn

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("columns", [1, 17, 250, 401, 1100, 5137])
@pytest.mark.parametrize("turned", [False, True])
def test_every_way_is_the_product(rows: int, columns: int, turned: bool) -> None:
    inner = 70 if columns < 1000 else 263
    B = GENERATOR.standard_normal((columns, inner) if turned else (inner, columns))
    b = gn.parameter(B, name="B")
    a = GENERATOR.standard_normal((rows, inner))
    wanted = a @ (B.T if turned else B)
    found = []
    for varying in (False, True):
        x = gn.input((rows, inner), "float64", name="a", varying=varying)
        for threads in (1, 2):
            function = gn.compile([x @ (gn.transpose(b) if turned else b)], [x], threads=threads)
            found += function(a)
            if varying:
                other = GENERATOR.standard_normal(a.shape)
                np.testing.assert_allclose(
                    function.again(other)[0], other @ (B.T if turned else B), atol=1e-11
                )
                found += function.again(a)
    for each in found:
        np.testing.assert_allclose(each, wanted, rtol=1e-12, atol=1e-11)
    # Neither who does which columns nor when they were packed changes a bit; blocks of rows are another sum.
    for each in found[1:2]:
        np.testing.assert_array_equal(each, found[0])
    for each in found[3:]:
        np.testing.assert_array_equal(each, found[2])
