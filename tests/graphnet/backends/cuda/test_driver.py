"""Calls of the GPU driver, except the results of kernels. See `stub`."""

from __future__ import annotations

import ast
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graphnet.backends import usable_backends
from tests.graphnet.backends.conftest import output_of
from tests.tables import some_quick

HERE = Path(__file__).parent / "stub"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
unable = COMPILER is None or not sys.platform.startswith("linux")
pytestmark = pytest.mark.skipif(unable, reason="needs a C compiler, and Linux's way of loading")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stub")
    for source, library in (("driver.c", "libcuda.so.1"), ("cublas.c", "libcublas.so")):
        made = ["-o", str(folder / library), str(HERE / source), "-ldl"]
        subprocess.run([str(COMPILER), "-shared", "-fPIC", "-O1", "-w", *made], check=True)
    return folder


def used(libraries: Path, log: Path, *arguments: str, **settings: str) -> tuple[str, list[str]]:
    """Runs a process on the stub. Returns its output and the lines of the stub's log."""
    cache = str(libraries / "cache")
    stub = {"LD_LIBRARY_PATH": str(libraries), "STUB_LOG": str(log), "GRAPHNET_CACHE": cache}
    printed = output_of(*arguments, without=("NUMBA_ENABLE_CUDASIM",), **{**stub, **settings})
    return printed, log.read_text(encoding="utf-8").splitlines() if log.exists() else []


#: Part of `stub.use` -> number of captures; in training: the gradient, Gv and its second half.
PARTS = {"programs": 9, "threads": 6, "memory": 0, "exchange": 0, "products": 2, "training": 3}


@pytest.mark.parametrize("name", some_quick(PARTS, ["memory", "exchange", "products"]))
def test_driver_calls_are_valid(name: str, libraries: Path, tmp_path: Path) -> None:
    words = [name, str(libraries / "libcublas.so")] if name == "products" else [name]
    settings = {"STUB_MEMORY": str(64 << 20)} if name == "memory" else {}
    where = ("-m", "tests.graphnet.backends.cuda.stub.use")
    printed, lines = used(libraries, tmp_path / "log", *where, *words, **settings)
    assert printed.splitlines()[-1] == "done"
    assert not [line for line in lines if line.startswith("!!")]
    assert lines.count("capture begins") == lines.count("capture ends") == PARTS[name]
    if name == "programs":
        assert "library of another kind" not in lines
        assert "launch captured" in lines[lines.index("capture begins") :]
        assert lines.count("graph") >= 2 * lines.count("capture begins")
    if name == "memory":  # released memory is used again
        assert "the function needs 160.0 MiB of memory, but " in printed


#: Prints how many kernels there are, and how many of them were found on disk.
WATCHED = """
from numba import cuda
made, original = [], cuda.jit
def jit(*a, **k):
    wrap = original(*a, **k)
    def kept(f):
        made.append(wrap(f))
        return made[-1]
    return kept
cuda.jit = jit
import graphnet as gn, numpy as np
from graphnet.backends.cuda import kernels
x = gn.input((5, 6))
for y in (gn.tanh(x) + gn.sum(x), gn.exp(x), gn.sin(x), gn.cos(x), x @ x.T, gn.log(x), gn.max(x, 1)):
    gn.compile([y], [x], backend="cuda")(np.ones((5, 6), "f4"))
hits = [sum(d.stats.cache_hits.values()) for d in made]
print(len(hits), sum(hits))
"""


def damaged(file: Path, how: str) -> None:
    content = bytearray(file.read_bytes())
    if how == "flip":
        content[len(content) // 2] ^= 1
    elif how == "execute":  # Python or a pickle: both would end the process
        is_python = file.suffix == ".py"
        content = b"raise SystemExit('executed')\n" if is_python else b"cbuiltins\nexit\n(S'executed'\ntR."
    file.unlink()
    if how in ("folder", "pipe"):
        (Path.mkdir if how == "folder" else os.mkfifo)(file)
    else:
        file.write_bytes(content[:-1] if how == "cut" else content)


#: Files of one kernel to damage, and how; a stored program has all of these files.
DAMAGES = [
    ("*.py", "cut"), ("*.py", "execute"), ("__pycache__/*.nbc", "flip"), ("__pycache__/*.nb?", "execute"),
    ("__pycache__/*.nbi", "folder"), ("__pycache__/*.nb?", "pipe"), ("*.seal", "cut"), ("*.seal", "pipe"),
]  # fmt: skip


@pytest.mark.slow
def test_kernel_cache_is_reused_and_damaged_files_are_recompiled(libraries: Path, tmp_path: Path) -> None:
    """Each kernel is damaged differently. A second process compiles all again, and a third one none."""
    cache = tmp_path / "cache"

    def made_and_found() -> tuple[int, ...]:
        printed, _ = used(libraries, tmp_path / "log", "-c", WATCHED, GRAPHNET_CACHE=str(cache))
        return tuple(map(int, printed.split()))

    made, found = made_and_found()
    assert made > 1 > found
    assert made_and_found() == (made, made)
    stems = sorted(path.stem for path in (cache / "cuda").glob("*.py"))
    assert len(stems) >= len(DAMAGES)
    for stem, (names, how) in zip(stems, itertools.cycle(DAMAGES), strict=False):
        files = [path for path in (cache / "cuda").glob(names) if path.name.split(".")[0] == stem]
        assert files
        for file in files:
            damaged(file, how)
    assert made_and_found() == (made, 0)
    assert made_and_found() == (made, made)
    (cache / "cuda" / "__pycache__").chmod(0o777)
    assert made_and_found()[1] == 0, "others could have written to the folder"


FAULTS = {
    "STUB_VERSION=12040": "it supports CUDA 12.4, and kernels are compiled for CUDA 13",
    "STUB_CAPABILITY=70": "compute capability is 7.0; CUDA 13 makes code for 7.5 and newer",
    "STUB_COUNT=0": "finds no usable NVIDIA GPU (",
    "STUB_GRAPH=700": "cuGraphLaunch failed: an error of the stub",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_driver_errors_are_one_line(fault: str, libraries: Path, tmp_path: Path) -> None:
    program = """
import graphnet as gn, numpy as np
from graphnet.backends import usable_backends
x = gn.input((2,))
try:
    function = gn.compile([x + 1.0], [x], backend="cuda")
    for _ in range(2):
        function(np.ones(2, "f4"))
except gn.BackendError as error:
    print(error)
print(usable_backends())
"""
    name, value = fault.split("=")
    first, *_, last = used(libraries, tmp_path / "log", "-c", program, **{name: value})[0].splitlines()
    assert FAULTS[fault] in first
    if name != "STUB_GRAPH":
        assert "backend='numba' runs on the CPU" in first
        assert set(ast.literal_eval(last)) == {
            each for each in usable_backends() if not each.startswith("cuda")
        }
