"""The map of attention: what is dark is where it looks."""

from __future__ import annotations

import numpy as np
import pytest

import viz
from tests.tables import case


def test_rows_are_steps_and_columns_places() -> None:
    shares = np.array([[0.1, 0.9, 0.0], [1.0, 0.0, 0.0]])
    (axes,) = viz.attention_map(shares, read="abc", written=["x", "y"]).axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), shares)
    assert image.get_clim() == (0, 1)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]


def test_what_is_no_map_is_told() -> None:
    for shares, how, said in [
        (np.ones((2, 3, 4)), {}, "shares must be (steps, places) of one case, not [2, 3, 4]"),
        (np.full((2, 2), 3.0), {}, "shares must be in 0 ... 1, not 3 ... 3"),
        (np.full((2, 2), np.nan), {}, "shares must be in 0 ... 1"),
        ("here", {}, "shares must be an array, not 'here'"),
        (np.ones((2, 2)), {"read": "abc"}, "read must be 2, not 3"),
    ]:
        with case(shares, how, said):
            with pytest.raises(viz.DrawingError) as caught:
                viz.attention_map(shares, **how)
            assert said in str(caught.value)


def test_names_are_a_list() -> None:
    with pytest.raises(viz.DrawingError, match="attention_map: read must be 3 names, not 5"):
        viz.attention_map([[0.5, 0.5, 0.0]], read=5)
