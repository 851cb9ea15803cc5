"""Imports point downwards only; packages import their public names when these are first used (graphnet/lazy.py)."""

from __future__ import annotations

import ast
import functools
import importlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import graphnet
import graphnet_rnn
import viz
from graphnet.lazy import LazyPackage

from .tables import case

ROOT = Path(graphnet.__file__).parents[1]

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
    ("standalone_c",),
    ("call",),
    ("inside", "onnx", "operators"),
    ("testing",),
    ("__init__",),
)
RNN_LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "installed", "settings"),
    ("files", "parallel", "riemannian"),
    ("optimizers",),
    ("cell", "data"),
    ("cells", "model"),
    ("models", "network"),
    ("formats", "inside", "text"),
    ("online", "testing"),
    ("training",),
    ("apps",),
    ("experiments",),
    ("__init__",),
    ("__main__",),
)
VIZ_LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "colours", "files", "notebook", "blocks"),
    ("style", "text", "feeds"),
    ("drawing", "charts", "terminal", "matching"),
    ("animation", "notes", "pages", "units"),
    ("mirror", "stages", "generation", "explorer", "walkthrough"),
    ("show",),
    ("__init__",),
)
#: package -> part of it -> height
HEIGHT: dict[str, dict[str, int]] = {
    package: {part: height for height, parts in enumerate(layers) for part in parts}
    for package, layers in (("graphnet", LAYERS), ("graphnet_rnn", RNN_LAYERS), ("viz", VIZ_LAYERS))
}


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported when the file is), not counting imports for type checkers."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, at_load = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            base = above[: len(above) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            # `from graphnet import passes` imports the module graphnet.passes.
            yield from ((f"{module}.{alias.name}", at_load) for alias in node.names)
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        body = node.orelse if for_types else ast.iter_child_nodes(node)  # type: ignore[attr-defined]
        pending += [(child, at_load and not inside) for child in body]


@functools.cache
def files_of(folder: str) -> dict[str, list[tuple[str, bool]]]:
    """Python file below the root -> its imports."""
    found = {}
    for file in sorted((ROOT / folder).rglob("*.py")):
        place = file.relative_to(ROOT)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found[place.as_posix()] = list(imports(tree, ".".join(place.parent.parts)))
    assert found, "the laws below would hold of no files"
    return found


def test_imports_point_down() -> None:
    """Imports inside functions count as well: if they point upwards, a cycle of imports may follow."""
    upwards, seen = [], 0
    for package, layers in HEIGHT.items():
        for file, imported in files_of(package).items():
            part = file.split("/")[1].removesuffix(".py")
            assert part in layers, f"say in the table of layers where {file} stands"
            for module, _ in imported:
                above, *names = module.split(".")
                if above != package or not names:
                    continue
                seen += 1
                if layers[names[0] if names[0] in layers else "__init__"] > layers[part]:
                    upwards.append(f"{file} imports {module}, which stands above it")
    assert not upwards
    assert seen > 1000


def test_graphnet_imports_no_networks_and_graphnet_rnn_no_viz() -> None:
    """Only pictures in notebooks may import viz; without it, they fall back to text."""
    upwards = {
        (file, module.split(".")[0], at_load)
        for package, above in (("graphnet", ("graphnet_rnn", "viz")), ("graphnet_rnn", ("viz",)))
        for file, imported in files_of(package).items()
        for module, at_load in imported
        if module.split(".")[0] in above and (at_load or package == "graphnet")
    }
    assert {(file.rpartition("/")[2], *what) for file, *what in upwards} == {("display.py", "viz", False)}


def test_compiled_back_ends_do_not_import_each_other() -> None:
    """Their shared modules import neither of them."""
    for own in ("numba", "cuda", "compiled"):
        files = files_of(f"graphnet/backends/{own}").values()
        found = {".".join(module.split(".")[:3]) for imported in files for module, _ in imported}
        assert not found & {f"graphnet.backends.{name}" for name in ("numba", "cuda") if name != own}, own


def test_engine_needs_only_numpy() -> None:
    """Other packages are imported on first use."""
    allowed = {"graphnet", "numpy", *sys.stdlib_module_names}
    heavy = {
        (file, module)
        for file, imported in files_of("graphnet").items()
        if "/backends/" not in file
        and not file.endswith(("/torch_calls.py", "/jax_calls.py", "/jax_native.py"))
        for module, at_load in imported
        if at_load and module.split(".")[0] not in allowed
    }
    assert not heavy


