"""Nats per frame and frame accuracy on piano rolls: logistic outputs and RNN-NADE, by Adam and Hessian-free; RBMs.

    # runs of JSB; the folder has JSB_Chorales.mat
    python -m graphnet_rnn.experiments.music --data FOLDER
    python -m graphnet_rnn.experiments.music --data FOLDER --cells RTRBM  # its likelihood is estimated
    python -m graphnet_rnn.experiments.music --data FOLDER --cells Elman LSTM --outputs rbm  # RNN-RBM, as well
    python -m graphnet_rnn.experiments.music --data FOLDER --sets nottingham --seconds 1000 --workers 2
    python -m graphnet_rnn.experiments.music --data FOLDER --picture music.png --sample music.mid
    # generated music, without data
    python -m graphnet_rnn.experiments.music --sets chords --seconds 20
    python -m graphnet_rnn.experiments.music --table  # existing results, as a table

After Boulanger-Lewandowski, Bengio & Vincent 2012. A network reads the frames so far; its output is a distribution of
the next frame: 88 keys that are independent given the past ("logistic"), or depend on those below ("nade"). Training
uses pieces of 64 frames, each from initial states (for RBMs, windows of 25). The best epoch by validation is kept;
test sequences are scored whole, from their first frame on. Each run has a folder, from which it continues with more
--seconds of a core; early stopping may end it before. Needs SciPy, and mido for samples.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.system.json_lines import Row
from graphnet_rnn.data.music import write_midi
from graphnet_rnn.experiments.music.collections import COLLECTIONS, DRAWN, rolls
from graphnet_rnn.experiments.music.learners import (
    CELLS,
    DIVERGENCE,
    METHODS,
    OUTPUTS,
    RBM,
    RTRBM,
    MusicJob,
    predicted,
    train,
)
from graphnet_rnn.experiments.runs import finished, grouped, markdown, options_of


def table(rows: Sequence[Row]) -> str:
    """Markdown table: means over seeds, and the maximum deviation of a seed."""
    lines = []
    for key, same in grouped(rows, MusicJob.KEY[:4]).items():
        mean = {
            name: statistics.mean(row[name] for row in same)
            for name in ("nats", "nats_sequence", "accuracy", "drawn", "epochs", "seconds")
        }
        apart = max(abs(row["nats"] - mean["nats"]) for row in same)
        lines.append(
            f"{' | '.join(key)} | {mean['nats']:.2f}{f' ± {apart:.2f}' if len(same) > 1 else ''} | "
            f"{mean['nats_sequence']:.0f} | {mean['accuracy']:.1%} | {mean['drawn']:.1%} | {mean['epochs']:.0f} | "
            f"{mean['seconds']:.0f} | {len(same)}"
        )
    heads = "set | net | output | method | nats a frame | a sequence | accuracy | if drawn | epochs | core s | seeds"
    return markdown(heads, lines)


def show(job: MusicJob, picture: Path | None, sample: Path | None) -> None:
    """Writes the predictions of a run for the first test sequence, and its continuation of eight frames."""
    model = rnn.load(job.place / "model.safetensors")
    roll = rolls(job.data, job.set)["test"][0]
    if picture is not None:
        import viz

        viz.piano_roll(roll, predicted(model, roll[:, None], 0)[:, 0]).savefig(picture, dpi=150)
    if sample is not None:
        assert isinstance(model, (rnn.RecurrentNADE, rnn.energy.RTRBM, rnn.energy.RecurrentRBM))
        new = model.sample(64, warm_up=roll[:8, None], seed=job.seed)[:, 0]
        rate = COLLECTIONS[job.set].frames_per_second if job.set in COLLECTIONS else 2
        write_midi(sample, np.concatenate([roll[:8], new]), rate)


def jobs_of(given: argparse.Namespace) -> list[MusicJob]:
    """Jobs for the options; RBMs have their own method."""
    found = [
        (name, cell, RBM, DIVERGENCE) if cell == RTRBM or output == RBM else (name, cell, output, method)
        for name in given.sets for cell in given.cells for output in given.outputs for method in given.methods
    ]  # fmt: skip
    own = (given.seconds, given.data, given.folder)
    return [MusicJob(*each, seed, *own) for each in dict.fromkeys(found) for seed in given.seeds]  # type: ignore[call-arg]


def main() -> None:
    parser = options_of("music", __doc__)
    add: Any = parser.add_argument
    add("--data", type=Path, default=Path("data/midi"), help="folder of the .mat files")
    add("--sets", nargs="+", choices=(*COLLECTIONS, DRAWN), default=["jsb"])
    add("--cells", nargs="+", choices=(*CELLS, RTRBM), default=["Elman", "GRU"])
    add("--outputs", nargs="+", choices=(*OUTPUTS, RBM), default=list(OUTPUTS))
    add("--methods", nargs="+", choices=[m for m in METHODS if m != DIVERGENCE], default=["adam"])
    add("--seeds", nargs="+", type=int, default=[0, 1])
    add("--seconds", type=float, default=100.0, help="total core-seconds of each run")
    add(
        "--picture",
        type=Path,
        help="write a piano roll of the first test sequence and the predictions of the first run",
    )
    add(
        "--sample",
        type=Path,
        help="write a MIDI file that the first run continues from the first eight frames",
    )
    given = parser.parse_args()
    jobs = jobs_of(given)
    finished(
        given, jobs, train, table,
        lambda row: row["seconds"] >= given.seconds or row["ended"] == "early stopping",
    )  # fmt: skip
    if given.picture or given.sample:
        show(jobs[0], given.picture, given.sample)
