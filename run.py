#!/usr/bin/env python3
"""Sets graphnet up in .venv next to this file, then runs it. Needs nothing but Python 3.11 or newer.

python3 run.py demo              draw, train and check a small network (about a minute)
python3 run.py test [ARGS]       the tests (ARGS go to pytest; see --help)
python3 run.py quick             some of each kind, in two minutes: before each merge
python3 run.py elsewhere [ARGS]  the tests as on an older processor
python3 run.py newcomer [--all]  guides and tutorials; the documentation's commands, in fresh copies of this folder
python3 run.py lint              lint and types
python3 run.py everything        all of these at full length, and more: hours
python3 run.py claims [ARGS]     measures on this machine the speeds that README and guides claim (an hour; see --help)
python3 run.py constraints       renew constraints.txt, the versions for tests and documentation
python3 run.py docs              the documentation site, into build/docs (runs all guides and tutorials: minutes)
python3 run.py tutorials         eleven tutorials as notebooks, in a browser (--execute: as pages, without one)
python3 run.py train TEXT ...    any graphnet-rnn command: train, sample, evaluate, draw, check
python3 run.py python ARGS       the environment's own Python
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "graphnet-installed"
CONSTRAINTS = HERE / "constraints.txt"
OLDEST = (3, 11)
#: Command -> the extras of pyproject.toml that it needs.
EXTRAS = {
    "test": ["test"], "quick": ["test"], "elsewhere": ["test"], "lint": ["test"],
    "newcomer": ["test"], "docs": ["docs"], "claims": ["peers"],
    "tutorials": ["tutorials"], "write": ["writer"],
    "everything": ["browser", "docs", "peers", "test", "tutorials"],
}  # fmt: skip
#: Commands of graphnet-rnn, to reject an unknown command before an installation.
PROGRAM = (
    "demo",
    "train",
    "sample",
    "write",
    "evaluate",
    "predict",
    "draw",
    "check",
    "cells",
    "export",
    "tasks",
    "control",
    "complete",
    "timelag",
    "debag",
    "sweep",
)


def prepare_streams() -> None:
    """A folder's name that the terminal's encoding cannot hold is shown as an escape, instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")


def stop(sentence: str) -> None:
    sys.exit(f"run.py: {sentence}")


