"""Regret of predictors that are not networks, on texts of known models (Ollivier 2013, table 1).

    python -m graphnet_rnn.experiments.regret.baselines --task alphabet --seeds 3
    python -m graphnet_rnn.experiments.regret.baselines --workers 0  # table of all existing results

The regret is the bits for the second of two texts of one law, beyond those of the law. Predictors are bzip2; prediction
by partial matching and context tree weighting, which keep learning on the second text; and hidden Markov models, which
are fitted to the first text by expectation-maximization (initial transitions Dirichlet(1/2), along all transitions or a
random graph with as many from each state as there are symbols) and then fixed. Their predictions are mixed with the
uniform one as in the source. As in the source, the result of a model is its best over settings, and over training
steps. Every run is a line of --runs; existing runs are not repeated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

import graphnet_rnn as rnn
from graphnet.graph.node import Array
from graphnet.system.json_lines import Row
from graphnet_rnn.errors import TrainingError
from graphnet_rnn.experiments.regret.coders import bzip2_bits, ctw_bits, ppm_bits
from graphnet_rnn.experiments.regret.problem import SIZES, SOURCE, SYMBOLS, DrawnTexts, best_runs
from graphnet_rnn.experiments.runs import Job, finished, grouped, markdown, options_of

#: Maximum states: units of the source's largest networks, except for the alphabet, where those had up to 512.
LARGEST = {"alphabet": 256, "music": 256, "anbn": 64}


@dataclass(frozen=True)
class PredictorJob(Job):
    """One run. setting: an order, a depth, or a number of states. iterations, seconds: maximum for EM."""

    KEY: ClassVar = ("task", "size", "method", "setting", "seed")

    task: str
    size: int
    method: str
    setting: int
    seed: int
    iterations: int = 200
    seconds: float = math.inf


def adaptive(bits: Callable[[Array, int, int], Array]) -> Callable[[DrawnTexts, PredictorJob], Row]:
    """Regret of a predictor that keeps learning, on the second text after the first."""

    def run(problem: DrawnTexts, job: PredictorJob) -> Row:
        train, valid = problem.symbols
        found = bits(np.concatenate([train, valid]), len(problem.vocabulary), job.setting)
        return {"regret": problem.regret(found[len(train) :])}

    return run


def compressed(problem: DrawnTexts, job: PredictorJob) -> Row:
    bits = bzip2_bits(problem.train.text, problem.valid.text, level=job.setting)
    return {"regret": bits - problem.valid.total}


def hidden_markov(sparse: bool) -> Callable[[DrawnTexts, PredictorJob], Row]:
    """Minimum regret over iterations of EM, and the last."""

    def run(problem: DrawnTexts, job: PredictorJob) -> Row:
        (train, valid), symbols = problem.symbols, len(problem.vocabulary)
        hmm = rnn.HMM(
            job.setting, symbols, seed=job.seed, frequencies=np.bincount(train, minlength=symbols), threads=1,
            edges=symbols if sparse else None, graph_seed=job.seed,
        )  # fmt: skip

        def score() -> float:
            return problem.smoothed_regret(np.exp(hmm.log_probabilities(valid)))

        curve, ended, started = [score()], "", time.process_time()
        while len(curve) <= job.iterations and time.process_time() - started < job.seconds and not ended:
            try:
                hmm.theta = hmm.maximized(hmm.counts(train))
                curve.append(score())
            except TrainingError as error:  # a state vanished; earlier results count
                ended = str(error)
        best = int(np.argmin(curve))
        return {
            "regret": curve[best], "best_step": best, "last": curve[-1], "steps": len(curve) - 1, "ended": ended
        }  # fmt: skip

    return run


METHODS: dict[str, Callable[[DrawnTexts, PredictorJob], Row]] = {
    "bzip2": compressed,
    "PPM-C": adaptive(partial(ppm_bits, method="C")),
    "PPM-D": adaptive(partial(ppm_bits, method="D")),
    "CTW": adaptive(ctw_bits),
    "HMM": hidden_markov(sparse=False),
    "HMM, sparse": hidden_markov(sparse=True),
}


def settings(task: str, method: str) -> tuple[int, ...]:
    """Settings to try: levels of bzip2, orders, depths, and numbers of states by factors of √2, as in the source.

    With at most as many states as symbols, the sparse graph has all transitions.
    """
    if method.startswith("HMM"):
        factors = range(round(2 * math.log2(LARGEST[task] / 4)) + 1)
        least = SYMBOLS[task] + 1 if method == "HMM, sparse" else 4
        return tuple(states for states in (round(4 * 2 ** (k / 2)) for k in factors) if states >= least)
    fixed = {"bzip2": (9,), "CTW": (1, 2, 3, 4, 6, 8, 12, 16, 24)}
    return fixed.get(method, tuple(range(1, 9)))


def run(job: PredictorJob) -> Row:
    """Runs a job; the row has the bits of the true model and the core-seconds."""
    problem = DrawnTexts.of(job.task, job.seed, job.size)
    started = time.process_time()
    found = METHODS[job.method](problem, job)
    return {
        **job.named, "true": problem.valid.total,
        "symbols": [len(part) for part in problem.symbols], **found, "seconds": time.process_time() - started,
    }  # fmt: skip


def table(rows: list[Row]) -> str:
    """Markdown table: each method on each task, with the setting of minimum mean regret among those with most seeds."""
    lines = []
    for (task, size, method), group in grouped(rows, ["task", "size", "method"]).items():
        best, regrets = best_runs(group, ["setting"])
        least = min(row["regret"] for row in group)
        source = SOURCE.get(method.partition(",")[0], {}).get(task) if size == SIZES[task] else None
        lines.append(
            f"{task} | {size:,} | {method} | {best[0]['setting']} | {regrets} | {least:,.1f} | "
            f"{'' if source is None else f'{source:,.1f}'} | {np.mean([row['seconds'] for row in best]):.1f}"
        )
    heads = (
        "text | size | method | best setting | regret, bits | of each seed | least of any run | the source "
        "| core seconds"
    )
    return markdown(heads, lines)


def main() -> None:
    parser = options_of("regret.baselines", __doc__, "regret", folder=False)
    add = parser.add_argument
    add("--task", nargs="+", choices=list(SIZES), default=list(SIZES))
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    add(
        "--settings",
        type=int,
        nargs="+",
        help="orders, depths, or numbers of states (default: those of the published table)",
    )
    add("--seeds", type=int, default=3, help="number of seeds, from 0")
    add("--size", type=int, help="lines, bars or blocks of each text (default: as in the source)")
    add(
        "--iterations", type=int, default=200, help="maximum number of iterations of expectation-maximization"
    )
    add("--seconds", type=float, default=60.0, help="maximum core-seconds of expectation-maximization")
    given = parser.parse_args()
    jobs = [
        PredictorJob(task, given.size or SIZES[task], method, setting, seed, given.iterations, given.seconds)
        for task in given.task
        for method in given.methods
        for seed in range(given.seeds)
        for setting in given.settings or settings(task, method)
    ]
    finished(given, jobs, run, table)


if __name__ == "__main__":
    main()
