"""Deep autoencoders by several optimizers: CURVES, generated here, or images of a file (Sutskever 2013, 7.3).

    # CURVES, all methods, minutes for each run
    python -m graphnet_rnn.experiments.autoencoders
    # all of it, some minutes
    python -m graphnet_rnn.experiments.autoencoders --updates 1000 --seconds 5 --images 2000
    # MNIST: 784-1000-500-250-30
    python -m graphnet_rnn.experiments.autoencoders --data train-images-idx3-ubyte.gz
    # FACES: 625-2000-1000-500-30
    python -m graphnet_rnn.experiments.autoencoders --data newfaces_rot_single.mat
    # the source's own CURVES
    python -m graphnet_rnn.experiments.autoencoders --data digs3pts_1.mat --array bdata --net CURVES
    # existing results, as a table
    python -m graphnet_rnn.experiments.autoencoders --table
    python -m graphnet_rnn.experiments.autoencoders --picture images.png --curves error.png

Logistic units, a linear code, 15 connections for each unit (rnn.tasks.autoencoder). The loss is that of the source
(cross entropy; FACES: squared error). The error is Σ (x - y)² over pixels, averaged over all training images.
First-order methods make --updates, scaled to the source's schedules; SGD twice as many on batches of 20 (there five
times as many); KFAC and the unitwise metric a share of them, in about the same time; Hessian-free optimization runs for
--seconds of a core. Interrupted runs resume from their folders. A finished run is a row of --results: its error, and
the curve of updates, core-seconds (only of steps) and the error on 2,000 images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

import graphnet_rnn as rnn
from graphnet.errors import GraphnetError
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row
from graphnet_rnn.cells.feedforward import AUTOENCODERS
from graphnet_rnn.data.images import read_images
from graphnet_rnn.errors import DataError, TrainingError
from graphnet_rnn.experiments.autoencoders.curves import (
    Reconstruction,
    autoencoder,
    autoencoder_optimizer,
    curve_images,
)
from graphnet_rnn.experiments.runs import (
    Job,
    epochs_of,
    finished,
    grouped,
    markdown,
    options_of,
    some_of,
    trainer_of,
)
from graphnet_rnn.optimizers.base import Optimizer
from graphnet_rnn.riemannian.metrics import METRICS
from graphnet_rnn.training.arrays import Arrays

#: Images on which the curve is measured; points of it that a row keeps; images of a picture.
MEASURED, POINTS, SHOWN = 2000, 100, 12
#: File of the final weights in the folder of a run.
LAST = "last.safetensors"
#: Numbers of training images in the sources (table 7.1).
COUNTS = {"CURVES": 20_000, "MNIST": 60_000, "FACES": 103_500}
#: Table 7.2: error by method.
SOURCE = {
    "CURVES": {"nag": 0.078, "momentum-0.99": 0.110, "momentum-0.9": 0.220, "sgd": 0.250, "hf": 0.110},
    "MNIST": {"nag": 0.730, "momentum-0.99": 0.770, "momentum-0.9": 0.990, "sgd": 1.100, "hf": 0.780},
    "FACES": {"nag": 7.500, "momentum-0.99": 8.530, "momentum-0.9": 10.970, "sgd": 14.700, "hf": 8.000},
}


@dataclass(frozen=True)
class AutoencoderMethod:
    """optimizer: function of a net and a number of updates. share: share of --updates; 0: as many as fit in --seconds.
    batch:
    batch size. batches, curvature: maximum number of batches of a step, and of its curvature.
    """

    optimizer: Callable[[str, int], Optimizer]
    share: float = 1.0
    batch: int = 200
    batches: int = 1
    curvature: int = 1


def _falling(rate: float, updates: int) -> rnn.Stepwise:
    """Rate of the source: a tenth in the last tenth."""
    return rnn.Stepwise({0: rate, updates - updates // 10: rate / 10})


METHODS: dict[str, AutoencoderMethod] = {
    "nag": AutoencoderMethod(lambda net, n: autoencoder_optimizer(net, rnn.Nesterov, n)),
    "nag-0.99": AutoencoderMethod(lambda net, n: autoencoder_optimizer(net, rnn.Nesterov, n, most=0.99)),
    "momentum-0.99": AutoencoderMethod(lambda net, n: autoencoder_optimizer(net, rnn.Momentum, n, most=0.99)),
    "momentum-0.9": AutoencoderMethod(lambda net, n: autoencoder_optimizer(net, rnn.Momentum, n, most=0.9)),
    "sgd": AutoencoderMethod(
        lambda net, n: rnn.SGD(_falling(0.002 if net == "FACES" else 0.02, n)), share=2, batch=20
    ),
    "adam": AutoencoderMethod(lambda net, n: rnn.Adam(_falling(0.001, n))),
    "unitwise": AutoencoderMethod(
        lambda net, n: rnn.NaturalGradient(METRICS["qdruop"](), _falling(0.03, n), damping=0.001, every=20),
        share=0.5,
    ),
    "kfac": AutoencoderMethod(
        lambda net, n: rnn.NaturalGradient(METRICS["kfac"](), _falling(0.03, n), damping=0.01, every=20),
        share=0.14,
    ),
    "hf": AutoencoderMethod(lambda net, n: rnn.HessianFree(damping=1.0), share=0, batch=1000, batches=5),
}


@dataclass(frozen=True)
class AutoencoderJob(Job):
    KEY: ClassVar = ("data", "net", "method", "seed", "images", "updates")

    data: Path | None
    array: str | None
    net: str
    method: str
    seed: int
    images: int
    updates: int
    seconds: float
    folder: Path

    @property
    def key(self) -> tuple[str, str, str, int, int, int]:
        name = "curves" if self.data is None else self.data.name.split(".")[0]
        updates = round(self.updates * METHODS[self.method].share)
        return name, self.net, self.method, self.seed, self.images, updates


class _Images(Arrays):
    """Images that are their own targets, validated by the squared error of the first of them."""

    judged = "error"

    def __init__(self, network: rnn.Network, images: Array, **how: Any) -> None:
        super().__init__(network, images[None], images[None], valid=None, threads=1, **how)
        self.seconds, self.updates, self._begun = 0.0, 0, 0.0
        self.judge, self._measured_on = Reconstruction(network, 1, threads=1), images[:MEASURED]

    def feed(self, epoch: int, step: int) -> Any:
        self._begun = time.process_time()
        return super().feed(epoch, step)

    def stepped(self, point: Array, report: Any) -> None:
        super().stepped(point, report)
        self.seconds += time.process_time() - self._begun
        self.updates += 1

    def validate(self) -> float:
        return self.judge.error(self._measured_on)

    def row(self, epoch: int) -> dict[str, Any]:
        return {**super().row(epoch), "updates": self.updates, "seconds": self.seconds}

    def numbers(self) -> dict[str, Any]:
        return {**super().numbers(), "updates": self.updates, "seconds": self.seconds}

    def restore(self, arrays: Any, numbers: Any) -> None:
        super().restore(arrays, numbers)
        self.updates, self.seconds = numbers["updates"], numbers["seconds"]


# -- runs ----------------------------------------------------------------------------------------


def images_of(data: Path | None, array: str | None, net: str, count: int) -> Array:
    """First `count` images of a file; generated images are the same for all runs."""
    pixels = AUTOENCODERS[net][0]
    if data is None:
        return curve_images(np.random.default_rng(0), count)
    return read_images(data, array, pixels)[:count]


def net_of(data: Path | None, array: str | None) -> str:
    """Name of the net with as many inputs as the images have pixels; raises DataError if there is none."""
    if data is None:
        return "CURVES"
    pixels = read_images(data, array).shape
    for net in ("MNIST", "FACES"):
        if AUTOENCODERS[net][0] in pixels:
            return net
    raise DataError(
        f"{data}: images are {list(pixels)}; the nets read 784 (MNIST, CURVES) or 625 (FACES) pixels"
    )


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def train(job: AutoencoderJob) -> Row:
    method, images = METHODS[job.method], images_of(job.data, job.array, job.net, job.images)
    updates, batches = job.key[-1], min(method.batches, max(1, len(images) // method.batch))
    optimizer = method.optimizer(job.net, updates)
    problem = _Images(
        autoencoder(job.net, seed=job.seed), images, batch=method.batch, gradient_batches=batches,
        curvature_batches=min(method.curvature, batches),
    )  # fmt: skip
    ends = {"steps": updates} if updates else {"core_seconds": job.seconds}
    trainer = trainer_of(problem, optimizer, job, **ends)
    error = None
    try:
        ended = trainer.run().reason
        problem.model.theta = trainer.weights
        rnn.save(problem.model, job.place / LAST)
        error = problem.judge.error(images)
    except TrainingError as failure:  # a rate too high is a result
        ended = str(failure)
    if ended == "interrupted":
        raise DataError(f"{job.place} was interrupted; repeat the command to resume it")
    return {
        **job.named, "error": error, "steps": problem.updates,
        "seconds": round(problem.seconds, 1), "asked": job.seconds, "ended": ended, "optimizer": repr(optimizer),
        "batch": method.batch * batches, "parameters": problem.model.theta.size, "curve": curve_of(job),
    }  # fmt: skip


def curve_of(job: AutoencoderJob) -> list[list[float]]:
    """[updates, core-seconds, error] after some epochs, denser at the start."""
    return [
        [row["updates"], round(row["seconds"], 2), float(f"{row['valid_error']:.4g}")]
        for row in some_of(epochs_of(job), POINTS)
    ]


def enough(row: Row, seconds: float) -> bool:
    """True if a run with a time limit has had `seconds`; the key describes other runs."""
    return bool(row["updates"]) or row["asked"] >= seconds


# -- what came out -------------------------------------------------------------------------------


def error_at(curve: Sequence[Sequence[float]], column: int, limit: float) -> float | None:
    """Error at the last point within a number of updates (0) or seconds (1); None if the run ended far before."""
    within = [point for point in curve if point[column] <= limit]
    return float(within[-1][2]) if within and curve[-1][column] >= 0.9 * limit else None


def mean_and_error(values: Sequence[float | None]) -> str:
    """Mean ± standard error; "" if any value is missing."""
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values) or not numbers:
        return ""
    if len(numbers) == 1:
        return f"{numbers[0]:.2f}"
    return f"{np.mean(numbers):.2f} ± {np.std(numbers, ddof=1) / np.sqrt(len(numbers)):.2f}"


def table(rows: Sequence[Row], after: Sequence[float], updates: Sequence[float]) -> str:
    """Markdown table: net, method and length of runs, with means and standard errors over seeds."""
    lines = []
    for group in sorted(
        grouped(rows, [name for name in AutoencoderJob.KEY if name != "seed"]).values(), key=_order
    ):
        first = group[0]
        at = [mean_and_error([error_at(row["curve"], 1, n) for row in group]) for n in after]
        at += [mean_and_error([error_at(row["curve"], 0, n) for row in group]) for n in updates]
        source = SOURCE[first["net"]].get(first["method"])
        cells = (
            first["net"], first["method"], mean_and_error([row["error"] for row in group]) or "diverged",
            "" if source is None else f"{source:.3f}", f"{np.mean([row['steps'] for row in group]):,.0f}",
            f"{np.mean([row['seconds'] for row in group]):.0f}", *at, str(len(group)),
        )  # fmt: skip
        lines.append(" | ".join(cells))
    heads = [f"after {n:g} s" for n in after] + [f"after {n:,.0f} updates" for n in updates]
    columns = ("net", "method", "error at the end", "the source", "updates", "core s", *heads, "seeds")
    return markdown(" | ".join(columns), lines)


def _order(group: Sequence[Row]) -> float:
    errors = [row["error"] for row in group]
    return math.inf if None in errors else float(np.mean(errors))


def histories(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Method -> mean curve over seeds as rows of a history, up to the shortest run."""
    found: dict[str, list[Row]] = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        curves = [row["curve"] for row in rows if row["method"] == method]
        least = min(map(len, curves))
        mean = np.mean([curve[:least] for curve in curves], axis=0)
        found[method] = [
            {
                "event": "epoch",
                "epoch": i + 1,
                "step": float(u),
                "seconds": float(s),
                "train_squared_error": float(e),
            }
            for i, (u, s, e) in enumerate(mean)
        ]
    return found


