"""Measure the memory of models for an open bracket, or write a training text with brackets."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from graphnet_rnn.apps.cli.models import load_finite
from graphnet_rnn.apps.cli.options import add_cell
from graphnet_rnn.apps.cli.outputs import RECORDS, require_apart, require_ending, require_file, write_rows
from graphnet_rnn.apps.cli.specs import parts_of
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.brackets.lag import TimeLag, time_lag
from graphnet_rnn.experiments.brackets.text import bracket_text
from graphnet_rnn.settings import shown

EXAMPLE = """example:
  graphnet-rnn timelag --write-text brackets.txt
  graphnet-rnn train brackets.txt --out runs/brackets
  graphnet-rnn timelag runs/brackets/model.safetensors --figure lag.svg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("models", nargs="*", metavar="model", help="model files of training runs on a text with [[ and ]]")
    add_cell(parser)
    add("--steps", type=int, default=1000, help="number of characters after the context")
    add("--runs", type=int, default=10, help="number of runs for each context")
    add("--smooth", type=int, default=10, help="steps to average for each point")
    add("--open", default="[[", metavar="TEXT", help="context that opens a bracket")
    add("--control", default="Th", metavar="TEXT", help="control context without a bracket")
    add("--warm-up", default="", metavar="TEXT", help="text that the model reads before both contexts")
    add(
        "--brackets",
        default="[]",
        metavar="TEXT",
        help="opening and closing bracket",
    )
    add("--ideal", type=float, help="mark the ideal difference in the chart: 2 for the text of --write-text")
    add("--figure", metavar="FILE", help="write a chart of the differences; .svg, .png or .pdf")
    add("--out", metavar="FILE", help="write the points as rows of a .jsonl file, one for each model")
    add("--write-text", metavar="FILE", help="only write a training text with nested links")
    add("--characters", type=int, default=1_000_000, help="characters of the text of --write-text")
    add("--seed", type=int, default=0, help="random seed of runs and texts")


def run(options: argparse.Namespace) -> int:
    if options.write_text is not None:
        return _write(options)
    if "characters" in options.written:
        raise UsageError("--characters needs --write-text")
    if not options.models:
        raise UsageError("name a model, or a text to write: --write-text brackets.txt")
    for model in options.models:
        outputs = {"--figure": options.figure, "--out": options.out}
        require_apart(outputs, {"model": model, "cell": parts_of(options.cell or "").where})
    require_ending("--figure", options.figure)
    require_ending("--out", options.out, RECORDS, "the name of a record")
    if "ideal" in options.written and options.figure is None:
        raise UsageError("--ideal needs --figure")
    if len(options.brackets) != 2:
        raise UsageError(f"--brackets must be two characters, such as [], not {shown(options.brackets, 40)}")
    networks = [load_finite(model, options.cell) for model in options.models]
    lags = {}
    for name, network in zip(_names(options.models), networks, strict=True):
        lag = lags[name] = time_lag(
            network, (options.open, options.control), tuple(options.brackets), options.steps, options.runs,
            options.smooth, options.seed, options.warm_up,
        )  # fmt: skip
        print(
            f"{name}: log₁₀ ratio higher by {lag.difference[0]:.2f} at first, by {lag.difference.mean():.2f} over "
            f"{options.steps:,} characters; above {'two standard errors' if options.runs > 1 else '0'} for "
            f"{lag.memory:,}"
        )
    _keep(lags, options)
    return 0


def _keep(lags: dict[str, TimeLag], options: argparse.Namespace) -> None:
    if options.out is not None:
        rows = [
            {
                "model": name, "contexts": lag.contexts, "runs": options.runs, "steps": options.steps,
                "smooth": lag.smooth, "seed": options.seed, "warm_up": options.warm_up, "memory": lag.memory,
                "difference": np.round(lag.difference, 4).tolist(),
                "error": None if options.runs < 2 else np.round(lag.error, 4).tolist(),
            }
            for name, lag in lags.items()
        ]  # fmt: skip
        write_rows(options.out, rows)
    if options.figure is not None:
        import viz

        viz.time_lag(lags, options.ideal).savefig(options.figure, dpi=150)
        print(f"wrote {options.figure} (drawn by matplotlib)")


def _names(models: list[str]) -> list[str]:
    if len(set(models)) < len(models):
        raise UsageError("a model is named twice; leave out one")
    short = [
        path.parent.name if path.name == "model.safetensors" else path.stem for path in map(Path, models)
    ]
    return short if len(set(short)) == len(models) and all(short) else models


def _write(options: argparse.Namespace) -> int:
    strange = sorted(options.written - {"write_text", "characters", "seed", "debug", "command"})
    if strange and (options.models or strange != ["models"]):
        raise UsageError(f"--write-text only writes a text; leave {strange[0]} out")
    require_file("--write-text", options.write_text)
    if os.path.exists(options.write_text):
        raise UsageError(f"--write-text {options.write_text}: this file already exists; name another")
    made = bracket_text(options.characters, seed=options.seed)
    Path(options.write_text).write_text(made.text, encoding="utf-8")
    inside = made.links[:, 1]
    found = (
        f"{len(inside):,} links of {inside.mean():.0f} characters, at most {inside.max():,}"
        if len(inside)
        else "no links"
    )
    print(f"wrote {options.write_text}: {found}; the right difference of log₁₀ ratios is {made.difference:g}")
    return 0
