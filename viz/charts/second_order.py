"""Flight recorder of second-order training: Hessian-free or Riemannian."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from viz.charts import parts as chart
from viz.charts.history import History, is_number, rows_of
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from viz.charts.figure import Chart

#: Why CG ended (see graphnet_rnn's Solution): its words, color and marker.
_ENDS = {
    "progress": ("stalled", chart.BLUE, "o"),
    "limit": ("limit", chart.VERMILION, "s"),
    "solved": ("solved", chart.GREEN, "D"),
    "curvature": ("curvature ≤ 0", chart.PURPLE, "^"),
    "not finite": ("not finite", chart.BLACK, "X"),
    "loss": ("loss turns", chart.SKY, "p"),
    "ratio": ("ρ < 1/4", chart.BROWN, ">"),
    "failures": ("failures", chart.ORANGE, "v"),
    "": ("other", chart.GREY, "P"),
}
#: Numbers beyond this, or its inverse, count as infinite, or zero: axes cannot show them.
_LARGEST = 1e100
#: Maximum number of curves.
_CURVES = 40
#: Color, marker and line of each parameter group.
_PARTS = ((chart.BLUE, "o", chart.DASHES), (chart.VERMILION, "s", chart.DOTS))
#: Values of ρ beyond these are drawn at the edge.
_WILD = (-1.0, 2.0)


@by_matplotlib()
def flight_recorder(history: History, title: str | None = None) -> Chart:
    """A second-order run step by step: loss, test error, and the measurements of each step

    Hessian-free: ρ, λ, |g|, |δ|, α, and conjugate gradient. Riemannian: rates, trials, lengths, and condition numbers.

    history: rows, or the path of a JSON-lines file of rows: `{"event": "step", "step": 3, **vars(report)}` with a
    HessianFreeReport, RiemannianReport or NaturalGradientReport. Rows of tests are `{"event": "epoch",
    "valid_wrong": 0.03}` (a share of 1; after the steps above it), as a Trainer writes them, or `{"event": "test",
    "step": 5, "wrong": 0.03}`. Other rows are skipped, and so are values that are missing, None or not finite; empty
    panels are left out. Where step numbers go back, the run was resumed; later steps of the earlier run are left out.
    title: title of the chart.
    Panels: the loss before and after each step on the curvature batch, with rejected steps marked; the test error;
    ρ = actual reduction / predicted reduction of the quadratic model, at the edge if off the scale, and marked there,
    too, if the model predicted no reduction (the damping then grows); λ, and λ μ or μ, if there are any; norms of
    gradient and step; α of the line search; seconds, if the rows have them (a training run keeps them in timing.jsonl);
    the number of CG steps, and the step of the chosen iterate; φ after each CG step, relative to φ at the end, for up
    to 40 HF steps. Riemannian: the rate of each parameter group, with canceled steps marked; the number of trial rates;
    the length of steps in the metric; the condition numbers of the metric's blocks.
    Raises DrawingError if the file cannot be read or contains nothing to draw.
    Source: Martens 2010, 4; Sutskever 2013, 4.2 and algorithm 5.

    >>> rows = [{"event": "step", "step": n, "before": 2 / n, "after": 1 / n, "damping": 1 / n} for n in (1, 2, 3)]
    >>> [axes.get_title(loc="left") for axes in viz.flight_recorder(rows).axes]
    ['Loss', 'Damping']
    """
    from viz.charts.figure import Chart

    run = _run(rows_of(history))
    columns = [column for column in ([p for p in panels if p.shown(run)] for panels in _PANELS) if column]
    if not columns:
        raise DrawingError(
            "history holds nothing to draw: it needs rows with event 'step' and numbers such as 'before', 'after', "
            "'ratio' and 'damping' (vars of a HessianFreeReport), or rows with event 'test', a 'step' and 'wrong'."
        )
    tallest = max(sum(panel.height for panel in column) for column in columns)
    figure = Chart(6.6 * len(columns), 0.9 + 0.95 * tallest)
    # The column with the color bar is wider, so that all panels have the same width.
    widths = [1.0 if all(panel.by_step for panel in column) else 1.09 for column in columns]
    grid = figure.add_gridspec(1, len(columns), width_ratios=widths)
    shared: Axes | None = None
    for place, column in enumerate(columns):
        cells = grid[place].subgridspec(len(column), 1, height_ratios=[panel.height for panel in column])
        for row, panel in enumerate(column):
            axes = figure.add_subplot(cells[row], sharex=shared if panel.by_step else None)
            panel.draw(axes, run)
            chart.frame(axes, 10)
            if panel.by_step:
                shared = axes
                last = row + 1 == len(column) or not column[row + 1].by_step
                axes.tick_params(labelbottom=last)
                axes.set_xlabel(run.step_name if last else "", fontsize=11)
    if shared is not None:
        _step_axis(shared, run)
    if title:
        figure.suptitle(chart.plain(title), x=0.01, horizontalalignment="left", fontsize=14)
    return figure


# -- the rows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """Rows of the steps, each with its number, and tests: step, share of errors."""

    steps: list[tuple[float, Mapping[str, Any]]]
    tests: list[tuple[float, float]]

    @property
    def at(self) -> chart.Numbers:
        return np.array([step for step, _ in self.steps], np.float64)

    def column(self, key: str) -> chart.Numbers:
        """Values of `key` in the steps; NaN for missing ones."""
        return np.array([_number(row.get(key)) for _, row in self.steps], np.float64)

    @property
    def rejected(self) -> npt.NDArray[np.bool_]:
        return (self.column("scale") == 0) | (self.column("rate") == 0)

    @property
    def step_name(self) -> str:
        """Name of a step; a Hessian-free run is recognized by its damping."""
        return "step" if not self.knows("ratio", "damping", "cg_steps") else "HF step"

    def knows(self, *keys: str) -> bool:
        return any(np.isfinite(self.column(key)).any() for key in keys)


def _run(rows: Iterable[Mapping[str, Any]]) -> _Run:
    run = _Run([], [])
    for row in rows:
        if row.get("event") == "step":
            following = run.steps[-1][0] + 1 if run.steps else 1.0
            step = _step(row, following)
            _forget(run.steps, step)
            _forget(run.tests, step)
            run.steps.append((step, row))
        elif row.get("event") == "test" and np.isfinite(_number(row.get("wrong"))):
            step = _step(row, run.steps[-1][0] if run.steps else 0.0)
            _forget(run.steps, step + 1)
            _forget(run.tests, step)
            run.tests.append((step, float(row["wrong"])))
        elif row.get("event") == "epoch" and run.steps and np.isfinite(_number(row.get("valid_wrong"))):
            run.tests.append((_step(row, run.steps[-1][0]), float(row["valid_wrong"])))
    return run


def _step(row: Mapping[str, Any], default: float) -> float:
    step = _number(row.get("step"))
    return step if np.isfinite(step) else default


def _forget(records: list[Any], step: float) -> None:
    while records and records[-1][0] >= step:
        records.pop()


def _number(value: Any) -> float:
    """A float; NaN for other objects and for numbers too large for an axis, 0 for numbers too small."""
    if not is_number(value) or abs(value) > _LARGEST:
        return np.nan
    return float(value) if abs(value) > 1 / _LARGEST else 0.0


# -- panels by HF step -----------------------------------------------------------------------


def _step_axis(axes: Axes, run: _Run) -> None:
    seen = np.concatenate([run.at, [step for step, _ in run.tests]])
    room = max(0.6, 0.015 * (seen.max() - seen.min()))
    axes.set_xlim(seen.min() - room, seen.max() + room)
    chart.whole_numbers(axes.xaxis, 8)


def _draw_loss(axes: Axes, run: _Run) -> None:
    x, before, after = run.at, run.column("before"), run.column("after")
    if not run.knows("before"):  # 'loss' is then of the same batch
        before = run.column("loss")
    if run.knows("before", "after"):
        chart.line(axes, x, before, "before", chart.BLUE, "o")
        chart.line(axes, x, after, "after", chart.VERMILION, "s", chart.DASHES)
    else:
        chart.line(axes, x, before, "", chart.BLUE, "o")
    rejected = run.rejected & np.isfinite(before)
    if rejected.any():
        chart.mark(axes, x[rejected], before[rejected], "x", label="rejected", size=1.5)
    seen = np.concatenate([before, after])
    seen = seen[np.isfinite(seen)]
    positive = seen[seen > 0]
    if seen.min() >= 0 and positive.size and positive.max() >= 10 * positive.min():
        chart.logarithmic(axes, positive)
        none = (before == 0) | (after == 0)
        if none.any():
            _mark_zeros(axes, x[none], positive.min() / 2, "0")
    chart.caption(axes, "Loss")


def _mark_zeros(axes: Axes, x: chart.Numbers, edge: float, label: str) -> None:
    axes.set_ylim(bottom=edge)
    chart.mark(axes, x, np.full(len(x), edge), "v", color=chart.VERMILION, label=label)


def _draw_test(axes: Axes, run: _Run) -> None:
    x, wrong = np.array(run.tests).T
    percent, positive = 100 * wrong, 100 * wrong[wrong > 0]
    if positive.size and positive.max() >= 10 * positive.min():
        low, high = positive.min() / 2, positive.max() * 1.5
        chart.logarithmic(axes, positive, plain=True)
    else:
        high = 1.08 * max(percent.max(), 1.0)
        low = -0.05 * high
    chart.line(axes, x, np.maximum(percent, low), "", chart.GREEN, "D")
    none = percent < low
    axes.set_ylim(low, high)
    if none.any():
        _mark_zeros(axes, x[none], low, "0 %")
    chart.caption(axes, "Test sequences that are wrong (%)")


def _ratios(run: _Run) -> tuple[chart.Numbers, chart.Numbers]:
    given = [(step, row.get("ratio")) for step, row in run.steps]
    kept = [(step, float(ratio)) for step, ratio in given if is_number(ratio) or ratio in (np.inf, -np.inf)]
    x, ratio = np.array(kept, np.float64).reshape(-1, 2).T
    return x, ratio


def _without_ratio(run: _Run) -> chart.Numbers:
    known = set(_ratios(run)[0])
    reported = np.array(["ratio" in row for _, row in run.steps], np.bool_)
    made = reported & np.isfinite(run.column("cg_steps")) & np.isfinite(run.column("after"))
    return np.array([step for step in run.at[made] if step not in known], np.float64)


def _draw_ratio(axes: Axes, run: _Run) -> None:
    x, ratio = _ratios(run)
    low = _WILD[0] if (ratio < _WILD[0]).any() else min(-0.1, max(ratio.min(initial=1.0), _WILD[0]) - 0.1)
    high = _WILD[1] if (ratio > _WILD[1]).any() else max(1.2, min(ratio.max(initial=1.0), _WILD[1]) + 0.1)
    axes.set_ylim(low, high)
    for bound, words, style in ((0.75, "3/4", chart.DASHES), (0.25, "1/4", chart.DOTS)):
        axes.axhline(bound, color=chart.GREY, linewidth=1.3, linestyle=style, zorder=4)
        # Not in the legend: the space next to the caption is full.
        axes.text(
            1.005,
            bound,
            words,
            transform=axes.get_yaxis_transform(),
            fontsize=9.5,
            verticalalignment="center",
        )
    if len(x) <= 2 * _CURVES:
        axes.plot(x, np.clip(ratio, low, high), color=chart.BLUE, linewidth=0.6, alpha=0.4)
    inside = (ratio >= low) & (ratio <= high)
    chart.mark(axes, x[inside], ratio[inside], "o", color=chart.BLUE)
    for beyond, edge, marker in ((ratio > high, high, "^"), (ratio < low, low, "v")):
        if beyond.any():
            most = max(ratio[beyond], key=abs)
            label = f"to {most:.3g}".replace("-", "−").replace("inf", "∞")
            chart.mark(
                axes, x[beyond], np.full(beyond.sum(), edge), marker, color=chart.VERMILION, label=label
            )
    none = _without_ratio(run)
    if none.size:
        chart.mark(
            axes, none, np.full(none.size, low), "d", color=chart.GREY, label="no fall predicted", hollow=True
        )
    chart.caption(axes, "Reduction ratio ρ")


def _damped(run: _Run) -> npt.NDArray[np.bool_]:
    return (run.column("damping") > 0) | (run.column("structural") > 0)


def _draw_damping(axes: Axes, run: _Run) -> None:
    x, damping, structural = run.at, run.column("damping"), run.column("structural")
    shown = []
    if (damping > 0).any():
        shown.append(damping)
        chart.line(axes, x, damping, "λ", chart.BLUE, "o")
    if (structural > 0).any():
        shown.append(structural)
        chart.line(axes, x, structural, _structural(damping, structural), chart.VERMILION, "s", chart.DASHES)
    chart.logarithmic(axes, np.concatenate(shown))
    chart.caption(axes, "Damping")


def _structural(damping: chart.Numbers, structural: chart.Numbers) -> str:
    """Label of the weight of structural damping: λ μ if λ changes, else μ."""
    known = (damping > 0) & np.isfinite(structural)
    weights = structural[known] / damping[known]
    changes = known.any() and np.ptp(damping[known]) > 0
    if changes and np.allclose(weights, weights[0], rtol=1e-3):
        return f"λμ (structural, μ = {weights[0]:.3g})"
    return "structural" if known.all() and not changes and np.ptp(structural) == 0 else "μ (structural)"


def _draw_norms(axes: Axes, run: _Run) -> None:
    gradient, step = run.column("gradient_norm"), run.column("step_norm")
    chart.line(axes, run.at, gradient, "gradient |g|", chart.BLUE, "o")
    if run.knows("step_norm"):
        chart.line(axes, run.at, step, "step |δ|", chart.VERMILION, "s", chart.DASHES)
    chart.logarithmic(axes, np.concatenate([gradient, step]))
    chart.caption(axes, "Norms")


def _draw_scale(axes: Axes, run: _Run) -> None:
    x, scale = run.at, run.column("scale")
    most = max(1.0, np.nanmax(scale))
    axes.set_ylim(-0.1 * most, 1.1 * most)
    axes.set_yticks([0, 0.5 * most, most], minor=False)
    taken = scale > 0
    chart.mark(axes, x[taken], scale[taken], "o", color=chart.BLUE)
    if run.rejected.any():
        chart.mark(axes, x[run.rejected], scale[run.rejected], "x", label="0: rejected", size=1.2)
    chart.caption(axes, "Line search α")


def _draw_rates(axes: Axes, run: _Run) -> None:
    rates = run.column("rate")
    parts = [str(row.get("part") or "") for _, row in run.steps]
    for place, part in enumerate(sorted(set(parts))):
        of = np.array([each == part for each in parts]) & (rates > 0)
        color, marker, dashes = _PARTS[place % len(_PARTS)]
        chart.line(axes, run.at[of], rates[of], part, color, marker, dashes)
    positive = rates[rates > 0]
    if positive.size:
        chart.logarithmic(axes, positive)
        if (rates == 0).any():
            _mark_zeros(axes, run.at[rates == 0], positive.min() / 2, "canceled")
    chart.caption(axes, "Rates")


def _draw_tries(axes: Axes, run: _Run) -> None:
    tries = run.column("tries")
    chart.mark(axes, run.at, tries, "o", color=chart.BLUE)
    axes.set_ylim(0, 1.1 * max(1.0, np.nanmax(tries)))
    chart.whole_numbers(axes.yaxis, 4)
    chart.caption(axes, "Rates tried")


def _draw_length(axes: Axes, run: _Run) -> None:
    length = run.column("length")
    chart.line(axes, run.at, length, "", chart.BLUE, "o")
    if (length > 0).any():
        chart.logarithmic(axes, length[length > 0])
    chart.caption(axes, "Length of a step in the metric")


def _draw_condition(axes: Axes, run: _Run) -> None:
    condition = run.column("condition")
    chart.line(axes, run.at, condition, "", chart.VERMILION, "s")
    chart.logarithmic(axes, condition[condition > 0])
    chart.caption(axes, "Condition of the metric's blocks (at least)")


def _draw_seconds(axes: Axes, run: _Run) -> None:
    seconds = run.column("seconds")
    chart.line(axes, run.at, seconds, "", chart.GREEN, "o")
    axes.set_ylim(0, 1.1 * max(np.nanmax(seconds), 1e-3))
    chart.caption(axes, "Seconds a step")


def _draw_cg(axes: Axes, run: _Run) -> None:
    x, steps, chosen = run.at, run.column("cg_steps"), run.column("chosen")
    axes.vlines(x, 0, steps, color="#cccccc", linewidth=max(0.4, min(3.0, 150 / len(x))))
    given = [str(row.get("cg_reason")) for _, row in run.steps]
    reasons = [reason if reason in _ENDS else "" for reason in given]
    for reason, (label, color, marker) in _ENDS.items():
        some = np.array([other == reason for other in reasons]) & np.isfinite(steps)
        if some.any():
            chart.mark(axes, x[some], steps[some], marker, color=color, label=label, hollow=True, size=1.5)
    if np.isfinite(chosen).any():
        chart.mark(axes, x, chosen, ".", label="iterate taken")
    axes.set_ylim(0, 1.1 * max(1.0, np.nanmax(steps)))
    chart.whole_numbers(axes.yaxis, 5)
    chart.caption(axes, "CG steps")


# -- φ ---------------------------------------------------------------------------------------


class _Curve(NamedTuple):
    """φ / φ_end of an HF step, from the start of CG, and the chosen iterate (-1: unknown)."""

    step: float
    values: chart.Numbers
    chosen: int


def _curves(run: _Run) -> list[_Curve]:
    curves = []
    for step, row in run.steps:
        given = row.get("cg_values")
        if not isinstance(given, (list, tuple, np.ndarray)):
            continue
        values = np.array([_number(value) for value in given], np.float64)
        finite = values[np.isfinite(values)]
        if len(finite) < 2 or not finite[-1] < 0:
            continue
        chosen = row.get("chosen")
        known = is_number(chosen) and 0 <= int(chosen or 0) < len(values)
        curves.append(_Curve(step, values / finite[-1], int(chosen or 0) if known else -1))
    return curves


def _draw_curves(axes: Axes, run: _Run) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    curves = _curves(run)
    some = np.unique(np.linspace(0, len(curves) - 1, min(len(curves), _CURVES)).round().astype(int))
    # The light end of the map is too light for lines on white.
    colors = ListedColormap(colormaps["viridis"](np.linspace(0, 0.82, 256)))
    norm = Normalize(curves[0].step, max(curves[-1].step, curves[0].step + 1))
    size = 5.5 if len(some) <= 12 else 3.5
    least = 0.0
    for i in some:
        step, values, chosen = curves[i]
        color = colors(norm(step))
        axes.plot(np.arange(len(values)), values, color=color, linewidth=1.4 if len(some) <= 12 else 0.9)
        if chosen >= 0:
            axes.plot(chosen, values[chosen], "o", color=color, markersize=size, markeredgecolor=chart.BLACK,
                      markeredgewidth=0.6, zorder=3)  # fmt: skip
        least = min(least, np.nanmin(values))
    axes.plot([], [], "o", color="#bbbbbb", markeredgecolor=chart.BLACK, markersize=5, label="iterate taken")
    axes.set_ylim(max(-1.0, 1.08 * least) - 0.03, 1.08)
    axes.axhline(0, color=chart.GREY, linewidth=0.8)
    chart.whole_numbers(axes.xaxis, 8)
    axes.set_xlabel("CG step", fontsize=11)
    if len(curves) > 1:
        bar = axes.figure.colorbar(ScalarMappable(norm, colors), ax=axes, pad=0.01, aspect=22)
        bar.set_label(run.step_name, fontsize=11)
        bar.ax.tick_params(labelsize=10)
        bar.outline.set_visible(False)
        chart.whole_numbers(bar.ax.yaxis, 6)
    count = "" if len(some) == len(curves) else f", {len(some)} of {len(curves)} {run.step_name}s"
    chart.caption(axes, f"Quadratic model φ / φ at the end{count}")


class _Panel(NamedTuple):
    """height: relative. shown: True if the run has data for it. by_step: True if x is the HF step."""

    height: float
    shown: Callable[[_Run], bool]
    draw: Callable[[Axes, _Run], None]
    by_step: bool = True


def _knowing(*keys: str) -> Callable[[_Run], bool]:
    return lambda run: run.knows(*keys)


#: Groups of panels.
_PANELS = (
    (
        _Panel(2.8, _knowing("before", "after", "loss"), _draw_loss),
        _Panel(1.5, lambda run: bool(run.tests), _draw_test),
        _Panel(2.1, lambda run: bool(_ratios(run)[0].size or _without_ratio(run).size), _draw_ratio),
        _Panel(1.7, lambda run: bool(_damped(run).any()), _draw_damping),
    ),
    (
        _Panel(1.7, _knowing("gradient_norm", "step_norm"), _draw_norms),
        _Panel(1.0, _knowing("scale"), _draw_scale),
        _Panel(1.7, lambda run: bool((run.column("rate") >= 0).any()), _draw_rates),
        _Panel(1.0, _knowing("tries"), _draw_tries),
        _Panel(1.5, _knowing("length"), _draw_length),
        _Panel(1.5, lambda run: bool((run.column("condition") > 0).any()), _draw_condition),
        _Panel(1.0, _knowing("seconds"), _draw_seconds),
        _Panel(2.1, _knowing("cg_steps"), _draw_cg),
        _Panel(3.2, lambda run: bool(_curves(run)), _draw_curves, by_step=False),
    ),
)
