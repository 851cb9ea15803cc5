"""Starting a command: Ctrl-C during imports, and Python without docstrings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import graphnet

ROOT = Path(graphnet.__file__).parents[1]
#: Imported as NumPy. A module may mistake Ctrl-C for a failed import.
INTERRUPTED = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)
except BaseException:
    raise ImportError("numpy cannot be imported")
"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process alone")


def start(words: list[str], place: Path, ignored: bool = False) -> subprocess.CompletedProcess[str]:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)

    path = os.pathsep.join([str(place), str(ROOT)])
    return subprocess.run(
        [sys.executable, *words], cwd=place, preexec_fn=ignore, capture_output=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}, encoding="utf-8",
    )  # fmt: skip


def test_ctrl_c_during_imports_ends_quietly_and_other_programs_keep_theirs(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text(INTERRUPTED, encoding="utf-8")
    entry_point = "import sys\nfrom graphnet_rnn.__main__ import main\nsys.exit(main())\n"
    (tmp_path / "graphnet-rnn").write_text(entry_point, encoding="utf-8")
    for words in (["-Bmgraphnet_rnn"], ["graphnet-rnn"]):
        ended = start([*words, "cells"], tmp_path)
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "\ninterrupted\n")
    uses = "import graphnet_rnn; graphnet_rnn.Network"
    (tmp_path / "other.py").write_text(uses, encoding="utf-8")
    for words in (["-c", uses], ["-m", "other", "-m", "graphnet_rnn"]):
        ended = start(words, tmp_path)
        assert ended.returncode == 1
        assert "numpy cannot be imported" in ended.stderr


def test_ignored_ctrl_c_stays_ignored(tmp_path: Path) -> None:
    """SIGINT is ignored in background jobs of a script."""
    said = "import atexit, signal\natexit.register(lambda: print(signal.getsignal(signal.SIGINT)))\n"
    (tmp_path / "sitecustomize.py").write_text(said, encoding="utf-8")
    version, handler = start(["-m", "graphnet_rnn", "--version"], tmp_path, ignored=True).stdout.splitlines()
    assert version == f"graphnet-rnn {graphnet.__version__}"
    assert handler in ("1", "Handlers.SIG_IGN")


def test_without_docstrings(tmp_path: Path) -> None:
    """PYTHONOPTIMIZE=2, as in some containers, removes docstrings."""
    ended = start(["-OO", "-m", "graphnet_rnn", "cells", "LSTM"], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout
    assert "run.py" in start(["-OO", str(ROOT / "run.py"), "--help"], tmp_path).stdout
