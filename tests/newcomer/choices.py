"""Changed and skipped commands with reasons, and placeholders for a reader's files.

A command that matches no row is run unchanged, so new commands cannot be forgotten.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.newcomer.commands import Command


class Choice(NamedTuple):
    """pattern: regular expression for the start. instead: `{}` is the command; None: skip. why: reason."""

    pattern: str
    instead: str | None
    why: str


_SETTING = "a setting, said in prose"
_SHORT = "as it is, but for the length"
CHOICES = (
    # Not here
    Choice(r"python3 run\.py (test|quick|lint|elsewhere|everything)|pytest ", None,
           "a step of CI itself, in an environment of its own"),
    Choice(r"python3 run\.py newcomer", None, "this is it"),
    Choice(r"python -m graphnet_rnn\.experiments\.sines|graphnet-rnn (tasks --task echo|train noise:|count )", None,
           "of what the reader of the page adds"),
    Choice(r"python docs/how_others_draw_it\.py", None, "needs the other packages"),
    Choice(r"graphnet-rnn train \.\.\. ", None, _SETTING),
    Choice(r"python3 run\.py claims", None, "an hour, and needs PyTorch; the --help of benchmarks.claims is run"),
    Choice(r"pip install jupyterlite|python docs/in_a_browser\.py", None, "needs a distribution of Pyodide"),
    Choice(r"python -m http\.server", None, "a server, which does not end"),
    Choice(r"(python3 run\.py )?python -m tests\.mutants", None, "a step of `everything`"),
    Choice(r"python -m tests\.graphnet\.backends\.cuda\.assemble", None, "test_machine_code.py runs it"),
    Choice(r".*benchmarks\.gpu|.*--backend cuda$", None, "needs a GPU"),
    Choice(r"(python3 run\.py python -m )?pip install (torch|['\"](graphnet-rnn|\.)\[(peers|cuda|cublas|tutorials)\b)",
           None, "gigabytes"),
    Choice(r"pip install vega_datasets|python -c .from vega_datasets|python -m benchmarks\.forecasts", None,
           "needs a package of data sets; a table like it is there"),
    Choice(r"python -m venv hf", None, "another library, for a comparison"),
    Choice(r"python -m (benchmarks\.networks|graphnet_rnn\.experiments\.dependencies\.momentum)$", None,
           "a quarter of an hour and more; its --help is run"),
    Choice(r"graphnet-rnn (train|evaluate|sample|draw|sweep)$", None, "the name of a command"),
    Choice(r"python3 run\.py python$|(graphnet-rnn|python3 run\.py) write", None, "waits for somebody who types"),
    Choice(r"python -m graphnet_rnn\.apps\.writer\.own_model keep", None, "what it keeps takes an hour to train"),
    Choice(r"graphnet-rnn sweep .*--parallel", None, "needs a cluster"),
    Choice(r"python -m benchmarks\.ranks( --scaling)?$", None, "needs mpiexec; its --help is run"),
    Choice(r"python -m benchmarks\.(streaming|inside)$", None, "needs PyTorch and more; its --help is run"),
    Choice(r"python -m benchmarks\.(networks|ragged|streaming|inside|second_order) -", None,
           "needs PyTorch and more; its --help is run"),
    Choice(r"python -m benchmarks\.(defaults|operators)$", None, "many minutes; its --help is run"),
    # Shorter
    Choice(r"python -m benchmarks\.ranks --predict$", "{} --units 16 --rounds 1", _SHORT),
    Choice(r"python -m benchmarks\.lengths$", "{} --units 8 --times 20", _SHORT),
    Choice(r"python -m benchmarks\.busy$", '{} --seconds 0.5 --loads idle "1 busy"', _SHORT),
    Choice(r"python -m benchmarks\.others$", "{} --cases affine --rounds 1", _SHORT),
    Choice(r"graphnet-rnn train --units 192", "{} --units 16 --epochs 1", _SHORT),
    Choice(r"graphnet-rnn train --resume runs/book$", "{} book.txt", "a reader has the text beside it"),
    Choice(r"graphnet-rnn train --memory sqrt$", "{} book.txt --epochs 1", _SETTING),
    Choice(r"graphnet-rnn train .?task:", "{} --units 8 --batch 20 --gradient-batches 1 --epochs 1", _SHORT),
    Choice(r"mpiexec -n 4 python program\.py$", None, "the program of somebody"),
    Choice(r"mpiexec .*--resume", "{}", "as it is"),
    Choice(r"mpiexec .*", "{} --epochs 1", _SHORT),
    Choice(r"(graphnet-rnn|python3 run\.py) train .*", "{} --epochs 1", _SHORT),
    Choice(r"graphnet-rnn timelag --write-text", "graphnet-rnn timelag --write-text new.txt --characters 20000",
           "the text is there already, for the commands that read it"),
    Choice(r"graphnet-rnn timelag ", "{} --steps 50", _SHORT),
    Choice(r"graphnet-rnn debag ", "{} --bags 2 --words 4", _SHORT),
    Choice(r"graphnet-rnn control ", "{} --epochs 2", _SHORT),
    Choice(r"python -m graphnet_rnn\.experiments\.music --data FOLDER",
           "python -m graphnet_rnn.experiments.music --table", "the data are not here"),
    Choice(r"python -m graphnet_rnn\.experiments\.motion --data",
           "python -m graphnet_rnn.experiments.motion --table", "the data are not here"),
    Choice(r"python -m graphnet_rnn\.experiments\.music --sets chords",
           "{} --cells Elman --seeds 0 --seconds 1 --results music.jsonl", _SHORT),
    Choice(r"python -m graphnet_rnn\.experiments\.motion ",
           "{} --updates 3 --seconds 1 --results motion.jsonl", _SHORT),
    Choice(r"python -m graphnet_rnn\.experiments\.autoencoders.* --(data|picture|table)",
           "python -m graphnet_rnn.experiments.autoencoders --table",
           "the data, or the runs, are not here"),
    Choice(r"python -m graphnet_rnn\.experiments\.autoencoders",
           "{} --methods adam --seeds 0 --updates 1000 --results autoencoders.jsonl", _SHORT),
    Choice(r"python -m graphnet_rnn\.experiments\.balls --(updates|methods|size|seeds)",
           "{} --size 8 --updates 3 --seconds 1 --results balls.jsonl", _SHORT),
    Choice(r"python -m graphnet_rnn\.experiments\.control\.line_searches$", "{} --work 20 --methods lbfgs hf", _SHORT),
    Choice(r"python -m graphnet_rnn\.experiments\.control", "{} --table", "minutes for each run"),
    Choice(r"graphnet-rnn tasks ", "{} --steps 1 --test 500", _SHORT),
    Choice(r"python3 run\.py python benchmarks/engine\.py$", "{} --nodes 2000", _SHORT),
    Choice(r"python -m benchmarks\.start$", "{} --steps 20 --processes 1", _SHORT),
    Choice(r"python -m benchmarks\.cells ", "{} --hidden 8 --steps 10 --rounds 1 --cells LSTM", _SHORT),
    Choice(r"python -m graphnet_rnn\.experiments\.regret\.baselines( --task alphabet --seeds 3)?$",
           "{} --size 2 --seeds 1 --settings 2 --runs a.jsonl", _SHORT),
    # Completed
    Choice(r"graphnet-rnn evaluate --dynamic 0\.1$",
           "graphnet-rnn evaluate runs/book/model.safetensors other.txt --dynamic 0.1", _SETTING),
    Choice(r"python3 run\.py tutorials( \d+)*( --no-browser)?$", "{} --no-browser --allow-root",
           "nobody looks; until it tells its address"),
)  # fmt: skip
#: File that commands read -> command that makes it once, with all files of that prefix.
STAND_INS = {
    **dict.fromkeys((
        "book.txt", "other.txt", "python.txt", "my_cells.py", "graphnet/graph/node.py", "recipe.toml", "signals.npz",
        "weather.csv", "steps.csv", "new.csv", "seattle.csv",
    ), ""),
    "runs/seattle": "graphnet-rnn train seattle.csv --target temp_max --time-column date --horizon 7 --calendar day "
        "--units 4 --epochs 1 --quiet --out runs/seattle",
    "runs/sky": "graphnet-rnn train seattle.csv --target weather --time-column date --horizon 1 --calendar day "
        "--units 4 --epochs 1 --quiet --out runs/sky",
    "runs/weather-LSTM": "graphnet-rnn train weather.csv --target rain,wind --pieces 48 --units 4 --epochs 1 "
        "--quiet --out runs/weather-LSTM",
    "runs/steps-LSTM": "graphnet-rnn train steps.csv --target kind --case person --inputs ax,ay --units 4 --epochs 1 "
        "--quiet --out runs/steps-LSTM",
    "sweeps/cells": "graphnet-rnn sweep recipe.toml --out sweeps/cells --quiet",
    "brackets.txt": "graphnet-rnn timelag --write-text brackets.txt --characters 20000",
    "runs/brackets": "graphnet-rnn train brackets.txt --units 8 --epochs 1 --quiet --out runs/brackets",
    **{f"runs/{name}": f"graphnet-rnn train book.txt {how} --quiet --out runs/{name}" for name, how in (
        ("book", "--units 8 --epochs 2"),
        ("other", "--units 4 --epochs 2"),
        ("gru", "--cell GRU --units 8 --epochs 2"),
        ("lstm", "--units 6 --epochs 2"),
        ("rhn", "--cell RHN --units 8 --epochs 2"),
        ("...", '--units 8 --epochs 1 --optimizer "hf(cg_steps=3)"'),
    )},
    "model.safetensors": "cp runs/book/model.safetensors .",
}  # fmt: skip


def choice_of(command: Command) -> Choice | None:
    """The first row that matches, or None: run it unchanged."""
    return next((choice for choice in CHOICES if re.match(choice.pattern, command.words)), None)


def instead_of(command: Command) -> str | None:
    """Returns the command to run, or None to skip it."""
    choice = choice_of(command)
    if choice is None:
        return command.words
    return choice.instead and choice.instead.format(command.words)
