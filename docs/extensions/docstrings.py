"""Docstrings as they are written in this project, in reStructuredText.

y = f(x)                                        the first paragraph is the formula, or says what it is

a: what it is. b: what that is.                 arguments and attributes, each in its own paragraph
Raises ShapeError where they do not fit.        likewise
Source: Author 1990, eq. 1.                     likewise

>>> example(1)                                  an example with what it prints, which tests run
2

    code = indented(by, four)                   also code that is not indented, if it is more than an expression

name    what it is, in aligned columns          a list
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sphinx.application import Sphinx

from extensions.names import public_path

_RELATION = re.compile(r" [=~←∝≈] |[Σ∂Π]|ᵀ|\bR\{")
_COLUMN = re.compile(r"^(?P<name>\S+(?: \S+){0,2}) {2,}(?P<text>\S.*)$")
#: At the start of a line: names, a colon, and what they are.
_ITEM = re.compile(r"(?P<names>`?[A-Za-z_][\w=.\"']*`?(?:, `?[A-Za-z_]\w*`?)*): ")
_RAISES = re.compile(r"Raises (?=[A-Z])|(?<=[.:;] )(?=[A-Z]\w+Error\b)")
_CODE = ".. code-block:: python"
#: A line at least so long was broken because it was full, a shorter one because its author wanted it.
_FULL = 92


def restructured(lines: Sequence[str], parameters: Sequence[str] = ()) -> list[str]:
    """The docstring's lines (without common indentation) as reStructuredText."""
    result: list[str] = []
    was_code = False
    for number, block in enumerate(_blocks(lines)):
        part = _first(block) if number == 0 else _later(block, set(parameters))
        is_code = part[0] == _CODE
        # Code with empty lines in it is one block.
        result += part[2:] if is_code and was_code else part
        result.append("")
        was_code = is_code
    return result


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def _first(block: Sequence[str]) -> list[str]:
    """The formula, or the sentence that says what it is."""
    text, _, source = " ".join(line.strip() for line in block).partition(" Source: ")
    lines = [f".. rst-class:: {'formula' if _is_formula(text) else 'summary'}", "", _escaped(text)]
    return [*lines, "", *_source(source)] if source else lines


def _is_formula(text: str) -> bool:
    """A relation, outside of code, before which at most three words stand ("for all l")."""
    found = _RELATION.search(re.sub(r"`[^`]*`", "", text))
    return found is not None and len(re.findall(r"[a-zA-Z]{3,}", found.string[: found.start()])) <= 3


def _later(block: Sequence[str], parameters: set[str]) -> list[str]:
    if block[0].startswith(">>>"):
        return list(block)
    if all(line.startswith("    ") for line in block) or _is_code(block):
        return [_CODE, "", *(f"   {line}" for line in block)]
    if _is_table(block):
        return list(_table(block))
    result: list[str] = []
    for paragraph in _paragraphs(block):
        for kind, names, text in _items(paragraph, parameters):
            if kind == "source":
                result += [*_source(text), ""]
            elif kind == "raises":
                result += [".. rst-class:: raises", "", f"**Raises** {_escaped(text, errors=True)}", ""]
            elif kind == "item":
                shown = ", ".join(f"**{name}**" for name in names)
                result += [".. rst-class:: parameter", "", f"{shown}: {_escaped(text)}", ""]
            else:
                result += [_escaped(text), ""]
    return result


def _is_code(block: Sequence[str]) -> bool:
    """Statements, not an expression that a sentence might be by chance."""
    try:
        tree = ast.parse("\n".join(block))
    except SyntaxError:
        return False
    statements = (ast.Assign, ast.Import, ast.ImportFrom, ast.For, ast.While, ast.With)
    return any(isinstance(node, statements) for node in tree.body) or (
        bool(tree.body) and all(isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) for n in tree.body)
    )


def _is_table(block: Sequence[str]) -> bool:
    """Two columns; a line that is indented goes on with the one before it."""
    rows = [line for line in block if not line.startswith(" ")]
    return bool(rows) and rows[0] == block[0] and all(_COLUMN.match(line) for line in rows)


