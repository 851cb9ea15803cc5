"""Walkthroughs: order of steps, and frames with the steps so far."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.graph.node import Node
from tests.tables import case
from viz.drawing.picture import Picture
from viz.drawing.render import installed_renderer
from viz.walkthrough import Walkthrough, _Layout

pytestmark = pytest.mark.skipif(installed_renderer() is None, reason="Graphviz")


def cost() -> Node:
    x, t = gn.input((4, 3), name="x"), gn.input((4, 2), name="t")
    return gn.mean(gn.squared_error(gn.tanh(x @ gn.parameter(np.ones((3, 2), "float32"), name="W")), t))


def captions(walk: Walkthrough) -> list[str]:
    return [caption for _, caption in walk.steps]


def test_steps_are_in_the_order_of_execution() -> None:
    forward = ["tanh: y = tanh(x)", "squared error: C = (y - t)²", "mean"]
    assert captions(viz.walkthrough(viz.draw(cost(), style="compact"))) == forward
    both = captions(viz.walkthrough(viz.mirror(cost())))
    assert both[:4] == [*forward, "∂cost/∂(mean)"]
    assert set(both[4:]) == {f"∂cost/∂({name})" for name in ("squared error", "tanh", "x", "t")}
    assert both.index("∂cost/∂(tanh)") < both.index("∂cost/∂(x)")
    u = rnn.Network([rnn.LSTM(4)], 3, 3).unroll(2, 1)
    steps = ["LSTM layer 0, step 1", "o_1", "LSTM layer 0, step 2", "o_2", "cross-entropy mean over 2 steps"]
    assert captions(viz.walkthrough(viz.draw(u))) == steps
    both_ways = captions(viz.walkthrough(viz.draw(rnn.Network([rnn.Bidirectional(rnn.GRU(3))], 3, 2))))
    assert [c for c in both_ways if "backward" in c] == [f"GRU layer 0 backward, step {n}" for n in (3, 2, 1)]
    closed = captions(viz.walkthrough(viz.mirror(u.cost, values=False)))
    assert closed[:5] == steps
    assert [c for c in closed[5:] if "LSTM" in c] == [f"∂cost/∂(LSTM layer 0, step {n})" for n in (2, 1)]


def test_each_frame_shows_the_steps_so_far() -> None:
    for name, drawing in {"open": viz.draw(rnn.GRU, style="compact"), "mirror": viz.mirror(cost())}.items():
        walk = viz.walkthrough(drawing, seconds=0.5)
        whole = np.asarray(Image.open(io.BytesIO(drawing._rendered("png"))).convert("RGB"), int)
        layout = _Layout(json.loads(drawing._rendered("json")), whole.shape[1])
        with Image.open(io.BytesIO(walk.gif)) as gif:
            assert gif.info["duration"] == 500
            assert getattr(gif, "n_frames", 1) in (len(walk.steps) + 1, len(walk.steps) + 2)
            for step in range(len(walk.steps) + 1):
                gif.seek(step)
                frame = np.asarray(gif.convert("RGB"), int)[: len(whole)]
                for n, (key, _) in enumerate(walk.steps):
                    left, top, right, bottom = map(int, layout.frame(layout.shapes[key], -6))
                    inside = slice(top, bottom), slice(left, right)
                    contrast, expected = np.ptp(frame[inside]), np.ptp(whole[inside])
                    with case(name, step, key):
                        assert (contrast > 0.8 * expected) if n < step else (contrast < 0.3 * expected)


def test_the_page_holds_picture_and_steps() -> None:
    walk = viz.walkthrough(viz.draw(cost()), seconds=2)
    assert not re.search(r"https?:(?!//www.w3.org)|src=", walk.html)
    data = json.loads(re.search(r"const {.*} = (.*);\n", walk.html)[1])  # type: ignore[index]
    assert data == {"steps": [list(step) for step in walk.steps], "seconds": 2}
    titles = re.findall("<title>(.*?)</title>", walk.html)
    assert all(key in titles for key, _ in walk.steps)


def test_labels_appear_with_their_edges() -> None:
    drawing = viz.draw(rnn.GRU, style="compact")
    assert isinstance(drawing.picture, Picture)
    labels = re.findall(r'class="node (\w+) (\w+)">\s*<title>label_', drawing.svg)
    assert labels == [(edge.tail, edge.head) for edge in drawing.picture.edges if edge.label]


def test_invalid_arguments_are_rejected() -> None:
    for call, message in (
        (lambda: viz.walkthrough(cost()), r"walkthrough: drawing must be a picture, such as viz\.draw"),
        (lambda: viz.walkthrough(viz.draw(cost()), seconds=0), "walkthrough: seconds must be .* > 0"),
        (lambda: viz.walkthrough(viz.draw(gn.input((2,), name="x"))), "no operators"),
    ):
        with case(message), pytest.raises(viz.DrawingError, match=message):
            call()


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg")
def test_video_duration_covers_all_steps(tmp_path: Path) -> None:
    walk = viz.walkthrough(viz.draw(cost()), seconds=0.5)
    walk.save(tmp_path / "a.mp4")
    probe = [
        "ffprobe",
        "-v",
        "error",
        "-show_entries",
        "format=duration",
        "-of",
        "csv=p=0",
        str(tmp_path / "a.mp4"),
    ]
    seconds = float(subprocess.run(probe, capture_output=True, check=True).stdout)
    assert seconds == pytest.approx(0.5 * (len(walk.steps) + 2), abs=0.1)


def test_video_needs_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(viz.DrawingError, match="needs the program ffmpeg"):
        _ = viz.walkthrough(viz.draw(cost())).mp4
