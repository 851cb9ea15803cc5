"""What stands in for the process of a run: its command in this process, one that never ends, one that is killed."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any, ClassVar

from graphnet_rnn.cli import main

#: What is printed is of the whole process, so that one trains at a time.
ONE = threading.Lock()


class Stub:
    """In the place of `subprocess.Popen`: what it is to do is in `begin`."""

    def __init__(self, words: list[str], **_: Any) -> None:
        self.command = words[words.index("--") + 1 :]
        self.returncode: int | None = None
        self.said = ""
        self._ended = threading.Event()
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()

    @property
    def folder(self) -> Path:
        (found,) = (word for word in self.command if word.startswith(("--out=", "--resume=")))
        return Path(found.partition("=")[2])

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("stub", timeout or 0)
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        self.wait()
        return "", self.said

    def send_signal(self, number: int) -> None:
        self.end(130)

    def kill(self) -> None:
        self.end(-signal.SIGKILL)

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


class Inside(Stub):
    """Trains, in this process."""

    def begin(self) -> None:
        said = io.StringIO()
        with ONE, contextlib.redirect_stderr(said):
            try:
                code = main(self.command)
            except SystemExit as ended:
                code = int(str(ended.code))
        self.said = said.getvalue()
        self.end(code)


class Endless(Stub):
    """Has made an epoch, and goes on until it is told to end."""

    all: ClassVar[list[Endless]] = []

    def begin(self) -> None:
        self.all.append(self)
        self.folder.mkdir(parents=True)
        lines = [{"event": "start", "unit": "bits/char"}, {"event": "epoch", "valid_bpc": 1.0}]
        (self.folder / "history.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )


class Killed(Stub):
    """By a signal from outside, before it has made an epoch."""

    count = 0

    def begin(self) -> None:
        type(self).count += 1
        self.end(-signal.SIGKILL)
