"""Imports point downwards only."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphnet

ENGINE = Path(graphnet.__file__).parent
ROOT = ENGINE.parent
NETWORKS, PICTURES = ROOT / "graphnet_rnn", ROOT / "viz"

#: From the bottom to the top. A module imports from its own layer and from those below.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("version", "errors", "lazy"),
    ("settings",),
    ("system",),
    ("graph",),
    ("ops",),
    ("derivatives", "passes"),
    ("plan",),
    ("backends",),
    ("call",),
    ("inside", "onnx", "operators"),
    ("testing",),
    ("__init__",),
)
RNN_LAYERS: tuple[tuple[str, ...], ...] = (
    ("starting", "errors", "settings"),
    ("files", "parallel", "riemannian"),
    ("optimizers",),
    ("cell", "data"),
    ("cells", "model"),
    ("models", "network"),
    ("formats", "inside", "text"),
    ("online", "testing"),
    ("training", "writer"),
    ("tasks", "sweep"),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
VIZ_LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "colours", "files", "notebook", "blocks"),
    ("style", "text", "feeds"),
    ("drawing", "charts", "terminal", "matching"),
    ("animation", "notes", "pages", "units"),
    ("mirror", "stages", "generation", "explorer"),
    ("show",),
    ("__init__",),
)
#: package -> part of it -> height
HEIGHT: dict[str, dict[str, int]] = {
    package: {part: height for height, parts in enumerate(layers) for part in parts}
    for package, layers in (
        ("graphnet", LAYERS),
        ("graphnet_rnn", RNN_LAYERS),
        ("viz", VIZ_LAYERS),
    )
}

#: Lazy imports that point up, with the reason: (file, module).
LAZY_UPWARDS = {("display.py", "viz")}  # pictures in notebooks; falls back to text


def modules(folder: Path) -> list[Path]:
    """The Python files of a package."""
    return sorted(folder.rglob("*.py"))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported when the file is), not counting imports for type checkers."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, at_load = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            )
            module = ".".join(part for part in (base, node.module) if part)
            # `from graphnet import passes` imports the module graphnet.passes.
            yield from ((f"{module}.{alias.name}", at_load) for alias in node.names)
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        body = node.orelse if is_type_checking(node) else ast.iter_child_nodes(node)  # type: ignore[attr-defined]
        pending += [(child, at_load and not inside) for child in body]


def imports_of(file: Path) -> list[tuple[str, bool]]:
    package = ".".join(file.relative_to(ROOT).parent.parts)
    return list(imports(ast.parse(file.read_text(encoding="utf-8")), package))


def part_of(file: Path) -> str:
    """`ops` for graphnet/ops/leaf.py, `node` for graphnet/graph/node.py."""
    return file.relative_to(ROOT).parts[1].removesuffix(".py")


def by_files(*folders: Path) -> pytest.MarkDecorator:
    files = [file for folder in folders for file in modules(folder)]
    return pytest.mark.parametrize("file", files, ids=lambda file: str(file.relative_to(ROOT)))


by_file = by_files(ENGINE)
by_any_file = by_files(ENGINE, NETWORKS, PICTURES)


@by_any_file
def test_every_module_has_a_layer(file: Path) -> None:
    layers = HEIGHT[file.relative_to(ROOT).parts[0]]
    assert part_of(file) in layers, f"say in the table of layers where {file.name} stands"


@by_any_file
def test_imports_point_down(file: Path) -> None:
    """Also those inside functions: a lazy import that points up is a cycle in waiting."""
    package = file.relative_to(ROOT).parts[0]
    layers = HEIGHT[package]
    for module, _ in imports_of(file):
        parts = module.split(".")
        if parts[0] != package or len(parts) < 2:
            continue
        target = parts[1] if parts[1] in layers else "__init__"
        assert layers[target] <= layers[part_of(file)], f"{file.name} imports {module}, which stands above it"


@by_file
def test_the_engine_knows_no_networks_and_no_pictures(file: Path) -> None:
    upwards = {
        (file.name, module.split(".")[0])
        for module, _ in imports_of(file)
        if module.split(".")[0] in ("graphnet_rnn", "viz")
    }
    assert upwards <= LAZY_UPWARDS
    assert not [
        m for m, at_load in imports_of(file) if at_load and m.split(".")[0] in ("graphnet_rnn", "viz")
    ]


@pytest.mark.parametrize("own", ["numba", "cuda", "compiled"])
def test_compiled_back_ends_know_nothing_of_each_other(own: str) -> None:
    """And what they share knows none of them."""
    others = {f"graphnet.backends.{name}" for name in ("numba", "cuda") if name != own}
    found = [module for file in modules(ENGINE / "backends" / own) for module, _ in imports_of(file)]
    assert found
    assert not [module for module in found if ".".join(module.split(".")[:3]) in others]


@by_file
def test_the_engine_needs_numpy_alone(file: Path) -> None:
    loaded = {module.split(".")[0] for module, at_load in imports_of(file) if at_load}
    # Loaded when first asked for.
    backend = part_of(file) == "backends" or file.name in ("torch_calls.py", "jax_calls.py")
    allowed = {"graphnet", "numpy", *sys.stdlib_module_names}
    assert backend or loaded <= allowed


@pytest.mark.skipif(not (ROOT / "graphnet_rnn").exists(), reason="the engine alone is installed")
def test_networks_know_no_pictures() -> None:
    wrong = [
        file.name
        for file in modules(ROOT / "graphnet_rnn")
        for module, at_load in imports_of(file)
        if at_load and module.split(".")[0] == "viz"
    ]
    assert not wrong


def test_the_reader_of_imports_sees_what_it_should(tmp_path: Path) -> None:
    """The tests above would pass if it saw nothing."""
    source = (
        "import a.b\nfrom c import d\nfrom . import e\nfrom .. import f\nif TYPE_CHECKING:\n    import g\n"
        "def function():\n    import h\nclass Class:\n    import i\n"
    )
    found = dict(imports(ast.parse(source), "top.inner"))
    assert found == {"a.b": True, "c.d": True, "top.inner.e": True, "top.f": True, "h": False, "i": True}
