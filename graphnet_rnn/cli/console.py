"""What a person sees while a network trains."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from graphnet_rnn.training import LN2, Listener, Outcome, Trainer

__all__ = ["Console"]


class Console(Listener):
    """A progress bar for each epoch (loss in bits per character, characters/s, time left), then a line."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar: Any = None
        self._mean = math.nan

    def started(self, trainer: Trainer) -> None:
        if self.quiet:
            return
        progress, data = trainer.progress, trainer.data
        print(f"{trainer.network!r}")
        print(
            f"text: {len(data.train):,} characters to train on, {len(data.valid):,} to validate, "
            f"{len(data.test):,} to test; {len(data.vocabulary)} different"
        )
        if progress.step:
            print(f"continuing at epoch {progress.epoch + 1}, step {progress.step:,}")
        print(f"folder: {trainer.folder.path}  (Ctrl-C stops with a checkpoint)")

    def _open_bar(self, trainer: Trainer) -> Any:
        from tqdm import tqdm

        characters = trainer.pieces.characters
        return tqdm(
            total=len(trainer.pieces) * characters,
            initial=(trainer.progress.piece - 1) * characters,
            unit="char",
            unit_scale=True,
            desc=f"epoch {trainer.progress.epoch + 1}/{trainer.epochs}",
            disable=not sys.stderr.isatty(),
            leave=False,
            dynamic_ncols=True,
        )

    def stepped(self, trainer: Trainer, loss: float) -> None:
        if self.quiet:
            return
        if self._bar is None:
            self._bar = self._open_bar(trainer)
            self._mean = loss
        self._mean = 0.98 * self._mean + 0.02 * loss
        self._bar.set_postfix_str(f"{self._mean / LN2:.3f} bits/char", refresh=False)
        self._bar.update(trainer.pieces.characters)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self._close_bar()
        if self.quiet:
            return
        valid = "" if row["valid_bits"] is None else f", validation {row['valid_bits']:.3f}"
        mark = "  (best so far)" if row["best"] else ""
        print(f"epoch {row['epoch']:>3}: train {row['train_bits']:.3f}{valid} bits/char{mark}")
        if row.get("sample"):
            print("\n".join(f"    | {line}" for line in str(row["sample"]).splitlines()))
        sys.stdout.flush()

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        self._close_bar()
        if self.quiet:
            return
        if outcome.best_epoch:
            print(
                f"ended ({outcome.reason}): best {outcome.best_bits:.3f} bits/char after epoch {outcome.best_epoch}"
            )
        else:
            print(f"ended ({outcome.reason}) after {outcome.steps} steps")
