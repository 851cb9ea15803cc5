"""What the pages of docs/design/ and the glossary name exists; no folder is left out; the story is what it prints."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from . import test_imports
from .test_docs import run_block

ROOT = Path(__file__).parent.parent
DESIGN = ROOT / "docs" / "design"
STORY, TRIED, INDEX = "life_of_W_hh", "tried_and_not_kept", "index"
PAGES = sorted(page.stem for page in DESIGN.glob("*.md"))
#: Those about one part each.
PARTS = [page for page in PAGES if page not in (STORY, TRIED, INDEX)]
#: What a function holds at most, its docstring apart; those that hold more, and why.
LINES = 60
LONGER = {
    "benchmarks/others/jax_peer.py: costs": "all cases, within what imports a library that may be absent",
    "benchmarks/others/torch_peer.py: costs": "all cases, within what imports a library that may be absent",
}


def text_of(page: str) -> str:
    return (DESIGN / f"{page}.md").read_text(encoding="utf-8")


def paths_in(text: str) -> list[str]:
    """What is written in backticks and looks like a place in the project."""
    return re.findall(r"`((?:graphnet|graphnet_rnn|viz|docs|tests|benchmarks)/[\w./]*)`", text)


def test_what_pages_and_glossary_name_exists() -> None:
    wrong = []
    for page in PAGES:
        text = text_of(page)
        wrong += [
            f"{page}.md: {path}"
            for path in paths_in(text)
            if not (ROOT / path).exists() or path.endswith("/") != (ROOT / path).is_dir()
        ]
        for module in re.findall(r"python -m (benchmarks\.\w+)", text):
            place = ROOT / module.replace(".", "/")
            if not (place.is_dir() or place.with_suffix(".py").exists()):
                wrong.append(f"{page}.md: {module}")
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- \*\*(.+?)\*\* \(`([\w./]+)`\): \S", glossary, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^- ", glossary, re.MULTILINE)) > 30
    wrong += [f"glossary.md: {word}: {path}" for word, path in entries if not (ROOT / path).exists()]
    assert not wrong, "a folder ends with a slash, a file does not"


def test_every_folder_is_named_by_the_index_and_by_a_page() -> None:
    folders = {
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for package in ("graphnet", "graphnet_rnn", "viz")
        for path in (ROOT / package).rglob("*.py")
    }
    assert len(folders) > 30
    index = set(paths_in(text_of(INDEX)))
    pages = {path for page in PARTS for path in paths_in(text_of(page))}
    for folder in folders:
        package, part, *_ = folder.split("/")
        assert f"{package}/{part}/".replace("//", "/") in index, folder
        # Or one above it, which the page is about as a whole; or a file in it.
        assert any(folder.startswith(path) or path.startswith(folder) for path in pages), folder


def test_the_index_has_the_layers_of_the_test_of_imports() -> None:
    block = re.search(r"^```\n(.*?)^```", text_of(INDEX), re.DOTALL | re.MULTILINE)
    assert block
    shown: dict[str, list[tuple[str, ...]]] = {}
    package = ""
    for line in filter(None, block[1].splitlines()):
        begins = re.match(r"(\w+)/ +", line)
        if begins:
            package, line = begins[1], line[begins.end() :]
        shown.setdefault(package, []).append(tuple(line.strip().split(", ")))
    held = {
        "graphnet": test_imports.LAYERS,
        "graphnet_rnn": test_imports.RNN_LAYERS,
        "viz": test_imports.VIZ_LAYERS,
    }
    for name, layers in held.items():
        assert shown[name] == [parts for parts in layers if not parts[0].startswith("__")], name


def lines_of(function: ast.FunctionDef) -> int:
    """Without the docstring, and what stands between its header and its first statement."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_functions_fit_on_a_screen() -> None:
    found = {}
    for folder in ("graphnet", "graphnet_rnn", "viz", "benchmarks", "docs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef) and lines_of(node) > LINES:
                    found[f"{path.relative_to(ROOT).as_posix()}: {node.name}"] = lines_of(node)
    assert found.keys() - LONGER.keys() == set(), "split it, or say in LONGER why it cannot be"
    assert LONGER.keys() - found.keys() == set(), "these are short enough again: remove their rows"


def test_the_life_of_a_weight_is_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every block in one namespace, in an empty folder; each prints what stands under it, or nothing."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", text_of(STORY), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) == text_of(STORY).count("```python\n") > 8
    assert sum(bool(shown) for _, shown in blocks) == text_of(STORY).count("```text\n")
    names: dict[str, Any] = {"__name__": "__main__"}
    for i, (block, shown) in enumerate(blocks):
        run_block(f"{STORY} {i}", block, names)
        assert capsys.readouterr().out == shown
