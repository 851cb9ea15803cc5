"""The rehearsal of a newcomer finds every command, has no stale exception, and tells what went wrong."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphnet_rnn.cli import COMMANDS
from tests.newcomer.__main__ import Checkout, all_commands, bring, checkout_of, write_files
from tests.newcomer.choices import CHOICES, STAND_INS, choice_of
from tests.newcomer.commands import ROOT, Command, commands_of_help, commands_of_page, programs
from tests.steps import PROCESSORS, processor

PAGE = """
Write `graphnet-rnn train --memory
sqrt`, or `pip` alone, or `graphnet-rnn`.

```console
$ graphnet-rnn draw "A(units=8)" --out a.svg   # a comment
what it says
```

```python
python = 3
```

```
python3 run.py demo        # draws
graphnet-rnn train a.txt \\
    --units 3
```

    graphnet-rnn tasks --steps 3
"""


def test_commands_of_a_page() -> None:
    assert [command.words for command in commands_of_page("a.md", PAGE)] == [
        "graphnet-rnn train --memory sqrt",
        'graphnet-rnn draw "A(units=8)" --out a.svg',
        "python3 run.py demo",
        "graphnet-rnn train a.txt --units 3",
        "graphnet-rnn tasks --steps 3",
    ]


def test_examples_of_a_help_text_and_no_synopsis() -> None:
    examples = "  graphnet-rnn x --a 1\n  graphnet-rnn x [--b]\n  graphnet-rnn x FILE\n"
    text = f"usage: graphnet-rnn x [-h]\n\nexample:\n{examples}"
    assert commands_of_help("graphnet-rnn x", text) == [
        Command("graphnet-rnn x --a 1", "graphnet-rnn x --help")
    ]


def commands_of_all() -> list[Command]:
    """Of pages, and of the texts from which help is made."""
    texts: list[str] = []
    sources = [*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "graphnet_rnn" / "cli").glob("*.py")]
    for path in sources:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    return all_commands() + [command for text in texts for command in commands_of_help("", text)]


def test_readme_and_guides_have_commands() -> None:
    by_page = {command.page for command in all_commands()}
    assert {"README.md", "CONTRIBUTING.md", "docs/quick_start.md", "docs/second_order.md"} <= by_page
    assert {checkout_of(command.words) for command in all_commands()} == {
        "demo",
        "docs",
        "tutorials",
        "pip",
        "uv",
    }


def test_no_exception_and_no_stand_in_is_left_over() -> None:
    commands = commands_of_all()
    taken = {choice_of(command) for command in commands}
    assert [choice.pattern for choice in CHOICES if choice not in taken] == []
    words = [*(command.words for command in commands), *STAND_INS.values()]
    assert [name for name in STAND_INS if not any(name in each for each in words)] == []


#: Runs each program of the command line with --help, in one process.
ALL_HELP = """
import contextlib, io, runpy, sys

for program in sys.argv[1:]:
    kind, name, *rest = program.split()[1:3] if program.startswith("python -m ") else ("", program.split()[1])
    words = program.split()[3:] if kind else []
    text = io.TextIOWrapper(io.BytesIO(), "utf-8")
    sys.argv = [name, *words, "--help"]
    try:
        with contextlib.redirect_stdout(text):
            (runpy.run_module if kind else runpy.run_path)(name, run_name="__main__")
    except SystemExit as end:
        assert not end.code, (program, end.code)
    text.seek(0)
    assert any(line.startswith(("usage: ", "python3 run.py demo")) for line in text), program
"""


def test_every_program_shows_its_help() -> None:
    asked = [*programs(), *(f"python -m graphnet_rnn {name}" for name in COMMANDS)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}  # they have λ and ∂ in them
    done = subprocess.run(
        [sys.executable, "-c", ALL_HELP, *asked],
        cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout("demo", tmp_path)


def test_what_goes_wrong_is_told(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    assert checkout.run("test -f run.py && test ! -e .git && python3 --version")
    assert not checkout.run("echo it is gone; exit 3")
    assert not checkout.run("echo 'Traceback (most recent call last)'")
    assert len(checkout.failures) == 2
    told = capsys.readouterr().out
    assert "WRONG (3)" in told
    assert "it is gone" in told


def test_stand_ins_come_when_they_are_read(checkout: Checkout, tmp_path: Path) -> None:
    source, folder = tmp_path / "stand-ins", tmp_path / "page"
    write_files(source)
    folder.mkdir()
    bring("graphnet-rnn train book.txt --cell my_cells.py:MyCell --out runs/book", source, folder, checkout)
    assert sorted(path.name for path in folder.iterdir()) == ["book.txt", "my_cells.py"]
    (source / "runs" / "book").mkdir(parents=True)
    bring("graphnet-rnn draw runs/book/model.safetensors --out runs/other", source, folder, checkout)
    assert [path.name for path in (folder / "runs").iterdir()] == ["book"]


@pytest.mark.parametrize("name", PROCESSORS)
def test_numpy_runs_elsewhere(name: str) -> None:
    """NumPy refuses names that it does not know, or cannot do without."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import numpy; numpy.exp(numpy.ones(99))"],
        env={**os.environ, **processor(name)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
