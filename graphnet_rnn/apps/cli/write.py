"""Write with suggestions of a model, in the terminal or in a browser.

Tab accepts the suggestion, → draws another, ↑ and ↓ change the temperature, Backspace removes the last accepted
suggestion or a character, Esc pauses suggestions, Ctrl-S saves, Ctrl-O opens, Ctrl-C exits.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import importlib.util
import io
import os
import sys
from pathlib import Path

import graphnet_rnn as rnn
from graphnet_rnn.apps.cli.models import load_for_use
from graphnet_rnn.apps.cli.options import add_cell
from graphnet_rnn.apps.writer.desk import Desk
from graphnet_rnn.apps.writer.document import Document
from graphnet_rnn.apps.writer.draft import Draft
from graphnet_rnn.apps.writer.own_model import own_model
from graphnet_rnn.errors import UsageError

EXAMPLE = """example:
  graphnet-rnn write runs/book/model.safetensors novel.txt"""
THEMES = ("light", "dark", "colour-blind")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "model",
        nargs="?",
        help="model file (.safetensors) of a training run (default, also if only a FILE is given: a small model "
        "of this package)",
    )
    add("file", nargs="?", help="text file to continue or to create")
    add_cell(parser)
    add(
        "--temperature",
        type=float,
        default=0.7,
        help="initial temperature of suggestions; 0 takes the most probable characters",
    )
    add("--seed", type=int, default=0, help="random seed of suggestions")
    add(
        "--learn",
        type=float,
        metavar="RATE",
        help="keep training on the written text, with this learning rate, e.g. 0.1",
    )
    add("--colour", action="store_true", help="color each character by its probability")
    add(
        "--html",
        action="store_true",
        help="write in a browser, on a page from a local server",
    )
    add("--theme", choices=THEMES, default="light", help="colors; colour-blind: orange and blue")


def run(options: argparse.Namespace) -> int:
    if "theme" in options.written and not options.colour:
        raise UsageError("--theme needs --colour")
    if options.html and (options.colour or "theme" in options.written):
        raise UsageError(
            "--colour and --theme apply only to the terminal; on the page of --html, use its button"
        )
    if not options.html:
        _require_terminal()
    if options.file is None and options.model is not None and not options.model.endswith(".safetensors"):
        options.model, options.file = None, options.model
    document = Document(options.file)
    text = document.read()
    learn = None if options.learn is None else rnn.SGD(options.learn, clip_norm=1.0)
    model = options.model or str(own_model())
    draft = Draft(load_for_use(model, options.cell), options.temperature, options.seed, learn)
    desk = Desk(draft)
    if text:
        desk.replace(text)
    return _on_a_page(desk, document) if options.html else _at_a_terminal(desk, document, options)


def _require_terminal() -> None:
    if importlib.util.find_spec("prompt_toolkit") is None:
        raise UsageError(
            "writing in a terminal needs prompt_toolkit, which is not installed: pip install 'graphnet-rnn[writer]'. "
            "Or use --html, which does not need it"
        )
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output")):
        if stream is None or not stream.isatty():
            raise UsageError(
                f"standard {name} is not a terminal; use --html to write in a browser, or `graphnet-rnn sample "
                "MODEL --warm-up TEXT` to continue a text without a terminal"
            )


def _on_a_page(desk: Desk, document: Document) -> int:
    from graphnet_rnn.apps.cli.pages import WritingPage

    writing = WritingPage(desk, document)
    with desk:
        try:
            with writing.served("writing at {}  (Ctrl-C here ends it)") as server:
                while server.is_alive():
                    server.join(1.0)
        except KeyboardInterrupt:
            pass
        finally:
            kept = desk.rescue(writing.document)
    return _exit_code(kept)


def _at_a_terminal(desk: Desk, document: Document, options: argparse.Namespace) -> int:
    from graphnet_rnn.apps.cli.typewriter import Typewriter

    if isinstance(sys.stdin, io.TextIOWrapper) and codecs.lookup(sys.stdin.encoding).name == "ascii":
        sys.stdin.reconfigure(encoding="utf-8")  # or prompt_toolkit would drop letters such as é
    left: Path | None = document.unsaved
    message = f"{left} holds the text that was not saved last time; ^O opens it" if left is not None else ""
    scale = options.theme if options.colour and "NO_COLOR" not in os.environ else None
    kept = Typewriter(desk, document, scale, message).run()
    return _exit_code(kept)


def _exit_code(kept: Path | None) -> int:
    if kept is None:
        return 0
    with contextlib.suppress(OSError):  # closed terminal
        print(f"graphnet-rnn write: the text was not saved; it is in {kept}", file=sys.stderr)
    return 130
