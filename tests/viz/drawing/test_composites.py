"""Composites are one operator in compact pictures; subscripts are smaller and shifted."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case
from viz.drawing.render import RENDERERS
from viz.drawing.scripts import with_scripts
from viz.style import Role


def symbols(drawing: viz.Drawing) -> list[str]:
    shapes = [s for s in drawing.picture.shapes if s.role is Role.OPERATOR]
    return sorted(re.sub("<.*?>", " ", shape.lines[0]) for shape in shapes)


def test_layer_norm_is_one_operator():
    for cell in [rnn.LayerNormLSTM, rnn.Normalized]:
        with case(cell):
            compact, full = viz.draw(cell, "compact"), viz.draw(cell, "full")
            norms = [symbol for symbol in symbols(compact) if symbol.startswith("layer norm")]
            own = ["c", "h", "x"] if cell is rnn.LayerNormLSTM else ["y"]
            assert [re.findall("[a-z]", norm[10:])[:2] for norm in norms] == [["g", name] for name in own]
            assert "√" not in symbols(compact)
            assert "√" in symbols(full)


def test_composites_keep_incoming_weights_and_the_place_of_outputs():
    x = gn.input((2, 3), name="x")
    w = gn.parameter(np.ones((3, 3), "float32"), name="W")
    a = x @ w
    with gn.scope(composite="square and more"):
        y = a * a + gn.exp(a)
    z = gn.tanh(y)
    picture = viz.draw(z, "compact").picture
    assert symbols(viz.draw(z, "compact")) == ["square and more", "tanh"]
    names = {shape.key: shape.lines[0] for shape in picture.shapes}
    edges = [(re.sub("<.*?>", "", names[e.tail]), re.sub("<.*?>", "", e.label)) for e in picture.edges]
    assert edges == [("x", "W"), ("squareandmore", "")]


def test_composites_of_one_name_and_with_two_outputs():
    x = h = gn.input((3,), name="x")
    with gn.scope(composite="twice"):
        a = gn.exp(gn.tanh(x))
        b = gn.exp(gn.sigmoid(x))
    assert symbols(viz.draw(a + b, "compact")) == ["+", "twice", "twice"]
    with gn.scope(composite="both"):
        c = gn.tanh(x)
        d = gn.exp(c)
    assert "both" not in symbols(viz.draw(c + d, "compact"))
    assert symbols(viz.draw(d, "compact")) == ["both"]
    for t in (1, 2):
        with gn.scope(composite="twice", time=t):
            h = gn.exp(gn.tanh(h))
    assert symbols(viz.draw(h, "compact", closed=False)) == ["twice", "twice"]


def test_constants_of_a_composite_are_inside():
    x, shared = gn.input((2, 3), name="x"), gn.constant(np.arange(3.0, dtype="float32"))
    with gn.scope(composite="shift"):
        y = gn.exp(x + gn.constant(np.ones((2, 3), "float32"))) * shared
    assert "constant" in str([shape.lines for shape in viz.draw([y, shared + 1], "compact").picture.shapes])
    drawing = viz.draw(y, "compact")
    assert symbols(drawing) == ["shift"]
    assert len(drawing.picture.shapes) == 2


def test_unnamed_constants_are_distinguished_from_k():
    k, x = gn.input((3,), "float64", name="k"), gn.constant(np.arange(3.0))
    lines = [shape.lines for shape in viz.draw(k * x, "full").picture.shapes]
    assert sum("k" in re.sub("<[^>]*>", "", line) for shape in lines for line in shape) == 1
    assert ("constant", "3") in lines


def test_scripts_are_smaller_and_moved() -> None:
    text = '<text xml:space="preserve" x="15.16" y="-20.00" {}font-size="10.00" fill="#fff">1</text>'
    for kind, y in [("sub", "-18.00"), ("super", "-23.60")]:
        found = with_scripts(text.format(f'baseline-shift="{kind}" '))
        assert found == text.format("").replace("-20.00", y).replace("10.00", "8.50"), kind
    plain = text.format("") + '<text x="1">baseline-shift="sub"</text>'
    assert with_scripts(plain) == plain


@pytest.mark.skipif(not any(r.is_there() for r in RENDERERS), reason="there is no Graphviz")
def test_scripts_in_a_picture() -> None:
    """The 1 of x₁ is smaller and below, the 2 of x² smaller and above."""
    svg = viz.draw(gn.input((3,), name="x_1") ** 2).svg
    assert "baseline-shift" not in svg
    texts = [e for e in ET.fromstring(svg).iter() if e.tag.endswith("text")]
    sizes = {e.text: float(e.attrib["font-size"]) for e in texts}
    place = {e.text: float(e.attrib["y"]) for e in texts}
    first, second = (float(e.attrib["y"]) for e in texts if e.text == "x")
    assert max(sizes["1"], sizes["2"]) < sizes["x"]
    assert place["1"] > first
    assert place["2"] < second
