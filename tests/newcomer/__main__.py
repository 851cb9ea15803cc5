"""Runs the documentation's commands in environments that these commands make themselves.

    python3 run.py newcomer            the README's demo, and the commands of the quick start: minutes
    python3 run.py newcomer --all      every command of README, guides and help: half an hour
    python3 run.py newcomer --list     what --all runs as it stands, in another form, and not at all, with the reasons
    python3 run.py newcomer demo docs  all, but only in these checkouts: demo, docs, tutorials, pip, uv

Each checkout is a fresh copy of this folder: `python3 run.py demo` makes the environment of one, `python3 run.py docs`
that of the next, `pip install .` in a bare one that of a third. A command is right if it ends with 0 and shows no
traceback. The site must not contain the name of the folder in which it was built.
"""

from __future__ import annotations

import argparse
import concurrent.futures
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
from pathlib import Path

import numpy as np

from tests.newcomer.choices import STAND_INS, choice_of
from tests.newcomer.commands import ROOT, Command, commands_of_help, commands_of_page, pages, programs

#: A sweep of two runs.
RECIPE = 'data = "{}"\n[settings]\nunits = { values = [4, 8] }\nbatch = 64\nepochs = 1\n'
#: Checkout -> the command that makes its environment.
CHECKOUTS = {
    "demo": "python3 run.py demo",
    "docs": "python3 run.py docs",
    "tutorials": "python3 run.py tutorials --execute",
    "pip": "pip install .",
    "uv": "uv run graphnet-rnn demo",
}
#: A command that takes longer hangs.
SECONDS = 3600
#: The page whose commands are run without --all.
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
    """Where a command is run: what run.py makes serves its own programs and the project's scripts."""
    for checkout in ("docs", "tutorials"):
        if words.startswith(f"python3 run.py {checkout}"):
            return checkout
    first = shlex.split(words)[0]
    return {"pip": "pip", "graphnet-rnn": "pip", "mpiexec": "pip", "uv": "uv"}.get(first, "demo")


