"""Train a network of tanh units on a problem with long-term dependencies, until it is solved.

As in Sutskever 2013, 4.4, but for a gradient over no more sequences than the curvature, see --gradient-batches, and for
when conjugate gradient stops. It is solved when fewer than 1 % of the test sequences are wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import math
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphnet.system.files import remove_parts
from graphnet.system.json_lines import Row, read_rows
from graphnet_rnn.cli.optimizer import (
    make_optimizer,
    make_schedule,
    optimizer_class,
    require_rate,
    schedule_help,
)
from graphnet_rnn.cli.outputs import RECORDS, require_apart, require_ending, require_no_network_of_text
from graphnet_rnn.cli.settings import add_settings, given_settings
from graphnet_rnn.errors import UsageError
from graphnet_rnn.files.whole import append_line, keep_rows, locked, sync
from graphnet_rnn.formats.model_file import save
from graphnet_rnn.optimizers import ALL, HessianFree, Optimizer
from graphnet_rnn.settings import whole_number
from graphnet_rnn.tasks import TASKS, FreshSequences, Settings, Task, Trial, elman, settings
from graphnet_rnn.training.interruption import Interruption

EXAMPLE = """example:
  graphnet-rnn tasks --task addition --length 30 --optimizer hf
  graphnet-rnn tasks --task memory-5 --length 50 --no-structural
  graphnet-rnn tasks --task xor --length 50 --batch 1000 --gradient-batches 10
  graphnet-rnn tasks --task addition --length 20 --optimizer adam --rate 0.001 --steps 2000"""

#: A checkpoint is written at the end, and after a step at most so often.
CHECKPOINT_SECONDS = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--task", choices=list(TASKS), default="addition", help="the problem")
    add("--length", type=int, default=30, help="T: how many steps the sequences have, or the memory lasts")
    add(
        "--optimizer",
        default="hf",
        metavar="NAME",
        help=f"{', '.join(ALL)}; with settings: 'hf(damping=1, cg_steps=100)'. What is not said of hf is "
        "the source's",
    )
    add("--no-structural", action="store_true", help="hf: without structural damping")
    add("--rate", type=float, help="learning rate (default: the optimizer's own)")
    add("--schedule", metavar="EXPRESSION", help=schedule_help(epochs=False))
    add(
        "--clip-norm",
        type=float,
        help="longest gradient of first-order optimizers; 0 for no limit (default: 1)",
    )
    add("--units", type=int, default=100, help="of the Elman network")
    add("--steps", type=int, default=100, help="at most so many")
    add("--test-every", type=int, default=5, help="steps from one test to the next")
    add_settings(parser, FreshSequences, without=("steps",))
    add(
        "--record",
        metavar="FILE",
        help="append each step, each test and the outcome, as lines of JSON; of a run that goes on from its "
        "--checkpoint, each once",
    )
    add("--picture", metavar="FILE", help="draw the run at its end, however it ends; .svg, .png or .pdf")
    add("--model", metavar="FILE", help="write the network at its end, however it ends; .safetensors")
    add(
        "--checkpoint",
        metavar="FILE",
        help="keep the run there (.safetensors), and go on from it where it is there already: the same command, but "
        "for --steps (those made before count), --test, --test-every and the files",
    )


def run(options: argparse.Namespace) -> int:
    if options.steps < 1 or options.test_every < 1:
        raise UsageError("--steps and --test-every must be at least 1")
    if options.threads is not None:
        whole_number("--threads", options.threads)
    require_apart({f"--{option}": str(path) for option, path in _outputs(options).items()}, {})
    if options.picture is not None:
        require_ending("--picture", options.picture)
    if options.model is not None:
        require_ending("--model", options.model, (".safetensors",), "the name of a model")
        require_no_network_of_text("--model", options.model)
    if options.checkpoint is not None:
        require_ending("--checkpoint", options.checkpoint, (".safetensors",), "the name of a checkpoint")
    if options.record is not None:
        require_ending("--record", options.record, RECORDS, "the name of a record")
    with contextlib.ExitStack() as locks:
        for option, path in _outputs(options).items():
            if not path.exists() or path.is_file():  # a pipe or a device may be anybody's
                busy = (
                    f"another process writes {path} now; wait for it, or name another file with --{option}."
                )
                locks.enter_context(locked(path, busy))
                remove_parts(path.parent, glob.escape(path.name))
        return _run(options)


def _outputs(options: argparse.Namespace) -> dict[str, Path]:
    """The files that were named, by option."""
    named = {option: getattr(options, option) for option in ("record", "picture", "model", "checkpoint")}
    return {option: Path(path) for option, path in named.items() if path is not None}


def _run(options: argparse.Namespace) -> int:
    task = TASKS[options.task](options.length)
    source = settings(task, structural=not options.no_structural)
    trial = Trial(
        task,
        _optimizer(options, source),
        elman(task, options.units, options.seed),
        **given_settings(FreshSequences, options, without=("steps",)),
    )
    print(f"{task}: {task.time} steps; {trial.network!r}")
    print(f"{trial.optimizer}")
    resumed = options.checkpoint is not None and Path(options.checkpoint).exists()
    if resumed:
        trial.resume(options.checkpoint)
        print(f"{options.checkpoint}: goes on after step {trial.steps}")
    record = _Record(options.record, trial, options.test_every if resumed else None)
    wrong = trial.wrong()
    if options.checkpoint is not None and not resumed:  # before the first row: what is not here is not there
        trial.save(options.checkpoint)
    record.begin(wrong)
    when = f"after step {trial.steps}" if trial.steps else "before training"
    print(f"{when} {wrong:.2%} of {trial.problem.test:,} test sequences are wrong", flush=True)
    try:
        if options.checkpoint is None:
            _train(options, trial, record, source, wrong, Interruption())
        else:
            with Interruption() as interruption:
                _train(options, trial, record, source, wrong, interruption)
    except BaseException:  # an interruption, or a loss that is no longer finite, shall not lose what there is
        for error in _keep(options, trial, record):
            print(f"not written: {error}", file=sys.stderr)
        raise
    for error in _keep(options, trial, record):
        raise error
    return 0


def _train(
    options: argparse.Namespace,
    trial: Trial,
    record: _Record,
    source: Settings,
    wrong: float,
    interruption: Interruption,
) -> None:
    """Steps until it is solved, or may not go on; prints each, and the verdict."""
    task, began = trial.problem.task, trial.steps
    most = source.minibatches * source.minibatch
    kept = time.monotonic()

    def keep() -> None:
        if options.checkpoint is not None:
            record.sync()
            trial.save(options.checkpoint)

    # A run that was never stopped is tested at its own steps alone, and no other may end this one.
    if began % options.test_every:
        wrong = math.inf
    while not wrong < source.success and trial.steps < options.steps and trial.sequences <= most:
        report = trial.step()
        record("step", step=trial.steps, **report.row(times=True))
        line = f"{trial.steps:>4}  {report}"
        if trial.steps % options.test_every == 0:
            wrong = trial.wrong()
            record("test", step=trial.steps, wrong=wrong)
            line += f"  wrong {wrong:.2%}"
        if interruption.came or time.monotonic() - kept > CHECKPOINT_SECONDS:
            keep()
            kept = time.monotonic()
        try:
            print(line, flush=True)
        except OSError:  # what it prints to has gone; the step is whole
            keep()
            raise
        if interruption.came:
            raise KeyboardInterrupt
    if trial.steps > began:
        keep()
    # What follows is of this end alone: a run that goes on from the checkpoint does not have it.
    if trial.steps % options.test_every:
        wrong = trial.wrong()
        record("test", step=trial.steps, wrong=wrong)
    record(
        "outcome", task=task.name, length=task.length,
        structural=bool(getattr(trial.optimizer, "structural", 0)), seed=trial.problem.seed,
        solved=wrong < source.success, minibatches=trial.sequences / source.minibatch,
    )  # fmt: skip
    print(_verdict(task, trial, source, wrong))


def _keep(options: argparse.Namespace, trial: Trial, record: _Record) -> list[Exception]:
    """Writes the files that were asked for, each whatever becomes of the other; why some were not."""

    def write_model(path: str) -> None:
        save(trial.network, path)

    def draw(path: str) -> None:
        from viz import flight_recorder

        task = trial.problem.task
        title = f"{task.name}, T = {task.length}"
        flight_recorder(record.rows, title).savefig(path, dpi=150)

    files = [(options.model, write_model), (options.picture, draw)]
    failed: list[Exception] = []
    for path, write in files:
        if path is None:
            continue
        try:
            write(path)
            print(f"wrote {path}")
        except Exception as error:
            failed.append(error)
    return failed


class _Record:
    """Rows of a run: kept, and appended to a file if there is one.

    The first says what the run is (`run`). So one that goes on from a checkpoint finds its rows in the file, which are
    cut to those up to there; the file then ends as if the run had never been stopped. Else the run is added to it.
    tested: steps from one test to the next of a run that goes on; None for a new one.
    """

    def __init__(self, path: str | None, trial: Trial, tested: int | None) -> None:
        self.path = None if path is None else Path(path)
        self.rows: list[Row] = []
        self._run, self._steps = json.loads(json.dumps(trial.description())), trial.steps
        if self.path is None or not self.path.is_file():
            return
        before = read_rows(self.path, UsageError)
        count = 0 if tested is None else self._own(before, tested)
        if count:
            keep_rows(self.path, count)
            self.rows = before[:count]
        elif before:
            print(f"{self.path} is there already: this run is added to it, and charts show the last one")

    def _own(self, rows: Sequence[Row], tested: int) -> int:
        """How many rows an unbroken run would have written up to where this one goes on; 0 if it is not there."""
        begins = max((i for i, row in enumerate(rows) if "run" in row), default=None)
        if begins is None or rows[begins]["run"] != self._run:
            return 0
        for i, row in enumerate(rows[begins:], start=begins + 1):
            if row.get("step") == self._steps and (i == begins + 1 or row.get("event") == "step"):
                test = {"event": "test", "step": self._steps}
                followed = i < len(rows) and rows[i].items() >= test.items() and self._steps % tested == 0
                return i + followed
        return 0

    def begin(self, wrong: float) -> None:
        """The first test of the run, unless it is there."""
        if not self.rows:
            self("test", step=self._steps, wrong=wrong, run=self._run)

    def __call__(self, event: str, **row: Any) -> None:
        self.rows.append({"event": event, **row})
        if self.path is not None:
            append_line(self.path, self.rows[-1])

    def sync(self) -> None:
        """Before a checkpoint, which must not know of steps that do not survive a power cut."""
        if self.path is not None and self.path.is_file():
            sync(self.path)


def _optimizer(options: argparse.Namespace, source: Settings) -> Optimizer:
    kind = optimizer_class(options.optimizer)
    if options.no_structural and not issubclass(kind, HessianFree):
        raise UsageError(f"--no-structural is only for --optimizer hf, not {options.optimizer}")
    if options.no_structural and re.search(r"\bstructural\b", options.optimizer):
        raise UsageError(f"--no-structural and {options.optimizer!r} both say structural; leave out one")
    default: dict[str, Any] = {"clip_norm": 1.0}
    if issubclass(kind, HessianFree):
        default = source.optimizer().settings()
    made = make_optimizer(options.optimizer, default, options.rate, options.clip_norm)
    if options.schedule is None:
        return made
    require_rate(made, options.optimizer, scheduled=True)
    factor = make_schedule(options.schedule)
    if not factor.reads <= {"step"}:
        raise UsageError(
            f"--schedule {options.schedule}: a task has steps alone, no epochs and no validated costs"
        )
    scheduled: Optimizer = replace(made, rate=factor * made.rate)  # type: ignore[attr-defined, call-arg]
    return scheduled


def _verdict(task: Task, trial: Trial, source: Settings, wrong: float) -> str:
    minibatches = trial.sequences / source.minibatch
    verdict = "solved" if wrong < source.success else "not solved"
    return (
        f"{task.name}, T = {task.length}: {verdict}; {wrong:.2%} of {trial.problem.test:,} test sequences are wrong "
        f"after {trial.steps} steps, {minibatches:,.1f} minibatches of {source.minibatch:,} sequences"
    )
