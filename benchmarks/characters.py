"""Character models on a part of a text: Hessian-free optimization with structural or line-search damping, and Adam.

    python -m benchmarks.characters ptb.train.txt ptb.valid.txt ptb.test.txt --runs runs.jsonl [--seconds 300]
        [--cells RNN mRNN] [--methods structural line-search adam] [--seeds 0] [--train 100000] [--workers 2]

After Krause 2015, table 4.5, on fewer characters: all nets have about the same number of parameters; each run has the
same time on one core, and keeps its best epoch on the validation part. Hessian-free: independent sequences of 100
characters, each step's gradient over all of the training part, its curvature over a random quarter, at most 100 steps
of conjugate gradient, no Tikhonov damping; structural: μ of the source, adapted by its rule, and CG starts from 0.
Weights: as in the source. Adam: pieces of 100 characters in 20 lanes whose states are carried, the library's own
initial weights, a learning rate of 0.005, gradients clipped at 5. Every run is a line of `runs`; existing runs are not
repeated.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graphnet_rnn as rnn
from graphnet.system.json_lines import Row
from graphnet.system.streams import prepare_streams
from graphnet_rnn.cell.cell import Cell
from graphnet_rnn.cell.initializers import Initializer, normal, thinned
from graphnet_rnn.data import Corpus, read_text
from graphnet_rnn.experiments.runs import Job, complete
from graphnet_rnn.optimizers import Adam, Constant, GreedyHessianFree, HessianFree, Optimizer
from graphnet_rnn.training import CarriedText, DrawnText, Listener, Problem, Trainer, Training

TIME, BATCH, LANES = 100, 50, 20
RATE = 5e-3


@dataclass(frozen=True)
class Architecture:
    """cell; μ, and the deviation of the initial weights, in Krause 2015, 4.2 to 4.5; thin: W_hh has 90 % zeros."""

    cell: Callable[..., Cell]
    structural: float
    scale: float
    thin: bool = False

    def network(self, units: int, symbols: int, seed: int, initial: bool) -> rnn.Network:
        cell = self.cell(units)
        if initial:
            cell = self.cell(units, initial=self._initial(symbols))
        output: dict[str, Initializer] = {"W_ho": normal(self.scale)} if initial else {}
        return rnn.Network([cell], symbols, symbols, seed=seed, initial=output)

    def _initial(self, symbols: int) -> dict[str, Initializer]:
        probe = rnn.Network([self.cell(2)], symbols, symbols).parameters
        names = [
            key.split(".", 1)[1] for key, node in probe.items() if "layer0." in key and len(node.shape) == 2
        ]
        each: dict[str, Initializer] = {name: normal(self.scale) for name in names}
        return each | ({"W_hh": thinned(normal(self.scale), 0.1)} if self.thin else {})

    def units(self, symbols: int, parameters: int) -> int:
        """Maximum number of units of a net with at most `parameters` parameters."""
        units = 1
        while self.network(units + 1, symbols, 0, False).theta.size <= parameters:
            units += 1
        return units


def stacked(units: int, **how: Any) -> rnn.StackedMRNN:
    """Three layers, each smaller than the one below, in the proportions of the source (150, 130, 110)."""
    return rnn.StackedMRNN((units, max(1, round(units * 13 / 15)), max(1, round(units * 11 / 15))), **how)


ARCHITECTURES: Mapping[str, Architecture] = {
    "RNN": Architecture(rnn.Elman, 0.01, 0.1, thin=True),
    "mRNN": Architecture(rnn.MRNN, 0.3, 0.05),
    "LSTM": Architecture(rnn.cells.LSTMKrause, 0.01, 0.1),
    "stacked mRNN": Architecture(stacked, 0.3, 0.05),
    "mLSTM": Architecture(rnn.MultiplicativeLSTM, 0.1, 0.1),
}
METHODS = ("structural", "line-search", "adam")


@dataclass(frozen=True)
class CharactersJob(Job):
    KEY = ("cell", "method", "seed", "seconds", "limit", "characters")

    cell: str
    method: str
    seed: int
    seconds: float
    parameters: int
    texts: tuple[str, str, str]

    @property
    def key(self) -> tuple[Any, ...]:
        return self.cell, self.method, self.seed, self.seconds, self.parameters, len(self.texts[0])


class _Clock(Listener):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def started(self, trainer: Trainer) -> None:
        self._end = time.process_time() + self._seconds

    def epoch_ended(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        if time.process_time() > self._end:
            trainer.stop("time is up")


def optimizer(architecture: Architecture, method: str) -> Optimizer:
    if method == "structural":
        # Without λ the last direction is a start from which the model nearly always predicts a rise, and CG spends its
        # steps on making up for that. (Line-search damping judges its start by the loss.) The source names no start.
        return HessianFree(
            damping=0.0, structural=architecture.structural, adapts="structural", cg_steps=100, retained=0.0,
            warm_start=0.0,
        )  # fmt: skip
    if method == "line-search":
        return GreedyHessianFree(cg_steps=100)
    return Adam(RATE, clip_norm=5.0)


def run(job: CharactersJob) -> Row:
    """Trains for the given seconds; returns bits per character of the best epoch."""
    architecture = ARCHITECTURES[job.cell]
    data = Corpus.given(*job.texts)
    symbols = len(data.vocabulary)
    units = architecture.units(symbols, job.parameters)
    network = architecture.network(units, symbols, job.seed, job.method != "adam")
    batches = (len(data.train) - 1) // (TIME * BATCH)
    how: dict[str, Any] = {"sample": 0, "threads": 1}
    problem: Problem = (
        CarriedText(network, data, TIME, LANES, **how)
        if job.method == "adam"
        else DrawnText(network, data, TIME, BATCH, batches, max(1, batches // 4), **how)
    )
    settings = Training(
        optimizer(architecture, job.method),
        epochs=10**6,
        schedule=Constant(),
        stopping=None,
        checkpoint_seconds=1e9,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            problem, settings, Path(folder) / "run", listeners=[_Clock(job.seconds)], progress=False
        )
        outcome = trainer.run()
        best = rnn.load(trainer.folder.model)
        bits = {
            part: rnn.Evaluator(best, 16, TIME, 1)(getattr(data, part), TIME).bits
            for part in ("train", "valid", "test")
        }
    return {
        **job.named, "units": units, "parameters": network.theta.size, "steps": outcome.steps,
        "epochs": outcome.epochs, "best_epoch": outcome.best_epoch, **bits,
    }  # fmt: skip


def table(rows: list[Row]) -> str:
    """Markdown, in the order of the source's table."""
    lines = [
        "| net | units | parameters | method | seed | steps (best) | train | valid | test (bits per character) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    order = {name: i for i, name in enumerate((*ARCHITECTURES, *METHODS))}
    for row in sorted(rows, key=lambda row: (order[row["cell"]], order[row["method"]], row["seed"])):
        per_epoch = row["steps"] / row["epochs"]
        lines.append(
            f"| {row['cell']} | {row['units']} | {row['parameters']:,} | {row['method']} | {row['seed']} | "
            f"{row['steps']:,} ({row['best_epoch'] * per_epoch:,.0f}) | {row['train']:.2f} | {row['valid']:.2f} | "
            f"{row['test']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.characters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    # Several metavars of one positional argument are more than argparse's own help of Python 3.11 and 3.12 can print.
    add("texts", nargs=3, metavar="TEXT", help="texts for training, validation, test")
    add("--runs", type=Path, required=True, help="JSON-lines file to which runs are appended")
    add("--cells", nargs="+", choices=list(ARCHITECTURES), default=list(ARCHITECTURES))
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--seeds", nargs="+", type=int, default=[0])
    add("--seconds", type=float, default=300, help="seconds of core time for each run")
    add("--parameters", type=int, default=20_000, help="maximum number of parameters of a net")
    add(
        "--train",
        type=int,
        default=100_000,
        help="training characters; a fifth as many each for validation and test",
    )
    add("--workers", type=int, default=2)
    chosen = parser.parse_args()
    train, valid, test = (read_text(path) for path in chosen.texts)
    parts = train[: chosen.train], valid[: chosen.train // 5], test[: chosen.train // 5]
    known = set(parts[0])
    texts = tuple("".join(c if c in known else "N" for c in part) for part in parts)
    jobs = [
        CharactersJob(cell, method, seed, chosen.seconds, chosen.parameters, (texts[0], texts[1], texts[2]))
        for seed in chosen.seeds
        for cell in chosen.cells
        for method in chosen.methods
    ]
    print(table(complete(chosen.runs, jobs, run, chosen.workers)))


if __name__ == "__main__":
    prepare_streams()
    main()