def draw(
    jobs: Sequence[AutoencoderJob], rows: Sequence[Row], picture: Path | None, curves: Path | None, by: str
) -> None:
    """Writes pictures of reconstructions with the first seed, and of the error by core-seconds or updates."""
    import viz

    if curves is not None:
        viz.compare_runs(histories(rows), by=by, log="xy" if by == "step" else "y").savefig(curves, dpi=150)
    if picture is not None:
        first = jobs[0]
        images = images_of(first.data, first.array, first.net, first.images)[:SHOWN]
        shown: dict[str, Array] = {"images": images}
        for job in jobs:
            model = job.place / LAST
            if job.seed == first.seed and model.exists():
                shown[job.method] = Reconstruction(rnn.load(model), 1).reconstructed(images)
        viz.image_rows(shown).savefig(picture, dpi=150)


def main() -> None:
    parser = options_of("autoencoders", __doc__)
    add: Any = parser.add_argument
    add("--data", type=Path, help="images: idx (also .gz), .mat or .npz; default: CURVES, generated here")
    add("--array", help="name of the array in a .mat or .npz; several with a *: 'train*'")
    add("--net", choices=list(AUTOENCODERS), help="network (default: the one with as many inputs as pixels)")
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    add("--seeds", nargs="+", type=int, default=[0, 1])
    add("--images", type=int, help="maximum number of images (default: that of the source)")
    add(
        "--updates",
        type=int,
        default=4000,
        help="updates of first-order methods, at least 1000; the source: 600,000",
    )
    add("--seconds", type=float, default=27.0, help="core-seconds of Hessian-free optimization")
    add("--after", nargs="*", type=float, default=[10, 25], help="core-seconds with a column in the table")
    add(
        "--after-updates",
        nargs="*",
        type=float,
        default=[500, 2000],
        help="updates with a column in the table",
    )
    add(
        "--picture", type=Path, help="write a picture of images and their reconstructions with the first seed"
    )
    add("--curves", type=Path, help="write a chart of the error, averaged over seeds")
    add(
        "--by",
        choices=("seconds", "step"),
        default="seconds",
        help="horizontal axis: core-seconds or updates",
    )
    given = parser.parse_args()
    if given.updates < 1000:
        parser.error(f"--updates must be at least 1000, for its schedules, not {given.updates}")
    try:
        net = given.net or net_of(given.data, given.array)
        count = given.images or COUNTS[net]
        images_of(given.data, given.array, net, 1)
    except (GraphnetError, OSError) as error:
        parser.exit(2, f"{error}\n")
    jobs = [
        AutoencoderJob(given.data, given.array, net, method, seed, count, given.updates, given.seconds, given.folder)
        for seed in given.seeds for method in given.methods
    ]  # fmt: skip
    rows = finished(
        given, jobs, train, lambda rows: table(rows, given.after, given.after_updates),
        lambda row: enough(row, given.seconds),
    )  # fmt: skip
    draw(jobs, rows, given.picture, given.curves, given.by)
