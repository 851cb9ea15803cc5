"""Runs the programs and commands of the documentation in new environments.

    python3 run.py newcomer            guides and tutorials, README's demo, and the commands of the quick start: minutes
    python3 run.py newcomer --all      every command of README, guides and help: half an hour
    python3 run.py newcomer --list     what --all runs as it stands, in another form, and not at all, with the reasons
    python3 run.py newcomer demo docs  all, but only in these checkouts: demo, docs, tutorials, pip, uv

Each checkout is a fresh copy of this folder: `python3 run.py demo` makes the environment of one, `python3 run.py docs`
that of the next, `pip install .` in a bare one that of a third. A command is right if it ends with 0 and shows no
traceback. The site must not contain the name of the folder in which it was built.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tests.newcomer.choices import STAND_INS, choice_of, instead_of
from tests.newcomer.commands import ROOT, Command, commands_of_help, commands_of_page, pages, programs
from tests.steps import GUIDES, conditions, pytest_command

#: Checkout -> the command that makes its environment.
CHECKOUTS = {
    "demo": "python3 run.py demo",
    "docs": "python3 run.py docs",
    "tutorials": "python3 run.py tutorials --execute",
    "pip": "pip install .",
    "uv": "uv run graphnet-rnn demo",
}
#: Time limit in seconds; a command that takes longer hangs.
SECONDS = 3600
#: Page whose commands run without --all.
FIRST = "docs/quick_start.md"
OURS = """import graphnet as gn
import graphnet_rnn as rnn

class MyCell(rnn.Cell):
    states = (rnn.State("h"),)

    def __init__(self, units=8, depth=1):
        super().__init__(units)
        self.depth = depth

    def step(self, x, h):
        for k in range(self.depth):
            h = gn.tanh(self.affine(f"{k}", h=h, **({"x": x} if k == 0 else {})))
        return h
"""


def checkout_of(words: str) -> str:
    """Name of the checkout in which a command runs."""
    for checkout in ("docs", "tutorials"):
        if words.startswith(f"python3 run.py {checkout}"):
            return checkout
    first = shlex.split(words)[0]
    return {"pip": "pip", "graphnet-rnn": "pip", "mpiexec": "pip", "uv": "uv"}.get(first, "demo")


class Checkout:
    """A copy of this folder, with an isolated environment."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.root = name, folder / name / "graphnet"
        self.failures: list[str] = []
        copy_checkout(self.root)
        ours = re.compile(r"GRAPHNET_|PYTHON|VIRTUAL_ENV|NUMBA_")
        kept = {k: v for k, v in os.environ.items() if not ours.match(k)}
        python3 = folder / name / "bin"
        python3.mkdir()
        base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
        (python3 / "python3").symlink_to(sys.executable if sys.prefix == sys.base_prefix else base)
        path = os.pathsep.join([str(python3), str(self.root / ".venv" / "bin"), kept.get("PATH", "")])
        # CI may set one cache for all steps.
        cache = os.environ.get("GRAPHNET_CACHE", str(folder / name / "kernels"))
        self.environment = {**kept, "PATH": path, "GRAPHNET_CACHE": cache, "MPLBACKEND": "agg"}
        if name == "pip":
            subprocess.run([python3 / "python3", "-m", "venv", self.root / ".venv"], check=True)

    def run(self, words: str, page: str, where: Path | None = None) -> bool:
        """Runs a command and prints its outcome; prints its output only if it failed."""
        started = time.monotonic()
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                ["bash", "-c", words], cwd=where or self.root, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            served = "--no-browser" in words
            code = None
            while code is None and time.monotonic() - started < SECONDS:
                try:
                    code = process.wait(0.5)
                except subprocess.TimeoutExpired:
                    if served and b"http://" in os.pread(said.fileno(), 1 << 20, 0):
                        code = 0
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
            text = os.pread(said.fileno(), 1 << 24, 0).decode(errors="replace")
        well = code == 0 and "Traceback (most recent call last)" not in text
        outcome = "ok" if well else "took too long" if code is None else f"WRONG ({code})"
        told = f"{self.name:9}  {outcome:12} {time.monotonic() - started:5.1f} s  {words}  [{page}]"
        if not well:
            told += "\n    " + "\n    ".join(text.strip().splitlines()[-25:])
            self.failures.append(told)
        print(told, flush=True)
        return well


