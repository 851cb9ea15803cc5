"""Laws of DOT text: deterministic, accepted by Graphviz, true to the legend, safe for any name."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import graphnet as gn
import viz
from tests.tables import case
from viz.drawing.dot import to_dot
from viz.style import LIGHT

from ..conftest import calls_of, make_regression, make_unrolled

SVG = "{http://www.w3.org/2000/svg}"


def statements(dot: str, part: str) -> list[str]:
    return [line.strip() for line in dot.splitlines() if part in line]


def plain(markup: str) -> str:
    return re.sub("<.*?>", "", markup)


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_same_graph_gives_the_same_bytes():
    for make, style in itertools.product([make_regression, make_unrolled], ["full", "compact"]):
        with case(make, style):
            graph = gn.Graph(make())
            assert to_dot(graph, style) == to_dot(graph, style) == to_dot(make(), style)


def test_same_graph_gives_the_same_bytes_in_another_process_and_folder(tmp_path):
    program = (
        "import graphnet as gn, viz; x = gn.input((2,), name='x');print(viz.to_dot([gn.tanh(x) * x, x + 1]))"
    )
    root, made = str(Path(viz.__file__).parents[1]), []
    for folder, seed in ((tmp_path, "1"), (root, "2")):
        environment = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"}
        command = [sys.executable, "-c", program]
        made.append(
            subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True).stdout
        )
    assert made[0] == made[1]
    assert b"digraph" in made[0]


def test_legend(regression):
    dot = to_dot(regression)
    for part, says in (
        (">x</i>", ("shape=box", LIGHT.leaf, LIGHT.leaf_text, LIGHT.input_edge)), (">W</i>", ("shape=box", LIGHT.leaf)),
        (">y</i>", ("shape=box", LIGHT.label)), ("label=<@>", ("shape=circle", LIGHT.operator)),
    ):  # fmt: skip
        (line,) = statements(dot, part)
        assert [say for say in says if say not in line] == []
    (cost,) = [line for line in statements(dot, f'fillcolor="{LIGHT.cost}"') if "[label" in line]
    assert "shape=circle" in cost
    into = statements(dot, f"-> {cost.split()[0]} ")
    assert into
    assert all(f'color="{LIGHT.output_edge}"' in line for line in into)
    # Only scalars at the root are costs.
    x = gn.input((3,), name="x")
    assert LIGHT.cost not in to_dot(gn.tanh(x))
    assert to_dot([gn.tanh(gn.sum(x))]).count(f'fillcolor="{LIGHT.cost}"') == 1


def test_edges_from_input_are_blue_and_no_others(regression):
    for style in ["full", "compact"]:
        with case(style):
            dot = to_dot(regression, style)
            inputs = {line.split()[0] for line in statements(dot, "penwidth=2.6")}
            assert len(inputs) == 2
            for line in statements(dot, " -> "):
                assert (line.split()[0] in inputs) == (f'color="{LIGHT.input_edge}"' in line)


def test_operands_are_numbered_only_if_their_order_is_ambiguous():
    a, b = gn.input((2, 2), name="a"), gn.input((2, 2), name="b")
    w = gn.parameter(np.ones((3, 2), "float32"), name="W")
    ordered = [
        a - b,
        a / b,
        a**b,
        a < b,
        a @ b,
        gn.where(a > 0, a, b),
        gn.concatenate([a, b]),
        gn.stack([a, b]),
    ]
    others = [a + b, a * b, gn.maximum(a, b), gn.equal(a, b), w @ a, a - a, gn.squared_error(a, b)]
    for style in ("full", "compact"):
        for y in ordered:
            drawing = viz.draw(y, style)
            (head,) = [shape.key for shape in drawing.picture.shapes if shape.nodes == (y,)]
            numbers = [edge.operand for edge in drawing.picture.edges if edge.head == head]
            assert numbers == [*range(1, len(y.inputs) + 1)], y
            inner = 2 if style == "full" and len(numbers) == 3 else 0  # of a > 0
            assert drawing.dot.count("headlabel") == len(numbers) + inner
        for y in [*others, gn.concatenate([a, a[:1]])]:
            assert {edge.operand for edge in viz.draw(y, style).picture.edges} == {None}, y
    assert "headlabel" not in viz.draw(1 - a, "compact").dot  # the number stands inside
    back = [edge for edge in viz.mirror(gn.sum(a - b), "compact").picture.edges if edge.back]
    assert {edge.operand for edge in back} == {None}


def test_operands_of_folded_steps_are_not_numbered():
    h, x = gn.input((1, 2), name="h_0"), gn.input((1, 2), name="x")
    for t in range(9):
        with gn.scope(layer="layer0", cell="Cell", time=t):
            h = gn.tanh(h - gn.exp(x))
    picture = viz.draw(h, closed=False).picture
    ellipses = {shape.key for shape in picture.shapes if "⋯" in shape.lines[0]}
    assert {edge.operand for edge in picture.edges if {edge.tail, edge.head} & ellipses} == {None}
    assert {1, 2} <= {edge.operand for edge in picture.edges}


def test_numbers_are_printed_beside_each_use():
    x = gn.input((3,), name="x")
    dot = to_dot([(1 - x) * 0.5, x + 1])
    assert len(statements(dot, "label=<1>")) == 2
    assert len(statements(dot, "label=<0.5>")) == 1


def test_compact_style_folds_weights_into_edges_and_biases_into_operators(regression):
    x, h = gn.input((4, 3), name="x"), gn.input((4, 5), name="h")
    shapes = {"W": (3, 5), "U": (5, 5), "b": 5, "V": (5, 3), "c": 3}
    w, u, b, v, c = (gn.parameter(np.ones(shape, "float32"), name) for name, shape in shapes.items())
    product = x @ w
    for y, labels, operators, count in (
        (gn.tanh(x @ w + h @ u + b), ["U", "W"], {"+ b", "tanh"}, 4),
        (regression, ["W + b"], {"mean"}, 5),
        (gn.tanh(x @ v.T), ["VT"], {"tanh"}, 2),
        (gn.tanh((x + c) @ w), ["+ c"], {"@ W", "tanh"}, 3),
        ([gn.tanh(product), gn.exp(product)], [], {"tanh"}, 4),  # what more than one node reads is drawn
    ):
        picture = viz.draw(y, "compact").picture
        assert sorted(plain(edge.label) for edge in picture.edges if edge.label) == labels
        assert operators <= {plain(shape.lines[0]) for shape in picture.shapes}
        assert len(picture.shapes) == count


def test_only_sums_times_one_over_their_number_of_terms_are_means():
    x = gn.input((4, 3), name="x")
    for y, is_mean in (
        (gn.mean(x), True),
        (gn.sum(x, 0) * 0.25, True),
        (gn.sum(x) * 0.25, False),
        (gn.sum(x, 0) * 2, False),
    ):
        shapes = {plain(shape.lines[0]) for shape in viz.draw(y, "compact").picture.shapes}
        assert ("mean" in shapes) == is_mean, shapes


def test_outputs_are_always_drawn():
    x = gn.input((4, 3), name="x")
    w = gn.parameter(np.ones((3, 3), "float32"), "W")
    product = x @ w
    outputs = [w, product, product + 1, gn.broadcast_to(product, (2, 4, 3)), w.T, x]
    order = gn.Graph(outputs).order
    for style in ["full", "compact"]:
        keys = {shape.key for shape in viz.draw(outputs, style).picture.shapes}
        assert {f"n{order.index(node)}" for node in outputs} <= keys, style


def test_derivative_graphs_are_accepted():
    unrolled = make_unrolled()
    parameters = [n for n in gn.Graph(unrolled).order if n.name and "W" in n.name]
    for style, rankdir in itertools.product(["full", "compact"], ["LR", "BT"]):
        drawing = viz.draw(gn.gradient(unrolled, parameters), style, rankdir=rankdir)
        assert f"rankdir={rankdir}" in drawing.dot
        assert drawing.svg.startswith("<svg")


NASTY = [
    'quote " and \' here', "a <b> & c &lt; &amp;", "back\\slash \\N \\", "line\nbreak", "tab\t\r",
    "nul\0esc\x1b", "ünïcødé 漢字 🙂 א", "<!-- x -->", "]]>", "", " ", ".", "a.", ".b", "layer0.", "W_", "_x",
    "}; digraph {", "lone \ud800 surrogate", "x" * 500, "--", "\u202ertl", "<table>", "#", "//", "/* */",
]  # fmt: skip


def test_any_name_is_safe():
    outputs = []
    for name in NASTY:
        with gn.scope(layer=name, cell=name, time=0):
            x = gn.input((2, 2), name=name)
            y = gn.label(gn.tanh(x @ gn.parameter(np.ones((2, 2), "float32"), name)), name)
        outputs.append(y)
        for style in ("full", "compact"):
            with case(style, name):
                viz.to_dot(y, style).encode()
        with case("closed", name), gn.scope(cell=f"{name}."):
            ET.fromstring(viz.draw(gn.tanh(gn.sigmoid(x)), closed=True).svg)
    for style in ("full", "compact"):
        ET.fromstring(viz.draw(outputs, style).svg)  # well formed
    name = 'a <b> & "c" \\N'
    assert name in texts(viz.draw(gn.tanh(gn.input((2,), name=name))).svg)


def test_names_are_printed_as_papers_print_them():
    for name, shown in (
        ("W_xh", "W xh"), ("h0", "h 0"), ("theta", "θ"), ("sigma_0", "σ 0"), ("x_theta", "x θ"), ("h_0^1", "h 0"),
        ("layer12.W_xi", "W xi"), ("output.W_ho", "W ho"), ("encoder.W_x", "encoder. W x"),
        ("hidden_state", "hidden_state"),
        ("x_", "x_"), ("x^2", "x^2"),
    ):  # fmt: skip
        (shape,) = viz.draw(gn.input((), name=name)).picture.shapes
        assert re.sub("(<.*?>)+", " ", shape.lines[0]).strip() == shown, name


def test_layer_numbers_are_drawn_if_there_are_several_layers():
    names = ["layer0.W_ho", "layer1.W_ho", "output.W_ho", "h_0^1"]
    shown = texts(viz.draw([gn.input((), name=name) for name in names]).svg)
    assert shown == ["W", "ho", "(0)", "W", "ho", "(1)", "W", "ho", "h", "0", "(1)"]
    # An output's W_ho beside an LSTM's W_ho: the layer tells them apart.
    assert "(0)" in texts(viz.draw([gn.input((), name=name) for name in (names[0], names[2])]).svg)
    assert texts(viz.draw([gn.input((), name=name) for name in ("a", "layer0.a")]).svg) == ["a", "a", "(0)"]


def places(svg: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Where the title of each cell stands."""
    titles = [e for e in ET.fromstring(svg).iter(f"{SVG}text") if e.get("fill") == LIGHT.muted]
    return {
        (first.text or "", second.text or ""): (float(first.get("x", "")), float(first.get("y", "")))
        for first, second in itertools.pairwise(titles)
        if "layer" in (first.text or "")
    }


