"""Train a network on a text (by default the source code of Python's library), or on other sequences.

Writes model.safetensors (the best epoch), checkpoints, history.jsonl and curve.png into the folder of the run;
second-order optimizers also write flight.png, with the measurements of each step.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system.text import on_one_line, shown_on
from graphnet_rnn.apps.cli.answers import brief, command_line
from graphnet_rnn.apps.cli.console import Console
from graphnet_rnn.apps.cli.material import add_choices, chosen, material_of, names_of
from graphnet_rnn.apps.cli.models import network_to_begin_with, new_layers, new_network
from graphnet_rnn.apps.cli.options import Parser, add_settings, free_settings, given_settings, refuse
from graphnet_rnn.apps.cli.specs import (
    add_optimizer,
    default_rates,
    make_cell,
    make_optimizer,
    make_schedule,
    optimizer_class,
    parts_of,
    schedule_help,
    slug,
)
from graphnet_rnn.cell.cell import classes_of
from graphnet_rnn.data.table_files import is_table
from graphnet_rnn.errors import ModelFileError, SaveError, UsageError
from graphnet_rnn.formats.model_file import load_network
from graphnet_rnn.installed import is_file
from graphnet_rnn.network.losses import LOSSES, POOLS, SEQUENCE_LOSSES
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.parallel.mpi import launched
from graphnet_rnn.parallel.ranks import ALONE, Ranks
from graphnet_rnn.settings import shown
from graphnet_rnn.text.evaluation import Evaluator
from graphnet_rnn.training.arrays import Arrays
from graphnet_rnn.training.folder import RunFolder
from graphnet_rnn.training.problem import require_unclipped
from graphnet_rnn.training.settings import EarlyStopping, Training, require_rate
from graphnet_rnn.training.state import TrainingState, digest_of
from graphnet_rnn.training.text import CarriedText, DrawnText, TextProblem
from graphnet_rnn.training.trainer import CORE_SECONDS, EPOCHS, STEPS, Trainer

EXAMPLE = """example:
  graphnet-rnn train book.txt --cell GRU --units 256 --layers 2 --dropout 0.2 --out runs/book
  graphnet-rnn train book.txt --cell "my_cells.py:MyCell(units=64, depth=3)"
  graphnet-rnn train book.txt --rate 0.002 --schedule "Warmup(500).then(Cosine(20000))"
  graphnet-rnn train weather.csv --target rain,wind --pieces 48
  graphnet-rnn train book.txt --start runs/book/model.safetensors --optimizer "hf(structural=0.1)"
  graphnet-rnn train --resume runs/book"""

CELL, OF_ROWS = "LSTM", "Dense"
#: Maximum length of a sample, which delays training.
LONGEST_SAMPLE = 100_000
#: Options that are not in a checkpoint, and that a resumed run may change.
APART = ("quiet", "no_live", "debug", "resume", "command", "out", "checkpoint_seconds", "written")
#: Options that may change on resume: paths of moved files (their content is checked), the length of the run, and the
#: back end.
FILES = ("data", "valid", "test", "cell")
FREE_SETTINGS = free_settings(Training, CarriedText, DrawnText, Arrays)
FREE_ON_RESUME = FREE_SETTINGS | {*FILES, "quiet", "no_live", "resume", "debug"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_data(parser)
    _add_network(parser)
    _add_steps(parser)
    add_settings(parser, CarriedText, DrawnText, Arrays, Training, without=("batch",))
    add = parser.add_argument
    add(
        "--no-early-stopping",
        action="store_true",
        help="do not stop when the validation cost no longer improves",
    )
    add(
        "--patience",
        type=int,
        metavar="N",
        help="stop after N epochs without a new best validation cost (default: when the cost falls too slowly)",
    )
    add(
        "--metrics",
        metavar="NAMES",
        help="metrics of the validation data after each epoch: accuracy, f1, mae, rmse, ... (a,b)",
    )
    add("--seed", type=int, default=0, help="random seed of weights, dropout and samples")
    add(
        "--start",
        metavar="MODEL",
        help="start with the network and weights of a model file, e.g. the best of a sweep",
    )
    add("--out", metavar="FOLDER", help="folder of the run (default: a new one in runs/)")
    add("--resume", metavar="FOLDER", help="resume a run from its last checkpoint")
    add("--quiet", action="store_true", help="print no progress and no samples")
    add("--no-live", action="store_true", help="show no learning curve above the progress bar")


def _add_data(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "data",
        nargs="?",
        help="text file (default: sources of Python's standard library, 1 MB); arrays (.npz), table (.csv, "
        ".parquet) or music (.mid); or a generated problem, task:addition(30)",
    )
    add(
        "--valid",
        metavar="FILE",
        help="validation data (default: 10 %% of the data: of a text after its first 80 %%, otherwise the last "
        "cases)",
    )
    add("--test", metavar="FILE", help="test text (default: the last 10 %% of the text)")
    add(
        "--fold",
        metavar="K/N",
        help="cross-validation: validate on fold K of N, train on the others; folds are consecutive blocks of a "
        "text or of --pieces, and random subsets of independent cases",
    )
    add(
        "--gap",
        type=int,
        default=0,
        help="with --fold: characters or time steps to leave out on each side of the validation block, at least; "
        "a series is left out in whole segments",
    )
    add_choices(parser)
    add(
        "--loss",
        metavar="NAME",
        choices=(*LOSSES, *SEQUENCE_LOSSES),
        help="loss for arrays and tables: softmax, sigmoid, squared or ctc (default: chosen from the targets)",
    )
    add("--no-scaling", action="store_true", help="arrays and tables: do not standardize inputs and targets")
    add(
        "--unknown",
        metavar="CHAR",
        help="character that replaces characters of FILEs that are not in the training text",
    )
    add("--encoding", default="utf-8", help="encoding of the text files")


def _add_network(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--cell",
        help=f"cell of graphnet, or your own: my_cells.py:MyCell; with settings: RHN(depth=3) (default: {CELL}; "
        f"with --independent-rows: {OF_ROWS})",
    )
    add("--units", type=int, help="units in each layer (default: that of the cell, usually 128)")
    add("--layers", type=int, default=1, help="number of layers")
    add(
        "--pool",
        metavar="HOW",
        choices=POOLS,
        help="one output for each sequence, pooled over its time steps: last, mean or max",
    )
    add(
        "--skip",
        action="store_true",
        help="skip connections from the input to every layer, and from every layer to the output",
    )
    add("--dropout", type=float, default=0.0, help="dropout rate between layers (no effect with one layer)")
    add(
        "--recurrent-dropout",
        type=float,
        default=0.0,
        help="dropout rate of recurrent states",
    )
    add("--variational", action="store_true", help="use the same dropout mask at all time steps of a segment")
    add(
        "--initial-state",
        choices=("zero", "learned"),
        default="zero",
        help="initial states",
    )


def _add_steps(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_optimizer(parser, "adam", "'hf(structural=0.1)'", default_rates())
    add(
        "--schedule",
        metavar="EXPRESSION",
        help=f"{schedule_help()} (default: 'ExponentialDecay(0.95, after=10).by_epoch()' for a constant rate)",
    )
    add(
        "--batch",
        type=int,
        help="batch size: parallel segments of a text, or cases (default: 32; with few cases, an "
        "eighth of them; for problems that of the source)",
    )


def run(options: argparse.Namespace) -> int:
    """Trains alone, or as one process of `mpiexec`, of which the first writes and prints."""
    ranks = launched()
    with ranks.together():
        if not ranks.is_first:
            options.quiet = True
            warnings.simplefilter("ignore")
        return _run(options, ranks)


def _run(options: argparse.Namespace, ranks: Ranks) -> int:
    settings = ranks.of_first(lambda: _resumed_settings(options)) if options.resume else options
    given = options.resume or options.out
    console = Console(options.quiet, live=not options.no_live)
    new = _missing(Path(given or "runs"))
    trainer = make_trainer(settings, given or "runs", console, ranks)
    if not given:  # after all arguments are checked
        trainer.folder = RunFolder(ranks.of_first(lambda: _new_folder(settings)))
        new = [trainer.folder.path, *new]
    if options.resume:
        trainer.resume()
        if trainer.progress.finished and not options.quiet:
            print(_how_to_continue(trainer))
    try:
        outcome = trainer.run()
    except BaseException:
        for folder in new:  # removes folders that are still empty
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    finally:
        console.close()
    interrupted = outcome.reason == "interrupted"
    if not ranks.is_first:
        return 130 if interrupted else 0
    lines = _draw_curve(trainer.folder) if outcome.epochs else []
    if interrupted:
        lines.append(
            f"continue with: {command_line()} train --resume {shlex.quote(str(trainer.folder.path))}"
        )
    else:
        own = f" --cell {shlex.quote(settings.cell)}" if ":" in settings.cell else ""
        model = shlex.quote(str(trainer.folder.model))
        if isinstance(trainer.problem, TextProblem):
            lines.append(f"try: {command_line()} sample {model} --length 500{own}")
        elif is_file(settings.data):
            how, out = f"{chosen(settings)}{own}", "new.npz"
            if is_table(settings.data):  # the model knows the columns
                how, out = own, "new.csv"
            lines.append(
                f"try: {command_line()} predict {model} {shlex.quote(settings.data)}{how} --out {out}"
            )
    if not options.quiet:
        if not interrupted and (tested := _tested(trainer)):
            print(tested)
        print(shown_on(sys.stdout, "\n".join(lines)))
    return 130 if interrupted else 0


def _tested(trainer: Trainer) -> str:
    problem = trainer.problem
    if not isinstance(problem, TextProblem):
        return ""
    test, context = problem.corpus.test, problem.time
    if len(test) <= context:
        return "no test text"
    best = load_network(trainer.folder.model, classes_of(problem.model.layers))
    result = Evaluator(best, lanes=32, time=problem.time)(test, context)
    return f"the best model on the test text: {result.bits:.3f} bits/char, accuracy {result.accuracy:.1%}"


def _resumed_settings(options: argparse.Namespace) -> argparse.Namespace:
    checkpoint = RunFolder(options.resume).read_checkpoint()
    notes = checkpoint.training.get("notes")
    stored = notes.get("arguments") if isinstance(notes, dict) else None
    if not isinstance(stored, dict):
        raise UsageError(
            f"{checkpoint.path} was not written by this command; resume it with rnn.Trainer in Python."
        )
    _refuse_changes(options)
    kept = _kept_arguments(checkpoint.path, stored)
    for name in options.written:
        setattr(kept, name, getattr(options, name))
    kept.resume, kept.written = options.resume, options.written
    where = _require_files(kept)
    if where and "cell" not in options.written:
        whole = str(Path(where).absolute()) if where.endswith(".py") else where
        words = f"{options.resume} was started with the cell {kept.cell}: importing {whole}, which executes its code"
        print(f"graphnet-rnn train: {brief(on_one_line(words))}", file=sys.stderr)
    elif "cell" in options.written:
        _require_same_cell(checkpoint, kept)
    return kept


def _kept_arguments(path: Path, stored: Mapping[str, Any]) -> argparse.Namespace:
    parser, words = Parser(exit_on_error=False), []
    add_arguments(parser)
    for action in parser._actions:
        value = stored.get(action.dest)
        if not action.option_strings or value is None or value is False:
            continue
        words.append(action.option_strings[0] if value is True else f"{action.option_strings[0]}={value}")
    try:
        kept = parser.parse_args(words)
    except argparse.ArgumentError as error:
        raise ModelFileError(
            f"{path} is damaged: its arguments are invalid: {on_one_line(str(error))}"
        ) from None
    # Runs of versions without it had no scaling.
    kept.data, kept.no_scaling = stored.get("data"), stored.get("no_scaling", True) is True
    if not isinstance(kept.data, str | None):
        raise ModelFileError(f"{path} is damaged: its data must be a path or None, not {shown(kept.data)}.")
    return kept


def _require_same_cell(checkpoint: TrainingState, kept: argparse.Namespace) -> None:
    run = checkpoint.training["run"]
    layers = [make_cell(kept.cell, kept.units).description()] * kept.layers
    if kept.start is None:  # otherwise the network comes from the checkpoint
        checkpoint.require_same({**run, "model": {**run["model"], "layers": layers}})


def _require_files(kept: argparse.Namespace) -> str:
    """Raises UsageError for a missing file of a resumed run; returns the place of the cell if it is the user's."""
    where, cell, settings = parts_of(kept.cell or "")
    files: dict[str, str | None] = {name: getattr(kept, name) for name in FILES}
    files["cell"] = where if where.endswith(".py") else None
    for name, file in files.items():
        if is_file(file) and not Path(file).is_file():
            moved = f"FOLDER/{Path(file).name}"
            anew = {"data": moved, "cell": f"--cell {shlex.quote(f'{moved}:{cell}{settings}')}"}
            words = (
                f"there is no file {file} here, with which the run was started; resume the run from the folder "
                "where it was started, or give the new place of the file: train --resume "
                f"{shlex.quote(kept.resume)} {anew.get(name, f'--{name} {moved}')}"
            )
            raise UsageError(on_one_line(words))
    return where


