"""Checks of output files, before any work is done.

Folders must exist (a typo creates none). An output is not an input or another output, and has the suffix of its format.
Formats that people also write by hand are overwritten only if a command has written the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphnet.system.files import kind_of
from graphnet_rnn.errors import UsageError

#: Suffixes of charts, of pictures of graphs, of pages of text, and of records.
CHARTS, PICTURES = (".svg", ".png", ".pdf"), (".svg", ".png", ".pdf", ".dot", ".html", ".tex")
PAGES, RECORDS = (".html", ".svg", ".txt", ".ansi"), (".jsonl",)
#: Marks of our files in formats that people also write by hand. A new kind of output adds its mark here.
OURS = {
    ".txt": (b"\x1b[",),
    ".ansi": (b"\x1b[",),
    ".md": (b"\xc2\xb1 error",),
    ".tex": (b"\\begin{tabular}", b"% Picture by graphnet:"),
    ".csv": (b"\xc2\xb1 error", b"case,step,", b"case,pr", b"predicted_"),
    ".npz": (b"prediction.npy", b"probability.npy"),
    ".parquet": (b"written by\x18\x08graphnet",),  # as Thrift writes the metadata
    ".jsonl": (b'"contexts": [', b'"true_log_p": ', b'"calls": '),  # timelag, debag, control
}
#: Mark of our model files, which are never overwritten by other outputs.
MODEL = b'"graphnet":"{'
#: Bytes at the start (or end) of a file to read for its mark.
HEAD = 1 << 16


def require_apart(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Raises UsageError for an output that is an input or another output; keys are their names in the command."""
    written: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        for name, read in inputs.items():
            if read and _same_file(path, read):
                raise UsageError(f"{option} {path} would overwrite the {name}; name another file.")
        for other, before in written.items():
            if _same_file(path, before):
                raise UsageError(f"{other} and {option} are the same file, {path}; name two different files")
        written[option] = path


def require_ending(
    option: str, path: str | None, endings: Sequence[str] = CHARTS, what: str = "the name of a chart"
) -> None:
    """Raises UsageError, which names the option, for another suffix or a file that cannot be written."""
    if path is None:
        return
    ending = Path(path).suffix.lower()
    if ending not in endings:
        one = endings[0] if len(endings) == 1 else f"one of {', '.join(endings)}"
        raise UsageError(f"{option} {path}: {what} must end in {one}")
    require_file(option, path)
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        if ending == ".parquet":  # its schema is at the end
            file.seek(max(0, os.path.getsize(path) - HEAD))
        head = file.read(HEAD)
    theirs = ending in OURS and not any(mark in head for mark in OURS[ending])
    if head and (theirs or MODEL in head):
        found = "is a graphnet model" if MODEL in head else f"is not a {ending} file of this program"
        raise UsageError(f"{option} {path}: this file already exists and {found}; name another, or remove it")


def require_file(option: str, path: str) -> None:
    """Raises UsageError, which names the option, for a folder, a device, or a missing folder."""
    place = Path(os.path.realpath(path))
    kind = "a folder" if path.endswith(("/", os.sep)) else kind_of(path)
    if kind:
        raise UsageError(f"{option} {path}: this is {kind}; name a file")
    if not place.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {place.parent}; create it first")


def require_folder_of(option: str, path: str, mark: str) -> None:
    """Raises UsageError for a folder that is not empty and lacks this file."""
    if os.path.isdir(path) and os.listdir(path) and not os.path.isfile(os.path.join(path, mark)):
        raise UsageError(
            f"{option} {path}: this folder already exists and contains no {mark}; name another, or an empty one"
        )


def write_rows(path: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as lines of JSON, and prints the path."""
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"wrote {path}")


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)  # by another link, too
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
