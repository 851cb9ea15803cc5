"""A program in a pseudo-terminal, with its keys and screen contents (pyte)."""

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
from collections.abc import Callable

import pyte

KEYS = {
    "tab": "\t", "enter": "\r", "backspace": "\x7f", "escape": "\x1b", "up": "\x1b[A", "down": "\x1b[B",
    "right": "\x1b[C", "left": "\x1b[D", "^S": "\x13", "^O": "\x0f", "^C": "\x03", "^Q": "\x11",
}  # fmt: skip


class Terminal:
    """Runs a command until it is closed; `rc` is its exit code then, negative for a signal; `drawn` is all it wrote."""

    def __init__(self, command, rows=12, columns=60, environment=None, folder=".") -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.drawn = b""
        self.rc: int | None = None
        self.pid, self._master = pty.fork()
        if not self.pid:
            with contextlib.suppress(BaseException):
                os.chdir(folder)
                words = {**os.environ, **(environment or {}), "TERM": "xterm-256color"}
                os.execvpe(command[0], list(command), words)
            os._exit(127)
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGWINCH)

    def press(self, *keys: str, sees: str = "") -> None:
        """Names of KEYS, or text. sees: what is waited for then."""
        for key in keys:
            os.write(self._master, KEYS.get(key, key).encode())
        self.until(lambda: self.sees(sees))

    def paste(self, text: str) -> None:
        os.write(self._master, b"\x1b[200~" + text.encode() + b"\x1b[201~")

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def style(self, row: int, column: int) -> pyte.screens.Char:
        return self.screen.buffer[row][column]

    def until(self, holds: Callable[[], bool]) -> None:
        """Reads what the program draws until this is so; AssertionError with the screen if it does not come."""
        end = time.monotonic() + 300
        while not holds():
            self._read(0.05)
            assert time.monotonic() < end, "not seen; the screen is\n|" + "\n|".join(self.lines)

    def rest(self) -> None:
        """Reads until nothing has been drawn for some time."""
        while self._read(0.3):
            pass

    def sees(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        piece = b""
        with contextlib.suppress(OSError):  # the program has gone
            piece = os.read(self._master, 1 << 16) if ready else b""
        self._stream.feed(piece)
        self.drawn += piece
        return bool(piece)

    def ended(self) -> bool:
        if self.rc is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.rc = os.waitstatus_to_exitcode(status)
        return self.rc is not None

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def hang_up(self) -> None:
        """The terminal is closed by its user."""
        os.close(self._master)
        self._master = -1

    def wait(self) -> int:
        """The exit code, when all has been drawn; also after the terminal was closed."""
        end = time.monotonic() + 300
        while not self.ended():
            if self._master >= 0:
                self._read(0.05)
            else:
                time.sleep(0.05)
            assert time.monotonic() < end, "the program does not end"
        while self._master >= 0 and self._read(0):
            pass
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
