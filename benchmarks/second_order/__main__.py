"""Time of one Hessian-free step here, in the package `hessianfree`, and written with PyTorch.

    python -m benchmarks.second_order [--hessianfree PYTHON] [--lengths 30] [--batches 100] [--plain | --structural]

The addition problem with Sutskever's net (2013, 4.4): 100 tanh units, the same sequences, weights, λ and steps of CG
for all contenders, which then do the same work. Each runs in separate processes, as installed and tuned, and is first
compared with ours: gradient, Gv, and δ. They take turns, one computing at a time.

PYTHON is an interpreter with hessianfree 0.4.0, which does not declare its dependencies:

    python -m venv hf; hf/bin/pip install hessianfree==0.4.0 numpy matplotlib    # then --hessianfree hf/bin/python

Ends with an error if a contender's results differ.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys

from benchmarks.networks.team import VARIANTS
from benchmarks.second_order import table
from benchmarks.second_order.problem import Problem
from benchmarks.second_order.turns import Plan, run
from benchmarks.second_order.worker import MODULES
from graphnet.system.streams import prepare_streams


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.second_order",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--hessianfree", default=sys.executable, metavar="PYTHON", help="an interpreter that has the package")
    add("--lengths", type=int, nargs="+", default=[30, 100], help="T of the addition problem")
    add("--batches", type=int, nargs="+", default=[100, 1000])
    add("--units", type=int, default=100)
    add("--cg-steps", type=int, default=50, help="of every contender")
    # With a larger λ, hessianfree would end CG earlier: its rule for that cannot be set.
    add("--damping", type=float, default=0.01, help="λ; hessianfree ends CG earlier if λ is large")
    add("--mu", type=float, default=1 / 30, help="μ of structural damping, whose weight is λ μ")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--plain", action="store_true", help="without structural damping only")
    only.add_argument("--structural", action="store_true", help="with structural damping only")
    add("--contenders", nargs="+", choices=list(MODULES), default=list(MODULES), help="ours always runs")
    add("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    add("--rounds", type=int, default=5, help="turns of each contender")
    add("--cores", type=int, default=0, help="number of cores for all (0: all cores)")
    add("--turn", type=float, default=0.2, help="minimum seconds of steps and of products in a turn")
    add("--patience", type=float, default=900, help="seconds that a contender may take to answer")
    add("--compiled-steps", type=int, default=50, help="longest loop that torch.compile gets")
    chosen = parser.parse_args()
    if not shutil.which(chosen.hessianfree):
        parser.error(f"--hessianfree: program {chosen.hessianfree} not found")
    if not chosen.damping > 0:
        parser.error(f"--damping must be > 0, not {chosen.damping}")
    return chosen


def main() -> None:
    chosen = arguments()
    # Workers are ended on the way out, which a signal's default would not take.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    plan = Plan(
        tuple(dict.fromkeys(["ours", *chosen.contenders])),
        tuple(chosen.variants),
        chosen.rounds,
        chosen.cores,
        chosen.turn,
        chosen.patience,
        {"hessianfree": chosen.hessianfree},
        {"compiled_steps": chosen.compiled_steps},
    )
    damped = [False] * (not chosen.structural) + [True] * (not chosen.plain)
    print(table.LEGEND, flush=True)
    disagree = False
    for length, batch, structural in itertools.product(chosen.lengths, chosen.batches, damped):
        weight = chosen.damping * chosen.mu if structural else 0.0
        problem = Problem(length, batch, chosen.units, chosen.damping, weight, chosen.cg_steps)
        every = run(problem, plan)
        print("\n" + table.markdown(problem, every), flush=True)
        disagree |= any(measured.disagrees for measured in every)
    if disagree:
        sys.exit("A contender computes something else: see DISAGREES above.")


if __name__ == "__main__":
    prepare_streams()
    main()
