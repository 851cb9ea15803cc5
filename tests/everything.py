"""All checks, however long they take: python3 run.py everything [STEP ...]

It goes on after a step that fails, and ends with a table of what ran, passed, failed and was skipped, with the reasons.
Resolve an issue when every row of it is green.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.newcomer.__main__ import copy_checkout
from tests.steps import ROOT

WHOLE = ["tests", "-m", "slow or not slow"]


class Step(NamedTuple):
    """words: of run.py. suite: whether pytest runs, with all tests. newest: in a copy without constraints.txt."""

    name: str
    words: Sequence[str]
    suite: bool = False
    newest: bool = False


STEPS = (
    Step("lint", ["lint"]),
    Step("suite", ["test"], suite=True),
    Step("avx2", ["elsewhere", "--processor", "avx2", "--seed", "2"], suite=True),
    Step("sse2", ["elsewhere", "--processor", "sse2", "--seed", "3"], suite=True),
    Step("documented", ["newcomer", "--all"]),
    Step("mutants", ["python", "-m", "tests.mutants"]),
    Step("newest", ["test"], suite=True, newest=True),
)


class Outcome(NamedTuple):
    """skipped: reason -> how many."""

    step: str
    code: int
    minutes: float
    passed: int
    failed: int
    skipped: Mapping[str, int]


def run(step: Step, folder: Path) -> Outcome:
    print(f"\n== {step.name}: run.py {' '.join(step.words)}", flush=True)
    started = time.monotonic()
    root, report = ROOT, folder / f"{step.name}.xml"
    if step.newest:
        root = folder / "newest"
        copy_checkout(root)
        (root / "constraints.txt").unlink()
        subprocess.run(
            [sys.executable, str(root / "run.py"), "everything", "--help"],
            stdout=subprocess.DEVNULL,
            check=False,
        )
    arguments = [*WHOLE, f"--junitxml={report}"] if step.suite else []
    command = [sys.executable, str(root / "run.py"), *step.words, *arguments]
    code = subprocess.run(command, cwd=root, check=False).returncode
    return Outcome(step.name, code, (time.monotonic() - started) / 60, *counted(report))


def counted(report: Path) -> tuple[int, int, Mapping[str, int]]:
    """How many tests passed and failed, and the reasons for which others were skipped."""
    if not report.exists():
        return 0, 0, {}
    passed = failed = 0
    skipped: collections.Counter[str] = collections.Counter()
    for test in ET.parse(report).iter("testcase"):
        reason = test.find("skipped")
        if reason is not None:
            skipped[reason.get("message", "")] += 1
        elif test.find("failure") is not None or test.find("error") is not None:
            failed += 1
        else:
            passed += 1
    return passed, failed, skipped


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [f"{'step':12}{'result':>8}{'minutes':>9}{'passed':>8}{'failed':>8}{'skipped':>9}"]
    for each in outcomes:
        result = "green" if each.code == 0 else f"red ({each.code})"
        counts = f"{each.passed:>8}{each.failed:>8}{sum(each.skipped.values()):>9}"
        rows.append(f"{each.step:12}{result:>8}{each.minutes:>9.1f}{counts}")
    reasons = sorted({(reason, n, each.step) for each in outcomes for reason, n in each.skipped.items()})
    return "\n".join([*rows, *(f"skipped in {step}: {n} × {reason}" for reason, n, step in reasons)])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 run.py everything",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [step.name for step in STEPS]
    parser.add_argument("steps", nargs="*", choices=[*names, []], metavar="STEP", help=", ".join(names))
    chosen = parser.parse_args().steps or names
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="everything-") as folder:
        for step in STEPS:
            if step.name in chosen:
                outcomes.append(run(step, Path(folder)))
                print("\n" + table(outcomes), flush=True)
    return max(outcome.code != 0 for outcome in outcomes)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
