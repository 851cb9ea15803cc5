"""The path on a real GPU, down to the driver: all but what kernels compute. See `stub`."""

from __future__ import annotations

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
        command = [
            str(COMPILER),
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            "-o",
            str(folder / library),
            str(HERE / source),
        ]
        subprocess.run([*command, "-ldl"], check=True)
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
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
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
gn.compile([gn.tanh(x) + gn.sum(x)], [x], backend="cuda")(np.ones((5, 6), "f4"))
hits = [sum(d.stats.cache_hits.values()) for d in made]
print(len(hits), sum(hits))
"""


def made_and_found(libraries: Path, log: Path, cache: Path) -> tuple[int, int]:
    printed, _ = used(libraries, log, "-c", WATCHED, GRAPHNET_CACHE=str(cache))
    made, found = map(int, printed.split())
    return made, found


@pytest.fixture(scope="module")
def cache(libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one process that has run WATCHED."""
    folder = tmp_path_factory.mktemp("kept")
    made, found = made_and_found(libraries, folder / "log", folder / "cache")
    assert made > 1
    assert found == 0
    return folder / "cache"


def test_a_second_process_compiles_nothing(libraries: Path, tmp_path: Path, cache: Path) -> None:
    made, found = made_and_found(libraries, tmp_path / "log", cache)
    assert made == found


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


@pytest.mark.parametrize(
    ("names", "damage"),
    [
        ("*.py", cut),
        ("*.py", execute),
        ("__pycache__/*.nbc", flip),
        ("__pycache__/*.nb?", unpickle),
        ("__pycache__/*.nbi", fold),
        ("__pycache__/*.nb?", pipe),
        ("*.seal", cut),
        ("*.seal", pipe),
    ],
)
def test_what_is_kept_of_kernels_repairs_itself(
    libraries: Path, tmp_path: Path, cache: Path, names: str, damage: Callable[[Path], None]
) -> None:
    copied = Path(shutil.copytree(cache, tmp_path / "cache"))
    files = sorted((copied / "cuda").glob(names))
    assert files
    for file in files:
        damage(file)
    made, found = made_and_found(libraries, tmp_path / "log", copied)
    assert found == 0
    assert made_and_found(libraries, tmp_path / "log", copied) == (made, made)


def test_a_folder_that_others_can_write_to_is_not_used(libraries: Path, tmp_path: Path, cache: Path) -> None:
    copied = Path(shutil.copytree(cache, tmp_path / "cache"))
    (copied / "cuda").chmod(0o777)
    assert made_and_found(libraries, tmp_path / "log", copied)[1] == 0


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


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"STUB_VERSION": "12040"},
            r"driver is too old: it knows CUDA 12.4, and kernels are compiled for CUDA 13",
        ),
        ({"STUB_CAPABILITY": "70"}, r"compute capability is 7.0; CUDA 13 makes code for 7.5 and newer"),
        ({"STUB_RETAIN": "46"}, r"finds no NVIDIA GPU that it could use ("),
        ({"STUB_INIT": "100"}, r"finds no NVIDIA GPU that it could use ("),
        ({"STUB_COUNT": "0"}, r"finds no NVIDIA GPU that it could use ("),
    ],
)
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
