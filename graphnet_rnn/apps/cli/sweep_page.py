"""A sweep as a page: one file that needs nothing else, or live, from a server at this machine's own address."""

from __future__ import annotations

import base64
import json
import math
import time
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from graphnet.errors import GraphnetError
from graphnet.system.text import filled, json_for_script
from graphnet_rnn.apps.cli.loopback import Loopback
from graphnet_rnn.apps.sweep.book import Book, Entry
from graphnet_rnn.cells.all import ALL

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
    known = sorted((entry for entry in entries if math.isfinite(entry.best)), key=lambda entry: entry.best)
    best = known[:FLIGHTS]
    return {
        "name": book.recipe.name, "live": live, "names": book.names, "unit": book.unit,
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
    """What each step did, of optimizers that tell, as `train` has drawn it."""
    picture = entry.run / "flight.png"
    if not picture.exists():
        return ""
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def _pictures(entries: list[Entry]) -> dict[str, str]:
    """Each cell of the library that is tried, as SVG; none of a file's own, whose code is not run for a picture."""
    names = dict.fromkeys(str(entry.settings.get("cell", "")) for entry in entries)
    known = [name for name in names if name in ALL][:PICTURES]
    return {name: picture for name in known if (picture := _picture(name))}


@cache
def _picture(cell: str) -> str:
    """ "" for a cell that is not made of a number of units alone, and where there is no Graphviz."""
    import viz

    try:
        return viz.draw(ALL[cell](4)).svg
    except (GraphnetError, TypeError, ValueError):
        return ""


def _page(data: dict[str, Any], nonce: str) -> str:
    parts = {
        "title": escape(data["name"]),
        "nonce": f' nonce="{nonce}"' if nonce else "",
        "data": json_for_script(data),
    }
    template = resources.files("graphnet_rnn.apps.cli").joinpath("assets", "sweep.html").read_text("utf-8")
    return filled(template, parts)


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
