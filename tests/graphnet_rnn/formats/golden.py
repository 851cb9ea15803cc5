"""Golden files: one of each kind per version, which later versions must read.

    python -m tests.graphnet_rnn.formats.golden     # before a release: writes those of the present version

A folder of an earlier version is never changed; test_golden.py reads all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import graphnet as gn
import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet_rnn.apps.cli import main as graphnet_rnn

FOLDER = Path(__file__).parent / "golden"
TEXT = "the quick brown fox jumps over the lazy dog. " * 40
RECIPE = """
data = "book.txt"
[settings]
units = {values = [3, 4]}
epochs = 1
batch = 4
time = 10
gradient_batches = 1
"""


def of_text() -> rnn.Model:
    corpus = rnn.data.Corpus.split(TEXT)
    symbols = len(corpus.vocabulary)
    net = rnn.Network([rnn.LSTM(4), rnn.Residual(rnn.RHN(4, depth=2))], symbols, symbols, skip=True)
    net.vocabulary = corpus.vocabulary
    return net


def of_table() -> rnn.Model:
    random = np.random.default_rng(0)
    cases = rnn.data.Sequences.of(random.normal(5, 2, (6, 4, 2)), random.normal(-3, 9, (6, 4, 1)))
    return rnn.Network([rnn.Bidirectional(rnn.GRU(3))], 2, 1, "squared", scaling=rnn.data.Scaling.of(cases))


MODELS: dict[str, Callable[[], rnn.Model]] = {
    "text": of_text,
    "table": of_table,
    "labels": lambda: rnn.Network([rnn.Attention(rnn.Elman(3), 2, 3)], 2, 4, "ctc", reads="vectors"),
    "hmm": lambda: rnn.HMM(3, 4, seed=1),
    "rbm": lambda: rnn.energy.RBM(4, 3, visibles="gaussian", sigma=0.5),
    "stack": lambda: rnn.energy.Stack([rnn.energy.TRBM(5, 4), rnn.energy.RTRBM(4, 3)]),
    "nade": lambda: rnn.RecurrentNADE(rnn.Network([rnn.GRU(2)], 3, 0, reads="vectors"), 2),
    "controller": lambda: rnn.control.Controller([rnn.Elman(3)], output="tanh"),
}


def outputs(model: rnn.Model) -> list[Array]:
    """The outputs of the model's equations for fixed inputs."""
    graph = model.__graph__()
    random = np.random.default_rng(1)
    given = [
        random.integers(0, 2, node.shape).astype(node.dtype)
        if node.dtype.kind in "iub"
        else random.standard_normal(node.shape).astype(node.dtype)
        for node in graph.inputs
    ]
    return list(gn.compile(graph.outputs, graph.inputs, backend="numpy")(*given))


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, make in MODELS.items():
        model = make()
        if not isinstance(model, rnn.HMM):
            model.theta = np.random.default_rng(7).standard_normal(model.theta.size)
        rnn.save(model, folder / f"{name}.safetensors")
        np.savez(folder / f"{name}.npz", *outputs(model))
    os.chdir(folder)  # so that no file has the path of this machine
    Path("book.txt").write_text(TEXT, encoding="utf-8")
    Path("recipe.toml").write_text(RECIPE, encoding="utf-8")
    words = [
        "--units",
        "3",
        "--batch",
        "4",
        "--time",
        "10",
        "--gradient-batches",
        "1",
        "--epochs",
        "1",
        "--quiet",
    ]
    train = ["train", "book.txt", *words, "--no-early-stopping", "--out", "run"]
    sweep = ["sweep", "recipe.toml", "--out", "sweep", "--quiet"]
    for command in (train, sweep):
        if graphnet_rnn(command):
            sys.exit("failed: graphnet-rnn " + " ".join(command))
    for unread in ("curve.png", "timing.jsonl", "checkpoint-000000000.safetensors"):
        for path in Path().glob(f"**/{unread}"):
            path.unlink()


if __name__ == "__main__":
    write(FOLDER / gn.__version__)
