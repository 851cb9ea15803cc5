"""What a person sees while a network trains."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from graphnet.system.text import shown_on
from graphnet_rnn.apps.cli.live import LiveCurve, allows
from graphnet_rnn.optimizers.base import Report
from graphnet_rnn.training.text import TextProblem
from graphnet_rnn.training.trainer import Listener, Outcome, Trainer

__all__ = ["Console", "print_sample"]


def print_sample(text: str) -> None:
    """Set off from what else is said."""
    print("\n".join(f"    | {line}" for line in shown_on(sys.stdout, text).splitlines()))


class Console(Listener):
    """A progress bar for each epoch (cost, e.g. in bits per character, characters/s, time left), then a line.

    live: with a curve above the bar, where the terminal allows.
    """

    def __init__(self, quiet: bool = False, live: bool = True) -> None:
        self.quiet = quiet
        self._curve = LiveCurve(sys.stderr) if live and not quiet and allows(sys.stderr) else None
        self._bar: Any = None
        self._mean = math.nan

    def started(self, trainer: Trainer) -> None:
        if self.quiet:
            return
        progress, problem = trainer.progress, trainer.problem
        if self._curve is not None:
            self._curve.unit = problem.unit_name
        print(f"{problem.model!r}")
        if isinstance(problem, TextProblem):
            data = problem.corpus
            print(
                f"text: {len(data.train):,} characters to train on, {len(data.valid):,} to validate, "
                f"{len(data.test):,} to test; {len(data.vocabulary)} different"
            )
            if len(data.valid) <= problem.time + 1:
                print(
                    "no validation: too few characters for it, so the best epoch is the one of the least training loss"
                )
        if progress.step:
            print(f"continuing at epoch {progress.epoch + 1}, step {progress.step:,}")
            self._recall(trainer)
        print(f"folder: {trainer.folder.path}  (Ctrl-C stops with a checkpoint)")

    def _recall(self, trainer: Trainer) -> None:
        """The curve of a resumed run begins where the run began."""
        if self._curve is None:
            return
        from viz.charts.history import is_number, read_history

        trained, validated = trainer.problem.row_names
        for row in read_history(trainer.folder.history):
            if row.get("event") == "step" and is_number(row.get(trained)):
                self._curve.step(row["epoch"], row[trained])
            elif row.get("event") == "epoch" and is_number(row.get(validated)):
                self._curve.epoch(row["epoch"], row[validated])

    def _open_bar(self, trainer: Trainer) -> Any:
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

    def stepped(self, trainer: Trainer, report: Report) -> None:
        if self.quiet:
            return
        problem = trainer.problem
        if self._bar is None:
            self._bar = self._open_bar(trainer)
            self._mean = trainer.cost
        self._mean = 0.98 * self._mean + 0.02 * trainer.cost
        self._bar.set_postfix_str(f"{self._mean:.3f} {problem.unit_name}", refresh=False)
        self._bar.update(problem.items)
        if self._curve is not None:
            progress = trainer.progress
            self._curve.step(progress.epoch + progress.epoch_step / len(problem), trainer.cost)
            self._curve.draw(self._bar, self._mean)

    def close(self) -> None:
        """Takes away what is drawn in place: the bar and the curve."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._curve is not None:
            self._curve.erase()

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self.close()
        if self.quiet:
            return
        problem = trainer.problem
        trained, validated = (row[name] for name in problem.row_names)
        if self._curve is not None and validated is not None:
            self._curve.epoch(row["epoch"], validated)
        valid = "" if validated is None else f", validation {validated:.3f}"
        mark = "  (best so far)" if row["best"] else ""
        print(f"epoch {row['epoch']:>3.4g}: train {trained:.3f}{valid} {problem.unit_name}{mark}")
        if row.get("sample"):
            print_sample(str(row["sample"]))
        sys.stdout.flush()

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        self.close()
        if self.quiet:
            return
        if outcome.best_epoch:
            print(
                f"ended ({outcome.reason}): best {outcome.best:.3f} {trainer.problem.unit_name} after epoch "
                f"{outcome.best_epoch}"
            )
        else:
            print(f"ended ({outcome.reason}) after {outcome.steps} steps")
