"""What a module of contenders offers: ways to do a task, of which the fastest is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.networks.problem import Arrays


@dataclass(frozen=True)
class Candidate:
    """One way to do a task.

    name: what is special about it. make: builds (traces, compiles) and gives a function that runs once and
    returns when all is computed. read: from its result to {"loss": ..., merged weight: its derivative}.
    unlike: why its numbers are not ours, where they are not meant to be.
    memory: bytes that it says it needs, once it is made.
    """

    name: str
    make: Callable[[], Callable[[], Any]]
    read: Callable[[Any], Arrays]
    unlike: str = ""
    memory: Callable[[], int | None] = lambda: None


class Absent(Exception):
    """This contender does not do this task; the message says why."""
