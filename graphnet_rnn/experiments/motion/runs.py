"""Next frame of motion capture: RTRBM and TRBM with Gaussian units, networks, and the previous frame.

    python -m graphnet_rnn.experiments.motion --data MOCAP.mat  # all methods, minutes
    # as many updates as in the source
    python -m graphnet_rnn.experiments.motion --data MOCAP.mat --updates 100000
    # any frames x (time, cases, width), with lengths
    python -m graphnet_rnn.experiments.motion --data speech.npz --methods rnn-hf
    # generated swings, without data
    python -m graphnet_rnn.experiments.motion --updates 500 --seconds 5
    # predictions and samples of the best of these runs
    python -m graphnet_rnn.experiments.motion --data MOCAP.mat --picture motion.png
    # existing results, as a table
    python -m graphnet_rnn.experiments.motion --data MOCAP.mat --table

After Sutskever 2013, 3.11.2-3.11.3 (TRBM, RTRBM: 200 units, momentum 0.9, a rate that falls from 0.005 to 0, CD-10,
after 1,000 updates CD-25, one window for each) and 4.5.3 (recurrent networks on frames of numbers). Models are trained
on windows of 50 frames within recordings. The last 300 frames of the longest recording are the test data, the 300
before them the validation data. The error is the mean of (v_t - v̂_t)² over test windows, frames except the first, and
columns, in the units of the file. The best epoch by validation is kept. Interrupted runs resume from their folders.
MOCAP.mat (by G. Taylor, G. Hinton and S. Roweis, free to copy and use with this notice) needs SciPy. Its columns have
mean 0 and variance 1, without scales or a skeleton, so figures cannot be drawn from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row
from graphnet_rnn.cells.elman import Elman
from graphnet_rnn.cells.lstm import LSTM
from graphnet_rnn.data.arrays import package_for
from graphnet_rnn.data.sequence_files import read_inputs
from graphnet_rnn.errors import DataError
from graphnet_rnn.experiments.runs import Job, finished, markdown, options_of, trainer_of
from graphnet_rnn.models.energy.temporal import RTRBM, TRBM
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.optimizers.first_order import Adam
from graphnet_rnn.optimizers.hessian_free import HessianFree

WINDOW, EVERY, KEPT, UNITS = 50, 5, 300, 200
#: CD-10 for the first updates, then CD-25; and the steps of prediction.
SHORT, GIBBS, CHAINS = 1000, (10, 25), 10
NETS: dict[str, tuple[Any, Optimizer]] = {
    "rnn-hf": (Elman, HessianFree(structural=0.1)),
    "rnn-adam": (Elman, Adam(rate=0.001, clip_norm=5.0)),
    "lstm-adam": (LSTM, Adam(rate=0.001, clip_norm=5.0)),
}
#: As in the source, and with directed connections from the previous frame, too.
ENERGY: dict[str, tuple[Any, tuple[str, ...]]] = {
    "rtrbm": (RTRBM, ("HH",)),
    "trbm": (TRBM, ("HH",)),
    "rtrbm-v": (RTRBM, ("HH", "VV", "VH")),
    "trbm-v": (TRBM, ("HH", "VV", "VH")),
}
BEFORE = "frame before"
METHODS = (BEFORE, *ENERGY, *NETS)


@dataclass(frozen=True)
class MotionJob(Job):
    KEY: ClassVar = ("data", "method", "seed", "updates")

    data: Path | None
    method: str
    seed: int
    updates: int
    seconds: float
    folder: Path

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Key of a run; a network is limited by time, and so has no number of updates."""
        name = "drawn" if self.data is None else self.data.stem
        return name, self.method, self.seed, self.updates if self.method in ENERGY else 0


# -- frames ------------------------------------------------------------------------------------


def recordings(path: Path | None) -> list[Array]:
    """Recordings (time, width): of MOCAP.mat, of an array x with lengths, or three generated ones."""
    if path is None:
        return swings(np.random.default_rng(0))
    if path.suffix != ".mat":
        x, lengths = read_inputs(path)
        return [x[: None if lengths is None else lengths[n], n] for n in range(x.shape[1])]
    found = package_for(f"reading {path}", "scipy.io", "scipy").loadmat(path)
    if not {"batchdata", "seqlengths"} <= set(found):
        raise DataError(f"{path} must have the arrays batchdata and seqlengths, as MOCAP.mat has them")
    ends = np.cumsum(found["seqlengths"].ravel().astype(int))
    return np.split(found["batchdata"].astype(np.float32), ends[:-1])


def swings(generator: np.random.Generator, width: int = 12) -> list[Array]:
    """Two oscillations of drifting speed, mixed, with noise; variance 1."""
    mixture = generator.standard_normal((4, width))
    found = []
    for time in (250, 200, 1400):
        speeds = 0.15 + 0.02 * np.cumsum(generator.standard_normal((time, 2)), axis=0) / math.sqrt(time)
        phases = np.cumsum(speeds * (1.0, 1.9), axis=0) + generator.uniform(0, 6, 2)
        found.append(np.concatenate([np.sin(phases), np.cos(phases)], axis=1) @ mixture)
    scale = np.concatenate(found).std(axis=0)
    return [(x / scale + 0.1 * generator.standard_normal(x.shape)).astype(np.float32) for x in found]


def windows(recording: Array, every: int = WINDOW) -> Array:
    """(WINDOW, cases, width); raises DataError for a shorter recording."""
    starts = range(0, len(recording) - WINDOW + 1, every)
    if not starts:
        raise DataError(
            f"each recording must have at least {WINDOW} frames, one window; one has {len(recording)}"
        )
    return np.stack([recording[start : start + WINDOW] for start in starts], axis=1)


