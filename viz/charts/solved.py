"""What it took to solve hard problems: many runs of each, with structural damping and without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from viz.charts import parts as chart
from viz.charts.history import History, is_positive, rows_of
from viz.errors import DrawingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viz.charts.figure import Chart

__all__ = ["minibatches_and_failures"]


class _Outcome(NamedTuple):
    """A run: its T, with structural damping or without, and the minibatches it took; None: not solved."""

    length: float
    structural: bool
    minibatches: float | None


class _Look(NamedTuple):
    """side: of T."""

    label: str
    color: str
    marker: str
    line: Any
    side: int


_DAMPED = {
    True: _Look("structural damping", chart.GREEN, "o", "-", 1),
    False: _Look("no structural damping", chart.VERMILION, "s", chart.DASHES, -1),
}


def minibatches_and_failures(table: History, title: str | None = None) -> Chart:
    """For each problem, the minibatches that it took to solve it against T, and the share of runs that did not.

    table: rows, or the path of a JSON-lines file of rows, one for each run: `{"task": "addition", "length": 30,
    "structural": True, "solved": True, "minibatches": 574.0}`; rows without a "task" are skipped, and of
    rows with one "seed", problem and damping the last one counts: a run that was taken up again.
    Above: mean, least and most of the runs that solved it; below: the share of all runs that did
    not, whether they failed or were ended early, in per cent.
    Raises DrawingError if the file cannot be read, a row is not complete, or there is none.
    Source: Sutskever 2013, figure 4.1.
    """
    from viz.charts.figure import Chart

    tasks = _outcomes(rows_of(table, "table"))
    figure = Chart(max(5.0, 1.2 + 2.6 * len(tasks)), 5.2)
    grid = figure.subplots(2, len(tasks), squeeze=False, sharex="col", sharey="row", height_ratios=(3, 1.6))
    shown: dict[str, Any] = {}
    for (above, below), (task, outcomes) in zip(grid.T, tasks.items(), strict=True):
        lengths = sorted({outcome.length for outcome in outcomes})
        both = len({outcome.structural for outcome in outcomes}) == 2
        reach = np.log(lengths[-1] / lengths[0])
        room = 0.12 * reach or 0.5
        for structural, look in _DAMPED.items():
            some = [outcome for outcome in outcomes if outcome.structural is structural]
            if some:
                # Side by side, since both have the same T.
                aside = 0.016 * (reach + 2 * room) * look.side * both
                shown[look.label] = _draw_outcomes(above, below, some, look, np.exp(aside))
        if not any(outcome.minibatches for outcome in outcomes):
            above.text(0.5, 0.5, "none solved", transform=above.transAxes, ha="center", color=chart.GREY)
        _lengths(below, lengths, np.exp(room))
        above.set_title(f"{task}\n", fontsize=12)
        above.text(
            0.5, 1.03, _runs_a_point(outcomes), transform=above.transAxes, ha="center", color=chart.GREY
        )
        chart.frame(above, 10)
        chart.frame(below, 10)
    _finish_outcomes(grid)
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=2, frameon=False, fontsize=11)
    if title:
        figure.suptitle(title, x=0.01, horizontalalignment="left", fontsize=14)
    return figure


def _outcomes(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[_Outcome]]:
    """By problem."""
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
            "table holds nothing to draw: it needs rows with 'task', 'length', 'structural', 'solved' and "
            "'minibatches'."
        )
    return tasks


def _outcome(row: Mapping[str, Any], count: int) -> _Outcome:
    length, structural, solved = (row.get(key) for key in ("length", "structural", "solved"))
    minibatches: Any = row.get("minibatches") if solved else None
    if not (isinstance(structural, bool) and isinstance(solved, bool)):
        problem = "'structural' and 'solved' must each be True or False"
    elif not is_positive(length):
        problem = "'length' must be a number > 0"
    elif solved and not is_positive(minibatches):
        problem = "it was solved, so 'minibatches' must be a number > 0"
    else:
        return _Outcome(float(length), structural, float(minibatches) if solved else None)
    raise DrawingError(f"table, row {count}: {problem}, in {dict(row)!r:.200}.")


def _draw_outcomes(above: Axes, below: Axes, some: Sequence[_Outcome], look: _Look, aside: float) -> Any:
    """The mean and range over what was solved, a gap where nothing was, and the share that was not."""
    lengths = sorted({outcome.length for outcome in some})
    x = aside * np.array(lengths)
    solved = [[o.minibatches for o in some if o.length == t and o.minibatches is not None] for t in lengths]
    unsolved = [
        100 * (1 - len(s) / sum(o.length == t for o in some)) for t, s in zip(lengths, solved, strict=True)
    ]
    mean = np.array([np.mean(s) if s else np.nan for s in solved])
    least, most = (np.array([extreme(s) if s else np.nan for s in solved]) for extreme in (min, max))
    style = {
        "color": look.color,
        "marker": look.marker,
        "linestyle": look.line,
        "markersize": 6,
        "linewidth": 1.6,
    }
    drawn = above.errorbar(
        x, mean, yerr=[mean - least, most - mean], capsize=3, elinewidth=1.1, label=look.label, **style
    )
    below.plot(x, unsolved, label=look.label, **style)
    return drawn


def _lengths(axes: Axes, lengths: Sequence[float], room: float) -> None:
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_xlim(lengths[0] / room, lengths[-1] * room)
    axes.xaxis.set_major_locator(FixedLocator(lengths[:: -(-len(lengths) // 8)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.set_xlabel("T", fontsize=12)


def _finish_outcomes(grid: Any) -> None:
    """What the columns share."""
    above, below = grid[:, 0]
    above.set_ylabel("minibatches to solve it", fontsize=12)
    below.set_ylabel("not solved (%)", fontsize=12)
    below.set_ylim(-8, 108)
    below.set_yticks([0, 50, 100])
    ends = [np.asarray(line.get_ydata(), np.float64) for axes in grid[0] for line in axes.get_lines()]
    seen = np.concatenate(ends)
    chart.logarithmic(above, seen)
    if not np.isfinite(seen).any():
        above.set_yticks([])


def _runs_a_point(outcomes: Sequence[_Outcome]) -> str:
    counts = Counter((outcome.length, outcome.structural) for outcome in outcomes).values()
    least, most = min(counts), max(counts)
    return f"{least} run{'s' * (most > 1)} each" if least == most else f"{least} to {most} runs each"
