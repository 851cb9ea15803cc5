"""Pages of text: character probabilities, and samples during training (Lynge 2016, 5.4)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

import numpy as np

from graphnet.settings import shown
from graphnet.system.text import visible
from viz.charts.history import History, is_number, measures_of, rows_of
from viz.errors import DrawingError, count_of, named_file
from viz.files import write_file
from viz.terminal import as_svg
from viz.text import coloured, coloured_html, paint, scale_of, swatch


class Read(Protocol):
    """Protocol of the result of `rnn.read`."""

    @property
    def text(self) -> str: ...
    @property
    def probabilities(self) -> Sequence[float | None]: ...
    @property
    def guesses(self) -> str: ...
    @property
    def context(self) -> int: ...
    @property
    def bits(self) -> float: ...
    @property
    def accuracy(self) -> float: ...


@dataclass(frozen=True)
class TextPage:
    """Colored text for terminal and browser; a notebook shows it.

    `print(page)` prints it in a terminal, `.html` is a page, `.svg` a picture, `.save("page.html")` writes a file.
    title: title of the page. terminal: text with escape codes. body: HTML of the text. theme: "light", "dark" or
    "colour-blind".
    path, in `save`: file that ends in .html, .svg, .txt or .ansi.

    >>> viz.TextPage("Sample", terminal="a cab", body="<pre>a cab</pre>", theme="light")
    <TextPage 'Sample'>
    """

    title: str
    terminal: str
    body: str
    theme: str

    def __post_init__(self) -> None:
        for name in ("title", "terminal", "body", "theme"):
            if not isinstance(getattr(self, name), str):
                raise DrawingError(f"TextPage: {name} must be a str, not {shown(getattr(self, name))}.")

    def __str__(self) -> str:
        return self.terminal

    def __repr__(self) -> str:
        return f"<TextPage {self.title!r}>"

    @property
    def html(self) -> str:
        """HTML page in one file."""
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(self.title)}</title>\n'
            '<meta name="viewport" content="width=device-width">\n</head>\n'
            f'<body style="{self.style};margin:2em">\n<h1 style="font-size:1.3em">{escape(self.title)}</h1>\n'
            f"{self.body}\n</body>\n</html>\n"
        )

    @property
    def svg(self) -> str:
        """SVG picture of the text."""
        return as_svg(self.terminal, scale_of(self.theme))

    @property
    def style(self) -> str:
        scale = scale_of(self.theme)
        return f"font-family:sans-serif;color:{scale.text};background:{scale.paper}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes .html or .svg, or .txt or .ansi with escape codes of terminals. Raises DrawingError."""
        file = named_file("path", path)
        ending = file.suffix.lower()
        if ending not in (".html", ".htm", ".svg", ".txt", ".ansi"):
            raise DrawingError(f"path {str(path)!r}: a page of text must end in .html, .svg, .txt or .ansi.")
        text = self.terminal + "\n"
        if ending not in (".txt", ".ansi"):
            text = self.svg if ending == ".svg" else self.html
        write_file(file, text.encode(errors="backslashreplace"))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.terminal, "text/html": f'<div style="{self.style}">{self.body}</div>'}


def reading(
    readings: Read | Mapping[str, Read],
    width: int = 80,
    theme: str = "light",
    title: str = "How probable each character was",
) -> TextPage:
    """Text colored by the probability of each character, with wrong guesses below, a legend and the mean cost.

    readings: result of `rnn.read`, or several by name: {"cold start": ..., "warm start": ...}. width: characters in a
    line; 80 by default. theme: "light" (default), "dark" or "colour-blind". title: title of the page.
    Raises DrawingError for other objects.
    Source: Lynge 2016, 5.4.

    >>> network = rnn.Network([rnn.GRU(4)], inputs=4, outputs=4)
    >>> network.vocabulary = rnn.data.Vocabulary(" abc")
    >>> viz.reading(rnn.read(network, "a cab"))
    <TextPage 'How probable each character was'>
    """
    scale = scale_of(theme)
    several = dict(readings) if isinstance(readings, Mapping) else {_start(readings): readings}
    if not several:
        raise DrawingError("readings is empty; pass the result of rnn.read(network, text).")
    low, middle, high = scale.words
    shades = [k / 10 for k in range(11)]
    meaning = (
        f" 1   probability of each character: {low} low, {middle} ½, {high} high; beneath it, a wrong guess"
    )
    bar = "0 " + "".join(paint(" ", p, scale) for p in shades) + "\x1b[0m"
    terminal = [bar + meaning]
    strip = "".join(swatch("\N{NO-BREAK SPACE}", p, scale) for p in shades)
    body = [f'<p style="margin:0.3em 0">0 {strip}{escape(meaning)}</p>']
    for name, found in several.items():
        if any(not hasattr(found, part) for part in ("text", "probabilities", "guesses", "bits", "accuracy")):
            raise DrawingError(f"readings must be a result of rnn.read(network, text), not {shown(found)}.")
        words = f"{name}: {_figures(found)}"
        terminal += ["", words, coloured(found.text, found.probabilities, found.guesses, width, theme)]
        body.append(f'<p style="margin:1em 0 0.3em;font-weight:bold">{escape(words)}</p>')
        body.append(coloured_html(found.text, found.probabilities, found.guesses, width, theme))
    return TextPage(title, "\n".join(terminal), "\n".join(body), theme)


