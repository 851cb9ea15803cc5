"""Packages import their public names when these are first used; see graphnet/lazy.py."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import graphnet
import graphnet_rnn
import viz
from graphnet.lazy import LazyPackage

from .tables import case

ROOT = Path(graphnet.__file__).parents[1]
OURS = ("graphnet", "graphnet_rnn", "viz")
HEAVY = {
    "numpy",
    "numba",
    "llvmlite",
    "scipy",
    "matplotlib",
    "graphviz",
    "pygraphviz",
    "tqdm",
    "safetensors",
    "torch",
    "jax",
    "onnx",
}
#: What is run -> how many modules of ours it may import.
WEIGHTS = {
    "import graphnet": 3,
    "import graphnet_rnn": 5,
    "import viz": 4,
    "from graphnet_rnn.cli import main; main(['--version'])": 20,
    "from graphnet_rnn.cli import main; main(['--help'])": 20,
}
#: Imports every module, in the order of their names, and tells which public names have been used for it.
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
import graphnet, graphnet_rnn, viz

sys.setswitchinterval(1e-5)
names = [(p, name) for p in (graphnet, graphnet_rnn, viz) for name in p.__all__]
start, errors = threading.Barrier(6), []

def read(part):
    start.wait()
    for package, name in part:
        try:
            getattr(package, name)
        except BaseException as error:
            errors.append(f"{package.__name__}.{name}: {error!r}")

threads = [threading.Thread(target=read, args=(names[i::6],)) for i in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*errors)
"""


def fresh(code: str) -> str:
    """What the code prints in a new process."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=300).stdout


def lazy_packages() -> list[LazyPackage]:
    """The packages and their public parts that import late."""
    found: list[LazyPackage] = []
    waiting: list[ModuleType] = [graphnet, graphnet_rnn, viz]
    while waiting:
        package = waiting.pop()
        if isinstance(package, LazyPackage):
            found.append(package)
            values = (getattr(package, name) for name in package.__all__)
            waiting += [value for value in values if isinstance(value, ModuleType)]
    return found


def test_a_start_imports_little() -> None:
    for code, most in WEIGHTS.items():
        told = fresh(
            "import json, sys\nbefore = set(sys.modules)\n"
            f"try:\n    {code}\nexcept SystemExit:\n    pass\n"
            "print(); print(json.dumps(sorted(set(sys.modules) - before)))"
        )
        loaded = json.loads(told.splitlines()[-1])
        ours = [name for name in loaded if name.split(".")[0] in OURS]
        with case(code):
            assert not HEAVY & set(loaded)
            assert len(ours) <= most, ours


def test_every_public_name_is_there() -> None:
    packages = lazy_packages()
    assert len(packages) > 15
    for package in packages:
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
    assert callable(viz.mirror)


def test_no_module_uses_a_late_name_while_it_is_imported() -> None:
    """It would hold its own lock, wait for that of the late names, and so for another thread that waits for it."""
    assert fresh(IMPORT_ALL).split() == []


def test_threads_may_use_names_first_at_the_same_time() -> None:
    assert fresh(THREADS).strip() == ""


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'graphnet' has no attribute 'compil'") as raised:
        graphnet.compil  # type: ignore[attr-defined]
    assert (raised.value.name, raised.value.obj) == ("compil", graphnet)
    with pytest.raises(ImportError, match="cannot import name 'compil' from 'graphnet'"):
        exec("from graphnet import compil")
    assert graphnet.errors.GraphnetError is graphnet.GraphnetError  # a submodule that is no public name
