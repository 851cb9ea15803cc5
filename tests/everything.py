"""All checks, including slow ones: python3 run.py everything [STEP ...]

It goes on after a step that fails, and ends with a table of what ran, passed, failed and was skipped, with the reasons.
Steps that were run before, of the same commit without changes, are in the table as well (build/everything.json).
"""

from __future__ import annotations

import argparse
import collections
import json
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
#: Commit -> the outcomes of its steps.
KEPT = ROOT / "build" / "everything.json"


class Step(NamedTuple):
    """words: arguments of run.py. suite: True if it runs all tests. newest: runs without constraints.txt."""

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
    """skipped: reason -> number of skipped tests."""

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
    """Numbers of passed and failed tests, and how often each reason for a skip occurs."""
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


def commit() -> str:
    """The present commit; empty if files have changed since."""
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if changed.stdout or changed.returncode else head.stdout.strip()


def outcomes_before(version: str) -> dict[str, Outcome]:
    """Step -> its outcome for this commit, from earlier runs."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if version and KEPT.exists() else {}
    return {name: Outcome(*row) for name, row in kept.get(version, {}).items()}


def keep(version: str, outcomes: Mapping[str, Outcome]) -> None:
    if version:
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps({version: outcomes}), encoding="utf-8")


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
    version = commit()
    outcomes = outcomes_before(version)
    with tempfile.TemporaryDirectory(prefix="everything-") as folder:
        for step in STEPS:
            if step.name in chosen:
                outcomes[step.name] = run(step, Path(folder))
                keep(version, outcomes)
                print("\n" + table([*outcomes.values()]), flush=True)
    return max(outcomes[name].code != 0 for name in chosen)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