HEAVY = "numpy numba llvmlite scipy matplotlib graphviz pygraphviz tqdm safetensors torch jax onnx"
#: Imports every module in the order of names, and prints the lazy names that these imports have used.
IMPORT_ALL = """
import importlib, pkgutil, sys, types, warnings
import graphnet, graphnet_rnn, viz
from graphnet.lazy import LazyPackage

warnings.simplefilter("ignore")
for package in (graphnet, graphnet_rnn, viz):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.rpartition(".")[2] != "__main__":
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:  # of a package that is not installed
                assert error.name.split(".")[0] not in ("graphnet", "graphnet_rnn", "viz")
packages = [module for module in sys.modules.values() if isinstance(module, LazyPackage)]
assert len(packages) > 15
print(*(
    f"{package.__name__}.{name}"
    for package in packages
    for name in package._lazy
    if name in vars(package) and not isinstance(vars(package)[name], types.ModuleType)
))
"""
THREADS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import graphnet, graphnet_rnn, viz

sys.setswitchinterval(1e-5)
names = [(p, name) for p in (graphnet, graphnet_rnn, viz) for name in p.__all__]
start = threading.Barrier(6)

def read(first):
    start.wait()
    for package, name in names[first::6]:
        getattr(package, name)

with ThreadPoolExecutor(6) as pool:
    list(pool.map(read, range(6)))
"""


def fresh(code: str) -> str:
    """Output of the code in a new process."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=300).stdout


def test_imports_load_few_modules() -> None:
    for code, most in (
        ("import graphnet", 3),
        ("import graphnet_rnn", 5),
        ("import viz", 4),
        ("from graphnet_rnn.apps.cli import main; main(['--version'])", 30),
        ("from graphnet_rnn.apps.cli import main; main(['--help'])", 30),
    ):
        told = fresh(
            "import sys\nbefore = set(sys.modules)\n"
            f"try:\n    {code}\nexcept SystemExit:\n    pass\n"
            "print()\nprint(*(set(sys.modules) - before))"
        )
        loaded = told.splitlines()[-1].split()
        ours = [name for name in loaded if name.split(".")[0] in ("graphnet", "graphnet_rnn", "viz")]
        with case(code):
            assert not {*HEAVY.split()} & set(loaded)
            assert 0 < len(ours) <= most, ours


def test_every_public_name_can_be_imported() -> None:
    """All public names of the packages and of their lazily imported parts can be imported."""
    waiting: list[ModuleType] = [graphnet, graphnet_rnn, viz]
    seen = 0
    while waiting:
        package = waiting.pop()
        if not isinstance(package, LazyPackage):
            continue
        seen += 1
        waiting += [value for n in package.__all__ if isinstance(value := getattr(package, n), ModuleType)]
        for source in set(package._lazy.values()):
            importlib.import_module(source)
        star: dict[str, object] = {}
        exec(f"from {package.__name__} import *", star)
        with case(package.__name__):
            assert set(package._lazy) <= set(package.__all__) <= set(star)
            assert set(package.__all__) <= set(dir(package))
            # Also where the module of a function has the function's name.
            alike = [name for name, source in package._lazy.items() if source == f"{package.__name__}.{name}"]
            assert not [name for name in alike if isinstance(getattr(package, name), ModuleType)]
    assert seen > 15


def test_lazy_names_cause_no_deadlock() -> None:
    """No module uses a lazy name during its own import, which could cause a deadlock between threads.

    Threads may also use lazy names for the first time at once.
    """
    used = fresh(IMPORT_ALL).split()
    assert not used, (
        f"a module reads {', '.join(used)} while it is imported, e.g. in a table at its top; import each name from its "
        "own module there, e.g. `from graphnet_rnn.cells.gru import GRU` for rnn.GRU"
    )
    fresh(THREADS)


def test_unknown_names_raise_errors() -> None:
    with pytest.raises(AttributeError, match="module 'graphnet' has no attribute 'compil'") as raised:
        graphnet.compil  # type: ignore[attr-defined]
    assert (raised.value.name, raised.value.obj) == ("compil", graphnet)
    with pytest.raises(ImportError, match="cannot import name 'compil' from 'graphnet'"):
        exec("from graphnet import compil")
    assert graphnet.errors.GraphnetError is graphnet.GraphnetError  # a submodule, not a public name


def test_packages_are_pickled_by_name() -> None:
    for package in (graphnet, graphnet_rnn, viz, graphnet_rnn.data):
        assert pickle.loads(pickle.dumps(package)) is package
