"""Subscripts look in a browser as they do in a PNG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import graphnet as gn
import viz
from tests.tables import case
from viz.drawing.render import RENDERERS
from viz.drawing.scripts import with_scripts

TEXT = '<text xml:space="preserve" x="15.16" y="-20.00" font-style="italic" {}font-size="10.00" fill="#fff">1</text>'


def test_smaller_and_moved() -> None:
    for kind, y in [("sub", "-18.00"), ("super", "-23.60")]:
        with case(kind, y):
            found = with_scripts(TEXT.format(f'baseline-shift="{kind}" '))
            assert found == TEXT.format("").replace("-20.00", y).replace("10.00", "7.20")


def test_other_text_is_left_alone() -> None:
    plain = TEXT.format("") + '<text x="1">baseline-shift="sub"</text>'
    assert with_scripts(plain) == plain


@pytest.mark.skipif(not any(r.is_there() for r in RENDERERS), reason="there is no Graphviz")
def test_in_a_picture() -> None:
    """The 1 of x₁ and the 2 of x² are smaller than the letters that they stand at, below and above them."""
    svg = viz.draw(gn.input((3,), name="x_1") ** 2).svg
    assert "baseline-shift" not in svg
    texts = [e for e in ET.fromstring(svg).iter() if e.tag.endswith("text")]
    sizes = {e.text: float(e.attrib["font-size"]) for e in texts}
    place = {e.text: float(e.attrib["y"]) for e in texts}
    (below, above), letters = (place["1"], place["2"]), [e for e in texts if e.text == "x"]
    assert max(sizes["1"], sizes["2"]) < sizes["x"]
    assert below > float(letters[0].attrib["y"])
    assert above < float(letters[1].attrib["y"])
