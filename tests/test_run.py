"""run.py reports obstacles with remedies, and installs only when necessary."""

from __future__ import annotations

import builtins
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import IO, Any

import pytest

from graphnet_rnn.apps.cli import all_commands
from tests.tables import case

ROOT = Path(__file__).parent.parent
Call = Callable[..., list[list[str]]]
posix = pytest.mark.skipif(os.name == "nt", reason="signals to others, and locks of folders, are POSIX")


@pytest.fixture
def run(tmp_path: Path) -> ModuleType:
    """run.py as a module that works in a folder without an environment."""
    (tmp_path / "run.py").write_bytes((ROOT / "run.py").read_bytes())
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    module = ModuleType("run")
    module.__file__ = str(tmp_path / "run.py")
    exec((tmp_path / "run.py").read_text(encoding="utf-8"), vars(module))
    return module


@pytest.fixture
def call(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls run.py with words, and gives the commands that it starts; a virtual environment appears at once."""
    commands: list[list[str]] = []

    def start(command: list[str], **how: Any) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=0)

    def create(folder: Path, with_pip: bool) -> None:
        assert with_pip
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").touch()

    def called(*words: str) -> list[list[str]]:
        commands.clear()
        monkeypatch.setattr(sys, "argv", ["run.py", *words])
        before = signal.getsignal(signal.SIGINT)
        try:
            assert run.main() == 0
        finally:
            signal.signal(signal.SIGINT, before)
        return [*commands]

    monkeypatch.setattr(run.subprocess, "run", start)
    monkeypatch.setattr(run, "become", lambda command, *environment: start(command).returncode)
    monkeypatch.setattr("venv.create", create)
    monkeypatch.chdir(run.HERE)  # put back afterwards, wherever the command works
    return called


def test_obstacles_to_a_start_are_reported(
    run: ModuleType, call: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has a remedy, and no partial environment is left."""
    import_module = builtins.__import__

    def without_ensurepip(name: str, *rest: Any, **more: Any) -> Any:
        """As on Debian without the package python3-venv."""
        if name == "ensurepip":
            raise ImportError(name)
        return import_module(name, *rest, **more)

    def full(folder: Path, with_pip: bool) -> None:
        folder.mkdir()
        raise OSError(28, "No space left on device")

    offline = lambda *command, **how: SimpleNamespace(returncode=1)
    old = namedtuple("Version", "major minor micro")(3, 9, 2)
    for place, name, put, told in (
        (sys, "version_info", old, r"3\.9\.2 is too old; graphnet needs 3\.11 or newer"),
        (builtins, "__import__", without_ensurepip, r"apt install python3\.\d+-venv"),
        (run.subprocess, "run", offline, "no network.*run the same command again"),
        (venv, "create", full, "No space left on device"),
    ):
        with case(name), monkeypatch.context() as patch:
            patch.setattr(place, name, put)
            with pytest.raises(SystemExit, match=told):
                call("demo")
        assert not run.STAMP.exists()
        if name == "create":
            assert not run.VENV.exists()
    with pytest.raises(SystemExit, match=r"no command 'trian'; the commands are demo, train, .*--help"):
        call("trian", "book.txt")
    monkeypatch.setattr(sys, "argv", ["run.py"])
    assert run.main() == 2
    assert "python3 run.py demo" in capsys.readouterr().out
    assert not run.STAMP.exists()
    assert set(run.PROGRAM) == set(all_commands()), "add the command to PROGRAM in run.py"


def test_installs_again_only_when_requirements_changed(run: ModuleType, call: Call) -> None:
    """Extras are installed when first needed; constraints are used if given."""

    def installed(*words: str) -> list[str]:
        return [command[-1] for command in call(*words) if "install" in command]

    assert installed("demo") == [str(run.HERE)]
    assert installed("train", "x.txt") == []
    assert installed("test", "-k", "lstm") == [f"{run.HERE}[test]"]
    assert installed("demo") == []
    (run.HERE / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    assert installed("demo") == [str(run.HERE)]
    for version in ("2.4.0", "2.4.1"):
        run.CONSTRAINTS.write_text(f"numpy=={version}\n", encoding="utf-8")
        install, _ = call("demo")
        assert install[install.index("--constraint") + 1] == str(run.CONSTRAINTS)
        assert installed("demo") == []


def test_each_command_starts_its_program_with_its_extras(run: ModuleType, call: Call) -> None:
    """Docs are rebuilt, and warnings are errors."""
    pages = run.HERE / "build" / "docs"
    pages.mkdir(parents=True)
    sphinx = f"-m sphinx -b html -q -W --keep-going -n -D nb_execution_mode=off {run.HERE / 'docs'} {pages}"
    for words, extras, program in (
        ("sample model --length 5", "", "-m graphnet_rnn sample model --length 5"),
        ("elsewhere --seed 7", "[test]", "-m tests.steps elsewhere --seed 7"),
        ("newcomer docs", "[test]", "-m tests.newcomer docs"),
        ("everything", "[browser,docs,peers,test,tutorials]", "-m tests.everything"),
        ("tutorials 3 --execute", "[tutorials]", f"{run.HERE / 'tutorials'} 3 --execute"),
        ("docs -D nb_execution_mode=off", "[docs]", sphinx),
    ):
        run.STAMP.unlink(missing_ok=True)
        install, start = call(*words.split())
        with case(words):
            assert install[-1] == f"{run.HERE}{extras}"
            assert " ".join(start[1:]) == program
    assert not pages.exists()


@pytest.fixture
def made(run: ModuleType) -> Path:
    """A folder with run.py whose environment is made."""
    run.PYTHON.parent.mkdir(parents=True)
    # A link to the interpreter would lose its packages' place; none are needed here.
    run.PYTHON.symlink_to(sys.executable)
    run.STAMP.write_text(hashlib.sha256(run.requirements() + sys.version.encode()).hexdigest())
    return run.HERE


def started(made: Path, *words: str) -> tuple[subprocess.Popen[str], IO[str]]:
    process = subprocess.Popen(
        [sys.executable, "run.py", *words],
        cwd=made, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, process.stdout


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_are_passed_to_the_program(made: Path, name: str) -> None:
    """Interrupted training may take time to write its checkpoint. Ctrl-C goes to all processes of a terminal."""
    number = int(signal.Signals[name])
    (made / "child.py").write_text(
        "import pathlib, signal, sys, time\n"
        "def end(number, frame):\n"
        "    time.sleep(1)\n"
        "    pathlib.Path('checkpoint').touch()\n"
        "    sys.exit(100 + number)\n"
        f"signal.signal({number}, end)\n"
        "print('ready', flush=True)\n"
        "while True:\n"  # a signal just before a long sleep would be handled after it
        "    time.sleep(0.1)\n"
    )
    process, said = started(made, "python", "child.py")
    assert said.readline() == "ready\n"
    (os.killpg if name == "SIGINT" else os.kill)(process.pid, number)
    process.communicate(timeout=300)
    assert process.returncode == 100 + number
    assert (made / "checkpoint").exists()


@posix
def test_ctrl_c_during_pip_is_not_reported_as_a_network_error(made: Path) -> None:
    (made / ".venv" / "graphnet-installed").write_text("")
    (made / "venv.py").write_text(
        "import pathlib\n"
        "def create(folder, with_pip):\n"
        "    (folder / 'bin').mkdir(parents=True)\n"
        "    pip = folder / 'bin' / 'python'\n"
        "    pip.write_text('#!/bin/sh\\ntouch started; exec sleep 300\\n')\n"
        "    pip.chmod(0o755)\n"
    )
    process, _ = started(made, "cells")
    while not (made / "started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    ends_quietly(process)


def ends_quietly(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    _, complaints = process.communicate(timeout=300)
    assert process.returncode == 130
    assert complaints.strip() in ("", "interrupted")


@posix
def test_concurrent_starts_create_one_environment(made: Path) -> None:
    """The second process waits, and can be interrupted."""
    import fcntl

    (made / "child.py").write_text("print('done')\n")
    held = os.open(made, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    (interrupted, first), (waits, second) = (started(made, "python", "child.py") for _ in range(2))
    for said in (first, second):
        assert said.readline() == f"run.py: another process is setting up {made / '.venv'}; waiting for it\n"
    ends_quietly(interrupted)
    os.close(held)
    assert waits.communicate(timeout=300) == ("done\n", "")
    assert waits.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is Linux's")
def test_failed_output_of_help_gives_a_one_line_error() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = subprocess.run(
            [sys.executable, str(ROOT / "run.py"), "--help"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert ended.returncode == 1
    assert re.fullmatch("run.py: .*: No space left on device\n", ended.stderr)