def _start(read: Read) -> str:
    context = getattr(read, "context", 0)
    return f"warm start, after {context:,} characters" if context else "cold start"


def _figures(read: Read) -> str:
    if math.isnan(read.bits):
        return "nothing was predicted"
    return f"{read.bits:.3f} bits/char, {read.accuracy:.1%} guessed"


def samples(
    texts: History | Mapping[str, str],
    count: int = 8,
    width: int = 80,
    theme: str = "light",
    title: str = "What it wrote as it learned",
) -> TextPage:
    """Text that a network wrote before training and after each epoch, with its bits per character.

    texts: history with rows that have a "sample": rows, a path, the folder of a run, or the result of a run. Or texts
    by name: {"argmax": ..., "τ = 0.5": ..., "τ = 1": ...}. count: maximum number of epochs to show, 8 by default: the
    first, the best, the last, and others between them, closer together at the start. width: characters in a line; 80 by
    default. theme: "light" (default), "dark" or "colour-blind". title: title of the page.
    Raises DrawingError if there are no samples.
    Source: Lynge 2016, 5.4.1 and 5.4.2.

    >>> page = viz.samples({"argmax": "the cat sat", "τ = 1": "a zebra hums"})
    >>> "zebra" in page.html
    True
    """
    width, count = count_of("width", width, least=2), count_of("count", count)
    if isinstance(texts, Mapping):
        named = {str(name): ("", str(text)) for name, text in texts.items()}
    else:
        named = _of_epochs(rows_of(texts, "texts"), count)
    if not named:
        raise DrawingError(
            "texts holds nothing to show: no row has 'epoch' and a 'sample'. Train with --sample 200 or "
            "rnn.CarriedText(..., sample=200)."
        )
    scale = scale_of(theme)
    terminal, body = [], []
    for name, (figures, text) in named.items():
        lines = _wrapped(text, width - 2)
        terminal += [f"\x1b[1m{name}\x1b[0m{figures}", *(f"  {line}" for line in lines), ""]
        body.append(
            f'<p style="margin:1em 0 0.2em"><b>{escape(name)}</b>{escape(figures)}</p>\n'
            f'<pre style="font-family:monospace;line-height:1.35;margin:0;padding-left:0.8em;border-left:3px solid '
            f'{scale.guess};color:{scale.text};background:{scale.paper}">{escape(chr(10).join(lines))}</pre>'
        )
    return TextPage(title, "\n".join(terminal[:-1]), "\n".join(body), theme)


def _of_epochs(rows: Sequence[Mapping[str, Any]], count: int) -> dict[str, tuple[str, str]]:
    """Name -> (score in words, text)"""
    found = {
        math.ceil(row["epoch"]): row
        for row in rows
        if row.get("event") != "step" and is_number(row.get("epoch")) and isinstance(row.get("sample"), str)
    }
    epochs, measures = sorted(found), measures_of(rows)
    unit = measures.unit or ("bits/char" if measures.measure == "bits" else measures.words(measures.measure))
    scores = {
        epoch: float(score)
        for epoch, row in found.items()
        if is_number(score := row.get(measures.validated)) or is_number(score := row.get(measures.trained))
    }
    best = min(scores, key=lambda epoch: (scores[epoch], epoch)) if scores else None
    named = {}
    for epoch in _chosen(epochs, count, best):
        what = "validation" if is_number(found[epoch].get(measures.validated)) else "training"
        figures = f"  {what} {scores[epoch]:.3f} {unit}" if epoch in scores else ""
        name = f"epoch {epoch}" if epoch else "before training"
        named[name] = (
            figures + ("  (best)" if epoch == best and len(scores) > 1 else ""),
            str(found[epoch]["sample"]),
        )
    return named


def _chosen(epochs: Sequence[int], count: int, best: int | None) -> list[int]:
    """At most `count` epochs: the first, the last, the best, and others at equal ratios between them."""
    if len(epochs) <= count:
        return list(epochs)
    kept = {epochs[-1]} if count == 1 else {epochs[0], epochs[-1]}
    if best is not None and len(kept) < count:
        kept.add(best)
    size = count
    while len(kept) < count:
        places = np.unique(np.round(np.geomspace(1, len(epochs), size)).astype(int) - 1)
        for place in places:
            if len(kept) < count:
                kept.add(epochs[place])
        size += 1
    return sorted(kept)


def _wrapped(text: str, width: int) -> list[str]:
    lines = []
    for line in text.split("\n"):
        safe = "".join(map(visible, line))
        lines += [safe[i : i + width] for i in range(0, len(safe), width)] or [""]
    return lines
