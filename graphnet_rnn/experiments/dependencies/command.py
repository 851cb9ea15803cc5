"""Train a network of tanh units on a problem with long-term dependencies, until it is solved.

As in Sutskever 2013, 4.4, with two differences: the gradient uses the sequences of the curvature only, see
--gradient-batches, and conjugate gradient stops otherwise. Solved: less than 1 % of the test sequences are wrong.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Mapping
from typing import Any

from graphnet_rnn.apps.cli.options import add_settings, given_settings
from graphnet_rnn.apps.cli.outputs import require_ending
from graphnet_rnn.apps.cli.specs import (
    add_optimizer,
    make_optimizer,
    make_schedule,
    optimizer_class,
    schedule_help,
)
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.dependencies.fresh import FreshSequences
from graphnet_rnn.experiments.dependencies.problems import TASKS
from graphnet_rnn.experiments.dependencies.source import Settings, elman, settings
from graphnet_rnn.optimizers.base import Optimizer, Report
from graphnet_rnn.optimizers.hessian_free import HessianFree
from graphnet_rnn.optimizers.schedules import Constant
from graphnet_rnn.settings import whole_number
from graphnet_rnn.training.listeners import Listener
from graphnet_rnn.training.settings import Training, require_rate
from graphnet_rnn.training.trainer import Trainer

EXAMPLE = """example:
  graphnet-rnn tasks --task addition --length 30 --optimizer hf
  graphnet-rnn tasks --task memory-5 --length 50 --no-structural
  graphnet-rnn tasks --task xor --length 50 --batch 1000 --gradient-batches 10
  graphnet-rnn tasks --task addition --length 20 --optimizer adam --rate 0.001 --steps 2000"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--task", choices=list(TASKS), default="addition", help="problem")
    add(
        "--length",
        type=int,
        default=30,
        help="T: sequence length, or delay of the memory problems, in time steps",
    )
    add_optimizer(parser, "hf", "'hf(damping=1, cg_steps=100)'. Other settings of hf are those of the source")
    add("--no-structural", action="store_true", help="hf: no structural damping")
    add("--schedule", metavar="EXPRESSION", help=schedule_help())
    add("--units", type=int, default=100, help="units of the Elman network")
    add("--steps", type=int, default=100, help="maximum number of steps")
    add("--test-every", type=int, default=5, help="steps of an epoch, after which the network is tested")
    add_settings(parser, FreshSequences, without=("steps",))
    add("--picture", metavar="FILE", help="write a chart of the run at its end; .svg, .png or .pdf")
    add(
        "--out",
        metavar="FOLDER",
        help="folder of the run: model, history, checkpoints; repeat the command, also with more --steps, to "
        "resume it",
    )


def run(options: argparse.Namespace) -> int:
    if options.steps < 1 or options.test_every < 1:
        raise UsageError("--steps and --test-every must be at least 1")
    if options.threads is not None:
        whole_number("--threads", options.threads)
    require_ending("--picture", options.picture)
    task = TASKS[options.task](options.length)
    source = settings(task, structural=not options.no_structural)
    problem = FreshSequences(
        task,
        elman(task, options.units, options.seed),
        steps=options.test_every,
        **given_settings(FreshSequences, options, without=("steps",)),
    )
    lines = _Lines(problem)

    def failed(trainer: Trainer, row: Mapping[str, Any]) -> bool:
        """True after as many sequences as the source allows for a run."""
        return problem.sequences > source.minibatches * source.minibatch

    trainer = Trainer(
        problem, _training(options, source), options.out, listeners=[lines, failed], progress=False
    )
    print(f"{task}: {task.time} steps; {problem.model!r}")
    print(f"{trainer.settings.optimizer}")
    if trainer.folder.checkpoints():
        trainer.resume()
        print(f"{options.out}: resuming after step {trainer.progress.step}")
    lines.wrong = problem.wrong()
    when = f"after step {trainer.progress.step}" if trainer.progress.step else "before training"
    print(f"{when} {lines.wrong:.2%} of {problem.test:,} test sequences are wrong", flush=True)
    try:
        reason = trainer.run().reason if trainer.progress.step or lines.wrong >= source.success else "goal"
    except BaseException:
        try:
            _draw(options.picture, trainer)
        except Exception as error:  # the reason of the end is printed, too
            print(f"not written: {error}", file=sys.stderr)
        raise
    _draw(options.picture, trainer)
    if reason != "interrupted":
        print(_verdict(trainer, source, lines.wrong))
    elif options.out is not None:
        print(f"repeat the command to resume {options.out}")
    return 130 if reason == "interrupted" else 0


class _Lines(Listener):
    def __init__(self, problem: FreshSequences) -> None:
        self.problem, self.wrong = problem, math.nan

    def stepped(self, trainer: Trainer, report: Report) -> None:
        end = "" if trainer.progress.epoch_step == len(self.problem) else "\n"
        print(f"{trainer.progress.step:>4}  {report}", end=end, flush=True)

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self.wrong = row["valid_wrong"]
        whole = trainer.progress.step % len(self.problem) == 0
        print(f"{'' if whole else f'{trainer.progress.step:>4}'}  wrong {self.wrong:.2%}", flush=True)


def _training(options: argparse.Namespace, source: Settings) -> Training:
    optimizer = _optimizer(options, source)
    if options.schedule is not None:
        require_rate("--schedule", optimizer, f"--optimizer {options.optimizer}")
    return Training(
        optimizer,
        epochs=options.steps,
        steps=options.steps,
        schedule=Constant() if options.schedule is None else make_schedule(options.schedule),
        stopping=None,
        goal=math.nextafter(source.success, 0),  # fewer than that
        log_every=1,
    )


def _optimizer(options: argparse.Namespace, source: Settings) -> Optimizer:
    kind = optimizer_class(options.optimizer)
    if options.no_structural and not issubclass(kind, HessianFree):
        raise UsageError(f"--no-structural is only for --optimizer hf, not {options.optimizer}")
    if options.no_structural and re.search(r"\bstructural\b", options.optimizer):
        raise UsageError(f"--no-structural and {options.optimizer!r} both set structural; leave out one")
    default: dict[str, Any] = {"clip_norm": 1.0}
    if issubclass(kind, HessianFree):
        default = source.optimizer().settings()
    return make_optimizer(options.optimizer, default, options.rate, options.clip_norm)


def _draw(path: str | None, trainer: Trainer) -> None:
    if path is None:
        return
    from viz import flight_recorder

    problem = trainer.problem
    assert isinstance(problem, FreshSequences)
    title = f"{problem.task.name}, T = {problem.task.length}"
    flight_recorder(trainer.folder.recorded, title).savefig(path, dpi=150)
    print(f"wrote {path}")


def _verdict(trainer: Trainer, source: Settings, wrong: float) -> str:
    problem = trainer.problem
    assert isinstance(problem, FreshSequences)
    verdict = "solved" if wrong < source.success else "not solved"
    return (
        f"{problem.task.name}, T = {problem.task.length}: {verdict}; {wrong:.2%} of {problem.test:,} test sequences "
        f"are wrong after {trainer.progress.step} steps, {problem.sequences / source.minibatch:,.1f} minibatches of "
        f"{source.minibatch:,} sequences"
    )
