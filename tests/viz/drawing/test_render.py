"""Laws of drawings: valid formats, fallback of renderers, no partial files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case
from viz.drawing import render
from viz.drawing.dot import with_less_effort

MAGIC = {
    "svg": b"<svg",
    "png": b"\x89PNG\r\n\x1a\n",
    "pdf": b"%PDF",
    "dot": b"digraph",
    "html": b"<!DOCTYPE html>",
}


def test_every_format_is_valid(regression, tmp_path):
    """Suffixes may be uppercase, paths strings."""
    for suffix, magic in (*MAGIC.items(), ("SVG", b"<svg")):
        with case(suffix):
            folder = tmp_path / f"of {suffix}"
            folder.mkdir()
            contents = viz.draw(regression).save(str(folder / f"picture.{suffix}")).read_bytes()
            assert contents.startswith(magic)
            assert len(contents) > 1000
            assert os.listdir(folder) == [f"picture.{suffix}"]
    drawing = viz.draw(regression)
    ET.fromstring(drawing.svg)
    assert drawing.renderer.startswith("drawn by")
    assert "<svg" in drawing.html
    assert not re.search('<script|src="', drawing.html), "it needs nothing else"


def test_png_has_letters_without_any_system_font(regression, tmp_path, monkeypatch):
    """Pictures of other symbols differ: empty boxes for all letters would be equal."""
    matplotlib_image = pytest.importorskip("matplotlib.image")
    monkeypatch.delenv("FONTCONFIG_FILE", raising=False)
    pixels = []
    for name in ("A", "B"):
        viz.draw(gn.input((), name=name)).save(tmp_path / "a.png")
        pixels.append(matplotlib_image.imread(tmp_path / "a.png"))
    assert pixels[0].shape != pixels[1].shape or not np.array_equal(*pixels)


def test_pictures_do_not_depend_on_the_locale(regression, monkeypatch):
    """In Turkish, the lowercase of `<I>` is not `<i>`, so names were missing."""
    here = viz.draw(regression).svg
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    assert render._environment()["LC_ALL"] == "C"  # also where that country is not installed
    assert viz.draw(regression).svg == here


def test_pdf_page_has_the_size_of_the_picture(tmp_path):
    for closed in [False, True]:
        with case(closed):
            drawing = viz.draw(rnn.Network([rnn.Elman(3)], 2, 2).unroll(2, 2), closed=closed)
            pdf = drawing.save(tmp_path / "a.pdf").read_bytes()
            size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', drawing.svg).groups()
            page = re.search(rb"/MediaBox *\[ *0 +0 +([\d.]+) +([\d.]+) *\]", pdf).groups()
            np.testing.assert_allclose(np.array(page, float), np.array(size, float), atol=1)


def test_dot_and_html_without_graphviz(regression, tmp_path, monkeypatch):
    assert "image/svg+xml" in viz.draw(regression)._repr_mimebundle_()
    monkeypatch.setattr(render, "RENDERERS", ())
    drawing = viz.draw(regression)
    assert "Graphviz is not installed" in drawing.renderer
    assert drawing.save(tmp_path / "a.dot").read_text(encoding="utf-8").startswith("digraph")
    page = drawing.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert "digraph" in page
    assert "pip install" in page
    for suffix in ("svg", "png", "pdf"):
        with pytest.raises(viz.DrawingError, match=r"pip install 'pygraphviz>=2\.0'"):
            drawing.save(tmp_path / f"a.{suffix}")
    bundle = drawing._repr_mimebundle_()
    assert list(bundle) == list(regression._repr_mimebundle_()) == ["text/plain"]
    assert "Graphviz" in bundle["text/plain"]


def test_failed_renderers_fall_back_to_the_next(regression, monkeypatch):
    fails = [sys.executable, "-c", "raise SystemExit('no')"]
    broken = render.Renderer("broken", lambda: True, lambda *of: render.run_command(fails, of[0], of[2]))
    gone = ["/nonexistent/dot"]
    missing = render.Renderer("missing", lambda: True, lambda *of: render.run_command(gone, of[0], of[2]))
    real = next(r for r in render.RENDERERS if r.is_there()).name
    monkeypatch.setattr(render, "RENDERERS", (broken, missing, *render.RENDERERS))
    drawing = viz.draw(regression)
    assert "broken" in drawing.renderer
    assert drawing.svg.startswith("<svg")
    assert drawing.renderer == f"drawn by {real}"
    monkeypatch.setattr(render, "RENDERERS", (broken,))
    with pytest.raises(viz.DrawingError, match="broken: no"):
        _ = viz.draw(regression).svg


def test_a_program_named_dot_on_path_comes_first(regression, tmp_path, monkeypatch):
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\ncat > /dev/null\necho '<svg>mine</svg>'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    drawing = viz.draw(regression)
    assert drawing.svg.strip() == "<svg>mine</svg>"
    assert "PATH" in drawing.renderer


def test_failed_save_keeps_the_existing_file(regression, tmp_path, monkeypatch):
    (tmp_path / "a.dot").mkdir()
    for name, says in (
        ("a.jpeg", r"\.svg, \.png, \.pdf, \.dot, \.html, \.tex"),
        (".svg", r"\.svg, \.png, \.pdf, \.dot, \.html, \.tex"),
        ("nowhere/a.svg", r"nowhere.*existing, writable folder"), ("a.dot", "cannot be written"),
    ):  # fmt: skip
        with case(name), pytest.raises(viz.DrawingError, match=says):
            viz.draw(regression).save(tmp_path / name)
    path = tmp_path / "a.svg"
    path.write_text("old")

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    for broken, instead in (
        ("graphnet.system.files.open", fail),
        ("graphnet.system.files.os.replace", fail),
        ("viz.drawing.render.RENDERERS", ()),
    ):
        with case(broken), monkeypatch.context() as patch:
            patch.setattr(broken, instead, raising=False)
            with pytest.raises(viz.DrawingError):
                viz.draw(regression).save(path)
        assert path.read_text(encoding="utf-8") == "old"
        assert sorted(os.listdir(tmp_path)) == ["a.dot", "a.svg"]
    viz.draw(regression).save(path)
    assert path.read_text(encoding="utf-8").startswith("<svg")


class HasGraph:
    @classmethod
    def __graph__(cls):
        return gn.Graph(gn.tanh(gn.input((2,), name="x")))


class OfAnInstance(HasGraph):
    """Of a class an instance is drawn that is made without arguments."""

    def __graph__(self):
        return HasGraph.__graph__()


class WrongGraph:
    def __graph__(self):
        return 3


def test_all_objects_with_a_graph_are_drawn(regression):
    function = gn.compile([regression], backend="numpy")
    assert viz.draw(function).dot == viz.draw(function.graph).dot
    assert viz.draw(regression).dot == viz.draw([regression]).dot == viz.draw(gn.Graph(regression)).dot
    assert "tanh" in viz.draw(HasGraph).dot
    assert viz.draw(HasGraph).dot == viz.draw(HasGraph()).dot == viz.draw(OfAnInstance).dot


class NeedsArguments(OfAnInstance):
    def __init__(self, units):
        self.units = units


def test_other_objects_are_rejected():
    every = "Node, a sequence of Nodes, a Graph, a Function"
    returned = r"__graph__ of a WrongGraph returned a int; .* graphnet\.Graph"
    needs = r"NeedsArguments cannot be drawn.*'units'"
    refused = dict.fromkeys((3, "cost", None, np.float64, object()), every)
    for thing, says in [
        *refused.items(),
        ([], every),
        ([1], every),
        (WrongGraph(), returned),
        (NeedsArguments, needs),
    ]:
        with case(thing), pytest.raises(viz.DrawingError, match=says):
            viz.draw(thing)


def test_two_pictures_in_one_page_share_no_ids(regression):
    roots = [ET.fromstring(viz.draw(regression, style).svg) for style in ("full", "compact")]
    first, second = ({e.get("id") for e in root.iter() if e.get("id")} for root in roots)
    assert len(first) > 10
    assert not first & second
    assert viz.draw(regression).svg == viz.draw(regression).svg


def test_slow_layouts_are_retried_with_less_effort(regression, monkeypatch):
    """Neither without ranks nor with another Graphviz, which would take as long."""
    tried = []

    def slow(*arguments, **settings):
        tried.append((settings["timeout"], b"nslimit" in settings["input"]))
        raise subprocess.TimeoutExpired("dot", settings["timeout"])

    monkeypatch.setattr(render.subprocess, "run", slow)
    always = render.Renderer("slow", lambda: True, lambda *of: render.run_command(["slow"], of[0], of[2]))
    monkeypatch.setattr(render, "RENDERERS", (always, always))
    with pytest.raises(
        viz.DrawingError, match=r"no layout within \d+ s\. .*gn\.scope.*steps=3.*viz\.explore"
    ):
        _ = viz.draw(regression).svg
    (first, hard), (second, harder) = tried
    assert first < second
    assert (hard, harder) == (False, True)


@pytest.mark.skipif(not any(r.is_there() for r in render.RENDERERS), reason="there is no Graphviz")
def test_reduced_effort_keeps_all_shapes(regression):
    text = viz.draw(regression).dot
    less = with_less_effort(text)
    assert less != text
    sizes = [render.render(t, "svg", 60)[0].count(b'<g id="') for t in (text, less)]
    assert sizes[0] == sizes[1]


def test_ranks_across_clusters_are_dropped_if_graphviz_fails(monkeypatch):
    """Pairs of shapes go too: without ranks across clusters, they take a shape out of its cluster."""
    a, b = gn.input((2,), name="a"), gn.input((2,), name="b")
    drawing = viz.mirror(gn.sum(a * b), closed=False)
    assert drawing.picture.pairs
    real, given = render.run_command, []

    def fragile(command, dot, seconds):
        given.append(dot)
        if "newrank" in dot:
            raise viz.DrawingError("crashed")
        return real(command, dot, seconds)

    monkeypatch.setattr(render, "run_command", fragile)
    ET.fromstring(drawing.svg)
    assert "rank=same; n0; n0_back" in given[0]
    assert "_back }" not in given[-1]
    assert given[-1].count(" -> ") == given[0].count(" -> ")
