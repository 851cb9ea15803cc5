"""The writer in a browser."""

from __future__ import annotations

import math
from functools import partial
from html import escape
from importlib import resources
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system.text import filled, json_for_script
from graphnet_rnn.apps.cli.loopback import Loopback
from graphnet_rnn.apps.writer.desk import Desk, View
from graphnet_rnn.apps.writer.document import Document
from graphnet_rnn.errors import UsageError

__all__ = ["WritingPage"]


class WritingPage(Loopback):
    """One draft: orders come as requests, views go as events."""

    def __init__(self, desk: Desk, document: Document, port: int = 0) -> None:
        from viz.text import LEVELS, SCALES, palette

        super().__init__(port)
        scales = {name: SCALES[name] for name in ("light", "dark")}
        self._colours = {
            name: {"colours": palette(scale), "ink": scale.ink} for name, scale in scales.items()
        }
        self._levels = LEVELS
        self.desk, self.document, self._sure = desk, document, False
        desk.listener = lambda view: self.changed()

    # -- what the page asks --------------------------------------------------------------------

    def page(self) -> str:
        """The page, all in one file."""
        colours = json_for_script(self._colours)
        parts = {"title": escape(self._name), "nonce": self.token, "colours": colours}
        template = (
            resources.files("graphnet_rnn.apps.cli").joinpath("assets", "writer.html").read_text("utf-8")
        )
        return filled(template, parts)

    @property
    def _name(self) -> str:
        return "no name" if self.document.path is None else self.document.path.name

    def event(self, before: View | None) -> tuple[dict[str, Any] | None, View]:
        """The view; its text only where it is another than before."""
        view = self.desk.view
        if view is before:
            return None, view
        found: dict[str, Any] = {
            "name": self._name, "named": self.document.path is not None, "length": view.length,
            "suggestion": view.suggestion, "pending": view.pending, "paused": view.paused,
            "temperature": view.temperature, "bits": None if math.isnan(view.bits) else view.bits,
            "unknown": view.unknown, "lessons": view.lessons, "message": view.message, "changed": view.changed,
        }  # fmt: skip
        if before is None or before.text != view.text:
            known = self.desk.draft.vocabulary.characters
            found["text"] = view.text
            found["levels"] = [
                -2 if c not in known else -1 if nats is None else round(math.exp(-nats) * self._levels)
                for c, nats in zip(view.text, view.nats, strict=True)
            ]
        return found, view

    def obey(self, orders: Any) -> None:
        """Carries them out, in order. UsageError for what is no order."""
        desk = self.desk
        if not isinstance(orders, list) or not all(isinstance(each, list) and each for each in orders):
            raise UsageError("orders are a list of lists, each with a name")
        for name, *values in orders:
            match name, values:
                case "type", [str(text)]:
                    desk.type(text)
                case (("accept" | "another" | "undo" | "pause"), []):
                    getattr(desk, name)()
                case "warm", [int(steps)]:
                    desk.warm(steps)
                case "save", [None | str()]:
                    desk.then(partial(self._save, name=values[0]))
                case _:
                    raise UsageError(f"there is no order {str(name)[:40]!r} with these values")
            if name != "save":
                self._sure = False

    def _save(self, text: str, name: str | None = None) -> None:
        """In the desk's thread; what went wrong is its message."""
        if name is not None:
            document = Document(name)
            assert document.path is not None
            self._sure = self._sure and self.document.path == document.path
            self.document = document
        try:
            self.document.save(text, over=self._sure)
        except GraphnetError as error:
            changed = self.document.path is not None and isinstance(error, UsageError)
            self._sure = changed
            raise UsageError(f"{error}{'; save again to write over it' if changed else ''}") from None
        self._sure = False
        self.desk.saved(text)
