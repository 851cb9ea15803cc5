"""Graphviz in a browser, with stand-ins for the modules of Pyodide."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import graphnet as gn
import viz
from viz.drawing import in_browser, render


class JsError(Exception):
    pass


class Graphviz:
    """What `Viz.instance()` resolves to."""

    def renderString(self, dot: str, *, format: str, engine: str) -> str:
        assert engine == "dot"
        if format == "dot" and "crashes" in dot:
            raise JsError("syntax error in line 1")
        return render.render(dot, format, 60)[0].decode()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Files of the page: address -> status; `load_graphviz` finds them."""
    files = {"viz-global.js": 200}

    async def pyfetch(address: str) -> Any:
        async def string() -> str:
            return "var Viz"

        return SimpleNamespace(ok=address in files, status=files.get(address, 404), string=string)

    async def instance() -> Graphviz:
        return Graphviz()

    run = {"var Viz": lambda: None, "Viz.instance()": instance}
    modules = {
        "http": {"pyfetch": pyfetch},
        "code": {"run_js": lambda text: run[text]()},
        "ffi": {"JsException": JsError},
    }
    for name, content in modules.items():
        monkeypatch.setitem(sys.modules, f"pyodide.{name}", SimpleNamespace(**content))
    monkeypatch.setattr(in_browser, "_graphviz", [])
    return files


@pytest.mark.skipif(render.installed_renderer() is None, reason="there is no Graphviz")
def test_graphviz_is_loaded_and_draws(page: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = viz.draw(gn.tanh(gn.input(3, name="x")))
    expected = drawing.svg
    monkeypatch.setattr(in_browser.sys, "platform", "emscripten")
    assert not in_browser.graphviz_is_loaded()
    with pytest.raises(viz.DrawingError, match=r"'missing.js': not found \(status 404\)"):
        asyncio.run(in_browser.load_graphviz("missing.js"))
    asyncio.run(in_browser.load_graphviz("viz-global.js"))
    assert in_browser.graphviz_is_loaded()
    assert in_browser.render_in_browser(drawing.dot, "svg").decode().count("<g ") == expected.count("<g ")
    with pytest.raises(viz.DrawingError, match="writes svg, not png"):
        in_browser.render_in_browser(drawing.dot, "png")
    with pytest.raises(viz.DrawingError, match="syntax error in line 1"):
        in_browser.render_in_browser("digraph { crashes }", "dot")
