"""The legend names exactly the elements of the picture."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from viz.drawing.render import Drawing, installed_renderer

pytestmark = pytest.mark.skipif(installed_renderer() is None, reason="Graphviz")

EDGES = {"from an input", "to the output"}


def words(drawing: Drawing) -> set[str]:
    """Lines of text that the legend adds."""

    def texts(svg: str) -> list[str]:
        return [
            text.replace("\xa0", "").replace("&#160;", "").strip()
            for text in re.findall(r">([^<]+)</text>", svg)
        ]

    return set(texts(drawing.with_legend().svg)) - set(texts(drawing.svg)) - {"→"}


def network() -> rnn.Network:
    return rnn.Network([rnn.GRU(4)], inputs=5, outputs=5)


def test_kinds_of_an_open_picture() -> None:
    x = gn.input((3, 2), name="x")
    W = gn.parameter(np.ones((2, 2), "float32"), name="W")
    assert words(viz.draw(gn.tanh(x))) == {"input", "operator", "from an input"}
    named = {"input", "parameter", "constant", "label", "operator", "cost"}
    assert words(viz.draw(gn.mean(gn.label(gn.tanh(x @ W), "y")))) == named | EDGES
    noted = gn.mean(gn.tanh(x @ W))
    assert words(viz.draw(noted, notes=viz.gradients(noted))) == named - {"label"} | EDGES


def test_kinds_of_a_closed_picture() -> None:
    cell = {"layer at one time step", "input", "initial state", "output"}
    u = network().unroll(time=12, batch=1)
    assert words(viz.draw(u)) == cell | EDGES | {"several time steps", "cost"}
    assert words(viz.draw(u, steps=12)) == cell | EDGES | {"cost"}
    assert words(viz.mirror(u.cost, values=False, steps=3)) >= cell | {"cost"}
    assert words(viz.generation(network())) == cell | EDGES | {"generated input", "to the next input"}
