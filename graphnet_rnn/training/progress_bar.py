"""ProgressBar: the progress of a Trainer on a terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.training.listeners import Listener, Outcome

if TYPE_CHECKING:
    from graphnet_rnn.training.trainer import Trainer


class ProgressBar(Listener):
    """Progress on the terminal: a bar for each epoch (cost, speed, time left), then a line with its costs

    A Trainer has one if standard error is a terminal; see its argument `progress`. The bar goes to standard error, the
    lines go to standard output.

    >>> net = rnn.Network([rnn.GRU(4)], inputs=1, outputs=1, loss="squared")
    >>> problem = rnn.Arrays(net, np.zeros((10, 12, 1)), np.zeros((10, 12, 1)), batch=4)
    >>> outcome = rnn.Trainer(problem, rnn.Training(epochs=1), progress=True).run()
    epoch   1: train 0.000, validation 0.000  (best so far)
    ended (epochs): best 0.000 after epoch 1
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._mean = math.nan

    def stepped(self, trainer: Trainer, report: Report) -> None:
        problem = trainer.problem
        if self._bar is None:
            self._bar = _bar(trainer)
            self._mean = trainer.cost
        self._mean = 0.98 * self._mean + 0.02 * trainer.cost
        self._bar.set_postfix_str(f"{self._mean:.3f} {problem.unit_name}", refresh=False)
        self._bar.update(problem.items)

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self._close()
        problem = trainer.problem
        trained, validated = (row[name] for name in problem.row_names)
        valid = "" if validated is None else f", validation {validated:.3f}"
        measured = {name: value for name, value in row.get("metrics", {}).items() if value is not None}
        metrics = "".join(f", {name} {value:.4g}" for name, value in measured.items())
        mark = "  (best so far)" if row["best"] else ""
        train = "no targets to train on" if trained is None else f"train {trained:.3f}"
        line = f"epoch {row['epoch']:>3.4g}: {train}{valid} {problem.unit_name}".rstrip()
        print(line + metrics + mark, flush=True)

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        self._close()
        if outcome.best_epoch:
            best = f"best {outcome.best:.3f} {trainer.problem.unit_name}".rstrip()
            print(f"ended ({outcome.reason}): {best} after epoch {outcome.best_epoch}")
        else:
            print(f"ended ({outcome.reason}) after {outcome.steps} steps")

    def _close(self) -> None:
        """Erases the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _bar(trainer: Trainer) -> Any:
    from tqdm import tqdm

    problem = trainer.problem
    return tqdm(
        total=len(problem) * problem.items,
        initial=(trainer.progress.epoch_step - 1) * problem.items,
        unit=problem.item,
        unit_scale=True,
        desc=f"epoch {trainer.progress.epoch + 1}/{trainer.settings.epochs}",
        disable=not sys.stderr.isatty(),
        leave=False,
        dynamic_ncols=True,
    )
