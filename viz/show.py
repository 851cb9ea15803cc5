"""Objects in notebooks: pictures of graphs, charts of runs, colored text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import viz
from viz.charts.history import History, has_flight, measures_of, rows_of
from viz.drawing.draw import draw
from viz.notebook import bundle_of
from viz.pages import reading

if TYPE_CHECKING:
    from viz.charts.figure import Chart


def mimebundle(thing: Any) -> dict[str, str]:
    """MIME type -> content, e.g. "image/svg+xml", of an object that `viz` can show.

    thing: object that `viz.draw` draws; the history of a run (an object with a method `__history__`); results of
    `rnn.read` and `rnn.cost_over_text`; a schedule. Pictures are SVG, and HTML that scales them to the width of the
    page.
    Raises DrawingError for other objects.

    >>> sorted(viz.mimebundle(gn.tanh(gn.input((2,), name="x"))))
    ['image/svg+xml', 'text/html', 'text/plain']
    """
    if callable(getattr(thing, "__history__", None)):
        return bundle_of(history_chart(thing).svg, repr(thing))
    if hasattr(thing, "probabilities") and hasattr(thing, "guesses"):
        page = reading(thing)
        return {"text/plain": page.terminal, "text/html": page._repr_mimebundle_()["text/html"]}
    if hasattr(thing, "new_words") and hasattr(thing, "bits"):
        return bundle_of(viz.cost_over_text(thing).svg, repr(thing))
    if callable(getattr(thing, "by_epoch", None)) and not isinstance(thing, type):
        return bundle_of(viz.schedule_curve(thing).svg, repr(thing))
    return bundle_of(draw(thing).svg, repr(thing))


def history_chart(history: History, title: str | None = None) -> Chart:
    """Chart of a training history: a flight recorder if steps report more than a loss, otherwise the training curve.

    history: rows, a path, the folder of a run, or the result of a run. title: title of a flight recorder. A run without
    its own measure, such as one of `rnn.minimize`, gets a flight recorder as well.
    Raises DrawingError if there is nothing to draw.

    >>> rows = [{"event": "epoch", "epoch": n, "train_loss": 1 / n, "valid_loss": 2 / n} for n in range(1, 4)]
    >>> viz.history_chart(rows).axes[0].get_ylabel()
    'loss'
    """
    rows = rows_of(history)
    recorded = has_flight(rows)
    if not measures_of(rows).measure or recorded:
        return viz.flight_recorder(rows, title)
    figure = viz.training_curve(rows)
    if title:
        figure.suptitle(title, x=0.01, horizontalalignment="left", fontsize=14)
    return figure
