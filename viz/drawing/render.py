"""Drawing: a picture as SVG, PNG, PDF, DOT, HTML or TikZ, rendered by Graphviz.

The first of these that is installed is used: the `dot` program on PATH; the Graphviz in pygraphviz (2.0 or later); in
a browser, the one that `load_graphviz` has loaded; DOT text and a page that shows it.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from graphnet.settings import shown
from graphnet.system.process import cached_property
from viz.drawing.closed import ClosedPicture
from viz.drawing.columns import in_columns
from viz.drawing.dot import bare_dot_of, dot_of, with_less_effort, without_common_ranks
from viz.drawing.grid import grid_dot
from viz.drawing.in_browser import graphviz_is_loaded, render_in_browser
from viz.drawing.labels import with_labels
from viz.drawing.layout import extent_of
from viz.drawing.picture import Picture
from viz.drawing.scripts import with_scripts
from viz.drawing.tikz import tikz_of
from viz.errors import DrawingError, LayoutTimeoutError, named_file
from viz.files import write_file
from viz.notebook import bundle_of
from viz.style import LIGHT, Style

FORMATS = ("svg", "png", "pdf", "dot", "html", "tex")
_ID = re.compile(r'(<\w+ id=")')
#: Maximum seconds of a layout, and of a second one with less effort.
_SECONDS, _MORE_SECONDS = 30, 90
#: A layout of at most _SMALL shapes that is more than _FLAT times as wide as high gets more space between rows: on a
#: slide, its text has the same size, and its edges are easier to follow.
_SMALL, _FLAT = 100, 2.2
_SMALLER = (
    "Draw it with closed=True (mark your own steps with `with gn.scope(layer='step', time=i):`), or fewer "
    "time steps (steps=3), or in compact style; save it as .dot; or use viz.explore"
)
_REMEDY = (
    "Load it with `await viz.drawing.in_browser.load_graphviz(script)`, or save as .dot or .html, which need none."
    if sys.platform == "emscripten"
    else "Install it with `pip install 'pygraphviz>=2.0'`, or save as .dot or .html, which need none."
)


def check_limit(limit: int | None) -> None:
    """Raises DrawingError unless `limit` is a number of nodes or None."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise DrawingError(
            f"limit must be a whole number of nodes, or None for no limit, not {shown(limit)}."
        )