def copy_checkout(target: Path) -> None:
    """Copies the files that git tracks or would add, in their present state."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):  # no git, or a copy outside of git
        made = (".git", ".venv", "build", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*made))
        return
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def write_files(folder: Path) -> None:
    """Writes stand-ins for a reader's files: texts, a sweep, cells, tables and arrays."""
    folder.mkdir(parents=True)
    texts = [ROOT / "README.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
    book = (("It was. " + "".join(path.read_text("utf-8") for path in texts)) * 4)[:160_000]
    for name, text in (("book.txt", book), ("other.txt", book[:10_000]), ("python.txt", book)):
        (folder / name).write_text(text, "utf-8")
    sweep = f'data = "{folder}/book.txt"\n[settings]\nunits = {{ values = [4, 8] }}\nbatch = 64\nepochs = 1\n'
    (folder / "recipe.toml").write_text(sweep, "utf-8")
    guide = (ROOT / "docs" / "declaring_cells.md").read_text("utf-8")
    (class_in_guide,) = re.findall(r"^class Leaky.*?(?=^rnn\.)", guide, re.MULTILINE | re.DOTALL)
    (folder / "my_cells.py").write_text(f"{OURS}\n\n{class_in_guide}", "utf-8")
    rows = [f"{math.sin(i / 3):.3f},{i % 7 / 7:.3f}" for i in range(400)]
    cloud = [f"{row},{i % 2}" for i, row in enumerate(rows)]
    (folder / "weather.csv").write_text("\n".join(["rain,wind,cloud", *cloud, ""]))
    for name in ("steps.csv", "new.csv"):
        steps = [f"{row},{('walk', 'run')[i % 2]},{'ab'[i % 2]}" for i, row in enumerate(rows)]
        (folder / name).write_text("\n".join(["ax,ay,kind,person", *steps, ""]))
    days = [datetime.date(2012, 1, 1) + datetime.timedelta(i) for i in range(400)]
    sky = [
        f"{day},{row},{('sun', 'rain')[i % 2]}" for i, (day, row) in enumerate(zip(days, rows, strict=True))
    ]
    (folder / "seattle.csv").write_text("\n".join(["date,temp_max,wind,weather", *sky, ""]))
    x = np.linspace(-1, 1, 600).reshape(10, 30, 2)
    np.savez(folder / "signals.npz", x=x, y=x.sum(axis=2), w=np.ones((10, 30)))
    (folder / "graphnet" / "graph").mkdir(parents=True)
    shutil.copy(ROOT / "graphnet" / "graph" / "node.py", folder / "graphnet" / "graph")
    (folder / "docs").mkdir()


def bring(words: str, source: Path, folder: Path, checkout: Checkout) -> None:
    """Copies missing files that a command reads from the stand-ins, which are made on first use."""
    read = re.sub(r"--(out|save|picture|model|record|costs|write-text) \S+", "", words)
    for name, recipe in STAND_INS.items():
        wanted = re.search(rf"(?<![\w./]){re.escape(name)}(?![\w-])", read)
        if not wanted or (folder / name).exists():
            continue
        if recipe and not (source / name).exists():
            bring(recipe, source, source, checkout)
            checkout.run(recipe, "a stand-in", source)
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name)
        elif (source / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, folder / name)


def helps(checkout: Checkout) -> Iterator[Command]:
    """Requires help from every program and subcommand. Yields the examples in it."""

    def asked(program: str) -> str:
        words = ["bash", "-c", f"{program} --help"]
        how = {"cwd": checkout.root, "env": checkout.environment}
        return subprocess.run(words, **how, capture_output=True, text=True, check=False).stdout

    wanted = [*programs(), "python3 run.py"]
    if checkout.name == "pip":
        subcommands = re.findall(r"^    ([a-z]+) ", asked("graphnet-rnn"), re.MULTILINE)
        wanted = ["graphnet-rnn", *(f"graphnet-rnn {name}" for name in subcommands)]
    for program in wanted:
        if checkout.run(f"{program} --help", "help"):
            yield from commands_of_help(program, asked(program))


def quick_visit(checkout: Checkout, commands: list[Command], folder: Path) -> None:
    """Makes the environment of `python3 run.py demo`, and runs the quick start's commands in it."""
    if not checkout.run(CHECKOUTS[checkout.name], "README.md"):
        return
    write_files(folder / "reader")
    for command in commands:
        said = instead_of(command)
        if said and command.page == FIRST and command.words.startswith("graphnet-rnn"):
            checkout.run(said, FIRST, folder / "reader")


