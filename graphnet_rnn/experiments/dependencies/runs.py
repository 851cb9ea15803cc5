"""How many minibatches Hessian-free optimization needs on the problems with long-term dependencies.

    python -m graphnet_rnn.experiments.dependencies --runs runs.jsonl [--tasks addition xor]
        [--lengths 30 50] [--seeds 0 1 2 3 4]
        [--structural yes no] [--seconds 3600] [--workers 2] [--picture figure.png]

Settings are the source's (Sutskever 2013, 4.4 and fig. 4.1; rnn.tasks.settings): 100 tanh units, the gradient over
10,000 fresh sequences of which the first 1,000 serve for the curvature, at most 300 steps of conjugate gradient, solved
where less than 1 % of 10,000 test sequences are wrong, failed after 50,000 minibatches of 1,000 sequences. Every run is
a process on one core, and a line of `runs`; runs that are there already are not made again, so this can be stopped and
taken up. At the end, or with --workers 0 at once, what is there becomes a table: for each problem and T, how many runs
are solved, failed and open, and the least, median and most minibatches and core minutes of the solved ones. --seconds
ends a run early; it is open, neither solved nor failed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphnet_rnn.experiments.dependencies.fresh import FreshSequences
from graphnet_rnn.experiments.dependencies.problems import TASKS
from graphnet_rnn.experiments.dependencies.source import settings
from graphnet_rnn.experiments.runs import Row, complete
from graphnet_rnn.training.settings import Training
from graphnet_rnn.training.trainer import Trainer

KEY = ("task", "length", "structural", "seed")


def run(job: tuple[str, int, bool, int, float]) -> Row:
    """One run to its end: solved, failed, or out of time."""
    name, length, structural, seed, seconds = job
    task = TASKS[name](length)
    source = settings(task, structural)
    problem = FreshSequences(task, seed=seed, threads=1, steps=1)
    started, most = time.process_time(), source.minibatches * source.minibatch
    settled = Training(
        source.optimizer(), epochs=most, stopping=None, goal=math.nextafter(source.success, 0),
        core_seconds=None if math.isinf(seconds) else seconds,
    )  # fmt: skip
    wrong = [problem.wrong()]

    def looked(trainer: Trainer, row: Mapping[str, Any]) -> bool:
        wrong.append(row["valid_wrong"])
        return problem.sequences >= most

    trainer = Trainer(problem, settled, listeners=[looked])
    if wrong[0] >= source.success:
        trainer.run()
    solved = wrong[-1] < source.success
    return {
        "task": name,
        "length": length,
        "structural": structural,
        "seed": seed,
        "solved": solved,
        "open": not solved and problem.sequences < most,
        "wrong": wrong[-1],
        "best": min(wrong),
        "steps": trainer.progress.step,
        "minibatches": problem.sequences / source.minibatch,
        "seconds": time.process_time() - started,
    }


def table(rows: Iterable[Row]) -> str:
    """Markdown: one line for each problem, T and kind of damping."""
    groups: dict[tuple[str, int, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["length"], row["structural"]), []).append(row)
    lines = [
        "| problem | T | structural damping | solved | failed | open | minibatches: least | median | most | steps "
        "| core minutes | of those not solved: wrong |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    order = {name: i for i, name in enumerate(TASKS)}
    for (name, length, structural), group in sorted(
        groups.items(), key=lambda item: (order[item[0][0]], item[0][1], not item[0][2])
    ):
        solved, failed, undecided = (
            [row for row in group if row["solved"]],
            [row for row in group if not row["solved"] and not row["open"]],
            [row for row in group if row["open"]],
        )
        lines.append(
            f"| {name} | {length} | {'yes' if structural else 'no'} | {len(solved)} | {len(failed) or ''} | "
            + f"{len(undecided) or ''} | "
            + " | ".join(f"{v:,.0f}" for v in _spread([row["minibatches"] for row in solved]))
            + (" | " if solved else "| | | ")
            + (f"{statistics.median(row['steps'] for row in solved):.0f} | " if solved else "| ")
            + (f"{statistics.median(row['seconds'] for row in solved) / 60:.1f} | " if solved else "| ")
            + "; ".join(
                f"{what}: " + ", ".join(f"{row['wrong']:.1%} after {row['minibatches']:,.0f}" for row in rows)
                for what, rows in (("failed", failed), ("open", undecided))
                if rows
            )
            + " |"
        )
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> list[float]:
    return [min(values), statistics.median(values), max(values)] if values else []


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m graphnet_rnn.experiments.dependencies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--runs", type=Path, required=True, help="a file of JSON lines, added to")
    add("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    add("--lengths", nargs="+", type=int, default=[30, 50])
    add("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    add("--structural", nargs="+", choices=["yes", "no"], default=["yes"])
    add("--seconds", type=float, default=float("inf"), help="the most of a run, of its core")
    add("--workers", type=int, default=2)
    add("--picture", type=Path, help="where to draw the rows, as in fig. 4.1")
    chosen = parser.parse_args()
    jobs = [
        (name, length, structural == "yes", seed, chosen.seconds)
        for length in chosen.lengths
        for seed in chosen.seeds
        for structural in chosen.structural
        for name in chosen.tasks
    ]
    rows = complete(
        chosen.runs, jobs, lambda job: job[:4], KEY, run, chosen.workers,
        # A run that was ended early is made again if it may now take longer.
        lambda row: not row["open"] or row["seconds"] >= chosen.seconds or not chosen.workers,
    )  # fmt: skip
    print(table(rows))
    if chosen.picture is not None:
        import viz

        viz.minibatches_and_failures(rows).savefig(chosen.picture, dpi=150)
