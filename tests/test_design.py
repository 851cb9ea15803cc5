"""Design pages are short, name what exists and leave out no folder; the story is what it prints; words are kept to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .test_docs import run_block

ROOT = Path(__file__).parent.parent
DESIGN = ROOT / "docs" / "design"
STORY, TRIED, INDEX = "life_of_W_hh", "tried_and_not_kept", "index"
PAGES = sorted(page.stem for page in DESIGN.glob("*.md"))
#: Those about one part each.
PARTS = [page for page in PAGES if page not in (STORY, TRIED, INDEX)]
GLOSSARY = ROOT / "docs" / "glossary.md"
#: Words that were private to this project, or meant several things -> what is written instead.
RETIRED = {
    "brought": "copied, uploaded",
    "fingerprint": "key",
    "house": "packages, folders",
    "lent": "borrowed",
    "meeting": "barrier",
    "meetings": "barriers",
    "rooms": "folders, checkouts",
    "said": "text, description",
    "stretch": "chunk, segment, slice",
    "stretches": "chunks, segments, slices",
    "told": "stored, value, text",
    "vigil": "idle",
}


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


@pytest.mark.parametrize("page", PARTS)
def test_a_page_begins_with_its_modules(page: str) -> None:
    head = re.match(r"# .+\n\nModules: ((?:.+\n)+)\n", text_of(page))
    assert head, "its first paragraph is `Modules: ...`"
    named = paths_in(head[1])
    assert named
    assert len(named) == head[1].count("`") // 2


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    for path in paths_in(text_of(page)):
        assert (ROOT / path).exists(), f"{page}.md names {path}"
        assert path.endswith("/") == (ROOT / path).is_dir(), f"{page}.md: a folder ends with a slash: {path}"
    for module in re.findall(r"python -m (benchmarks\.\w+)", text_of(page)):
        place = ROOT / module.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").exists(), module


@pytest.mark.parametrize("page", [page for page in PAGES if page != STORY])
def test_a_page_is_short(page: str) -> None:
    lines = text_of(page).splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("page", PAGES)
def test_a_page_tells_no_history(page: str) -> None:
    """Design is in the present tense; what was otherwise is in the changelog, what was tried in its own page."""
    assert not re.search(
        r"\b(decision \d+|no longer|overturned|now)\b|\(see \d+\)", text_of(page), re.IGNORECASE
    )


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
    from . import test_imports

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


def test_every_word_of_the_glossary_has_its_module() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    entries = re.findall(r"^- \*\*(.+?)\*\* \(`([\w./]+)`\): \S", text, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^- ", text, re.MULTILINE)) > 30
    words = [word for word, _ in entries]
    assert len(words) == len(set(words))
    for word, path in entries:
        assert (ROOT / path).exists(), f"{word}: {path}"


def identifiers(tree: ast.AST) -> Iterator[str]:
    """All that Python code gives a name to or calls by one."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(asname=str(name))
            ):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                yield name


def words_of(identifier: str) -> list[str]:
    """in_chunks, InChunks, IN_CHUNKS: in and chunks."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def test_retired_words_are_no_names() -> None:
    found = {}
    for package in ("graphnet", "graphnet_rnn", "viz"):
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {path.stem, *identifiers(tree)}
            retired = {name: RETIRED[word] for name in names for word in words_of(name) if word in RETIRED}
            if retired:
                found[path.relative_to(ROOT).as_posix()] = retired
    assert not found, "the glossary has another word"


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
