"""What notebooks show of an object: a graph's picture, a run's curve, or a coloured text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viz.charts.curves import training_curve
from viz.charts.history import History, measures_of, rows_of
from viz.charts.reading import cost_over_text
from viz.charts.schedule import is_schedule, schedule_curve
from viz.charts.second_order import flight_recorder, has_flight
from viz.drawing.draw import draw
from viz.notebook import bundle_of
from viz.pages import reading

if TYPE_CHECKING:
    from viz.charts.figure import Chart

__all__ = ["history_chart", "mimebundle"]


def mimebundle(thing: Any) -> dict[str, str]:
    """Kind -> content, e.g. "image/svg+xml", of whatever `viz` has a picture for.

    Of a picture: SVG, and HTML that fits it to the width of the page.
    A run's history (an object with a method `__history__`) as its curve; what `rnn.read` and `rnn.cost_over_text` give;
    a schedule as its curve; and all that `viz.draw` draws. Raises DrawingError for anything else.
    """
    if callable(getattr(thing, "__history__", None)):
        return bundle_of(history_chart(thing).svg, repr(thing))
    if hasattr(thing, "probabilities") and hasattr(thing, "guesses"):
        page = reading(thing)
        return {"text/plain": page.terminal, "text/html": page._repr_mimebundle_()["text/html"]}
    if hasattr(thing, "new_words") and hasattr(thing, "bits"):
        return bundle_of(cost_over_text(thing).svg, repr(thing))
    if is_schedule(thing):
        return bundle_of(schedule_curve(thing).svg, repr(thing))
    return bundle_of(draw(thing).svg, repr(thing))


def history_chart(history: History, title: str | None = None) -> Chart:
    """The chart that fits a history: a flight recorder where steps report more than a loss, else the training curve.

    A run without a measure of its own, such as one of `rnn.minimize`, gets a flight recorder as well.
    Raises DrawingError if there is nothing to draw.
    """
    rows = rows_of(history)
    recorded = has_flight(rows)
    if not measures_of(rows).measure or recorded:
        return flight_recorder(rows, title)
    figure = training_curve(rows)
    if title:
        figure.suptitle(title, x=0.01, horizontalalignment="left", fontsize=14)
    return figure