def _refuse_changes(options: argparse.Namespace) -> None:
    may = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(FREE_SETTINGS))
    refuse(options.written - FREE_ON_RESUME, f"cannot change on --resume, unlike {may} and paths of files")


def make_trainer(
    options: argparse.Namespace, folder: str | Path, console: Console, ranks: Ranks = ALONE
) -> Trainer:
    """Trainer from the arguments."""
    if options.sample > LONGEST_SAMPLE:
        raise UsageError(
            f"--sample must be at most {LONGEST_SAMPLE:,} characters, not {options.sample:,}, since the history "
            "stores one sample for each epoch; the command `sample` writes longer texts"
        )
    begun = network_to_begin_with(options)
    if begun is None:
        options.cell = options.cell or (OF_ROWS if options.independent_rows else CELL)
        layers = new_layers(options)
        material = material_of(options)
        network = new_network(layers, material.shape, options)
        for note in () if options.quiet else getattr(material, "notes", ()):
            print(note)
        if network.scaling is not None and not options.quiet:
            outputs = network.scaling.outputs
            what = "inputs" if outputs is None else "inputs and targets"
            constant = ""
            if outputs is not None and 1.0 not in outputs[1]:  # all are scaled, none is constant
                constant = f"; always predicting the mean has an error of about {network.outputs}"
            print(
                f"{options.data}: {what} are standardized by the training cases (--no-scaling turns this off){constant}"
            )
    else:
        network, material = begun, material_of(options, begun)
        options.cell, options.seed = options.cell or type(network.layers[0]).__name__, network.seed
    notes = {k: v for k, v in vars(options).items() if k not in APART}
    optimizer = _optimizer(options)
    if options.no_early_stopping and options.patience is not None:
        raise UsageError("--patience does not apply with --no-early-stopping; leave out one of the two")
    if options.schedule is not None:
        require_rate("--schedule", optimizer, f"--optimizer {options.optimizer}")
    settings = Training(
        optimizer,
        schedule=None if options.schedule is None else make_schedule(options.schedule),
        stopping=None if options.no_early_stopping else EarlyStopping(patience=options.patience),
        **given_settings(Training, options),
    )
    if options.threads is None and ranks.size > 1:  # no warning: the number of processes may change on resume
        options = argparse.Namespace(**{**vars(options), "threads": ranks.threads})
        material.options = options
    require_unclipped(f"--optimizer {options.optimizer}", options.clip_values or None, optimizer)
    problem = material.problem(network, optimizer)
    return Trainer(
        problem,
        settings,
        folder,
        notes={"arguments": notes},
        listeners=[console],
        parallel=ranks,
        metrics=names_of("metrics", options.metrics),
        start="" if begun is None or options.start is None else digest_of(begun.theta),
    )


