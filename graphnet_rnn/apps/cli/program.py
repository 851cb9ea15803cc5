"""The words by which the person at the keyboard started this program."""

from __future__ import annotations

import os

__all__ = ["command_line"]


def command_line() -> str:
    """`graphnet-rnn`, or what run.py says that it was called by: hints can then be pasted as they are."""
    return os.environ.get("GRAPHNET_COMMAND", "graphnet-rnn")
