"""What happens to a command before it has begun: Ctrl-C during its imports, and a current folder that is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import graphnet_rnn
from graphnet_rnn import starting

ROOT = Path(graphnet_rnn.__file__).parents[1]
#: What pip writes for an entry point.
SCRIPT = """
import sys
from graphnet_rnn.cli import main
sys.exit(main())
"""
#: Imported in place of NumPy; a module may take what Ctrl-C raises for a failed import.
INTERRUPTED = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)
except BaseException:
    raise ImportError("numpy cannot be imported")
"""
#: A program that uses the package, and with it NumPy.
USES = "import graphnet_rnn; graphnet_rnn.Network"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process alone")


def start(words: list[str], place: Path, ignored: bool = False) -> subprocess.CompletedProcess[str]:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)

    path = os.pathsep.join([str(place), str(ROOT)])
    return subprocess.run(
        [sys.executable, *words], cwd=place, preexec_fn=ignore, capture_output=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}, encoding="utf-8",
    )  # fmt: skip


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A folder from which NumPy is imported, and with it a Ctrl-C."""
    (tmp_path / "numpy.py").write_text(INTERRUPTED, encoding="utf-8")
    (tmp_path / "graphnet-rnn").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("words", [["-Bmgraphnet_rnn"], ["graphnet-rnn"]], ids=" ".join)
def test_ctrl_c_during_imports_ends_quietly(interrupted: Path, words: list[str]) -> None:
    ended = start([*words, "cells"], interrupted)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "\ninterrupted\n")


@pytest.mark.parametrize(
    "words", [["-c", USES], ["-m", "other", "-m", "graphnet_rnn"]], ids=" ".join
)  # fmt: skip
def test_other_programs_keep_their_ctrl_c(interrupted: Path, words: list[str]) -> None:
    (interrupted / "other").mkdir()
    (interrupted / "other" / "__init__.py").write_text(USES)
    ended = start(words, interrupted)
    assert ended.returncode == 1
    assert "numpy cannot be imported" in ended.stderr


def test_a_ctrl_c_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """Of a job in the background of a script."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, signal\natexit.register(lambda: print(signal.getsignal(signal.SIGINT)))\n"
    )
    ended = start(["-m", "graphnet_rnn", "--version"], tmp_path, ignored=True)
    assert ended.stdout.split()[-1] in ("1", "Handlers.SIG_IGN")


def test_ctrl_c_is_python_s_again_when_the_command_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        monkeypatch.setattr(sys, "argv", ["/bin/graphnet-rnn", "cells"])
        starting._begin()
        assert signal.getsignal(signal.SIGINT) is starting._end
        starting.started()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_current_folder_that_was_removed(tmp_path: Path) -> None:
    """Its files are not merely missing."""
    gone = tmp_path / "gone"
    gone.mkdir()
    line = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", sys.executable, "-m", "graphnet_rnn", "draw", "LSTM"]
    ended = subprocess.run(
        line,
        cwd=gone,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == (
        "graphnet-rnn draw: the current folder has been removed; change to one that is there\n"
    )


def test_without_docstrings(tmp_path: Path) -> None:
    """As some containers have it: PYTHONOPTIMIZE=2."""
    ended = start(["-OO", "-m", "graphnet_rnn", "cells", "LSTM"], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout


def test_run_py_without_docstrings(tmp_path: Path) -> None:
    assert "run.py" in start(["-OO", str(ROOT / "run.py"), "--help"], tmp_path).stdout