def parts(path: Path | None) -> tuple[Array, Array, Array]:
    """Overlapping training windows, and separate validation and test windows."""
    each = sorted(recordings(path), key=len)
    longest = each.pop()
    if len(longest) < 2 * KEPT + WINDOW:
        raise DataError(
            f"the longest recording must have at least {2 * KEPT + WINDOW} frames; it has {len(longest)}"
        )
    rest = [x for x in each if len(x) >= WINDOW]
    train = [windows(x, EVERY) for x in (*rest, longest[: -2 * KEPT])]
    return np.concatenate(train, axis=1), windows(longest[-2 * KEPT : -KEPT]), windows(longest[-KEPT:])


# -- runs --------------------------------------------------------------------------------------


def trainer_for(job: MotionJob, train: Array, valid: Array) -> rnn.Trainer:
    width = train.shape[2]
    if job.method in ENERGY:
        kind, connections = ENERGY[job.method]
        model = kind(width, UNITS, visibles="gaussian", connections=connections, seed=job.seed)
        cases = np.concatenate([train, valid], axis=1)
        energy = rnn.EnergyCases(
            model, cases, 1, gibbs_steps=gibbs_steps, valid=valid.shape[1] / cases.shape[1], seed=job.seed, threads=1
        )  # fmt: skip
        momentum = rnn.Momentum(rate=rnn.Ramp(0.005, 0.0, job.updates), momentum=0.9)
        return trainer_of(energy, momentum, job, steps=job.updates, core_seconds=1e9)
    cell, optimizer = NETS[job.method]
    net = rnn.Network([cell(UNITS)], width, width, loss="squared", seed=job.seed)
    several = {"gradient_batches": train.shape[1] // 50, "curvature_batches": 2} if optimizer.curved else {}
    arrays = rnn.Arrays(net, train[:-1], train[1:], 50, valid=(valid[:-1], valid[1:]), threads=1, **several)
    return trainer_of(arrays, optimizer, job, core_seconds=job.seconds, stopping=rnn.EarlyStopping())


def gibbs_steps(update: int) -> int:
    return GIBBS[update >= SHORT]


def predicted(model: Any, v: Array) -> Array:
    """v̂_2 ... v̂_T, each from the frames before it."""
    if isinstance(model, rnn.Network):
        return rnn.run(model, v[:-1])[0]
    found: Array = model.predict(v, gibbs_steps=GIBBS[1], chains=CHAINS)[1:]
    return found


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def train(job: MotionJob) -> Row:
    learned, valid, test = parts(job.data)
    row = {**job.named, "windows": learned.shape[1], "width": test.shape[2]}
    if job.method == BEFORE:
        return {**row, "error": error(test[:-1], test), "seconds": 0.0, "ended": "", "epochs": 0}
    trainer = trainer_for(job, learned, valid)
    outcome = trainer.run()
    model = rnn.load(job.place / "model.safetensors")
    return {
        **row, "error": error(predicted(model, test), test), "parameters": model.theta.size,
        "seconds": round(trainer.progress.core_seconds, 1), "ended": outcome.reason, "epochs": outcome.epochs,
    }  # fmt: skip


def error(found: Array, v: Array) -> float:
    return float(np.mean(np.square(found - v[1:]), dtype=np.float64))


def table(rows: Sequence[Row]) -> str:
    """Markdown table of runs, best first."""
    lines = []
    for row in sorted(rows, key=lambda row: row["error"]):
        count = f"{row['updates']:,} updates" if row["updates"] else f"{row['epochs']:,} epochs"
        took = f"{row['seconds']:.0f}" if row["seconds"] else ""
        lines.append(f"{row['method']} | {row['seed']} | {row['error']:.3f} | {count} | {took}")
    return markdown("method | seed | error per column | updates or epochs | core s", lines)


def draw(jobs: Sequence[MotionJob], picture: Path) -> None:
    """Writes charts of a test window, its predictions, and samples of an energy model after ten frames."""
    import viz

    _, _, test = parts(jobs[0].data)
    shown, v = {}, test[:, :1]
    for job in jobs:
        if job.method == BEFORE:
            continue
        model = rnn.load(job.place / "model.safetensors")
        shown[f"{job.method}, next frame"] = np.concatenate([v[:1], predicted(model, v)])[:, 0]
        if isinstance(model, TRBM):
            new = model.sample(WINDOW - 10, warm_up=v[:10], means=True)
            shown[f"{job.method}, on its own from 10"] = np.concatenate([v[:10], new])[:, 0]
    viz.joint_curves(v[:, 0], shown).savefig(picture, dpi=150)


def main() -> None:
    parser = options_of("motion", __doc__)
    add: Any = parser.add_argument
    add("--data", type=Path, help="MOCAP.mat, or arrays (.npz)")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--seeds", nargs="+", type=int, default=[0])
    add("--updates", type=int, default=10_000, help="updates of TRBM and RTRBM")
    add("--seconds", type=float, default=100.0, help="core-seconds for each network")
    add("--picture", type=Path, help="write a chart of a test window and its predictions with the first seed")
    given = parser.parse_args()
    jobs = [
        MotionJob(given.data, method, seed, given.updates, given.seconds, given.folder)
        for method in given.methods for seed in given.seeds[: 1 if method == BEFORE else None]
    ]  # fmt: skip
    # Only the networks have settings that are not in the key.
    finished(
        given, jobs, train, table,
        lambda row: (
            row["method"] not in NETS or row["seconds"] >= given.seconds or row["ended"] == "early stopping"
        ),
    )  # fmt: skip
    if given.picture:
        draw([job for job in jobs if job.seed == given.seeds[0]], given.picture)
