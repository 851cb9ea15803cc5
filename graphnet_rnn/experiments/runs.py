"""Long benchmarks as programs: each run is a row of a file of JSON lines, so that they can be stopped and resumed.

A program has its own options, a Job for each run, the function that runs it, and a table of the rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

import graphnet_rnn as rnn
from graphnet.system.json_lines import Row, append_row, read_rows
from graphnet.system.streams import prepare_streams
from graphnet_rnn.errors import DataError

T = TypeVar("T")


class Job:
    """One run: a frozen dataclass. KEY: fields, and columns of its row, that identify it."""

    KEY: ClassVar[tuple[str, ...]]
    folder: Path

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.KEY)

    @property
    def named(self) -> Row:
        """First columns of its row."""
        return dict(zip(self.KEY, self.key, strict=True))

    @property
    def place(self) -> Path:
        """Folder of the run."""
        return self.folder / "-".join(map(str, self.key))


OneJob = TypeVar("OneJob", bound=Job)

# -- programs ------------------------------------------------------------------------------------


def options_of(
    name: str, says: str | None, rows: str | None = None, folder: bool = True, workers: int = 1
) -> argparse.ArgumentParser:
    """Parser with the options of all programs. rows: its file of benchmarks/results, by default `name`."""
    prepare_streams()
    kept = Path(__file__).parents[2] / "benchmarks" / "results" / f"{rows or name}.jsonl"
    parser = argparse.ArgumentParser(
        prog=f"python -m graphnet_rnn.experiments.{name}",
        description=says,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--results", "--runs", type=Path, default=kept if kept.exists() else Path("runs") / kept.name,
        help="JSON-lines file to which each run adds a row (default: that of benchmarks/RESULTS.md)",
    )  # fmt: skip
    add(
        "--workers",
        type=int,
        default=workers,
        help="number of runs at a time, one core each; 0: only print results",
    )
    add("--table", action="store_const", const=0, dest="workers", help="the same as --workers 0")
    if folder:
        add(
            "--folder",
            type=Path,
            default=Path("runs") / name,
            help="folder of the runs; existing runs are resumed",
        )
    return parser


def finished(
    given: argparse.Namespace, jobs: Sequence[OneJob], run: Callable[[OneJob], Row], table: Callable[[list[Row]], str],
    counts: Callable[[Row], bool] = lambda row: True,
) -> list[Row]:  # fmt: skip
    """Makes missing runs, and prints the table; returns the rows of all jobs.

    counts: predicate of a row that is complete for these options.
    """
    rows = complete(given.results, jobs, run, given.workers, lambda row: not given.workers or counts(row))
    print(table(rows))
    return rows


def complete(
    path: Path, jobs: Sequence[OneJob], run: Callable[[OneJob], Row], workers: int,
    counts: Callable[[Row], bool] = lambda row: True,
) -> list[Row]:  # fmt: skip
    """Makes the runs whose key is not yet in the file; returns the rows of all jobs.

    run: function that other processes can import, not from a __main__.py. counts: predicate of a complete row; the last
    row of a key counts. Raises SystemExit, with one sentence, for rows of another benchmark.
    """

    names = jobs[0].KEY if jobs else ()

    def rows() -> dict[tuple[Any, ...], Row]:
        there = read_rows(path, DataError) if path.exists() else []
        for number, row in enumerate(there, start=1):
            lacking = [name for name in names if name not in row]
            if lacking:
                raise SystemExit(
                    f"{path}: row {number} has no {lacking[0]!r}; it belongs to another benchmark. Name another file"
                )
        return {tuple(row[name] for name in names): row for row in there if counts(row)}

    there = rows()
    missing = [job for job in jobs if job.key not in there]
    if missing and workers:
        with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
            for row in pool.imap_unordered(run, missing):
                append_row(path, row)
                print({name: value for name, value in row.items() if not isinstance(value, list)}, flush=True)
    found = rows()
    return [found[job.key] for job in jobs if job.key in found]


# -- one run -------------------------------------------------------------------------------------


def trainer_of(problem: Any, optimizer: rnn.optimizers.Optimizer, job: Job, **ends: Any) -> rnn.Trainer:
    """Trainer that resumes from the folder of the job; by default limited only by steps or seconds."""
    how = {"epochs": 10**9, "schedule": rnn.Constant(), "stopping": None, "log_every": 10**6, **ends}
    trainer = rnn.Trainer(problem, rnn.Training(optimizer, **how), job.place, progress=False)
    if trainer.folder.checkpoints():
        trainer.resume()
    return trainer


def epochs_of(job: Job) -> list[Row]:
    """Rows of its history."""
    return [row for row in read_rows(job.place / "history.jsonl", DataError) if row.get("event") == "epoch"]


def some_of(points: Iterable[T], most: int = 60) -> list[T]:
    """At most `most` points, denser at the start."""
    points = list(points)
    kept = np.unique(np.geomspace(1, max(len(points), 1), most).astype(int)) - 1
    return [points[i] for i in kept[: len(points)]]


# -- tables --------------------------------------------------------------------------------------


def grouped(rows: Iterable[Row], names: Iterable[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their values of these columns."""
    names, groups = tuple(names), dict[tuple[Any, ...], list[Row]]()
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def markdown(heads: str, lines: Iterable[str]) -> str:
    """Markdown table; heads, lines: cells separated by |."""
    return "\n".join(
        [f"| {heads} |", "|" + "---|" * len(heads.split(" | ")), *(f"| {line} |" for line in lines)]
    )