class Drawing:
    """Picture of a graph; a notebook shows it.

    `.svg` and `.dot` are its text; `.save("graph.svg")` writes a file. `viz.draw` makes one of a graph.
    picture: shapes and edges. style: "full" (default), "compact" or "closed", for the repr. rankdir: "LR" (left to
    right), "BT" (bottom to top), or None (default) to choose. limit: maximum number of shapes to lay out, 3000 by
    default; None for no limit. theme: colors and fonts, viz.LIGHT by default.

    >>> x = gn.input((3, 2), name="x")
    >>> drawing = viz.draw(gn.mean(gn.tanh(x)))
    >>> drawing.size, drawing.is_too_large, drawing.dot.startswith("digraph")
    (5, False, True)
    """

    def __init__(
        self,
        picture: Picture | ClosedPicture,
        style: str = "full",
        rankdir: str | None = None,
        limit: int | None = 3000,
        theme: Style = LIGHT,
    ) -> None:
        if not isinstance(picture, (Picture, ClosedPicture)):
            raise DrawingError(
                f"picture must be a Picture, not {shown(picture)}; to draw a graph, call viz.draw(graph)."
            )
        self.picture = picture
        self.style = style
        self.limit = limit
        self._rankdir = rankdir
        self.theme = theme
        self._drawn_by: Renderer | None = None

    @cached_property
    def dot(self) -> str:
        """DOT text of the picture, of any size."""
        if isinstance(self.picture, ClosedPicture):
            return grid_dot(self.picture, self.theme)
        return dot_of(self.picture, self._rankdir, self.theme)

    @cached_property
    def _laid_out(self) -> str:
        """DOT text with the positions of everything, if edges have texts or there are time steps; else `dot`."""
        if isinstance(self.picture, ClosedPicture):
            return self.dot
        in_time = len(self.picture.times) > 1 and self._rankdir is None
        if not in_time and not any(edge.label or edge.operand for edge in self.picture.edges):
            return self.dot
        small = self.size <= _SMALL and not in_time and self._rankdir != "BT"
        bare = self._less_flat(self.picture) if small else self._bare(self.picture)
        try:
            return with_labels(in_columns(bare, self.picture) if in_time else bare, self.picture, self.theme)
        except DrawingError:  # without the position of an edge, Graphviz draws it all
            return self.dot

    def _bare(self, picture: Picture, spread: float = 1) -> str:
        """Layout without texts at edges."""
        return self._by_graphviz(bare_dot_of(picture, self._rankdir, self.theme, spread), "dot").decode()

    def _less_flat(self, picture: Picture) -> str:
        """Layout for a slide: with more space between rows, if it would be a strip."""
        before = 0.0
        for spread in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0):
            bare = self._bare(picture, spread)
            wide, high = extent_of(bare)
            if wide <= _FLAT * high or high == before:  # fine, or a chain in one row
                break
            before = high
        return bare

    @cached_property
    def svg(self) -> str:
        """SVG element of the picture. Raises DrawingError if it is too large or Graphviz is missing."""
        text = with_scripts(self._rendered("svg").decode())
        # Graphviz numbers the ids of each picture from 1: two pictures in one page would share them.
        prefix = hashlib.sha256(self.dot.encode()).hexdigest()[:8]
        return _ID.sub(rf"\1g{prefix}_", text[text.index("<svg") :])

    def with_legend(self) -> Drawing:
        """The picture with a legend below it: the kinds of shapes and edges that it contains.

        >>> x = gn.input((3, 2), name="x")
        >>> viz.draw(gn.mean(gn.tanh(x))).with_legend().save("legend.dot").name
        'legend.dot'
        """
        picture = replace(self.picture, legend=True)
        return Drawing(picture, self.style, self._rankdir, self.limit, self.theme)

    @property
    def html(self) -> str:
        """HTML page in one file with the picture, or with its DOT text without Graphviz."""
        if installed_renderer() is None:
            return _page(f"<p>{escape(_no_renderer())}</p>\n<pre>{escape(self.dot)}</pre>")
        return _page(self.svg)

    @property
    def renderer(self) -> str:
        """Name and version of the Graphviz that draws the picture."""
        found = self._drawn_by or installed_renderer()
        return found.describe() if found else _no_renderer()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the picture as .svg, .png, .pdf, .dot, .html or .tex (TikZ); returns the path.

        An existing file is replaced when the new one is complete. Raises DrawingError.
        """
        target = named_file("path", path)
        suffix = target.suffix.lower().removeprefix(".")
        if suffix not in FORMATS:
            listed = ", ".join(f".{known}" for known in FORMATS)
            raise DrawingError(f"path {str(path)!r}: the suffix must be one of {listed}.")
        write_file(target, self._contents(suffix))
        return target

    @property
    def is_too_large(self) -> bool:
        """True if there are more shapes than `limit`."""
        return self.limit is not None and self.size > self.limit

    @property
    def size(self) -> int:
        """Number of shapes."""
        beside = self.picture.beside if isinstance(self.picture, ClosedPicture) else None
        return len(self.picture.shapes) + (len(beside.shapes) if beside else 0)

    def _contents(self, suffix: str) -> bytes:
        if suffix in ("svg", "dot", "html"):
            return str(getattr(self, suffix)).encode()
        if suffix == "tex":
            return tikz_of(self._rendered("json")).encode()
        return self._rendered(suffix)

    def _rendered(self, form: str) -> bytes:
        """The picture as "svg", "png", "pdf" or "json", drawn by Graphviz."""
        if self.is_too_large:
            raise DrawingError(
                f"there are {self.size} nodes to draw, more than limit={self.limit}: the layout would "
                f"take minutes and be unreadable. {_SMALLER}; or pass limit=None."
            )
        return self._by_graphviz(self._laid_out, form)

    def _by_graphviz(self, dot: str, form: str) -> bytes:
        try:
            rendered = render(dot, form, _SECONDS)
        except LayoutTimeoutError:
            rendered = render(with_less_effort(dot), form, _MORE_SECONDS)
        except DrawingError:
            # Graphviz crashes on some graphs with ranks across clusters; without them, it draws less evenly.
            simpler = without_common_ranks(dot)
            if simpler == dot:
                raise
            rendered = render(simpler, form, _MORE_SECONDS)
        contents, self._drawn_by = rendered
        return contents

    def __repr__(self) -> str:
        return f"<Drawing of {self.size} nodes, {self.style} style>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Picture for notebooks, or a line with the reason if it cannot be drawn. Never raises."""
        try:
            return bundle_of(self.svg, repr(self))
        except Exception as error:  # a picture must never raise in a notebook
            return {"text/plain": f"{self!r}: {error}"}


