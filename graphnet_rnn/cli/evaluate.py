"""Measure a trained model on a text: bits per character and accuracy."""

from __future__ import annotations

import argparse
import sys

from graphnet_rnn.cli.user_cells import own_cells
from graphnet_rnn.data import read_text
from graphnet_rnn.errors import UsageError
from graphnet_rnn.evaluation import Evaluator
from graphnet_rnn.model_file import load
from graphnet_rnn.network import Network
from graphnet_rnn.online import DynamicEvaluation
from graphnet_rnn.optimizers import SGD
from graphnet_rnn.settings import amount, fraction, whole_number

EXAMPLE = """example:
  graphnet-rnn evaluate runs/book/model.safetensors other.txt --context 100
  graphnet-rnn evaluate runs/book/model.safetensors other.txt --dynamic 0.5"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", help="a file that training wrote")
    add("text", help="a text file")
    add("--cell", metavar="FILE:CELL", help="your own cell, if the model is made of it: my_cells.py:MyCell")
    add("--context", type=int, default=50, help="characters before the first scored one; no lane has fewer")
    add("--lanes", type=int, help="parts of the text read side by side (1: the whole in one) (default: 32)")
    add(
        "--dynamic",
        type=float,
        metavar="RATE",
        help="go on learning from the text that was read, by steps of SGD",
    )
    add("--dynamic-time", type=int, metavar="N", help="characters between such steps (default: 20)")
    add(
        "--dynamic-decay",
        type=float,
        metavar="D",
        help="share by which each draws back to the trained weights",
    )
    add("--unknown", metavar="CHAR", help="read characters that the model does not know as this one")
    add("--encoding", default="utf-8", help="of the text file")


def run(options: argparse.Namespace) -> int:
    network = load(options.model, own_cells(options.cell))
    if network.vocabulary is None:
        raise UsageError(f"{options.model} has no vocabulary: it was not trained on text")
    symbols = network.vocabulary.encode(read_text(options.text, options.encoding), options.unknown)
    evaluator = _evaluator(network, options)
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


def _evaluator(network: Network, options: argparse.Namespace) -> Evaluator | DynamicEvaluation:
    if options.dynamic is None:
        for name, value in (("time", options.dynamic_time), ("decay", options.dynamic_decay)):
            if value is not None:
                raise UsageError(f"--dynamic-{name} says how --dynamic works; give --dynamic RATE, too")
        return Evaluator(network, 32 if options.lanes is None else options.lanes)
    if options.lanes not in (None, 1):
        raise UsageError(
            f"--dynamic reads the text in its order, in one lane; leave --lanes {options.lanes} out"
        )
    return DynamicEvaluation(
        network,
        SGD(rate=amount("--dynamic, the rate,", options.dynamic, above_zero=True)),
        20 if options.dynamic_time is None else whole_number("--dynamic-time", options.dynamic_time),
        0.0 if options.dynamic_decay is None else fraction("--dynamic-decay", options.dynamic_decay),
    )
