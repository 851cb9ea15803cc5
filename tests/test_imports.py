"""Imports point downwards only."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

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


@functools.cache
def imports_of(file: Path) -> list[tuple[str, bool]]:
    package = ".".join(file.relative_to(ROOT).parent.parts)
    return list(imports(ast.parse(file.read_text(encoding="utf-8")), package))


def part_of(file: Path) -> str:
    """`ops` for graphnet/ops/leaf.py, `node` for graphnet/graph/node.py."""
    return file.relative_to(ROOT).parts[1].removesuffix(".py")


def files_of(*folders: Path) -> list[Path]:
    files = [file for folder in folders for file in modules(folder)]
    assert len(files) > 50, "the laws below would hold of no files"
    return files


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def test_every_module_has_a_layer() -> None:
    homeless = [
        name_of(file)
        for file in files_of(ENGINE, NETWORKS, PICTURES)
        if part_of(file) not in HEIGHT[file.relative_to(ROOT).parts[0]]
    ]
    assert not homeless, "say in the table of layers where these stand"


def test_imports_point_down() -> None:
    """Also those inside functions: a lazy import that points up is a cycle in waiting."""
    upwards = []
    for file in files_of(ENGINE, NETWORKS, PICTURES):
        package = file.relative_to(ROOT).parts[0]
        layers = HEIGHT[package]
        for module, _ in imports_of(file):
            parts = module.split(".")
            if parts[0] != package or len(parts) < 2:
                continue
            target = parts[1] if parts[1] in layers else "__init__"
            if layers[target] > layers[part_of(file)]:
                upwards.append(f"{name_of(file)} imports {module}, which stands above it")
    assert not upwards


def test_the_engine_knows_no_networks_and_no_pictures() -> None:
    found = {
        (file.name, module.split(".")[0], at_load)
        for file in files_of(ENGINE)
        for module, at_load in imports_of(file)
        if module.split(".")[0] in ("graphnet_rnn", "viz")
    }
    assert found <= {(name, package, False) for name, package in LAZY_UPWARDS}


def test_compiled_back_ends_know_nothing_of_each_other() -> None:
    """And what they share knows none of them."""
    names = ("numba", "cuda")
    for own in (*names, "compiled"):
        found = {
            ".".join(module.split(".")[:3])
            for file in modules(ENGINE / "backends" / own)
            for module, _ in imports_of(file)
        }
        assert found
        assert not found & {f"graphnet.backends.{name}" for name in names if name != own}, own


def test_the_engine_needs_numpy_alone() -> None:
    """What else it uses is loaded when first asked for."""
    allowed = {"graphnet", "numpy", *sys.stdlib_module_names}
    heavy = {
        (name_of(file), module)
        for file in files_of(ENGINE)
        if part_of(file) != "backends" and file.name not in ("torch_calls.py", "jax_calls.py")
        for module, at_load in imports_of(file)
        if at_load and module.split(".")[0] not in allowed
    }
    assert not heavy


def test_networks_know_no_pictures() -> None:
    wrong = [
        name_of(file)
        for file in files_of(NETWORKS)
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
