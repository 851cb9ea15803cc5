"""run.py says plainly what is missing and how to mend it, and installs only when it must."""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from graphnet_rnn.cli import COMMANDS

ROOT = Path(__file__).parent.parent
Version = namedtuple("Version", "major minor micro")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """run.py as a module that works in an empty folder and starts no process."""
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "stamp")
    monkeypatch.setattr(module, "CONSTRAINTS", tmp_path / "constraints.txt")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return module


@pytest.fixture
def started(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that run.py starts; a virtual environment appears at once."""
    commands: list[list[str]] = []

    def start(command: list[str], **how: Any) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=0)

    def create(folder: Path, with_pip: bool) -> None:
        assert with_pip
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").touch()

    monkeypatch.setattr(run.subprocess, "run", start)
    monkeypatch.setattr(run, "become", lambda command, *environment: start(command).returncode)
    monkeypatch.chdir(run.HERE)  # put back afterwards, wherever the command works
    monkeypatch.setattr("venv.create", create)
    return commands


def call(run: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    before = signal.getsignal(signal.SIGINT)
    try:
        return int(run.main())
    finally:
        signal.signal(signal.SIGINT, before)


def test_old_python(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", Version(3, 9, 2))
    with pytest.raises(
        SystemExit, match=r"Python 3\.9\.2 is too old; graphnet needs 3\.11 or newer, e\.g\. python3\.12"
    ):
        call(run, monkeypatch, "demo")


def test_a_command_that_is_none_installs_nothing(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, started: list[list[str]]
) -> None:
    with pytest.raises(SystemExit, match=r"there is no command 'trian'; there are demo, train, .*--help"):
        call(run, monkeypatch, "trian", "book.txt")
    assert not started
    assert set(run.PROGRAM) == set(COMMANDS)


def test_no_venv(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Debian without the package python3-venv."""
    right = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "ensurepip":
            raise ImportError(name)
        return right(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        SystemExit, match=r"comes without venv/ensurepip\. On Debian or Ubuntu: apt install python3\.\d+-venv"
    ):
        call(run, monkeypatch, "demo")


def test_no_network(run: ModuleType, started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=1))
    with pytest.raises(SystemExit, match=r"could not be installed.*no network.*run the same command again"):
        call(run, monkeypatch, "demo")
    assert not run.STAMP.exists()


