"""Where commands write: a file into a folder that is there (a typo makes none); a folder is made, with all above it.

No output is an input or another output; its ending fits what is written; and a file that is there already is replaced
only by one of its kind. Checked before any work is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from graphnet.system.files import kind_of
from graphnet_rnn.errors import ModelFileError, UsageError
from graphnet_rnn.files.tensor_file import read_tensor_file
from graphnet_rnn.formats.model_file import KEY, read_model_file

__all__ = [
    "CHARTS",
    "PAGES",
    "PICTURES",
    "RECORDS",
    "require_apart",
    "require_ending",
    "require_file",
    "require_folder",
    "require_folder_of",
    "require_no_model",
    "require_no_network_of_text",
]  # fmt: skip

#: The endings of charts, of pictures of graphs, of pages of text, and of records.
CHARTS, PICTURES = (".svg", ".png", ".pdf"), (".svg", ".png", ".pdf", ".dot", ".html")
PAGES, RECORDS = (".html", ".svg", ".txt", ".ansi"), (".jsonl",)
#: So much of a file says of what kind it is.
HEAD = 1 << 16


def _colours(head: bytes) -> bool:
    return b"\x1b[" in head  # a text of the user's has none


def _page(head: bytes) -> bool:
    return any(mark in head.lower() for mark in (b"<!doctype html", b"<html"))


def _record(head: bytes) -> bool:
    return not head.startswith(
        b'{"event": "start"'
    )  # as the history of training on a text does; rows are added


#: Of each ending, whether a file begins as one of ours does.
KINDS: dict[str, Callable[[bytes], bool]] = {
    ".svg": lambda head: b"<svg" in head,
    ".png": lambda head: head.startswith(b"\x89PNG"),
    ".pdf": lambda head: head.startswith(b"%PDF-"),
    ".dot": lambda head: b"graph " in head and b"{" in head,
    ".html": _page,
    ".txt": _colours,
    ".ansi": _colours,
    ".md": lambda head: b"\n| --- |" in head and b"\xc2\xb1 error" in head,
    ".tex": lambda head: head.startswith(b"\\begin{tabular}"),
    ".csv": lambda head: b"\xc2\xb1 error" in head.split(b"\n")[0] or head.startswith(b"case,step,pr"),
    ".npz": lambda head: head[30:].startswith((b"prediction.npy", b"probability.npy")),
    ".jsonl": _record,
    ".onnx": lambda head: head.startswith(b"\x08"),
    ".safetensors": lambda head: head[8:9] == b"{",
}


def require_apart(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """UsageError for an output that is an input or another output; both by what the command calls them."""
    written: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        for name, read in inputs.items():
            if read is not None and _same_file(path, read):
                raise UsageError(f"{option} {path} would overwrite the {name}; name another file.")
        for other, before in written.items():
            if _same_file(path, before):
                raise UsageError(f"{other} and {option} are the same file, {path}; name two")
        written[option] = path


def require_ending(
    option: str, path: str, endings: Sequence[str] = CHARTS, what: str = "the name of a chart"
) -> None:
    """UsageError, which names the option, for a file that cannot be written in its format, or not there."""
    ending = Path(path).suffix.lower()
    if ending not in endings:
        one = endings[0] if len(endings) == 1 else f"one of {', '.join(endings)}"
        raise UsageError(f"{option} {path}: {what} must end in {one}")
    require_file(option, path)
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{option} {path}: it cannot be read: {error.strerror}; name another file") from None
    if head and not KINDS[ending](head):
        raise _other_kind(option, path, f"is not such a {ending} as this command writes")


def require_no_model(option: str, path: str) -> None:
    """UsageError for a file that is there, and is a model of ours: an export does not replace it."""
    if _has_content(path) and KEY in _texts(option, path):
        raise _other_kind(option, path, "is a graphnet model")


def require_no_network_of_text(option: str, path: str) -> None:
    """UsageError for a file that is there, and is no model of a task: one of a text, or a checkpoint."""
    if not _has_content(path):
        return
    try:
        file = read_model_file(path)
    except ModelFileError:
        raise _other_kind(option, path, "is not a graphnet model") from None
    if file.description.get("vocabulary") is not None:
        raise _other_kind(option, path, "is a model that was trained on text")
    if "training" in file.description:
        raise _other_kind(option, path, "is a checkpoint")


def _texts(option: str, path: str) -> Mapping[str, str]:
    try:
        return read_tensor_file(path, "is no safetensors file").texts
    except ModelFileError:
        raise _other_kind(option, path, "is no whole safetensors file") from None


def _has_content(path: str) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > 0


def _other_kind(option: str, path: str, found: str) -> UsageError:
    return UsageError(f"{option} {path}: this file is there already, and {found}; name another, or remove it")


def require_file(option: str, path: str) -> None:
    """UsageError, which names the option, for what is no file (a folder, a device), or in no folder that there is."""
    place = Path(os.path.realpath(path))
    kind = kind_of(path)
    if kind:
        raise UsageError(f"{option} {path}: this is {kind}; name a file")
    if path.endswith(("/", os.sep)):
        raise UsageError(f"{option} {path}: a name that ends in {path[-1]} is that of a folder; leave it out")
    if not place.parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {place.parent}; make it first")


def require_folder(option: str, path: str) -> None:
    """UsageError, which names the option, for a folder that cannot be made, as a file is in its way."""
    place = Path(os.path.realpath(path))
    found = next(
        (p for p in (place, *place.parents) if p.exists() or p.is_symlink()), Path(place.anchor or ".")
    )
    if not found.is_dir():
        raise UsageError(f"{option} {path}: {found} is no folder; name another")


def require_folder_of(option: str, path: str, mark: str) -> None:
    """The same, and UsageError for one that holds something else than what has this file in it."""
    require_folder(option, path)
    if os.path.isdir(path) and os.listdir(path) and not os.path.isfile(os.path.join(path, mark)):
        raise UsageError(
            f"{option} {path}: this folder is there already, and has no {mark} in it; name another, or an empty one"
        )


def _same_file(one: str, other: str) -> bool:
    """Whether two names lead to one file, which need not be there."""
    try:
        return os.path.samefile(one, other)  # by another link, too
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
