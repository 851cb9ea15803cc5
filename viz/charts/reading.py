"""Cost along a text, and its rate of new words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from viz.charts import parts as chart
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viz.charts.figure import Chart

#: Approximate number of pieces of the running mean.
_WINDOW = 0.01


class Costs(Protocol):
    """Protocol of the result of `rnn.cost_over_text`."""

    @property
    def characters(self) -> int: ...
    @property
    def bits(self) -> Sequence[float]: ...
    @property
    def new_words(self) -> Sequence[int]: ...
    @property
    def parts(self) -> Sequence[tuple[str, int]]: ...
    @property
    def length(self) -> int: ...


@by_matplotlib()
def cost_over_text(costs: Costs | Mapping[str, Costs], title: str | None = None) -> Chart:
    """Bits per character along a text, with the running mean, the parts of the text, and the rate of new words.

    costs: result of `rnn.cost_over_text`, or several of the same text by name (running means only). New words, for each
    1,000 characters, are words that the text has not had before. Each part shows its mean. title: title of the chart.
    Raises DrawingError if there is nothing to draw.
    Source: Lynge 2016, figs 5.1 to 5.3.

    >>> network = rnn.Network([rnn.GRU(4)], inputs=4, outputs=4)
    >>> network.vocabulary = rnn.data.Vocabulary(" abc")
    >>> costs = rnn.cost_over_text(network, "a cab " * 20, characters=30, context=5)
    >>> viz.cost_over_text(costs).axes[0].get_ylabel()
    'bits per character'
    """
    from viz.charts.figure import Chart

    several = dict(costs) if isinstance(costs, Mapping) else {"": costs}
    for name, cost in several.items():
        missing = [a for a in ("characters", "bits", "new_words", "parts", "length") if not hasattr(cost, a)]
        if missing or not np.isfinite(np.array(cost.bits, np.float64)).any():
            raise DrawingError(
                f"costs{f'[{name!r}]' if name else ''} holds nothing to draw; pass the result of "
                "rnn.cost_over_text(network, corpus)."
            )
    if not several:
        raise DrawingError("costs is empty; pass the result of rnn.cost_over_text(network, corpus).")
    figure = Chart(8, 4.8)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.6, 1))
    first = next(iter(several.values()))
    for (name, cost), colour in zip(several.items(), _colours(len(several)), strict=True):
        _draw_costs(above, cost, name, colour, len(several) == 1)
    x, rate = _rate(first)
    below.plot(x, rate, color=chart.GREEN, linewidth=1.4, marker=_marker(rate))
    below.set_ylim(bottom=0)
    scale, unit = _unit(first.length)
    above.set_xlim(0, first.length / scale)
    _draw_parts(above, below, first, scale)
    for axes, words in ((above, "bits per character"), (below, "new words\nper 1,000 char.")):
        axes.set_ylabel(words, fontsize=11)
        chart.frame(axes, 10)
    below.set_xlabel(f"characters{unit}", fontsize=11)
    if len(several) > 1:
        above.legend(frameon=False, fontsize=10, loc="upper left", bbox_to_anchor=(0, 0.93))
    if title:
        figure.suptitle(chart.plain(title), x=0.01, horizontalalignment="left", fontsize=13)
    return figure


def _colours(count: int) -> list[str]:
    from viz.charts.labels import colour_of

    return [colour_of(number) for number in range(count)]


def _unit(length: int) -> tuple[float, str]:
    return (1e6, " (millions)") if length >= 1e6 else (1e3, " (thousands)") if length >= 1e4 else (1.0, "")


def _draw_costs(axes: Axes, cost: Costs, name: str, colour: str, pieces: bool) -> None:
    scale, _ = _unit(cost.length)
    bits = np.array(cost.bits, np.float64)
    x = _middles(cost, len(bits)) / scale
    known = np.isfinite(bits)
    x, bits = x[known], bits[known]
    if pieces:
        axes.plot(x, bits, color=colour, linewidth=0.5, alpha=0.35 if len(bits) > 20 else 1.0)
        # One outlier must not compress all other pieces.
        low, high = np.quantile(bits, [0.001, 0.999])
        room = 0.08 * (high - low) or 0.1
        axes.set_ylim(low - room, high + 3 * room)
    # A text shorter than two pieces is one point, which a line would not show.
    axes.plot(
        x, _running(bits), color=colour, linewidth=1.8, marker=_marker(bits), label=chart.plain(name) or None
    )


def _marker(values: chart.Numbers) -> str:
    return "o" if len(values) == 1 else ""


def _running(values: chart.Numbers) -> chart.Numbers:
    """Centered mean over about 1 % of the pieces, over fewer near the ends."""
    half = max(1, round(len(values) * _WINDOW / 2)) if len(values) > 20 else 0
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    reach = np.minimum(half, np.minimum(index, index[::-1]))
    return np.asarray((sums[index + reach + 1] - sums[index - reach]) / (2 * reach + 1))


def _middles(cost: Costs, count: int) -> chart.Numbers:
    starts = np.arange(count) * float(cost.characters)
    return (starts + np.minimum(starts + cost.characters, cost.length)) / 2


def _rate(cost: Costs) -> tuple[npt.NDArray[Any], chart.Numbers]:
    scale, _ = _unit(cost.length)
    words = np.array(cost.new_words, np.float64)
    size = np.full(len(words), float(cost.characters))
    size[-1] = cost.length - (len(words) - 1) * cost.characters or cost.characters
    x = _middles(cost, len(words)) / scale
    return x, _running(words) / _running(size) * 1000


def _draw_parts(above: Axes, below: Axes, cost: Costs, scale: float) -> None:
    means = getattr(cost, "means", ())
    borders = [*(start for _, start in cost.parts), cost.length]
    for number, (name, start) in enumerate(cost.parts):
        end = borders[number + 1]
        if number:
            for axes in (above, below):
                axes.axvline(start / scale, color=chart.GREY, linewidth=1.0, linestyle=chart.DASHES)
        mean = f"\n{means[number]:.3f}" if number < len(means) and np.isfinite(means[number]) else ""
        above.text(
            (start + end) / 2 / scale, 0.99, chart.plain(name) + mean, transform=above.get_xaxis_transform(),
            color=chart.GREY, fontsize=9, horizontalalignment="center", verticalalignment="top",
        )  # fmt: skip