def _table(block: Sequence[str]) -> Iterator[str]:
    rows: list[list[str]] = []
    for line in block:
        found = _COLUMN.match(line)
        if found and not line.startswith(" "):
            rows.append([found["name"], found["text"]])
        else:
            rows[-1][1] += " " + line.strip()
    yield ".. rst-class:: columns"
    yield ""
    for name, text in rows:
        shown = f"``{name}``" if re.fullmatch(r"[\w.]+", name) else f"**{_escaped(name)}**"
        yield shown
        yield f"   {_escaped(text)}"
    yield ""


def _paragraphs(block: Sequence[str]) -> Iterator[str]:
    """Lines joined, but where the author ended a sentence early and began another on a new line."""
    lines: list[str] = []
    for line in block:
        stripped = line.strip()
        if lines:
            room = _FULL - len(lines[-1])
            ended = lines[-1].endswith((".", ":", ")")) and len(stripped.split()[0]) < room
            starts = re.match(r"Raises [A-Z]|Source: ", stripped) or _ITEM.match(stripped)
            if (starts and lines[-1][-1] in ".:;)") or (ended and not stripped[0].islower()):
                yield " ".join(lines)
                lines = []
        lines.append(stripped)
    if lines:
        yield " ".join(lines)


def _items(paragraph: str, parameters: set[str]) -> Iterator[tuple[str, list[str], str]]:
    """The paragraph cut where a parameter, Raises or Source begins: (kind, names, text)."""
    starts: list[tuple[int, int, str, list[str]]] = []
    begins = [0, *(m.end() for m in re.finditer(r"(?<=[.;)])\s", paragraph))]
    for place in begins:
        rest = paragraph[place:]
        if found := re.match(r"Source: ", rest):
            starts.append((place, place + found.end(), "source", []))
        elif found := re.match(r"Raises (?=[A-Z]\w*)", rest):
            starts.append((place, place + found.end(), "raises", []))
        elif found := _ITEM.match(rest):
            names = [name.strip("`") for name in found["names"].split(", ")]
            known = all(re.split(r"=", name)[0] in parameters for name in names)
            if known or (place == 0 and all(re.fullmatch(r"[a-z]\w*", n) for n in names)):
                starts.append((place, place + found.end(), "item", names))
    if not starts or starts[0][0] > 0:
        end = starts[0][0] if starts else len(paragraph)
        yield "prose", [], paragraph[:end].strip()
    for i, (_, begin, kind, names) in enumerate(starts):
        end = starts[i + 1][0] if i + 1 < len(starts) else len(paragraph)
        yield kind, names, paragraph[begin:end].strip()


def _source(text: str) -> list[str]:
    return [".. rst-class:: source", "", f"Source: {_escaped(text)}"]


def _escaped(text: str, errors: bool = False) -> str:
    """Text whose only markup is code in backticks; names of errors become links where they are asked for."""
    pieces = re.split(r"`([^`]+)`", text)
    result = ""
    for i, piece in enumerate(pieces):
        if i % 2:
            # \x20 apart from its neighbours, inline markup may stand anywhere.
            result += f"\\ ``{piece}``\\ " if piece.strip() == piece else f"``{piece.strip()}``"
            continue
        plain = re.sub(r"([\\*_|`<>])", r"\\\1", piece)
        if errors:
            plain = re.sub(r"\b[A-Z]\w+Error\b", _error_link, plain)
        result += plain
    return result.strip()


def _error_link(found: re.Match[str]) -> str:
    return f":py:obj:`{found[0]} <{path}>`" if (path := public_path(found[0])) else found[0]


def process(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """The hook of autodoc."""
    lines[:] = restructured(inspect.cleandoc("\n".join(lines)).splitlines(), _parameters(value))


def _parameters(value: Any) -> list[str]:
    """Names that may be explained: arguments, and attributes that a class declares."""
    try:
        names = list(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        names = []
    return [*names, *getattr(value, "__annotations__", {})] if isinstance(value, type) else names


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
