"""Measures, on this machine, the speeds that README and guides claim, and compares.

    python3 run.py claims [--list] [--only WORD ...]

Each claim is a number on a page, and the command that measures it. It is confirmed if the measured number is at most
25 % worse for graphnet, or better. Absolute times are printed for comparison only, as they depend on the machine.
Commands run one after the other, each once; all take about an hour. Leave the machine idle meanwhile. A claim whose
command fails, for example because PyTorch is not installed, is listed as not measured.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphnet.system.streams import prepare_streams

__all__ = ["CLAIMS", "Claim", "cell", "verdict"]

ROOT = Path(__file__).parents[1]
TOLERANCE = 0.25
COMPARE = "docs/how_it_compares.md"
GRADIENT, PRODUCT = "loss and gradient", "Gauss-Newton product"
SMALL, MIDDLE, LARGE = "64 units, batch 32, 50", "128 units, batch 32", "512 units, batch 128"
FIVE = ("GRU", "Elman", "mLSTM", "peephole", "RHN")


def cell(output: str, section: str, row: str, column: str) -> float:
    """A number of a printed table: the first one after `section` that has this column.

    Cells are separated by `|`, or by two spaces or more. ValueError if there is no such number.
    """
    start = re.search(section, output)
    if start is None:
        raise ValueError(f"no line has {section!r}")
    names: list[str] = []
    for line in output[start.start() :].splitlines():
        cells = [each.strip() for each in re.split(r"\||\s{2,}", line.strip().strip("|"))]
        if names and not line.strip():
            break  # another table follows
        if column in cells:
            names = cells
        elif names and cells[0] == row and len(cells) == len(names):
            return float(cells[names.index(column)].removesuffix("×"))
    raise ValueError(f"no table has the row {row!r} and the column {column!r}")


@dataclass(frozen=True)
class Claim:
    """A number on a page, the first group of `pattern`, and how to find it in the output of a benchmark."""

    page: str
    pattern: str
    command: str
    read: Callable[[str], float]
    #: 1 if a larger number is better for graphnet, -1 if a smaller one is, 0 if the number depends on the machine.
    better: int
    name: str

    @property
    def claimed(self) -> float:
        text = " ".join((ROOT / self.page).read_text(encoding="utf-8").split())
        (found,) = set(re.findall(self.pattern, text))
        return float(found.replace(",", ""))


def verdict(claim: Claim, measured: float) -> str:
    if not claim.better:
        return "here"
    limit = claim.claimed * (1 - claim.better * TOLERANCE)
    return "confirmed" if claim.better * (measured - limit) >= 0 else "NOT CONFIRMED"


def _lstm(task: str, contender: str, column: str = "× ours", sizes: str = SMALL) -> Callable[[str], float]:
    """Reads a number of benchmarks.networks."""
    return lambda output: cell(output, rf"LSTM, {sizes}.*: {task}", contender, column)


def _loop(choose: Callable[[Sequence[float]], float]) -> Callable[[str], float]:
    """Reads the ratio of a loop in PyTorch, of the cell where it is smallest or largest."""
    sections = [rf"{name}, {SMALL}.*: {GRADIENT}" for name in FIVE]
    return lambda output: choose([cell(output, each, "torch loop", "× ours") for each in sections])


LSTMS = 'benchmarks.networks --cells LSTM --contenders ours "torch nn" "torch loop" "jax scan" --rows 2 3 5 --rounds 3'
OTHERS = 'benchmarks.networks --cells GRU Elman mLSTM peephole RHN --contenders ours "torch loop" --rows 2 --rounds 3'
MEMORY = "benchmarks.cells --hidden 64 --steps 1600 --cells LSTM"

CLAIMS = (
    Claim("README.md", r"symbols\) take ([\d.]+) ms on two cores", LSTMS,
          _lstm(GRADIENT, "ours", "installed ms"), 0, "LSTM of 64 units, ms"),
    Claim("README.md", r"`torch.nn.LSTM` takes ([\d.]+) times as long \(", LSTMS,
          _lstm(GRADIENT, "torch nn"), 1, "LSTM of 64 units, nn.LSTM"),
    Claim("README.md", r"\(([\d.]+) times with its best settings\), `jax", LSTMS,
          _lstm(GRADIENT, "torch nn", "best × ours"), 1, "the same, best settings"),
    Claim("README.md", r"`jax.jit\(lax.scan\)` ([\d.]+) times", LSTMS,
          _lstm(GRADIENT, "jax scan"), 1, "LSTM of 64 units, lax.scan"),
    Claim("README.md", r"`torch.nn.LSTM` takes ([\d.]+) times as long as graphnet", LSTMS,
          _lstm(GRADIENT, "torch nn", sizes=LARGE), 1, "LSTM of 512 units, nn.LSTM"),
    Claim("README.md", r"as graphnet \(([\d.]+) times with its best settings\)", LSTMS,
          _lstm(GRADIENT, "torch nn", "best × ours", LARGE), 1, "the same, best settings"),
    Claim("README.md", r"steps needs ([\d.]+) MiB", MEMORY,
          lambda output: cell(output, "cell", "LSTM", "in √T"), -1, "memory of 1,600 steps, MiB"),
    Claim("README.md", r"for ([\d.]+) % more time", MEMORY,
          lambda output: 100 * (cell(output, "cell", "LSTM", "time ×") - 1), -1, "the same, % more time"),
    Claim(COMPARE, r"\| 64, 32, 50, 64 \| [\d.]+ \| [\d.]+ × \| ([\d.]+) ×", LSTMS,
          _lstm(GRADIENT, "torch loop"), 1, "LSTM of 64 units, loop in PyTorch"),
    Claim(COMPARE, r"\| 128, 32, 100, 64 \| [\d.]+ \| ([\d.]+) ×", LSTMS,
          _lstm(GRADIENT, "torch nn", sizes=MIDDLE), 1, "LSTM of 128 units, nn.LSTM"),
    Claim(COMPARE, r"\| 128, 32, 100, 64 \|(?: [\d.]+ (?:× )?\|){3} ([\d.]+) ×", LSTMS,
          _lstm(GRADIENT, "jax scan", sizes=MIDDLE), 1, "LSTM of 128 units, lax.scan"),
    Claim(COMPARE, r"\| 512, 128, 100, 96 \|(?: [\d.]+ (?:× )?\|){3} ([\d.]+) ×", LSTMS,
          _lstm(GRADIENT, "jax scan", sizes=LARGE), 1, "LSTM of 512 units, lax.scan"),
    Claim(COMPARE, r"takes ([\d.]+) to [\d.]+ times as long as graphnet \(the command of", LSTMS,
          lambda output: min(_lstm(PRODUCT, "jax scan", sizes=n)(output) for n in (SMALL, MIDDLE, LARGE)),
          1, "Gv, jax, smallest of three sizes"),
    Claim(COMPARE, r"PyTorch takes ([\d.]+) to [\d.]+ times as long as graphnet \(the same", OTHERS,
          _loop(min), 1, "five other cells, loop in PyTorch, smallest"),
    Claim(COMPARE, r"PyTorch takes [\d.]+ to ([\d.]+) times as long as graphnet \(the same", OTHERS,
          _loop(max), 1, "five other cells, loop in PyTorch, largest"),
)  # fmt: skip


def measure(command: str) -> str:
    """Output of a benchmark; ValueError with its last line if it fails."""
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return done.stdout


def report(claim: Claim, output: str) -> str:
    """The measured number and its verdict; ValueError if the output lacks the number."""
    measured = claim.read(output)
    return f"{measured:9.3g} {verdict(claim, measured)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 run.py claims", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="print the claims and their commands, and stop")
    parser.add_argument(
        "--only", nargs="+", metavar="WORD", default=[""], help="claims with one of these words"
    )
    wanted = parser.parse_args()
    chosen = [claim for claim in CLAIMS if any(word in f"{claim.page} {claim.name}" for word in wanted.only)]
    if wanted.list:
        for claim in chosen:
            print(f"{claim.page}: {claim.name}: {claim.claimed:g}\n    python -m {claim.command}")
        return 0
    wrong = 0
    print(f"{'page':24} {'claim':44} {'claimed':>8} {'measured':>9}")
    for command in dict.fromkeys(claim.command for claim in chosen):
        outcome: str | ValueError
        try:
            outcome = measure(command)
        except ValueError as error:
            outcome = error
        for claim in (claim for claim in chosen if claim.command == command):
            try:
                if isinstance(outcome, ValueError):
                    raise outcome
                result = report(claim, outcome)
            except ValueError as error:
                result = f"{'':9} not measured: {error}"
            wrong += result.endswith("NOT CONFIRMED")
            print(f"{claim.page:24} {claim.name:44} {claim.claimed:8g} {result}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    prepare_streams()
    sys.exit(main())
