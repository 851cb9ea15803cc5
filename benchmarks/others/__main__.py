"""Open issues about recurrent nets of JAX, PyTorch, PyTensor and Reactant, as small programs.

    python -m benchmarks.others [--cases light Hv] [--sizes 1000] [--contenders ours jax] [--rounds 5]
                               [--patience 120]

Each case is written from the description of an issue, here and in the peer that is installed;
docs/what_breaks_others.md has the issues. A row is a program in a separate process: seconds until its first
result (building, compiling, first call), milliseconds of a call (medians of turns), and the largest relative
error of its derivatives, compared with finite differences of a plain loop. Errors of a peer, and programs that are not
ready after --patience seconds, are printed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import statistics
from collections.abc import Sequence

from benchmarks.others.cases import CASES
from benchmarks.others.worker import PROGRAMS, Ready, Refused, Worker
from graphnet.system.streams import prepare_streams


def versions() -> str:
    found = []
    for package in ("torch", "jax"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def measured(name: str, size: int, rounds: int, patience: float, wanted: Sequence[str]) -> None:
    """Prints a row for each contender; these take turns."""
    contenders = [c for c in ("ours", *CASES[name].peers) if c in wanted]
    workers = {contender: Worker(contender, name, size, patience) for contender in contenders}
    ready = {c: worker for c, worker in workers.items() if isinstance(worker.ready, Ready)}
    samples: dict[str, list[float]] = {c: [] for c in ready}
    for _ in range(rounds):
        for contender, worker in ready.items():
            samples[contender] += worker.turn()
    for contender, worker in workers.items():
        match worker.ready:
            case Ready(seconds=seconds, error=error):
                spent = samples[contender]
                call = f"{1e3 * statistics.median(spent):.3f}" if spent else "-"
                row = f"{seconds:.2f} | {call} | {error:.0e}"
            case Refused(why=why):
                row = f"- | - | {why}"
        print(f"| {name} | {size} | {contender} | {row} |", flush=True)
        worker.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--sizes", type=int, nargs="+", help="steps; default: those of each case")
    parser.add_argument("--contenders", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=120)
    arguments = parser.parse_args()
    print(f"{versions()}\n")
    for name in arguments.cases:
        print(f"{name}: {CASES[name].issue}: {CASES[name].about}")
    print("\n| case | steps | | first result, s | a call, ms | error |\n|---|---|---|---|---|---|")
    for name in arguments.cases:
        for size in arguments.sizes or CASES[name].sizes:
            measured(name, size, arguments.rounds, arguments.patience, arguments.contenders)


if __name__ == "__main__":
    prepare_streams()
    main()
