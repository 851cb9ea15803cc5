"""Comparison of two checkouts of this project: gradients, Gauss-Newton products and steps, in turns.

python -m benchmarks.checkouts ../graphnet-before            ratios of medians: this checkout / the other
python -m benchmarks.checkouts ../graphnet-before --rounds 20

Each round runs a fresh process in each checkout, in alternating order, so that other load affects both alike. The
result of a process is the lower quartile of its calls.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from graphnet.system.streams import prepare_streams

HERE = Path(__file__).resolve().parent.parent
#: Code that runs in each checkout: only names that both have.
WORK = """
import json, time
start = time.perf_counter()
import graphnet_rnn as rnn
found = {"import": time.perf_counter() - start}
import numpy as np

def seconds(call, count):
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[count // 4]

for threads in (1, 2):
    for name, cell in (("LSTM 16", rnn.LSTM(16)), ("Elman 64", rnn.Elman(64)), ("RHN 64", rnn.RHN(64)),
                       ("GRU 128", rnn.GRU(128)), ("LSTM 256", rnn.LSTM(256))):
        net = rnn.Network([cell], inputs=65, outputs=65)
        u = net.unroll(time=50, batch=32)
        parameters = list(net.parameters.values())
        objective = rnn.Objective(u.cost, parameters, [u.inputs, u.targets, *u.initial], threads=threads)
        x = np.random.default_rng(0).integers(0, 65, (50, 32))
        objective.feed(x, np.roll(x, -1, 0), *net.zero_states(32))
        w, optimizer = net.theta.copy(), rnn.Adam(0.001, clip_norm=5.0)
        theta, state = w.copy(), optimizer.init(w)
        product = objective.curvature(w)
        objective.gradient(w), optimizer.step(objective, theta, state)
        count = 200 if net.theta.size < 50_000 else 40
        found[f"{name}, {threads}: product"] = seconds(lambda: product(w), count)
        found[f"{name}, {threads}: gradient"] = seconds(lambda: objective.gradient(w), count)
        found[f"{name}, {threads}: Adam"] = seconds(lambda: optimizer.step(objective, theta, state), count)
print(json.dumps(found))
"""


def measured(checkout: Path) -> dict[str, float]:
    """Seconds by row, in a fresh process of this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", WORK]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=checkout
    )
    if ended.returncode:
        sys.exit(f"{checkout}: {ended.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, help="folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    other = options.other.resolve()
    if not (other / "graphnet_rnn").is_dir():
        parser.error(f"{other} is not a checkout of this project: it has no folder graphnet_rnn")
    rows: dict[Path, list[dict[str, float]]] = {HERE: [], other: []}
    for each in rows:
        measured(each)  # fills the cache
    for round_ in range(options.rounds):
        for each in (HERE, other) if round_ % 2 else (other, HERE):
            rows[each].append(measured(each))
    print("| cell, threads: task | other, ms | here, ms | here / other |\n|---|---|---|---|")
    for name in rows[HERE][0]:
        here, there = (statistics.median(row[name] for row in rows[each]) for each in (HERE, other))
        print(f"| {name} | {1e3 * there:.3f} | {1e3 * here:.3f} | {here / there:.2f} |")


if __name__ == "__main__":
    prepare_streams()
    main()
