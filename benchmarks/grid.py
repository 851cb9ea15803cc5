"""Map of times over sizes: loss and gradient here, and in the fastest of PyTorch and JAX at each point.

    python -m benchmarks.grid ROWS.jsonl [--picture MAP.png] [--cells LSTM GRU RHN] [--units 16 64 256 1024]
        [--batches 1 8 64 512] [--steps 20] [--peer-python torch=PATH jax=PATH]

Each point is a run of `benchmarks.networks`: the contenders take turns, each with its default settings. A row is
written after each point; points that the file already contains are not run again. Points of more than --most flops are
left out. The picture shows (time of the fastest other) / (time of graphnet): blue above 1, red below.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks.problem import LAYOUT, Problem
from benchmarks.networks.team import Plan, run
from graphnet.system.streams import prepare_streams

CONTENDERS = ("ours", "torch nn", "torch loop", "jax scan")
SYMBOLS = 64
OPTIONS = {"backend": "numba", "compiled_steps": 0, "unrolled_steps": 0}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.grid",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("rows", type=Path)
    add("--picture", type=Path)
    add("--cells", nargs="+", choices=list(LAYOUT), default=["LSTM", "GRU", "RHN"])
    add("--units", nargs="+", type=int, default=[16, 64, 256, 1024])
    add("--batches", nargs="+", type=int, default=[1, 8, 64, 512])
    add("--steps", type=int, default=20)
    add("--cores", type=int, default=0, help="0 for all")
    add("--rounds", type=int, default=5)
    add("--most", type=float, default=1e12, help="flops of a gradient")
    add("--peer-python", nargs="+", default=[])
    return parser.parse_args()


def points(chosen: argparse.Namespace) -> Iterator[Problem]:
    """Small points first."""
    grid = itertools.product(chosen.cells, chosen.units, chosen.batches)
    every = [Problem(cell, units, batch, chosen.steps, SYMBOLS, chosen.cores) for cell, units, batch in grid]
    every.sort(key=lambda problem: problem.flops("gradient"))
    return (problem for problem in every if problem.flops("gradient") <= chosen.most)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("cell", "units", "batch", "steps", "cores"))


def measured(problem: Problem, chosen: argparse.Namespace) -> dict[str, Any]:
    pythons = dict(pair.split("=", 1) for pair in chosen.peer_python)
    plan = Plan(CONTENDERS, ("installed",), ("gradient",), chosen.rounds, pythons=pythons, options=OPTIONS)
    (section,) = run(problem, plan)
    times = {each.contender: 1e3 * each.median for each in section.measured if each.rounds}
    if "ours" not in times:
        raise SystemExit(f"{problem}: {'; '.join(each.note for each in section.measured if each.note)}")
    share = problem.flops("gradient") / (1e-3 * times["ours"]) / section.peak
    return {
        "cell": problem.cell, "units": problem.hidden, "batch": problem.batch, "steps": problem.steps,
        "cores": problem.cores, "milliseconds": {name: round(ms, 4) for name, ms in times.items()},
        "percent_of_peak": round(100 * share, 1),
    }  # fmt: skip


def ratio(row: dict[str, Any]) -> float:
    times = row["milliseconds"]
    return float(min(ms for name, ms in times.items() if name != "ours") / times["ours"])


def line(row: dict[str, Any]) -> str:
    times = ", ".join(f"{name} {ms:.3g}" for name, ms in row["milliseconds"].items())
    place = f"{row['cell']}, {row['units']} units, batch {row['batch']}"
    return f"{place}: {times} ms; fastest other / ours {ratio(row):.2f}; {row['percent_of_peak']} % of peak"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    cells = list(dict.fromkeys(row["cell"] for row in rows))
    units, batches = (sorted({row[name] for row in rows}) for name in ("units", "batch"))
    figure = Figure(figsize=(1 + 3.6 * len(cells), 3.9), layout="constrained")
    for axes, cell in zip(figure.subplots(1, len(cells), squeeze=False)[0], cells, strict=True):
        table = np.full((len(batches), len(units)), np.nan)
        for row in rows:
            if row["cell"] == cell:
                table[batches.index(row["batch"]), units.index(row["units"])] = ratio(row)
        axes.imshow(table, cmap="RdBu", norm=LogNorm(1 / 8, 8), origin="lower", aspect="auto")
        for (i, j), value in np.ndenumerate(table):
            if np.isfinite(value):
                color = "white" if not 0.35 < value < 3 else "black"
                axes.text(
                    j,
                    i,
                    f"{value:.1f}" if value < 10 else f"{value:.0f}",
                    ha="center",
                    va="center",
                    color=color,
                )
        axes.set_xticks(range(len(units)), units)
        axes.set_yticks(range(len(batches)), batches)
        axes.set(title=cell, xlabel="units", ylabel="batch")
    figure.suptitle(
        "(time of the fastest of nn.LSTM, eager PyTorch, lax.scan) / (time of graphnet)", fontsize=11
    )
    figure.savefig(path, dpi=110)


def main() -> None:
    chosen = arguments()
    text = chosen.rows.read_text(encoding="utf-8") if chosen.rows.exists() else ""
    rows = [json.loads(each) for each in text.splitlines()]
    known = {key(row) for row in rows}
    for problem in points(chosen):
        if (problem.cell, problem.hidden, problem.batch, problem.steps, problem.cores) in known:
            continue
        row = measured(problem, chosen)
        rows.append(row)
        print(line(row), flush=True)
        with chosen.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    if chosen.picture:
        draw(rows, chosen.picture)
        print(f"wrote {chosen.picture}")


if __name__ == "__main__":
    prepare_streams()
    main()
