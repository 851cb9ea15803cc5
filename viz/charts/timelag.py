"""Time lag of models after an open bracket (Krause 2015, fig. 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from viz.charts import parts as chart
from viz.charts.labels import Ending, colour_of, label_ends
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from viz.charts.figure import Chart


@by_matplotlib()
def time_lag(lags: Any, ideal: float | None = None, title: str | None = None) -> Chart:
    """log₁₀ p(']') / p('[') with a bracket open minus without, against the steps since; bands are ± a standard error.

    lags: result of `rnn.tasks.time_lag(network)`, or several by name: a line for each. ideal: dashed line at the
    correct value, if known (`BracketText.difference`); None by default. title: title of the chart.
    Raises DrawingError if there is nothing to draw.
    Source: Krause 2015, fig. 5.1.

    >>> ratios = np.zeros((2, 3, 8))
    >>> ratios[0] = 1.0
    >>> lag = rnn.tasks.TimeLag(("[a", "aa"), ratios, smooth=1)
    >>> len(viz.time_lag(lag).axes)
    1
    """
    from viz.charts.figure import Chart

    several = dict(lags) if isinstance(lags, Mapping) else {"": lags}
    wrong = [name for name, lag in several.items() if not hasattr(lag, "difference")]
    if wrong or not several:
        raise DrawingError(
            "lags holds nothing to draw; pass the result of rnn.tasks.time_lag(network), or a dict of several."
        )
    for lag in several.values():
        if lag.smooth > lag.log_ratios.shape[2]:
            raise DrawingError(
                f"lags holds nothing to draw: smooth must be at most {lag.log_ratios.shape[2]}, the steps of a run; "
                f"got {lag.smooth}. Use a smaller smooth, or more steps."
            )
    figure = Chart(8, 3.8)
    axes = figure.subplots()
    endings = []
    for number, (name, lag) in enumerate(several.items()):
        x, y, error = (np.asarray(each, np.float64) for each in (lag.steps, lag.difference, lag.error))
        colour = colour_of(number)
        axes.plot(x, y, color=colour, linewidth=1.6, marker="o" if len(x) == 1 else "")
        if np.isfinite(error).all():
            axes.fill_between(x, y - error, y + error, color=colour, alpha=0.18, linewidth=0)
        endings.append(Ending(float(y[-1]), name, colour))
    axes.axhline(0, color=chart.BLACK, linewidth=1.0)
    if ideal is not None and np.isfinite(ideal):
        axes.axhline(ideal, color=chart.GREY, linewidth=1.2, linestyle=chart.DASHES)
        endings.append(Ending(float(ideal), "ideal", chart.GREY))
    first = next(iter(several.values()))
    opened, control = first.contexts
    axes.set_xlim(0, max(float(lag.steps[-1]) for lag in several.values()))
    axes.set_xlabel("characters since the context", fontsize=11)
    axes.set_ylabel(chart.plain(f"log₁₀ ratio, after {opened!r}\nminus after {control!r}"), fontsize=11)
    chart.frame(axes, 10)
    label_ends(axes, [ending for ending in endings if ending.words], 3.0)
    if title:
        figure.suptitle(chart.plain(title), x=0.01, horizontalalignment="left", fontsize=13)
    return figure
