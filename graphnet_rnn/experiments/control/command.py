"""Train a recurrent controller of an arm, and compare it with the optimum of iLQR.

Writes the best model, checkpoints, history.jsonl, calls.png (the loss by calls) and movements.png into a folder; repeat
the command to resume.
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from graphnet_rnn.apps.cli.options import add_settings, given_settings
from graphnet_rnn.apps.cli.outputs import RECORDS, require_ending, require_folder_of
from graphnet_rnn.apps.cli.specs import add_optimizer, make_optimizer, no_limit, optimizer_class
from graphnet_rnn.errors import UsageError
from graphnet_rnn.experiments.control.controller import Controller, remembering
from graphnet_rnn.experiments.control.ilqr import Plan
from graphnet_rnn.experiments.control.movements import Movements
from graphnet_rnn.experiments.control.optimum import optimum, planned
from graphnet_rnn.experiments.control.tasks import CenterOut, ControlTask, DelayDisturbanceNoise, Postural
from graphnet_rnn.files.whole import append_line
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import FirstOrder
from graphnet_rnn.optimizers.hessian_free import HessianFree
from graphnet_rnn.settings import whole_number
from graphnet_rnn.training.listeners import Listener, Outcome
from graphnet_rnn.training.settings import Training
from graphnet_rnn.training.trainer import Trainer

EXAMPLE = """example:
  graphnet-rnn control center-out --optimizer hf --epochs 100 --out runs/reach
  graphnet-rnn control postural --optimizer "lbfgs(memory=100)" --core-seconds 300 --out runs/hold
  graphnet-rnn control ddn --optimizer "augmented_hf(cg_steps=100)" --plant-noise 0.001 --out runs/ddn"""

#: Settings of Training that this command lacks: no schedule, no early stopping.
WITHOUT = ("average", "log_every", "goal")


TASKS: dict[str, Callable[[Controller, argparse.Namespace], ControlTask]] = {
    "center-out": lambda controller, options: CenterOut(controller, directions=options.movements or 64),
    "postural": lambda controller, options: Postural(controller),
    "ddn": lambda controller, options: DelayDisturbanceNoise(
        controller, batch=options.movements or 400, plant_noise=options.plant_noise
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "task",
        choices=list(TASKS),
        help="task: reaching, holding a posture, or reaching with delay and noise",
    )
    add_optimizer(parser, "hf", "'lbfgs(memory=100)'; default for hf: structural=0.1")
    add("--units", type=int, default=100, help="units in each of the two Elman layers")
    add("--dtype", choices=("float32", "float64"), default="float64", help="type of the weights")
    add(
        "--movements",
        type=int,
        help="number of movements in a batch (default: center-out 64, ddn 400; postural has 72)",
    )
    add("--plant-noise", type=float, default=0.0, help="ddn: standard deviation of the noise on each state")
    add("--epoch-steps", type=int, default=1, help="steps between validations")
    add("--seed", type=int, default=0, help="random seed of weights and noise")
    add_settings(parser, Training, Movements, without=WITHOUT)
    add(
        "--out",
        metavar="FOLDER",
        default="runs/control",
        help="folder of the run; an existing run is resumed",
    )
    add("--record", metavar="FILE", help="append the result to this file, as a line of JSON")
    add("--quiet", action="store_true", help="print no progress")


def run(options: argparse.Namespace) -> int:
    require_folder_of("--out", options.out, "history.jsonl")
    require_ending("--record", options.record, RECORDS, "the name of a record")
    if options.movements is not None:
        if options.task == "postural":
            raise UsageError(
                "--movements does not apply to postural, which always has 72 (9 postures, 8 forces); leave it out"
            )
        whole_number("--movements", options.movements)
    if options.task != "ddn" and options.plant_noise:
        raise UsageError(f"--plant-noise applies only to ddn; {options.task} has no noise. Leave it out")
    controller = Controller([remembering(options.units)] * 2, seed=options.seed, dtype=options.dtype)
    task = TASKS[options.task](controller, options)
    least = optimum(task)
    trainer = _trainer(options, task, float(least.cost.mean()))
    if trainer.folder.checkpoints():
        trainer.resume()
    try:
        outcome = trainer.run()
    except BaseException:
        with contextlib.suppress(OSError):  # removes the folder if it is empty
            trainer.folder.path.rmdir()
        raise
    if outcome.epochs:
        _end(options, trainer, outcome, least)
    return 130 if outcome.reason == "interrupted" else 0


def _trainer(options: argparse.Namespace, task: ControlTask, least: float) -> Trainer:
    how = given_settings(Movements, options, steps=options.epoch_steps)
    how["clip_values"] = no_limit("--clip-values", options.clip_values)
    settings = given_settings(Training, options, without=WITHOUT)
    problem = Movements(task, **how)
    training = Training(_optimizer(options), stopping=None, log_every=10**6, **settings)
    return Trainer(
        problem, training, options.out, listeners=[] if options.quiet else [_Lines(least)], progress=False
    )


def _optimizer(options: argparse.Namespace) -> Optimizer:
    kind, default = optimizer_class(options.optimizer), dict[str, Any]()
    if issubclass(kind, FirstOrder):
        default = {"clip_norm": 1.0}
    elif issubclass(kind, HessianFree):
        default = {"structural": 0.1}
    return make_optimizer(options.optimizer, default, options.rate, options.clip_norm)


def _end(options: argparse.Namespace, trainer: Trainer, outcome: Outcome, least: Plan) -> None:
    import viz

    trainer.take_best()
    problem = trainer.problem
    assert isinstance(problem, Movements)
    task, folder = problem.task, trainer.folder.path
    name, bound = options.optimizer, float(least.cost.mean())
    given = task.conditions()
    pushed = None if len(given) < 3 else (given[2] != 0).any(axis=2)
    shown = {"iLQR": planned(task, least), name: task.trajectories(*given)}
    written = "model.safetensors and history.jsonl"
    try:
        viz.loss_by_calls({name: trainer.folder.recorded}, bound).savefig(folder / "calls.png", dpi=150)
        viz.arm_movements(shown, task.loop.arm, pushed).savefig(folder / "movements.png", dpi=150)
        written = "model.safetensors, history.jsonl, calls.png and movements.png"
    except viz.DrawingError as error:
        warnings.warn(f"calls.png and movements.png were not drawn: {error}", stacklevel=2)
    if options.record is not None:
        row = {
            "task": options.task,
            "optimizer": name,
            "seed": options.seed,
            "ilqr": bound,
            "calls": problem.calls,
        }
        append_line(options.record, {**row, **{k: v for k, v in asdict(outcome).items() if k != "history"}})
    if not options.quiet:
        print(f"{options.task}: {outcome.best:.4g} after {problem.calls:,} calls; iLQR {bound:.4g}")
        print(f"wrote {folder}/{written}")


class _Lines(Listener):
    def __init__(self, least: float) -> None:
        self.least = least

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        print(
            f"epoch {row['epoch']:>5g}: loss {row['valid_loss']:.4g} after {row['calls']:,} calls (iLQR "
            f"{self.least:.4g})",
            flush=True,
        )
