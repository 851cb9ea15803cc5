"""Processes of mpiexec: the same bytes as one alone, and what happens when one of them fails."""

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

from graphnet_rnn.cli import main
from graphnet_rnn.parallel import ALONE
from graphnet_rnn.parallel.mpi import takes_gpu
from graphnet_rnn.sweep import Sweep
from tests.graphnet_rnn.parallel.program import training
from tests.graphnet_rnn.training.runs import contents, require_same_files
from viz.charts.history import read_history

ROOT = Path(__file__).parents[3]
MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
)
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or MPIEXEC is None, reason="the extra `mpi` is not installed"
)
TEXT = "the cat sat on the mat, and the rat sat on the hat.\n" * 40
TRAIN = (
    "graphnet_rnn", "train", "book.txt", "--cell=GRU", "--units=6", "--time=6", "--batch=4", "--sample=0", "--quiet",
)  # fmt: skip


def started(size: int, folder: Path, *module: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", *module]
    words = command if size == 1 else [str(MPIEXEC), "-n", str(size), *command]
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ran(size: int, folder: Path, *module: str) -> tuple[int, str]:
    """The exit code, and all that was said. One alone is this process."""
    if size == 1 and module[0] == "graphnet_rnn":
        with contextlib.chdir(folder):
            return main(module[1:]), ""
    out, said = started(size, folder, *module).communicate(timeout=600)
    return _code(said, out), out + said


def _code(said: str, out: str) -> int:
    return 1 if "graphnet-rnn" in said or "Traceback" in said else 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def test_sums_and_agreement(tmp_path: Path) -> None:
    assert ran(3, tmp_path, "tests.graphnet_rnn.parallel.program", "sums") == (0, "well")


HOW = [
    pytest.param(("--optimizer=hf(cg_steps=4)", "--gradient-batches=5"), id="independent sequences"),
    pytest.param(("--shares=4", "--dropout=0.2", "--layers=2"), id="carried states", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("how", HOW)
def test_training_gives_the_same_bytes(how: tuple[str, ...], folder: Path) -> None:
    """Two, and the one that goes on with their run, make that of one; three of them are threads elsewhere."""
    assert ran(1, folder, *TRAIN, *how, "--epochs=2", "--out=1") == (0, "")
    assert ran(2, folder, *TRAIN, *how, "--epochs=1", "--out=on") == (0, "")
    assert ran(1, folder, "graphnet_rnn", "train", "--resume=on", "--epochs=2", "--quiet") == (0, "")
    require_same_files(contents(folder / "on"), contents(folder / "1"))


@pytest.mark.slow
def test_the_winner_of_a_sweep_by_hessian_free(folder: Path) -> None:
    """Sweep, winner, Hessian-free on one process and on two: the same bytes. The weights to begin with are its."""
    (folder / "recipe.toml").write_text(
        'data = "book.txt"\n[settings]\ncell = "GRU"\nunits = { values = [3, 6] }\ntime = 6\nbatch = 4\n'
        "sample = 0\nrate = 0.02\nepochs = 1\n",
        encoding="utf-8",
    )
    assert ran(1, folder, "graphnet_rnn", "sweep", "recipe.toml", "--out=sweep", "--quiet") == (0, "")
    winner = Sweep(None, folder / "sweep").book.best()[0].runs[0].run
    how = (
        "graphnet_rnn", "train", "book.txt", f"--start={winner / 'model.safetensors'}", "--optimizer=hf(cg_steps=4)",
        "--gradient-batches=4", "--time=6", "--batch=4", "--epochs=1", "--sample=0", "--quiet",
    )  # fmt: skip
    for size in (1, 2):
        assert ran(size, folder, *how, f"--out={size}") == (0, "")
    require_same_files(contents(folder / "2"), contents(folder / "1"))
    before, after = (
        next(row for row in read_history(path / "history.jsonl") if row["event"] == event)
        for path, event in ((winner, "epoch"), (folder / "2", "initial"))
    )
    assert before["weight_norms"] == after["weight_norms"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [("--optimizer=hf(cg_steps=3)", "--gradient-batches=9"), ("--shares=8", "--batch=8")],
    ids=["independent sequences", "carried states"],
)
def test_up_to_eight_processes(how: tuple[str, ...], folder: Path) -> None:
    """More than there are cores; 9 batches are no multiple of either number."""
    for size in (1, 4, 8):
        assert ran(size, folder, *TRAIN, *how, "--epochs=1", "--steps=3", f"--out={size}") == (0, "")
        require_same_files(contents(folder / str(size)), contents(folder / "1"))


@pytest.mark.slow
@pytest.mark.cuda
def test_sums_go_through_the_host_where_a_gpu_computes(tmp_path: Path) -> None:
    """Gradient, products of conjugate gradient and losses, of two processes that have a device each."""
    (tmp_path / "book.txt").write_text("abcab cabba\n" * 60, encoding="utf-8")
    how = (
        "graphnet_rnn", "train", "book.txt", "--cell=Elman", "--units=3", "--time=4", "--batch=2", "--backend=cuda",
        "--optimizer=hf(cg_steps=2)", "--gradient-batches=2", "--steps=2", "--sample=0", "--quiet",
    )  # fmt: skip
    for size in (1, 2):
        assert ran(size, tmp_path, *how, f"--out={size}") == (0, "")
    require_same_files(contents(tmp_path / "2"), contents(tmp_path / "1"))


@pytest.mark.cuda
def test_sums_where_vectors_lie_on_a_gpu(tmp_path: Path) -> None:
    assert ran(2, tmp_path, "tests.graphnet_rnn.parallel.program", "on_a_gpu") == (0, "well")


def test_what_mpi_says_of_gpus() -> None:
    def communicator(kinds: str | None) -> Any:
        return SimpleNamespace(Get_info=lambda: SimpleNamespace(Get=lambda key: kinds))

    assert takes_gpu(communicator("mpi,system,cuda:device:managed"))
    for kinds in (None, "", "mpi,system", "system,rocm"):
        assert not takes_gpu(communicator(kinds))


def test_the_first_speaks_for_all(folder: Path) -> None:
    _, said = ran(2, folder, *TRAIN, "--unitss=3")
    assert said.count("unrecognized arguments") == 1
    _, said = ran(2, folder, *TRAIN[:-1], "--shares=2", "--steps=1")
    assert said.count("try: ") == 1
    assert len(list((folder / "runs").iterdir())) == 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody has stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    training(ALONE, "well", str(folder))
    return folder


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("raises", "graphnet-rnn: rank 1 of 2: the disk of this machine is gone"),
        pytest.param(
            "hangs",
            "graphnet-rnn: rank 1 of 2 did not answer for 2 s; the run can be resumed",
            marks=pytest.mark.slow,
        ),
        (
            "dies",
            "graphnet-rnn: of 2 processes one was killed, which ended the run; it goes on from its last checkpoint: "
            "train --resume run, or trainer.resume()",
        ),
    ],
)
def test_one_that_fails_ends_all_and_the_run_goes_on(
    what: str, sentence: str, tmp_path: Path, whole: Path
) -> None:
    process = started(2, tmp_path, "tests.graphnet_rnn.parallel.program", what, "run")
    _, said = process.communicate(timeout=600)
    assert process.returncode != 0
    assert said.count("graphnet-rnn:") == 1
    assert sentence in said
    training(ALONE, "well", str(tmp_path / "run"))
    require_same_files(contents(tmp_path / "run"), contents(whole))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_reaches_all(number: int, folder: Path) -> None:
    process = started(2, folder, *TRAIN, "--shares=2", "--epochs=1000000", "--no-early-stopping", "--out=run")
    end = time.monotonic() + 300
    while not list((folder / "run").glob("model*")) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=600)
    assert process.returncode != 0
    assert ran(1, folder, "graphnet_rnn", "train", "--resume=run", "--epochs=1", "--quiet") == (0, "")


@pytest.mark.slow
def test_other_data_on_another_machine(folder: Path) -> None:
    for rank, text in enumerate((TEXT, TEXT.replace("mat", "tam"))):
        (folder / str(rank)).mkdir()
        (folder / str(rank) / "book.txt").write_text(text, encoding="utf-8")
    words = " ".join([sys.executable, "-m", *TRAIN, "--shares=2", f"--out={folder / 'run'}"])
    shell = f"cd ${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}} && exec {words}"
    process = subprocess.run(
        [str(MPIEXEC), "-n", "2", "sh", "-c", shell],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert process.returncode != 0
    assert "process 1 is not about to do what process 0 does: the text is another one" in process.stderr
    assert not (folder / "run").exists()
