"""Pictures of a cell or of a network: its graph, what flows through it, all of it as a page or a folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import graphnet as gn
from graphnet_rnn.apps.cli.outputs import PICTURES, require_ending, require_folder_of
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.errors import UsageError
from graphnet_rnn.network.network import Network
from graphnet_rnn.network.unroll import Unrolled

if TYPE_CHECKING:
    from viz import Drawing

__all__ = ["SHOWN", "draw_graph"]

#: What `draw --show` shows, and in which words.
SHOWN = {
    "graph": "its graph; of a network, each layer at each step as one box",
    "inside": "what is inside of the boxes",
    "values": "with the value of each node, for random input",
    "gradients": "with the norm of the derivative of the cost with respect to each node",
    "mirror": "the forward and the backward pass side by side",
    "generation": "a network that reads its own predictions",
    "explorer": "a page (.html) to open, search and step through it",
    "dump": "a folder with the graph after each pass, the instructions, and pictures",
}

#: A picture of more is announced: 5,000 take half a minute.
MANY_STEPS = 500
#: Symbols that the network around a cell reads and predicts.
_SYMBOLS = 27


def draw_graph(subject: Cell | Network, shown: str, out: str, style: str, theme: str, time: int) -> str:
    """Writes it, and says what was written and how it was drawn."""
    import viz

    if shown == "graph" and isinstance(subject, Cell):
        require_ending("--out", out, PICTURES, "the name of a picture")
        return _saved(viz.draw(subject, style, theme=theme), out)
    if shown == "explorer":
        require_ending("--show explorer: --out", out, (".html",), "the name of a page")
        thing = subject if isinstance(subject, Cell) else _unrolled(subject, time)
        return f"wrote {viz.explore(thing, out, theme=theme)} (open it in a browser)"
    network = Network([subject], _SYMBOLS, _SYMBOLS) if isinstance(subject, Cell) else subject
    if shown == "dump":
        return _dumped(network, out, style, theme, time)
    require_ending("--out", out, PICTURES, "the name of a picture")
    if shown == "generation":
        _announce(time)
        return _saved(viz.generation(network, max(time, 3), theme=theme), out)
    unrolled = _unrolled(network, time)
    drawings: dict[str, Callable[[], Drawing]] = {
        "graph": lambda: viz.draw(unrolled, style, theme=theme),
        "inside": lambda: viz.draw(unrolled, style, closed=False, theme=theme),
        "values": lambda: viz.draw(unrolled, style, notes=viz.values(unrolled), theme=theme),
        "gradients": lambda: viz.draw(unrolled, style, notes=viz.gradients(unrolled.cost), theme=theme),
        "mirror": lambda: viz.mirror(unrolled.cost, style, theme=theme),
    }
    return _saved(drawings[shown](), out)


def _unrolled(network: Network, time: int) -> Unrolled:
    settings: dict[str, Any] = {"labels": max(1, time // 2)} if network.loss == "ctc" else {}
    unrolled = network.unroll(time, batch=1, training=False, **settings)
    _announce(time)
    return unrolled


def _announce(time: int) -> None:
    if time > MANY_STEPS:
        warnings.warn(
            f"{time:,} time steps take long to draw, and are hard to read; a smaller --time shows the same",
            stacklevel=2,
        )


def _saved(drawing: Drawing, out: str) -> str:
    drawing.save(out)
    # DOT is the text that a Graphviz would draw.
    return f"wrote {out} ({'not drawn' if out.lower().endswith('.dot') else drawing.renderer})"


def _dumped(network: Network, out: str, style: str, theme: str, time: int) -> str:
    """Of the function that a training step calls: the cost and its gradient."""
    import viz

    if os.path.splitext(out)[1]:
        raise UsageError(f"--show dump: --out {out} is to be a folder, so its name can have no ending")
    require_folder_of("--out", out, "explain.txt")
    unrolled = _unrolled(network, time)
    function = gn.compile([unrolled.cost, *gn.gradient(unrolled.cost, list(network.parameters.values()))])
    folder = viz.dump(function, out, style, theme)
    return f"wrote {len(list(folder.iterdir()))} files into {folder}"
