"""Curves of learning-rate schedules."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphnet.settings import shown
from viz.charts.history import is_number
from viz.charts.parts import BLUE, frame, plain
from viz.errors import DrawingError, by_matplotlib, count_of

if TYPE_CHECKING:
    from viz.charts.figure import Chart

#: Steps or epochs to draw of a schedule without an end.
MANY = 1000
#: Maximum number of points of a line.
POINTS = 2000


def _is_schedule(thing: Any) -> bool:
    """True for an rnn.Schedule, recognized by its methods."""
    asked = callable(getattr(thing, "now", None)) and callable(getattr(thing, "by_epoch", None))
    return asked and not isinstance(thing, type)


@by_matplotlib()
def schedule_curve(
    schedule: Any, until: int | None = None, *, epoch: int | None = None, costs: Sequence[float] = ()
) -> Chart:
    """x_t against t: steps, or epochs for a schedule that does not read the step

    schedule: schedule to draw, such as rnn.Cosine(1000). until: last step or epoch; by default the length of the
    schedule and a tenth more, the length of `costs`, or 1000. epoch: number of steps in an epoch, for a schedule that
    reads both. costs: validation cost after each epoch, for a schedule that reads it.
    Raises DrawingError if one of these is missing.

    >>> chart = viz.schedule_curve(rnn.Warmup(500).then(rnn.Cosine(2000)))
    >>> chart.axes[0].get_xlabel()
    'step'
    """
    from viz.charts.figure import Chart

    if not _is_schedule(schedule):
        raise DrawingError(f"schedule must be a Schedule, e.g. rnn.Warmup(500), not {shown(schedule)}.")
    costs = list(costs)
    if not all(is_number(each) for each in costs):
        raise DrawingError(f"costs must be a list of numbers, one for each epoch, not {shown(costs)}.")
    reads = schedule.reads
    by_step = "step" in reads or not reads
    if "costs" in reads and not costs:
        raise DrawingError(
            f"{shown(schedule, 80)} depends on validation costs; in Python, pass them: "
            "viz.schedule_curve(schedule, costs=[2.1, 1.9, ...])."
        )
    if by_step and len(reads) > 1 and epoch is None:
        raise DrawingError(
            f"{shown(schedule, 80)} depends on steps and epochs; in Python, pass the number of steps in an "
            "epoch: viz.schedule_curve(schedule, epoch=100)."
        )
    each = 1 if not by_step or epoch is None else count_of("epoch", epoch)
    last = _last(schedule, by_step, len(costs) * each) if until is None else count_of("until", until)
    at = np.unique(np.linspace(0, last, min(last + 1, POINTS)).round().astype(int))
    values = [schedule.now(int(t), int(t) // each, costs[: int(t) // each]) for t in at]
    figure = Chart(7, 3.2)
    axes = figure.subplots()
    if len(at) <= 60:  # each value holds for a step or an epoch
        axes.step(at, values, where="post", color=BLUE, linewidth=1.8, marker=".")
    else:
        axes.plot(at, values, color=BLUE, linewidth=1.8)
    axes.set_ylim(bottom=min(0.0, *values))
    axes.set_xlim(0, last)
    axes.set_xlabel("step" if by_step else "epoch", fontsize=12)
    axes.set_title(plain(_short(str(schedule))), loc="left", fontsize=10)
    frame(axes)
    return figure


def _last(schedule: Any, by_step: bool, of_costs: int) -> int:
    length = schedule.length
    if not by_step and length is None:
        length = getattr(getattr(schedule, "of", None), "length", None)
    values = getattr(schedule, "values", None)
    if length is None and isinstance(values, tuple):  # Stepwise
        length = values[-1][0]
    if of_costs:
        return of_costs
    return MANY if not length else length + max(1, length // 10)


def _short(words: str) -> str:
    lines = textwrap.wrap(words, 78, max_lines=2, placeholder=" ...")
    return "\n".join(lines)