# -- renderers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Renderer:
    """A Graphviz: its name, and how it renders (DOT text, format, most seconds)."""

    name: str
    is_there: Callable[[], bool]
    run: Callable[[str, str, float], bytes]

    def describe(self) -> str:
        return f"drawn by {self.name}"


# pygraphviz lays out inside the process that imports it. A process of its own can be given fonts and a
# time limit, and a crash of the layout does not affect this process.
_WITH_PYGRAPHVIZ = """
import sys, pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
if sys.argv[1] == "png":
    graph.graph_attr["dpi"] = "144"
sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog="dot"))
"""


def _dot_command(form: str) -> list[str]:
    return [shutil.which("dot") or "dot", f"-T{form}", *(["-Gdpi=144"] if form == "png" else [])]


def _has_pygraphviz() -> bool:
    return importlib.util.find_spec("pygraphviz") is not None


RENDERERS: tuple[Renderer, ...] = (
    Renderer(
        "the `dot` program on PATH",
        lambda: shutil.which("dot") is not None,
        lambda dot, form, seconds: run_command(_dot_command(form), dot, seconds),
    ),
    Renderer(
        "the Graphviz inside pygraphviz",
        _has_pygraphviz,
        lambda dot, form, seconds: run_command(
            [sys.executable, "-P", "-c", _WITH_PYGRAPHVIZ, form], dot, seconds
        ),
    ),
    Renderer(
        "the Graphviz of the page",
        graphviz_is_loaded,
        lambda dot, form, seconds: render_in_browser(dot, form),
    ),
)


def installed_renderer() -> Renderer | None:
    """First installed renderer."""
    return next((renderer for renderer in RENDERERS if renderer.is_there()), None)


def _no_renderer() -> str:
    return f"not drawn: Graphviz is not installed. {_REMEDY}"


def render(dot: str, form: str, seconds: float) -> tuple[bytes, Renderer]:
    """Renders DOT text as svg, png, pdf or json; returns the bytes and the renderer.

    Raises LayoutTimeoutError if the layout takes longer than `seconds`; other renderers are not tried then.
    """
    failures = []
    for renderer in RENDERERS:
        if renderer.is_there():
            try:
                return renderer.run(dot, form, seconds), renderer
            except LayoutTimeoutError:
                raise
            except DrawingError as error:
                failures.append(f"{renderer.name}: {error}")
    if failures:
        raise DrawingError(
            f"Graphviz failed to make a .{form} ({'; '.join(failures)}). Save as .dot instead."
        )
    raise DrawingError(f"a .{form} needs Graphviz, which is not installed. {_REMEDY}")


def run_command(command: Sequence[str], dot: str, seconds: float) -> bytes:
    try:
        done = subprocess.run(
            command,
            input=dot.encode(),
            capture_output=True,
            timeout=seconds,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LayoutTimeoutError(f"Graphviz found no layout within {seconds} s. {_SMALLER}.") from None
    except OSError as error:
        raise DrawingError(str(error)) from None
    if done.returncode or not done.stdout:
        raise DrawingError(_complaint(done))
    return done.stdout


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    # A fontconfig that is older than the system's warns about unknown settings.
    lines = [line for line in lines if not line.startswith("Fontconfig")]
    return lines[-1] if lines else f"it stopped with exit status {done.returncode}"


# -- fonts -----------------------------------------------------------------------------------


def _environment() -> dict[str, str]:
    """Environment of Graphviz: fonts of matplotlib if the machine has none, and a neutral locale."""
    # In a Turkish locale the lowercase of I is ı, so Graphviz does not recognize its own tags and omits all text.
    environment = {**os.environ, "LC_ALL": "C"}
    folder = matplotlib_fonts()
    if folder is not None and "FONTCONFIG_FILE" not in environment:
        environment["FONTCONFIG_FILE"] = str(_fonts_conf(folder))
    return environment


def matplotlib_fonts() -> Path | None:
    """Folder of DejaVu and STIX, found without importing matplotlib."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "mpl-data" / "fonts" / "ttf"
    return folder if folder.is_dir() else None


@functools.cache
def _fonts_conf(fonts: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="graphnet-viz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "fonts.conf"
    path.write_text(
        '<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">\n<fontconfig>\n'
        '  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>\n'
        f"  <dir>{escape(str(fonts))}</dir>\n  <cachedir>{escape(str(folder))}</cachedir>\n</fontconfig>\n",
        encoding="utf-8",
    )
    return path


# -- pages -----------------------------------------------------------------------------------


def _page(body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>graphnet</title>\n'
        "<style>body { margin: 1rem; font-family: sans-serif; } svg { max-width: 100%; height: auto; }"
        f"</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
