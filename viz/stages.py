"""Pictures of compiler passes, and a folder with all of them for a bug report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from graphnet.call.function import Function
from graphnet.passes import Stage
from viz.drawing.draw import draw
from viz.drawing.render import Drawing
from viz.errors import DrawingError, named_file
from viz.files import write_file
from viz.notes import changes
from viz.style import Theme


class PassPicture(NamedTuple):
    """A compiler pass: the graph before it, with removed nodes colored, and after it, with new nodes colored."""

    name: str
    before: Drawing
    after: Drawing
    #: Numbers of nodes before and after, of removed nodes, and of new nodes.
    nodes: tuple[int, int]
    gone: int
    new: int

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        return f"{self.name}: {self.nodes[0]} nodes, {self.gone} removed, {self.new} added, {self.nodes[1]} after"


def passes(
    function: Function, style: str = "full", *, steps: int | None = None, theme: Theme = "light"
) -> list[PassPicture]:
    """Pictures of the graph before and after each compiler pass, with changes colored.

    function: compiled function. style, steps, theme: as for `draw`.
    Raises DrawingError for other objects.

    >>> x = gn.input((2,), name="x")
    >>> [each.name for each in viz.passes(gn.compile(gn.tanh(x), [x]))][:3]
    ['prune', 'merge', 'simplify']
    """
    stages = _compiled("passes", function).stages()
    return [_pictured(stage, style, steps, theme) for stage in stages]


def _pictured(stage: Stage, style: str, steps: int | None, theme: Theme) -> PassPicture:
    gone, new = changes(stage.before, stage.after)
    before, after = (
        draw(graph, style, closed=False, steps=steps, theme=theme, notes=notes)
        for graph, notes in ((stage.before, gone), (stage.after, new))
    )
    nodes = len(stage.before), len(stage.after)
    return PassPicture(stage.name, before, after, nodes, len(gone.nodes), len(new.nodes))


def dump(
    function: Function, folder: str | os.PathLike[str], style: str = "full", theme: Theme = "light"
) -> Path:
    """Writes files for a bug report: the graph after each pass, the instructions, and pictures.

    function: compiled function. folder: folder to write in. Files are `explain.txt`, `instructions.txt`, and for the
    original graph and after each pass a list of its nodes (`03-simplify.txt`) and a picture (`.svg`; `.dot` if it is
    too large or Graphviz is missing). Files with these names are replaced. style: as for `draw`; "full" by default.
    theme: "light" (default), "dark", "colour-blind", or a Style.
    Returns the folder. Raises DrawingError for other objects, and if files cannot be written.

    >>> x = gn.input((2,), name="x")
    >>> folder = viz.dump(gn.compile(gn.tanh(x), [x], passes=()), "report")
    >>> (folder / "explain.txt").exists()
    True
    """
    _compiled("dump", function)
    target = named_file("folder", folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        write_file(target / "explain.txt", f"{function!r}\n\n{function.explain()}\n".encode())
        write_file(target / "instructions.txt", f"{function.instructions()}\n".encode())
        stages = [
            ("as written", function.source),
            *((stage.name, stage.after) for stage in function.stages()),
        ]
        for i, (name, graph) in enumerate(stages):
            stem = f"{i:02d}-{name.replace(' ', '-')}"
            lines = [
                f"{node.describe()} {node.dtype} = {node.op.name}({', '.join(x.describe() for x in node.inputs)})"
                f"   {node.origin}"
                for node in graph.order
            ]
            for old in (".svg", ".dot"):  # which may be of another graph
                (target / f"{stem}{old}").unlink(missing_ok=True)
            write_file(target / f"{stem}.txt", "\n".join([*lines, ""]).encode())
            _draw(draw(graph, style, closed=False, theme=theme), target / stem)
    except OSError as error:
        raise DrawingError(f"folder {str(target)!r} cannot be written: {error.strerror or error}") from None
    return target


def _compiled(name: str, function: Function) -> Function:
    if not isinstance(function, Function):
        raise DrawingError(
            f"function: {name} needs a compiled function (gn.compile), not a {type(function).__name__}."
        )
    return function


def _draw(drawing: Drawing, stem: Path) -> None:
    try:
        drawing.save(stem.with_suffix(".svg"))
    except DrawingError:  # too large, or no Graphviz: its text can still be drawn elsewhere
        drawing.save(stem.with_suffix(".dot"))
