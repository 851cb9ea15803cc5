"""The gallery: figures match Lynge (2016, chapter 3)."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import graphnet_rnn as rnn
import viz
from viz.drawing.closed import BoxKind
from viz.style import EdgeRole, Role

FOLDER = Path(__file__).parents[2] / "docs" / "gallery"


def figure(number: str) -> dict[str, viz.Drawing]:
    return runpy.run_path(str(FOLDER / f"figure_{number}.py"))["pictures"]


def plain(markup: str) -> str:
    return re.sub("<.*?>", "", markup)


def symbols(drawing: viz.Drawing, role: Role = Role.OPERATOR) -> Counter[str]:
    return Counter(plain(shape.lines[0]) for shape in drawing.picture.shapes if shape.role is role)


def squares(drawing: viz.Drawing) -> set[str]:
    roles = (Role.INPUT, Role.PARAMETER, Role.CONSTANT)
    return {plain(s.lines[0]) for s in drawing.picture.shapes if s.role in roles}


def test_3_1_has_four_static_nodes_and_six_operators():
    pictures = figure("3_1")
    assert squares(pictures["a"]) == squares(pictures["b"]) == {"X", "y", "West", "b"}
    assert symbols(pictures["a"]) == Counter({"@": 2, "+": 1, "−": 1, "T": 1, "Σ": 1})
    assert symbols(pictures["b"]) == Counter({"@": 1, "+": 1, "SSE": 1})
    for drawing in pictures.values():
        assert symbols(drawing, Role.LABEL) == Counter({"yest": 1})
        (cost,) = [shape for shape in drawing.picture.shapes if shape.is_cost]
        assert not [edge for edge in drawing.picture.edges if edge.tail == cost.key]


def test_3_2_shows_weights_as_nodes_and_as_labels():
    pictures = figure("3_2")
    assert squares(pictures["a"]) == {"X", "y", *(f"{letter}{i}" for letter in "Wb" for i in (1, 2, 3))}
    assert squares(pictures["b"]) == {"X", "y"}
    labels = [plain(edge.label) for edge in pictures["b"].picture.edges if edge.label]
    assert labels == [f"W{i} + b{i}" for i in (1, 2, 3)]
    for drawing in pictures.values():
        assert symbols(drawing, Role.LABEL) == Counter({"h1": 1, "h2": 1, "ŷ": 1})


def test_3_3_gives_the_shared_weights_two_paths():
    (drawing,) = figure("3_3").values()
    (w1,) = [s.key for s in drawing.picture.shapes if plain(s.lines[0]) == "W1"]
    assert len({edge.head for edge in drawing.picture.edges if edge.tail == w1}) == 2


def test_3_4_and_3_5_show_weights_as_nodes_and_as_labels():
    (full,) = figure("3_4").values()
    pictures = figure("3_5")
    weights = {"Wxh(0)", "Whh(0)", "bh(0)", "Wxh(1)", "Whh(1)", "bh(1)", "Wh0o", "Wh1o", "bo"}
    assert weights <= squares(full)
    assert not weights & squares(pictures["open"])
    labelled = {plain(edge.label) for edge in pictures["open"].picture.edges}
    assert {"Wxh(0)", "Whh(0)", "Wxh(1)", "Whh(1)", "Wh0o", "Wh1o"} <= labelled
    for drawing in (full, pictures["open"]):
        roles = Counter(edge.role for edge in drawing.picture.edges)
        assert roles[EdgeRole.FROM_INPUT] > 6
        assert roles[EdgeRole.TO_OUTPUT] >= 6
        assert drawing.picture.times == [1, 2, 3]
        assert symbols(drawing)["tanh"] == 6
    cells = [box for box in pictures["closed"].picture.shapes if box.kind is BoxKind.CELL]
    assert {(box.row, box.column) for box in cells} == {(row, t) for row in (1, 2) for t in range(3)}


def test_3_6_feeds_predictions_back():
    (drawing,) = figure("3_6").values()
    boxes = {box.key: box for box in drawing.picture.shapes}
    back = [link for link in drawing.picture.edges if link.role is EdgeRole.GENERATED]
    assert [(boxes[x.tail].column, boxes[x.head].column) for x in back] == [(0, 1), (1, 2), (2, 3)]
    assert all(plain(boxes[x.tail].lines[0]) == "χ" for x in back)
    kinds = [box.kind for box in boxes.values() if box.row == 0]
    assert kinds == [BoxKind.DATA, *[BoxKind.IMAGINARY] * 3]
    assert drawing.dot.count(viz.LIGHT.generated_edge) == 3


def test_numeric_predictions_are_fed_back_directly():
    drawing = viz.generation(rnn.Network([rnn.GRU(3)], 4, 4, loss="squared"))
    assert "χ" not in drawing.dot
    boxes = {box.key: box for box in drawing.picture.shapes}
    back = [link for link in drawing.picture.edges if link.role is EdgeRole.GENERATED]
    assert [plain(boxes[x.tail].lines[0])[0] for x in back] == ["o"] * 3
    assert [(boxes[x.tail].column, boxes[x.head].column) for x in back] == [(0, 1), (1, 2), (2, 3)]


def test_3_7_has_three_gates_and_two_states():
    pictures = figure("3_7")
    assert symbols(pictures["cell"]) >= Counter({"σ": 3, "tanh": 2, "×": 3})
    assert symbols(pictures["cell"], Role.LABEL) == Counter({"ct": 1, "ht": 1})
    assert symbols(pictures["unrolled"])["σ"] == 6


def test_every_figure_is_drawn():
    for path in sorted(FOLDER.glob("*.py")):
        for drawing in runpy.run_path(str(path))["pictures"].values():
            assert drawing.svg.startswith("<svg"), path
