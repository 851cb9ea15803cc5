"""Measures, on this machine, the speeds that README and guides claim, and compares.

    python3 run.py claims [--list] [--only WORD ...]

Each claim is a number on a page, and the command that measures it. A ratio of times is confirmed if its distance from 1
is at most 25 % worse for graphnet, or the ratio is at most 10 % worse, because times vary from run to run: 2.9 times if
it is at least 2.425, 1.1 times if it is at least 0.99. Memory and errors of models may be 5 % worse.
Absolute times are printed for comparison only, as they depend on the machine. Commands run one after the other, each
once; all take half an hour to two hours. Leave the machine idle meanwhile. A claim whose command fails, for example
because PyTorch or a GPU is missing, is listed as not measured.
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
from statistics import quantiles

from graphnet.system.streams import prepare_streams

ROOT = Path(__file__).parents[1]
COMPARE, LENGTHS = "docs/how_it_compares.md", "docs/variable_length_sequences.md"
GRADIENT, PRODUCT = "loss and gradient", "Gauss-Newton product"
#: Fraction by which ratios of times vary.
NOISE = 0.1
SMALL, MIDDLE, LARGE = "64 units, batch 32, 50", "128 units, batch 32", "512 units, batch 128"
FIVE = ("GRU", "Elman", "mLSTM", "peephole", "RHN")


Row = dict[str, str]


def rows(output: str, section: str, row: str, *names: str) -> list[Row]:
    """Rows of a printed table, by the names of its columns: those whose cells begin with the words of `row`.

    The table is the first one after `section` that has these columns. Cells are separated by `|`, or by two spaces or
    more. ValueError if there is no such row.
    """
    start = re.search(section, output)
    if start is None:
        raise ValueError(f"no line has {section!r}")
    header: list[str] = []
    found: list[Row] = []
    for line in output[start.start() :].splitlines():
        parts = line.strip().strip("|").split("|") if "|" in line else re.split(r"\s{2,}", line.strip())
        cells = [part.strip() for part in parts]
        if header and not line.strip():
            break  # another table follows
        if not line.strip("|-: "):
            continue
        if not header and set(names) <= set(cells):
            header = cells
        elif (
            header
            and len(cells) == len(header)
            and f"{' '.join(cells)} ".startswith(f"{row} " if row else "")
        ):
            found.append(
                dict(zip(reversed(header), reversed(cells), strict=True))
            )  # the first of equal names
    if not found:
        raise ValueError(f"no table has the row {row!r} and the columns {', '.join(map(repr, names))}")
    return found


def number(text: str, which: int = 0) -> float:
    """A number in a cell, the first one by default. ValueError if the cell has none, as for a contender that failed."""
    found = re.findall(r"\d[\d.,]*", text)
    if len(found) <= which:
        raise ValueError(f"{text!r} is not a number")
    return float(found[which].replace(",", ""))


def cell(output: str, section: str, row: str, name: str, which: int = 0) -> float:
    """A number of a printed table, in the first row that begins with the words of `row`."""
    return number(rows(output, section, row, name)[0][name], which)


def _both(row: Row, *names: str) -> bool:
    return all(re.search(r"\d", row[name]) for name in names)


def ratios(output: str, section: str, row: str, name: str, to: str) -> list[float]:
    """A column divided by another one, in all rows that have both. ValueError if there are none."""
    found = [each for each in rows(output, section, row, name, to) if _both(each, name, to)]
    if not found:
        raise ValueError(f"{name!r} and {to!r} were not measured")
    return [number(each[name]) / number(each[to]) for each in found]


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
    #: Fraction of the distance from `neutral`, which is 1 for ratios of times and 0 for other numbers.
    tolerance: float = 0.25
    neutral: float = 1.0

    @property
    def claimed(self) -> float:
        text = " ".join((ROOT / self.page).read_text(encoding="utf-8").split())
        (found,) = set(re.findall(self.pattern, text))
        return float(found.replace(",", ""))


def verdict(claim: Claim, measured: float) -> str:
    if not claim.better:
        return "here"
    noise = NOISE * claim.claimed if claim.neutral else 0.0
    worse = max(abs(claim.claimed - claim.neutral) * claim.tolerance, noise)
    return "confirmed" if claim.better * (measured - claim.claimed) >= -worse - 1e-9 else "NOT CONFIRMED"


def _lstm(task: str, contender: str, column: str = "× ours", sizes: str = SMALL) -> Callable[[str], float]:
    """Reads a number of benchmarks.networks."""
    return lambda output: cell(output, rf"LSTM, {sizes}.*: {task}", contender, column)


def _loop(choose: Callable[[Sequence[float]], float]) -> Callable[[str], float]:
    """Reads the ratio of a loop in PyTorch, of the cell where it is smallest or largest."""
    sections = [rf"{name}, {SMALL}.*: {GRADIENT}" for name in FIVE]
    return lambda output: choose([cell(output, each, "torch loop", "× ours") for each in sections])


def _all(output: str, section: str, name: str) -> list[float]:
    """A column of a table."""
    return [number(each[name]) for each in rows(output, section, "", name)]


def _on_gpu(
    choose: Callable[[Sequence[float]], float], task: str, name: str, to: str
) -> Callable[[str], float]:
    """Reads a ratio of times of benchmarks.gpu, of the network where it is smallest or largest."""

    def read(output: str) -> float:
        found = rows(output, "network", "", "task", name, to)
        return choose([
            number(each[name]) / number(each[to])
            for each in found
            if each["task"] == task and _both(each, name, to)
        ])  # fmt: skip

    return read


LSTMS = 'benchmarks.networks --cells LSTM --contenders ours "torch nn" "torch loop" "jax scan" --rows 2 3 5 --rounds 3'
OTHERS = 'benchmarks.networks --cells GRU Elman mLSTM peephole RHN --contenders ours "torch loop" --rows 2 --rounds 3'
MEMORY = "benchmarks.cells --hidden 64 --steps 1600 --cells LSTM"
PYTENSOR = "benchmarks.networks --cells LSTM --rows 2 --contenders ours pytensor"
RAGGED = "benchmarks.ragged --rounds 41"
STREAMING = "benchmarks.streaming --turns 20"
INSIDE = "benchmarks.inside --cells LSTM SLSTM --batches 64"
LONG = "benchmarks.others --cases light --sizes 1000 --contenders ours jax"
STEP = "benchmarks.second_order --lengths 30 --plain --batches 100 --rounds 3"
PRODUCTS = "benchmarks.cells --products --hidden 64 --steps 20"
ROOT_MEMORY = "benchmarks.cells --hidden 64 --steps 50"
GPU = "benchmarks.gpu --cells LSTM GRU Elman --units 256 1000 --batch 64"
WARP = "32 pairs of 100 × 100"
DAYS = "MAE, °C"
CUDNN = "cuDNN (torch.nn)"

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
          lambda output: cell(output, "cell", "LSTM", "in √T"), -1, "memory of 1,600 steps, MiB", 0.05, 0),
    Claim("README.md", r"takes ([\d.]+) times as long as without `memory", MEMORY,
          lambda output: cell(output, "cell", "LSTM", "time ×"), -1, "the same, time"),
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
    Claim(COMPARE, r"product \| 1 \| ([\d.]+) times", PYTENSOR,
          _lstm(GRADIENT, "pytensor"), 1, "LSTM of 64 units, PyTensor"),
    Claim(COMPARE, r"`lengths` takes [\d.]+ to ([\d.]+) times", RAGGED,
          lambda output: max(ratios(output, "cases of", "", "ragged", "padded")), -1, "lengths, largest of four"),
    Claim(COMPARE, r"([\d.]+) × with `pack_padded_sequence`", RAGGED,
          lambda output: ratios(output, "cases of", "LSTM", "torch packed", "ragged")[0], 1, "lengths, packed"),
    Claim(COMPARE, r"([\d.]+) × with padding", RAGGED,
          lambda output: ratios(output, "cases of", "LSTM", "torch padded", "padded")[0], 1, "padded"),
    Claim(LENGTHS, r"takes ([\d.]+) of the time with evenly", RAGGED,
          lambda output: cell(output, "an epoch", "evenly 4", "of 1 bucket"), -1, "buckets, evenly distributed"),
    Claim(LENGTHS, r"and ([\d.]+) if most sequences are short", RAGGED,
          lambda output: cell(output, "an epoch", "exponentially 4", "of 1 bucket"), -1, "buckets, mostly short"),
    Claim(COMPARE, r"onnxruntime takes ([\d.]+) to [\d.]+ times", STREAMING,
          lambda output: min(_all(output, "cell", "best peer / graphnet")), 1, "one step at a time, smallest"),
    Claim(COMPARE, r"onnxruntime takes [\d.]+ to ([\d.]+) times", STREAMING,
          lambda output: max(_all(output, "cell", "best peer / graphnet")), 1, "one step at a time, largest"),
    Claim(COMPARE, r"([\d.]+) × with `autograd.Function`", "benchmarks.own_op",
          lambda output: cell(output, "Loss", "PyTorch,", WARP) / cell(output, "Loss", "graphnet, a kernel", WARP), 1,
          "soft-DTW, autograd.Function"),
    Claim(COMPARE, r"([\d.]+) × \(`nn.LSTM`\)", INSIDE,
          lambda output: cell(output, "cell", "LSTM 256 64 nn.LSTM", "/ ours"), 1, "inside, nn.LSTM"),
    Claim(COMPARE, r"([\d.]+) × \(eager\)", INSIDE,
          lambda output: cell(output, "cell", "SLSTM 64 64 PyTorch, eager", "/ ours"), 1, "inside, eager"),
    Claim(COMPARE, r"([\d.]+) × \(compiled step\)", INSIDE,
          lambda output: cell(output, "cell", "SLSTM 64 64 PyTorch, compiled", "/ ours"), 1, "inside, compiled step"),
    Claim(COMPARE, r"\| 1,000 \| ([\d.]+) s", LONG,
          lambda output: cell(output, "case", "light 1000 ours", "first result, s"), 0,
          "1,000 steps, first result, s"),
    Claim(COMPARE, r"\| 1,000 \| [\d.]+ s \| ([\d.]+) s", LONG,
          lambda output: cell(output, "case", "light 1000 jax", "first result, s"), 0, "the same, JAX"),
    Claim(COMPARE, r"\| 1,000 \|(?: [\d.]+ s \|){2} ([\d.]+) ms", LONG,
          lambda output: cell(output, "case", "light 1000 ours", "a call, ms"), 0, "1,000 steps, later calls, ms"),
    Claim(COMPARE, r"\| 1,000 \|(?: [\d.]+ m?s \|){3} ([\d.]+) ms", LONG,
          lambda output: cell(output, "case", "light 1000 jax", "a call, ms"), 0, "the same, JAX"),
    Claim(COMPARE, r"\| 100 \| 115 ms \| ([\d.]+) ×", STEP,
          lambda output: cell(output, r"\| contender", "torch.func", "× ours"), 1, "Hessian-free step, torch.func"),
    Claim(COMPARE, r"\| 100 \| 115 ms \| [\d.]+ × \| ([\d.]+) ×", STEP,
          lambda output: cell(output, r"\| contender", "torch by hand", "× ours"), 1, "Hessian-free step, by hand"),
    Claim("docs/second_order.md", r"takes [\d.]+ to ([\d.]+) times as long as a gradient", PRODUCTS,
          lambda output: max(_all(output, "cell", "Gv / gradient")), -1, "Gv / gradient, largest of all cells"),
    Claim("docs/speed_and_memory.md", r"takes [\d.]+ to ([\d.]+) times as long for most", ROOT_MEMORY,
          lambda output: quantiles(_all(output, "cell", "time ×"), n=10)[-1], -1, "memory of √T, time, 9 of 10 cells"),
    Claim("docs/faq.md", r"about ([\d.]+) s with 100 time steps", "benchmarks.start",
          lambda output: cell(output, "compiled anew", "100", "after imports"), 0, "LSTM, 100 steps, first result, s"),
    Claim("docs/faq.md", r"about ([\d.]+) s with 1,000", "benchmarks.start",
          lambda output: cell(output, "compiled anew", "1000", "after imports"), 0,
          "LSTM, 1,000 steps, first result, s"),
    Claim("docs/forecasting.md", r"\| GRU, 64 units \| ([\d.]+)", "benchmarks.forecasts",
          lambda output: cell(output, "method", "GRU,", DAYS), -1, "GRU, error in °C", 0.05, 0),
    Claim("docs/forecasting.md", r"\| LSTM, 64 units \| ([\d.]+)", "benchmarks.forecasts",
          lambda output: cell(output, "method", "LSTM,", DAYS), -1, "LSTM, error in °C", 0.05, 0),
    Claim("docs/forecasting.md", r"\| ridge regression \| ([\d.]+)", "benchmarks.forecasts",
          lambda output: cell(output, "method", "ridge", DAYS), 0, "ridge regression, error in °C"),
    Claim("README.md", r"networks takes [\d.]+ to ([\d.]+) of the time of cuDNN", GPU,
          _on_gpu(max, "gradient", "graphnet", CUDNN), -1, "H200, gradient / cuDNN, largest"),
    Claim("README.md", r"products take [\d.]+ to ([\d.]+) of the time of `jax", GPU,
          _on_gpu(max, "product", "graphnet", "jax.jit(lax.scan)"), -1, "H200, Gv / lax.scan, largest"),
    Claim(COMPARE, r"cuDNN takes ([\d.]+) to [\d.]+ times", GPU,
          _on_gpu(min, "gradient", CUDNN, "graphnet"), 1, "H200, cuDNN / gradient, smallest"),
    Claim(COMPARE, r"compiled scan takes ([\d.]+) to [\d.]+ times", GPU,
          _on_gpu(min, "product", "jax.jit(lax.scan)", "graphnet"), 1, "H200, lax.scan / Gv, smallest"),
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
