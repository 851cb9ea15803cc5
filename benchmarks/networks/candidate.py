"""Candidates: a contender's ways to do a task, of which the fastest is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.networks.problem import Arrays


@dataclass(frozen=True)
class Candidate:
    """One way to do a task.

    name: distinguishes it from other ways. make: builds (traces, compiles) and returns a function that runs once and
    returns when all is computed. read: from its result to {"loss": ..., merged weight: its derivative}.
    unlike: reason why its numbers differ from ours, if intended.
    memory: bytes that it needs by its own count, once it is made.
    """

    name: str
    make: Callable[[], Callable[[], Any]]
    read: Callable[[Any], Arrays]
    unlike: str = ""
    memory: Callable[[], int | None] = lambda: None


class Absent(Exception):
    """Raised, with the reason, if a contender does not do a task."""
