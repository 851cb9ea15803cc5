"""Minibatches of Hessian-free optimization until the problems with long-term dependencies are solved.

    python -m graphnet_rnn.experiments.dependencies --runs runs.jsonl [--tasks addition xor]
        [--lengths 30 50] [--seeds 0 1 2 3 4]
        [--structural yes no] [--seconds 3600] [--workers 2] [--picture figure.png]

Settings are those of the source (Sutskever 2013, 4.4 and fig. 4.1; rnn.tasks.settings): 100 tanh units; the gradient
over 10,000 new sequences, the curvature over the first 1,000 of them; at most 300 steps of conjugate gradient. A run is
solved when less than 1 % of 10,000 test sequences are wrong, and failed after 50,000 minibatches of 1,000 sequences.
Every run is a process on one core, and a line of `runs`; existing runs are not repeated, so you can stop and resume.
At the end, or at once with --workers 0, a table is printed: for each problem and T, the numbers of solved, failed and
open runs, and the minimum, median and maximum of minibatches and core-minutes of the solved ones. --seconds ends a run
early; the run is then open, neither solved nor failed.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from graphnet.system.json_lines import Row
from graphnet_rnn.experiments.dependencies.fresh import FreshSequences
from graphnet_rnn.experiments.dependencies.problems import TASKS
from graphnet_rnn.experiments.dependencies.source import settings
from graphnet_rnn.experiments.runs import Job, finished, grouped, markdown, options_of
from graphnet_rnn.training.settings import Training
from graphnet_rnn.training.trainer import Trainer


@dataclass(frozen=True)
class DependencyJob(Job):
    KEY: ClassVar = ("task", "length", "structural", "seed")

    task: str
    length: int
    structural: bool
    seed: int
    seconds: float


def run(job: DependencyJob) -> Row:
    """Runs a job until it is solved, failed, or out of time."""
    task = TASKS[job.task](job.length)
    source = settings(task, job.structural)
    problem = FreshSequences(task, seed=job.seed, threads=1, steps=1)
    started, most = time.process_time(), source.minibatches * source.minibatch
    settled = Training(
        source.optimizer(), epochs=most, stopping=None, goal=math.nextafter(source.success, 0),
        core_seconds=None if math.isinf(job.seconds) else job.seconds,
    )  # fmt: skip
    wrong = [problem.wrong()]

    def looked(trainer: Trainer, row: Mapping[str, Any]) -> bool:
        wrong.append(row["valid_wrong"])
        return problem.sequences >= most

    trainer = Trainer(problem, settled, listeners=[looked], progress=False)
    if wrong[0] >= source.success:
        trainer.run()
    solved = wrong[-1] < source.success
    return {
        **job.named,
        "solved": solved,
        "open": not solved and problem.sequences < most,
        "wrong": wrong[-1],
        "best": min(wrong),
        "steps": trainer.progress.step,
        "minibatches": problem.sequences / source.minibatch,
        "seconds": time.process_time() - started,
    }


def table(rows: Iterable[Row]) -> str:
    """Markdown table: one line for each problem, T and kind of damping."""
    order, lines = list(TASKS), []
    for (name, length, structural), group in sorted(
        grouped(rows, DependencyJob.KEY[:3]).items(),
        key=lambda item: (order.index(item[0][0]), item[0][1], not item[0][2]),
    ):
        solved, failed, undecided = (
            [row for row in group if row["solved"]],
            [row for row in group if not row["solved"] and not row["open"]],
            [row for row in group if row["open"]],
        )
        counts = [row["minibatches"] for row in solved]
        spread = [f(counts) for f in (min, statistics.median, max)] if solved else []
        cells = [
            name, length, "yes" if structural else "no", len(solved), len(failed) or "", len(undecided) or "",
            *([f"{value:,.0f}" for value in spread] or [""] * 3),
            f"{statistics.median(row['steps'] for row in solved):.0f}" if solved else "",
            f"{statistics.median(row['seconds'] for row in solved) / 60:.1f}" if solved else "",
            "; ".join(
                f"{what}: " + ", ".join(f"{row['wrong']:.1%} after {row['minibatches']:,.0f}" for row in rows)
                for what, rows in (("failed", failed), ("open", undecided))
                if rows
            ),
        ]  # fmt: skip
        lines.append(" | ".join(map(str, cells)))
    heads = (
        "problem | T | structural damping | solved | failed | open | minibatches: least | median | most | steps "
        "| core minutes | of those not solved: wrong"
    )
    return markdown(heads, lines)


def main() -> None:
    parser = options_of("dependencies", __doc__, folder=False, workers=2)
    add = parser.add_argument
    add("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    add("--lengths", nargs="+", type=int, default=[30, 50])
    add("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    add("--structural", nargs="+", choices=["yes", "no"], default=["yes"])
    add("--seconds", type=float, default=float("inf"), help="maximum core-seconds of a run")
    add("--picture", type=Path, help="write a chart of the rows, as in fig. 4.1")
    given = parser.parse_args()
    jobs = [
        DependencyJob(name, length, structural == "yes", seed, given.seconds)
        for length in given.lengths
        for seed in given.seeds
        for structural in given.structural
        for name in given.tasks
    ]
    # Repeat a run that ended early if its time limit is higher now.
    rows = finished(given, jobs, run, table, lambda row: not row["open"] or row["seconds"] >= given.seconds)
    if given.picture is not None:
        import viz

        viz.minibatches_and_failures(rows).savefig(given.picture, dpi=150)
