"""Writer in a terminal: a page of text, the suggestion in gray, and a status line."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from graphnet.errors import GraphnetError
from graphnet_rnn.apps.cli.answers import fitting
from graphnet_rnn.apps.writer.desk import AT_ONCE, Desk, Snapshot
from graphnet_rnn.apps.writer.document import Document
from graphnet_rnn.errors import UsageError


def _style_of(suggestion: str) -> Style:
    return Style.from_dict(
        {
            "suggestion": suggestion,
            "unknown": "underline",
            "status": "reverse",
            "message": "reverse bold",
            "question": "bold",
        }
    )


#: Styles without colors.
STYLE, PLAIN = _style_of("#888888"), _style_of("italic underline")
KEYS = "Tab accept  → another  ↑↓ temperature  Esc pause  ^S save  ^O open  ^C leave"
#: Signals that end the program, but those of faults and of a debugger.
SIGNALS = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU")
#: Seconds after which Esc is a key, and not the start of an escape sequence.
ESCAPE = 0.05
#: Number of pages before the end of a text to wrap, as combining accents take no room.
FOLDED = 4
#: Actions that need a second key press.
TWICE = {"c-s": "save", "c-o": "open", "c-c": "leave", "c-q": "leave"}


def page(view: Snapshot, rows: int, columns: int, known: str, scale: str | None = None) -> StyleAndTextTuples:
    """End of the text that fits into `rows`, the cursor, and the suggestion.

    known: characters of the vocabulary. scale: see viz.text.SCALES.
    """
    start = _first(view.text, rows, columns)
    pieces: StyleAndTextTuples = []
    run, style = "", ""
    for place in range(start, len(view.text)):
        own = _style(view.text[place], view.nats[place], known, scale)
        if own != style and run:
            pieces.append((style, run))
            run = ""
        run, style = run + view.text[place], own
    if run:
        pieces.append((style, run))
    pieces.append(("[SetCursorPosition]", ""))
    if view.suggestion:
        pieces.append(("class:suggestion", view.suggestion))
    pieces.append(("", " "))  # place of the cursor
    return pieces


def _first(text: str, rows: int, columns: int) -> int:
    """Start of the last rows of a text with its cursor, after wrapping."""
    line = text.rfind("\n", 0, max(len(text) - FOLDED * rows * columns, 0)) + 1
    begins, taken = [line], 0
    for place in range(line, len(text)):
        cells = _cells(text[place])
        if taken + cells > columns:
            begins.append(place)
            taken = 0
        taken += cells
        if text[place] == "\n":
            begins.append(place + 1)
            taken = 0
    if taken == columns:
        begins.append(len(text))
    return begins[max(len(begins) - rows, 0)]


@cache
def _cells(character: str) -> int:
    """Columns of a character: two for East Asian wide characters, none for combining accents."""
    return 0 if character == "\n" else Char(character).width


def _style(character: str, nats: float | None, known: str, scale: str | None) -> str:
    if character not in known:
        return "class:unknown"
    if nats is None or scale is None:
        return ""
    styles = _styles(scale)
    return styles[round(math.exp(-nats) * (len(styles) - 1))]


@cache
def _styles(scale: str) -> list[str]:
    from viz.text import SCALES, palette

    return [f"bg:{colour} fg:{SCALES[scale].ink}" for colour in palette(SCALES[scale])]


def status(view: Snapshot, name: str, columns: int) -> str:
    """Status line; less important words are left out if they do not fit."""
    bits = "" if math.isnan(view.bits) else f"{view.bits:.2f} bits/char"
    words = [
        f"{name}{' *' if view.changed else ''}",
        "paused" if view.paused else f"temperature {view.temperature:.1f}",
        bits,
        f"reading {view.pending:,} more" if view.pending > AT_ONCE else "",
        f"{view.length:,} characters",
        f"{view.unknown:,} unknown" if view.unknown else "",
        f"learned {view.lessons:,}" if view.lessons else "",
        KEYS,
    ]
    line = fitting([word for word in words if word], columns, get_cwidth)
    while get_cwidth(line) > columns:
        line = line[:-1]
    return line


class Typewriter:
    """Program with a desk, its document, and a terminal.

    scale: colors of probability, see viz.text.SCALES; None for none. message: first message.
    """

    def __init__(
        self,
        desk: Desk,
        document: Document,
        scale: str | None = None,
        message: str = "",
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.desk, self.document, self.scale, self.message = desk, document, scale, message
        self._asks, self._left = "", False
        self._frame = (-1, desk.view)
        self._answered: Callable[[str], None] = lambda answer: None
        self._sure = ""
        self._answer = Buffer(multiline=False, accept_handler=self._take_answer)
        plain = "NO_COLOR" in os.environ
        depth = ColorDepth.DEPTH_1_BIT if plain else None
        self.application: Application[None] = Application(
            layout=self._layout(), key_bindings=self._keys(), full_screen=True, color_depth=depth,
            style=PLAIN if plain else STYLE, input=input, output=output,
        )  # fmt: skip
        self.application.ttimeoutlen = ESCAPE

    def run(self) -> Path | None:
        """Runs until the writer leaves, or a signal comes.

        Then, and after any error, an unsaved text is written next to its file; returns that path.
        """
        with self.desk:
            self.desk.listener = self._seen
            try:
                with contextlib.suppress(EOFError, OSError):  # the terminal is gone
                    self.application.run(pre_run=self._begun)
            finally:
                self.desk.listener = lambda view: None
                kept = None if self._left else self.desk.rescue(self.document)
        return kept

    def _begun(self) -> None:
        self._loop = asyncio.get_running_loop()
        for number in _ends():
            with contextlib.suppress(
                NotImplementedError, ValueError, RuntimeError
            ):  # Windows, another thread
                self._loop.add_signal_handler(number, self._end)

    def _end(self) -> None:
        if self.application.is_running:
            with contextlib.suppress(Exception):  # it is ending already
                self.application.exit()

    def _seen(self, view: Snapshot) -> None:
        self.application.invalidate()

    # -- the picture ---------------------------------------------------------------------------

    def _layout(self) -> Layout:
        asking = Condition(lambda: bool(self._asks))
        text = Window(FormattedTextControl(self._page, show_cursor=True, focusable=True), wrap_lines=True)
        line = Window(
            FormattedTextControl(self._status), height=Dimension(min=1, max=4), style="class:status",
            wrap_lines=True, dont_extend_height=True,
        )  # fmt: skip
        question = VSplit(
            [
                Window(
                    FormattedTextControl(lambda: self._asks), dont_extend_width=True, style="class:question"
                ),
                Window(BufferControl(self._answer), height=1),
            ],
            height=1,
        )
        self._text = text
        return Layout(
            HSplit([text, ConditionalContainer(question, asking), ConditionalContainer(line, ~asking)])
        )

    def _size(self) -> tuple[int, int]:
        size = self.application.output.get_size()
        return max(size.rows - 1, 1), max(size.columns, 1)

    @property
    def _view(self) -> Snapshot:
        if self._frame[0] != self.application.render_counter:
            self._frame = self.application.render_counter, self.desk.view
        return self._frame[1]

    def _page(self) -> StyleAndTextTuples:
        return page(self._view, *self._size(), self.desk.draft.vocabulary.characters, self.scale)

    def _status(self) -> StyleAndTextTuples:
        _, columns = self._size()
        view = self._view
        words = self.message or view.message
        if words:
            return [("class:message", words)]
        name = "no name" if self.document.path is None else self.document.path.name
        return [("", status(view, name, columns))]

    # -- keys ----------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys, writing = KeyBindings(), Condition(lambda: not self._asks)
        desk = self.desk
        orders: dict[str, Callable[[], None]] = {
            "tab": desk.accept,
            "right": desk.another,
            "up": lambda: desk.warm(1),
            "down": lambda: desk.warm(-1),
            "backspace": desk.undo,
            "enter": lambda: desk.type("\n"),
            "escape": desk.pause,
            "c-s": self._save,
            "c-o": self._open,
        }
        for key, order in orders.items():
            self._bind(keys, key, order, writing)
        for key in ("c-c", "c-q"):
            self._bind(keys, key, self._leave, writing)
            self._bind(keys, key, self._no_answer, ~writing)
        self._bind(keys, "escape", self._no_answer, ~writing)

        @keys.add(Keys.Any, filter=writing)
        def _(event: KeyPressEvent) -> None:
            if event.data.isprintable():  # other keys have names
                self._begin("")
                desk.type(event.data)

        @keys.add(Keys.BracketedPaste, filter=writing)
        def _(event: KeyPressEvent) -> None:
            self._begin("")
            desk.type(event.data)

        return keys

    def _bind(self, keys: KeyBindings, key: str, order: Callable[[], None], when: Condition | Any) -> None:
        @keys.add(key, filter=when)
        def _(event: KeyPressEvent) -> None:
            self._begin(key)
            order()

    def _begin(self, key: str) -> None:
        self.message = ""
        if TWICE.get(key) != self._sure:
            self._sure = ""

    # -- files ---------------------------------------------------------------------------------

    def _ask(self, question: str, answered: Callable[[str], None]) -> None:
        self._asks, self._answered = question, answered
        self._answer.reset()
        self.application.layout.focus(self._answer)
        self.application.invalidate()

    def _take_answer(self, buffer: Buffer) -> bool:
        answer = buffer.text
        answered = self._answered
        self._no_answer()
        if answer.strip():
            answered(answer)
        return False

    def _no_answer(self) -> None:
        self._asks = ""
        self.application.layout.focus(self._text)

    def _save(self) -> None:
        if self.document.path is None:
            self._ask("save as: ", self._save_as)
        else:
            self.desk.then(self._write)

    def _write(self, text: str) -> None:
        """Writes the file, in the thread of the desk, after all earlier keys."""
        try:
            self.document.save(text, over=self._sure == "save")
        except GraphnetError as error:
            changed = isinstance(error, UsageError)
            self.message = f"{error}{'; ^S again overwrites it' if changed else ''}"
            self._sure = "save" if changed else ""
        else:
            self._sure, self.message = "", f"saved {self.document.path}"
            self.desk.saved(text)

    def _save_as(self, name: str) -> None:
        document = Document(Path(os.path.expanduser(name)))
        assert document.path is not None
        self.document = document
        if document.path.exists():
            self._sure, self.message = "save", f"{document.path} already exists; ^S again overwrites it"
        else:
            self._save()

    def _open(self) -> None:
        self.desk.then(self._may_open)

    def _may_open(self, text: str) -> None:
        if self.desk.is_saved(text) or self._sure == "open":
            self._sure = ""
            self._loop.call_soon_threadsafe(self._ask, "open: ", self._read)
        else:
            self._sure, self.message = "open", "the text is not saved: ^S saves it, ^O again discards it"

    def _read(self, name: str) -> None:
        try:
            document = Document(Path(os.path.expanduser(name)))
            text = document.read()
        except GraphnetError as error:
            self.message = str(error)
            return
        self.document = document
        self.desk.replace(text)
        self.message = "" if document.is_there else f"{document.path} is a new file"

    def _leave(self) -> None:
        self.desk.then(self._may_leave)

    def _may_leave(self, text: str) -> None:
        if self.desk.is_saved(text) or self._sure == "leave":
            self._left = True
            self._loop.call_soon_threadsafe(self._end)
        else:
            self._sure, self.message = (
                "leave",
                "the text is not saved: ^S saves it, ^C again leaves without it",
            )


def _ends() -> Iterable[int]:
    return [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
