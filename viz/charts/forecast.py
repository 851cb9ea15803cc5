"""Chart of forecasts beside the values that they continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.settings import has_items, whole_number
from viz.charts import parts as chart
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from viz.charts.figure import Chart

#: Maximum number of panels.
MOST = 6


@by_matplotlib()
def forecast(forecasts: Sequence[Any], history: int | None = None) -> Chart:
    """Values of a series, an earlier forecast of the last ones, and the forecast after the end; a panel for each series

    forecasts: result of `rnn.data.Table.forecasts(outputs, loss)`; at most six are drawn. history: rows before the
    forecast to draw; default None, four times the horizon.
    Raises DrawingError if there is nothing to draw.

    >>> rows = {"sold": [3.0, 5.0, 4.0, 6.0, 5.0, 7.0]}
    >>> table = rnn.data.Table(rows, targets="sold", horizon=2)
    >>> chart = viz.forecast(table.forecasts(np.full((6, 1, 2), 5.5), "squared"))
    >>> len(chart.axes)
    1
    """
    from viz.charts.figure import Chart

    some = list(forecasts)[:MOST] if has_items(forecasts) else []
    if not some or not all(hasattr(each, "predicted") for each in some):
        raise DrawingError(
            "forecast: forecasts holds nothing to draw; pass the result of rnn.data.Table.forecasts(outputs, loss)."
        )
    horizon = len(some[0].predicted)
    count = 4 * horizon if history is None else whole_number("forecast: history", history)
    figure = Chart(8.0, 0.8 + 1.9 * len(some))
    axes = figure.subplots(len(some), 1, squeeze=False)[:, 0]
    for panel, each in zip(axes, some, strict=True):
        times, values = each.times[-count:], each.values[-count:]
        panel.plot(
            times, values, color=chart.BLACK, linewidth=1.4, label="values", marker="" if count > 1 else "o"
        )
        if len(each.times) > horizon and count >= horizon:
            # From the row at which the forecast is made.
            earlier = each.times[-1 - horizon :], np.append(each.values[-1 - horizon], each.earlier)
            panel.plot(
                *earlier, color=chart.BLUE, linewidth=1.4, linestyle=chart.DASHES, label="earlier forecast"
            )
        now = np.append(each.times[-1:], each.after), np.append(each.values[-1], each.predicted)
        panel.plot(
            *now, color=chart.VERMILION, linewidth=1.8, label="forecast", marker="o" if horizon == 1 else ""
        )
        panel.axvline(each.times[-1], color=chart.GREY, linewidth=0.8, linestyle=chart.DOTS)
        panel.set_ylabel(chart.plain(each.target), fontsize=10)
        chart.frame(panel, 9)
        panel.set_title(chart.plain(each.case), loc="left", fontsize=10)
        if each.times.dtype.kind == "M":
            _date_axis(panel)
        else:
            panel.set_xlabel(chart.plain(each.time or "row"), fontsize=10)
    axes[0].legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False, fontsize=9.5, borderaxespad=0.2
    )
    return figure


def _date_axis(axes: Any) -> None:
    from matplotlib import dates

    found: Any = dates  # without annotations
    locator = found.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    formatter = found.ConciseDateFormatter(locator)
    formatter.formats[2] = "%d %b"
    axes.xaxis.set_major_formatter(formatter)
