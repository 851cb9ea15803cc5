"""Draws, checks and trains the cell of draw_your_cell.html, in the browser. Results are JSON.

Each function takes the text of the equations, and raises GraphnetError if it is not a cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pydoc_data.topics import topics  # the manual that comes with Python
from typing import Any

import numpy as np

import graphnet_rnn as rnn
import viz

#: Units of the drawn cell, of the one whose gradient is measured, and of the trained one.
DRAWN, MEASURED, TRAINED = 64, 16, 48
SYMBOLS, STEPS, CASES = 8, 40, 8


def picture(text: str, style: str) -> str:
    """The cell as SVG, and its weights: name, sizes."""
    cell = rnn.Equations(DRAWN, text)
    weights = cell.bind(DRAWN).weights
    return json.dumps({
        "svg": viz.draw(cell, style=style).svg,
        "weights": [[name, " × ".join(map(str, node.shape))] for name, node in weights.items()],
        "count": sum(node.size for node in weights.values()),
    })  # fmt: skip


def fading(text: str) -> str:
    """Norms of the gradient of the last step's loss with respect to each earlier state, by state."""
    cell = rnn.Equations(MEASURED, text)
    if not cell.states:
        return json.dumps({})
    net = rnn.Network([cell], SYMBOLS, SYMBOLS, seed=0)
    inputs, targets = np.random.default_rng(0).integers(0, SYMBOLS, (2, STEPS, CASES))
    norms = rnn.gradient_by_distance(net, inputs, targets)
    found = {name.removeprefix("layer0."): np.asarray(values).tolist() for name, values in norms.items()}
    finite = {name: [v if np.isfinite(v) else None for v in values] for name, values in found.items()}
    return json.dumps(finite, allow_nan=False)  # JavaScript reads no NaN


def checks(text: str) -> str:
    """Results of `rnn.testing.check_cell`: pairs of check and result."""
    found: list[tuple[str, str]] = []
    rnn.testing.check_cell(rnn.Equations(4, text), lambda check, result: found.append((check, result)))
    return json.dumps(found)


def explorer(text: str) -> str:
    """A page with two steps of a network of this cell, to look at values, gradients and tangents."""
    net = rnn.Network([rnn.Equations(3, text)], 4, 4, seed=0)
    return viz.explore(net.unroll(time=2, batch=2).cost).html


class _Rows(rnn.training.Listener):
    def __init__(self, told: Callable[[str], Any]) -> None:
        self.told = told

    def epoch_ended(self, trainer: rnn.Trainer, row: dict[str, Any]) -> None:
        self.told(json.dumps({name: row[name] for name in ("epoch", "train_bits", "valid_bits")}))


def train(text: str, told: Callable[[str], Any], epochs: int = 6) -> str:
    """Trains a language model on a page of Python's manual, and returns a sample. told: called each epoch."""
    book = " ".join(" ".join(topics[name] for name in sorted(topics)).lower().split())
    corpus = rnn.data.Corpus.split(book[:30_000])
    symbols = len(corpus.vocabulary)
    net = rnn.Network([rnn.Equations(TRAINED, text)], symbols, symbols, seed=0)
    net.vocabulary = corpus.vocabulary
    problem = rnn.CarriedText(net, corpus, time=20, batch=32)
    settings = rnn.Training(rnn.Adam(0.01, clip_norm=1.0), epochs=epochs)
    rnn.Trainer(problem, settings, listeners=[_Rows(told)], progress=False).run()
    sampler = rnn.Sampler(net)
    sampler.read("the value of ")
    return json.dumps("the value of " + "".join(sampler.sample(120, 0.6, seed=1)))
