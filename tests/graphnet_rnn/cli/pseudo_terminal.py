"""A program in a terminal of its own (a pseudo-terminal), its keys, and what is on its screen (pyte)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte

KEYS = {
    "tab": "\t", "enter": "\r", "backspace": "\x7f", "escape": "\x1b", "up": "\x1b[A", "down": "\x1b[B",
    "right": "\x1b[C", "left": "\x1b[D", "^S": "\x13", "^O": "\x0f", "^C": "\x03", "^Q": "\x11",
}  # fmt: skip


class Terminal:
    """Runs a command until it is closed; `rc` is its exit code then, negative for a signal."""

    def __init__(
        self,
        command: Sequence[str],
        rows: int = 12,
        columns: int = 60,
        environment: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.rc: int | None = None
        self.pid, self._master = pty.fork()
        if not self.pid:
            with contextlib.suppress(BaseException):
                if folder is not None:
                    os.chdir(folder)
                os.execvpe(
                    command[0], list(command), {**os.environ, **(environment or {}), "TERM": "xterm-256color"}
                )
            os._exit(127)
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGWINCH)

    def press(self, *keys: str) -> None:
        """Names of KEYS, or text."""
        for key in keys:
            os.write(self._master, KEYS.get(key, key).encode())

    def paste(self, text: str) -> None:
        os.write(self._master, b"\x1b[200~" + text.encode() + b"\x1b[201~")

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def style(self, row: int, column: int) -> pyte.screens.Char:
        return self.screen.buffer[row][column]

    def until(self, holds: Callable[[], bool], seconds: float = 300.0) -> None:
        """Reads what the program draws until this is so; AssertionError with the screen if it does not come."""
        end = time.monotonic() + seconds
        while not holds():
            self._read(0.05)
            if time.monotonic() > end:
                raise AssertionError(
                    "not seen; the screen is\n" + "\n".join(f"|{line}" for line in self.lines)
                )

    def rest(self, seconds: float = 0.3) -> None:
        """Reads until nothing has been drawn for so long."""
        while self._read(seconds):
            pass

    def sees(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            self._reap()
            return False
        try:
            piece = os.read(self._master, 1 << 16)
        except OSError:  # the program has gone
            self._reap()
            return False
        self._stream.feed(piece)
        return bool(piece)

    def _reap(self) -> None:
        if self.rc is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.rc = os.waitstatus_to_exitcode(status)

    def ended(self) -> bool:
        self._reap()
        return self.rc is not None

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def hang_up(self) -> None:
        """The terminal is closed by its user."""
        os.close(self._master)
        self._master = -1

    def wait(self, seconds: float = 300.0) -> int:
        """The exit code, also after the terminal was closed."""
        end = time.monotonic() + seconds
        while not self.ended():
            if self._master >= 0:
                self._read(0.05)
            else:
                time.sleep(0.05)
            assert time.monotonic() < end, "the program does not end"
        assert self.rc is not None
        return self.rc

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.ended():
            self.kill()
            self.wait()
        if self._master >= 0:
            os.close(self._master)
