"""Models of videos: RTRBM, TRBM, stacks of them, networks; training and scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row
from graphnet_rnn.cell.initializers import glorot
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.cells.lstm import LSTM
from graphnet_rnn.errors import DataError
from graphnet_rnn.experiments.balls.videos import bouncing_balls, draw_balls
from graphnet_rnn.experiments.runs import Job, epochs_of, some_of, trainer_of
from graphnet_rnn.models.energy.temporal import RTRBM, TRBM
from graphnet_rnn.models.energy.units import sigmoid
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import Adam, Momentum
from graphnet_rnn.optimizers.hessian_free import HessianFree
from graphnet_rnn.training.energy import EnergyCases

#: Frames of a video: for energy models, and for networks.
TIME, SHORT = 100, 30
#: Hidden units; of a layer on top; of networks with as many parameters as each other.
UNITS, UPPER, ELMAN, GATED = 400, 200, 300, 130
#: CD-10 for the first updates, then CD-25.
FIRST, GIBBS = 1000, (10, 25)
#: Static start of W: CD-5, number of updates.
STATIC_GIBBS, STATIC = 5, 30
#: Rate times updates, as the source's 0.01 times 100,000; the maximum rate; the rate of Adam.
LEARNED, FASTEST, ADAM = 1000.0, 0.1, 0.003
#: Chains of predictions; test videos; videos of an epoch; share of validation videos.
CHAINS, TESTED, DRAWN, VALID = 10, 20, 200, 0.025
#: Training videos of networks, their batches, and the share of validation videos.
POOL, BATCH, KEPT = 4000, 50, 0.05
BEFORE, LINE, STACK, LOWER = "frame before", "two frames before", "rtrbm-2-adam", "rtrbm-adam"
#: With momentum, as in the source, or Adam; also with connections from the previous frame; stacked.
ENERGY: dict[str, tuple[Any, tuple[str, ...]]] = {
    "rtrbm": (RTRBM, ("HH",)),
    "trbm": (TRBM, ("HH",)),
    "rtrbm-adam": (RTRBM, ("HH",)),
    "trbm-adam": (TRBM, ("HH",)),
    "rtrbm-v-adam": (RTRBM, ("HH", "VV", "VH")),
    STACK: (RTRBM, ("HH",)),
}
REMEMBERING = Elman(ELMAN, initial={"W_hh": glorot()})
NETS: dict[str, tuple[Any, Optimizer]] = {
    "rnn-hf": (REMEMBERING, HessianFree(damping=1.0, structural=1.0)),
    "rnn-adam": (REMEMBERING, Adam(rate=0.001, clip_norm=100.0)),
    "lstm-momentum": (LSTM(GATED), Momentum(rate=0.001, momentum=0.9, clip_norm=100.0)),
    "lstm-adam": (LSTM(GATED), Adam(rate=0.001, clip_norm=100.0)),
}
METHODS = (BEFORE, LINE, *ENERGY, *NETS)


@dataclass(frozen=True)
class BallsJob(Job):
    KEY: ClassVar = ("size", "method", "seed", "updates")

    size: int
    method: str
    seed: int
    updates: int
    seconds: float
    folder: Path

    @property
    def key(self) -> tuple[int, str, int, int]:
        """Key of a run; a network is limited by time, and so has no number of updates."""
        return self.size, self.method, self.seed, self.updates if self.method in ENERGY else 0


# -- videos ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VideoSource:
    """Picklable function that draws videos (time, count, pixels)."""

    size: int
    time: int

    def __call__(self, generator: np.random.Generator, count: int) -> Array:
        return bouncing_balls(generator, count, self.time, self.size)


def videos(size: int, count: int, time: int, *seed: int) -> Array:
    return VideoSource(size, time)(np.random.default_rng(seed), count)


def held_out(size: int, time: int) -> Array:
    """Validation or test videos, the same for all methods."""
    return videos(size, TESTED, time, 2013)


def noisy(v: Array, *seed: int) -> Array:
    """Videos with three small static balls that appear at random times."""
    generator, (time, cases, pixels) = np.random.default_rng(seed), v.shape
    places = generator.uniform(0, 10, (cases, 3, 1, 2))
    noise = draw_balls(places, round(pixels**0.5), radius=0.8)
    changes = np.cumsum(generator.random((time, cases, 3, 1)) < 0.1, axis=0)
    there = (changes + generator.integers(2, size=(cases, 3, 1))) % 2
    return np.minimum(v + (there * noise).sum(axis=2, dtype=v.dtype), 1)


# -- runs --------------------------------------------------------------------------------------


class _Videos(EnergyCases):
    judged: ClassVar[str] = "predicted"

    def validate(self) -> float:
        v = self._kept
        for layer in self.below:
            v = layer.infer(v)
        return error(self.model.predict(v, GIBBS[1], 2), v)  # type: ignore[attr-defined]


def gibbs_steps(update: int) -> int:
    return GIBBS[update >= FIRST]


def energy_problem(job: BallsJob) -> _Videos:
    kind, connections = ENERGY[job.method]
    source = VideoSource(job.size, TIME)
    how: dict[str, Any] = {
        "gibbs_steps": gibbs_steps,
        "valid": VALID,
        "drawn": DRAWN,
        "seed": job.seed,
        "threads": 1,
    }
    if job.method == STACK:
        below = best(replace(job, method=LOWER)).layers
        return _Videos(
            kind(UNITS, UPPER, connections=connections, seed=job.seed), source, 1, below=below, **how
        )
    model = kind(job.size**2, UNITS, connections=connections, seed=job.seed)
    model.values["W"][...] = static_start(job)
    return _Videos(model, source, 1, **how)


def static_start(job: BallsJob) -> Array:
    """W of an RBM that was trained on single frames."""
    rbm = rnn.energy.RBM(job.size**2, UNITS, seed=job.seed)
    frames = videos(job.size, STATIC, TIME, job.seed, 1).reshape(-1, job.size**2)
    problem = EnergyCases(rbm, frames, TIME, gibbs_steps=STATIC_GIBBS, valid=0.0, seed=job.seed, threads=1)
    momentum = Momentum(rate=0.01, momentum=0.9)
    rnn.Trainer(
        problem, rnn.Training(momentum, epochs=1, schedule=rnn.Constant(), stopping=None), progress=False
    ).run()
    found: Array = rbm.values["W"]
    return found


def optimizer_of(job: BallsJob) -> Optimizer:
    if job.method not in ENERGY:
        return NETS[job.method][1]
    if job.method.endswith("adam"):
        return Adam(rnn.Ramp(ADAM, 0.0, job.updates))
    return Momentum(rnn.Ramp(min(FASTEST, LEARNED / job.updates), 0.0, job.updates), momentum=0.9)


def net_problem(job: BallsJob) -> rnn.Arrays:
    cell, optimizer = NETS[job.method]
    net = rnn.Network([cell], job.size**2, job.size**2, loss="sigmoid", seed=job.seed)
    v = videos(job.size, POOL, SHORT, job.seed, 2)
    several: dict[str, Any] = {"gradient_batches": 20, "curvature_batches": 2} if optimizer.curved else {}
    return rnn.Arrays(net, v[:-1], v[1:], BATCH, valid=KEPT, threads=1, **several)


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def train(job: BallsJob) -> Row:
    """Trains or resumes a run up to its updates or core-seconds; scores its best epoch."""
    if job.method in (BEFORE, LINE):
        return {**job.named, **judged(job.method, held_out(job.size, TIME)), "seconds": 0.0, "ended": ""}
    energy = job.method in ENERGY
    problem = energy_problem(job) if energy else net_problem(job)
    ends = {"steps": job.updates, "core_seconds": 1e9} if energy else {"core_seconds": job.seconds}
    trainer = trainer_of(problem, optimizer_of(job), job, **ends)
    outcome = trainer.run()
    model, rows = best(job), epochs_of(job)
    test = held_out(job.size, TIME if job.method in ENERGY else SHORT)
    return {
        **job.named, "parameters": problem.model.theta.size, **judged(model, test),
        "epochs": len(rows), "ended": outcome.reason, "seconds": round(trainer.progress.core_seconds, 1),
        "curve": [
            [round(row["epoch"] * len(problem)), float(f"{row[problem.row_names[1]]:.4g}")] for row in some_of(rows)
        ],
    }  # fmt: skip


def best(job: BallsJob) -> Any:
    """Model of the best epoch; energy models as a Stack of one or two layers."""
    path = job.place / "model.safetensors"
    if not path.exists():
        raise DataError(f"there is no run {path.parent}: first train one with --methods {job.method}")
    model = rnn.load(path)
    if job.method not in ENERGY:
        return model
    lower = best(replace(job, method=LOWER)).layers if job.method == STACK else []
    return rnn.energy.Stack([*lower, model])


# -- figures -----------------------------------------------------------------------------------


def predicted(model: Any, v: Array, chains: int = CHAINS) -> Array:
    """v̂_1 ... v̂_T, each from the frames before it; the first has no information.

    model: BEFORE, LINE, a network, or a Stack, whose top layer predicts and whose lowest layer decodes.
    """
    if model == BEFORE:
        return np.concatenate([v[:1], v[:-1]])
    if model == LINE:
        return np.concatenate([v[:1], v[:1], np.clip(2 * v[1:-1] - v[:-2], 0, 1)])
    if isinstance(model, rnn.Network):
        return np.concatenate([v[:1], sigmoid(rnn.run(model, v[:-1])[0])])
    *lower, top = model.layers
    seen = [v]
    for layer in lower:
        seen.append(layer.infer(seen[-1]))
    found: Array = top.predict(seen[-1], GIBBS[1], chains)
    for layer, read in zip(reversed(lower), reversed(seen[:-1]), strict=True):
        found = layer.read_out(found, read)
    return found


def mean_field(model: RTRBM, v: Array, steps: int = GIBBS[1]) -> Array:
    """As `predict`, with means instead of samples."""
    (b_v, b_h), W = model.biases(v), model.values["W"]
    x = np.concatenate([np.full_like(v[:1], 0.5), v[:-1]])
    for _ in range(steps):
        x = model.units.mean(sigmoid(x @ W + b_h) @ W.T + b_v)
    return x


def error(found: Array, v: Array) -> float:
    """Mean squared error of a pixel, without the first frame."""
    return float(np.mean(np.square(found[1:] - v[1:]), dtype=np.float64))


def divergence(found: Array, v: Array) -> float:
    """Σ q log q/p + (1 - q) log (1-q)/(1-p), p the prediction, q the frame: nats of SHORT frames except the first"""
    p, q = (np.clip(x[1:].astype(np.float64), 1e-6, 1 - 1e-6) for x in (found, v))
    each = (q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))).sum(axis=2)
    return float(each.mean() * (SHORT - 1))


def separation(model: RTRBM) -> float:
    """Correlation over hidden units of ‖W_j‖ with W'_jj; near 1 if units with small visible weights have weak
    self-connections

    Source: Sutskever 2013, 3.11.1: units of the RTRBM without visible weights have no strong connection to themselves.
    """
    seen = np.linalg.norm(model.values["W"], axis=0)
    return float(np.corrcoef(seen, np.diagonal(model.values["W'_1"]))[0, 1])


def judged(model: Any, v: Array) -> Row:
    """error: of a pixel; kl: of a video of SHORT frames. Energy models also: one chain, means, noisy frames."""
    found = predicted(model, v)
    row = {"error": error(found, v), "kl": divergence(found, v)}
    if isinstance(model, rnn.energy.Stack):
        row["error_one_chain"] = error(predicted(model, v, 1), v)
        if len(model.layers) == 1:
            row["error_mean_field"] = error(mean_field(model.layers[0], v), v)
            row["separation"] = separation(model.layers[0])
        row["reconstruction"] = error(model.reconstruct(v), v)
        spoilt = noisy(v, 2013)
        row |= {"noise": error(spoilt, v), "denoised": error(model.reconstruct(spoilt), v)}
    return row