def failures_of_guides() -> list[str]:
    """Runs guides and tutorials in this environment."""
    command, environment = pytest_command(1, GUIDES), {**os.environ, **conditions(1)}
    failed = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    return [f"guides     WRONG ({failed})  {', '.join(GUIDES)}"] if failed else []


def visit(checkout: Checkout, commands: list[Command], folder: Path) -> None:
    """Makes the environment, then runs the checkout's commands, page by page in separate folders."""
    if not checkout.run(CHECKOUTS[checkout.name], "makes this checkout"):
        return
    if checkout.name in ("demo", "pip"):
        commands = [*commands, *helps(checkout)]
    if checkout.name == "pip":
        checkout.run("pip install onnx mpi4py mpich", "README.md, beside export and mpiexec")
    source = folder / checkout.name / "stand-ins"
    write_files(source)
    done: set[tuple[str, Path]] = set()
    for command in dict.fromkeys(commands):
        words, page = command
        said = instead_of(command)
        if said is None or checkout_of(words) != checkout.name or words == CHECKOUTS[checkout.name]:
            continue
        where = checkout.root
        if checkout.name == "pip" and re.match("graphnet-rnn|mpiexec", words):
            where = folder / checkout.name / re.sub(r"\W+", "-", page)
            (where / "docs").mkdir(parents=True, exist_ok=True)
        if "graphnet" in words:
            bring(said, source, where, checkout)
        elif "run.py" in words:
            shutil.copy(source / "book.txt", where)
        if (said, where) not in done:
            done.add((said, where))
            checkout.run(said, page, where)
    if checkout.name == "docs":
        checkout.failures += named_places(checkout)


def named_places(checkout: Checkout) -> list[str]:
    """Pages that contain a local path: of the build, of the home folder, or of this Python."""
    folders = [str(checkout.root), os.path.expanduser("~"), sys.base_prefix, tempfile.gettempdir()]
    places = [f"{folder}/" for folder in folders if folder.strip("/~")]  # of a user without a home: / or ~
    found = []
    texts = {".html", ".js", ".css", ".svg", ".txt"}
    for path in sorted((checkout.root / "build" / "docs").rglob("*")):
        text = path.read_text("utf-8", errors="replace") if path.suffix in texts else ""
        named = ", ".join(place for place in places if place in text)
        if named:
            found.append(f"docs       WRONG         {path.relative_to(checkout.root)} tells of {named}")
    return found


def show(commands: list[Command]) -> None:
    """--list"""
    for command in commands:
        words, page = command
        choice, said = choice_of(command), instead_of(command)
        where, why = checkout_of(words) if said else "not run", f": {choice.why}" if choice else ""
        print(f"{where:9}  {said or words}  [{page}]{why}")


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python3 run.py newcomer", description=__doc__, formatter_class=form)
    every = [*CHECKOUTS, []]
    parser.add_argument("checkouts", nargs="*", choices=every, metavar="checkout", help=", ".join(CHECKOUTS))
    parser.add_argument("--all", action="store_true", help="every command, in all checkouts")
    parser.add_argument("--list", action="store_true", help="show what --all would do")
    chosen = parser.parse_args()
    texts = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in pages()}
    commands = [command for page, text in texts.items() for command in commands_of_page(page, text)]
    if chosen.list:
        show(commands)
        return 0
    whole = chosen.all or bool(chosen.checkouts)
    failures = [] if whole else failures_of_guides()
    wanted = chosen.checkouts or (CHECKOUTS if whole else ["demo"])
    names = [name for name in wanted if name != "uv" or shutil.which("uv")]
    if whole and "uv" not in names and not chosen.checkouts:
        print("uv         not run: there is no uv here")
    with (
        tempfile.TemporaryDirectory(prefix="newcomer-") as folder,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):

        def failures_in(name: str) -> list[str]:
            checkout = Checkout(name, Path(folder))
            (visit if whole else quick_visit)(checkout, commands, Path(folder))
            shutil.rmtree(checkout.root / ".venv", ignore_errors=True)
            return checkout.failures

        failures += [told for found in pool.map(failures_in, names) for told in found]
    # Once more at the end, where who sees only the last lines finds them.
    print("\n".join([*failures, f"newcomer: {len(failures) or 'nothing'} went wrong."]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