def test_full_disk(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(folder: Path, with_pip: bool) -> None:
        folder.mkdir()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("venv.create", create)
    with pytest.raises(SystemExit, match=r"No space left on device"):
        call(run, monkeypatch, "demo")
    assert not run.VENV.exists()


def test_installs_again_only_when_requirements_changed(
    run: ModuleType, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extra is added when a command first needs it."""

    def installs() -> list[str]:
        found = [command[-1] for command in started if "install" in command]
        started.clear()
        return found

    assert call(run, monkeypatch, "demo") == 0
    assert installs() == [str(run.HERE)]
    call(run, monkeypatch, "train", "x.txt")
    assert installs() == []
    call(run, monkeypatch, "test", "-k", "lstm")
    assert installs() == [f"{run.HERE}[test]"]
    call(run, monkeypatch, "demo")
    assert installs() == []
    (run.HERE / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    call(run, monkeypatch, "demo")
    assert installs() == [str(run.HERE)]


def test_words_are_passed_on(
    run: ModuleType, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    call(run, monkeypatch, "sample", "model", "--length", "5")
    assert started[-1][1:] == ["-m", "graphnet_rnn", "sample", "model", "--length", "5"]


@pytest.mark.parametrize(
    ("words", "extras", "program"),
    [
        (["elsewhere", "--seed", "7"], "test", ["-m", "tests.steps", "elsewhere", "--seed", "7"]),
        (["newcomer", "docs"], "test", ["-m", "tests.newcomer", "docs"]),
        (["everything"], "browser,docs,peers,test,tutorials", ["-m", "tests.everything"]),
    ],
)
def test_steps_of_ci_come_with_their_extras(
    run: ModuleType, started: list[list[str]], monkeypatch: pytest.MonkeyPatch, words: list[str], extras: str,
    program: list[str],
) -> None:  # fmt: skip
    call(run, monkeypatch, *words)
    assert started[0][-1] == f"{run.HERE}[{extras}]"
    assert started[-1][1:] == program


def test_exact_versions_are_installed_where_they_are_given(
    run: ModuleType, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And anew when they have changed."""
    run.CONSTRAINTS.write_text("numpy==2.4.0\n", encoding="utf-8")
    call(run, monkeypatch, "demo")
    assert started[0][started[0].index("--constraint") + 1] == str(run.CONSTRAINTS)
    started.clear()
    call(run, monkeypatch, "demo")
    assert len(started) == 1
    run.CONSTRAINTS.write_text("numpy==2.4.1\n", encoding="utf-8")
    call(run, monkeypatch, "demo")
    assert "--constraint" in started[1]


def test_docs_are_built_anew_with_their_extra(
    run: ModuleType, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = run.HERE / "build" / "docs"
    pages.mkdir(parents=True)
    (pages / "stale.html").touch()
    assert call(run, monkeypatch, "docs", "-D", "nb_execution_mode=off") == 0
    assert started[0][-1] == f"{run.HERE}[docs]"
    assert started[-1][1:3] == ["-m", "sphinx"]
    assert "-W" in started[-1]
    assert started[-1][-4:] == ["-D", "nb_execution_mode=off", str(run.HERE / "docs"), str(pages)]
    assert not pages.exists()


def test_tutorials_need_their_extra(
    run: ModuleType, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    call(run, monkeypatch, "tutorials", "3", "--execute")
    assert started[0][-1] == f"{run.HERE}[tutorials]"
    assert started[-1][1:] == [str(run.HERE / "tutorials"), "3", "--execute"]


def test_no_words_show_help() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "run.py")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "python3 run.py demo" in result.stdout


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with run.py whose environment is made."""
    for name in ("run.py", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    # A link to the interpreter would lose its packages' place; none are needed here.
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    stamp = hashlib.sha256((tmp_path / "pyproject.toml").read_bytes() + sys.version.encode()).hexdigest()
    (tmp_path / ".venv" / "graphnet-installed").write_text(stamp)
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="signals to others are POSIX")
@pytest.mark.parametrize(
    ("send", "number"),
    [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM), (os.kill, signal.SIGHUP)],
    ids=["Ctrl-C, to all of the terminal", "SIGTERM, to run.py alone", "SIGHUP, to run.py alone"],
)
def test_signals_are_the_programs(made: Path, send: Callable[[int, int], None], number: int) -> None:
    """Training that is interrupted writes its checkpoint, however long that takes."""
    (made / "child.py").write_text(
        "import pathlib, signal, sys, time\n"
        "def end(number, frame):\n"
        "    time.sleep(1)\n"
        "    pathlib.Path('checkpoint').touch()\n"
        "    sys.exit(100 + number)\n"
        f"signal.signal({int(number)}, end)\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "run.py", "python", "child.py"],
        cwd=made, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "ready\n"
        send(process.pid, number)
        assert process.wait(300) == 100 + number
    assert (made / "checkpoint").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals to others are POSIX")
@pytest.mark.parametrize("waits_for", ["lock", "program"])
def test_ctrl_c_before_a_program_begins_ends_quietly(made: Path, waits_for: str) -> None:
    """While another process makes the environment, and while pip works: no missing network is blamed for its end."""
    import fcntl

    held = os.open(made, os.O_RDONLY)
    if waits_for == "lock":
        fcntl.flock(held, fcntl.LOCK_EX)
    else:
        (made / ".venv" / "graphnet-installed").write_text("")
        (made / "venv.py").write_text(
            "import pathlib\n"
            "def create(folder, with_pip):\n"
            "    (folder / 'bin').mkdir(parents=True)\n"
            "    pip = folder / 'bin' / 'python'\n"
            "    pip.write_text('#!/bin/sh\\ntouch started; exec sleep 300\\n')\n"
            "    pip.chmod(0o755)\n"
        )
    process = subprocess.Popen(
        [sys.executable, "run.py", "cells"],
        cwd=made, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("run.py: ")
    if waits_for == "program":
        while not (made / "started").exists():
            assert process.poll() is None
            time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=300)
    os.close(held)
    assert process.returncode == 130
    assert said.strip() in ("", "interrupted")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is Linux's")
def test_help_that_cannot_be_written() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = subprocess.run(
            [sys.executable, str(ROOT / "run.py"), "--help"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == "run.py: the text cannot be written to standard output: No space left on device\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows locks no folder")
def test_two_at_once_make_one_environment(made: Path) -> None:
    import fcntl

    (made / "child.py").write_text("print('done')\n")
    held = os.open(made, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    process = subprocess.Popen(
        [sys.executable, "run.py", "python", "child.py"], cwd=made, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert (
            process.stdout.readline() == f"run.py: another process makes {made / '.venv'}; waiting for it\n"
        )
        os.close(held)
        assert process.stdout.read() == "done\n"
    assert process.wait(300) == 0