def _optimizer(options: argparse.Namespace) -> Optimizer:
    kind = optimizer_class(options.optimizer)
    default = {"clip_norm": 1.0} if issubclass(kind, FirstOrder) else {}
    return make_optimizer(options.optimizer, default, options.rate, options.clip_norm)


def _missing(folder: Path) -> list[Path]:
    """Missing folders of a path, the innermost first."""
    return [path for path in (folder, *folder.parents) if not path.exists()]


def _how_to_continue(trainer: Trainer) -> str:
    limits = {EPOCHS: "--epochs", STEPS: "--steps", CORE_SECONDS: "--core-seconds"}
    reason = trainer.progress.finished
    if reason in limits:
        return f"this run has ended; to continue it, increase {limits[reason]}"
    return (
        f"this run has ended by its {reason} and cannot be continued; train its model in a new run: --start "
        f"{trainer.folder.model}"
    )


def _new_folder(options: argparse.Namespace) -> Path:
    """Creates runs/book-LSTM, or the first of -2, -3, ... that is not taken; safe with parallel commands."""
    if is_file(options.data):
        data = Path(options.data).stem
    else:
        data = re.sub(r"\W+", "-", options.data).strip("-") if options.data else "python"
    units = "" if options.units is None else f"-{options.units}"
    base = Path("runs") / f"{data}-{slug(options.cell)}{units}"
    number, folder = 1, base
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
            folder = base.with_name(f"{base.name}-{number}")
        except OSError as error:
            raise SaveError(f"the folder {folder} cannot be created: {error.strerror}.") from None


def _draw_curve(folder: RunFolder) -> list[str]:
    """Saves the learning curve, and the flight recorder if steps report more than a loss; returns messages."""
    import viz
    from viz.charts.history import has_flight, read_history

    rows = read_history(folder.history)
    names = {folder.curve: "training_curve"}
    if has_flight(rows):
        names[folder.flight] = "flight_recorder"
    written = [str(folder.model), str(folder.history)]
    for path, name in names.items():
        try:
            folder.require_own_file(path)
            getattr(viz, name)(rows).savefig(path, dpi=150)
            written.append(str(path))
        except (GraphnetError, OSError, MemoryError) as error:
            later = f"draw {shlex.quote(str(folder.path))} --out {shlex.quote(str(path))}"
            reason = (str(error) or "there is not enough memory").rstrip(".")
            warnings.warn(
                f"{path.name} was not drawn: {reason}. Later: {command_line()} {later}", stacklevel=2
            )
    return [f"wrote {', '.join(written[:-1])} and {written[-1]}"]
