"""The map of attention: what is dark is where it looks."""

from __future__ import annotations

import numpy as np

import viz


def test_rows_are_steps_and_columns_places() -> None:
    shares = np.array([[0.1, 0.9, 0.0], [1.0, 0.0, 0.0]])
    (axes,) = viz.attention_map(shares, read="abc", written=["x", "y"]).axes
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), shares)
    assert image.get_clim() == (0, 1)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]
