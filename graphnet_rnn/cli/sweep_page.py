"""A sweep as a page: one file that needs nothing else, or live, from a server at this machine's own address."""

from __future__ import annotations

import base64
import json
import math
import time
from html import escape
from importlib import resources
from typing import Any

from graphnet.errors import GraphnetError
from graphnet_rnn.cli.loopback import Loopback
from graphnet_rnn.sweep import Book, Entry

__all__ = ["SweepPage", "data_of", "page_of"]

#: Cells that are drawn at most.
PICTURES = 8
#: Runs, the best, whose flight recorders are shown.
FLIGHTS = 3
#: Seconds between two views of a page.
PAUSE = 1.0


def page_of(book: Book) -> str:
    """The page, all in one file."""
    return _page(data_of(book), "")


def data_of(book: Book, live: bool = False) -> dict[str, Any]:
    """What the page shows, as JSON holds it: infinities are None."""
    entries = book.look()
    names = [name for name in book.recipe.ranges if any(name in entry.settings for entry in entries)]
    known = sorted((entry for entry in entries if math.isfinite(entry.best)), key=lambda entry: entry.best)
    best = known[:FLIGHTS]
    return {
        "name": book.recipe.name, "live": live, "names": names,
        "unit": next((entry.unit for entry in entries if entry.unit), "") or "value",
        "runs": [_run(entry) | ({"flight": _flight(entry)} if entry in best else {}) for entry in entries],
        "pictures": _pictures(entries),
    }  # fmt: skip


def _run(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name, "state": entry.state, "sentence": entry.sentence, "settings": entry.settings,
        "values": [_number(value) for value in entry.values], "value": _number(entry.best), "epochs": entry.epochs,
        "seconds": round(entry.seconds, 3), "sample": entry.sample[:2000],
    }  # fmt: skip


def _number(value: float) -> float | None:
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _flight(entry: Entry) -> str:
    """What each step did, of optimisers that tell, as `train` has drawn it."""
    picture = entry.run / "flight.png"
    if not picture.exists():
        return ""
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def _pictures(entries: list[Entry]) -> dict[str, str]:
    """Each cell of the library that is tried, as SVG; none of a file's own, whose code is not run for a picture."""
    import viz
    from graphnet_rnn.cells import ALL

    found: dict[str, str] = {}
    for entry in entries:
        name = str(entry.settings.get("cell", ""))
        if name in found or name not in ALL or len(found) >= PICTURES:
            continue
        try:
            found[name] = viz.draw(ALL[name](4)).svg
        except (GraphnetError, TypeError, ValueError):
            found[name] = ""
    return {name: picture for name, picture in found.items() if picture}


def _page(data: dict[str, Any], nonce: str) -> str:
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    parts = {
        "title": escape(data["name"]),
        "nonce": f' nonce="{nonce}"' if nonce else "",
        "data": text.replace("<", "\\u003c"),
    }
    template = resources.files("graphnet_rnn.cli").joinpath("assets", "sweep.html").read_text("utf-8")
    pieces = template.split("%%")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


class SweepPage(Loopback):
    """The page of a sweep that is running."""

    def __init__(self, book: Book, port: int = 0) -> None:
        super().__init__(port)
        self.book = book

    def page(self) -> str:
        return _page(data_of(self.book, live=True), self.token)

    def event(self, before: Any) -> tuple[dict[str, Any] | None, Any]:
        """All that there is, no more than once a second."""
        if before is not None:
            time.sleep(PAUSE)
        data = data_of(self.book, live=True)
        key = json.dumps(data["runs"])
        return (None if key == before else data), key
