"""Processes of runs. On Linux, each is a fork of one process, the fork server, which has already imported everything.

The fork server is `python -m graphnet_rnn.apps.sweep.fork_server`. It reads requests from a socket, its standard
input, and ends with the process that started it. Then its runs get SIGTERM, and write their checkpoints.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import NoReturn, Protocol

from graphnet.system.streams import prepare_streams
from graphnet_rnn.parallel.launcher import alone

#: Modules that every run imports.
MODULES = (
    "graphnet_rnn.apps.cli.train", "graphnet_rnn.apps.cli.console", "graphnet_rnn.optimizers.all",
    "graphnet.call.function", "graphnet.backends.numba.backend", "graphnet.backends.numba.program", "safetensors.numpy",
    "viz.charts.curves", "viz.charts.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg",
)  # fmt: skip
#: Maximum length of a request in bytes.
LONGEST = 1 << 20
#: Option of Linux's prctl: signal this process when its parent dies.
PDEATHSIG = 1


class Process(Protocol):
    """Methods of subprocess.Popen that a sweep uses."""

    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int | None: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...
    def communicate(self) -> tuple[str, str]: ...


def start(command: Sequence[str], cores: Sequence[int]) -> Process:
    """Starts `graphnet-rnn` with these arguments on these cores, without input and output. Errors are texts."""
    if sys.platform == "linux":
        return _Fork(command, cores)
    return subprocess.Popen(
        [sys.executable, "-m", "graphnet_rnn", *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        start_new_session=True, env=alone(os.environ),
    )  # fmt: skip


class _Fork:
    """A fork of the fork server."""

    def __init__(self, command: Sequence[str], cores: Sequence[int]) -> None:
        self.returncode: int | None = None
        reading, writing = os.pipe()
        self._report, self._errors = os.fdopen(reading, "rb", buffering=0), tempfile.TemporaryFile()  # noqa: SIM115
        request = json.dumps([list(command), list(cores), os.getcwd()]).encode()
        FORK_SERVER.send(request, [writing, self._errors.fileno()])
        os.close(writing)
        self._pid = self._line()

    def _line(self) -> int:
        """The next number of the fork server; 1 if it did not start, that of SIGKILL if it was killed."""
        found = b""
        while not found.endswith(b"\n"):
            more = self._report.read(1)
            if not more:
                return 1 if os.fstat(self._errors.fileno()).st_size else -signal.SIGKILL
            found += more
        return int(found)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("graphnet-rnn train", timeout or 0)
            self.returncode = self._line()
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        self.wait()
        with self._report, self._errors:
            self._errors.seek(0)
            return "", self._errors.read().decode(errors="replace")


class _ForkServer:
    """The fork server of this process, started by the first request, and again if it was killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def send(self, request: bytes, files: Sequence[int]) -> None:
        with self._lock:
            if self._running is not None:
                with contextlib.suppress(OSError):
                    socket.send_fds(self._running[1], [request], files)
                    return
                self.end()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-m", "graphnet_rnn.apps.sweep.fork_server"],
                    stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=files[1],
                    start_new_session=True, env=alone(os.environ),
                )  # fmt: skip
            self._running = process, ours
            socket.send_fds(ours, [request], files)

    def end(self) -> None:
        if self._running is not None:
            process, requests = self._running
            requests.close()
            process.wait()
            self._running = None


FORK_SERVER = _ForkServer()
atexit.register(FORK_SERVER.end)


# -- in the fork server ----------------------------------------------------------------------------


def main() -> None:
    requests = socket.socket(fileno=os.dup(0))
    for name in MODULES:
        with contextlib.suppress(ImportError):  # a package that is not installed
            importlib.import_module(name)
    running: dict[int, int] = {}  # process -> where its end is reported
    signal.signal(signal.SIGCHLD, lambda *_: _report(running))
    while True:
        request, files, *_ = socket.recv_fds(requests, LONGEST, 2)
        if not request:
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        report, errors = files
        number, server = 0, os.getpid()
        with contextlib.suppress(OSError):  # no more processes or memory
            number = os.fork()
            if not number:
                requests.close()
                for each in (*running.values(), report):
                    os.close(each)
                _train(server, errors, *json.loads(request))
        os.close(errors)
        if number:
            running[number] = report
            os.write(report, f"{number}\n".encode())
        else:
            os.close(report)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _report(running: dict[int, int]) -> None:
    """Reports the processes that have ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            number, status = os.waitpid(-1, os.WNOHANG)
            if not number:
                return
            report = running.pop(number)
            with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(report)


def _train(server: int, errors: int, command: list[str], cores: list[int], folder: str) -> NoReturn:
    """Runs the command in this process, and ends it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # which is the socket of the fork server
        os.dup2(errors, 2)
        import ctypes

        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGTERM)
        os.setsid()
        os.chdir(folder)
        if cores:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, cores)
        if os.getppid() == server:  # else it has already died
            sys.argv = ["graphnet-rnn", *command]
            runpy.run_module("graphnet_rnn", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    prepare_streams()
    main()
