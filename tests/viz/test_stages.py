"""Stages: pictures of every pass, and dumps of functions."""

from __future__ import annotations

import re

import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from viz.drawing import render


@pytest.fixture(scope="module")
def function():
    network = rnn.Network([rnn.Elman(4)], 5, 5)
    u = network.unroll(time=3, batch=2)
    return gn.compile([u.cost, *gn.gradient(u.cost, list(network.parameters.values()))])


def test_passes_colour_changed_nodes(function):
    drawn = {p.name: p for p in viz.passes(function)}
    for name, shown in drawn.items():
        for drawing, count, colour in (
            (shown.before, shown.gone, "#f6c3c0"),
            (shown.after, shown.new, "#bfe6c4"),
        ):
            found = len(re.findall(f'fillcolor="{colour}"', drawing.dot))
            # Numbers are drawn beside each use, and not coloured.
            assert (found > 0) is (count > 0) or name in ("simplify", "expand"), name
            assert found <= count
        assert shown.nodes[1] == shown.nodes[0] - shown.gone + shown.new
    assert drawn["merge"].gone
    assert not drawn["merge"].new
    assert drawn["stack sums"].gone
    assert drawn["stack sums"].new


@pytest.mark.slow
def test_dump_writes_all_files(function, tmp_path):
    folder = viz.dump(function, tmp_path / "report")
    names = sorted(path.name for path in folder.iterdir())
    assert "explain.txt" in names
    assert len([n for n in names if n.endswith((".svg", ".dot"))]) == len(function.reports) + 1
    written = (folder / "00-as-written.txt").read_text(encoding="utf-8").splitlines()
    assert len(written) == len(function.source)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    viz.dump(function, folder)
    again = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert again == {**first, "explain.txt": again["explain.txt"]}


def test_dump_leaves_no_picture_of_another_graph(function, tmp_path, monkeypatch):
    folder = viz.dump(function, tmp_path / "report")
    monkeypatch.setattr(render, "RENDERERS", ())
    viz.dump(function, folder)
    assert not list(folder.glob("*.svg"))


def test_instructions_list_the_executed_steps(function):
    lines = function.instructions().splitlines()
    kinds = [re.match(r" *\d+[* ] (\w+)", line) for line in lines]
    products = [line for line, kind in zip(lines, kinds, strict=True) if kind and kind[1] == "product"]
    assert len(products) == sum(type(n.op).__name__ == "MatMul" for n in function.graph.order)
    assert any("tanh(" in line and "t=2" in line for line in lines)
    assert any("layer0.W_hh[4×4]" in line for line in products)


def test_stages_match_the_compilation(function):
    stages = list(function.stages())
    assert [(s.name, len(s.before), len(s.after)) for s in stages] == [r[:3] for r in function.reports]
    assert len(stages[-1].after) == len(function.graph)
    merge = next(p for p in viz.passes(function) if p.name == "merge")
    before, after = merge.nodes
    assert repr(merge) == f"<merge: {before} nodes, {before - after} removed, 0 added, {after} after>"


def test_dump_without_graphviz_writes_dot_files(function, tmp_path, monkeypatch):
    monkeypatch.setattr(render, "RENDERERS", ())
    folder = viz.dump(function, tmp_path / "report")
    texts = sorted(folder.glob("*.dot"))
    assert len(texts) == len(function.reports) + 1
    assert all(path.read_text(encoding="utf-8").startswith("digraph") for path in texts)
    assert not list(folder.glob("*.svg"))
