"""Mutation tests: which mutants of mutants.py the tests detect.

    python3 run.py python -m tests.mutants                  all of them, one after the other (some 15 minutes)
    python3 run.py python -m tests.mutants ops viz_mean     those whose names begin so
    python3 run.py python -m tests.mutants --list           names, files and tests
    python3 run.py python -m tests.mutants --jobs 4         four at a time, each in a copy of its own
    python3 run.py python -m tests.mutants --record         writes caught.txt: what was caught, and by which test

A mutant is caught if one of its tests fails, or does not end. At the end all tests that failed run once more without
any mutant: one that fails then, too, has caught nothing. The exit code is 1 if a mutant of caught.txt has escaped, or
if one could not be tried: its old text is not in the file exactly once, or its tests are not there.

What was caught must still be caught after you change tests. If you move a test, change its path in mutants.py; if you
change a line that a mutant changes, write the same mistake anew. Each job works in a copy of all that git would add.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from tests.mutants.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
CAUGHT = Path(__file__).with_name("caught.txt")
LONGEST = 900  # seconds; a mutant's tests that take longer hang
#: What is compiled is kept under a digest of its text, so all may share it, but for those that make it, or keep it.
APART = ("graphnet/backends/", "graphnet/call/", "graphnet/system/")
WHERE = "import graphnet, graphnet_rnn, viz; print(graphnet.__file__, graphnet_rnn.__file__, viz.__file__)"
Outcome = tuple[str, str]  # "caught", "ESCAPED" or "ERROR", and the test that failed, or what is wrong


class Copy:
    """A copy of the project, in a folder with all other files that it writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "project"
        known = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(known, cwd=ROOT, capture_output=True, check=True).stdout
        for name in map(os.fsdecode, filter(None, listed.split(b"\0"))):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)
        found = self.run(["-P", "-c", WHERE], folder / "kernels")  # -P: the current folder is not on the path
        if [path.startswith(str(self.root)) for path in found.stdout.split()] != [True] * 3:
            sys.exit(f"python -m tests.mutants: other packages than the copy's are imported: {found}")

    def run(self, arguments: Sequence[str], cache: Path) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(self.root), "GRAPHNET_CACHE": str(cache)}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", errors="replace", timeout=LONGEST, check=False,
        )  # fmt: skip

    def failed(self, arguments: Sequence[str], apart: bool = False) -> tuple[int, list[str]]:
        """pytest's exit code, and the tests that failed, as it keeps them for --last-failed."""
        with tempfile.TemporaryDirectory(dir=self.folder) as own:
            how = ["-m", "pytest", "-q", "-n", "0", "--tb=no", "-o", f"cache_dir={own}/pytest"]
            cache = Path(own, "kernels") if apart else self.folder / "kernels"
            code = self.run([*how, *arguments], cache).returncode
            told = Path(own, "pytest", "v", "cache", "lastfailed")
            return code, list(json.loads(told.read_text(encoding="utf-8"))) if told.exists() else []

    def outcome(self, mutant: Mutant) -> Outcome:
        """Applies the mutant, runs its tests, and reverts it."""
        path = self.root / mutant.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if text.count(mutant.old) != 1:
            return "ERROR", f"the old text is {text.count(mutant.old)} times in {mutant.file}"
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            code, failed = self.failed(["-x", *mutant.tests], mutant.file.startswith(APART))
        except subprocess.TimeoutExpired:
            return "caught", f"no end within {LONGEST} s"
        finally:
            shutil.copy2(ROOT / mutant.file, path)
        if failed or code < 0:
            return "caught", failed[0] if failed else f"pytest ended with {code}"
        return ("ERROR", f"pytest ended with {code}: {' '.join(mutant.tests)}") if code else ("ESCAPED", "")


def tried(mutants: Sequence[Mutant], jobs: int) -> dict[str, Outcome]:
    """Runs the tests of each mutant, prints each outcome when it is known, and returns all outcomes."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        free = [Copy(Path(folder).resolve() / str(job)) for job in range(jobs)]

        def one(mutant: Mutant) -> Outcome:
            copy = free.pop()
            outcome = copy.outcome(mutant)
            free.append(copy)
            print(mutant.name, *outcome, flush=True)
            return outcome

        with ThreadPoolExecutor(jobs) as pool:
            found = dict(zip((m.name for m in mutants), pool.map(one, mutants), strict=True))
        tests = sorted({by for what, by in found.values() if what == "caught" and ".py" in by})
        failing = free[0].failed(tests)[1] if tests else []
    for name in [name for name, (_, by) in found.items() if by in failing]:
        found[name] = "ERROR", f"{found[name][1]} fails without any mutant"
        print(name, *found[name])
    return found


def main() -> int:
    parser = argparse.ArgumentParser("python3 run.py python -m tests.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants, or how their names begin")
    parser.add_argument("--list", action="store_true", help="print what there is, and run nothing")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many at a time (default: 1)")
    parser.add_argument("--record", action="store_true", help="write caught.txt")
    chosen = parser.parse_args()
    if find_spec("xdist") is None:
        parser.exit(
            2, "python -m tests.mutants: first install what tests need: python3 run.py test --version\n"
        )
    for name in chosen.names:
        if not any(mutant.name.startswith(name) for mutant in MUTANTS):
            parser.exit(2, f"python -m tests.mutants: there is no mutant {name!r}; --list shows all.\n")
    mutants = [m for m in MUTANTS if not chosen.names or m.name.startswith(tuple(chosen.names))]
    if chosen.list:
        print(*(f"{m.name}  {m.file}  {' '.join(m.tests)}" for m in mutants), sep="\n")
        return 0
    lines = CAUGHT.read_text(encoding="utf-8").splitlines() if CAUGHT.exists() else []
    before = dict(line.split("  ", 1) for line in lines)
    found = tried(mutants, chosen.jobs)
    caught = {name: by for name, (what, by) in found.items() if what == "caught"}
    wrong = [name for name, (what, _) in found.items() if what == "ERROR"]
    lost = sorted(before.keys() & found.keys() - caught.keys())
    if chosen.record:
        others = {m.name: before[m.name] for m in MUTANTS if m.name in before and m.name not in found}
        rows = "".join(f"{name}  {by}\n" for name, by in sorted((others | caught).items()))
        CAUGHT.write_text(rows, encoding="utf-8")
    cost = f"{sum(os.times()[2:4]):.0f} CPU seconds"
    print(f"{len(caught)} of {len(found)} caught, {len(wrong)} errors, {cost}")
    print("escaped, though caught before:", ", ".join(lost) or "none")
    return 1 if lost or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
