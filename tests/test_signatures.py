"""What prose says of signatures is what they are: calls in guides, API pages, docstrings and comments."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graphnet as gn
import graphnet_rnn as rnn
import viz
from tests.tables import case

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "docs" / "api").glob("*.rst"),
    *(page for name in ("graphnet", "graphnet_rnn", "viz") for page in (ROOT / name).rglob("*.py")),
]
PACKAGES = {"gn": gn, "rnn": rnn, "viz": viz}
CALL = re.compile(r"(?<![\w.])(?:gn|rnn|viz)(?:\.\w+)+\(")


def calls_in(text: str) -> Iterator[ast.Call]:
    """Calls of public names, as far as they can be read."""
    for found in CALL.finditer(text):
        depth = 0
        for end in range(found.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if not depth:
                break
        try:
            call = ast.parse(" ".join(text[found.start() : end + 1].split()), mode="eval").body
        except SyntaxError:  # with (..., such as) or a comment inside
            continue
        if isinstance(call, ast.Call):
            yield call


def mistake_in(call: ast.Call) -> str:
    """What does not fit the signature; empty if all does."""
    first, *path = ast.unparse(call.func).split(".")
    called: Any = PACKAGES[first]
    for name in path:
        if not hasattr(called, name):
            return "there is no such name"
        called = getattr(called, name)
    if any(isinstance(a, ast.Starred) or ast.unparse(a) == "..." for a in call.args):
        return ""
    try:
        signature = inspect.signature(called)
    except ValueError:  # of a built-in function
        return ""
    try:
        signature.bind_partial(*call.args, **{each.arg: None for each in call.keywords if each.arg})
    except TypeError as error:
        return str(error)
    # Arguments by the parameters' own names, in another order than theirs.
    given = [a.id if isinstance(a, ast.Name) else "" for a in call.args]
    own = [name for name in signature.parameters if name in given]
    if len(own) > 1 and [name for name in given if name in own] != own and len(set(given)) == len(given):
        return f"the order is {', '.join(own)}"
    return ""


def test_calls_in_prose_fit_the_signatures() -> None:
    found = [(page.name, call) for page in PAGES for call in calls_in(page.read_text(encoding="utf-8"))]
    assert len(found) > 1000
    wrong = [f"{page}: {ast.unparse(call)}: {why}" for page, call in found if (why := mistake_in(call))]
    assert not wrong, "\n".join(wrong)


def test_a_wrong_call_is_found() -> None:
    for text, why in (
        ("rnn.Objective(parameters, cost)", "the order is cost, parameters"),
        ("gn.tanh(x, y, z)", "too many"),
        ("rnn.Adam(speed=0.1)", "unexpected"),
        ("gn.tangent(x)", "no such name"),
    ):
        (call,) = calls_in(f"prose, then {text}, and more")
        assert why in mistake_in(call), text
    (right,) = calls_in("prose, then rnn.Adam(0.1)")
    assert mistake_in(right) == ""


def test_signatures_are_read_as_python() -> None:
    """A default without a name, as of a field that hides a method, makes a signature that no page can show."""
    for package in (gn, rnn, viz):
        for name in package.__all__:
            with case(name):
                called = getattr(package, name)
                if inspect.isclass(called) and not issubclass(called, BaseException):
                    defaults = [each.default for each in inspect.signature(called).parameters.values()]
                    assert not any(map(inspect.isfunction, defaults))
