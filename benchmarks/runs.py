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
    """The rows that are there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def complete(
    path: Path, jobs: Iterable[Job], key: Callable[[Job], Sequence[Any]], names: Sequence[str],
    run: Callable[[Job], Row], workers: int,
) -> list[Row]:  # fmt: skip
    """Makes the runs whose key, the values of `names` in a row, is not there yet; returns all rows."""
    there = {tuple(row[name] for name in names) for row in read(path)}
    missing = [job for job in jobs if tuple(key(job)) not in there]
    if missing and workers:
        with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
            for row in pool.imap_unordered(run, missing):
                with open(path, "a") as stream:
                    stream.write(json.dumps(row) + "\n")
                print({name: value for name, value in row.items() if not isinstance(value, list)}, flush=True)
    return read(path)
