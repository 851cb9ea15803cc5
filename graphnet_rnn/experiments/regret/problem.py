"""Training and validation text of the same law with known bits; results of the source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphnet.graph.node import Array
from graphnet.system.json_lines import Row
from graphnet_rnn.data.text import Vocabulary
from graphnet_rnn.experiments.regret.measure import regret, smoothed
from graphnet_rnn.experiments.regret.texts import TEXTS, Drawn
from graphnet_rnn.experiments.runs import grouped

#: Lines, bars and blocks of each text.
SIZES = {"alphabet": 1000, "music": 2700, "anbn": 10}
#: Number of symbols of each text.
SYMBOLS = {"alphabet": 67, "music": 14, "anbn": 3}
#: Ollivier 2013, table 1: cumulative regret in bits.
SOURCE: dict[str, dict[str, float]] = {
    "bzip2": {"alphabet": 27206.1, "music": 6035.7, "anbn": 244.0},
    "CTW": {"alphabet": 18272.1, "music": 3611.0, "anbn": 143.5},
    "HMM": {"alphabet": 10212.0, "music": 4818.1, "anbn": 125.7},
}


@dataclass(frozen=True)
class DrawnTexts:
    """train, valid: two texts from one seed. size: of each, see SIZES."""

    task: str
    size: int
    seed: int
    train: Drawn
    valid: Drawn

    @classmethod
    def of(cls, task: str, seed: int, size: int | None = None) -> DrawnTexts:
        """Texts of a task, by default as long as in the source."""
        size = SIZES[task] if size is None else size
        train, valid = (TEXTS[task](np.random.default_rng([seed, part]), size) for part in (0, 1))
        return cls(task, size, seed, train, valid)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Alphabet of both texts, without symbols of the law that never occur."""
        return Vocabulary.of(self.train.text + self.valid.text)

    @cached_property
    def symbols(self) -> tuple[Array, Array]:
        """Both texts as int64."""
        return self.vocabulary.encode(self.train.text), self.vocabulary.encode(self.valid.text)

    def regret(self, bits: Array) -> float:
        """Regret of a model with these bits for the symbols of the second text."""
        return float(regret(bits, self.valid)[-1])

    def smoothed_regret(self, probabilities: Array) -> float:
        """Regret of a model with these probabilities for the symbols of the second text, smoothed as in the source."""
        return self.regret(-np.log2(smoothed(probabilities, len(self.vocabulary))))


def best_runs(rows: Iterable[Row], names: Sequence[str]) -> tuple[list[Row], str]:
    """Runs of minimum mean regret by these columns, among those with most seeds; and their table cells."""
    best = min(
        grouped(rows, names).values(), key=lambda runs: (-len(runs), np.mean([row["regret"] for row in runs]))
    )
    regrets = [row["regret"] for row in best]
    return best, f"{np.mean(regrets):,.1f} | {', '.join(f'{regret:,.1f}' for regret in regrets)}"
