"""A listener that stores the report of each step."""

from __future__ import annotations

from collections.abc import Callable

import graphnet_rnn as rnn
from graphnet_rnn.optimizers import Report


class Told(rnn.training.Listener):
    """look: is called after each step, too."""

    def __init__(self, look: Callable[[], object] = lambda: None) -> None:
        self.reports: list[Report] = []
        self.look = look

    def stepped(self, trainer: rnn.Trainer, report: Report) -> None:
        self.reports.append(report)
        self.look()
