"""Long experiments as files of JSON lines: every finished run is a line, so that they can be stopped and taken up."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Row", "complete", "read"]

Row = dict[str, Any]
Job = TypeVar("Job")


def read(path: Path) -> list[Row]:
    """The rows that are there; what was being written when a run was stopped is none."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def complete(
    path: Path, jobs: Iterable[Job], key: Callable[[Job], Sequence[Any]], names: Sequence[str],
    run: Callable[[Job], Row], workers: int, counts: Callable[[Row], bool] = lambda row: True,
) -> list[Row]:  # fmt: skip
    """Makes the runs whose key, the values of `names` in a row, is not there yet; returns the rows of all jobs.

    counts: whether a row that is there is what was asked for; the last one of a key is taken.
    """

    def rows() -> dict[tuple[Any, ...], Row]:
        return {tuple(row[name] for name in names): row for row in read(path) if counts(row)}

    jobs, there = list(jobs), rows()
    missing = [job for job in jobs if tuple(key(job)) not in there]
    if missing and workers:
        with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
            for row in pool.imap_unordered(run, missing):
                torn = path.exists() and path.read_text(encoding="utf-8")[-1:] not in ("", "\n")
                with open(path, "a", encoding="utf-8") as stream:
                    stream.write("\n" * torn + json.dumps(row) + "\n")
                print({name: value for name, value in row.items() if not isinstance(value, list)}, flush=True)
    found = rows()
    return [found[tuple(key(job))] for job in jobs if tuple(key(job)) in found]