class Checkout:
    """A copy of this folder in one of its own, and an environment that knows nothing of this one."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.root = name, folder / name / "graphnet"
        self.failures: list[str] = []
        copy_checkout(self.root)
        self.bin = self.root / ".venv" / "bin"
        kept = {
            k: v for k, v in os.environ.items() if not re.match(r"GRAPHNET_|PYTHON|VIRTUAL_ENV|NUMBA_", k)
        }
        python3 = folder / name / "bin"
        python3.mkdir()
        (python3 / "python3").symlink_to(sys.executable if sys.prefix == sys.base_prefix else base_python())
        path = os.pathsep.join([str(python3), str(self.bin), kept.get("PATH", "")])
        self.environment = {
            **kept,
            "PATH": path,
            # One for all steps of CI, if it gives one.
            "GRAPHNET_CACHE": os.environ.get("GRAPHNET_CACHE", str(folder / name / "kernels")),
            "MPLBACKEND": "agg",
        }
        if name == "pip":
            subprocess.run([python3 / "python3", "-m", "venv", self.root / ".venv"], check=True)

    def run(self, words: str, where: Path | None = None, page: str = "") -> bool:
        """Runs it and tells how it went; what it printed only where it went wrong."""
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


def base_python() -> str:
    """The Python that made this environment."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def copy_checkout(target: Path) -> None:
    """What git keeps or would keep of this checkout, as it is now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):  # no git here, or a copy that it does not keep
        made = (".git", ".venv", "build", "__pycache__", "*.egg-info", ".*_cache")
        shutil.copytree(ROOT, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*made))
        return
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def write_files(folder: Path) -> None:
    """What a reader has: a book, another text, and cells of their own."""
    folder.mkdir(parents=True)
    texts = [ROOT / "README.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
    book = "It was. " + "".join(path.read_text("utf-8") for path in texts)
    book = (book * 4)[:160_000]
    (folder / "book.txt").write_text(book, "utf-8")
    (folder / "other.txt").write_text(book[:10_000], "utf-8")
    (folder / "python.txt").write_text(book, "utf-8")
    (folder / "recipe.toml").write_text(RECIPE.replace("{}", f"{folder}/book.txt"), "utf-8")
    guide = (ROOT / "docs" / "declaring_cells.md").read_text("utf-8")
    class_in_guide = re.search(r"^class Leaky.*?(?=^rnn\.)", guide, re.MULTILINE | re.DOTALL)
    assert class_in_guide is not None
    (folder / "my_cells.py").write_text(OURS + "\n\n" + class_in_guide[0], "utf-8")
    rows = [f"{math.sin(i / 3):.3f},{i % 7 / 7:.3f},{i % 2},{'ab'[i % 2]}" for i in range(400)]
    (folder / "weather.csv").write_text("rain,wind,cloud\n" + "".join(f"{row[:-2]}\n" for row in rows))
    for name in ("steps.csv", "new.csv"):
        (folder / name).write_text("ax,ay,kind,who\n" + "".join(f"{row}\n" for row in rows))
    x = np.linspace(-1, 1, 600).reshape(10, 30, 2)
    np.savez(folder / "signals.npz", x=x, y=x.sum(axis=2), there=np.ones((10, 30)))
    (folder / "graphnet" / "graph").mkdir(parents=True)
    shutil.copy(ROOT / "graphnet" / "graph" / "node.py", folder / "graphnet" / "graph")
    (folder / "docs").mkdir()


def bring(words: str, source: Path, folder: Path, checkout: Checkout) -> None:
    """What a command reads and is not there comes from the stand-ins, where it is made when first asked for."""
    read = re.sub(r"--(out|save|picture|model|record|costs|write-text) \S+", "", words)
    for name, recipe in STAND_INS.items():
        wanted = re.search(rf"(?<![\w./]){re.escape(name)}(?![\w-])", read)
        if not wanted or (folder / name).exists():
            continue
        if recipe and not (source / name).exists():
            bring(recipe, source, source, checkout)
            checkout.run(recipe, source, "a stand-in")
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name)
        elif (source / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, folder / name)


def all_commands() -> list[Command]:
    """Of pages, and of help texts, which this Python need not be able to make: so their checkout is asked."""
    return [
        command
        for path in pages()
        for command in commands_of_page(str(path.relative_to(ROOT)), path.read_text("utf-8"))
    ]


def helps(checkout: Checkout) -> Iterator[Command]:
    """Every program and subcommand shows its help; the examples in it."""
    subcommands = re.findall(
        r"^    ([a-z]+) ",
        asked(checkout, "graphnet-rnn --help") if checkout.name == "pip" else "",
        re.MULTILINE,
    )
    asked_for = (
        [f"graphnet-rnn {name}".strip() for name in ("", *subcommands)]
        if checkout.name == "pip"
        else [*programs(), "python3 run.py"]
    )
    for program in asked_for:
        if checkout.run(f"{program} --help", page="help"):
            yield from commands_of_help(program, asked(checkout, f"{program} --help"))


def asked(checkout: Checkout, words: str) -> str:
    return subprocess.run(
        ["bash", "-c", words],
        cwd=checkout.root,
        env=checkout.environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def quick_visit(checkout: Checkout, commands: list[Command], folder: Path) -> None:
    """Makes the environment of `python3 run.py demo`, and runs in it what the quick start has for a terminal."""
    if not checkout.run(CHECKOUTS[checkout.name], page="README.md"):
        return
    where = folder / "reader"
    write_files(where)
    for command in commands:
        choice = choice_of(command)
        if (
            command.page == FIRST
            and command.words.startswith("graphnet-rnn")
            and not (choice and not choice.instead)
        ):
            checkout.run(
                choice.instead.format(command.words) if choice and choice.instead else command.words,
                where,
                FIRST,
            )


def visit(checkout: Checkout, commands: list[Command], folder: Path) -> None:
    """Makes the environment, then runs the checkout's commands: those of one page in one folder, in their order."""
    if not checkout.run(CHECKOUTS[checkout.name], page="makes this checkout"):
        return
    if checkout.name in ("demo", "pip"):
        commands = [*commands, *helps(checkout)]
    if checkout.name == "pip":
        checkout.run("pip install onnx mpi4py mpich", page="README.md, beside export and mpiexec")
    source = folder / checkout.name / "stand-ins"
    write_files(source)
    done: set[tuple[str, Path]] = set()
    for words, page in dict.fromkeys(commands):
        choice = choice_of(Command(words, page))
        if (
            checkout_of(words) != checkout.name
            or words == CHECKOUTS[checkout.name]
            or (choice and choice.instead is None)
        ):
            continue
        where = checkout.root
        if checkout.name == "pip" and re.match("graphnet-rnn|mpiexec", words):
            where = folder / checkout.name / re.sub(r"\W+", "-", page)
            (where / "docs").mkdir(parents=True, exist_ok=True)
        said = choice.instead.format(words) if choice and choice.instead else words
        if "graphnet" in words:
            bring(said, source, where, checkout)
        elif "run.py" in words:
            shutil.copy(source / "book.txt", where)
        if (said, where) not in done:
            done.add((said, where))
            checkout.run(said, where, page)
    if checkout.name == "docs":
        checkout.failures += named_places(checkout)


