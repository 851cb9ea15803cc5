"""Layout by Graphviz: each label is on its own edge and overlaps nothing else."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import some_quick
from viz.drawing.layout import extent_of
from viz.drawing.picture import Picture
from viz.drawing.render import Drawing, installed_renderer, render
from viz.style import EdgeRole

pytestmark = pytest.mark.skipif(installed_renderer() is None, reason="Graphviz")


def spline(pos: str) -> np.ndarray[Any, Any]:
    """Points of an edge, at most a point apart."""
    knots = [np.array(word.removeprefix("e,").split(","), float) for word in pos.split()]
    tip = knots.pop(0) if pos.startswith("e,") else knots[-1]
    points = [knots[0]]
    for k in range(0, len(knots) - 1, 3):
        t = np.linspace(0, 1, 1500)[:, None]
        thirds = [knots[k + i] * (1 - t) + knots[k + i + 1] * t for i in range(3)]
        halves = [a * (1 - t) + b * t for a, b in pairwise(thirds)]
        points.extend(halves[0] * (1 - t) + halves[1] * t)
    return np.array([*points, *np.linspace(points[-1], tip, 20)])


def laid_out(drawing: Drawing) -> tuple[dict[str, Any], list[tuple[str, str, Any]]]:
    """Center and half the size of each visible shape; ends and points of each visible edge."""
    drawn = json.loads(render(drawing._laid_out, "json", 60)[0])
    names = {each["_gvid"]: each["name"] for each in drawn["objects"]}
    boxes = {
        each["name"]: (
            np.array(each["pos"].split(","), float),
            36 * np.array([each["width"], each["height"]], float),
        )
        for each in drawn["objects"]
        if "pos" in each and each.get("style") != "invis"
    }
    wires = [
        (names[each["tail"]], names[each["head"]], spline(each["pos"]))
        for each in drawn["edges"]
        if each.get("style") != "invis"
    ]
    return boxes, wires


def faults(drawing: Drawing) -> list[str]:
    """Layout faults of labels: overlaps with boxes, edges across a label, labels away from their edge."""
    assert isinstance(drawing.picture, Picture)
    boxes, wires = laid_out(drawing)
    labeled = enumerate(edge for edge in drawing.picture.edges if edge.label)
    numbered = enumerate(edge for edge in drawing.picture.edges if edge.operand)
    texts = {**{f"label_{n}": edge for n, edge in labeled}, **{f"operand_{n}": edge for n, edge in numbered}}
    found = []
    for text, edge in texts.items():
        place, half = boxes[text]
        assert (half > 3).all()
        own = [points for *ends, points in wires if ends == [edge.tail, edge.head]]
        for key, (other, size) in boxes.items():
            if (
                key != text and (abs(place - other) < half + size - 2).all()
            ):  # circles leave their corners free
                found.append(f"{edge.tail} -> {edge.head}: {key} below its label")
        for tail, head, points in wires:
            crossed = (abs(points - place) < half - 2).all(1).any()
            if (tail, head) != (edge.tail, edge.head) and crossed:
                found.append(f"{edge.tail} -> {edge.head}: {tail} -> {head} below its label")
        if min(np.hypot(*(points - place).T).min() for points in own) > 2:
            found.append(f"{edge.tail} -> {edge.head}: label not on it")
        if all((abs(points[-1] - place) < half).all() for points in own):
            found.append(f"{edge.tail} -> {edge.head}: tip below its label")
    return found


@pytest.mark.parametrize("name", some_quick(rnn.cells.ALL, [*rnn.cells.ALL][::4]))
def test_labels_are_on_their_edges(name: str) -> None:
    for rankdir in ("LR", "BT"):
        assert faults(viz.draw(rnn.cells.ALL[name], "compact", rankdir=rankdir)) == [], rankdir


#: Cells whose operators are one chain.
CHAINS = {"Dense", "HMMFilter"}


@pytest.mark.parametrize("name", some_quick(sorted(rnn.cells.ALL.keys() - CHAINS), ["RHN", "MRNN", "GRU"]))
def test_cells_fill_a_slide_with_readable_text(name: str) -> None:
    drawing = viz.draw(rnn.cells.ALL[name], "compact")
    wide, high = extent_of(drawing._laid_out)
    assert 1 / 2.3 < wide / high < 2.3
    # 10 where `dot` is recent; versions of Graphviz differ by a few percent.
    assert min(1600 / wide, 900 / high) * drawing.theme.small_size > 9.5


def test_numbers_of_operands_are_on_their_edges() -> None:
    arm = rnn.control.Arm()
    x, y, z = (gn.input((2, 2), name=name) for name in "xyz")
    moved = arm.step(gn.input((1, 4), name="x_t"), gn.input((1, 2), name="u_t"))
    for thing in (moved, (x @ y - z) / (z - gn.tanh(x) / y) + (x - y) @ z):
        for style in ("full", "compact"):
            drawing = viz.draw(thing, style)
            assert isinstance(drawing.picture, Picture)
            assert {edge.operand for edge in drawing.picture.edges} >= {1, 2}
            assert faults(drawing) == []


@pytest.mark.parametrize("name", some_quick(rnn.cells.ALL, ["Elman", "GRU"]))
def test_labels_of_steps_in_time(name: str) -> None:
    u = rnn.Network([rnn.cells.ALL[name]()], 5, 5).unroll(2, 2)
    drawings = {
        "full": viz.draw(u, "full", closed=False),
        "compact": viz.draw(u, "compact", closed=False),
        "gradients": viz.draw(u, "compact", closed=False, notes=viz.gradients(u.cost)),
        "values": viz.draw(u, "compact", closed=False, notes=viz.values(u.cost)),
    }
    for kind, drawing in drawings.items():
        assert faults(drawing) == [], kind


def test_labels_have_the_background_colour() -> None:
    """The label has the color of its background, in every theme."""
    u = rnn.Network([rnn.Elman(8)], 5, 5).unroll(2, 2)
    for theme, style in (("light", viz.LIGHT), ("dark", viz.DARK)):
        text = viz.draw(u, "compact", closed=False, theme=theme)._laid_out
        labels = [line for line in text.splitlines() if line.startswith("  label_")]
        assert all(f'bgcolor="{style.cluster}"' in x or f'bgcolor="{style.background}"' in x for x in labels)
        assert any(f'bgcolor="{style.background}"' in line for line in labels)


def test_without_labels_graphviz_lays_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = viz.draw(rnn.Elman)
    assert isinstance(drawing.picture, Picture)
    assert not any(edge.label for edge in drawing.picture.edges if edge.role is not EdgeRole.GENERATED)
    assert drawing._laid_out == drawing.dot
