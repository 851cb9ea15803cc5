r"""Distant XOR: a GLNN learns the exclusive or of two marked bits in lines of random bits (Ollivier 2013, section 4).

    python -m graphnet_rnn.experiments.regret.xor --seeds 8
    python -m graphnet_rnn.experiments.regret.xor --workers 0  # table of all existing results

As in the source: 10,000 lines of T = 100 ... 110 bits (2.1 million symbols), of which only the last bit of each line is
scored; 10 units, fully connected; exact gradients of the whole text; output and transition parameters in turns, rates
that grow and are cut; other texts for validation. A pass is one gradient. A run stops at an error below 1%.
Unlike the source, the lines are processed as several parallel sequences, see --parallel. That is faster, and changes
only the number of first lines, which start at the learned initial state. Shorter sequences are filled with newlines.
Every run is a line of --runs; existing runs are not repeated, interrupted ones are resumed from --folder.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row, read_rows
from graphnet_rnn.errors import DataError
from graphnet_rnn.experiments.regret.texts import distant_xor
from graphnet_rnn.experiments.runs import Job, finished, grouped, markdown, options_of
from graphnet_rnn.files.whole import write_atomically
from graphnet_rnn.riemannian.metrics import Backpropagated, Metric, OuterProduct

SYMBOLS = "\n 01X="
METRICS: dict[str, Metric] = {"RUOP": OuterProduct(), "RBPM": Backpropagated(estimate="probe")}
#: Time steps of a segment; passes between two evaluations.
SEGMENT, LOOK = 250, 25
#: Error at which a run has succeeded, as in the source.
SOLVED = 0.01


@dataclass(frozen=True)
class XorJob(Job):
    """One run. length: T. passes: maximum number. parallel: number of sequences."""

    KEY: ClassVar = ("method", "units", "lines", "length", "seed", "passes", "parallel")

    method: str
    units: int
    lines: int
    length: int
    seed: int
    passes: int
    parallel: int
    folder: Path


def parallel_lines(text: str, count: int) -> tuple[Array, Array]:
    """Symbols of the lines in `count` sequences, (time, count), and the weights 1 of symbols after "=", else 0.

    Shorter sequences are filled with newlines of weight 0.
    """
    codes = np.zeros(128, np.int64)
    codes[[ord(symbol) for symbol in SYMBOLS]] = np.arange(len(SYMBOLS))
    pieces = ["".join(lines) for lines in np.array_split(text.splitlines(keepends=True), count)]
    symbols = np.zeros((max(map(len, pieces)), count), np.int64)
    for number, piece in enumerate(pieces):
        symbols[: len(piece), number] = codes[np.frombuffer(piece.encode(), np.uint8)]
    scored = np.zeros(symbols.shape)
    scored[1:] = symbols[:-1] == SYMBOLS.index("=")
    return symbols, scored


def _objective(net: rnn.Network, symbols: Array, scored: Array) -> rnn.LongSequence:
    found = rnn.LongSequence(
        net, time=min(SEGMENT, len(symbols) - 1), batch=symbols.shape[1], predict_first=True, threads=1
    )
    found.feed(symbols[:-1], symbols, scored)
    return found


def network(job: XorJob, symbols: Array, scored: Array) -> rnn.Network:
    """Network of the source, with initial output biases from the frequencies of scored symbols (eq. 30).

    Frequencies start to count from 1 / size of the alphabet, so that none is 0.
    """
    all_symbols, last = (
        np.bincount(each, minlength=len(SYMBOLS)) + 1 / len(SYMBOLS)
        for each in (symbols.ravel(), symbols[scored > 0])
    )
    cell = rnn.GLNN(
        job.units, edges=job.units, graph_seed=job.seed, frequencies=all_symbols / all_symbols.sum()
    )
    return rnn.Network(
        [cell], len(SYMBOLS), len(SYMBOLS), initial_state="learned", seed=job.seed, dtype="float64",
        initial={"W_ho": rnn.initializers.zeros(), "b_o": rnn.initializers.array(np.log(last / last.sum()))},
    )  # fmt: skip


def run(job: XorJob) -> Row:
    """Runs a job: a curve of (pass, nats for a scored bit in training, in validation, validation error)."""
    train, valid = (
        parallel_lines(
            distant_xor(np.random.default_rng([job.seed, part]), job.lines, job.length).text, job.parallel
        )
        for part in (0, 1)
    )
    net = network(job, *train)
    learned, judged = _objective(net, *train), _objective(net, *valid)
    optimizer = rnn.Riemannian(METRICS[job.method])
    theta, state, curve, seconds = _resumed(job.place, net.theta)
    while not curve or (curve[-1][0] < job.passes and curve[-1][3] >= SOLVED):
        started = time.process_time()
        done = int(curve[-1][0]) if curve else 0
        loss = float("nan")
        if curve:
            steps = min(LOOK, job.passes - done)
            result = rnn.minimize(learned, optimizer, steps=steps, start=theta, state=state)
            theta, state, loss, done = result.theta, result.state, result.loss, done + steps
        losses = judged.losses(theta)[valid[1] > 0]
        # A wrong answer: the right one has a probability of at most 1/2.
        curve.append((done, loss, float(losses.mean()), float((losses >= np.log(2)).mean())))
        seconds += time.process_time() - started
        _save(job.place, theta, state, curve, seconds)
        print(
            f"{job.method} seed {job.seed}, pass {done}: {curve[-1][2]:.4f} nats, error {curve[-1][3]:.2%}",
            flush=True,
        )
    rounded = [[int(done), *(round(x, 5) for x in costs)] for done, *costs in curve[1:]]
    return {
        **job.named,
        "passed": int(curve[-1][0]),
        "error": curve[-1][3],
        "seconds": seconds,
        "curve": rounded,
    }


def _resumed(folder: Path, theta: Array) -> tuple[Array, Any, list[tuple[float, ...]], float]:
    path = folder / "state.npz"
    if not path.exists():
        return theta, None, [], 0.0
    with np.load(path) as kept:
        state = {name[6:]: kept[name] for name in kept.files if name.startswith("state_")} or None
        return kept["theta"], state, [tuple(row) for row in kept["curve"].tolist()], float(kept["seconds"])


def _save(folder: Path, theta: Array, state: Any, curve: list[tuple[float, ...]], seconds: float) -> None:
    states = {f"state_{name}": array for name, array in (state or {}).items()}
    stream = io.BytesIO()
    np.savez(stream, theta=theta, curve=np.array(curve), seconds=seconds, **states)
    write_atomically(folder / "state.npz", stream.getvalue())


def table(rows: list[Row]) -> str:
    """Markdown table: for each setting the number of runs with an error below 1%, and each run's passes and error."""
    lines = []
    for (method, units, count, length, passes), group in sorted(
        grouped(rows, ("method", "units", "lines", "length", "passes")).items()
    ):
        solved = sum(row["error"] < SOLVED for row in group)
        runs = ", ".join(f"{row['passed']:.0f}: {row['error']:.1%}" for row in group)
        hours = np.mean([row["seconds"] for row in group]) / 3600
        lines.append(
            f"{method} | {units} | {count:,} × {length} | {passes:,} | {solved} of {len(group)} | {runs} | {hours:.1f}"
        )
    return markdown(
        "metric | units | lines × T | passes | below 1% | passes: error of each run | core-hours per run",
        lines,
    )


def main() -> None:
    parser = options_of("regret.xor", __doc__, "distant_xor")
    add = parser.add_argument
    add("--methods", nargs="+", choices=list(METRICS), default=["RUOP"])
    add("--units", type=int, default=10)
    add("--lines", type=int, default=10_000, help="lines of each text")
    add("--length", type=int, default=100, help="T, the minimum number of bits in a line")
    add("--seeds", type=int, default=1, help="number of seeds, from 0")
    add("--passes", type=int, default=2000, help="maximum number of gradients")
    add("--parallel", type=int, default=50, help="number of parallel sequences")
    given = parser.parse_args()
    if not given.workers:
        print(table(read_rows(given.results, DataError)))
        return
    jobs = [
        XorJob(
            method, given.units, given.lines, given.length, seed, given.passes, given.parallel, given.folder
        )
        for seed in range(given.seeds)
        for method in given.methods
    ]
    finished(given, jobs, run, table)


if __name__ == "__main__":
    main()
