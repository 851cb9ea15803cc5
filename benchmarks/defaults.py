"""Learning with default settings, compared with the initial weights and learning rates of PyTorch and Keras.

    python -m benchmarks.defaults --data FILE.txt [...] python lorenz [MOCAP.mat] [--out runs.jsonl] [--cells LSTM GRU]
        [--units 64 256 512] [--seeds 0 1 2] [--starts train python pytorch keras] [--workers 2]

Data: the first 200,000 characters of a text, or of Python's own library, for one epoch; a table of the Lorenz system in
odd units, whose z is predicted 10 rows ahead, for 8 epochs; a table of motion capture (the MOCAP.mat of the RTRBM),
whose columns are predicted a frame ahead, for 32 epochs. Each makes about 100 steps. The result is the loss on
validation data after the best epoch: bits per character, or the squared error of a standardized column. Starts:

train     `graphnet-rnn train FILE --cell CELL(UNITS)`, without options of learning
python    rnn.Network([CELL(UNITS)], ...) and rnn.Training()
pytorch   all weights and biases of a cell and of the output U(-1/√units, 1/√units), Adam at 0.001
keras     Glorot's weights, orthogonal ones from units to units, biases 0, forget bias 1, Adam at 0.001

Tables are standardized for all. Each run is a line of --out, so the benchmark can be stopped and resumed. With
--workers 0, it only prints the table of existing runs.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import graphnet_rnn as rnn
from graphnet.system.json_lines import Row
from graphnet.system.streams import prepare_streams
from graphnet_rnn.apps.cli import main as graphnet_rnn
from graphnet_rnn.experiments.runs import Job, complete
from viz.charts.history import read_history

CELLS = ("LSTM", "GRU", "Elman", "MultiplicativeLSTM", "RHN", "LayerNormLSTM")
STARTS = ("train", "python", "pytorch", "keras")
CHARACTERS, PIECE = 200_000, 50
EPOCHS = {"text": 1, "lorenz": 8, "mocap": 32}


@dataclass(frozen=True)
class DefaultsJob(Job):
    KEY = ("cell", "units", "data", "seed", "start")

    cell: str
    units: int
    data: str
    seed: int
    start: str

    @property
    def key(self) -> tuple[Any, ...]:
        return self.cell, self.units, name_of(self.data), self.seed, self.start


class Data(NamedTuple):
    """A file; of a table, the columns that are read and predicted."""

    kind: str
    path: Path
    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


# -- data --------------------------------------------------------------------------------------


def written(name: str, folder: Path) -> Data:
    """Writes the part of the data that is used to a file in the folder."""
    if name == "lorenz":
        return _lorenz(folder / "lorenz.csv")
    if name.endswith(".mat"):
        return _mocap(Path(name), folder / "mocap.csv")
    path = folder / f"{Path(name).stem}.txt"
    if name == "python":
        text = rnn.data.standard_library_text(CHARACTERS)
    else:
        text = Path(name).read_text(encoding="utf-8", errors="replace")
    path.write_text(text[:CHARACTERS], encoding="utf-8")
    return Data("text", path)


def _lorenz(path: Path) -> Data:
    import scipy.integrate

    def slope(_: float, at: Any) -> list[float]:
        x, y, z = at
        return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]

    times = np.arange(20_010) * 0.02
    x, y, z = scipy.integrate.solve_ivp(slope, (0, times[-1]), [1.0, 1, 1], t_eval=times, rtol=1e-8).y
    return _table(path, "lorenz", {"x": 300 + x, "y": 1e-3 * y}, {"later": 1000 + 5 * z}, ahead=10)


def _mocap(given: Path, path: Path) -> Data:
    import scipy.io

    frames = scipy.io.loadmat(given)["batchdata"].T
    inputs = {f"a{k}": column for k, column in enumerate(frames)}
    return _table(path, "mocap", inputs, {f"b{k}": column for k, column in enumerate(frames)}, ahead=1)


def _table(path: Path, kind: str, inputs: dict[str, Any], targets: dict[str, Any], ahead: int) -> Data:
    columns = [column[:-ahead] for column in inputs.values()] + [
        column[ahead:] for column in targets.values()
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[*inputs, *targets], *zip(*columns, strict=True)])
    return Data(kind, path, tuple(inputs), tuple(targets))


# -- runs --------------------------------------------------------------------------------------


def run(job: DefaultsJob) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        data = written(job.data, Path(folder))
        out = Path(folder) / "run"
        if job.start == "train":
            by_command(job, data, out)
        else:
            by_program(job, data, out)
        epochs = [row for row in read_history(out / "history.jsonl") if row["event"] == "epoch"]
    unit = "valid_bits" if data.kind == "text" else "valid_loss"
    loss = min(row[unit] for row in epochs) / max(1, len(data.targets))
    return {**job.named, "loss": loss}


def by_command(job: DefaultsJob, data: Data, out: Path) -> None:
    words = ["train", str(data.path), "--cell", f"{job.cell}({job.units})", "--seed", str(job.seed)]
    if data.kind != "text":
        words += [
            "--inputs",
            ",".join(data.inputs),
            "--target",
            ",".join(data.targets),
            "--pieces",
            str(PIECE),
        ]
    words += ["--epochs", str(EPOCHS[data.kind]), "--no-early-stopping", "--threads", "1", "--quiet"]
    if graphnet_rnn([*words, "--out", str(out)]):
        raise SystemExit(f"failed: graphnet-rnn {' '.join(words)}")


def by_program(job: DefaultsJob, data: Data, out: Path) -> None:
    layers = [rnn.cells.ALL[job.cell](job.units)]
    problem: Any
    if data.kind == "text":
        corpus = rnn.data.Corpus.read(data.path)
        symbols = len(corpus.vocabulary)
        network = rnn.Network(layers, symbols, symbols, seed=job.seed)
        problem = rnn.CarriedText(network, corpus, threads=1, sample=0)
    else:
        table = rnn.data.Table(data.path, inputs=data.inputs, targets=data.targets, pieces=PIECE)
        cases = table.sequences
        network = rnn.Network(
            layers,
            len(data.inputs),
            len(data.targets),
            "squared",
            seed=job.seed,
            scaling=rnn.data.Scaling.of(cases),
        )
        problem = rnn.Arrays(network, cases, threads=1)
    begin(network, job)
    optimizers = {"pytorch": rnn.Adam(0.001), "keras": rnn.Adam(0.001, delta=1e-7)}
    training = rnn.Training(epochs=EPOCHS[data.kind], stopping=None)
    if job.start in optimizers:
        training = replace(training, optimizer=optimizers[job.start])
    rnn.Trainer(problem, training, out, progress=False).run()


def begin(network: rnn.Network, job: DefaultsJob) -> None:
    """Starts with the initial weights of that library."""
    draw = np.random.default_rng([job.seed, job.units])
    for name, node in network.parameters.items():
        own, shape = name.split(".")[-1], node.shape
        if own[:2] in ("g_", "s_"):  # a layer normalization's, which start at 1 and 0 everywhere
            continue
        if job.start == "pytorch":
            node.value[...] = draw.uniform(-1, 1, shape) / math.sqrt(job.units)
        elif job.start == "keras" and len(shape) == 2:
            square = shape == (job.units, job.units)
            make = rnn.initializers.orthogonal() if square else rnn.initializers.glorot()
            node.value[...] = make(draw, shape)
        elif job.start == "keras":
            node.value[...] = own == "b_f"


# -- the table ---------------------------------------------------------------------------------


def name_of(data: str) -> str:
    return "mocap" if data.endswith(".mat") else Path(data).stem


def tables(rows: Iterable[Row]) -> Iterator[str]:
    """Markdown tables, for texts and for tables: mean loss by start, and number of runs in which ours beats both."""
    rows = list(rows)
    for kind, unit in ((False, "bits per character"), (True, "standardized squared error")):
        found: dict[tuple[str, int], dict[str, dict[tuple[str, int], float]]] = {}
        for r in rows:
            if (r["data"] in EPOCHS) == kind:
                of_net = found.setdefault((r["cell"], r["units"]), {s: {} for s in STARTS})
                of_net[r["start"]][r["data"], r["seed"]] = r["loss"]
        yield f"| {unit} | units | {' | '.join(STARTS)} | train ahead of both | python ahead of both |"
        yield f"|---|---:|{'---:|' * len(STARTS)}---:|---:|"
        for (cell, units), of_start in found.items():
            means = [f"{statistics.mean(each.values()):.3f}" if each else "" for each in of_start.values()]
            ahead = [" of ".join(map(str, counted(of_start, own))) for own in ("train", "python")]
            yield f"| {cell} | {units} | {' | '.join([*means, *ahead])} |"
        yield ""


def counted(of_start: dict[str, dict[tuple[str, int], float]], own: str) -> tuple[int, int]:
    """Number of runs in which `own` beats both others, and number of all runs."""
    ahead = [
        loss <= min(of_start["pytorch"][key], of_start["keras"][key])
        for key, loss in of_start[own].items()
        if key in of_start["pytorch"] and key in of_start["keras"]
    ]
    return sum(ahead), len(ahead)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.defaults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    add = parser.add_argument
    add("--data", nargs="+", required=True)
    add("--out", type=Path, default=Path("runs.jsonl"))
    add("--cells", nargs="+", default=CELLS)
    add("--units", nargs="+", type=int, default=(64, 256, 512))
    add("--seeds", nargs="+", type=int, default=(0, 1, 2))
    add("--starts", nargs="+", choices=STARTS, default=STARTS)
    add("--workers", type=int, default=2)
    chosen = parser.parse_args()
    jobs = [
        DefaultsJob(cell, units, data, seed, start)
        for seed in chosen.seeds
        for units in chosen.units
        for cell in chosen.cells
        for data in chosen.data
        for start in chosen.starts
    ]
    rows = complete(chosen.out, jobs, run, chosen.workers)
    print("\n".join(tables(rows)))


if __name__ == "__main__":
    prepare_streams()
    main()
