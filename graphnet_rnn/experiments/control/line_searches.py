"""L-BFGS and nonlinear conjugate gradient, compared with SciPy and Hessian-free optimization, on a whole data set.

    python -m graphnet_rnn.experiments.control.line_searches [--work 2400] [--dtype float64]
        [--methods lbfgs scipy-lbfgs hf ...]

The problem is reaching from a center (rnn.control.CenterOut, controller of seed 0: 32,002 weights, 40 steps, 64
movements). Work is counted in gradients, a curvature product as 1.5 of them. Evaluations of the loss alone, which
Hessian-free optimization uses often, are not counted, but core-seconds include everything. A row has the loss after a
quarter, half, and all of the work; if a method ended earlier, the reason.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import graphnet_rnn as rnn
from graphnet.system.streams import prepare_streams
from graphnet_rnn.experiments.control.controller import Controller
from graphnet_rnn.experiments.control.tasks import CenterOut
from graphnet_rnn.optimizers.hessian_free import AugmentedHessianFree, HessianFree
from graphnet_rnn.optimizers.lbfgs import LBFGS
from graphnet_rnn.optimizers.nonlinear_cg import NonlinearConjugateGradient

#: Cost of a curvature product, in gradients.
PRODUCT = 1.5

METHODS: dict[str, Callable[[], Any]] = {
    "lbfgs": LBFGS,
    "lbfgs-30": lambda: LBFGS(memory=30),
    "scipy-lbfgs": lambda: "L-BFGS-B",
    "nonlinear_cg": NonlinearConjugateGradient,
    "scipy-cg": lambda: "CG",
    "hf": HessianFree,
    "augmented_hf": AugmentedHessianFree,
}

#: Work so far, and the loss.
Track = list[tuple[float, float]]


def ours(objective: rnn.Objective, optimizer: Any, work: float) -> tuple[Track, str]:
    track: Track = [(0.0, objective.loss(objective.start()))]

    def follow(step: int, report: Any) -> bool:
        done = track[-1][0] + report.gradients + PRODUCT * report.products
        track.append((done, report.after))
        return done >= work or report.settled

    result = rnn.minimize(objective, optimizer, steps=10**6, callback=follow)
    ended = track[-1][0] < work
    return track, getattr(result.reports[-1], "reason", result.reason) if ended else ""


def scipys(objective: rnn.Objective, method: str, work: float) -> tuple[Track, str]:
    from scipy import optimize

    start = objective.start()
    track: Track = []

    def value(w: np.ndarray) -> tuple[float, np.ndarray]:
        if len(track) >= work:
            raise StopIteration
        loss, g = objective.gradient(w.astype(start.dtype))
        track.append((len(track) + 1.0, min([loss, *(best for _, best in track[-1:])])))
        return loss, g.astype(np.float64)

    options = {"L-BFGS-B": {"ftol": 0.0, "maxfun": 10**9}, "CG": {}}[method]
    options |= {"maxiter": 10**9, "gtol": 0.0}
    try:
        found = optimize.minimize(value, start.astype(np.float64), method=method, jac=True, options=options)
    except StopIteration:
        return track, ""
    return track, str(found.message).rstrip(".").lower()


def row(name: str, work: float, dtype: str) -> str:
    objective = CenterOut(Controller(seed=0, dtype=dtype)).objective(threads=1)
    objective.gradient(objective.start())  # compiles
    started, method = time.process_time(), METHODS[name]()
    track, ended = (scipys if isinstance(method, str) else ours)(objective, method, work)
    seconds = time.process_time() - started
    losses = [[loss for done, loss in track if done <= share * work][-1] for share in (0.25, 0.5)]
    cells = [f"{loss:.2g}" for loss in [*losses, track[-1][1]]]
    why = f"after {track[-1][0]:.0f}: {ended}" if ended else ""
    return f"| {name} | {' | '.join(cells)} | {seconds:.0f} | {why} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=float, default=2400.0)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args()
    print(
        f"| {given.dtype} | a quarter | half | {given.work:.0f} gradients | core s | ended |\n|---|---|---|---|---|---|"
    )
    for name in given.methods:
        print(row(name, given.work, given.dtype), flush=True)


if __name__ == "__main__":
    prepare_streams()
    main()
