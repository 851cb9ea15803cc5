"""Sample text from a trained model."""

from __future__ import annotations

import argparse
import sys

from graphnet.system.text import shown_on
from graphnet_rnn.apps.cli.models import load_for_use
from graphnet_rnn.apps.cli.options import add_model
from graphnet_rnn.errors import UsageError
from graphnet_rnn.settings import whole_number
from graphnet_rnn.text.sampling import Sampler

EXAMPLE = """example:
  graphnet-rnn sample runs/book/model.safetensors --warm-up "Once upon a time" --temperature 0.7"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_model(parser)
    add("--length", type=int, default=500, help="number of characters")
    add(
        "--temperature",
        type=float,
        default=1.0,
        help="sampling temperature: lower is more predictable",
    )
    add("--argmax", action="store_true", help="always take the most probable character (temperature 0)")
    add("--warm-up", default="", metavar="TEXT", help="text that the model reads first; also printed")
    add(
        "--unknown",
        metavar="CHAR",
        help="character that replaces unknown characters of --warm-up",
    )
    add("--seed", type=int, default=0, help="random seed")


def run(options: argparse.Namespace) -> int:
    whole_number("--length", options.length)
    if options.argmax and "temperature" in options.written:
        raise UsageError("--argmax is temperature 0, which contradicts --temperature; leave out one")
    if options.unknown is not None and not options.warm_up:
        raise UsageError("--unknown needs --warm-up")
    sampler = Sampler(load_for_use(options.model, options.cell))
    sampler.read(options.warm_up, options.unknown)
    characters = sampler.sample(options.length, 0.0 if options.argmax else options.temperature, options.seed)
    sys.stdout.write(shown_on(sys.stdout, options.warm_up))
    for character in characters:
        sys.stdout.write(shown_on(sys.stdout, character))
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