def named_places(checkout: Checkout) -> list[str]:
    """Pages that name the folder in which they were built, the reader's own, or that of this Python."""
    folders = [str(checkout.root), os.path.expanduser("~"), sys.base_prefix, tempfile.gettempdir()]
    places = [f"{folder}/" for folder in folders if folder.strip("/~")]  # of a user without a home: / or ~
    found = []
    for path in sorted((checkout.root / "build" / "docs").rglob("*")):
        if path.suffix in (".html", ".js", ".css", ".svg", ".txt"):
            text = path.read_text("utf-8", errors="replace")
            named = [place for place in places if place in text]
            if named:
                found.append(
                    f"docs       WRONG         {path.relative_to(checkout.root)} tells of {', '.join(named)}"
                )
    return found


def show(commands: list[Command]) -> None:
    """--list"""
    for words, page in commands:
        choice = choice_of(Command(words, page))
        if choice is None or choice.instead == "{}":
            print(f"{checkout_of(words):9}  {words}  [{page}]")
        elif choice.instead is None:
            print(f"not run    {words}  [{page}]: {choice.why}")
        else:
            print(f"{checkout_of(words):9}  {choice.instead.format(words)}  [{page}]: {choice.why}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 run.py newcomer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "checkouts", nargs="*", choices=[*CHECKOUTS, []], metavar="checkout", help=", ".join(CHECKOUTS)
    )
    parser.add_argument("--all", action="store_true", help="every command, in all checkouts")
    parser.add_argument("--list", action="store_true", help="show what --all would do")
    chosen = parser.parse_args()
    commands = all_commands()
    if chosen.list:
        show(commands)
        return 0
    whole = chosen.all or bool(chosen.checkouts)
    names = [
        name for name in (chosen.checkouts or (CHECKOUTS if whole else ["demo"]))
        if name != "uv" or shutil.which("uv")
    ]  # fmt: skip
    if whole and "uv" not in names and not chosen.checkouts:
        print("uv         not run: there is no uv here")
    failures: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="newcomer-") as folder,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
    ):

        def failures_in(name: str) -> list[str]:
            checkout = Checkout(name, Path(folder))
            (visit if whole else quick_visit)(checkout, commands, Path(folder))
            shutil.rmtree(checkout.root / ".venv", ignore_errors=True)
            return checkout.failures

        for found in pool.map(failures_in, names):
            failures += found
    # Once more at the end, where who sees only the last lines finds them.
    print("\n".join([*failures, f"newcomer: {len(failures) or 'nothing'} went wrong."]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
