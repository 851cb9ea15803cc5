"""Next frame of videos of bouncing balls: RTRBM, TRBM, stacks of them, networks, and the previous frame.

    # all methods on videos of 15 by 15 pixels
    python -m graphnet_rnn.experiments.balls --updates 200 --seconds 5
    python -m graphnet_rnn.experiments.balls --methods rtrbm trbm  # hours: 10,000 updates
    # as in the source: days
    python -m graphnet_rnn.experiments.balls --size 30 --updates 100000 --methods rtrbm trbm
    python -m graphnet_rnn.experiments.balls --table  # existing results, as a table
    # errors of predictors without training
    python -m graphnet_rnn.experiments.balls --floors
    # balls.html, balls.gif, ...
    python -m graphnet_rnn.experiments.balls --updates 200 --methods rtrbm trbm --picture balls

After Sutskever 2013, 3.11.1 and 3.11.3 (TRBM and RTRBM: 400 hidden units, momentum 0.9, a rate that falls to 0, CD-10,
after 1,000 updates CD-25, W from a static RBM, one new video of 100 frames for each update), 3.4.1 (a layer on top) and
4.5.1 (networks of 300 tanh units and LSTMs with as many weights, videos of 30 frames, nats of a video). The source's
rate is 0.01 for 100,000 updates; it is larger in proportion for fewer, at most 0.1. The best epoch by validation videos
is kept; scores are on 20 test videos. Interrupted runs resume from their folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row
from graphnet_rnn.experiments.balls import learners
from graphnet_rnn.experiments.balls.learners import (
    BEFORE,
    ENERGY,
    LINE,
    METHODS,
    NETS,
    BallsJob,
    best,
    error,
    held_out,
    predicted,
    train,
)
from graphnet_rnn.experiments.balls.videos import bouncing_balls
from graphnet_rnn.experiments.runs import finished, markdown, options_of

#: Frames of a test video before samples.
WARM = 10


def table(rows: Sequence[Row]) -> str:
    """Markdown table of runs, by size, best first."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["size"], row["error"])):
        one = f"{row['error_one_chain']:.4f}" if "error_one_chain" in row else ""
        clean = f"{row['denoised']:.4f} of {row['noise']:.4f}" if "noise" in row else ""
        count = f"{row['updates']:,}" if row["updates"] else ""
        took = f"{row['seconds']:.0f}" if row["seconds"] else ""
        lines.append(
            f"{row['size']} x {row['size']} | {row['method']} | {row['seed']} | {count} | {row['error']:.4f} | {one} | "
            f"{row['kl']:.0f} | {clean} | {took}"
        )
    heads = (
        "pixels | method | seed | updates | error a pixel | one chain | KL of 30 frames | denoised | core s"
    )
    return markdown(heads, lines)


def floors(generator: np.random.Generator, cases: int = 50) -> str:
    """Markdown table of the errors of predictors without training, by pixels, radius, speed and gray levels."""
    lines = []
    worlds: list[tuple[int, float, float]] = [
        (15, 1.2, 0.5), (18, 1.2, 0.5), (20, 1.2, 0.5), (30, 1.2, 0.5), (30, 0.8, 0.5), (30, 1.2, 0.25), (30, 1.2, 1.0),
    ]  # fmt: skip
    for size, radius, speed in worlds:
        grey = bouncing_balls(generator, cases, 100, size, radius=radius, speed=speed)
        for name, v in (("grey", grey), ("0 or 1", np.rint(grey))):
            mean, before, line = (
                error(found, v)
                for found in (
                    np.broadcast_to(v.mean(axis=(0, 1)), v.shape),
                    predicted(BEFORE, v),
                    predicted(LINE, v),
                )
            )
            lines.append(
                f"{size} x {size} | {radius} | {speed} | {name} | {mean:.4f} | {before:.4f} | {line:.4f} | "
                f"{before * size**2:.2f}"
            )
    heads = "pixels | radius | speed | they are | mean frame | frame before | two frames before | frame before, summed"
    return markdown(heads, lines)


def draw(jobs: Sequence[BallsJob], picture: Path) -> None:
    """Writes pictures of a test video, predictions, samples after ten frames, and weights.

    For a picture "balls": balls-next.png, balls-made.png, balls.html, balls.gif, and balls-METHOD-fields.png.
    """
    import viz

    predictions: dict[str, Array] = {}
    stories: dict[str, Array] = {}
    for job in jobs:
        if job.method not in ENERGY and job.method not in NETS:
            continue
        model, v = best(job), held_out(job.size, learners.TIME)[:, :1]
        predictions.setdefault("what is", v[:, 0])
        stories.setdefault("what is", v[:, 0])
        predictions[f"{job.method}, next frame"] = predicted(model, v)[:, 0]
        if isinstance(model, rnn.energy.Stack):
            # As in the source, hidden units of a TRBM's samples are means, not draws, which reduces noise (3.11).
            means = True if job.method.startswith("trbm") else None
            new = model.sample_sequences(len(v) - WARM, warm_up=v[:WARM], means=True, mean_field=means)
            stories[f"{job.method} from frame {WARM} on"] = np.concatenate([v[:WARM], new])[:, 0]
            layer = model.layers[-1]
            if layer.visible == job.size**2:
                fields = viz.receptive_fields(layer.values["W"], layer.values["W'_1"])
                fields.savefig(picture.with_name(f"{picture.name}-{job.method}-fields.png"), dpi=100)
    viz.filmstrip(predictions, first=WARM, every=2).savefig(
        picture.with_name(f"{picture.name}-next.png"), dpi=110
    )
    viz.filmstrip(stories, first=WARM, every=4).savefig(
        picture.with_name(f"{picture.name}-made.png"), dpi=110
    )
    moving = viz.animation(stories, title="Bouncing balls, and what models make of them")
    for ending in (".html", ".gif"):
        moving.save(picture.with_suffix(ending))


def main() -> None:
    parser = options_of("balls", __doc__)
    add: Any = parser.add_argument
    add("--size", type=int, default=15, help="side of a frame, in pixels")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--seeds", nargs="+", type=int, default=[0])
    add("--updates", type=int, default=10_000, help="updates of TRBM and RTRBM")
    add("--seconds", type=float, default=300.0, help="core-seconds for each network")
    add(
        "--picture",
        type=Path,
        help="write pictures of predictions, samples and weights with the first seed",
    )
    add("--floors", action="store_true", help="print only the errors of predictors without training")
    given = parser.parse_args()
    if given.floors:
        print(floors(np.random.default_rng(0)))
        return
    jobs = [
        BallsJob(given.size, method, seed, given.updates, given.seconds, given.folder)
        for method in given.methods for seed in given.seeds[: None if method in ENERGY or method in NETS else 1]
    ]  # fmt: skip
    finished(
        given, jobs, train, table,
        lambda row: row["method"] not in NETS or row["seconds"] >= given.seconds,
    )  # fmt: skip
    if given.picture:
        draw([job for job in jobs if job.seed == given.seeds[0]], given.picture)
