"""What a notebook is given of a picture: it fits the page, and shows itself where SVG is not trusted."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import pytest

import graphnet as gn
import viz
from viz.notebook import bundle_of


def test_a_wide_picture_shrinks_to_the_page_but_stays_legible():
    bundle = bundle_of('<svg width="900pt" height="90pt" viewBox="0 0 900 90"></svg>', "<a picture>")
    assert bundle["text/plain"] == "<a picture>"
    # 900 pt are 1200 pixels; less than half of them, nobody could read.
    assert "max-width:max(100%, 600px);height:auto" in bundle["text/html"]
    assert 'alt="&lt;a picture&gt;"' in bundle["text/html"]


def test_the_page_holds_the_same_picture():
    bundle = viz.draw(gn.tanh(gn.input((3,), name="x")))._repr_mimebundle_()
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])
    assert data is not None
    assert base64.b64decode(data[1]).decode() == bundle["image/svg+xml"]


def test_the_explorer_shows_itself_and_is_the_page_that_is_written(tmp_path):
    cost = gn.sum(gn.tanh(gn.input((3,), name="x<")))
    page = viz.explore(cost)
    bundle = page._repr_mimebundle_()
    (frame,) = ElementTree.fromstring(
        f"<p>{bundle['text/html']}</p>"
    )  # whatever is in the page, it is one attribute
    assert frame.tag == "iframe"
    assert " ".join(frame.attrib["srcdoc"].split()) == " ".join(page.html.split())
    written = viz.explore(cost, tmp_path / "a.html")
    assert written.read_text(encoding="utf-8") == page.html
    assert page.save(tmp_path / "b.html").read_bytes() == written.read_bytes()
    with pytest.raises(viz.DrawingError, match=r"suffix must be \.html"):
        page.save(tmp_path / "b.svg")


def test_charts_and_what_shows_itself_fit_as_well():
    pytest.importorskip("matplotlib")
    rows = [{"event": "epoch", "epoch": n, "valid_bits": 3 / n} for n in (1, 2)]
    for thing in (viz.training_curve(rows), gn.input((3,), name="x")):
        assert "max-width" in thing._repr_mimebundle_()["text/html"]
