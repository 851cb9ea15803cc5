"""The path on a real GPU, down to the driver: all but what kernels compute. See `stub`."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT, HERE = Path(__file__).parents[4], Path(__file__).parent / "stub"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

pytestmark = pytest.mark.skipif(
    COMPILER is None or not sys.platform.startswith("linux"),
    reason="needs a C compiler, and Linux's way of loading",
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stub")
    for source, library in (("driver.c", "libcuda.so.1"), ("cublas.c", "libcublas.so")):
        made = ["-o", str(folder / library), str(HERE / source), "-ldl"]
        subprocess.run([str(COMPILER), "-shared", "-fPIC", "-O1", "-w", *made], check=True)
    return folder


def used(libraries: Path, log: Path, *arguments: str, **settings: str) -> tuple[str, list[str]]:
    """What a process that uses the stub prints, and what the stub has written down."""
    environment = {
        n: v for n, v in os.environ.items() if n not in ("NUMBA_ENABLE_CUDASIM", "LD_LIBRARY_PATH")
    }
    environment |= {
        "LD_LIBRARY_PATH": str(libraries), "STUB_LOG": str(log), "GRAPHNET_CACHE": str(libraries / "cache"), **settings
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def part(libraries: Path, log: Path, *words: str, **settings: str) -> tuple[str, list[str]]:
    printed, lines = used(libraries, log, "-m", "tests.graphnet.backends.cuda.stub.use", *words, **settings)
    assert printed.splitlines()[-1] == "done"
    assert not [line for line in lines if line.startswith("!!")]
    return printed, lines


def test_kernels_are_launched_captured_and_replayed(libraries: Path, tmp_path: Path) -> None:
    _, lines = part(libraries, tmp_path / "log", "programs")
    assert lines.count("capture begins") == lines.count("capture ends") > 6
    assert "library of another kind" not in lines
    first = lines.index("capture begins")
    assert "launch captured" in lines[first:]
    assert lines.count("graph") >= 2 * lines.count("capture begins")


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


def made_and_found(libraries: Path, log: Path, cache: Path) -> tuple[int, int]:
    printed, _ = used(libraries, log, "-c", WATCHED, GRAPHNET_CACHE=str(cache))
    made, found = map(int, printed.split())
    return made, found


def flip(file: Path) -> None:
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def execute(file: Path) -> None:
    file.write_bytes(b"raise SystemExit('executed')\n")


def unpickle(file: Path) -> None:
    """A pickle that ends the process."""
    file.write_bytes(b"cbuiltins\nexit\n(S'executed'\ntR.")


def fold(file: Path) -> None:
    file.unlink()
    file.mkdir()


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


#: What is damaged, and how: what is kept of one program has all of these.
DAMAGES: list[tuple[str, Callable[[Path], None]]] = [
    ("*.py", cut), ("*.py", execute), ("__pycache__/*.nbc", flip), ("__pycache__/*.nb?", unpickle),
    ("__pycache__/*.nbi", fold), ("__pycache__/*.nb?", pipe), ("*.seal", cut), ("*.seal", pipe),
]  # fmt: skip


@pytest.mark.slow
def test_what_is_kept_of_kernels_is_found_and_repairs_itself(libraries: Path, tmp_path: Path) -> None:
    """Each kernel is damaged in another way; a second process compiles all of them anew, and a third one none."""
    cache, log = tmp_path / "cache", tmp_path / "log"
    made, found = made_and_found(libraries, log, cache)
    assert made > 1
    assert found == 0
    assert made_and_found(libraries, log, cache) == (made, made)
    stems = sorted(path.stem for path in (cache / "cuda").glob("*.py"))
    assert len(stems) >= len(DAMAGES)
    for stem, (names, damage) in zip(stems, itertools.cycle(DAMAGES), strict=False):
        files = [path for path in (cache / "cuda").glob(names) if path.name.split(".")[0] == stem]
        assert files
        for file in files:
            damage(file)
    assert made_and_found(libraries, log, cache) == (made, 0)
    assert made_and_found(libraries, log, cache) == (made, made)
    (cache / "cuda").chmod(0o777)
    assert made_and_found(libraries, log, cache)[1] == 0, "others could have written to the folder"


@pytest.mark.slow
def test_training(libraries: Path, tmp_path: Path) -> None:
    _, lines = part(libraries, tmp_path / "log", "training")
    assert lines.count("capture begins") == 3  # the gradient; Gv and its second half


def test_threads_do_not_disturb_a_capture(libraries: Path, tmp_path: Path) -> None:
    _, lines = part(libraries, tmp_path / "log", "threads")
    assert lines.count("capture begins") == 6


def test_memory_that_is_let_go_is_found_again(libraries: Path, tmp_path: Path) -> None:
    printed, _ = part(libraries, tmp_path / "log", "memory", STUB_MEMORY=str(64 << 20))
    assert "the function needs 160.0 MiB of memory, and " in printed


def test_arrays_of_other_libraries(libraries: Path, tmp_path: Path) -> None:
    part(libraries, tmp_path / "log", "exchange")


def test_products_by_a_library(libraries: Path, tmp_path: Path) -> None:
    _, lines = part(libraries, tmp_path / "log", "products", str(libraries / "libcublas.so"))
    assert lines.count("capture begins") == 2


NO_GPU = "finds no NVIDIA GPU that it could use ("


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"STUB_VERSION": "12040"}, "driver is too old: it knows CUDA 12.4, and kernels are compiled for CUDA 13"),
        ({"STUB_CAPABILITY": "70"}, "compute capability is 7.0; CUDA 13 makes code for 7.5 and newer"),
        ({"STUB_RETAIN": "46"}, NO_GPU),
        ({"STUB_COUNT": "0"}, NO_GPU),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(
    settings: dict[str, str], said: str, libraries: Path, tmp_path: Path
) -> None:
    program = """
import graphnet as gn
from graphnet.backends import usable_backends
x = gn.input((2,))
try:
    gn.compile([x + 1.0], [x], backend="cuda")
except gn.BackendError as error:
    print(error)
print(usable_backends())
"""
    printed, _ = used(libraries, tmp_path / "log", "-c", program, **settings)
    first, *_, last = printed.splitlines()
    assert said in first
    assert "backend='numba' runs on the CPU" in first
    assert last == "['numpy', 'numba']"


def test_a_failed_launch_is_told(libraries: Path, tmp_path: Path) -> None:
    program = """
import graphnet as gn, numpy as np
x = gn.input((2,))
function = gn.compile([x + 1.0], [x], backend="cuda")
function(np.ones(2, "f4"))
try:
    function(np.ones(2, "f4"))
except gn.BackendError as error:
    print(error)
"""
    printed, _ = used(libraries, tmp_path / "log", "-c", program, STUB_GRAPH="700")
    assert printed.startswith("cuGraphLaunch failed: an error of the stub")
