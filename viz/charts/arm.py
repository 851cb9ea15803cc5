"""Charts of arm movements and torques, and of the cost of learning them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viz.charts import parts as chart
from viz.charts.history import History, is_number, is_positive, rows_of
from viz.charts.labels import Ending, colour_of, label_ends
from viz.errors import DrawingError, by_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphnet_rnn.experiments.control import Arm, Trajectories
    from viz.charts.figure import Chart

#: Maximum number of drawn paths; of more movements, evenly spaced ones.
_WAYS = 16


@by_matplotlib()
def loss_by_calls(runs: Mapping[str, History], least: float | None = None, title: str | None = None) -> Chart:
    """Loss against the number of evaluations (loss, gradient or curvature product), on logarithmic axes.

    runs: name -> rows, or path of a file of rows: `{"event": "epoch", "calls": 120, "valid_loss": 0.01}`, as in the
    history of rnn.control.Movements. Other rows are skipped. Lines show the best loss so far. least: a dashed line,
    e.g. the loss of iLQR; None by default. title: title of the chart.
    Raises DrawingError if a file cannot be read, or a run has nothing to draw.
    Source: Sutskever 2013, figure 6.2.

    >>> rows = [{"event": "epoch", "calls": 10 * n, "valid_loss": 1 / n} for n in range(1, 5)]
    >>> viz.loss_by_calls({"Hessian-free": rows}, least=0.2).axes[0].get_xscale()
    'log'
    """
    from viz.charts.figure import Chart

    if not runs:
        raise DrawingError("runs holds nothing to draw: pass a dict {name: run}")
    figure = Chart(7.6, 4.4)
    axes = figure.subplots()
    endings, seen, last = [], [], 1.0
    for number, (name, history) in enumerate(runs.items()):
        calls, losses = _calls(name, history)
        axes.step(calls, losses, where="post", color=colour_of(number), linewidth=1.6)
        endings.append(Ending(losses[-1], f"{name} {losses[-1]:.3g}", colour_of(number), float(calls[-1])))
        seen.append(losses)
        last = max(last, float(calls[-1]))
    if least is not None:
        endings.append(Ending(least, f"iLQR {least:.3g}", chart.GREY))
        seen.append(np.array([least]))
    axes.set_xscale("log")
    axes.set_xlim(right=last * 1.1)
    chart.logarithmic(axes, np.concatenate(seen))
    if least is not None:
        axes.axhline(least, color=chart.GREY, linestyle=chart.DASHES, linewidth=1.3)
    axes.set_xlabel("calls for a loss, a gradient or a product", fontsize=12)
    axes.set_ylabel("loss", fontsize=12)
    chart.frame(axes)
    label_ends(axes, endings, 3.7)
    if title:
        axes.set_title(chart.plain(title), loc="left", fontsize=13)
    return figure


def _calls(name: str, history: History) -> tuple[chart.Numbers, chart.Numbers]:
    rows = rows_of(history)
    points = [
        (float(row["calls"]), float(row["valid_loss"]))
        for row in rows
        if is_positive(row.get("calls")) and is_number(row.get("valid_loss"))
    ]
    if not points:
        raise DrawingError(
            f"the run {name} holds nothing to draw: it needs rows with 'calls' and 'valid_loss'"
        )
    calls, losses = np.array(points).T
    return calls, np.minimum.accumulate(losses)


@by_matplotlib()
def arm_movements(
    shown: Mapping[str, Trajectories], arm: Arm, pushed: Any = None, torques_of: int = 0
) -> Chart:
    """Arm movements: the limb at its start, the paths of the hand, and below, the torques of one movement.

    shown: name -> trajectories, from `task.trajectories()` or `rnn.control.planned`. arm: rnn.control.Arm that moved.
    pushed: bool array (time, batch), True while a disturbance acts; None for none. Paths are vermilion there.
    torques_of: index of the movement whose torques are drawn (shoulder blue, elbow black), with a thick path; 0 by
    default. Crosses mark goals. At most 16 paths are drawn.
    Raises DrawingError for arrays that do not fit.
    Source: Sutskever 2013, figures 6.1 and 6.3 to 6.5.

    >>> task = rnn.control.CenterOut(rnn.control.Controller([rnn.Elman(3)]), directions=3, time=5)
    >>> chart = viz.arm_movements({"untrained": task.trajectories()}, rnn.control.Arm())
    >>> len(chart.axes)
    2
    """
    from viz.charts.figure import Chart

    if not shown:
        raise DrawingError("shown holds nothing to draw: pass a dict {name: trajectory}")
    first = next(iter(shown.values()))
    time, batch, _ = first.torques.shape
    if any(each.torques.shape != first.torques.shape for each in shown.values()):
        raise DrawingError("shown must hold trajectories with the same numbers of movements and time steps")
    active = np.zeros((time, batch), bool) if pushed is None else np.asarray(pushed, bool)
    if active.shape != (time, batch):
        raise DrawingError(f"pushed must be {[time, batch]}, not {list(active.shape)}")
    if not 0 <= torques_of < batch:
        raise DrawingError(f"torques_of must be one of the {batch} movements, not {torques_of}")
    figure = Chart(1.2 + 3.4 * len(shown), 6.0)
    grid = figure.subplots(2, len(shown), squeeze=False, height_ratios=(2.2, 1), sharey="row", sharex="row")
    some = sorted({*range(0, batch, -(-batch // _WAYS)), torques_of})
    for column, (name, moved) in enumerate(shown.items()):
        above, below = grid[:, column]
        _draw_limb(above, arm, moved.states[0, torques_of])
        for b in some:
            _draw_way(above, moved.hands[:, b], active[:, b], 2.2 if b == torques_of else 1.0)
        _draw_goals(above, arm, moved.goals[some])
        above.set_title(chart.plain(name), fontsize=12)
        _draw_torques(below, moved.torques[:, torques_of], active[:, torques_of], arm.dt)
        chart.frame(above, 9)
        chart.frame(below, 9)
    for axes in grid[0]:
        axes.set_aspect("equal")
    grid[0, 0].set_ylabel("m", fontsize=11)
    grid[1, 0].set_ylabel("torque, N m", fontsize=11)
    return figure


def _places(arm: Arm, state: Sequence[float]) -> chart.Numbers:
    theta, both = float(state[0]), float(state[0] + state[1])
    elbow = arm.length1 * np.array([np.cos(theta), np.sin(theta)])
    hand = elbow + arm.length2 * np.array([np.cos(both), np.sin(both)])
    return np.array([np.zeros(2), elbow, hand])


def _draw_limb(axes: Axes, arm: Arm, state: Any) -> None:
    x, y = _places(arm, state).T
    axes.plot(x, y, color="#c8c8c8", linewidth=7, solid_capstyle="round", zorder=1)
    axes.plot(x[:2], y[:2], "o", color="white", markeredgecolor=chart.GREY, markersize=7, zorder=2)


def _draw_way(axes: Axes, hand: Any, active: Any, width: float) -> None:
    x, y = np.asarray(hand, np.float64).T
    axes.plot(x, y, color=chart.BLUE, linewidth=width, zorder=3)
    if active.any():
        on = np.concatenate([active, active[-1:]]) | np.concatenate([active[:1], active])
        axes.plot(
            np.where(on, x, np.nan), np.where(on, y, np.nan), color=chart.VERMILION, linewidth=width, zorder=4
        )


def _draw_goals(axes: Axes, arm: Arm, goals: Any) -> None:
    x, y = np.array([_places(arm, goal)[2] for goal in goals]).T
    axes.plot(x, y, "x", color=chart.BLACK, markersize=5, zorder=5)


def _draw_torques(axes: Axes, torques: Any, active: Any, dt: float) -> None:
    seconds = dt * np.arange(len(torques))
    for joint, (name, colour) in enumerate((("shoulder", chart.BLUE), ("elbow", chart.BLACK))):
        axes.plot(seconds, torques[:, joint], color=colour, linewidth=1.4, label=name)
    if active.any():
        axes.axvspan(
            dt * int(active.argmax()), float(seconds[-1]), color=chart.VERMILION, alpha=0.12, linewidth=0
        )
    axes.set_xlabel("s", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
