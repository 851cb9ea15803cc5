"""Graphviz in a browser, where Python (Pyodide) can start no processes: a WebAssembly build, @viz-js/viz on npm."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from viz.errors import DrawingError

_FORMATS = ("svg", "json", "dot")
_graphviz: list[Any] = []


async def load_graphviz(script: str) -> None:
    """Loads Graphviz for all drawings that follow; `await` it once, before the first.

    script: contents of `viz-global.js` of the npm package @viz-js/viz.
    """
    run = importlib.import_module("pyodide.code").run_js
    run(script)  # defines Viz
    _graphviz[:] = [await run("Viz.instance()")]


def graphviz_is_loaded() -> bool:
    return sys.platform == "emscripten" and bool(_graphviz)


def render_in_browser(dot: str, form: str) -> bytes:
    if form not in _FORMATS:
        raise DrawingError(f"in a browser, Graphviz writes svg, not {form}")
    try:
        return str(_graphviz[0].renderString(dot, format=form, engine="dot")).encode()
    except importlib.import_module("pyodide.ffi").JsException as error:
        raise DrawingError(str(error)) from None
