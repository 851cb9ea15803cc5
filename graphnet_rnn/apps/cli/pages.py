"""Pages of a sweep, as one file or from a local server, and of the writer."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Mapping
from functools import cache, partial
from html import escape
from importlib import resources
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system.text import filled, json_for_script
from graphnet_rnn.apps.cli.loopback import Loopback
from graphnet_rnn.apps.sweep.results import Entry, Results
from graphnet_rnn.apps.writer.desk import Desk, Snapshot
from graphnet_rnn.apps.writer.document import Document
from graphnet_rnn.cells.all import ALL
from graphnet_rnn.errors import UsageError

#: Maximum number of drawn cells.
PICTURES = 8
#: Number of best runs with flight recorders.
FLIGHTS = 3
#: Seconds between updates of a page.
PAUSE = 1.0


def page_of(results: Results) -> str:
    """HTML page in one file."""
    return _page(data_of(results), "")


def data_of(results: Results, live: bool = False) -> dict[str, Any]:
    """Data of the page for JSON; infinities are None."""
    entries = results.look()
    known = sorted((entry for entry in entries if math.isfinite(entry.best)), key=lambda entry: entry.best)
    best = known[:FLIGHTS]
    return {
        "name": results.recipe.name, "live": live, "names": results.names, "unit": results.unit,
        "runs": [_run(entry) | ({"flight": _flight(entry)} if entry in best else {}) for entry in entries],
        "pictures": _pictures(entries),
    }  # fmt: skip


def _run(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name, "state": entry.state, "sentence": entry.sentence, "settings": entry.settings,
        "values": [_number(value) for value in entry.values],
        "training": [_number(value) for value in entry.training], "value": _number(entry.best), "epochs": entry.epochs,
        "seconds": round(entry.seconds, 3), "sample": entry.sample[:2000],
    }  # fmt: skip


def _number(value: float) -> float | None:
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _flight(entry: Entry) -> str:
    picture = entry.run / "flight.png"
    if not picture.exists():
        return ""
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def _pictures(entries: list[Entry]) -> dict[str, str]:
    """SVG of each cell of the library in the sweep; code of other cells is not executed."""
    names = dict.fromkeys(str(entry.settings.get("cell", "")) for entry in entries)
    known = [name for name in names if name in ALL][:PICTURES]
    return {name: picture for name in known if (picture := _picture(name))}


@cache
def _picture(cell: str) -> str:
    import viz

    try:
        return viz.draw(ALL[cell](4)).svg
    except (GraphnetError, TypeError, ValueError):
        return ""


def _page(data: dict[str, Any], nonce: str) -> str:
    own = f' nonce="{nonce}"' if nonce else ""
    return _filled("sweep.html", {"title": escape(data["name"]), "nonce": own, "data": json_for_script(data)})


def _filled(name: str, parts: Mapping[str, str]) -> str:
    return filled(resources.files("graphnet_rnn.apps.cli").joinpath("assets", name).read_text("utf-8"), parts)


class SweepPage(Loopback):
    """Page of a running sweep."""

    def __init__(self, results: Results, port: int = 0) -> None:
        super().__init__(port)
        self.results = results

    def page(self) -> str:
        return _page(data_of(self.results, live=True), self.token)

    def event(self, before: Any) -> tuple[dict[str, Any] | None, Any]:
        """All data, at most once a second."""
        if before is not None:
            time.sleep(PAUSE)
        data = data_of(self.results, live=True)
        key = json.dumps(data["runs"])
        return (None if key == before else data), key


class WritingPage(Loopback):
    """Page of one draft: orders come as requests, views go as events."""

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

    # -- requests of the page ------------------------------------------------------------------

    def page(self) -> str:
        """HTML page in one file."""
        colours = json_for_script(self._colours)
        return _filled("writer.html", {"title": escape(self._name), "nonce": self.token, "colours": colours})

    @property
    def _name(self) -> str:
        return "no name" if self.document.path is None else self.document.path.name

    def event(self, before: Snapshot | None) -> tuple[dict[str, Any] | None, Snapshot]:
        """The view; its text only if changed."""
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
        """Executes orders in sequence. Raises UsageError for unknown ones."""
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
        """Saves in the thread of the desk; errors become its message."""
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
            raise UsageError(f"{error}{'; save again to overwrite it' if changed else ''}") from None
        self._sure = False
        self.desk.saved(text)
