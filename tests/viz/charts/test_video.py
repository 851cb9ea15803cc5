"""Videos as strips and animations, weights as images: which pixel is where, and what is refused."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
from PIL import Image

import viz
from viz.animation import HEIGHT, MARGIN, NAME

VIDEO = np.random.default_rng(0).random((9, 12))


def test_a_strip_has_the_frames_that_were_asked_for() -> None:
    wide, other = VIDEO.reshape(9, 3, 4), 1 - VIDEO.reshape(9, 3, 4)
    axes = viz.filmstrip({"is": wide, "was": other}, count=3, every=2, first=1).axes
    for row, video in enumerate((wide, other)):
        for column, frame in enumerate((1, 3, 5)):
            np.testing.assert_array_equal(axes[3 * row + column].images[0].get_array(), video[frame])
    assert [a.get_title(loc="left") for a in axes] == ["is", "", "", "was", "", ""]
    assert [[t.get_text() for t in a.texts] for a in axes] == [[], [], [], ["1"], ["3"], ["5"]]
    assert len(viz.filmstrip(VIDEO[:, :9], first=7).axes) == 2


def test_a_page_holds_every_pixel() -> None:
    page = viz.animation({"<is>": VIDEO.reshape(9, 3, 4)}, 25, "A & B").html
    assert "<title>A &amp; B</title>" in page
    assert not re.search(r"https?:|src=|href=", page)
    data = json.loads(re.search(r"const data = (.*);\n", page)[1])  # type: ignore[index]
    assert (data["time"], data["height"], data["width"], data["rate"]) == (9, 3, 4, 25)
    assert "<is>" not in page
    (video,) = data["videos"]
    pixels = np.frombuffer(base64.b64decode(video["pixels"]), np.uint8)
    np.testing.assert_array_equal(pixels, np.rint(255 * VIDEO).ravel())


def test_a_gif_moves(tmp_path: Path) -> None:
    video = np.zeros((4, 10, 10))
    for t in range(4):
        video[t, t, 2 * t] = 1
    shown = viz.animation({"is": video, "not": 1 - video}, 5)
    shown.save(tmp_path / "a.gif")
    by = HEIGHT // 10
    with Image.open(tmp_path / "a.gif") as gif:
        for t in range(4):
            gif.seek(t)
            image = np.array(gif.convert("L"))[MARGIN + NAME :, MARGIN:]
            middles = image[by // 2 : 10 * by : by, by // 2 :]
            np.testing.assert_array_equal(middles[:, : 10 * by : by], 255 * video[t])
            np.testing.assert_array_equal(
                middles[:, 10 * by + MARGIN :][:, : 10 * by : by], 255 * (1 - video[t])
            )
            assert gif.info["duration"] == 200
        assert (gif.n_frames, gif.info["loop"]) == (4, 0)  # type: ignore[attr-defined]
        size = gif.size
    bundle = shown._repr_mimebundle_()
    assert bundle["text/plain"] == "<Animation of 2 videos, 4 frames of 10 x 10 pixels>"
    shown_data = base64.b64decode(bundle["text/html"].split("base64,")[1].split('"')[0])
    assert Image.open(io.BytesIO(shown_data)).size == size
    shown.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == shown.html


def test_a_field_is_a_column_and_a_row_is_what_reaches_its_unit() -> None:
    W, between = np.arange(36.0).reshape(9, 4) - 20, np.arange(16.0).reshape(4, 4)
    left, right = viz.receptive_fields(W, between, units=3).axes[:2]
    tiles = left.images[0].get_array()
    assert tiles.shape == (7, 7)
    for n, (y, x) in enumerate(((0, 0), (0, 4), (4, 0))):
        np.testing.assert_array_equal(tiles[y : y + 3, x : x + 3], W[:, n].reshape(3, 3))
    np.testing.assert_array_equal(right.images[0].get_array(), between[:3, :3].T)
    lows, highs = zip(*(axes.images[0].get_clim() for axes in (left, right)), strict=True)
    assert lows == tuple(-high for high in highs)
    assert len(viz.receptive_fields(W.reshape(3, 3, 4)).axes) == 2  # the field, and its scale
