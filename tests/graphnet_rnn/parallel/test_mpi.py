"""Processes of mpiexec give the same bytes as one process; failing processes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphnet_rnn.apps.cli import main
from graphnet_rnn.parallel import ALONE
from graphnet_rnn.parallel.mpi import takes_gpu
from tests.graphnet_rnn.parallel.program import training
from tests.graphnet_rnn.training.runs import contents, require_same_files
from tests.tables import some_quick

ROOT = Path(__file__).parents[3]
WHERE = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
MPIEXEC = shutil.which("mpiexec", path=WHERE)
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or MPIEXEC is None, reason="the extra `mpi` is not installed"
)
TEXT = "the cat sat on the mat, and the rat sat on the hat.\n" * 40
PROGRAM = "tests.graphnet_rnn.parallel.program"
SMALL = ("graphnet_rnn", "train", "book.txt", "--time=6", "--batch=4", "--sample=0", "--quiet")
TRAIN = (*SMALL, "--cell=GRU", "--units=6")
RESUME = ("graphnet_rnn", "train", "--resume=run", "--quiet")
PIPES: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
PIPES["env"] = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def started(size: int, folder: Path, *module: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", *module]
    words = command if size == 1 else [str(MPIEXEC), "-n", str(size), *command]
    return subprocess.Popen(words, cwd=folder, **PIPES)


def ran(size: int, folder: Path, *module: str) -> tuple[int, str]:
    """The exit code, and all that was said. One alone is this process."""
    if size == 1 and module[0] == "graphnet_rnn":
        with contextlib.chdir(folder):
            return main(module[1:]), ""
    out, said = started(size, folder, *module).communicate(timeout=600)
    # Open MPI gives each process a terminal, whose colours colorama resets at the end.
    return int("graphnet-rnn" in said or "Traceback" in said), (out + said).replace("\x1b[0m", "")


def require_the_same(folder: Path, *how: str, sizes: tuple[int, ...] = (1, 2)) -> None:
    for size in sizes:
        assert ran(size, folder, *how, f"--out={size}") == (0, "")
        require_same_files(contents(folder / str(size)), contents(folder / str(sizes[0])))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def test_sums_and_agreement(tmp_path: Path) -> None:
    assert ran(3, tmp_path, PROGRAM, "sums") == (0, "well")


DRAWN = ("--optimizer=hf(cg_steps=4)", "--gradient-batches=5")
CARRIED = ("--shares=4", "--dropout=0.2", "--layers=2")


@pytest.mark.parametrize("how", [DRAWN, pytest.param(CARRIED, marks=pytest.mark.slow)])
def test_training_gives_the_same_bytes(how: tuple[str, ...], folder: Path) -> None:
    """Runs with two processes, and resumed with one, match a run with one process."""
    assert ran(1, folder, *TRAIN, *how, "--epochs=2", "--out=1") == (0, "")
    assert ran(2, folder, *TRAIN, *how, "--epochs=1", "--out=run") == (0, "")
    assert ran(1, folder, *RESUME, "--epochs=2") == (0, "")
    require_same_files(contents(folder / "run"), contents(folder / "1"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [("--optimizer=hf(cg_steps=3)", "--gradient-batches=9"), ("--shares=8", "--batch=8")]
)
def test_up_to_eight_processes(how: tuple[str, ...], folder: Path) -> None:
    """More processes than cores; 9 batches are a multiple of neither."""
    require_the_same(folder, *TRAIN, *how, "--epochs=1", "--steps=3", sizes=(1, 4, 8))


@pytest.mark.slow
@pytest.mark.cuda
def test_sums_of_gpu_results_go_through_the_host(folder: Path) -> None:
    """Gradient, conjugate gradient products and losses of two processes with a device each."""
    (folder / "book.txt").write_text("abcab cabba\n" * 60, encoding="utf-8")
    how = ("--cell=Elman", "--units=3", "--optimizer=hf(cg_steps=2)", "--gradient-batches=2", "--steps=2")
    require_the_same(folder, *SMALL, *how, "--time=4", "--batch=2", "--backend=cuda")


@pytest.mark.cuda
def test_sums_of_vectors_on_a_gpu(tmp_path: Path) -> None:
    assert ran(2, tmp_path, PROGRAM, "on_a_gpu") == (0, "well")


def test_gpu_support_is_read_from_mpi() -> None:
    def communicator(kinds: str | None) -> Any:
        return SimpleNamespace(Get_info=lambda: SimpleNamespace(Get=lambda key: kinds))

    assert takes_gpu(communicator("mpi,system,cuda:device:managed"))
    for kinds in (None, "", "mpi,system", "system,rocm"):
        assert not takes_gpu(communicator(kinds))


def test_only_the_first_process_prints(folder: Path) -> None:
    _, said = ran(2, folder, *TRAIN, "--unitss=3")
    assert said.count("unrecognized arguments") == 1
    _, said = ran(2, folder, *(word for word in TRAIN if word != "--quiet"), "--shares=2", "--steps=1")
    assert said.count("try: ") == 1
    assert len(list((folder / "runs").iterdir())) == 1


@pytest.mark.parametrize("what", some_quick(["raises", "hangs", "dies"], ["dies"]))
def test_failed_process_ends_all_and_the_run_resumes(what: str, tmp_path: Path) -> None:
    process = started(2, tmp_path, PROGRAM, what, "run")
    _, said = process.communicate(timeout=600)
    assert process.returncode != 0
    assert said.count("graphnet-rnn:") == 1
    sentence = {
        "raises": "rank 1 of 2: the disk of this machine is gone",
        "hangs": "rank 1 of 2 did not answer for 2 s; the run can be resumed",
        "dies": "one of 2 processes was killed, which ended the run; resume it from its last checkpoint: ",
    }[what]
    assert f"graphnet-rnn: {sentence}" in said
    for folder in ("run", "whole"):
        training(ALONE, "well", str(tmp_path / folder))
    require_same_files(contents(tmp_path / "run"), contents(tmp_path / "whole"))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signals_reach_all_processes(number: int, folder: Path) -> None:
    process = started(2, folder, *TRAIN, "--shares=2", "--epochs=1000000", "--no-early-stopping", "--out=run")
    end = time.monotonic() + 300
    while not list((folder / "run").glob("model*")) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=600)
    assert process.returncode != 0
    assert ran(1, folder, *RESUME, "--epochs=1") == (0, "")
