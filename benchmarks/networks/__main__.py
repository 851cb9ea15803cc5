"""Time of recurrent networks here and in PyTorch, JAX, PyTensor: gradients, Gauss-Newton products.

    python -m benchmarks.networks [--quick] [--rows 2 64,32,20,64] [--cells LSTM RHN] [--contenders ours ...]

Every contender runs in processes of its own, as installed and tuned, and is first compared with ours. They take
turns, one computing at a time, in one run: a machine that slows down slows all of them. Rows are hidden units,
batch, steps, symbols and (optional) cores. Without --rows and --cells, every row runs for the LSTM and row 2
for all cells; without --contenders, those that take a minute or more to start run for the LSTM of row 2 only;
all that takes about a quarter of an hour.
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import replace

from benchmarks.networks import table
from benchmarks.networks.problem import LAYOUT, TASKS, Problem
from benchmarks.networks.team import VARIANTS, Plan, run
from benchmarks.networks.worker import MODULES
from graphnet.system.streams import prepare_streams

#: hidden, batch, steps, symbols, cores.
ROWS = (
    (16, 8, 50, 16, 1),
    (64, 32, 50, 64),
    (128, 32, 100, 64),
    (256, 64, 100, 96),
    (512, 128, 100, 96),
    (100, 1000, 50, 2),
    (64, 32, 1000, 64),
)

#: The row on which all cells and all contenders run (counted from 1).
MAIN_ROW = 2

SLOW_TO_START = ("torch compiled", "pytensor")
QUICK = ("ours", "torch nn", "torch loop", "jax scan")


def row(text: str) -> tuple[int, ...]:
    """A number of a row, or a row."""
    numbers = tuple(int(part) for part in text.split(","))
    if len(numbers) == 1 and 1 <= numbers[0] <= len(ROWS):
        return ROWS[numbers[0] - 1]
    if len(numbers) not in (4, 5):
        raise ValueError
    return numbers


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.networks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--rows", type=row, nargs="+", help=f"1 to {len(ROWS)}, or hidden,batch,steps,symbols[,cores]")
    add("--cells", nargs="+", choices=list(LAYOUT))
    add("--contenders", nargs="+", choices=list(MODULES))
    add("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    add("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    add("--quick", action="store_true", help="rows 1 and 2, the LSTM, fast starters, three rounds")
    add("--backend", default="numba", help="of ours")
    add("--cores", type=int, default=0, help="default number of cores of a row")
    add("--rounds", type=int, help="turns of each contender (7; quick: 3)")
    add("--turn", type=float, default=0.1, help="seconds of one turn")
    add("--patience", type=float, default=300, help="seconds that a contender may take to start")
    add("--compiled-steps", type=int, default=50, help="longest loop that torch.compile gets as a whole")
    add("--unrolled-steps", type=int, default=20, help="longest loop that JAX gets unrolled")
    add(
        "--peer-python",
        nargs="+",
        default=[],
        help="interpreters, as torch=PATH, jax=PATH, pytensor=PATH",
    )
    add("--markdown", action="store_true")
    return parser.parse_args()


def problems(chosen: argparse.Namespace) -> list[Problem]:
    rows = chosen.rows or (ROWS[:2] if chosen.quick else ROWS)
    if chosen.cells or chosen.rows or chosen.quick:
        pairs = [(cell, row) for row in rows for cell in chosen.cells or ["LSTM"]]
    else:
        pairs = [("LSTM", row) for row in ROWS]
        pairs += [(cell, ROWS[MAIN_ROW - 1]) for cell in LAYOUT if cell != "LSTM"]
    found = [Problem(cell, *row) for cell, row in pairs]
    return [replace(p, cores=p.cores or chosen.cores) for p in found]


def contenders(chosen: argparse.Namespace, problem: Problem) -> tuple[str, ...]:
    if chosen.contenders:
        return tuple(chosen.contenders)
    if chosen.quick:
        return QUICK
    main = replace(Problem("LSTM", *ROWS[MAIN_ROW - 1]), cores=chosen.cores)
    return tuple(
        name
        for name in MODULES
        if (problem == main or name not in SLOW_TO_START)
        and (problem.steps <= chosen.unrolled_steps or name != "jax unrolled")
    )


def main() -> None:
    chosen = arguments()
    # Workers are ended on the way out, which a signal's default would not take.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    options = {
        "backend": chosen.backend,
        "compiled_steps": chosen.compiled_steps,
        "unrolled_steps": chosen.unrolled_steps,
    }
    show = table.markdown if chosen.markdown else table.text
    print(f"{table.LEGEND}\nours: backend {chosen.backend!r}\n", flush=True)
    for problem in problems(chosen):
        plan = Plan(
            contenders(chosen, problem),
            tuple(chosen.variants),
            tuple(chosen.tasks),
            chosen.rounds or (3 if chosen.quick else 7),
            chosen.turn,
            chosen.patience,
            pythons=dict(pair.split("=", 1) for pair in chosen.peer_python),
            options=options,
        )
        for section in run(problem, plan):
            print(show(section) + "\n", flush=True)
            if any("DISAGREES" in m.note for m in section.measured):
                print("A contender computes something else: see DISAGREES above.", file=sys.stderr)


if __name__ == "__main__":
    prepare_streams()
    main()
