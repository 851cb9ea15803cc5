"""Controllers of an arm by several optimizers, beside what iLQR says is the least (Sutskever 2013, chapter 6).

    python -m graphnet_rnn.experiments.control [--tasks center-out postural ddn delay] [--methods ahf ...]
        [--seconds 100] [--table]

Each run is a folder below --folder, from which it goes on when more --seconds of a core are asked for: a hundred for
the point, some hours for the source's 100,000 calls. A finished run is a row of benchmarks/results/control.jsonl: the
loss after so many calls (for a loss, a gradient, or a product with the curvature), at most 60 points of it. Weights are
those of one seed for all methods, in float64 for centre-out, whose optimum is near float32's rounding. A step of "ddn"
sees 100 movements, of the source's 400; "delay" is the same without disturbances and noise: the plain controller of
figure 6.4. --picture draws the loss by calls of the first task (figure 6.2), --movements what the best models of its
runs do (figures 6.1, 6.3 and 6.5).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.system.json_lines import Row, read_rows
from graphnet_rnn.errors import DataError
from graphnet_rnn.experiments.control.controller import Controller
from graphnet_rnn.experiments.control.optimum import optimum, planned
from graphnet_rnn.experiments.control.tasks import CenterOut, ControlTask, DelayDisturbanceNoise, Postural
from graphnet_rnn.experiments.runs import complete, recorded
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import Nesterov
from graphnet_rnn.optimizers.hessian_free import AugmentedHessianFree, HessianFree
from graphnet_rnn.optimizers.lbfgs import LBFGS
from graphnet_rnn.optimizers.nonlinear_cg import NonlinearConjugateGradient

RESULTS = recorded("control")
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
KEY = ("task", "method", "seed")
POINTS = 60
Job = tuple[str, str, int, float, Path]


def train(job: Job) -> Row:
    """Goes on with a run until it has had so many seconds of a core."""
    name, method, seed, seconds, folder = job
    task, place = TASKS[name](seed), folder / f"{name}-{method}-{seed}"
    problem = rnn.control.Movements(task, steps=50 if method == "nesterov" else 1, threads=1)
    settings = rnn.Training(
        METHODS[method], epochs=10**9, core_seconds=seconds, stopping=None, log_every=10**6,
        schedule=rnn.Constant(),
    )  # fmt: skip
    trainer = rnn.Trainer(problem, settings, place)
    if trainer.folder.checkpoints():
        trainer.resume()
    trainer.run()
    rows = [row for row in read_rows(place / "history.jsonl", DataError) if row.get("event") == "epoch"]
    kept = np.unique(np.geomspace(1, len(rows), POINTS).astype(int)) - 1
    curve = [[rows[i]["calls"], float(f"{rows[i]['valid_loss']:.5g}")] for i in kept]
    return {
        **dict(zip(KEY, (name, method, seed), strict=True)), "optimizer": repr(METHODS[method]),
        "loss": min(row["valid_loss"] for row in rows), "calls": rows[-1]["calls"],
        "seconds": round(trainer.progress.core_seconds, 1),
        "curve": curve,
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line for each run, the best of a task first, with iLQR's."""
    lines = ["| task | method | loss | above iLQR | calls | core s |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(row["task"] for row in rows):
        least = float(optimum(TASKS[name](0)).cost.mean())
        lines.append(f"| {name} | iLQR, movement by movement | {least:.4g} | | | |")
        for row in sorted((row for row in rows if row["task"] == name), key=lambda row: row["loss"]):
            above = f"{row['loss'] / least - 1:.1%}" if name == "center-out" else ""
            lines.append(
                f"| {name} | {row['method']} | {row['loss']:.4g} | {above} | {row['calls']:,} | {row['seconds']:.0f} |"
            )
    return "\n".join(lines)


def draw(name: str, rows: Sequence[Row], folder: Path, picture: Path | None, movements: Path | None) -> None:
    """The loss by calls, and what the arm does, of the runs of one task."""
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
    parser = argparse.ArgumentParser(
        prog="python -m graphnet_rnn.experiments.control", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add: Any = parser.add_argument
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--seed", type=int, default=0)
    add(
        "--seconds", type=float, default=100.0, help="of a core, for each run, those that it has had included"
    )
    add("--folder", type=Path, default=Path("runs/control"), help="of the runs, which go on from there")
    add("--results", type=Path, default=RESULTS)
    add("--table", action="store_true", help="only show what there is")
    add("--picture", type=Path, help="draw the loss by calls of the first of --tasks")
    add("--movements", type=Path, help="draw what the best models of its runs do")
    given = parser.parse_args()
    jobs = [(t, m, given.seed, given.seconds, given.folder) for t in given.tasks for m in given.methods]
    rows = complete(
        given.results, jobs, lambda job: job[:3], KEY, train, 0 if given.table else 1,
        lambda row: given.table or row["seconds"] >= given.seconds,
    )  # fmt: skip
    print(table(rows))
    draw(given.tasks[0], rows, given.folder, given.picture, given.movements)
