r"""Regret of networks trained with Riemannian metrics, on texts of known models (Ollivier 2013, table 1).

    python -m graphnet_rnn.experiments.regret.nets --task anbn --nets GLNN --methods RUOP RBPM --units 4 8 16 32 \
        --seconds 30
    python -m graphnet_rnn.experiments.regret.nets --workers 0  # table of all existing results

Each run learns the first of two texts of one law by steps on the whole text (rnn.LongSequence, exact gradients), as in
the source: output and transition parameters in turns, rates that grow and are cut. The result is the minimum regret on
the second text within the core-seconds, evaluated 50 times. RUOP, RBPM and their quasi-diagonal reductions (QD...) have
quasi-diagonal Hessians of the output, FB and RMS diagonal ones; moduli of RBPM are estimated by random signs. KFAC and
Adam update all parameters at once. Every run is a line of --runs; existing runs are not repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row, read_rows
from graphnet_rnn.cells.sparse import GLNN, GNN, GraphRNN
from graphnet_rnn.errors import DataError, TrainingError
from graphnet_rnn.experiments.regret.problem import SIZES, DrawnTexts, best_runs
from graphnet_rnn.experiments.runs import Job, finished, grouped, markdown, options_of
from graphnet_rnn.riemannian.metrics import Backpropagated, Frequency, OuterProduct, RootMeanSquare

#: Number of evaluations of a run.
LOOKS = 50
#: Time steps of a piece.
PIECE = 250

#: Function of units, edges, a seed of the graph, and symbol frequencies.
NETS: dict[str, Callable[..., rnn.Cell]] = {
    "RNN": GraphRNN,
    "GNN": GNN,
    "GLNN": GLNN,
    "GRU": lambda units, edges, seed, nu: rnn.GRU(units),
    "LSTM": lambda units, edges, seed, nu: rnn.LSTM(units),
}
METHODS: dict[str, Callable[[], rnn.optimizers.Optimizer]] = {
    "FB": lambda: rnn.Riemannian(Frequency()),
    "RMS": lambda: rnn.Riemannian(RootMeanSquare()),
    "QDRUOP": lambda: rnn.Riemannian(OuterProduct("quasi-diagonal")),
    "QDRBPM": lambda: rnn.Riemannian(Backpropagated("quasi-diagonal", estimate="probe")),
    "RUOP": lambda: rnn.Riemannian(OuterProduct()),
    "RBPM": lambda: rnn.Riemannian(Backpropagated(estimate="probe")),
    "KFAC": lambda: rnn.NaturalGradient("kfac", rate=0.1),
    "Adam": lambda: rnn.Adam(0.01),
}
#: The source's table 1, in bits: alphabet, music, anbn.
TABLE: dict[tuple[str, str], tuple[float, float, float]] = {
    ("RNN", "FB"): (7616.8, 2898.9, 122.4), ("RNN", "RMS"): (6721.5, 2295.0, 129.9),
    ("GNN", "FB"): (4059.0, 2688.7, 132.0), ("GLNN", "FB"): (5883.9, 3616.4, 74.4),
    ("LSTM", "FB"): (11843.1, 5590.9, 101.7), ("RNN", "QDRUOP"): (3372.8, 1349.5, 89.5),
    ("RNN", "QDRBPM"): (3623.9, 1224.3, 106.0), ("GNN", "RUOP"): (1759.0, 1148.3, 71.6),
    ("GNN", "RBPM"): (2166.0, 1596.0, 115.4), ("GLNN", "RUOP"): (1011.9, 1055.9, 29.7),
    ("GLNN", "RBPM"): (644.2, 1055.9, 30.0),
}  # fmt: skip


@dataclass(frozen=True)
class NetJob(Job):
    """One run. budget: core-seconds."""

    KEY: ClassVar = ("task", "size", "net", "method", "units", "edges", "seed", "budget")

    task: str
    size: int
    net: str
    method: str
    units: int
    edges: int
    seed: int
    budget: float


def network(job: NetJob, train: Array, symbols: int) -> rnn.Network:
    """Network of the source: initial output biases from symbol frequencies (eq. 30), learned initial states.

    float64, as gradients over 20,000 steps reach sizes at which float32 blocks are no longer positive definite.
    """
    nu = np.bincount(train, minlength=symbols) + 1.0
    nu /= nu.sum()
    return rnn.Network(
        [NETS[job.net](job.units, job.edges, job.seed, nu)], symbols, symbols, initial_state="learned", seed=job.seed,
        dtype="float64",
        initial={"W_ho": rnn.initializers.zeros(), "b_o": rnn.initializers.array(np.log(nu))},
    )  # fmt: skip


def text_objective(net: rnn.Network, symbols: Array) -> rnn.LongSequence:
    found = rnn.LongSequence(net, time=min(PIECE, len(symbols) - 1), predict_first=True, threads=1)
    found.feed(symbols[:-1, None], symbols[:, None])
    return found


def run(job: NetJob) -> Row:
    """Runs a job: minimum regret within its time, the time of the minimum, and the curve."""
    problem = DrawnTexts.of(job.task, job.seed, job.size)
    train, valid = problem.symbols
    net = network(job, train, len(problem.vocabulary))
    learned, judged = text_objective(net, train), text_objective(net, valid)
    optimizer = METHODS[job.method]()
    curve: list[tuple[float, int, float]] = []
    started = time.process_time()

    def look(step: int) -> float:
        spent = time.process_time() - started
        if spent >= len(curve) * job.budget / LOOKS:
            probabilities = np.exp(-judged.losses(net.theta)[:, 0].astype(np.float64))
            curve.append((spent, step, problem.smoothed_regret(np.minimum(probabilities, 1.0))))
        return spent

    look(0)
    ended = ""
    try:
        rnn.minimize(
            learned, optimizer, steps=10**9, callback=lambda step, report: look(step + 1) >= job.budget
        )
    except TrainingError as error:
        ended = str(error)
    seconds, step, regret = min(curve, key=lambda point: point[2])
    return {
        **job.named, "true": problem.valid.total, "symbols": [len(train), len(valid)],
        "regret": regret, "best_step": step, "best_seconds": seconds, "steps": curve[-1][1], "last": curve[-1][2],
        "ended": ended, "curve": [[round(s, 3), n, round(r, 2)] for s, n, r in curve],
    }  # fmt: skip


def table(rows: list[Row]) -> str:
    """Markdown table: net, method and text, with the size of minimum mean regret, and the results of the source."""
    lines = []
    names = ("task", "size", "net", "method", "budget")
    for (task, size, net, method, budget), group in sorted(grouped(rows, names).items()):
        best, regrets = best_runs(group, ["units", "edges"])
        source = TABLE.get((net, method)) if size == SIZES[task] else None
        steps, seconds = (np.mean([row[name] for row in best]) for name in ("best_step", "best_seconds"))
        cells = [
            task, f"{size:,}", net, method, f"{budget:g}", f"{best[0]['units']}, {best[0]['edges']}",
            regrets, f"{steps:,.0f}", f"{seconds:,.0f} s", f"{source[list(SIZES).index(task)]:,.1f}" if source else "",
        ]  # fmt: skip
        lines.append(" | ".join(cells))
    heads = "text | size | net | method | budget | units, edges | regret, bits | each seed | steps | at | the source"
    return markdown(heads, lines)


def main() -> None:
    parser = options_of("regret.nets", __doc__, "regret_nets", folder=False)
    add = parser.add_argument
    add("--task", nargs="+", choices=list(SIZES), default=list(SIZES))
    add("--nets", nargs="+", choices=list(NETS), default=list(NETS))
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    add("--units", type=int, nargs="+", default=[16, 32, 64])
    add("--edges", type=int, nargs="+", default=[3], help="edges of each unit, in the networks of the source")
    add("--seeds", type=int, default=1, help="number of seeds, from 0")
    add("--size", type=int, help="lines, bars or blocks of each text (default: as in the source)")
    add("--seconds", type=float, default=60.0, help="core-seconds for each run")
    given = parser.parse_args()
    if not given.workers:
        print(table(read_rows(given.results, DataError)))
        return
    jobs = [
        NetJob(task, given.size or SIZES[task], net, method, units, edges, seed, given.seconds)
        for task in given.task
        for seed in range(given.seeds)
        for net in given.nets
        for method in given.methods
        for edges in given.edges
        for units in given.units
    ]
    finished(given, jobs, run, table)


if __name__ == "__main__":
    main()
