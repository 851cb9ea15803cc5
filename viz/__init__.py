"""viz: pictures of graphs, training curves and coloured text.

import viz

viz.draw(cost)                                       # shows itself in a notebook
viz.draw(cost, style="compact").save("cost.svg")     # .svg .png .pdf .dot .html
viz.training_curve("run/history.jsonl").savefig("curve.png")
viz.flight_recorder("run.jsonl").savefig("run.png")  # of Hessian-free steps
print(viz.coloured(text, probabilities, guesses))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viz.drawing.dot import to_dot
from viz.drawing.draw import draw
from viz.drawing.note import Notes
from viz.drawing.render import Drawing
from viz.errors import DrawingError
from viz.mirror import mirror
from viz.notes import changes, gradients, times, values
from viz.stages import dump, passes
from viz.style import COLOUR_BLIND, DARK, LIGHT, Style
from viz.text import coloured, coloured_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from viz.charts.history import History

__all__ = [
    "COLOUR_BLIND", "DARK", "LIGHT", "Drawing", "DrawingError", "Notes", "Style", "changes", "coloured",
    "coloured_html", "draw", "dump", "flight_recorder", "gradients", "minibatches_and_failures", "mirror", "passes",
    "times", "to_dot", "training_curve", "values",
]  # fmt: skip


def training_curve(history: History) -> Figure:
    """Training and validation bits per character against epoch; see `viz.charts.curves`."""
    from viz.charts import curves  # matplotlib is slow to import

    return curves.training_curve(history)


def flight_recorder(history: History, title: str | None = None) -> Figure:
    """A Hessian-free run, step by step: loss, ρ, λ, norms, conjugate gradient; see `viz.charts.second_order`."""
    from viz.charts import second_order

    return second_order.flight_recorder(history, title)


def minibatches_and_failures(table: History, title: str | None = None) -> Figure:
    """Minibatches to solve each problem, and failures, against T; see `viz.charts.solved`."""
    from viz.charts import solved

    return solved.minibatches_and_failures(table, title)
