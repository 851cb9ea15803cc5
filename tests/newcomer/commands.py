"""The commands in README, guides and help texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
#: Pages with instructions; pages of results and history are left out.
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "tutorials/README.md", "docs/*.md")

_FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
#: A program and at least one word: `graphnet-rnn` alone is a name.
_COMMAND = re.compile(r"(?:python3?|pip|uv|pytest|graphnet-rnn|mpiexec|[A-Z_]+=\S+ python3?)\s+\S")


class Command(NamedTuple):
    """words: the command without prompt and comment. page: its source."""

    words: str
    page: str


def pages() -> list[Path]:
    """Pages with commands, in the order of PAGES."""
    return [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]


def commands_of_page(name: str, text: str) -> list[Command]:
    """Commands in code blocks, unless these are in another language, and in code spans, in their order."""
    found = []
    for match in _FENCED.finditer(text):
        if match[2] in ("", "console", "sh", "bash"):
            found += [(match.start(), line) for line in _lines(match[3])]
    prose = _FENCED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in _INDENTED.finditer(prose):
        found += [(match.start(), line) for line in _lines(match[0])]
    for match in _SPAN.finditer(_INDENTED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), prose)):
        found += [(match.start(), line) for line in _lines(" ".join(match[1].split()))]
    unique = dict.fromkeys(line for _, line in sorted(found, key=lambda item: item[0]))
    return [Command(line, name) for line in unique]


def commands_of_help(program: str, text: str) -> list[Command]:
    """Indented examples of a help text, except synopses (lines with [...] or words in capitals)."""
    lines = [line for match in re.finditer(r"^ +(\S.*)$", text, re.MULTILINE) for line in _lines(match[1])]
    synopsis = re.compile(r"\[|(?<!\S)[A-Z]{4,}(?!\S)|\.\.\.")
    return [Command(line, f"{program} --help") for line in lines if not synopsis.search(line)]


def _lines(block: str) -> Iterator[str]:
    for line in block.replace("\\\n", " ").splitlines():
        aside = r"\s# .*" if "--" in line else r"\s# .*|\s{2,}\S[^\"']*$"
        words = " ".join(re.sub(aside, "", line).split()).removeprefix("$ ")
        if _COMMAND.match(words):
            yield words


def programs() -> list[str]:
    """Commands that accept --help, to be run in the root with the environment's `python`."""
    from_main = re.compile(r"^if __name__ == \"__main__\":", re.MULTILINE)
    found = ["python run.py", "python tutorials", "python -m graphnet_rnn"]
    for path in sorted(ROOT.glob("benchmarks/**/*.py")) + sorted(ROOT.glob("docs/*.py")):
        text = path.read_text(encoding="utf-8")
        if from_main.search(text) and "argparse" in text:
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append("python -m " + ".".join(part for part in parts if part != "__main__"))
    return found
