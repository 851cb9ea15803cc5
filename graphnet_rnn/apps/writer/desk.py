"""Desk: a draft with a worker thread, so that keys never wait for the model."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

from graphnet_rnn.apps.writer.document import Document
from graphnet_rnn.apps.writer.draft import Draft

#: Step of the temperature, and maximum temperature.
COOLER, HOTTEST = 0.1, 2.0
#: Characters at the end of a text that a view shows.
SHOWN = 20_000
#: Seconds without a key before learning.
IDLE = 0.05
#: Characters to read before the next order.
AT_ONCE = 16
#: Seconds to wait for orders at the end.
WAIT = 2.0
#: Replacement of characters that UTF-8 cannot encode.
NONE = "\ufffd"


@dataclass(frozen=True)
class Snapshot:
    """State of a Desk, as a user interface shows it.

    text: end of the draft. nats: surprise of each of its characters, see Draft. accepted: start and end of each
    accepted suggestion. length: characters of the whole draft. suggestion: suggested text; "" while paused. complete:
    True once the suggestion is complete. pending: number of typed characters that are not shown yet, as the model has
    not read them. paused: True while suggestions are paused. temperature: temperature of suggestions. bits: mean bits
    per character, see Draft. unknown: number of characters outside the model's vocabulary. lessons: number of learned
    pieces. message: last error message, or "". changed: True if the text differs from the saved one.

    >>> view = rnn.writer.Snapshot(text="once upon", suggestion=" a", length=9)
    >>> view.text + view.suggestion
    'once upon a'
    """

    text: str = ""
    nats: tuple[float | None, ...] = ()
    accepted: tuple[tuple[int, int], ...] = ()
    length: int = 0
    suggestion: str = ""
    complete: bool = False
    pending: int = 0
    paused: bool = False
    temperature: float = 0.0
    bits: float = float("nan")
    unknown: int = 0
    lessons: int = 0
    message: str = ""
    changed: bool = False


class Desk:
    """Draft with a worker thread, for a user interface that must not wait for the model.

    Methods queue an action and return at once; `wait` returns when all actions are done. Use Desk in a `with`
    statement. draft: draft to write in. listener: callback with a Snapshot after each change, called in the worker
    thread.

    >>> network = rnn.Network([rnn.GRU(4)], inputs=4, outputs=4)
    >>> network.vocabulary = rnn.data.Vocabulary(" abc")
    >>> with rnn.writer.Desk(rnn.writer.Draft(network)) as desk:
    ...     desk.type("a cab")
    ...     desk.wait().text
    'a cab'
    >>> document = rnn.writer.Document("story.txt")
    >>> with rnn.writer.Desk(rnn.writer.Draft(network)) as desk:
    ...     desk.replace("a cab")
    ...     suggestion = desk.wait().suggestion
    ...     desk.accept()
    ...     desk.wait().text == "a cab" + suggestion
    ...     desk.undo()
    ...     desk.another()
    ...     desk.warm(-3)
    ...     desk.pause()
    ...     desk.then(document.save)
    ...     desk.saved("a cab")
    ...     view = desk.wait()
    ...     view.text, view.paused, round(view.temperature, 1), desk.is_saved("a cab")
    ...     desk.type("c")
    ...     desk.rescue(document).name
    True
    ('a cab', True, 0.4, True)
    'story.txt.unsaved'
    """

    def __init__(self, draft: Draft, listener: Callable[[Snapshot], object] | None = None) -> None:
        self.draft = draft
        #: Callback with each new view, in the worker thread.
        self.listener: Callable[[Snapshot], object] = listener or (lambda view: None)
        self._orders: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._busy, self._closed, self.paused = False, False, False
        self._message, self._saved, self._pending = "", draft.text, 0
        self.view = self._seen()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)

    def __enter__(self) -> Desk:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    # -- actions of the writer ----------------------------------------------------------------

    def type(self, characters: str) -> None:
        r"""Types `characters`; a long text is read in pieces.

        Line ends become "\n"; control characters other than tabs are removed.
        """
        characters = characters.replace("\r\n", "\n").replace("\r", "\n")
        characters = "".join([NONE if "\ud800" <= c <= "\udfff" else c for c in characters if _is_text(c)])
        with self._changed:
            self._pending += len(characters)
        for start in range(0, len(characters), AT_ONCE):
            self._order(partial(self._type, characters[start : start + AT_ONCE]))

    def _type(self, characters: str) -> None:
        with self._changed:
            self._pending -= len(characters)
        self.draft.type(characters)

    def accept(self) -> None:
        """Accepts the suggestion, completed where it is still growing (Tab)."""
        seen = self.view.suggestion

        def accept() -> None:
            if self.draft.suggestion.startswith(seen) and not self.paused:
                self.draft.suggest()
                self.draft.accept()

        self._order(accept)

    def another(self) -> None:
        """Draws another suggestion (→)."""
        self._order(self.draft.forget_suggestion)

    def warm(self, steps: int) -> None:
        """Raises the temperature by `steps` tenths (↑ and ↓); 0 takes the most probable character."""

        def warm() -> None:
            tenths = round(self.draft.temperature / COOLER) + steps
            self.draft.temperature = min(max(tenths, 0), round(HOTTEST / COOLER)) * COOLER

        self._order(warm)

    def undo(self) -> None:
        """Undoes the last action, see Draft.undo (Backspace)."""
        self._order(self.draft.undo)

    def pause(self) -> None:
        """Pauses suggestions, or continues them (Esc)."""

        def pause() -> None:
            self.paused = not self.paused

        self._order(pause)

    def replace(self, text: str) -> None:
        """Replaces the whole text by `text`."""

        def replace() -> None:
            self.draft.replace(text)
            self._saved = text

        self._order(replace)

    def then(self, order: Callable[[str], object]) -> None:
        """Calls `order` with the whole text, in the worker thread, once earlier actions are done."""
        self._order(lambda: order(self.draft.text))

    def saved(self, text: str) -> None:
        """Marks `text` as saved."""

        def saved() -> None:
            self._saved = text

        self._order(saved)

    def is_saved(self, text: str) -> bool:
        """True if `text` is the loaded or last saved text."""
        return text == self._saved

    def rescue(self, document: Document) -> Path | None:
        """Writes an unsaved text, pending characters included, next to the file of `document`; returns the path.

        The model reads no more afterwards.
        """
        self.wait(WAIT)
        self.draft.reads = False  # do not wait for the model at the end
        return document.rescue(self.draft.text) if self.wait().changed else None

    def wait(self, timeout: float | None = None) -> Snapshot:
        """Returns the view once all actions are done, or after `timeout` seconds (None: no limit)."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or not (self._orders or self._busy or self._may_go_on()), timeout
            )
            return self.view

    # -- the thread ----------------------------------------------------------------------------

    def _order(self, order: Callable[[], object]) -> None:
        with self._changed:
            self._orders.append(order)
            self._changed.notify_all()

    def _may_go_on(self) -> bool:
        return (not self.paused and not self.draft.complete) or self.draft.can_learn

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closed or self._orders or self._may_go_on())
                if self._closed:
                    return
                order = self._orders.popleft() if self._orders else None
                self._busy = True
            try:
                if order is not None:
                    self._message = ""
                    order()
                elif not self.paused and not self.draft.complete:
                    self.draft.grow()
                elif self._idle():
                    self.draft.learn()
            except Exception as error:  # the text can still be saved
                self._message = str(error) or type(error).__name__
            if self.draft.reads or not self._orders:
                self.view = self._seen()
                with suppress(Exception):
                    self.listener(self.view)

    def _idle(self) -> bool:
        """True if no key comes for a moment; learning takes longer than a key press should wait."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._closed or self._orders, IDLE)

    def _seen(self) -> Snapshot:
        draft = self.draft
        start = max(0, len(draft.text) - SHOWN)
        return Snapshot(
            draft.text[start:],
            tuple(draft.nats[start:]),
            tuple((a - start, b - start) for a, b in draft.accepted if b > start),
            len(draft.text),
            "" if self.paused else draft.suggestion,
            draft.complete,
            self._pending,
            self.paused,
            draft.temperature,
            draft.bits,
            draft.unknown,
            draft.lessons,
            self._message,
            not self.is_saved(draft.text),
        )


def _is_text(character: str) -> bool:
    return character in "\n\t" or not (character < " " or "\x7f" <= character < "\xa0")
