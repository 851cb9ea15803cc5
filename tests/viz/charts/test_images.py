"""Rows of images: each in its place, all on one scale."""

from __future__ import annotations

import numpy as np
import pytest

import viz
from tests.tables import case


def test_images_lie_below_those_that_they_are_made_of() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.random((3, 20)), generator.random((3, 4, 5))
    figure = viz.image_rows({"images": x, "net": y}, width=5, title="Curves")
    assert [axes.get_yticklabels()[0].get_text() for axes in figure.axes] == ["images", "net"]
    assert figure.axes[0].get_title(loc="left") == "Curves"
    for axes, images in zip(figure.axes, (x.reshape(3, 4, 5), y), strict=True):
        (drawn,) = axes.images
        strip = np.ma.filled(drawn.get_array(), np.nan)
        assert strip.shape == (4, 17)
        for i, image in enumerate(images):
            np.testing.assert_array_equal(strip[:, 6 * i : 6 * i + 5], image)
        assert np.isnan(strip[:, [5, 11]]).all()
        assert drawn.get_clim() == (x.min(), x.max())


def test_rows_of_pixels_are_squares_unless_a_width_is_given() -> None:
    (axes,) = viz.image_rows({"x": np.arange(32.0).reshape(2, 16)}).axes
    strip = np.ma.filled(axes.images[0].get_array(), np.nan)
    np.testing.assert_array_equal(strip[:, :4], np.arange(16).reshape(4, 4))


def test_what_does_not_fit_is_told() -> None:
    for rows, how, said in [
        ({}, {}, "rows holds nothing to draw"),
        ([np.ones((2, 4))], {}, "rows holds nothing to draw"),
        ({"x": np.ones((2, 5))}, {}, "the 5 pixels of x make no square; give width"),
        ({"x": np.ones((2, 6))}, {"width": 4}, "the 6 pixels of x are not rows of 4"),
        (
            {"x": np.ones(4)},
            {},
            "x must be finite numbers (count, pixels) or (count, rows, columns), not [4]",
        ),
        ({"x": np.full((1, 4), np.nan)}, {}, "x must be finite numbers"),
        ({"x": "walk"}, {}, "x must be an array (count, pixels), not 'walk'"),
        (
            {"x": np.ones((2, 4)), "y": np.ones((3, 4))},
            {},
            "y must be [2, 2, 2], as the first row is, not [3, 2, 2]",
        ),
    ]:
        with case(rows, how, said):
            with pytest.raises(viz.DrawingError) as caught:
                viz.image_rows(rows, **how)
            assert said in str(caught.value)
