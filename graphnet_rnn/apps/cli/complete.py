"""Complete a text under a condition: a given ending, a regular expression, a length."""

from __future__ import annotations

import argparse
import math
import sys

from graphnet.system.text import shown_on
from graphnet_rnn.apps.cli.models import load_for_use
from graphnet_rnn.apps.cli.options import add_model
from graphnet_rnn.errors import UsageError
from graphnet_rnn.text.completion import METHODS, complete

EXAMPLE = """example:
  graphnet-rnn complete runs/book/model.safetensors --start "He " --ending "." --length 12
  graphnet-rnn complete runs/book/model.safetensors --pattern "[a-z]+ [a-z]+" --length 10 --method beam"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_model(parser)
    add("--start", default="", metavar="TEXT", help="text that the model reads first; also printed")
    add("--ending", default="", metavar="TEXT", help="text at the end")
    add(
        "--pattern",
        metavar="REGEX",
        help="regular expression that the text before the ending matches completely (default: any text)",
    )
    add(
        "--length",
        type=int,
        default=80,
        help="number of characters; the maximum with --stop-line",
    )
    add("--stop-line", action="store_true", help="stop at the end of the line")
    add(
        "--method",
        choices=METHODS,
        default="exact",
        help="exact: samples of p(text | condition); weighted: approximate samples with importance weights; beam: "
        "the most probable texts of a beam search",
    )
    add("--count", type=int, default=1, help="number of texts")
    add("--temperature", type=float, default=1.0, help="temperature, > 0: samples from p^(1 / temperature)")
    add("--seed", type=int, default=0, help="random seed")
    add("--width", type=int, default=64, help="beam width")
    add("--attempts", type=int, default=10_000, help="maximum number of attempts for exact samples")
    add(
        "--unknown",
        metavar="CHAR",
        help="character that replaces unknown characters of --start",
    )


def run(options: argparse.Namespace) -> int:
    for name, method in (("width", "beam"), ("attempts", "exact"), ("seed", "exact or weighted")):
        if name in options.written and options.method not in method:
            raise UsageError(f"--{name} applies to --method {method}, not to {options.method}; leave it out")
    found = complete(
        load_for_use(options.model, options.cell), options.start, options.ending, options.pattern, options.length,
        "\n" if options.stop_line else None, options.method, options.count, options.temperature, options.seed,
        options.width, options.attempts, options.unknown,
    )  # fmt: skip
    for each in found.found:
        weight = f", weight {each.weight:.3f}" if found.method == "weighted" else ""
        print(shown_on(sys.stdout, f"{options.start}{each.text}"))
        print(f"    {each.nats / math.log(2):.2f} bits{weight}")
    share = math.exp(found.log_p_condition)
    summary = {
        "exact": f"{found.attempts:,} attempts; the probability of the condition is at most {share:.3g}",
        "weighted": f"as good as {found.effective:.1f} independent samples; p(condition) is about {share:.3g}",
        "beam": "no text is more probable than the first"
        if found.proved
        else "the first may not be the most probable; a wider beam may find a better one",
    }
    print(summary[found.method])
    return 0
