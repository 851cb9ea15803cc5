"""Long experiments as files of JSON lines: every finished run is a line, so that they can be stopped and taken up."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from graphnet.system.json_lines import Row, append_row, read_rows
from graphnet_rnn.errors import DataError

__all__ = ["Row", "complete", "recorded"]

Job = TypeVar("Job")


def complete(
    path: Path, jobs: Iterable[Job], key: Callable[[Job], Sequence[Any]], names: Sequence[str],
    run: Callable[[Job], Row], workers: int, counts: Callable[[Row], bool] = lambda row: True,
) -> list[Row]:  # fmt: skip
    """Makes the runs whose key, the values of `names` in a row, is not there yet; returns the rows of all jobs.

    counts: whether a row that is there is what was asked for; the last one of a key is taken. SystemExit, in one
    sentence, for rows of another benchmark.
    """

    def rows() -> dict[tuple[Any, ...], Row]:
        there = read_rows(path, DataError) if path.exists() else []
        for number, row in enumerate(there, start=1):
            lacking = [name for name in names if name not in row]
            if lacking:
                raise SystemExit(
                    f"{path}: row {number} has no {lacking[0]!r}; it is of another benchmark: name another file"
                )
        return {tuple(row[name] for name in names): row for row in there if counts(row)}

    jobs, there = list(jobs), rows()
    missing = [job for job in jobs if tuple(key(job)) not in there]
    if missing and workers:
        with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
            for row in pool.imap_unordered(run, missing):
                append_row(path, row)
                print({name: value for name, value in row.items() if not isinstance(value, list)}, flush=True)
    found = rows()
    return [found[tuple(key(job))] for job in jobs if tuple(key(job)) in found]


def recorded(name: str) -> Path:
    """The rows of this name that benchmarks/RESULTS.md shows; where there is no checkout, runs/NAME.jsonl."""
    kept = Path(__file__).parents[2] / "benchmarks" / "results" / f"{name}.jsonl"
    return kept if kept.exists() else Path("runs") / kept.name
