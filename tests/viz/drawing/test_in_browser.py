"""Graphviz in a browser, with stand-ins for the modules of Pyodide."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest

import graphnet as gn
import viz
from viz.drawing import in_browser, render


class JsError(Exception):
    pass


class Graphviz:
    """Stand-in for the object to which `Viz.instance()` resolves."""

    def renderString(self, dot: str, *, format: str, engine: str) -> str:
        assert engine == "dot"
        if format == "dot" and "crashes" in dot:
            raise JsError("syntax error in line 1")
        return render.render(dot, format, 60)[0].decode()


@pytest.fixture
def pyodide(monkeypatch: pytest.MonkeyPatch) -> None:
    async def instance() -> Graphviz:
        return Graphviz()

    run = {"var Viz": lambda: None, "Viz.instance()": instance}
    monkeypatch.setitem(sys.modules, "pyodide.code", SimpleNamespace(run_js=lambda text: run[text]()))
    monkeypatch.setitem(sys.modules, "pyodide.ffi", SimpleNamespace(JsException=JsError))
    monkeypatch.setattr(in_browser, "_graphviz", [])


@pytest.mark.skipif(render.installed_renderer() is None, reason="there is no Graphviz")
def test_graphviz_is_loaded_and_draws(pyodide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = viz.draw(gn.tanh(gn.input(3, name="x")))
    expected = drawing.svg
    monkeypatch.setattr(in_browser.sys, "platform", "emscripten")
    assert not in_browser.graphviz_is_loaded()
    asyncio.run(in_browser.load_graphviz("var Viz"))
    assert in_browser.graphviz_is_loaded()
    assert in_browser.render_in_browser(drawing.dot, "svg").decode().count("<g ") == expected.count("<g ")
    with pytest.raises(viz.DrawingError, match="writes svg, not png"):
        in_browser.render_in_browser(drawing.dot, "png")
    with pytest.raises(viz.DrawingError, match="syntax error in line 1"):
        in_browser.render_in_browser("digraph { crashes }", "dot")
