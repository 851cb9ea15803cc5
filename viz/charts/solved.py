"""Minibatches until hard problems are solved, with structural damping and without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphnet.settings import shown
from viz.charts import parts as chart
from viz.charts.history import History, is_positive, rows_of
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from viz.charts.figure import Chart

#: Maximum number of problems in a row.
_COLUMNS = 4


class _Outcome(NamedTuple):
    length: float
    structural: bool
    end: str  # a key of _ENDS
    minibatches: float | None


class _Look(NamedTuple):
    """pale: color of solved runs; side: shift from T."""

    label: str
    color: str
    pale: str
    marker: str
    line: Any
    side: int


_DAMPED = {
    True: _Look("structural damping", chart.GREEN, "#CDEBE1", "o", "-", 1),
    False: _Look("no structural damping", chart.VERMILION, "#F7DECF", "s", chart.DASHES, -1),
}


class _End(NamedTuple):
    """marker: end of such a run, above; fill and hatch: its share of a bar, below."""

    label: str
    marker: str
    fill: str
    hatch: str


#: In the order of stacked bars. Failed is dark, open is white.
_ENDS = {
    "solved": _End("solved", "", "pale", ""),
    "open": _End("open: stopped early", "^", "white", "/////"),
    "failed": _End("failed: not solved at the limit", "x", "color", ""),
}


@by_matplotlib()
def minibatches_and_failures(table: History, title: str | None = None) -> Chart:
    """Minibatches until each problem is solved, against T, and the number of runs that solved it, failed, or are open.

    table: rows, or the path of a JSON-lines file of rows, one for each run: `{"task": "addition", "length": 30,
    "structural": True, "solved": True, "open": False, "minibatches": 574.0}`. Rows without "task" are skipped. Of rows
    with the same "seed", problem and damping the last one counts (a resumed run). An unsolved run has failed, after all
    of its minibatches, unless "open" is True: it was stopped before. title: title of the chart.
    Above: mean, minimum and maximum of the solved runs, and the end of the others (open triangle: stopped; cross:
    failed). Below: the number of runs, hatched for open and dark for failed ones.
    Raises DrawingError if the file cannot be read, a row is incomplete, or there is none.
    Source: Sutskever 2013, figure 4.1.

    >>> row = {"task": "addition", "structural": True, "solved": True, "open": False}
    >>> chart = viz.minibatches_and_failures([{**row, "length": n, "minibatches": 9.0 * n} for n in (30, 50)])
    >>> len(chart.axes)
    2
    """
    from viz.charts.figure import Chart

    tasks = _outcomes(rows_of(table, "table"))
    columns = min(len(tasks), _COLUMNS)
    bands = -(-len(tasks) // columns)
    figure = Chart(max(6.4, 1.2 + 2.6 * columns), 0.7 + 4.5 * bands)
    panels = _panels(figure, bands, columns, len(tasks))
    for (above, below), (task, outcomes) in zip(panels, tasks.items(), strict=True):
        _draw_problem(above, below, outcomes)
        above.set_title(chart.plain(task), fontsize=12)
        chart.frame(above, 10)
        chart.frame(below, 10)
    bars = Counter((task, o.length, o.structural) for task, outcomes in tasks.items() for o in outcomes)
    _finish(panels, columns, max(bars.values()))
    _legend(figure, [outcome for outcomes in tasks.values() for outcome in outcomes])
    if title:
        figure.suptitle(chart.plain(title), x=0.01, horizontalalignment="left", fontsize=14)
    return figure


def _panels(figure: Figure, bands: int, columns: int, count: int) -> list[tuple[Axes, Axes]]:
    grid = figure.subplots(2 * bands, columns, squeeze=False, height_ratios=(3, 1.3) * bands)
    pairs = [
        (grid[2 * band, column], grid[2 * band + 1, column])
        for band in range(bands)
        for column in range(columns)
    ]
    for above, below in pairs[count:]:
        above.remove()
        below.remove()
    for above, below in pairs[:count]:
        above.sharex(below)
        above.tick_params(labelbottom=False)
    for first, *others in zip(*pairs[:count], strict=True):
        for axes in others:
            axes.sharey(first)
    return pairs[:count]


def _outcomes(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[_Outcome]]:
    found: dict[tuple[Any, ...], tuple[str, _Outcome]] = {}
    for count, row in enumerate(rows, start=1):
        if "task" in row:
            name, outcome = str(row["task"]), _outcome(row, count)
            which = repr(row["seed"]) if "seed" in row else count
            found[name, outcome.length, outcome.structural, which] = name, outcome
    tasks: dict[str, list[_Outcome]] = {}
    for name, outcome in found.values():
        tasks.setdefault(name, []).append(outcome)
    if not tasks:
        raise DrawingError(
            "table holds nothing to draw: it needs rows with 'task', 'length', 'structural', 'solved', 'open' and "
            "'minibatches'."
        )
    return tasks


def _outcome(row: Mapping[str, Any], count: int) -> _Outcome:
    length, structural, solved = (row.get(key) for key in ("length", "structural", "solved"))
    undecided, minibatches = row.get("open", False), row.get("minibatches")
    if not all(isinstance(value, bool) for value in (structural, solved, undecided)):
        problem = "'structural', 'solved' and 'open' must each be True or False"
    elif solved and undecided:
        problem = "'solved' and 'open' cannot both be True"
    elif not is_positive(length):
        problem = "'length' must be a number > 0"
    elif solved and not is_positive(minibatches):
        problem = "'solved' is True, so 'minibatches' must be a number > 0"
    else:
        end = "solved" if solved else "open" if undecided else "failed"
        return _Outcome(
            float(length), bool(structural), end, float(minibatches) if is_positive(minibatches) else None
        )
    raise DrawingError(f"table, row {count}: {problem}, in {shown(dict(row), 200)}.")


def _draw_problem(above: Axes, below: Axes, outcomes: Sequence[_Outcome]) -> None:
    lengths = sorted({outcome.length for outcome in outcomes})
    reach = np.log(lengths[-1] / lengths[0])
    room = 0.13 * reach or 0.5
    half = 0.03 * (reach + 2 * room)  # of a bar
    both = len({outcome.structural for outcome in outcomes}) == 2
    for structural, look in _DAMPED.items():
        some = [outcome for outcome in outcomes if outcome.structural is structural]
        if some:
            aside = float(np.exp(1.15 * half * look.side * both))
            _draw_minibatches(above, some, look, aside, float(np.exp(half * look.side)))
            _draw_runs(below, some, look, aside, half)
    if not any(outcome.end == "solved" for outcome in outcomes):
        above.text(
            0.5, 0.97, "none solved", transform=above.transAxes, ha="center", va="top", color=chart.GREY
        )
    _lengths(below, lengths, np.exp(room))


def _draw_minibatches(
    axes: Axes, some: Sequence[_Outcome], look: _Look, aside: float, further: float
) -> None:
    lengths = sorted({outcome.length for outcome in some})
    solved = [
        [o.minibatches for o in some if o.length == t and o.end == "solved" and o.minibatches]
        for t in lengths
    ]
    mean = np.array([np.mean(s) if s else np.nan for s in solved])
    least, most = (np.array([extreme(s) if s else np.nan for s in solved]) for extreme in (min, max))
    axes.errorbar(
        aside * np.array(lengths), mean, yerr=[mean - least, most - mean], capsize=3, elinewidth=1.1,
        label=look.label, color=look.color, marker=look.marker, linestyle=look.line, markersize=6, linewidth=1.6,
    )  # fmt: skip
    for name, end in _ENDS.items():
        ended = [(o.length, o.minibatches) for o in some if o.end == name and o.minibatches]
        if ended and end.marker:
            x, y = np.array(ended).T
            axes.plot(
                aside * further * x, y, end.marker, color=look.color, markerfacecolor="white", markersize=6.5,
                markeredgewidth=1.4, zorder=3, label=f"{look.label}: {name}",
            )  # fmt: skip


def _draw_runs(axes: Axes, some: Sequence[_Outcome], look: _Look, aside: float, half: float) -> None:
    lengths = np.array(sorted({outcome.length for outcome in some}))
    count = Counter((outcome.length, outcome.end) for outcome in some)
    left, width = aside * lengths * np.exp(-half), aside * lengths * (np.exp(half) - np.exp(-half))
    bottom = np.zeros(len(lengths))
    for name, end in _ENDS.items():
        height = np.array([count[t, name] for t in lengths])
        axes.bar(
            left, height, width, bottom, align="edge", color=getattr(look, end.fill, end.fill), hatch=end.hatch,
            edgecolor=look.color, linewidth=0.9, label=f"{look.label}: {name}",
        )  # fmt: skip
        bottom += height


def _lengths(axes: Axes, lengths: Sequence[float], room: float) -> None:
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_xlim(lengths[0] / room, lengths[-1] * room)
    axes.xaxis.set_major_locator(FixedLocator(lengths[:: -(-len(lengths) // 8)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.set_xlabel("T", fontsize=12)


def _finish(panels: Sequence[tuple[Axes, Axes]], columns: int, most: int) -> None:
    for number, (above, below) in enumerate(panels):
        for axes, words in ((above, "minibatches"), (below, "runs")):
            axes.tick_params(labelleft=number % columns == 0)
            axes.set_ylabel(words if number % columns == 0 else "", fontsize=12)
    above, below = panels[0]
    drawn = [np.asarray(line.get_ydata(), np.float64) for axes, _ in panels for line in axes.get_lines()]
    seen = np.concatenate(drawn)
    chart.logarithmic(above, seen)
    if not np.isfinite(seen).any():
        above.set_yticks([])
    below.set_ylim(0, 1.08 * most)
    chart.whole_numbers(below.yaxis, 3)


def _legend(figure: Figure, outcomes: Sequence[_Outcome]) -> None:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown: dict[str, Any] = {}
    for structural, look in _DAMPED.items():
        if any(outcome.structural is structural for outcome in outcomes):
            shown[look.label] = Line2D(
                [], [], color=look.color, marker=look.marker, linestyle=look.line, markersize=6, linewidth=1.6
            )
    for name, end in _ENDS.items():
        if any(outcome.end == name for outcome in outcomes):
            fill = {"pale": "#DDDDDD", "color": chart.GREY}.get(end.fill, end.fill)
            bar = Patch(facecolor=fill, edgecolor=chart.GREY, hatch=end.hatch, linewidth=0.9)
            spot = Line2D(
                [], [], linestyle="none", marker=end.marker, color=chart.GREY, markerfacecolor="white",
                markersize=6.5, markeredgewidth=1.4,
            )  # fmt: skip
            shown[end.label] = (spot, bar) if end.marker else (bar,)
    figure.legend(
        shown.values(), shown, loc="outside lower center", ncols=min(len(shown), 5 if figure.get_figwidth() > 9 else 2),
        frameon=False, fontsize=11, columnspacing=1.6, handler_map={tuple: HandlerTuple(ndivide=None)},
    )  # fmt: skip