def show(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # avoids an error message at exit
        stop(f"the text cannot be written to standard output: {error.strerror}")


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Within it no other process works on the environment; waits for one that does, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    folder = os.open(HERE, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"run.py: another process is setting up {VENV}; waiting for it", flush=True)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def interrupted(*_: object) -> None:
    """Ctrl-C, before a program has been started that ends in its own way."""
    print("\ninterrupted", file=sys.stderr)
    sys.exit(130)


def wait_for(command: list[str], environment: Mapping[str, str] = os.environ) -> int:
    """Runs the command to its end; its exit code. Ctrl-C reaches it as well, and ends this program only after it."""
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # in a background job of a script
        signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        code = subprocess.run(command, env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    if came and code:
        sys.exit(130)
    return code


def become(command: list[str], environment: Mapping[str, str] = os.environ) -> int:
    """Hands over to the command, so that every signal and the way it ends are its own; on Windows, waits for it."""
    if os.name == "nt":
        return wait_for(command, environment)
    sys.stdout.flush()
    os.execve(command[0], command, environment)


def requirements() -> bytes:
    """What is to be installed: the project's settings and, where they are given, exact versions."""
    pinned = CONSTRAINTS.read_bytes() if CONSTRAINTS.exists() else b""
    return (HERE / "pyproject.toml").read_bytes() + pinned


def make_environment(needed: Sequence[str]) -> None:
    """Creates .venv and installs the package with these extras, unless that has been done for these requirements."""
    wanted = hashlib.sha256(requirements() + sys.version.encode()).hexdigest()
    done = STAMP.read_text(encoding="utf-8").split() if STAMP.exists() else []
    if PYTHON.exists() and done[:1] == [wanted] and set(needed) <= set(done[1:]):
        return
    if done[:1] != [wanted]:
        done = []
        create()
    extras = sorted({*done[1:], *needed})
    target = f"{HERE}[{','.join(extras)}]" if extras else str(HERE)
    print(
        f"run.py: installing graphnet{' with ' + ', '.join(extras) if extras else ''} into {VENV} ...",
        flush=True,
    )
    install = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *(["--constraint", str(CONSTRAINTS)] if CONSTRAINTS.exists() else []),
        "--editable",
        target,
    ]
    if wait_for(install):
        stop(
            "the packages could not be installed; see the message of pip above. Most often there is no network, or "
            "a proxy is needed (set HTTPS_PROXY, or PIP_INDEX_URL for a mirror of your own). Then run the same "
            "command again."
        )
    STAMP.write_text("\n".join([wanted, *extras]), encoding="utf-8")


def renew_constraints() -> int:
    """Writes the newest versions that fit together into constraints.txt, for all extras; installs nothing."""
    import tomllib

    settings = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
    extras = ",".join(sorted(settings["project"]["optional-dependencies"]))
    resolve = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", f"{HERE}[{extras}]"]
    done = subprocess.run(
        [str(PYTHON), "-m", "pip", "--disable-pip-version-check", *resolve],
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        return done.returncode
    found = [each["metadata"] for each in json.loads(done.stdout)["install"]]
    # Without the suffix after + (CPU builds of torch): these builds are not on every index.
    pins = sorted(f"{each['name'].lower()}=={each['version'].split('+')[0]}" for each in found)
    head = "# The versions that tests and documentation are run with. Renew them: python3.11 run.py constraints\n"
    ours = f"{settings['project']['name']}=="
    lines = [f"{pin}\n" for pin in pins if not pin.startswith(ours)]
    CONSTRAINTS.write_text(head + "".join(lines), encoding="utf-8")
    return 0


def create() -> None:
    """Creates a fresh .venv; stops with a message if this Python lacks a module."""
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        stop(
            f"this Python ({sys.executable}) comes without venv/ensurepip. On Debian or Ubuntu: "
            f"apt install python{version}-venv; elsewhere install Python from python.org."
        )
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        venv.create(VENV, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(VENV, ignore_errors=True)
        stop(
            f"the environment {VENV} could not be created: {error}. Is the disk full, or the folder read-only?"
        )


def make_site(arguments: list[str]) -> int:
    """Builds the documentation anew; what guides and tutorials show is kept while the code stays as it is."""
    pages = HERE / "build" / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    sphinx = [str(PYTHON), "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-n"]
    failed = wait_for([*sphinx, *arguments, str(HERE / "docs"), str(pages)])
    if not failed:
        print(f"run.py: the site is {pages / 'index.html'}")
    return failed


def main() -> int:
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        stop(
            f"Python {found} is too old; graphnet needs {OLDEST[0]}.{OLDEST[1]} or newer, e.g. python3.12 run.py demo."
        )
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        show(__doc__ or "Help is in the first lines of run.py; python -OO removes it.")
        return 0 if len(sys.argv) > 1 else 2
    command, *arguments = sys.argv[1:]
    known = (*PROGRAM, *EXTRAS, "constraints", "python")
    if command not in known and not command.startswith("-"):
        stop(
            f"there is no command {command!r}; the commands are {', '.join(known)}. See python3 run.py --help."
        )
    if command in ("test", "quick", "elsewhere", "lint", "newcomer", "everything", "claims"):
        os.chdir(HERE)
    with alone():
        listed = command == "claims" and "--list" in arguments
        make_environment([] if listed else EXTRAS.get(command, []))
    if command in ("test", "quick", "elsewhere"):
        return become([str(PYTHON), "-m", "tests.steps", command, *arguments])
    if command in ("newcomer", "everything"):
        return become([str(PYTHON), "-m", f"tests.{command}", *arguments])
    if command == "claims":
        return become([str(PYTHON), "-m", "benchmarks.claims", *arguments])
    if command == "constraints":
        return renew_constraints()
    if command == "lint":
        steps = (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"])
        return max(wait_for([str(PYTHON), "-m", *step]) for step in steps)
    if command == "docs":
        return make_site(arguments)
    if command == "tutorials":
        return become([str(PYTHON), str(HERE / "tutorials"), *arguments])
    if command == "python":
        return become([str(PYTHON), *arguments])
    hints = {**os.environ, "GRAPHNET_COMMAND": f"python3 {sys.argv[0]}"}
    return become([str(PYTHON), "-m", "graphnet_rnn", command, *arguments], hints)


if __name__ == "__main__":
    prepare_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
    sys.exit(main())