def test_time_runs_left_to_right_and_layers_bottom_to_top():
    for steps, style in itertools.product((2, 10), ("full", "compact")):
        with case(steps, style):
            found = places(viz.draw(make_unrolled(steps), style, closed=False, steps=10).svg)
            below, above = ([found[f"Elman layer{i}", f"t={t + 1}"] for t in range(steps)] for i in (0, 1))
            for layer in (below, above):
                assert [x for x, _ in layer] == sorted(x for x, _ in layer)
            assert all(a[1] > b[1] for a, b in zip(below, above, strict=True))  # SVG's y points down


def test_deep_graphs_raise_a_clear_error(regression):
    """Deeper than Python's recursion limit."""
    node, w = gn.input((2,), name="x"), gn.parameter(np.ones(2, "float32"), "w")
    for _ in range(3_000):
        node = gn.tanh(node + w)
    for style in ("full", "compact"):
        drawing = viz.draw(node, style)
        with pytest.raises(viz.DrawingError, match=r"fewer time steps.*\.dot.*limit=None"):
            _ = drawing.svg
        assert drawing.dot.count(" -> ") >= 3_000
    with pytest.raises(viz.DrawingError, match="12 nodes"):
        _ = viz.draw(regression, limit=5).svg
    assert viz.draw(regression, limit=None).svg


def test_work_grows_linearly_with_the_graph():
    def chain(length: int) -> list[gn.Node]:
        x = total = h = gn.input((2, 2), name="x")
        w = gn.parameter(np.ones((2, 2), "float32"), "W")
        for _ in range(length):
            total, h = x + total, h @ w
        return [total, h]

    for style in ("full", "compact"):
        few, many = (calls_of(partial(viz.to_dot, chain(n), style)) for n in (200, 800))
        assert many < 4.5 * few, style
