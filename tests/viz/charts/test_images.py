"""Rows of images: each in its place, all on one scale."""

from __future__ import annotations

import numpy as np

import viz


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
