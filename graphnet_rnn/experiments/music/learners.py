"""Models of music: networks with logistic, NADE or RBM outputs, and the RTRBM; training and scores."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row
from graphnet_rnn.cell.initializers import normal
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.cells.gru import GRU
from graphnet_rnn.cells.lstm import LSTM
from graphnet_rnn.cells.multiplicative import MultiplicativeLSTM
from graphnet_rnn.data.music import frame_accuracy
from graphnet_rnn.experiments.music.collections import PIECE, pieces, rolls, windows
from graphnet_rnn.experiments.runs import Job, epochs_of, some_of, trainer_of
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import Adam, Momentum
from graphnet_rnn.optimizers.hessian_free import HessianFree
from graphnet_rnn.training.energy import EnergyCases

BATCH, UNITS, HIDDEN = 24, 150, 100
#: Number of samples for the mean accuracy.
DRAWS = 5
#: RBMs: Gibbs steps of training and prediction; temperatures and chains of its likelihood.
GIBBS, PREDICTED, ANNEALED = 10, (25, 10), (1000, 5)
#: Temperatures and windows of the likelihood after each epoch; epochs without a better one that end the run.
ROUGH, PATIENCE = (1000, 12), 30
#: The multiplicative LSTM starts as in its source.
CELLS: dict[str, Any] = {
    "Elman": Elman,
    "GRU": GRU,
    "LSTM": LSTM,
    "mLSTM": partial(MultiplicativeLSTM, initial={"W_hm": normal(0.1)}),
}
#: Hidden units of the NADE; 0: keys that are independent given the past.
OUTPUTS = {"logistic": 0, "nade": HIDDEN}
#: Net whose output is an RBM, as that of RNN-RBMs; all RBMs have this method.
RTRBM, RBM, DIVERGENCE = "RTRBM", "rbm", "cd"


@dataclass(frozen=True)
class MusicMethod:
    """optimizer; dropout rate of states; True to average weights over steps"""

    optimizer: Optimizer
    dropout: float = 0.0
    average: float | None = None


#: Rate, dropout and averaging: the best of eight settings on the validation part of JSB, with a GRU and NADE. A loss of
#: hundreds of nats needs damping to match: with HessianFree's own 0.1 the net is lost in its first steps.
METHODS = {
    "adam": MusicMethod(Adam(rate=0.005, clip_norm=100.0), 0.5, 0.99),
    "hf": MusicMethod(HessianFree(damping=30.0, structural=0.1)),
    DIVERGENCE: MusicMethod(Momentum(rate=0.05, momentum=0.9)),
}


@dataclass(frozen=True)
class MusicJob(Job):
    KEY: ClassVar = ("set", "cell", "output", "method", "seed")

    set: str
    cell: str
    output: str
    method: str
    seed: int
    seconds: float
    data: Path
    folder: Path


def make(cell: str, output: str, method: str, seed: int) -> rnn.RecurrentNADE:
    network = rnn.Network(
        [CELLS[cell](UNITS)], 88, 0, reads="vectors", seed=seed, recurrent_dropout=METHODS[method].dropout,
        variational=True,
    )  # fmt: skip
    return rnn.RecurrentNADE(network, OUTPUTS[output], seed=seed)


def machine(cell: str, seed: int) -> rnn.energy.EnergyModel:
    if cell == RTRBM:
        return rnn.energy.RTRBM(88, UNITS, seed=seed)
    return rnn.energy.RecurrentRBM(
        rnn.Network([CELLS[cell](UNITS)], 88, 0, reads="vectors", seed=seed), UNITS, seed=seed
    )


class _ByLikelihood(EnergyCases):
    """Chooses the best epoch by the estimated nats per frame of some validation windows."""

    judged = "nats"

    def validate(self) -> float:
        temperatures, windows = ROUGH
        return -float(self.model.estimated_log_probabilities(self._kept[:, :windows], temperatures, 1).mean())


def problem_of(job: MusicJob, parts: dict[str, list[Array]]) -> Any:
    if job.output == RBM:
        model = machine(job.cell, job.seed)
        # The log-odds of each key, as a start.
        share = np.concatenate(parts["train"]).mean(axis=0).clip(1e-3, 1 - 1e-3)
        model.values["b_v"][...] = np.log(share / (1 - share))
        cases, valid = windows(parts["train"]), windows(parts["valid"])
        kept = valid.shape[1] / (cases.shape[1] + valid.shape[1])
        cases = np.concatenate([cases, valid], axis=1)
        return _ByLikelihood(model, cases, BATCH, gibbs_steps=GIBBS, valid=kept, seed=job.seed, threads=1)
    nade = make(job.cell, job.output, job.method, job.seed)
    arrays, judged = pieces(parts["train"]), pieces(parts["valid"])
    steps = len(arrays["lengths"]) // BATCH
    several: dict[str, Any] = {"gradient_batches": steps, "curvature_batches": max(1, steps // 4)}
    curved = METHODS[job.method].optimizer.curved
    return rnn.GraphCases(
        nade, arrays, BATCH, graph=nade.cases(PIECE), valid=judged, threads=1, **(several if curved else {})
    )


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def train(job: MusicJob) -> Row:
    """Trains or resumes a run up to its core-seconds or early stopping; scores its best epoch."""
    parts, how = rolls(job.data, job.set), METHODS[job.method]
    energy = job.output == RBM
    trainer = trainer_of(
        problem_of(job, parts), how.optimizer, job, core_seconds=job.seconds, average=how.average,
        stopping=rnn.EarlyStopping(patience=PATIENCE) if energy else rnn.EarlyStopping(),
    )  # fmt: skip
    outcome = trainer.run()
    best = rnn.load(job.place / "model.safetensors")
    epochs = epochs_of(job)
    return {
        **job.named, "optimizer": repr(how.optimizer), "parameters": best.theta.size,
        **judged(best, parts["test"]), "epochs": len(epochs), "ended": outcome.reason,
        "seconds": round(trainer.progress.core_seconds, 1),
        "curve": [] if energy else curve(epochs, pieces(parts["valid"])["lengths"]),
    }  # fmt: skip


def curve(epochs: Sequence[Row], lengths: Array) -> list[list[float]]:
    """Some epochs, and the nats per frame of the validation pieces after them."""
    share = len(lengths) / lengths.sum()
    return [[i, float(f"{row['valid_loss'] * share:.5g}")] for i, row in some_of(enumerate(epochs, start=1))]


def nats_of(model: Any, v: Array) -> Array:
    """-log P of each frame; an estimate for RBMs, somewhat too low."""
    if isinstance(model, rnn.RecurrentNADE):
        return -model.log_probabilities(v)
    temperatures, chains = ANNEALED
    found: Array = model.estimated_log_probabilities(v, temperatures, chains)
    return -found


def predicted(model: Any, v: Array, draw: int) -> Array:
    """Frames: the more probable value of each key (draw 0), or a sample."""
    if isinstance(model, rnn.RecurrentNADE):
        return model.predict(v, drawn=draw > 0, seed=draw)
    steps, chains = PREDICTED
    mean = model.predict(v, steps, chains if draw == 0 else 1, seed=draw)
    half = 0.5 if draw == 0 else np.random.default_rng(draw).random(mean.shape)
    found: Array = (mean > half).astype(v.dtype)
    return found


def judged(model: Any, sequences: Sequence[Array]) -> Row:
    """Scores on whole sequences: nats per frame, without first frames, and per sequence; accuracies.

    accuracy: of frames of the more probable value of each key; drawn: mean over sampled frames.
    """
    nats = first = 0.0
    each: list[list[Array]] = [[] for _ in range(1 + DRAWS)]
    for roll in sequences:
        v = roll[:, None]
        found = nats_of(model, v)[:, 0]
        nats, first = nats + float(found.sum()), first + float(found[0])
        for draw, frames in enumerate(each):
            frames.append(predicted(model, v, draw)[:, 0])
    truth, count = np.concatenate(sequences), sum(map(len, sequences))
    accuracies = [frame_accuracy(np.concatenate(frames), truth) for frames in each]
    return {
        "nats": nats / count, "nats_after_first": (nats - first) / (count - len(sequences)),
        "nats_sequence": nats / len(sequences), "accuracy": accuracies[0], "drawn": statistics.mean(accuracies[1:]),
    }  # fmt: skip
