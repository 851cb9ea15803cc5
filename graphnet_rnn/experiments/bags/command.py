"""Reorder bags of shuffled words with a model, and compare it with n-grams and chance."""

from __future__ import annotations

import argparse
import math
import sys

from graphnet_rnn.apps.cli.models import load_finite
from graphnet_rnn.apps.cli.options import add_model
from graphnet_rnn.apps.cli.outputs import RECORDS, require_apart, require_ending, write_rows
from graphnet_rnn.apps.cli.specs import parts_of
from graphnet_rnn.data.characters import read_text
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.bags.debagging import Debagged, debag, draw_bags
from graphnet_rnn.text.lanes import Lanes
from graphnet_rnn.text.ngrams import NGrams

EXAMPLE = """example:
  graphnet-rnn debag runs/book/model.safetensors book.txt --split --bags 20"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_model(parser)
    add("text", help="text file from which bags of words are drawn")
    add("--bags", type=int, default=500, help="number of bags")
    add("--words", type=int, default=7, help="shuffled words in a bag, at most 9")
    add("--context", type=int, default=2, help="words in place on each side of the shuffled words")
    add(
        "--split",
        action="store_true",
        help="draw bags from the last 10 %% of the text, count n-grams in the first 80 %%",
    )
    add("--ngrams", metavar="FILE", help="text file for n-gram counts (with --split: the text itself)")
    add("--order", type=int, default=6, help="length of n-grams, in characters")
    add("--beam", type=int, default=20, help="beam width; affects only the speed, results are exact")
    add("--out", metavar="FILE", help="write answers as rows of a .jsonl file")
    add("--unknown", metavar="CHAR", help="character that replaces unknown characters")
    add("--encoding", default="utf-8", help="encoding of the text files")
    add("--seed", type=int, default=0, help="random seed of the bags")


def run(options: argparse.Namespace) -> int:
    if options.split and options.ngrams:
        raise UsageError("--split counts n-grams in the text, --ngrams in another file; leave out one")
    if "order" in options.written and not (options.split or options.ngrams):
        raise UsageError("--order needs --split or --ngrams FILE")
    inputs = {"model": options.model, "text": options.text, "text of n-grams": options.ngrams}
    require_apart({"--out": options.out}, {**inputs, "cell": parts_of(options.cell or "").where})
    require_ending("--out", options.out, RECORDS, "the name of a record")
    network = load_finite(options.model, options.cell)
    lanes = Lanes(network, 256, "debag")
    text = read_text(options.text, options.encoding)
    counted = text[: round(0.8 * len(text))] if options.split else None
    if options.ngrams:
        counted = read_text(options.ngrams, options.encoding)
    part = text[round(0.9 * len(text)) :] if options.split else text
    bags = draw_bags(part, options.bags, options.words, options.context, options.seed)
    models: dict[str, Lanes | NGrams] = {"network": lanes}
    if counted is not None:
        models[f"{options.order}-grams"] = NGrams(counted, options.order, lanes.vocabulary, options.unknown)
    from tqdm import tqdm

    rows = []
    for name, model in models.items():
        answers = [
            debag(model, bag, options.beam, options.unknown)
            for bag in tqdm(bags, name, disable=not sys.stderr.isatty(), leave=False)
        ]
        _report(name, answers)
        rows += [_row(name, each) for each in answers]
    chance = math.fsum(1 / bag.orders for bag in bags) / len(bags)
    print(f"{'chance':12} {chance:.2%}")
    if options.out is not None:
        write_rows(options.out, rows)
    return 0


def _report(name: str, answers: list[Debagged]) -> None:
    share = sum(each.correct for each in answers) / len(answers)
    error = math.sqrt(share * (1 - share) / len(answers))
    beam = sum(each.by_beam == each.words for each in answers) / len(answers)
    read = sum(each.read for each in answers) / len(answers)
    print(
        f"{name:12} {share:.2%} ± {error:.2%} of {len(answers):,} bags in the order of the text; the beam alone found "
        f"the likeliest order of {beam:.2%}; {read:,.0f} characters read for each"
    )


def _row(name: str, each: Debagged) -> dict[str, object]:
    return {
        "model": name, "correct": each.correct, "by_beam": each.by_beam == each.words, "log_p": round(each.log_p, 4),
        "true_log_p": round(each.true_log_p, 4), "orders": each.bag.orders, "read": each.read,
    }  # fmt: skip
