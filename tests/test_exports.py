"""Public names are exported and documented, and calls in documentation fit their signatures."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import graphnet as gn
import graphnet_rnn as rnn
import viz
from graphnet.ops import FAMILIES
from tests.tables import case, leaves, require_rows

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
#: Functions in modules of ops that are only for other modules: they have no nodes, or have an operator.
INTERNAL = {
    "rowwise": {"refused", "run_rows"},
    "leaf": {"as_node", "as_shape", "as_size", "filled", "zeros"},
    "shape": {
        "basic_slice", "edges_of", "is_whole", "joined_entry", "normalize_axes", "normalize_axis", "inputs_between",
        "slice_along", "split",
    },
    "broadcast": {"summed"},
    "linear": {"as_common_dtype", "scaled_rows"},
    "index": {"getitem", "is_by_columns", "to_back", "to_front"},
    "reduce": {"log_softmax_nodes", "shifted", "shifted_node", "spread"},
    "surrogate": {"surrogates_among"},
}  # fmt: skip


def test_every_function_of_the_ops_and_every_optimizer_is_exported() -> None:
    for family in FAMILIES:
        name = family.__name__.rpartition(".")[2]
        functions = {
            name
            for name, member in vars(family).items()
            if inspect.isfunction(member) and member.__module__.startswith(family.__name__) and name[0] != "_"
        }
        internal = INTERNAL.get(name, set())
        what = "the function (or to INTERNAL, if it is for modules)"
        require_rows(functions - internal - set(gn.__all__), "the imports of graphnet", what)
        assert internal <= functions - set(gn.__all__), f"INTERNAL of {name} lists what is gone, or exported"
    # ExpectationMaximization is for models of symbols only.
    listed = {*rnn.optimizers.ALL.values(), rnn.ExpectationMaximization}  # first: this imports the optimizers
    require_rows(
        set(leaves(rnn.optimizers.Optimizer)) - listed,
        "ALL in graphnet_rnn/optimizers/all.py",
        "the optimizer",
    )
    for kind in rnn.optimizers.ALL.values():
        assert kind.__name__ in rnn.__all__, f"add {kind.__name__} to the imports of graphnet_rnn"
        assert getattr(rnn, kind.__name__) is kind


def test_the_number_of_cells_is_right() -> None:
    cells = len(rnn.cells.ALL)
    for page, phrase in (("README.md", f"{cells} cells"), ("CHANGELOG.md", f"{cells} architectures")):
        assert phrase in (ROOT / page).read_text(encoding="utf-8"), f"write '{phrase}' in {page}"


def test_graphnet_error_catches_all_errors() -> None:
    """`except gn.GraphnetError` catches every error class of the packages."""
    raised = [
        each
        for package in ("graphnet", "graphnet_rnn", "viz")
        for each in vars(importlib.import_module(f"{package}.errors")).values()
        if inspect.isclass(each) and issubclass(each, Exception)
    ]
    assert len(raised) > 5
    assert [each for each in raised if not issubclass(each, gn.GraphnetError)] == []


def names_of_the_api() -> SimpleNamespace:
    """Functions of the site that find public names; needs no Sphinx."""
    return SimpleNamespace(**runpy.run_path(str(DOCS / "extensions" / "names.py")))


def test_the_api_pages_list_every_public_name_and_no_other() -> None:
    """Does not need Sphinx, unlike test_site."""
    names = names_of_the_api()
    listed: set[str] = set()
    absent: list[str] = []
    blocks = re.compile(r"^\.\. public:: (\S+)\n((?:\n|   .*\n?)*)", re.MULTILINE)
    for page in (DOCS / "api").glob("*.rst"):
        for module, block in blocks.findall(page.read_text(encoding="utf-8")):
            words = {word for line in block.splitlines() for word in line.strip().split("  ")[0].split()}
            words |= set(names.public_modules()[module].__all__) if "..." in words else set()
            words.discard("...")
            absent += [f"{page.name}: {w}" for w in words if not hasattr(names.public_modules()[module], w)]
            listed |= {f"{module}.{word}" for word in words}
    missing = {
        documented
        for path, documented in names.documented_names().items()
        if documented not in listed and not isinstance(names.value_of(path), ModuleType)
    }
    require_rows(missing, "docs/api/", "the name, below its module")
    assert absent == []


PROSE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *DOCS.rglob("*.md"),
    *(DOCS / "api").glob("*.rst"),
    *(page for name in ("graphnet", "graphnet_rnn", "viz") for page in (ROOT / name).rglob("*.py")),
]
PACKAGES = {"gn": gn, "rnn": rnn, "viz": viz}
CALL = re.compile(r"(?<![\w.])(?:gn|rnn|viz)(?:\.\w+)+\(")


def calls_in(text: str) -> Iterator[ast.Call]:
    """Calls of public names in a text, except those that are not valid Python."""
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
    """Reason why the call does not fit the signature; empty if it fits."""
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


#: Classes that the reader of a page writes.
INVENTED = {"rnn.TextBatches", "rnn.riemannian.Absolute", "rnn.tasks.Echo"}


def test_calls_in_prose_fit_the_signatures() -> None:
    """Calls in guides, API pages, docstrings and comments."""
    found = [(page.name, call) for page in PROSE for call in calls_in(page.read_text(encoding="utf-8"))]
    assert len(found) > 1000
    wrong = [
        f"{page}: {ast.unparse(call)}: {why}"
        for page, call in found
        if ast.unparse(call.func) not in INVENTED and (why := mistake_in(call))
    ]
    assert not wrong, "\n".join(wrong)
    for text, why in (
        ("rnn.Objective(parameters, cost)", "the order is cost, parameters"),
        ("gn.tanh(x, y, z)", "too many"),
        ("gn.tangent(x)", "no such name"),
    ):
        (call,) = calls_in(f"prose, then {text}, and more")
        assert why in mistake_in(call)


def test_signatures_are_read_as_python() -> None:
    """A default that is a function (a field that hides a method) has no readable signature."""
    for package in (gn, rnn, viz):
        for name in package.__all__:
            with case(name):
                called = getattr(package, name)
                if inspect.isclass(called) and not issubclass(called, BaseException):
                    defaults = [each.default for each in inspect.signature(called).parameters.values()]
                    assert not any(map(inspect.isfunction, defaults))
