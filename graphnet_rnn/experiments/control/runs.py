"""Controllers of an arm by several optimizers, with the optimum of iLQR (Sutskever 2013, chapter 6).

    python -m graphnet_rnn.experiments.control [--tasks center-out postural ddn delay] [--methods ahf ...]
        [--seconds 100] [--table]

Each run has a folder below --folder, and continues from there with more --seconds of a core: a hundred show the trend,
some hours reach the source's 100,000 calls. A finished run is a row of benchmarks/results/control.jsonl: the loss
against calls (for a loss, a gradient, or a curvature product), at most 60 points. Weights have the same seed for all
methods, in float64 for center-out, whose optimum is near the rounding of float32. A step of "ddn" has 100 movements, of
the source's 400; "delay" is the same without disturbances and noise: the plain controller of figure 6.4. --picture
draws the loss by calls of the first task (figure 6.2), --movements the movements of its best models (figures 6.1, 6.3
and 6.5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import graphnet_rnn as rnn
from graphnet.system.json_lines import Row
from graphnet_rnn.experiments.control.controller import Controller
from graphnet_rnn.experiments.control.optimum import optimum, planned
from graphnet_rnn.experiments.control.tasks import CenterOut, ControlTask, DelayDisturbanceNoise, Postural
from graphnet_rnn.experiments.runs import (
    Job,
    epochs_of,
    finished,
    grouped,
    markdown,
    options_of,
    some_of,
    trainer_of,
)
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import Nesterov
from graphnet_rnn.optimizers.hessian_free import AugmentedHessianFree, HessianFree
from graphnet_rnn.optimizers.lbfgs import LBFGS
from graphnet_rnn.optimizers.nonlinear_cg import NonlinearConjugateGradient

#: name -> the task, and its precision.
TASKS: dict[str, Callable[[int], ControlTask]] = {
    "center-out": lambda seed: CenterOut(Controller(seed=seed, dtype="float64")),
    "postural": lambda seed: Postural(Controller(seed=seed)),
    "ddn": lambda seed: DelayDisturbanceNoise(Controller(seed=seed), batch=100),
    "delay": lambda seed: DelayDisturbanceNoise(Controller(seed=seed), batch=100, disturbance=0, noise=0),
}
METHODS: dict[str, Optimizer] = {
    "ahf": AugmentedHessianFree(cg_steps=100, halvings=3),
    "hf": HessianFree(structural=0.1),
    "hf-plain": HessianFree(),
    "lbfgs": LBFGS(memory=100),
    "ncg": NonlinearConjugateGradient(),
    "nesterov": Nesterov(rate=1e-3, momentum=0.99, clip_norm=1.0),
}


@dataclass(frozen=True)
class ControlJob(Job):
    KEY: ClassVar = ("task", "method", "seed")

    task: str
    method: str
    seed: int
    seconds: float
    folder: Path


def train(job: ControlJob) -> Row:
    """Trains or resumes a run up to its core-seconds."""
    optimizer = METHODS[job.method]
    problem = rnn.control.Movements(
        TASKS[job.task](job.seed), steps=50 if job.method == "nesterov" else 1, threads=1
    )
    trainer = trainer_of(problem, optimizer, job, core_seconds=job.seconds)
    trainer.run()
    rows = epochs_of(job)
    return {
        **job.named, "optimizer": repr(optimizer), "loss": min(row["valid_loss"] for row in rows),
        "calls": rows[-1]["calls"], "seconds": round(trainer.progress.core_seconds, 1),
        "curve": [[row["calls"], float(f"{row['valid_loss']:.5g}")] for row in some_of(rows)],
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Markdown table of runs, the best of a task first, with iLQR."""
    lines = []
    for (name,), of_task in grouped(rows, ["task"]).items():
        least = float(optimum(TASKS[name](0)).cost.mean())
        lines.append(f"{name} | iLQR, movement by movement | {least:.4g} |  |  | ")
        for row in sorted(of_task, key=lambda row: row["loss"]):
            above = f"{row['loss'] / least - 1:.1%}" if name == "center-out" else ""
            lines.append(
                f"{name} | {row['method']} | {row['loss']:.4g} | {above} | {row['calls']:,} | {row['seconds']:.0f}"
            )
    return markdown("task | method | loss | above iLQR | calls | core s", lines)


def draw(name: str, rows: Sequence[Row], folder: Path, picture: Path | None, movements: Path | None) -> None:
    """Writes charts of the loss by calls, and of movements, for one task."""
    import viz

    rows, task = [row for row in rows if row["task"] == name], TASKS[name](0)
    least = optimum(task)
    if picture is not None:
        runs = {r["method"]: [{"calls": c, "valid_loss": v} for c, v in r["curve"]] for r in rows}
        viz.loss_by_calls(runs, float(least.cost.mean())).savefig(picture, dpi=150)
    if movements is not None:
        given, shown = task.conditions(), {"iLQR": planned(task, least)}
        for row in rows:
            model = rnn.load(folder / f"{name}-{row['method']}-{row['seed']}" / "model.safetensors")
            task.loop.controller.theta = model.theta
            shown[row["method"]] = task.trajectories(*given)
        pushed = None if len(given) < 3 else (given[2] != 0).any(axis=2)
        viz.arm_movements(shown, task.loop.arm, pushed).savefig(movements, dpi=150)


def main() -> None:
    parser = options_of("control", __doc__)
    add: Any = parser.add_argument
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--seed", type=int, default=0)
    add("--seconds", type=float, default=100.0, help="total core-seconds of each run")
    add("--picture", type=Path, help="write a chart of the loss against calls for the first of --tasks")
    add("--movements", type=Path, help="write a picture of movements by the best models")
    given = parser.parse_args()
    jobs = [
        ControlJob(task, method, given.seed, given.seconds, given.folder)
        for task in given.tasks for method in given.methods
    ]  # fmt: skip
    rows = finished(given, jobs, train, table, lambda row: row["seconds"] >= given.seconds)
    draw(given.tasks[0], rows, given.folder, given.picture, given.movements)
