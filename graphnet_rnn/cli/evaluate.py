"""Measure a trained model on a text: bits per character and accuracy."""

from __future__ import annotations

import argparse
import sys

from graphnet_rnn.cli.user_cells import own_cells
from graphnet_rnn.data import read_text
from graphnet_rnn.errors import UsageError
from graphnet_rnn.evaluation import Evaluator
from graphnet_rnn.model_file import load

EXAMPLE = """example:
  graphnet-rnn evaluate runs/book/model.safetensors other.txt --context 100"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="a file that training wrote")
    add("text", help="a text file")
    add("--cell", metavar="FILE:CELL", help="your own cell, if the model is made of it: my_cells.py:MyCell")
    add("--context", type=int, default=50, help="characters before the first scored one; no lane has fewer")
    add("--lanes", type=int, default=32, help="parts of the text read side by side (1: the whole in one)")
    add("--unknown", metavar="CHAR", help="read characters that the model does not know as this one")
    add("--encoding", default="utf-8", help="of the text file")


def run(options: argparse.Namespace) -> int:
    network = load(options.model, own_cells(options.cell))
    if network.vocabulary is None:
        raise UsageError(f"{options.model} has no vocabulary: it was not trained on text")
    symbols = network.vocabulary.encode(read_text(options.text, options.encoding), options.unknown)
    evaluator = Evaluator(network, options.lanes)
    from tqdm import tqdm

    with tqdm(unit="char", unit_scale=True, disable=not sys.stderr.isatty(), leave=False) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        result = evaluator(symbols, options.context, show)
    print(
        f"{result.bits:.4f} bits/char, accuracy {result.accuracy:.2%}, over {result.scored:,} characters "
        f"with at least {options.context} of context"
    )
    return 0
